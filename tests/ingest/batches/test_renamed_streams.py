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


def halved(split):
    """One stream for both topics; split, the second one's tables have other names."""
    one = 'table: "shop.{table}", mode: changelog'
    streams = [rf"{{topics: 'shop\.public\..*', {one}}}"]
    if split:
        streams = [
            rf"{{topics: 'shop\.public\.s1', {one}}}",
            rf"{{topics: 'shop\.public\.s2', {one.replace('shop.{', 'other.{')}}}",
        ]
    return f"{CONFIG.partition('streams:')[0]}streams: [{', '.join(streams)}]\n"


def of_b(topic, part, *offsets):
    value = envelope("b", ("id", "int64"))
    return [Message(f"shop.public.{topic}", offset, part, schema=12, value=value) for offset in offsets]


@pytest.mark.parametrize("trouble", ["none", "not listed", "no leader"])
def test_a_table_of_a_new_name_is_built_from_all_partitions_whenever_they_are_there_again(trouble):
    """What is away as the driver begins keeps its marks of before, which speak of the table of the old name alone."""
    pipeline = Pipeline(halved(split=False))
    pipeline.send(*of_b("s1", 0, 0, 1), *of_b("s2", 0, 0, 1, 2), *of_b("s2", 1, 0, 1, 2, 3))
    for _ in range(3):
        pipeline.now_s += 130
        pipeline.minute()
    pipeline.broker.unlisted = {"shop.public.s2"} if trouble == "not listed" else set()
    pipeline.broker.without_leader = {("shop.public.s2", 1)} if trouble == "no leader" else set()
    pipeline.start(halved(split=True))
    for _ in range(3):
        pipeline.now_s += 130
        pipeline.minute()
    pipeline.broker.unlisted, pipeline.broker.without_leader = set(), set()
    for _ in range(6):  # nobody sends anything
        pipeline.now_s += 130
        pipeline.minute()

    rows = pipeline.lake.tables["other.b"].rows
    assert sorted((part, offset) for _, part, offset in rows) == [
        *((0, offset) for offset in range(3)),
        *((1, offset) for offset in range(4)),
    ]
    assert not pipeline.is_left_out("b")
    pipeline.driver.stop()
