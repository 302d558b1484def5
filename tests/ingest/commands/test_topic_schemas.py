"""Which schemas are in the newest messages of a topic, on a real broker."""

import json

import pytest
from confluent_kafka import Producer

from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.batches.routing import Routing
from isotherm_ingest.commands import topic_schemas
from isotherm_ingest.commands.topic_schemas import in_topic
from isotherm_ingest.dead_letter_topic import DeadLetters
from isotherm_ingest.kafka import Broker
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.registry import Registry
from isotherm_ingest.streams import StreamsConfig
from support.avro import ENVELOPE, KEY, change, confluent, written
from support.changes import COLUMNS, Source
from support.fake_registry import FakeRegistry

pytestmark = pytest.mark.stack


@pytest.fixture
def look(kafka):
    """Looks at a topic that has these messages, by partition."""

    def looked(topic, *partitions, table='"shop.{table}"', more="", registry=None):
        kafka.create_topic(topic, len(partitions))
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        for number, messages in enumerate(partitions):
            for key, value in messages:
                producer.produce(topic, key=key, value=value, partition=number)
        producer.flush()
        of_registry = "" if registry is None else f'registry: {{url: "{registry.url}"}}'
        text = f"""
pipeline: shop
catalog: {{name: lake}}
kafka: {{properties: {{bootstrap.servers: "{kafka.bootstrap_servers}"}}}}
{of_registry}
streams: [{{topics: "{topic}", table: {table}{more}}}]
"""
        config = parse_yaml(text, "streams.yaml", StreamsConfig)
        broker = Broker(config.kafka.properties)
        letters = DeadLetters(broker, "unused", "shop", Metrics())
        routing = Routing(config, letters, lambda _, stream: stream, Registry(config.registry))
        return in_topic(config, broker, routing, topic)

    return looked


def columns_of(found):
    return [[one.name for one in group.schema.columns] for group, _, _ in found.groups]


def test_of_each_partition_the_newest_messages_are_looked_at(look):
    old, new = Source("orders"), Source("orders", {**COLUMNS, "city": {"type": "string", "optional": True}})
    first = [old.insert(number) for number in range(5)] + [
        new.insert(number) for number in range(topic_schemas.NEWEST)
    ]
    found = look("newest.two", first, [old.insert(1), (b"1", None)])

    assert found.looked_at == f"the newest {topic_schemas.NEWEST + 2} messages"
    assert columns_of(found) == [[*COLUMNS, "city"], [*COLUMNS]], (
        "the last message of the other partition is a tombstone"
    )
    assert look("newest.one", first).looked_at == f"the newest {topic_schemas.NEWEST} messages"


def test_what_no_table_is_for_is_counted_with_its_reason_and_what_a_source_says_of_itself_is_not(look):
    beat = {
        "schema": {"type": "struct", "fields": [], "name": "io.debezium.connector.common.Heartbeat"},
        "payload": {},
    }
    no_change = {"schema": {"type": "struct", "fields": []}, "payload": {"op": "c", "source": {}}}
    told = [json.dumps(one).encode() for one in (beat, no_change)]
    found = look(
        "reasons",
        [(None, b"no json"), (None, b"nor this"), *[(None, one) for one in told], Source("orders").insert(1)],
    )

    assert len(found.groups) == 1
    assert sorted(one.split(":")[0] for one in found.refused) == ["1 message", "2 messages"]
    assert all("no_schema" in one for one in found.refused)


def test_of_messages_that_say_their_table_each_value_is_one_and_what_says_none_is_counted(look):
    source = Source("orders")
    names = ["eu", "us", None, "eu", "", ""]
    found = look(
        "routed",
        [source.insert(number, name=name) for number, name in enumerate(names)],
        table='"shop.{table}_{field:name}"',
        more=", mode: changelog",
    )

    assert sorted(name for _, name, _ in found.groups) == ["shop.orders_eu", "shop.orders_us"]
    assert found.refused == (
        "2 messages: no_route:field 'name' is empty",
        "1 message: no_route:field 'name' is null",
    )


def test_a_topic_without_messages_holds_none(look):
    found = look("empty", [], [])

    assert (found.groups, found.refused, found.trouble, found.looked_at) == ((), (), "", "")


def test_large_messages_are_looked_at_up_to_a_size(look, monkeypatch):
    monkeypatch.setattr(topic_schemas, "MOST_BYTES", 1)
    monkeypatch.setattr("isotherm_ingest.workers.reading.ROWS", 3)
    found = look("large", [Source("orders").insert(number) for number in range(10)])

    assert found.looked_at == "the newest 3 messages"


def test_of_avro_the_schemas_are_fetched_and_one_that_is_unknown_is_told(look):
    registry = FakeRegistry()
    value, key = registry.add(ENVELOPE), registry.add(KEY)
    row = {"id": 1, **dict.fromkeys(("name", "amount", "at", "tags", "paid"))}
    message = confluent(key, written(KEY, {"id": 1})), confluent(value, written(ENVELOPE, change(after=row)))
    found = look("avro.all", [message], more=", format: avro", registry=registry)

    assert [(name, group.schema.key) for group, name, _ in found.groups] == [("shop.orders", ("id",))]
    unknown = None, confluent(99, message[1][5:])
    half = look("avro.half", [message, unknown], more=", format: avro", registry=registry)
    assert "does not know schema 99" in half.trouble
    assert [name for _, name, _ in half.groups] == ["shop.orders"], "of the others something can be said"
    registry.close()
