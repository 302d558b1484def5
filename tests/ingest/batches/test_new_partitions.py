"""Partitions that come later, or get their leader later, are read behind the old ones; what is not multiplied is told."""

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from isotherm_ingest.failures import TableRefused
from support.messages import Message, envelope
from support.pipelines import CONFIG, ORDERS, Pipeline, messages


@pytest.mark.parametrize(("more", "told"), [(1, [(2, 3)]), (2, [])])
def test_partitions_that_are_not_multiplied_are_told(pipeline, more, told):
    """A key moves from one that was there to another then, and nobody knows which of its changes is the newer one."""
    pipeline.send(*messages(ORDERS, 0), *messages(ORDERS, 0, partition=1))
    pipeline.minute()
    for number in range(more):
        pipeline.send(*messages(ORDERS, 0, partition=2 + number))
    with capture_logs() as said:
        pipeline.minute()

    found = [(one["was"], one["now"]) for one in said if one["event"] == "partitions_not_multiplied"]
    assert found == told
    count = pipeline.sample("holes_total", table="shop.{table}", why="partitions_not_multiplied")
    assert count == (1 if told else None)


def test_a_partition_without_a_leader_at_the_start_goes_on_at_its_mark(pipeline):
    nameless = {"schema": 8, "value": '{"schema": {}, "payload": {"op": "c"}}'}
    pipeline.send(*messages(ORDERS, 0), *messages(ORDERS, 0, partition=1, **nameless))
    pipeline.minute()
    pipeline.broker.without_leader = {(ORDERS, 1)}
    pipeline.start()
    pipeline.minute()
    pipeline.broker.without_leader = set()
    pipeline.send(*messages(ORDERS, 1), *messages(ORDERS, 1, partition=1))
    pipeline.minute()

    assert pipeline.rows("orders") == [0, 1, 1]
    assert len(pipeline.dead_letters.sent) == 1


@pytest.mark.parametrize("marks_are_lost", [False, True])
def test_partitions_that_came_while_no_driver_ran_wait_for_the_old_ones(pipeline, marks_are_lost):
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, *range(1, 20)), *messages(ORDERS, 0, partition=1))
    if marks_are_lost:
        pipeline.store.clear()
    pipeline.start()
    pipeline.now_s += 60
    pipeline.turn()
    assert (ORDERS, 1, 0) not in pipeline.lake.tables["shop.orders"].rows

    pipeline.minute()
    pipeline.minute()
    assert pipeline.lake.tables["shop.orders"].rows[-1] == (ORDERS, 1, 0)


@pytest.mark.parametrize("was_written", [True, False])
def test_a_table_that_is_behind_reads_old_partitions_before_those_that_came_later(pipeline, was_written):
    """A key may have moved to a new one, and its older changes must not come after that."""
    if was_written:
        pipeline.send(*messages(ORDERS, 0))
        pipeline.minute()
    pipeline.errors["shop.orders"] = RuntimeError("broken")
    old = messages(ORDERS, *range(was_written, 9))
    pipeline.send(*old)
    pipeline.minute()
    new = [replace(one, partition=1) for one in messages(ORDERS, *range(9))]
    for one in new[:6]:
        pipeline.send(one)
        pipeline.minute()
    pipeline.errors.clear()
    for one in new[6:]:
        pipeline.now_s += 300
        pipeline.send(one)
        pipeline.minute()

    rows = pipeline.lake.tables["shop.orders"].rows
    assert sorted(rows) == sorted((ORDERS, number, offset) for number in (0, 1) for offset in range(9))
    assert rows == sorted(rows)


def test_a_table_that_is_behind_is_given_no_new_partition_by_the_batches_of_the_others(pipeline):
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.errors["shop.orders"] = RuntimeError("broken")
    pipeline.send(*messages(ORDERS, 1, 2))
    pipeline.minute()
    pipeline.errors.clear()
    pipeline.now_s += 300
    pipeline.send(*messages(ORDERS, 0, partition=1))
    pipeline.minute()

    assert pipeline.lake.tables["shop.orders"].rows == [
        (ORDERS, 0, 0),
        (ORDERS, 0, 1),
        (ORDERS, 0, 2),
        (ORDERS, 1, 0),
    ]


def test_offsets_of_the_topic_before_say_nothing_of_a_partition_that_gets_its_leader_later(pipeline):
    pipeline.start(CONFIG.replace("table}", 'table}", on_hole: "backfill'))
    pipeline.send(*messages(ORDERS, 0), *messages(ORDERS, 0, 1, 2, partition=1, schema=0))
    pipeline.minute()
    pipeline.broker.ids[ORDERS] = "another id"
    pipeline.session.kafka[:] = [*messages(ORDERS, 0, 1), *messages(ORDERS, 0, 1, 2, partition=1)]
    pipeline.broker.without_leader = {(ORDERS, 1)}
    pipeline.minute()
    pipeline.broker.without_leader = set()
    pipeline.send(*messages(ORDERS, 3, partition=1))
    pipeline.minute()
    pipeline.minute()

    rows = pipeline.lake.tables["shop.orders"].rows
    assert [offset for _, partition, offset in rows if partition == 1] == [0, 1, 2, 3]


