"""Topics that several tables share, where each table has rows of several topics: a topic for each shard, for instance."""

import random
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from support.messages import Message, envelope
from support.pipelines import CONFIG, Pipeline

SHARDS = ("shop.public.s1", "shop.public.s2")
SCHEMAS = {"a": 11, "b": 12, "c": 13}
STREAMS = CONFIG.replace('table: "shop.{table}"', 'table: "shop.{table}", mode: changelog')


def change(topic, offset, table):
    return Message(topic, offset, schema=SCHEMAS[table], value=envelope(table, ("id", "int64")))


class Killed(BaseException):
    """The process is killed."""


def crash(pipeline, table):
    """The driver dies once this table is to be written, if it is; others of the batch may have been."""
    before = dict(pipeline.errors)
    pipeline.errors[table] = Killed()
    pipeline.now_s += 200
    with suppress(Killed):
        pipeline.turn()
    pipeline.driver.stop()
    pipeline.errors.clear()
    pipeline.errors |= before
    pipeline.start()


def rows_of(pipeline):
    return {name: sorted(table.rows) for name, table in pipeline.lake.tables.items()}


def test_two_tables_that_are_brought_up_side_by_side_get_what_both_topics_hold():
    """Each lacked something of another topic alone. What the other's topic held for it went by, and counted as seen."""
    one, two = SHARDS
    pipeline = Pipeline(STREAMS.replace("messages: 4", "messages: 2"))
    pipeline.send(change(one, 0, "b"), change(two, 0, "a"))
    pipeline.minute()
    pipeline.send(change(one, 1, "a"), change(two, 1, "b"), change(two, 2, "b"))
    for _ in range(3):
        pipeline.minute()

    assert rows_of(pipeline) == {
        "shop.a": [(one, 0, 1), (two, 0, 0)],
        "shop.b": [(one, 0, 0), (two, 0, 1), (two, 0, 2)],
    }


@pytest.mark.parametrize("what", ["a new pipeline", "a new topic", "a new partition"])
def test_a_driver_that_dies_between_two_commits_of_a_first_batch_leaves_nothing_out(what):
    """There was no mark yet, and the next one began where the table is that was committed."""
    pipeline = Pipeline(STREAMS)
    new, partition = SHARDS[0], int(what == "a new partition")
    if what != "a new pipeline":
        pipeline.send(*(change(SHARDS[1 - partition], number, name) for number, name in enumerate("ab")))
        pipeline.minute()
    some = [change(new, number, name) for number, name in enumerate("aba")]
    pipeline.send(*(replace(one, partition=partition) for one in some))
    crash(pipeline, "shop.b")
    assert [one for one in pipeline.lake.tables["shop.a"].rows if one[:2] == (new, partition)]
    pipeline.recovers()
    pipeline.driver.stop()

    found = [one for one in rows_of(pipeline)["shop.b"] if one[:2] == (new, partition)]
    assert found == [(new, partition, 1)]


@pytest.mark.parametrize("kept_from", [100, 201])
def test_a_new_table_is_brought_up_while_retention_goes_on_and_halts_where_that_takes_its_own(kept_from):
    """The front has been where it is brought up from, and had nothing for it up to its first message."""
    topic = SHARDS[0]
    pipeline = Pipeline(STREAMS.replace("messages: 4", "messages: 20"))
    pipeline.send(*(change(topic, offset, "a") for offset in range(200)))
    pipeline.minute()
    pipeline.send(change(topic, 200, "b"))
    if kept_from > 200:
        pipeline.errors["shop.b"] = OSError("broken")
    pipeline.now_s += 60
    pipeline.turn()
    pipeline.broker.kept_from[topic, 0] = kept_from
    pipeline.session.kafka[:] = [one for one in pipeline.session.kafka if one.offset >= kept_from]
    pipeline.send(change(topic, 201, "b"))
    pipeline.recovers()
    pipeline.driver.stop()

    assert pipeline.is_left_out("b") is (kept_from > 200)
    expected = [] if kept_from > 200 else [(topic, 0, 200), (topic, 0, 201)]
    assert rows_of(pipeline).get("shop.b", []) == expected
    assert pipeline.sample("holes_total", table="shop.b", why="retention") >= 1


