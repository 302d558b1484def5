"""Which column of a table a column of the source is."""

import json
from dataclasses import replace

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import parse_mapping_from_json
from pyiceberg.types import ListType, LongType, NestedField, StringType

from isotherm_ingest.decode.debezium_schema import ChangeSchema, Column
from isotherm_ingest.decode.kinds import kind_of
from isotherm_ingest.tables.source_names import (
    MAPPING_PROPERTY,
    SourceNames,
    mapping_to_say,
    names_to_say,
    source_names,
    to_be_renamed,
)

TABLE = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "Total", LongType()),
    NestedField(4, "tags", ListType(5, StringType(), element_required=False)),
)
SAID = mapping_to_say(TABLE, {})


def schema(*columns, key=("id",)):
    """Of messages; a column is its name, or its name and its aliases."""
    named = [(one,) if isinstance(one, str) else one for one in columns]
    kind = kind_of({"type": "int64"})
    return ChangeSchema(
        tuple(Column(name, kind, aliases=tuple(more)) for name, *more in named),
        key, "", "", frozenset(), ("after",),
    )  # fmt: skip


def with_names(properties, **names):
    """The properties, as Iceberg leaves them where columns were called otherwise before."""
    mapping = json.loads(properties[MAPPING_PROPERTY])
    for one in mapping:
        one["names"] += names.get(one["names"][0], ())
    return {MAPPING_PROPERTY: json.dumps(mapping)}


def test_a_table_says_its_names_as_iceberg_writes_them():
    assert mapping_to_say(TABLE, SAID) == {}
    mapping = parse_mapping_from_json(SAID[MAPPING_PROPERTY])
    assert [(one.field_id, one.names) for one in mapping] == [(1, ["id"]), (2, ["Total"]), (4, ["tags"])]
    assert [(one.field_id, one.names) for one in mapping.root[2].fields] == [(5, ["element"])]


@pytest.mark.parametrize(
    ("declared", "name", "aliases", "called"),
    [
        ({}, "total", [], "Total"),
        ({}, "sum", [], "Total"),  # it had this name
        ({}, "new", [], "new"),
        ({}, "New", ["SUM"], "Total"),
        ({}, "id", ["total"], "id"),
        ({"sum": "amount"}, "Sum", [], "amount"),  # what a stream says comes first
        ({"new": "Total"}, "new", ["id"], "Total"),
        ({}, "gone", [], "gone"),  # a column that was dropped
    ],
)
def test_a_stream_s_word_comes_first_then_the_table_s_then_a_schema_s(declared, name, aliases, called):
    said = json.loads(with_names(SAID, Total=["sum"])[MAPPING_PROPERTY])
    said.append({"field-id": 3, "names": ["gone"]})
    names = source_names(declared, TABLE, {MAPPING_PROPERTY: json.dumps(said)})

    assert names.of(name, aliases) == called


def test_a_column_of_that_name_comes_before_one_that_had_it():
    names = source_names({}, TABLE, with_names(SAID, Total=["id"]))

    assert names.of("id") == "id"


@pytest.mark.parametrize("said", ["", "[", "{}", "[1]", '[{"field-id":1}]', '[{"field-id":1,"names":"id"}]'])
def test_what_is_no_name_mapping_says_nothing_and_is_left_alone(said):
    properties = {MAPPING_PROPERTY: said}
    names = source_names({"sum": "Total"}, TABLE, properties)

    assert (names.of("total"), names.of("sum")) == ("Total", "Total")
    assert names_to_say(TABLE, properties, names, [schema("id")]) == mapping_to_say(TABLE, properties) == {}


def test_a_schema_is_called_as_the_table_has_it():
    names = source_names({"number": "id"}, TABLE, with_names(SAID, Total=["sum"]))
    called = names.called(schema("number", "sum", "x", key=("number",)))

    assert called.called == (("number", "id"), ("sum", "Total"))
    assert [called.in_table(one) for one in ("number", "sum", "x")] == ["id", "Total", "x"]


def test_a_field_of_the_key_that_is_no_column_is_called_so_too():
    assert source_names({"number": "id"}).called(schema("id", key=("number",))).called == (("number", "id"),)


def test_an_alias_that_is_another_column_of_the_message_is_none():
    both = schema("total", ("new", "total"))

    assert [source_names({}, TABLE, SAID).called(both).in_table(one) for one in ("total", "new")] == [
        "Total",
        "new",
    ]
    assert names_to_say(TABLE, SAID, source_names({}, TABLE, SAID), [both]) == {}


def test_of_schemas_that_come_together_an_alias_counts_for_all():
    new, old = schema(("b", "a")), schema("a")
    names = SourceNames().beside([new, old])

    assert [names.called(one).in_table(one.columns[0].name) for one in (new, old)] == ["b", "b"]


def test_a_column_that_the_table_has_by_a_name_of_the_source_is_renamed_once():
    names = source_names({"total": "amount", "sum": "amount"}, TABLE, with_names(SAID, Total=["sum"]))
    assert to_be_renamed(names) == {"Total": "amount"}

    kept = source_names({"amount": "Total", "sum": "Total"}, TABLE, SAID)
    assert to_be_renamed(kept) == {}
    there = Schema(*TABLE.fields, NestedField(6, "AMOUNT", LongType()))
    assert to_be_renamed(source_names({"total": "amount"}, there, SAID)) == {}


def test_no_column_is_renamed_that_a_stream_wants_for_another_name():
    """A table whose mapping gives `sum` to `id`, which is wanted itself: it is not taken away."""
    names = source_names({"sum": "amount", "number": "id"}, TABLE, with_names(SAID, id=["sum"]))

    assert to_be_renamed(names) == {}


def test_what_was_said_once_stays_on_the_table():
    names = source_names({"sum": "Total"}, TABLE, SAID)
    message = names.called(schema("sum", ("id", "number", "no")))
    said = names_to_say(TABLE, SAID, names, [message])
    later = source_names({}, TABLE, said)

    assert [later.of(one) for one in ("sum", "number", "no", "tags")] == ["Total", "id", "id", "tags"]
    assert names_to_say(TABLE, said, later, [message, schema("sum")]) == {}
    mapping = parse_mapping_from_json(said[MAPPING_PROPERTY])
    assert [sorted(one.names) for one in mapping] == [["id", "no", "number"], ["Total", "sum"], ["tags"]]


def test_a_name_belongs_to_one_column():
    """Iceberg refuses a mapping in which one stands twice."""
    before = with_names(SAID, id=["sum"])
    names = source_names({"sum": "Total"}, TABLE, before)
    said = names_to_say(TABLE, before, names, [names.called(schema("sum"))])

    assert [one.names for one in parse_mapping_from_json(said[MAPPING_PROPERTY])][:2] == [
        ["id"],
        ["Total", "sum"],
    ]


def test_nothing_is_said_for_a_column_that_the_table_does_not_have():
    names = source_names({"sum": "amount"}, TABLE, SAID)

    assert names_to_say(TABLE, SAID, names, [replace(schema("sum"), called=(("sum", "amount"),))]) == {}
