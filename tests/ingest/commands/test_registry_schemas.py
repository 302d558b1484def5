"""What a registry has for a topic, without any message of it."""

import json

import pytest

from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.commands.registry_schemas import in_registry
from isotherm_ingest.registry import Registry
from isotherm_ingest.streams import StreamsConfig
from support.avro import ENVELOPE, KEY, VALUE, envelope_of
from support.fake_registry import FakeRegistry

TOPIC = "shop.public.orders"
READING = {"type": "record", "name": "Reading", "fields": [{"name": "sensor", "type": "string"}]}


@pytest.fixture
def registry():
    made = FakeRegistry()
    yield made
    made.close()


def look(registry, *, table='"lake.{schema}_{table}"', more="", topic=TOPIC):
    text = f"""
pipeline: shop
catalog: {{name: lake}}
kafka: {{properties: {{bootstrap.servers: unused}}}}
registry: {{url: "{registry.url}"}}
streams: [{{topics: ".*", table: {table}, format: avro{more}}}]
"""
    config = parse_yaml(text, "streams.yaml", StreamsConfig)
    return in_registry(config, Registry(config.registry), topic, lambda _, stream: stream)


def test_a_table_is_named_by_the_name_of_the_schema_and_its_key_is_that_of_the_keys(registry):
    registry.register(f"{TOPIC}-value", envelope_of(VALUE), "FULL_TRANSITIVE")
    registry.register(f"{TOPIC}-key", KEY, "FULL")
    found = look(registry)
    ((group, name, _),) = found.groups

    assert (name, group.schema.key) == ("lake.public_orders", ("id",))
    assert [(one.name, one.kind.type) for one in group.schema.columns][:2] == [
        ("id", "BIGINT"),
        ("name", "STRING"),
    ]
    assert found.notes == (f"{TOPIC}-key is FULL, not FULL_TRANSITIVE",)
    assert found.looked_at == f"{TOPIC}-value version 1, {TOPIC}-key version 1"


def test_without_connect_s_name_avro_s_own_is_taken(registry):
    bare = {name: said for name, said in ENVELOPE.items() if name != "connect.name"}
    registry.register(f"{TOPIC}-value", {**bare, "namespace": "p.sales.lines"})
    ((group, name, _),) = look(registry).groups

    assert (name, group.schema.key) == ("lake.sales_lines", ())


def test_events_of_anybody_need_no_name_and_no_key(registry):
    registry.register("readings-value", READING)
    registry.register("readings-key", "no schema", schemaType="JSON")
    found = look(registry, table="lake.readings", more=", envelope: none, mode: changelog", topic="readings")

    assert [name for _, name, _ in found.groups] == ["lake.readings"]


def test_a_field_of_a_message_is_in_no_registry(registry):
    registry.register("readings-value", READING)
    found = look(
        registry, table="'lake.{field:sensor}'", more=", envelope: none, mode: changelog", topic="readings"
    )

    assert found.notes == ("a field of each message says its table: see --against topics",)


@pytest.mark.parametrize("key", ["no schema", json.dumps({"type": "string"})])
def test_a_key_that_has_no_fields_counts_as_none(registry, key):
    registry.register(f"{TOPIC}-value", ENVELOPE)
    registry.register(f"{TOPIC}-key", key)

    assert look(registry).groups[0][0].schema.key == ()


@pytest.mark.parametrize(
    ("schema", "more", "why"),
    [
        ("{}", {"schemaType": "PROTOBUF"}, "no Avro, but PROTOBUF"),
        (READING, {}, "no change event"),
        (ENVELOPE, {"references": [{"name": "x"}]}, "refers to others"),
        ("nonsense", {}, "no Avro schema"),
    ],
)
def test_what_a_driver_could_not_read_is_refused(registry, schema, more, why):
    registry.register(f"{TOPIC}-value", schema, **more)
    found = look(registry)

    assert found.groups == ()
    assert why in found.refused[0]


def test_a_topic_without_a_subject_is_told_and_one_of_an_odd_name_is_found(registry):
    assert look(registry).notes == (f"the registry has no subject {TOPIC}-value",)
    registry.register("a/b c-value", READING)
    odd = look(registry, table="lake.readings", more=", envelope: none, mode: changelog", topic="a/b c")
    assert len(odd.groups) == 1


@pytest.mark.parametrize(
    "trouble", [(500, b""), (200, b"<html>"), (200, b'{"schema":"{}"}'), (404, b"{}"), (404, b"<html>")]
)
def test_a_registry_that_does_not_answer_as_one_says_nothing_of_any_schema(registry, trouble):
    registry.trouble = trouble
    found = look(registry)

    assert "the registry" in found.trouble
    assert (found.groups, found.refused, found.notes) == ((), (), ())
