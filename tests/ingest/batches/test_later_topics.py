"""A table of several topics is left out when one of them begins: it lacks what that one brings, whoever is asked later."""

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

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


def test_a_table_that_is_in_a_pause_when_another_topic_begins_gets_it_from_the_next_driver():
    pipeline = Pipeline(SHARED.replace("HOLE", "halt"))
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.errors["shop.all"] = OSError("its store is away")
    for offset in range(1, 7):
        pipeline.send(*messages(ORDERS, offset))
        pipeline.minute()
    tried = pipeline.sample("batches_failed_total")
    pipeline.send(*messages(CUSTOMERS, 0, 1, 2))
    pipeline.minute()
    assert pipeline.sample("batches_failed_total") == tried, "it was asked for nothing in its pause"
    pipeline.errors.clear()
    pipeline.start()
    pipeline.minute()
    pipeline.minute()

    assert rows_of(pipeline, CUSTOMERS) == all_of(CUSTOMERS, 3)
    assert rows_of(pipeline, ORDERS) == all_of(ORDERS, 7)


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


@pytest.mark.parametrize("when", ["it lives", "it starts again", "it fails still"])
@pytest.mark.parametrize(
    "config", [CONFIG, SHARED.replace("HOLE", "halt")], ids=["never written", "of several"]
)
def test_what_a_table_lacks_of_a_topic_that_is_made_again_before_it_had_any_of_it_is_told(config, when):
    """No token speaks of it. Nothing is left to decide, so the table goes on with the new topic."""
    pipeline = Pipeline(config)
    name = "shop.all" if "shop.all" in config else "shop.customers"
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.errors[name] = OSError("its store is away")
    pipeline.send(*messages(CUSTOMERS, 0, 1, 2))
    pipeline.minute()
    if when != "it fails still":
        pipeline.errors.clear()
    pipeline.session.kafka[:] = [*messages(ORDERS, 0), *messages(CUSTOMERS, 0, 1)]
    pipeline.broker.ids[CUSTOMERS] = "another id"
    with capture_logs() as said:
        if when == "it starts again":
            pipeline.start()
        pipeline.minute()
        pipeline.minute()
        pipeline.errors.clear()
        pipeline.start()
        pipeline.minute()
        pipeline.minute()

    assert [(one["table"], one["hole"]) for one in said if one["event"] == "changes_missing"] == [
        (name, f"topic_made_again ({CUSTOMERS}/0: needs 0, could go on from 0)")
    ]
    rows = pipeline.lake.tables[name].rows
    assert sorted(row for row in rows if row[0] == CUSTOMERS) == all_of(CUSTOMERS, 2)
