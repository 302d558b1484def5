"""Columns for values of a type that another one cannot become."""

from types import SimpleNamespace

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, LongType, NestedField, StringType

from isotherm_ingest.decode.debezium_schema import ChangeSchema, Column
from isotherm_ingest.decode.kinds import kind_of
from isotherm_ingest.tables.lake import TableNow
from isotherm_ingest.tables.misfits import beside, instead_of
from isotherm_ingest.tables.portion import Group

TABLE = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "Price", DecimalType(10, 2)),
    NestedField(3, "note", StringType()),
)


def now():
    return TableNow(SimpleNamespace(schema=lambda: TABLE))


def group(called=(), **columns):
    named = tuple(Column(name, kind_of({"type": kind})) for name, kind in columns.items())
    return Group("t", 1, ChangeSchema(named, (), "", "", frozenset(), ("after",), called=called))


@pytest.mark.parametrize(
    ("columns", "called"),
    [
        ({"price": "string"}, {"price": "Price__string"}),
        ({"price": "int64", "note": "string"}, {"price": "Price__bigint"}),
        ({"note": "boolean"}, {"note": "note__boolean"}),
        ({"new": "boolean"}, {}),
        ({"id": "string"}, {}),  # takes no null
    ],
)
def test_what_does_not_fit_is_called_by_its_type(columns, called):
    assert dict(beside(now().columns, now().required, group(**columns), ()).schema.called) == called


def test_columns_of_the_key_stay():
    assert beside(now().columns, now().required, group(note="boolean"), ("NOTE",)).schema.called == ()


def test_a_column_that_the_table_calls_otherwise_stands_beside_that():
    found = beside(now().columns, now().required, group((("total", "Price"),), total="string"), ())

    assert found.schema.called == (("total", "Price__string"),)


def test_a_column_that_is_named_for_its_type_stands_beside_another_one():
    columns = {
        "price": "DECIMAL(10,2)",
        "price__string": "STRING",
        "price__decimal_12_4": "DECIMAL(12,4)",
        "price__array_string": "ARRAY<STRING>",
        "price__int": "STRING",
        "note__string": "STRING",
        "__string": "STRING",
    }

    assert instead_of(columns) == dict.fromkeys(list(columns)[1:4], "price")
