"""Types of Avro that have a name: Java, PyIceberg and fastavro each read a manifest with two fields of one."""

import json
from typing import Any

import fastavro
import pytest
from fastavro.schema import SchemaParseException
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, FixedType, IcebergType, ListType, NestedField, StructType, UUIDType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from isotherm.clients.manifests.named_types import explained, named_apart


def twice(kind: IcebergType) -> Any:
    """What PyIceberg makes of a schema with several fields of a type, some of them within others."""
    inner = StructType(
        NestedField(3, "c", kind), NestedField(4, "d", ListType(5, kind, element_required=False))
    )
    schema = Schema(
        NestedField(1, "a", kind, required=True), NestedField(2, "b", inner), NestedField(6, "e", kind)
    )
    return AvroSchemaConversion().iceberg_to_avro(schema, "r")


def as_java_writes(schema: Any, known: set[str] | None = None) -> Any:
    """The same with a mere name wherever a type comes again."""
    known = set() if known is None else known
    if isinstance(schema, list):
        return [as_java_writes(one, known) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "fixed":
        name = schema["name"]
        found = name if name in known else schema
        known.add(name)
        return found
    return {key: as_java_writes(value, known) if key != "name" else value for key, value in schema.items()}


KINDS = [DecimalType(9, 2), UUIDType(), FixedType(4)]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_we_write_names_each_type_apart_and_all_read_it(kind: IcebergType) -> None:
    written = twice(kind)
    with pytest.raises(SchemaParseException, match="redefined"):
        fastavro.parse_schema(json.loads(json.dumps(written)))

    ours = named_apart(written)

    fastavro.parse_schema(json.loads(json.dumps(ours)))
    # PyIceberg understands it as it is.
    assert AvroSchemaConversion().avro_to_iceberg(ours) == AvroSchemaConversion().avro_to_iceberg(written)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_java_writes_is_understood(kind: IcebergType) -> None:
    written = as_java_writes(twice(kind))
    fastavro.parse_schema(json.loads(json.dumps(written)))
    with pytest.raises((TypeError, ValueError)):
        AvroSchemaConversion().avro_to_iceberg(written)

    assert explained(written) == twice(kind)


def test_what_names_nothing_twice_stays_as_it_is() -> None:
    written = twice(ListType(10, DecimalType(3, 1), element_required=True))["fields"][0]

    assert named_apart(written) == explained(written) == written


def test_a_record_that_names_itself_is_not_followed() -> None:
    written = {"type": "record", "name": "r", "fields": [{"name": "next", "type": ["null", "r"]}]}

    assert explained(written) == written
