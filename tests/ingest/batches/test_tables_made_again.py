"""A table that was made again while one of its topics cannot be seen lacks what that one brought: it is told, and brought where it may be."""

from collections import Counter

import pytest
from structlog.testing import capture_logs

from support.pipelines import Pipeline
from support.two_topics import FIRST, SECOND, change, configured, holes_of, later, retention_takes


@pytest.mark.parametrize("retention", [False, True])
@pytest.mark.parametrize("hidden", [FIRST, SECOND])
@pytest.mark.parametrize("how", ["at first", "later", "no leader"])
def test_what_a_table_that_was_made_again_lacks_of_a_topic_that_nobody_sees_is_brought_once_it_is_there(
    how, hidden, retention
):
    """No message has to come for it, and what Kafka drops before is told."""
    pipeline = Pipeline(configured("backfill"))
    pipeline.send(*(change(topic, offset, "b") for topic in (FIRST, SECOND) for offset in range(3)))
    later(pipeline, 2)
    with capture_logs() as said:
        pipeline.broker.unlisted = set() if how == "no leader" else {hidden}
        pipeline.broker.without_leader = {(hidden, 0)} if how == "no leader" else set()
        if how == "at first":
            pipeline.start()
        later(pipeline, 1)
        del pipeline.lake.tables["shop.b"]
        later(pipeline, 3)
        pipeline.send(change(SECOND if hidden == FIRST else FIRST, 3, "b"))
        later(pipeline, 3)
        if retention:
            retention_takes(pipeline, hidden, 2)
        pipeline.broker.unlisted, pipeline.broker.without_leader = set(), set()
        later(pipeline)

    rows = Counter(pipeline.lake.tables["shop.b"].rows)
    assert {one: count for one, count in rows.items() if one[0] == hidden} == {
        (hidden, 0, offset): 1 for offset in range(2 if retention else 0, 3)
    }
    assert not pipeline.is_left_out("b")
    assert any(hidden in hole for hole in holes_of(said, "shop.b")) or not retention


@pytest.mark.parametrize("retention", [False, True])
@pytest.mark.parametrize("hidden", [FIRST, SECOND])
@pytest.mark.parametrize("on_hole", ["backfill", "accept"])
def test_a_table_that_was_made_again_while_a_topic_was_not_listed_is_told_by_a_driver_that_begins(
    on_hole, hidden, retention
):
    """The marks of that topic name the table before it. What is told is filled, or passed over, as the stream says."""
    pipeline = Pipeline(configured(on_hole))
    pipeline.send(*(change(topic, offset, "b") for topic in (FIRST, SECOND) for offset in range(3)))
    pipeline.send(*(change(topic, 3, "a") for topic in (FIRST, SECOND)))
    later(pipeline, 2)
    pipeline.broker.unlisted = {hidden}
    pipeline.start()
    later(pipeline, 1)
    del pipeline.lake.tables["shop.b"]
    pipeline.send(change(SECOND if hidden == FIRST else FIRST, 4, "b"))
    later(pipeline, 3)
    if retention:
        retention_takes(pipeline, hidden, 2)
    pipeline.broker.unlisted = set()
    with capture_logs() as said:
        pipeline.start()
        later(pipeline)
        pipeline.send(change(hidden, 4, "b"))
        later(pipeline)

    rows = Counter(pipeline.lake.tables["shop.b"].rows)
    kept = range(2 if retention else 0, 3) if on_hole == "backfill" else ()
    assert {one for one in rows if one[0] == hidden} == {(hidden, 0, offset) for offset in (*kept, 4)}
    assert max(rows.values()) == 1
    assert any("table_made_again" in hole and hidden in hole for hole in holes_of(said, "shop.b"))


@pytest.mark.parametrize("on_hole", ["backfill", "accept"])
@pytest.mark.parametrize("hidden", [FIRST, SECOND])
def test_what_a_table_was_seen_through_to_in_the_listed_topic_counts_whichever_topic_sorts_first(
    on_hole, hidden
):
    """The marks of the other one name the table before it, and retention passes what was none of the table's."""
    listed = SECOND if hidden == FIRST else FIRST
    pipeline = Pipeline(configured(on_hole))
    pipeline.send(*(change(topic, offset, "b") for topic in (FIRST, SECOND) for offset in range(3)))
    later(pipeline, 2)
    pipeline.broker.unlisted = {hidden}
    pipeline.start()
    later(pipeline, 1)
    del pipeline.lake.tables["shop.b"]
    pipeline.send(change(listed, 3, "b"))
    later(pipeline, 3)
    pipeline.send(*(change(listed, offset, "a") for offset in range(4, 10)))
    later(pipeline, 3)
    retention_takes(pipeline, listed, 6)
    pipeline.broker.unlisted = set()
    with capture_logs() as said:
        pipeline.start()
        later(pipeline)
        pipeline.send(change(listed, 10, "b"), change(hidden, 3, "b"))
        later(pipeline)

    rows = Counter(pipeline.lake.tables["shop.b"].rows)
    assert not pipeline.is_left_out("b")
    assert (listed, 0, 10) in rows
    assert {offset for topic, _, offset in rows if topic == hidden} == (
        {0, 1, 2, 3} if on_hole == "backfill" else {3}
    )
    assert max(rows.values()) == 1
    assert not [hole for hole in holes_of(said, "shop.b") if listed in hole]


@pytest.mark.parametrize(("there", "away"), [(FIRST, SECOND), (SECOND, FIRST)])
def test_a_table_that_was_made_again_is_brought_all_topics_though_its_first_slice_held_nothing(there, away):
    """The mark of the listed topic names the new table, which has nothing of it yet; the other one the table before."""
    pipeline = Pipeline(configured("backfill"))
    pipeline.send(*(change(away, number, "b") for number in range(3)))
    pipeline.send(*(change(there, number, "a" if number < 8 else "b") for number in range(12)))
    later(pipeline, 3)
    pipeline.broker.unlisted = {away}
    later(pipeline, 2)
    del pipeline.lake.tables["shop.b"]
    pipeline.outbox.noticed = {"shop.b"}
    pipeline.now_s += 130
    pipeline.turn()
    pipeline.turn()

    pipeline.broker.unlisted = set()
    pipeline.start(configured("backfill"))
    later(pipeline, 20)

    rows = pipeline.lake.tables["shop.b"].rows
    assert (len(rows), len(set(rows))) == (7, 7)
    pipeline.driver.stop()
