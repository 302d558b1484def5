"""Columns for values of a type that another one cannot become."""

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, DecimalType, LongType, NestedField, StringType

from isotherm_ingest.decode.debezium_schema import ChangeSchema, Column
from isotherm_ingest.decode.kinds import kind_of
from isotherm_ingest.tables.misfits import Columns, base_of, beside, free_name, instead_of
from isotherm_ingest.tables.portion import Group

TABLE = Columns(
    {"id": "BIGINT", "Price": "DECIMAL(10,2)", "note": "STRING"},
    frozenset({"id"}),
    {"id": 1, "Price": 2, "note": 3},
)


def group(called=(), **columns):
    named = tuple(Column(name, kind_of({"type": kind})) for name, kind in columns.items())
    return Group("t", 1, ChangeSchema(named, (), "", "", frozenset(), ("after",), called=called))


def called(table, one, key=(), taken=()):
    found, new = beside(table, one, key, taken)
    return dict(found.schema.called), new


def of(number):
    return f"ingest: of column {number}, what does not fit into it"


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"price": "string"}, {"price": "Price__string"}),
        ({"price": "int64", "note": "string"}, {"price": "Price__bigint"}),
        ({"note": "boolean"}, {"note": "note__boolean"}),
        ({"new": "boolean"}, {}),
        ({"id": "string"}, {}),  # takes no null
    ],
)
def test_what_does_not_fit_is_called_by_its_type(columns, expected):
    names, new = called(TABLE, group(**columns))

    assert (names, list(new)) == (expected, list(expected.values()))


def test_columns_of_the_key_stay():
    assert called(TABLE, group(note="boolean"), ("NOTE",)) == ({}, {})


def test_a_column_that_the_table_calls_otherwise_stands_beside_that():
    expected = {"total": "Price__string"}, {"Price__string": "Price"}
    assert called(TABLE, group((("total", "Price"),), total="string")) == expected


def test_a_new_column_says_beside_which_one_it_stands():
    assert TABLE.comments({"Price__string": "Price", "x": "not there"}) == {"Price__string": of(2)}


def test_the_column_beside_is_told_by_its_doc_whatever_it_is_called():
    kinds = TABLE.kinds | {"price_text": "STRING", "how": "INT", "note__boolean": "BOOLEAN"}
    table = Columns(kinds, beside={"price_text": "Price", "how": "note"})

    assert called(table, group(price="string")) == ({"price": "price_text"}, {})
    # One that is wide enough is taken; one that has another's name is not.
    assert called(table, group(note="int16")) == ({"note": "how"}, {})
    assert called(table, group(note="boolean")) == (
        {"note": "note__boolean_2"},
        {"note__boolean_2": "note"},
    )


def test_a_name_that_a_message_of_the_batch_brings_is_left_to_it():
    assert called(TABLE, group(note="boolean"), taken={"note__boolean"})[0] == {"note": "note__boolean_2"}
    assert free_name("A", {"a", "a_2"}) == "A_3"


def test_which_column_stands_beside_which_is_in_its_doc_by_id():
    table = Schema(
        NestedField(2, "settled", BooleanType()),
        NestedField(3, "settled__string", StringType(), doc="how it was settled"),
        NestedField(4, "paid__string", StringType(), doc=of(2)),
        NestedField(5, "other", DecimalType(9, 2), doc=of(2)),
        NestedField(6, "orphan", LongType(), doc=of(1)),
        NestedField(7, "own", LongType(), doc=of(7)),
        NestedField(8, "said", LongType(), doc="is " + of(2)),
    )

    assert instead_of(table) == {"paid__string": "settled", "other": "settled"}
    assert [base_of(one) for one in table.fields] == [None, None, 2, 2, 1, 7, None]
