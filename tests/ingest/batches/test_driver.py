"""A driver and many tables, without Spark: what is read, who gets what, who fails for whom, what a new driver knows."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from isotherm_ingest.failures import CatalogAway, TableRefused
from support.examples import examples
from support.messages import SCHEMA, TOMBSTONE, Message
from support.pipelines import CONFIG, CUSTOMERS, ORDERS, Pipeline, messages
from support.spark_errors import HEAP, RESULTS


def test_each_table_gets_its_own_topics(pipeline):
    pipeline.send(*messages(ORDERS, 0, 1), *messages(ORDERS, 0, partition=1), *messages(CUSTOMERS, 0))
    pipeline.minute()

    assert pipeline.rows("orders") == [0, 0, 1]
    assert pipeline.rows("customers") == [0]
    assert pipeline.outbox.woken == ["shop.customers", "shop.orders"]


def test_a_batch_takes_a_fair_share_of_each_topic(pipeline):
    pipeline.send(*messages(ORDERS, *range(20)), *messages(CUSTOMERS, 0))
    pipeline.now_s += 60
    pipeline.turn()

    assert (pipeline.rows("orders"), pipeline.rows("customers")) == ([0, 1, 2], [0])


def test_topics_are_read_once_in_a_window(pipeline):
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 1))
    pipeline.now_s += 30
    pipeline.turn()
    assert pipeline.rows("orders") == [0]

    pipeline.now_s += 30
    pipeline.turn()
    assert pipeline.rows("orders") == [0, 1]


def test_a_class_has_a_window_of_its_own():
    slow = CONFIG.replace("table}", 'table}", every: "10m', 1).replace("public\\\\..*", "public\\\\.orders")
    pipeline = Pipeline(slow.replace("}]", '}, {topics: ".*", table: "shop.{table}"}]'))
    pipeline.send(*messages(ORDERS, 0), *messages(CUSTOMERS, 0))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 1), *messages(CUSTOMERS, 1))
    pipeline.minute()
    assert (pipeline.rows("orders"), pipeline.rows("customers")) == ([0], [0, 1])

    for _ in range(10):
        pipeline.minute()
    assert pipeline.rows("orders") == [0, 1]


def test_nothing_of_a_batch_is_left_in_memory(pipeline):
    pipeline.errors["shop.orders"] = RuntimeError("broken")
    pipeline.send(*messages(ORDERS, 0), *messages(CUSTOMERS, 0))
    pipeline.minute()

    assert pipeline.session.closed == pipeline.session.reads > 0


def test_the_figures_of_a_topic_that_is_gone_go_with_it(pipeline):
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    assert pipeline.sample("unread_messages", topic=ORDERS) == 0
    pipeline.session.kafka.clear()
    pipeline.minute()

    assert pipeline.sample("unread_messages", topic=ORDERS) is None
    assert pipeline.sample("unread_share", topic=ORDERS) is None


def test_rows_that_are_too_large_together_pass_in_smaller_pieces():
    pipeline = Pipeline(CONFIG.replace("messages: 4", "messages: 100"))
    pipeline.send(*messages(ORDERS, *range(90)), *messages(CUSTOMERS, 0))
    pipeline.session.at_most = {ORDERS: 7}
    pipeline.minute()
    assert pipeline.rows("customers") == [0]

    for _ in range(30):
        pipeline.minute()
    assert pipeline.rows("orders") == list(range(90))


@pytest.mark.parametrize("says", [HEAP, RESULTS], ids=["heap", "results"])
def test_rows_that_are_too_large_together_for_sparks_jvm_pass_in_smaller_pieces(says):
    pipeline = Pipeline(CONFIG.replace("messages: 4", "messages: 100"))
    pipeline.lake.rooms["shop.orders"], pipeline.lake.no_room = 7, says
    pipeline.send(*messages(ORDERS, *range(90)), *messages(CUSTOMERS, 0))
    pipeline.minute()
    assert (pipeline.rows("customers"), pipeline.rows("orders")) == ([0], [])

    for _ in range(30):
        pipeline.minute()
    assert pipeline.rows("orders") == list(range(90))


def test_a_table_that_is_behind_catches_up_in_pieces_that_its_workers_can_hold():
    pipeline = Pipeline(CONFIG.replace("messages: 4", "messages: 100"))
    pipeline.errors["shop.orders"] = RuntimeError("it cannot be written")
    pipeline.send(*messages(ORDERS, *range(90)))
    pipeline.minute()
    del pipeline.errors["shop.orders"]
    pipeline.session.at_most = {ORDERS: 7}

    for _ in range(30):
        pipeline.minute()
    assert pipeline.rows("orders") == list(range(90))


def test_what_holds_nothing_for_a_table_is_not_passed_in_pieces_as_small_as_its_rows_are_large():
    """Tombstones, or messages of another table of the topic, by the million."""
    pipeline = Pipeline(CONFIG.replace("messages: 4", "messages: 100"))
    pipeline.errors["shop.orders"] = RuntimeError("it cannot be written")
    pipeline.send(*messages(ORDERS, 0, 1), *messages(ORDERS, *range(2, 2_000), schema=TOMBSTONE))
    pipeline.minute()
    del pipeline.errors["shop.orders"]
    pipeline.session.at_most = {ORDERS: 1}
    for _ in range(20):
        pipeline.minute()
    assert pipeline.rows("orders") == [0, 1]

    pipeline.send(*messages(ORDERS, 2_000))
    pipeline.minute()
    assert pipeline.rows("orders") == [0, 1, 2_000]


@pytest.mark.parametrize(("mode", "told"), [("mirror", [ORDERS]), ("changelog", [])])
def test_a_compacted_topic_of_a_mirror_is_told_once(pipeline, mode, told):
    """What was deleted while it was behind is not there any more."""
    pipeline.broker.compacted_topics = {ORDERS}
    pipeline.send(*messages(ORDERS, 0), *messages(CUSTOMERS, 0))
    with capture_logs() as said:
        pipeline.start(CONFIG.replace('table}"', f'table}}", mode: {mode}'))
        pipeline.minute()
        pipeline.minute()

    assert [one["topic"] for one in said if one["event"] == "topic_compacted"] == told


def test_what_waits_is_told_by_topic(pipeline):
    pipeline.errors["shop.orders"] = TableRefused("a person must look")
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 1, 2))
    pipeline.now_s += 1
    pipeline.turn()

    # The table that failed waits for the message that the others have passed.
    assert pipeline.sample("unread_messages", topic=ORDERS) == 3
    assert pipeline.sample("last_turn_timestamp_seconds") > 0


@examples(300)
@given(st.integers(0, 10**9))
def test_whatever_happens_each_table_ends_with_each_message_once(seed):
    play(seed)


def play(seed):
    """Failures, restarts, lost marks, two drivers, new partitions: then all is well again."""
    dice, pipeline = random.Random(seed), Pipeline(CONFIG.replace("messages: 4", f"messages: {1 + seed % 7}"))
    sent = {}
    for _ in range(dice.randrange(3, 12)):
        for _ in range(dice.randrange(4)):
            topic, partition = dice.choice([ORDERS, CUSTOMERS]), dice.randrange(3)
            offset = sent.get((topic, partition), 0)
            sent[topic, partition] = offset + 1
            schema, is_readable = dice.choice([SCHEMA, SCHEMA, 0]), dice.random() < 0.7
            pipeline.send(Message(topic, offset, partition, schema=schema, is_readable=is_readable))
        match dice.randrange(8):
            case 0:
                pipeline.errors["shop.orders"] = RuntimeError("broken")
            case 1:
                pipeline.errors.clear()
            case 2:
                pipeline.start()
            case 3:
                pipeline.store.clear()
                pipeline.start()
            case 4:
                pipeline.lake.away = True
                with pytest.raises((CatalogAway, OSError)):
                    pipeline.start()
                pipeline.lake.away = False
                pipeline.start()
            case _:
                pipeline.now_s += dice.choice([1, 30, 200])
                pipeline.turn()
    pipeline.recovers()

    for topic in (ORDERS, CUSTOMERS):
        table = pipeline.lake.tables.get("shop." + topic.rpartition(".")[2])
        expected = [
            (one.topic, one.partition, one.offset)
            for one in pipeline.session.kafka
            if one.topic == topic and one.schema == SCHEMA and one.is_readable
        ]
        assert sorted(table.rows if table is not None else []) == sorted(expected)
    unreadable = [one for one in pipeline.session.kafka if one.schema == SCHEMA and not one.is_readable]
    sent = {(one.topic, one.partition, one.offset) for one in pipeline.dead_letters.sent}
    assert sent == {(one.topic, one.partition, one.offset) for one in unreadable}
    pipeline.driver.stop()
