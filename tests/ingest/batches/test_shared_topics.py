"""Topics that several tables share, where each table has rows of several topics: a topic for each shard, for instance."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from support.messages import Message, envelope
from support.pipelines import CONFIG, Pipeline

SHARDS = ("shop.public.s1", "shop.public.s2")
SCHEMAS = {"a": 11, "b": 12, "c": 13}
STREAMS = CONFIG.replace('table: "shop.{table}"', 'table: "shop.{table}", mode: changelog')


def change(topic, offset, table):
    return Message(topic, offset, schema=SCHEMAS[table], value=envelope(table, ("id", "int64")))


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


@settings(max_examples=200, deadline=None)
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
            case _:
                pipeline.now_s += dice.choice([1, 30, 200])
                pipeline.turn()
    pipeline.recovers()
    pipeline.driver.stop()

    assert rows_of(pipeline) == {name: sorted(rows) for name, rows in sent.items()}
