"""A table of several topics is left out when one of them begins: it lacks what that one brings, whoever is asked later."""

from dataclasses import replace

import pytest

from support.pipelines import CONFIG, CUSTOMERS, ORDERS, Pipeline, messages

SHARED = CONFIG.replace("shop.{table}", 'shop.all", mode: changelog, on_hole: "HOLE')
"""Two topics, one table."""


def rows_of(pipeline, topic):
    return sorted(row for row in pipeline.lake.tables["shop.all"].rows if row[0] == topic)


def all_of(topic, count):
    return [(topic, 0, offset) for offset in range(count)]


@pytest.mark.parametrize("fails_still", [False, True])
def test_a_table_that_fails_when_another_topic_begins_gets_it_from_the_next_driver(fails_still):
    pipeline = Pipeline(SHARED.replace("HOLE", "halt"))
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.errors["shop.all"] = OSError("its store is away")
    pipeline.send(*messages(CUSTOMERS, 0, 1, 2))
    pipeline.minute()
    pipeline.start()
    if fails_still:
        pipeline.minute()
        pipeline.start()
    pipeline.errors.clear()
    pipeline.minute()
    pipeline.minute()

    assert rows_of(pipeline, CUSTOMERS) == all_of(CUSTOMERS, 3)
    assert rows_of(pipeline, ORDERS) == all_of(ORDERS, 1)


def test_what_kafka_drops_of_it_meanwhile_is_told():
    pipeline = Pipeline(SHARED.replace("HOLE", "halt"))
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.errors["shop.all"] = OSError("its store is away")
    pipeline.send(*messages(CUSTOMERS, 0, 1, 2))
    pipeline.minute()
    pipeline.broker.kept_from[CUSTOMERS, 0] = 2
    pipeline.errors.clear()
    pipeline.start()
    pipeline.minute()

    assert pipeline.is_left_out("all")
    assert pipeline.sample("holes_total", table="shop.all", why="retention") >= 1


@pytest.mark.parametrize(("decided", "kept"), [("accept", 1), ("backfill", 3)])
def test_a_topic_that_begins_while_a_table_is_halted_is_written_once_a_person_has_decided(decided, kept):
    pipeline = Pipeline(SHARED.replace("HOLE", "halt"))
    pipeline.send(*messages(ORDERS, 0, 1, 2))
    pipeline.minute()
    table = pipeline.lake.tables["shop.all"]
    table.rows, table.has = table.rows[:1], {(ORDERS, 0): 1}
    pipeline.outbox.noticed = {"shop.all"}
    pipeline.minute()
    pipeline.send(*messages(CUSTOMERS, 0, 1, 2))
    pipeline.minute()
    assert (pipeline.is_left_out("all"), rows_of(pipeline, CUSTOMERS)) == (True, [])

    pipeline.start(SHARED.replace("HOLE", decided))
    pipeline.minute()
    pipeline.minute()

    assert rows_of(pipeline, CUSTOMERS) == all_of(CUSTOMERS, 3)
    assert rows_of(pipeline, ORDERS) == all_of(ORDERS, kept)


def test_a_table_that_has_rows_of_a_topic_is_believed_though_the_mark_says_that_it_was_left_out():
    """Its own mark was lost, and it could not be read when a driver began: what was noted then is where Kafka begins."""
    pipeline = Pipeline(SHARED.replace("HOLE", "halt"))
    pipeline.send(*messages(ORDERS, 0), *messages(CUSTOMERS, 0, 1))
    pipeline.minute()
    pipeline.store[CUSTOMERS, 0] = replace(pipeline.store[CUSTOMERS, 0], tables={})
    pipeline.send(*messages(CUSTOMERS, *range(2, 6)))
    pipeline.broker.kept_from[CUSTOMERS, 0] = 4
    pipeline.lake.unreadable = {"shop.all"}
    pipeline.errors["shop.all"] = OSError("its store is away")
    pipeline.start()
    pipeline.minute()
    pipeline.lake.unreadable = set()
    pipeline.errors.clear()
    pipeline.start()
    pipeline.minute()

    assert pipeline.is_left_out("all")
    assert pipeline.sample("holes_total", table="shop.all", why="retention") >= 1
