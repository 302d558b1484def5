"""A new streams.yaml gives the tables of a topic other names: each is built from what Kafka holds."""

from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from support.messages import Message, envelope
from support.pipelines import CONFIG, Pipeline

TOPIC = "shop.public.s1"
SCHEMAS = {"a": 11, "b": 12}


class Killed(BaseException):
    """The driver ends here."""


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


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize(
    "old", ["old.{table}", "shop.{table}_v1", "shop.{schema}.{table}"], ids=["others", "longer", "deeper"]
)
def test_tables_of_new_names_are_built_though_the_old_ones_match_the_new_names_too(old, dies):
    """No message has to come for them, and the old ones get nothing twice."""
    pipeline = Pipeline(configured(old))
    pipeline.send(*(change(offset, "ab"[offset % 2]) for offset in range(10)))
    later(pipeline, 2)
    before = {name: list(table.rows) for name, table in pipeline.lake.tables.items()}
    assert len(before) == 2
    with capture_logs() as said:
        pipeline.start(configured("shop.{table}"))
        if dies:
            pipeline.errors["shop.b"] = Killed()
            with suppress(Killed):
                pipeline.minute()
            pipeline.errors.clear()
            pipeline.driver.stop()
            pipeline.start(configured("shop.{table}"))
        later(pipeline)

    assert offsets(pipeline, "shop.a") == [0, 2, 4, 6, 8]
    assert offsets(pipeline, "shop.b") == [1, 3, 5, 7, 9]
    assert {name: pipeline.lake.tables[name].rows for name in before} == before
    assert not [one for one in said if one["event"] in ("changes_missing", "batch_failed")]
    # Once is enough: the next driver goes on where this one was.
    pipeline.broker.kept_from[TOPIC, 0] = 10
    pipeline.start(configured("shop.{table}"))
    pipeline.send(change(10, "a"))
    later(pipeline)
    assert not pipeline.is_left_out("a")
    assert offsets(pipeline, "shop.a") == [0, 2, 4, 6, 8, 10]
