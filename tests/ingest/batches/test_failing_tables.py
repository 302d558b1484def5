"""A table that fails, or a catalog, a broker or a topic that is away, holds up nobody else and is brought up later."""

import pytest
from structlog.testing import capture_logs

from isotherm_ingest.failures import CatalogAway
from isotherm_ingest.kafka import BrokerError
from support.messages import Message
from support.pipelines import CONFIG, CUSTOMERS, ORDERS, Pipeline, messages


def test_a_table_that_fails_is_left_out_and_brought_up_later(pipeline):
    pipeline.errors["shop.orders"] = RuntimeError("its disk is full")
    pipeline.send(*messages(ORDERS, *range(6)), *messages(CUSTOMERS, 0))
    pipeline.minute()
    assert pipeline.rows("customers") == [0]
    assert pipeline.is_left_out("orders")
    assert not pipeline.is_left_out("customers")

    pipeline.errors.clear()
    pipeline.send(*messages(ORDERS, 6, 7))
    pipeline.minute()
    assert pipeline.rows("orders") == list(range(8))
    assert not pipeline.is_left_out("orders")


def test_a_table_that_fails_alone_in_its_batch_stops_nobody(pipeline):
    pipeline.errors["shop.orders"] = RuntimeError("a poison row")
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.send(*messages(CUSTOMERS, 0))
    pipeline.minute()

    assert pipeline.rows("customers") == [0]


def test_a_table_that_fails_for_weeks_ends_no_driver(pipeline):
    pipeline.errors["shop.orders"] = RuntimeError("its disk is full")
    pipeline.send(*messages(ORDERS, 0))
    for _ in range(1100):
        pipeline.now_s += 120
        pipeline.turn()
    pipeline.errors.clear()
    pipeline.now_s += 120
    pipeline.minute()

    assert pipeline.rows("orders") == [0]


def test_without_a_catalog_nobody_is_to_blame_and_nothing_is_passed_over(pipeline):
    pipeline.send(*messages(ORDERS, 0), *messages(CUSTOMERS, 0))
    pipeline.minute()
    pipeline.lake.away = True
    pipeline.send(*messages(ORDERS, 1), *messages(CUSTOMERS, 1))
    with pytest.raises(CatalogAway):
        pipeline.minute()
    assert not pipeline.is_left_out("orders")

    pipeline.lake.away = False
    pipeline.minute()
    assert (pipeline.rows("orders"), pipeline.rows("customers")) == ([0, 1], [0, 1])


def test_a_broker_that_is_away_is_said(pipeline):
    pipeline.broker.away = True
    with pytest.raises(BrokerError):
        pipeline.minute()


def test_a_quiet_partition_of_a_table_that_failed_is_brought_up_too(pipeline):
    pipeline.errors["shop.orders"] = RuntimeError("broken")
    pipeline.send(*messages(ORDERS, 0), *messages(ORDERS, 0, 1, partition=1))
    pipeline.minute()
    pipeline.errors.clear()
    pipeline.minute()

    assert pipeline.rows("orders") == [0, 0, 1]
    assert not pipeline.is_left_out("orders")


def test_a_catalog_that_goes_away_while_a_table_is_looked_at_does_not_make_it_forgotten(pipeline):
    pipeline.send(*messages(ORDERS, 0, 1, 2))
    pipeline.minute()
    pipeline.lake.tables["shop.orders"].has = {(ORDERS, 0): 1}
    pipeline.outbox.noticed = {"shop.orders"}
    pipeline.lake.away = True
    with pytest.raises(CatalogAway):
        pipeline.turn()
    pipeline.lake.away = False
    pipeline.minute()

    assert pipeline.is_left_out("orders")


def test_a_table_has_recovered_once_it_has_all_that_it_lacked(pipeline):
    pipeline.errors["shop.orders"] = RuntimeError("its disk is full")
    pipeline.send(*messages(ORDERS, *range(20)), *messages(CUSTOMERS, 0))
    pipeline.minute()
    pipeline.errors.clear()
    pipeline.now_s += 120
    with capture_logs() as said:
        pipeline.turn()
        assert 0 < len(pipeline.rows("orders")) < 20
        assert not pipeline.is_left_out("orders")
        assert "table_recovered" not in [one["event"] for one in said]
        assert pipeline.sample("unread_messages", topic=ORDERS) == 20 - len(pipeline.rows("orders"))
        pipeline.minute()

    assert pipeline.rows("orders") == list(range(20))
    assert not pipeline.is_left_out("orders")
    assert [one["event"] for one in said].count("table_recovered") == 1


def test_a_table_that_is_behind_goes_on_where_there_are_leaders(pipeline):
    pipeline.errors["shop.orders"] = RuntimeError("broken")
    pipeline.send(*messages(ORDERS, 0), *messages(ORDERS, 0, partition=1))
    pipeline.minute()
    pipeline.errors.clear()
    pipeline.broker.without_leader = {(ORDERS, 1)}
    pipeline.send(*messages(CUSTOMERS, 0))
    pipeline.minute()

    assert pipeline.lake.tables["shop.orders"].rows == [(ORDERS, 0, 0)]


def test_a_topic_that_cannot_be_read_is_left_out_of_the_batches_of_the_others():
    pipeline = Pipeline(CONFIG.replace("messages: 4", "messages: 100"))
    names = [f"shop.public.t{number}" for number in range(16)]
    pipeline.send(*(Message(name, 0) for name in names))
    pipeline.minute()
    pipeline.session.unreadable = {names[3]}
    for offset in (1, 2):
        pipeline.send(*(Message(name, offset) for name in names))
        reads = pipeline.session.reads
        pipeline.minute()

        assert all(pipeline.rows(f"t{number}")[-1] == offset for number in range(16) if number != 3)
    assert pipeline.session.reads - reads <= 5

    pipeline.session.unreadable = set()
    pipeline.now_s += 300
    pipeline.minute()
    assert pipeline.rows("t3") == [0, 1, 2]
