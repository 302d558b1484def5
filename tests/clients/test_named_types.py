"""Types of Avro that have a name: Java, PyIceberg and fastavro each read a manifest with two fields of one."""

import json
from typing import Any

import fastavro
import pytest
from fastavro.schema import SchemaParseException
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, FixedType, IcebergType, ListType, NestedField, StructType, UUIDType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from isotherm.clients.manifests.named_types import explained, named


def twice(kind: IcebergType) -> Any:
    """What PyIceberg makes of a schema with several fields of a type, some of them within others."""
    inner = StructType(
        NestedField(3, "c", kind), NestedField(4, "d", ListType(5, kind, element_required=False))
    )
    schema = Schema(
        NestedField(1, "a", kind, required=True), NestedField(2, "b", inner), NestedField(6, "e", kind)
    )
    return AvroSchemaConversion().iceberg_to_avro(schema, "r")


@pytest.mark.parametrize("kind", [DecimalType(9, 2), UUIDType(), FixedType(4)], ids=str)
def test_a_name_is_explained_once_and_whoever_needs_more_gets_it_back(kind: IcebergType) -> None:
    written = twice(kind)
    with pytest.raises(SchemaParseException, match="redefined"):
        fastavro.parse_schema(json.loads(json.dumps(written)))

    ours = named(written)

    fastavro.parse_schema(json.loads(json.dumps(ours)))
    assert explained(ours) == written
    assert AvroSchemaConversion().avro_to_iceberg(explained(ours)) == AvroSchemaConversion().avro_to_iceberg(
        written
    )


def test_what_names_nothing_twice_stays_as_it_is() -> None:
    written = twice(ListType(10, DecimalType(3, 1), element_required=True))["fields"][0]

    assert named(written) == explained(written) == written


def test_a_record_that_names_itself_is_not_followed() -> None:
    written = {"type": "record", "name": "r", "fields": [{"name": "next", "type": ["null", "r"]}]}

    assert explained(written) == written