@pytest.mark.parametrize("marks_are_lost", [False, True])
def test_what_retention_took_while_no_driver_ran_halts_the_table_also_where_the_marks_are_lost(
    marks_are_lost,
):
    """Kafka keeps offsets for a week, and often messages too. The table is no new one, though nothing is known of it."""
    topic = SHARDS[0]
    pipeline = Pipeline(STREAMS.replace("messages: 4", "messages: 100"))
    pipeline.send(*(change(topic, offset, "a") for offset in range(10)))
    pipeline.minute()
    pipeline.send(*(change(topic, offset, "a") for offset in range(30, 40)))
    pipeline.broker.kept_from[topic, 0] = 30
    if marks_are_lost:
        pipeline.store.clear()
    pipeline.start()
    pipeline.minute()
    pipeline.driver.stop()

    assert pipeline.is_left_out("a")
    assert len(rows_of(pipeline)["shop.a"]) == 10


def test_a_driver_that_dies_in_the_first_batch_of_a_topic_that_was_made_again_leaves_nothing_out():
    """It was marked, under the id of the topic before it."""
    topic = SHARDS[0]
    pipeline = Pipeline(STREAMS.replace('table}", mode', 'table}", on_hole: accept, mode'))
    pipeline.send(change(topic, 0, "a"), change(topic, 1, "a"))
    pipeline.minute()
    pipeline.session.kafka.clear()
    pipeline.broker.ids[topic] = "another"
    pipeline.send(change(topic, 0, "a"), change(topic, 1, "c"), change(topic, 2, "a"))
    crash(pipeline, "shop.c")
    pipeline.recovers()
    pipeline.driver.stop()

    assert rows_of(pipeline)["shop.c"] == [(topic, 0, 1)]


def test_a_known_table_is_brought_up_in_a_topic_that_comes_later_while_retention_goes_on():
    one, two = SHARDS
    pipeline = Pipeline(STREAMS.replace("messages: 4", "messages: 20"))
    pipeline.send(change(one, 0, "b"), *(change(two, offset, "a") for offset in range(200)))
    pipeline.minute()
    pipeline.send(change(two, 200, "b"))
    pipeline.now_s += 60
    pipeline.turn()
    pipeline.broker.kept_from[two, 0] = 100
    pipeline.session.kafka[:] = [
        was for was in pipeline.session.kafka if was.topic == one or was.offset >= 100
    ]
    pipeline.recovers()
    pipeline.driver.stop()

    assert not pipeline.is_left_out("b")
    assert rows_of(pipeline)["shop.b"] == [(one, 0, 0), (two, 0, 200)]


def test_a_topic_that_is_made_again_smaller_on_a_broker_without_ids_is_read_whole():
    """Tables name partitions that are gone, and the new ones waited for these."""
    topic = SHARDS[0]
    pipeline = Pipeline(STREAMS.replace("messages: 4", "messages: 100"))
    pipeline.broker.topic_ids = lambda _: {}
    pipeline.send(
        *(replace(change(topic, offset, "a"), partition=part) for part in (0, 7) for offset in (0, 1))
    )
    pipeline.minute()
    pipeline.session.kafka.clear()
    for position in [one for one in pipeline.store if one != "owner"]:
        del pipeline.store[position]  # Kafka deletes the offsets of a topic with it
    pipeline.send(
        *(replace(change(topic, offset, "a"), partition=part) for part in range(4) for offset in range(6))
    )
    pipeline.start()
    pipeline.recovers()
    pipeline.driver.stop()

    rows = rows_of(pipeline)["shop.a"]
    assert {part: sum(row[1] == part for row in rows) for part in (1, 2, 3)} == {1: 6, 2: 6, 3: 6}


@examples(200)
@given(st.integers(0, 10**9))
def test_whatever_happens_each_table_ends_with_each_message_of_each_topic_once(seed):
    dice = random.Random(seed)
    pipeline = Pipeline(STREAMS.replace("messages: 4", f"messages: {dice.choice([2, 3, 4, 100])}"))
    ends, sent = {}, {}
    for _ in range(dice.randrange(2, 10)):
        for _ in range(dice.randrange(5)):
            topic, table = dice.choice(SHARDS), dice.choice("abc")
            offset = ends.get(topic, 0)
            ends[topic] = offset + 1
            sent.setdefault(f"shop.{table}", []).append((topic, 0, offset))
            pipeline.send(change(topic, offset, table))
        match dice.randrange(8):
            case 0:
                pipeline.errors[f"shop.{dice.choice('abc')}"] = OSError("broken")
            case 1:
                pipeline.errors.clear()
            case 2:
                pipeline.start()
            case 3:
                crash(pipeline, f"shop.{dice.choice('abc')}")
            case _:
                pipeline.now_s += dice.choice([1, 30, 200])
                pipeline.turn()
    pipeline.recovers()
    pipeline.driver.stop()

    assert rows_of(pipeline) == {name: sorted(rows) for name, rows in sent.items()}