def lose(pipeline, position, below):
    """Retention passes."""
    pipeline.broker.kept_from[position] = below
    pipeline.session.kafka[:] = [
        one for one in pipeline.session.kafka if (one.topic, one.partition) != position or one.offset >= below
    ]


@pytest.mark.parametrize("restart", [False, True])
def test_what_kafka_dropped_of_a_new_partition_while_its_table_was_left_out_is_told(pipeline, restart):
    pipeline.send(*messages(ORDERS, 0, 1))
    pipeline.minute()
    pipeline.errors["shop.orders"] = TableRefused("a person must look")
    pipeline.send(*messages(ORDERS, 0, 1, 2, 3, partition=1))
    pipeline.minute()
    lose(pipeline, (ORDERS, 1), 3)
    pipeline.errors.clear()
    if restart:
        pipeline.start()
    pipeline.minute()
    pipeline.minute()

    assert pipeline.is_left_out("orders")
    assert pipeline.sample("holes_total", table="shop.orders", why="retention") >= 1


@pytest.mark.parametrize("runs", [False, True])
def test_what_kafka_dropped_of_a_new_partition_before_anybody_read_it_is_told(pipeline, runs):
    """It begins at 0, whenever it is seen first."""
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 0, 1, 2, 3, partition=1))
    lose(pipeline, (ORDERS, 1), 3)
    with capture_logs() as said:
        if not runs:
            pipeline.start()
        pipeline.minute()

    assert [(one["topic"], one["hole"]) for one in said if one["event"] == "changes_missing"] == [
        (ORDERS, f"retention ({ORDERS}/1: needs 0, could go on from 3)")
    ]
    assert pipeline.sample("holes_total", table="shop.orders", why="retention") == 1
    assert sorted(pipeline.lake.tables["shop.orders"].rows) == [(ORDERS, 0, 0), (ORDERS, 1, 3)]


@pytest.mark.parametrize("restart", [False, True])
def test_what_kafka_dropped_of_a_partition_that_waits_is_told_of_each_table_that_says_nothing_of_it(restart):
    """Of one it was noted where the partition began; the other one's changes were lost with it, and nobody said so."""
    pipeline = Pipeline(CONFIG.replace('table}"', 'table}", mode: changelog, on_hole: accept'))
    schemas = {"a": 11, "b": 12}

    def change(table, offset, partition=0):
        value = envelope(table, ("id", "int64"))
        return Message(ORDERS, offset, partition, schema=schemas[table], value=value)

    pipeline.send(change("a", 0), change("b", 1))
    pipeline.minute()
    pipeline.start()
    pipeline.broker.empty = {(ORDERS, 0)}
    pipeline.send(*(change("a", offset) for offset in range(2, 40)))
    pipeline.now_s += 60
    pipeline.turn()
    pipeline.send(change("a", 0, 1), change("b", 1, 1), change("a", 2, 1), change("b", 6, 1))
    pipeline.now_s += 12
    pipeline.turn()
    assert set(pipeline.store[ORDERS, 1].tables) == {"shop.a"}
    lose(pipeline, (ORDERS, 1), 3)
    if restart:
        pipeline.start()
    pipeline.recovers()
    pipeline.driver.stop()

    assert pipeline.sample("holes_total", table="shop.a", why="retention") == 1
    assert pipeline.sample("holes_total", table="shop.b", why="retention") == 1


@pytest.mark.parametrize("marks_are_lost", [False, True])
def test_what_kafka_had_dropped_before_ingest_heard_of_a_topic_is_not_told(pipeline, marks_are_lost):
    """A partition of it may have no leader then, and no mark, and be no new one."""
    pipeline.send(*messages(ORDERS, 0), *messages(ORDERS, 3, partition=1))
    pipeline.broker.kept_from[ORDERS, 1] = 3
    pipeline.broker.without_leader = {(ORDERS, 1)}
    with capture_logs() as said:
        pipeline.minute()
        if marks_are_lost:
            pipeline.store.clear()
            pipeline.start()
        pipeline.broker.without_leader = set()
        pipeline.minute()

    assert "changes_missing" not in [one["event"] for one in said]
    assert pipeline.rows("orders") == [0, 3]


@pytest.mark.parametrize("is_empty_at_first", [True, False])
def test_a_new_partition_is_read_though_the_old_ones_go_on_for_ever(pipeline, is_empty_at_first):
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    if is_empty_at_first:
        pipeline.broker.empty = {(ORDERS, 1)}
        pipeline.minute()
    pipeline.send(*messages(ORDERS, 0, partition=1))
    for number in range(1, 6):
        pipeline.send(*messages(ORDERS, number))
        pipeline.minute()

    assert (ORDERS, 1, 0) in pipeline.lake.tables["shop.orders"].rows
