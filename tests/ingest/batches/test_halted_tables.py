"""What a table has, and was seen through to, counts though it was halted, and for no other topic or table."""

from collections import Counter
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from support.pipelines import Pipeline
from support.two_topics import FIRST, SECOND, change, configured, later, retention_takes, token_expires


class Killed(BaseException):
    """The driver ends here."""


def test_what_a_halted_table_says_that_it_has_counts_once_its_token_is_gone():
    """The driver before died between the table's commit and its mark."""
    pipeline = Pipeline(configured("halt"))
    pipeline.send(change(FIRST, 0, "b"))
    pipeline.minute()
    pipeline.send(change(SECOND, 0, "b"))
    write = pipeline.marks.write

    def killed_once_it_has_it(marks):
        if marks and pipeline.lake.tables["shop.b"].has.get((SECOND, 0)):
            raise Killed
        yield from write(marks)

    pipeline.marks.write = killed_once_it_has_it
    with suppress(Killed):
        pipeline.minute()
    pipeline.driver.stop()
    pipeline.send(change(FIRST, 1, "b"), change(FIRST, 2, "b"))
    retention_takes(pipeline, FIRST, 2)
    pipeline.start()
    later(pipeline, 3)
    assert pipeline.is_left_out("b")
    token_expires(pipeline, "shop.b")
    later(pipeline, 2)
    pipeline.start(configured("accept"))
    later(pipeline)

    assert Counter(pipeline.lake.tables["shop.b"].rows) == Counter(
        [(FIRST, 0, 0), (SECOND, 0, 0), (FIRST, 0, 2)]
    )


@pytest.mark.parametrize("deleted", [True, False])
def test_what_a_halted_table_says_of_a_topic_that_is_not_there_counts_for_no_other_of_its_name(deleted):
    pipeline = Pipeline(configured("halt"))
    pipeline.send(change(FIRST, 0, "b"), *(change(SECOND, offset, "b") for offset in range(8)))
    later(pipeline, 3)
    pipeline.driver.stop()
    pipeline.send(change(FIRST, 1, "b"), change(FIRST, 2, "b"))
    retention_takes(pipeline, FIRST, 2)
    if deleted:
        kafka = pipeline.session.kafka
        kafka[:] = [one for one in kafka if one.topic != SECOND]
        for position in [one for one in pipeline.store if one[0] == SECOND]:
            del pipeline.store[position]
    else:
        pipeline.broker.unlisted = {SECOND}
    with capture_logs() as said:
        pipeline.start()
        later(pipeline, 2)
        assert pipeline.is_left_out("b")
        pipeline.broker.unlisted = set()
        if deleted:
            pipeline.broker.ids[SECOND] = "another id"
            pipeline.send(*(change(SECOND, offset, "a") for offset in range(3)))
        else:
            pipeline.send(change(SECOND, 8, "a"))
        later(pipeline)

    assert [offset for _, _, offset in pipeline.lake.tables["shop.a"].rows] == ([0, 1, 2] if deleted else [8])
    assert not pipeline.is_left_out("a")
    assert not [one for one in said if one["event"] == "topic_cut_back"]


def test_what_a_table_was_seen_through_to_counts_though_it_was_halted_while_its_topic_was_not_listed():
    pipeline = Pipeline(configured("halt"))
    pipeline.send(change(FIRST, 0, "b"), *(change(SECOND, offset, "b") for offset in range(3)))
    later(pipeline, 2)
    pipeline.send(change(SECOND, 3, "a"), change(SECOND, 4, "a"))
    later(pipeline, 2)
    pipeline.driver.stop()
    pipeline.send(change(FIRST, 1, "b"), change(FIRST, 2, "b"))
    retention_takes(pipeline, FIRST, 2)
    pipeline.broker.unlisted = {SECOND}
    with capture_logs() as said:
        pipeline.start()
        later(pipeline, 2)
        retention_takes(pipeline, SECOND, 5)
        pipeline.send(change(SECOND, 5, "a"))
        pipeline.broker.unlisted = set()
        later(pipeline)

    assert not [
        one for one in said if SECOND in one.get("hole", "") or f"retention ({SECOND}" in one.get("error", "")
    ]


@pytest.mark.parametrize(("new", "old"), [(FIRST, SECOND), (SECOND, FIRST)])
def test_that_a_table_was_halted_is_kept_with_the_table_that_is_there(new, old):
    """The mark of the other topic still names the one before it, whichever topic sorts first."""
    pipeline = Pipeline(configured("backfill"))
    pipeline.send(*(change(old, number, "b") for number in range(3)))
    pipeline.send(*(change(new, number, "b") for number in range(3)))
    later(pipeline, 2)
    pipeline.broker.unlisted = {old}
    later(pipeline, 1)
    del pipeline.lake.tables["shop.b"]
    pipeline.outbox.noticed = {"shop.b"}
    later(pipeline, 2)
    pipeline.send(*(change(new, number, "b") for number in range(3, 6)))
    later(pipeline, 2)
    table = pipeline.lake.tables["shop.b"]
    early = dict(table.has), list(table.rows), dict(table.ids)
    pipeline.send(*(change(new, number, "b") for number in range(6, 10)))
    later(pipeline, 2)
    table.has, table.rows, table.ids = early
    pipeline.broker.unlisted = set()
    pipeline.start(configured("halt"))
    later(pipeline, 2)
    assert pipeline.is_left_out("b")

    token_expires(pipeline, "shop.b")
    pipeline.start(configured("backfill"))
    later(pipeline, 5)

    assert pipeline.is_left_out("b") or {offset for topic, _, offset in table.rows if topic == new} == {
        *range(10)
    }
    pipeline.driver.stop()


def test_what_was_in_doubt_of_a_topic_that_another_table_has_by_now_is_nobody_s_doubt():
    """A person has split the stream after the halt; the table is not looked at in each turn for it."""
    pipeline = Pipeline(configured("halt"))
    for topic in (FIRST, SECOND):
        pipeline.send(*(change(topic, number, "b") for number in range(3)))
    later(pipeline, 2)
    table = pipeline.lake.tables["shop.b"]
    early = dict(table.has), list(table.rows), dict(table.ids)
    pipeline.send(*(change(FIRST, number, "b") for number in range(3, 6)))
    later(pipeline, 2)
    table.has, table.rows, table.ids = early
    pipeline.outbox.noticed = {"shop.b"}
    later(pipeline, 2)
    assert pipeline.is_left_out("b")

    one = 'table: "shop.{table}", mode: changelog, on_hole: backfill'
    split = configured("backfill").partition("streams:")[0] + (
        f"streams: [{{topics: 'shop\\.public\\.s1', {one}}}, "
        f"{{topics: 'shop\\.public\\.s2', {one.replace('shop.{', 'other.{')}}}]\n"
    )
    pipeline.start(split)
    later(pipeline, 4)
    asked = pipeline.lake.asked
    for _ in range(20):
        pipeline.now_s += 5
        pipeline.turn()

    assert pipeline.lake.asked == asked
    assert not pipeline.is_left_out("b")
    assert {offset for topic, _, offset in table.rows if topic == FIRST} == {*range(6)}
    pipeline.driver.stop()
