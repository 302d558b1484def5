"""A new streams.yaml gives the tables of a topic other names: they are built from what Kafka holds, or it is told that they are not."""

import pytest
from structlog.testing import capture_logs

from support.messages import Message, envelope
from support.pipelines import CONFIG, Pipeline

TOPIC = "shop.public.s1"
SCHEMAS = {"a": 11, "b": 12}


def configured(names):
    return CONFIG.replace('table: "shop.{table}"', f'table: "{names}", mode: changelog')


def change(offset, table):
    return Message(TOPIC, offset, schema=SCHEMAS[table], value=envelope(table, ("id", "int64")))


def later(pipeline, minutes=4):
    for _ in range(minutes):
        pipeline.now_s += 130
        pipeline.minute()


def offsets(pipeline, name):
    return [offset for _, _, offset in pipeline.lake.tables[name].rows]


@pytest.mark.parametrize(
    ("old", "is_told"),
    [
        ("old.{table}", False),
        ("shop.{table}_v1", True),
        ("shop.{schema}.{table}", True),
        ("shop.{table}", False),
    ],
    ids=["others", "longer", "deeper", "the same"],
)
def test_names_that_match_the_old_ones_too_are_told(old, is_told):
    """Then the old tables count as the topic's, and the front does not begin again for the new ones."""
    pipeline = Pipeline(configured(old))
    pipeline.send(*(change(offset, "ab"[offset % 2]) for offset in range(10)))
    later(pipeline, 2)
    before = {name: list(table.rows) for name, table in pipeline.lake.tables.items()}
    with capture_logs() as said:
        pipeline.start(configured("shop.{table}"))
        later(pipeline)
        pipeline.send(change(10, "a"), change(11, "b"))
        later(pipeline)

    told = [one for one in said if one["event"] == "table_names_changed"]
    assert [(one["topic"], one["of"]) for one in told] == ([(TOPIC, 2)] if is_told else [])
    # With a message each is built from what Kafka holds, and the old ones get nothing more.
    assert offsets(pipeline, "shop.a") == [0, 2, 4, 6, 8, 10]
    assert offsets(pipeline, "shop.b") == [1, 3, 5, 7, 9, 11]
    if old != "shop.{table}":
        assert {name: pipeline.lake.tables[name].rows for name in before} == before
    with capture_logs() as said:
        pipeline.start(configured("shop.{table}"))
    assert not [one for one in said if one["event"] == "table_names_changed"]
