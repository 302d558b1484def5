"""Truncates and the driver: whatever happens, a mirror has the rows of behind the last one that has a place."""

import random

from hypothesis import given
from hypothesis import strategies as st

from support.cut_backs import cut
from support.examples import examples
from support.messages import Message
from support.pipelines import CONFIG, CUSTOMERS, ORDERS, Pipeline, messages


def truncate(topic, offset, partition=0):
    return Message(topic, offset, partition, schema=8, is_truncate=True)


def test_what_stands_before_a_truncate_goes_and_what_stands_behind_it_stays(pipeline):
    pipeline.send(*messages(ORDERS, 0, 1), *messages(CUSTOMERS, 0))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 2), truncate(ORDERS, 3), *messages(ORDERS, 4))
    pipeline.minute()

    assert (pipeline.rows("orders"), pipeline.rows("customers")) == ([4], [0])
    assert pipeline.dead_letters.sent == []


def test_files_that_were_written_before_a_truncate_was_known_are_deleted(pipeline):
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    forgotten, reads = len(pipeline.lake.forgotten), pipeline.session.reads
    pipeline.send(*messages(ORDERS, 1), Message(ORDERS, 2, is_truncate=True))
    pipeline.minute()

    assert len(pipeline.lake.forgotten) - forgotten == 1
    assert pipeline.session.reads - reads == 2
    assert pipeline.session.closed == pipeline.session.reads
    assert pipeline.rows("orders") == []


def test_a_partition_that_came_while_the_truncate_was_read_leaves_it_without_a_place(pipeline):
    """Its rows may be of before the truncate. So how many there are is asked for once that was read."""
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.send(truncate(ORDERS, 1))
    pipeline.session.meanwhile = [lambda: pipeline.send(*messages(ORDERS, 0, partition=1))]
    pipeline.minute()
    pipeline.minute()

    assert pipeline.rows("orders") == [0, 0]
    assert [(one.topic, one.offset) for one in pipeline.dead_letters.sent] == [(ORDERS, 1)]


def test_a_partition_without_a_leader_counts(pipeline):
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.broker.empty.add((ORDERS, 1))
    pipeline.broker.without_leader.add((ORDERS, 1))
    pipeline.send(truncate(ORDERS, 1))
    pipeline.minute()

    assert pipeline.rows("orders") == [0]
    assert len(pipeline.dead_letters.sent) == 1


def test_a_truncate_waits_where_nobody_says_how_many_partitions_there_are(pipeline):
    """A right that is missing for a moment. Nothing of the batch is a dead letter by that."""
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.send(truncate(ORDERS, 1), *messages(ORDERS, 2))
    pipeline.session.meanwhile = [lambda: pipeline.broker.unlisted.add(ORDERS)]
    pipeline.now_s += 60
    pipeline.turn()
    assert (pipeline.rows("orders"), pipeline.dead_letters.sent) == ([0], [])

    pipeline.broker.unlisted.clear()
    pipeline.recovers()
    assert (pipeline.rows("orders"), pipeline.dead_letters.sent) == ([2], [])


def test_a_truncate_that_its_topic_loses_between_the_two_reads_empties_nothing(pipeline):
    """An unclean election: other messages have its offset, and those before it, by then."""
    pipeline.send(*messages(ORDERS, 0, 1, 2))
    pipeline.minute()
    pipeline.send(truncate(ORDERS, 3), *messages(ORDERS, 4))

    def lost():
        cut(pipeline, 2)
        pipeline.send(*messages(ORDERS, 2, 3, 4))

    # Taken from the end: the first read learns the schema, the second one meets the truncate.
    pipeline.session.meanwhile = [lost, lambda: None, lambda: None]
    pipeline.now_s += 60
    pipeline.turn()
    assert (pipeline.rows("orders"), pipeline.session.meanwhile) == ([0, 1, 2], [])

    pipeline.recovers()
    assert {0, 1} <= set(pipeline.rows("orders"))


def test_a_table_that_is_behind_is_emptied_in_its_turn(pipeline):
    pipeline.errors["shop.orders"] = RuntimeError("it cannot be written")
    pipeline.send(*messages(ORDERS, *range(10)), truncate(ORDERS, 10), *messages(ORDERS, *range(11, 20)))
    pipeline.minute()
    pipeline.recovers()

    assert pipeline.rows("orders") == list(range(11, 20))


@examples(200)
@given(st.integers(0, 10**9))
def test_whatever_happens_a_mirror_has_what_its_source_has(seed):
    play(seed)


def play(seed):
    """Failures, restarts, lost marks; truncates in a topic of one partition, and in one of two."""
    dice, pipeline = random.Random(seed), Pipeline(CONFIG.replace("messages: 4", f"messages: {1 + seed % 7}"))
    pipeline.send(*messages(CUSTOMERS, 0), *messages(CUSTOMERS, 0, partition=1))
    sent = {(CUSTOMERS, 0): 1, (CUSTOMERS, 1): 1}
    for _ in range(dice.randrange(3, 12)):
        for _ in range(dice.randrange(5)):
            topic = dice.choice([ORDERS, CUSTOMERS])
            partition = 0 if topic == ORDERS else dice.randrange(2)
            offset = sent.get((topic, partition), 0)
            sent[topic, partition] = offset + 1
            one = truncate(topic, offset, partition)
            pipeline.send(one if dice.random() < 0.3 else Message(topic, offset, partition))
        match dice.randrange(7):
            case 0:
                pipeline.errors["shop.orders"] = RuntimeError("broken")
            case 1:
                pipeline.errors.clear()
            case 2:
                pipeline.start()
            case 3:
                pipeline.store.clear()
                pipeline.start()
            case _:
                pipeline.now_s += dice.choice([1, 30, 200])
                pipeline.turn()
    pipeline.recovers()

    expected = []
    for one in pipeline.session.kafka:
        if one.topic == ORDERS:
            expected = [] if one.is_truncate else [*expected, one.offset]
    table = pipeline.lake.tables.get("shop.orders")
    assert sorted(offset for *_, offset in (table.rows if table else [])) == expected
    others = [one for one in pipeline.session.kafka if one.topic == CUSTOMERS]
    assert pipeline.rows("customers") == sorted(one.offset for one in others if not one.is_truncate)
    letters = {(one.partition, one.offset) for one in pipeline.dead_letters.sent if one.topic == CUSTOMERS}
    assert letters == {(one.partition, one.offset) for one in others if one.is_truncate}
    assert not [one for one in pipeline.dead_letters.sent if one.topic == ORDERS]
    pipeline.driver.stop()
