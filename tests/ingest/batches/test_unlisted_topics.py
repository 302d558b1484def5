"""What is known of a table in a topic that a driver cannot see at first counts once the topic is there."""

from collections import Counter

import pytest
from structlog.testing import capture_logs

from support.pipelines import Pipeline
from support.two_topics import (
    FIRST,
    SECOND,
    change,
    configured,
    holes_of,
    later,
    retention_takes,
    token_expires,
)


@pytest.mark.parametrize("comes", [False, True])
@pytest.mark.parametrize("on_hole", ["halt", "backfill", "accept"])
def test_a_topic_that_is_listed_later_goes_on_where_its_marks_say(on_hole, comes):
    pipeline = Pipeline(configured(on_hole))
    pipeline.send(change(FIRST, 0, "b"), *(change(SECOND, offset, "b") for offset in range(3)))
    later(pipeline, 2)
    token_expires(pipeline, "shop.b")
    pipeline.broker.unlisted = {SECOND}
    with capture_logs() as said:
        pipeline.start()
        pipeline.minute()
        pipeline.broker.unlisted = set()
        later(pipeline, 1)
        if comes:
            pipeline.send(change(SECOND, 3, "b"))
        later(pipeline)

    assert Counter(pipeline.lake.tables["shop.b"].rows) == Counter(
        [(FIRST, 0, 0), *((SECOND, 0, offset) for offset in range(3 + comes))]
    )
    assert holes_of(said, "shop.b") == []


@pytest.mark.parametrize("marks_lost", [False, True])
@pytest.mark.parametrize("hidden", ["nothing", "the topic", "the table"])
def test_what_retention_takes_of_a_table_that_is_behind_halts_it_whatever_was_hidden_at_first(
    hidden, marks_lost
):
    pipeline = Pipeline(configured("halt"))
    first = SECOND if hidden == "the table" else FIRST
    pipeline.send(change(first, 0, "b"), change(SECOND, 0 if first == FIRST else 1, "b"))
    pipeline.send(change(SECOND, 2, "a"))
    pipeline.minute()
    pipeline.errors["shop.b"] = OSError("its store is away")
    pipeline.send(change(SECOND, 3, "b"), *(change(SECOND, offset, "a") for offset in range(4, 10)))
    pipeline.minute()
    retention_takes(pipeline, SECOND, 5)
    if marks_lost:
        pipeline.store.clear()
    pipeline.broker.unlisted = {SECOND} if hidden == "the topic" else set()
    pipeline.lake.unreadable = {"shop.b"} if hidden == "the table" else set()
    pipeline.errors.clear()
    pipeline.start()
    pipeline.minute()
    pipeline.broker.unlisted = pipeline.lake.unreadable = set()
    later(pipeline, 1)
    pipeline.send(change(SECOND, 10, "b"))
    later(pipeline)

    assert pipeline.is_left_out("b")
    assert max(offset for _, _, offset in pipeline.lake.tables["shop.b"].rows) < 3


LEADERS = [
    ("leader away, then rollback", {1}),
    ("rollback, then leader away", {1}),
    ("all leaders away, and a rollback", {0, 1}),
]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("expires", [False, True])
@pytest.mark.parametrize("on_hole", ["halt", "backfill"])
@pytest.mark.parametrize(("order", "away"), LEADERS, ids=[order for order, _ in LEADERS])
def test_a_look_that_cannot_judge_a_hole_ends_no_halt_and_hides_no_rollback(
    on_hole, expires, restarts, order, away
):
    """The partition from which rows are gone has no leader meanwhile; then the token may go as well."""
    pipeline = Pipeline(configured(on_hole))
    pipeline.send(*(change(FIRST, number, "b", part) for part in (0, 1) for number in range(3)))
    later(pipeline, 2)
    table = pipeline.lake.tables["shop.b"]
    early = dict(table.has), list(table.rows), dict(table.ids)
    pipeline.send(*(change(FIRST, number, "b", 1) for number in range(3, 6)))
    later(pipeline, 2)

    def rolled_back():
        table.has, table.rows, table.ids = dict(early[0]), list(early[1]), dict(early[2])
        pipeline.outbox.noticed = {"shop.b"}

    if order.startswith("rollback"):
        rolled_back()
        later(pipeline, 2)
    pipeline.broker.without_leader = {(FIRST, part) for part in away}
    if not order.startswith("rollback"):
        rolled_back()
    later(pipeline, 3)
    if expires:
        token_expires(pipeline, "shop.b")
    if restarts:
        pipeline.start(configured(on_hole))
        later(pipeline, 1)
    pipeline.broker.without_leader = set()
    later(pipeline, 30)  # nobody sends anything

    assert pipeline.is_left_out("b") or len(set(table.rows)) == 9
    assert pipeline.is_left_out("b") or on_hole == "backfill"
    assert Counter(table.rows).most_common(1)[0][1] == 1
    pipeline.driver.stop()


def test_a_table_that_was_rolled_back_while_none_of_its_topics_was_listed_is_halted_once_they_are():
    pipeline = Pipeline(configured("halt"))
    pipeline.send(*(change(FIRST, number, "b") for number in range(3)))
    later(pipeline, 2)
    table = pipeline.lake.tables["shop.b"]
    early = dict(table.has), list(table.rows), dict(table.ids)
    pipeline.send(*(change(FIRST, number, "b") for number in range(3, 6)))
    later(pipeline, 2)
    pipeline.broker.unlisted = {FIRST}
    later(pipeline, 1)
    table.has, table.rows, table.ids = early
    pipeline.outbox.noticed = {"shop.b"}
    later(pipeline, 2)
    token_expires(pipeline, "shop.b")
    pipeline.broker.unlisted = set()
    later(pipeline, 10)

    assert pipeline.is_left_out("b")
    pipeline.driver.stop()
