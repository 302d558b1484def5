"""Streams that say in what format their messages are written: the workers are told, and samples are read so."""

import json

from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.batches.routing import Routing
from isotherm_ingest.decode.debezium_json import DebeziumJson
from isotherm_ingest.streams import StreamsConfig
from support.declared import CONFIG, event
from support.messages import Message
from support.pipelines import Pipeline

BARE = """\
  - {topics: 'shop\\.public\\..*', table: "shop.{table}", format: json, columns: {id: BIGINT}}
"""
SENSORS, ORDERS, LINES = "events.sensors", "shop.public.orders", "other.public.lines"
STREAMS = CONFIG + BARE + "  - {topics: 'other.*', table: 'other.{table}'}\n"


def routing():
    return Routing(parse_yaml(STREAMS, "streams.yaml", StreamsConfig), None, lambda _, stream: stream)


def test_each_topic_is_read_in_the_format_of_its_stream():
    found = routing().formats([SENSORS, ORDERS, LINES, "nobody's"])

    assert found.keys() == {SENSORS, ORDERS, LINES}
    assert [found[SENSORS].has_envelope, found[ORDERS].has_envelope] == [False, True]
    assert found[LINES] == DebeziumJson()


def test_a_sample_without_a_schema_has_the_columns_that_its_stream_declares():
    found = routing()
    samples = [((SENSORS, 1), "{}", None), ((ORDERS, 2), json.dumps(event(after={})), '{"id":1}')]
    found.learn(samples, set())

    told = [(group, table) for group, table, _ in found.of({SENSORS, ORDERS}, set())]
    assert [table for _, table in told] == ["lake.sensors", "shop.orders"]
    assert [[one.name for one in group.schema.columns] for group, _ in told] == [["sensor", "at"], ["id"]]
    assert [group.schema.key for group, _ in told] == [(), ("id",)]


def test_the_workers_of_a_batch_are_told_the_formats_of_its_topics():
    pipeline = Pipeline(STREAMS)
    read, told = pipeline.session.read, []

    def reading(spark, kafka, ranges, task):
        told.append(task.formats)
        return read(spark, kafka, ranges, task)

    pipeline.session.read = reading
    pipeline.start()
    pipeline.send(Message(SENSORS, 0, value='{"sensor":"a"}'))
    pipeline.minute()
    pipeline.driver.stop()

    assert pipeline.lake.tables["lake.sensors"].rows == [(SENSORS, 0, 0)]
    assert [list(one) for one in told] == [[SENSORS]] * len(told)
    assert told[0][SENSORS].has_envelope is False
