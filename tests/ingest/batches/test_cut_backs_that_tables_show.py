"""A cut of a topic that no mark tells of is seen by what a table has, and marked before anything is written behind it."""

import pytest
from structlog.testing import capture_logs

from isotherm_ingest.mark_text import Mark
from isotherm_ingest.tables.offset_vector import Source
from support.cut_backs import after_it, begun, cut, minutes, says, whys
from support.messages import envelope
from support.pipelines import ORDERS, messages


@pytest.mark.parametrize("marks", ["lost", "old"])
def test_a_driver_that_begins_without_its_newest_marks_sees_the_cut_by_what_the_table_has(marks):
    """What cut the topic may have cut the marks, too."""
    pipeline = begun("halt")
    old = pipeline.store[ORDERS, 0]
    cut(pipeline, 6)
    del pipeline.store[ORDERS, 0]
    if marks == "old":
        tables = {name: (uuid, 3, 3) for name, (uuid, *_) in old.tables.items()}
        pipeline.store[ORDERS, 0] = Mark(3, old.topic_id, tables)
    pipeline.start()
    pipeline.minute()
    pipeline.send(*messages(ORDERS, *range(6, 15)))
    minutes(pipeline)
    assert (after_it(pipeline), pipeline.is_left_out("orders")) == ([], True)

    pipeline.start(says("accept"))
    minutes(pipeline)
    assert after_it(pipeline) == [*range(6, 15)]


@pytest.mark.parametrize("how", ["backfill", "accept"])
def test_a_table_that_has_written_behind_a_cut_which_no_mark_tells_of_outgrows_that(how):
    """Power fails: the marks are those of before, and know of an earlier cut only."""
    pipeline = begun(how)
    cut(pipeline, 6)
    pipeline.minute()
    pipeline.send(*messages(ORDERS, *range(6, 20)))
    minutes(pipeline)
    old = pipeline.store[ORDERS, 0]
    cut(pipeline, 18)
    minutes(pipeline)
    pipeline.send(*messages(ORDERS, *range(18, 28)))
    minutes(pipeline)
    pipeline.store[ORDERS, 0] = old
    pipeline.start()
    pipeline.send(*messages(ORDERS, *range(28, 35)))
    minutes(pipeline)
    pipeline.start()
    minutes(pipeline)

    assert after_it(pipeline) == [*range(6, 20), *range(18, 35)]
    assert pipeline.lake.tables["shop.orders"].has == {(ORDERS, 0): 35}


def test_a_cut_has_a_later_time_than_all_that_a_table_knows_of_though_marks_are_lost_and_the_clock_is_set_back():
    pipeline = begun("halt")
    pipeline.lake.tables["shop.orders"].cuts = {(ORDERS, 0): 10**15}
    del pipeline.store[ORDERS, 0]
    pipeline.start()
    minutes(pipeline)
    cut(pipeline, 6)
    pipeline.minute()
    pipeline.send(*messages(ORDERS, *range(6, 15)))
    minutes(pipeline)

    assert pipeline.store[ORDERS, 0].cuts[-1].seen_ms > 10**15
    assert (after_it(pipeline), pipeline.is_left_out("orders")) == ([], True)


@pytest.mark.parametrize("marks", ["old", "lost"])
def test_a_cut_that_only_a_table_shows_is_marked_before_the_driver_has_begun(marks):
    """Power fails: the table has more than the marks say. The driver ends in its first turn, and the topic grows again."""
    pipeline = begun("halt")
    old = pipeline.store[ORDERS, 0]
    pipeline.send(*messages(ORDERS, *range(10, 20)))
    minutes(pipeline)
    pipeline.store.pop((ORDERS, 0))
    if marks == "old":
        pipeline.store[ORDERS, 0] = old
    cut(pipeline, 15)
    pipeline.start()
    assert [(one.end, one.front) for one in pipeline.store[ORDERS, 0].cuts] == [(15, 20)]

    pipeline.send(*messages(ORDERS, *range(15, 30)))
    pipeline.start()
    minutes(pipeline)
    assert (after_it(pipeline), pipeline.is_left_out("orders")) == ([*range(10, 20)], True)

    pipeline.start(says("accept"))
    minutes(pipeline)
    assert after_it(pipeline) == [*range(10, 20), *range(15, 30)]


def test_a_cut_that_a_table_shows_in_a_batch_is_marked_before_any_table_is_written_behind_it():
    """Another table of the topic, in the same batch, is written once the cut is known to it."""
    pipeline = begun("accept")
    other = {"schema": 8, "value": envelope("other", ("id", "int64"))}
    pipeline.send(*messages(ORDERS, 10, **other))
    minutes(pipeline)
    pipeline.lake.tables["shop.orders"].says(Source({ORDERS: {0: 20}}))
    pipeline.send(*messages(ORDERS, 11, 13), *messages(ORDERS, 12, **other))
    marked = []
    pipeline.session.meanwhile.append(lambda: marked.extend(pipeline.store[ORDERS, 0].cuts))
    pipeline.now_s += 60
    pipeline.turn()
    minutes(pipeline)

    assert [(one.end, one.front) for one in marked] == [(14, 20)]
    table = pipeline.lake.tables["shop.other"]
    assert (pipeline.rows("other"), table.cuts) == ([10, 12], {(ORDERS, 0): marked[0].seen_ms})


def test_what_another_driver_reads_after_the_end_was_asked_is_no_cut():
    """It has taken over, and this one does not know that yet: its end is older than what the table says."""
    pipeline = begun("backfill")
    load, table = pipeline.lake.load, pipeline.lake.tables["shop.orders"]

    def meanwhile(name):
        pipeline.lake.load = load
        pipeline.send(*messages(ORDERS, *range(12, 20)))
        table.rows += [(ORDERS, 0, offset) for offset in range(10, 20)]
        table.says(Source({ORDERS: {0: 20}}, "", table.ids))
        return load(name)

    pipeline.send(*messages(ORDERS, 10, 11))
    pipeline.lake.load = meanwhile
    with capture_logs() as logs:
        minutes(pipeline)

    assert after_it(pipeline) == [*range(10, 20)]
    assert not [one for one in logs if one["event"] in {"topic_cut_back", "changes_missing", "batch_failed"}]


def test_a_table_waits_where_nobody_says_whether_its_topic_was_cut_back():
    pipeline = begun("backfill")
    load, table = pipeline.lake.load, pipeline.lake.tables["shop.orders"]

    def meanwhile(name):
        pipeline.broker.without_leader = {(ORDERS, 0)}
        table.says(Source({ORDERS: {0: 20}}, "", table.ids))
        return load(name)

    pipeline.send(*messages(ORDERS, 10, 11))
    pipeline.lake.load = meanwhile
    with capture_logs() as logs:
        pipeline.minute()
        pipeline.lake.load, pipeline.broker.without_leader = load, set()
        pipeline.send(*messages(ORDERS, *range(12, 25)))
        minutes(pipeline)

    assert [one["error"] for one in logs if one["event"] == "batch_failed"] == [
        f"nobody says where {ORDERS}/0 ends"
    ]
    assert after_it(pipeline) == [*range(20, 25)]
    assert whys(logs) == []
