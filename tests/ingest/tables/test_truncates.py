"""What a table makes of the truncates of a batch when it is looked at, and what its writer says of those without a place."""

import json
from dataclasses import replace

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from structlog.testing import capture_logs

from isotherm.contract.summary import INGEST_PIPELINE, INGEST_TOKEN
from isotherm_ingest.decode.debezium_schema import change_schema
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.plan.truncates import Truncates
from isotherm_ingest.streams import Stream
from isotherm_ingest.tables.definition import SOURCE_PROPERTY
from isotherm_ingest.tables.lake import PIPELINE_PROPERTY, Lake
from isotherm_ingest.tables.offset_vector import Source, encode, vector_of
from isotherm_ingest.tables.portion import Done, Group
from isotherm_ingest.tables.rows_of import ROWS_OF_PROPERTY, SEVERAL
from isotherm_ingest.tables.sessions import Sessions
from isotherm_ingest.tables.tools import Tools
from isotherm_ingest.tables.writer import TableWriter
from isotherm_ingest.workers.survey import Survey
from support.messages import envelope, key
from support.writes import NAME, ONE_ROW, TOPIC, DeadLetters, Spark, letters, portion

OTHER = "eu.public.orders"
FOUND = Truncates({(TOPIC, 0): 6}, {TOPIC: 1})
EMPTIED = {(TOPIC, 0): 6}


def of(topic=TOPIC, schema="public", **more):
    """What a table says of its rows."""
    said = {"topic": topic, "name": "", "db": "", "schema": schema, "table": "orders", **more}
    return {ROWS_OF_PROPERTY: json.dumps(said)}


BY_TOPIC = Stream(topics="shop.*", table="shop.orders")


@pytest.fixture
def lake(tmp_path):
    """The properties of a catalog."""
    return {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }


def writer_of(lake, has, stream=BY_TOPIC, **properties):
    """Of a table that has so much of Kafka."""
    catalog = load_catalog("lake", **lake)
    catalog.create_namespace("shop")
    schema = Schema(NestedField(1, "id", LongType()))
    table = catalog.create_table(NAME, schema, properties={PIPELINE_PROPERTY: "shop", **of(), **properties})
    ids = {topic: "id" for topic, _ in has}
    token = encode(Source(vector_of(has), "cluster", ids))
    table.append(ONE_ROW, snapshot_properties={INGEST_PIPELINE: "shop", INGEST_TOKEN: token})
    tools = Tools(Lake("lake", lake), None, DeadLetters(), Metrics(), "shop", None)
    spark = Spark()
    writer = TableWriter(NAME, stream, Sessions(spark), tools)
    writer.session = spark
    return writer


def told(writer, found=FOUND, *groups):
    """What the workers are told of the truncates of a batch."""
    now = portion(5, 9)
    return writer.prepare(replace(now, truncates=found, groups=(*now.groups, *groups))).task


def test_a_table_with_one_place_in_kafka_counts_as_empty(lake):
    task = told(writer_of(lake, {(TOPIC, 0): 5}))

    assert (task.emptied.below, task.emptied.why_not, task.is_empty) == (EMPTIED, "", True)


def test_without_a_truncate_behind_its_vector_it_does_not(lake):
    task = told(writer_of(lake, {(TOPIC, 0): 7}))

    assert (task.emptied.below, task.emptied.why_not, task.is_empty) == ({}, "", False)


@pytest.mark.parametrize(
    ("has", "found", "why"),
    [
        ({(TOPIC, 0): 5}, replace(FOUND, counts={TOPIC: 2}), "the topic has 2 partitions"),
        ({(TOPIC, 0): 5, (TOPIC, 1): 5}, FOUND, "the topic has 2 partitions"),
        ({(TOPIC, 0): 5, (OTHER, 0): 5}, FOUND, f"the table has rows of other topics, as of {OTHER}"),
    ],
)
def test_without_a_known_order_the_workers_are_told_why(lake, has, found, why):
    task = told(writer_of(lake, has), found)

    assert (task.emptied.below, task.is_empty) == ({}, False)
    assert task.emptied.why_not.startswith(why)


@pytest.mark.parametrize("sources", ["one", "many"])
def test_rows_of_the_topic_of_before_are_of_the_table_s_own_source_where_it_has_one(lake, sources):
    moved = {SOURCE_PROPERTY: TOPIC}
    stream = Stream(topics="shop.*", table="shop.{table}", sources=sources)
    task = told(writer_of(lake, {(TOPIC, 0): 5, (OTHER, 0): 5}, stream, **moved))

    assert task.emptied.below == (EMPTIED if sources == "one" else {})


@pytest.mark.parametrize("table", ["shop.{table}", "shop.{topic}", "shop.{schema}_{table}"])
def test_where_a_router_may_have_brought_several_tables_each_message_must_be_checked(lake, table):
    """The messages are of `private.orders`, and the topic is called otherwise."""
    stream = Stream(topics="shop.*", table=table, sources="one")
    text = envelope("orders", ("id", "int64")).replace('"public"', '"private"')
    group = Group(TOPIC, 7, change_schema(text, key("id")))
    writer = writer_of(lake, {(TOPIC, 0): 5}, stream, **of(schema="private"))
    emptied = writer.prepare(replace(portion(5, 9), truncates=FOUND, groups=(group,))).task.emptied

    assert emptied.below == (EMPTIED if "{schema}" in table else {})
    assert bool(emptied.why_not) == ("{schema}" not in table)


@pytest.mark.parametrize("said", ["", SEVERAL, "[]", '{"topic":1}', json.dumps({"topic": TOPIC})])
def test_where_a_table_does_not_say_that_all_its_rows_are_of_one_source_they_stay(lake, said):
    """A vector that was reset, or went with its token, does not tell of the rows of another shard."""
    task = told(writer_of(lake, {(TOPIC, 0): 5}, **{ROWS_OF_PROPERTY: said}))

    assert (task.emptied.below, task.is_empty) == ({}, False)
    assert ROWS_OF_PROPERTY in task.emptied.why_not


def test_rows_of_another_source_are_remembered_before_they_are_written(lake):
    writer = writer_of(lake, {(TOPIC, 0): 5})
    ready = writer.prepare(portion(5, 9))
    with pytest.raises(Exception, match=r"."):  # the session here has no JVM to commit by
        writer.write(ready, Done(Survey(1, elsewhere=True)))

    (said,) = [one for one in writer.session.statements if ROWS_OF_PROPERTY in one]
    assert SEVERAL in said


def test_a_truncate_that_is_not_followed_is_told_as_an_error(lake):
    writer = writer_of(lake, {(TOPIC, 0): 5})
    ready = writer.prepare(replace(portion(5, 9), truncates=replace(FOUND, counts={TOPIC: 2})))
    why = f"truncate_unordered:{ready.task.emptied.why_not}"
    sent = Done(Survey(), letters=lambda: [letters(why, "undecodable:x", first=6)], letter_count=2)
    with capture_logs() as said:
        writer.write(ready, sent)

    (one,) = [one for one in said if one["event"] == "truncate_unordered"]
    assert (one["log_level"], one["rows"], one["why"]) == ("error", 1, ready.task.emptied.why_not)
