"""What Kafka has dropped before a table had it is told; what held nothing for the table is not missed."""

from structlog.testing import capture_logs

from isotherm_ingest.marks import Mark
from support.messages import TOMBSTONE, Message
from support.pipelines import CUSTOMERS, ORDERS, Pipeline, messages


def test_what_held_nothing_is_not_missed_when_kafka_has_dropped_it(pipeline):
    """A tombstone in a batch of its own; then retention passes, and a driver begins."""
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 1, schema=0))
    pipeline.minute()
    pipeline.broker.kept_from[ORDERS, 0] = 2
    pipeline.start()
    pipeline.send(*messages(ORDERS, 2))
    pipeline.minute()

    assert pipeline.rows("orders") == [0, 2]
    assert not pipeline.is_left_out("orders")


def test_what_kafka_lost_of_a_topic_of_which_there_is_no_table_yet_is_told():
    """The mark says that nothing below was a row; what came behind it was never seen."""
    pipeline = Pipeline()
    pipeline.send(Message(ORDERS, 0, schema=TOMBSTONE))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 1, 2, 3, 4, 5))
    pipeline.session.kept_from[ORDERS, 0] = 4
    with capture_logs() as said:
        pipeline.start()
        pipeline.minute()

    assert pipeline.rows("orders") == [4, 5]
    (lost,) = [one for one in said if one["event"] == "changes_missing"]
    assert (lost["topic"], lost["hole"]) == (ORDERS, f"retention ({ORDERS}/0: needs 1, could go on from 4)")
    pipeline.driver.stop()


def test_what_kafka_lost_of_a_partition_that_no_table_has_read_is_told(pipeline):
    """It came while the topic gained it, and ingest did not run until retention had passed."""
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 0, 1, 2, partition=1))
    pipeline.store[ORDERS, 1] = Mark(0, "", {})
    pipeline.session.kept_from[ORDERS, 1] = 2
    with capture_logs() as said:
        pipeline.start()
        pipeline.minute()

    assert [one["hole"] for one in said if one["event"] == "changes_missing"] == [
        f"retention ({ORDERS}/1: needs 0, could go on from 2)"
    ]
    assert pipeline.sample("holes_total", table="shop.orders", why="retention") == 1


def test_retention_that_passed_halts_the_table_alone(pipeline):
    pipeline.send(*messages(ORDERS, 0), *messages(CUSTOMERS, 0))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, *range(1, 6)), *messages(CUSTOMERS, 1))
    pipeline.broker.kept_from[ORDERS, 0] = 3
    pipeline.minute()

    assert (pipeline.rows("orders"), pipeline.rows("customers")) == ([0], [0, 1])
    assert pipeline.sample("holes_total", table="shop.orders", why="retention") >= 1


def test_retention_that_passes_a_table_that_is_behind_is_told_and_holds_up_nobody(pipeline):
    pipeline.errors |= {"shop.orders": RuntimeError("broken"), "shop.customers": RuntimeError("broken too")}
    pipeline.send(*messages(ORDERS, *range(6)), *messages(CUSTOMERS, 0))
    pipeline.minute()
    pipeline.broker.kept_from[ORDERS, 0] = 4
    pipeline.errors.clear()
    pipeline.minute()
    pipeline.minute()

    assert pipeline.rows("customers") == [0]
    assert pipeline.sample("holes_total", table="shop.orders", why="retention") >= 1
