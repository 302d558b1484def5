"""The type table: what each Connect and Debezium type becomes, and which schemas are refused."""

import json

import pytest

from isotherm_ingest.decode.debezium_schema import change_schema, key_fields
from isotherm_ingest.decode.kinds import SchemaError, fits, kind_of, widened

DECIMAL = "org.apache.kafka.connect.data.Decimal"


def decimal(scale: str, precision: str | None = None) -> dict:
    parameters = {"scale": scale} | ({"connect.decimal.precision": precision} if precision else {})
    return {"type": "bytes", "name": DECIMAL, "parameters": parameters}


@pytest.mark.parametrize(
    ("schema", "table_type"),
    [
        ({"type": "int16"}, "INT"),
        ({"type": "int32"}, "INT"),
        ({"type": "int64"}, "BIGINT"),
        ({"type": "boolean"}, "BOOLEAN"),
        ({"type": "float"}, "FLOAT"),
        ({"type": "double"}, "DOUBLE"),
        ({"type": "string"}, "STRING"),
        ({"type": "bytes"}, "BINARY"),
        ({"type": "string", "name": "io.debezium.data.Json"}, "STRING"),
        ({"type": "string", "name": "io.debezium.data.Uuid"}, "STRING"),
        ({"type": "string", "name": "io.debezium.time.ZonedTimestamp"}, "TIMESTAMP"),
        ({"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, "TIMESTAMP_NTZ"),
        ({"type": "int64", "name": "io.debezium.time.Timestamp"}, "TIMESTAMP_NTZ"),
        ({"type": "int64", "name": "io.debezium.time.NanoTimestamp"}, "TIMESTAMP_NTZ"),
        ({"type": "int32", "name": "io.debezium.time.Date"}, "DATE"),
        ({"type": "int64", "name": "io.debezium.time.MicroTime"}, "BIGINT"),
        (decimal("2", "10"), "DECIMAL(10,2)"),
        (decimal("4", "38"), "DECIMAL(38,4)"),
        (decimal("0"), "DECIMAL(38,0)"),
        (decimal("10", "60"), "STRING"),
        (decimal("1", "1"), "DECIMAL(1,1)"),
        (decimal("0", "0"), "STRING"),
        (decimal("0", "-1"), "STRING"),
        ({"type": "array", "items": decimal("0", "0")}, "ARRAY<STRING>"),
        ({"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}, "STRING"),
        ({"type": "array", "items": {"type": "string"}}, "ARRAY<STRING>"),
        ({"type": "array", "items": decimal("1", "5")}, "ARRAY<DECIMAL(5,1)>"),
        (
            {"type": "array", "items": {"type": "array", "items": {"type": "int32"}}},
            "ARRAY<ARRAY<INT>>",
        ),
        ({"type": "struct", "fields": []}, "STRING"),
        ({"type": "something new"}, "STRING"),
    ],
)
def test_types(schema, table_type):
    assert table_type == kind_of(schema).type


def test_a_decimal_with_nonsense_for_parameters_is_refused():
    with pytest.raises(SchemaError, match="decimal"):
        kind_of(decimal("two"))


@pytest.mark.parametrize(
    ("table", "message", "fit", "widen"),
    [
        ("INT", "INT", True, False),
        ("BIGINT", "INT", True, False),
        ("INT", "BIGINT", False, True),
        ("FLOAT", "DOUBLE", False, True),
        ("DECIMAL(10,2)", "DECIMAL(12,2)", False, True),
        ("DECIMAL(12,2)", "DECIMAL(10,2)", True, False),
        ("DECIMAL(12,2)", "DECIMAL(12,3)", False, False),
        ("STRING", "INT", False, False),
        ("INT", "STRING", False, False),
    ],
)
def test_only_what_loses_nothing_fits(table, message, fit, widen):
    assert (fit, widen) == (fits(table, message), widened(table, message))


def message(columns: list[dict], **payload: object) -> str:
    row = {"type": "struct", "fields": columns}
    source = {"type": "struct", "field": "source", "fields": [{"field": "lsn", "type": "int64"}]}
    fields = [
        {**row, "field": "before"},
        {**row, "field": "after"},
        source,
        {"type": "string", "field": "op"},
    ]
    told = {"source": {"schema": "public", "table": "orders"}, **payload}
    return json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": told})


def test_a_change_tells_its_columns_key_and_source():
    key = json.dumps({"schema": {"fields": [{"field": "id"}, {"field": "part"}]}, "payload": {}})
    schema = change_schema(
        message([{"field": "id", "type": "int64"}, {"field": "x`y", "type": "string"}]), key
    )

    assert ["id", "x`y"] == [column.name for column in schema.columns]
    assert (("id", "part"), "public", "orders", {"lsn"}, ("before", "after")) == (
        schema.key,
        schema.source_schema,
        schema.source_table,
        schema.source_fields,
        schema.images,
    )


@pytest.mark.parametrize(
    "value",
    [
        "",
        "7",
        "[]",
        "{}",
        '{"schema":null,"payload":{}}',
        '{"schema":{"fields":[]},"payload":{"source":{}}}',
        "{" * 10_000,
    ],
)
def test_what_is_no_change_is_refused(value):
    with pytest.raises(SchemaError):
        change_schema(value, None)


def test_columns_that_a_table_cannot_tell_apart_are_refused():
    with pytest.raises(SchemaError, match="upper and lower case"):
        change_schema(message([{"field": "Id", "type": "int64"}, {"field": "id", "type": "int64"}]), None)


def test_a_key_without_a_schema_has_no_fields():
    assert () == key_fields(None) == key_fields('{"id": 7}') == key_fields('{"schema": {"type": "int64"}}')


@pytest.mark.parametrize(
    ("turn", "first"),
    [
        (lambda text: text, True),
        (lambda text: json.dumps(json.loads(text)), False),
        (lambda text: json.dumps(dict(reversed(json.loads(text).items())), separators=(",", ":")), False),
        (lambda text: text.replace('"type":"int64"', '"doc":{"a":1,"payload":2},"type":"int64"'), False),
    ],
)
def test_whether_the_schema_ends_where_the_payload_begins(turn, first):
    """Only then is it cut off before a message is handed on."""
    text = json.dumps(json.loads(message([{"field": "id", "type": "int64"}])), separators=(",", ":"))

    assert change_schema(turn(text), None).schema_first == first
