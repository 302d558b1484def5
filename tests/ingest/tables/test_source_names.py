"""Which column of a table a column of the source is."""

import json

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, NestedField, StringType

from isotherm_ingest.decode.debezium_messages import CHANGELOG_COLUMNS
from isotherm_ingest.decode.debezium_schema import ChangeSchema, Column
from isotherm_ingest.decode.kinds import kind_of
from isotherm_ingest.tables.misfits import Columns, beside
from isotherm_ingest.tables.portion import Group
from isotherm_ingest.tables.source_names import (
    COLUMNS_PROPERTY,
    MAX_NAMES,
    SourceNames,
    names_to_say,
    source_names,
    to_be_renamed,
)

TABLE = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "Total", LongType()),
    NestedField(4, "tags", ListType(5, StringType(), element_required=False)),
)
BESIDE = NestedField(7, "Total__string", StringType(), doc="ingest: of column 2, what does not fit into it")


def schema(*columns, key=("id",), kind="int64"):
    """Of messages; a column is its name, or its name and its aliases."""
    named = [(one,) if isinstance(one, str) else one for one in columns]
    return ChangeSchema(
        tuple(Column(name, kind_of({"type": kind}), aliases=tuple(more)) for name, *more in named),
        key, "", "", frozenset(), ("after",),
    )  # fmt: skip


def keeping(**names):
    """The properties of a table that keeps these names."""
    return {COLUMNS_PROPERTY: json.dumps(names)}


def of(names, *said):
    return [names.of(one) for one in said]


def kept(said):
    return json.loads(said[COLUMNS_PROPERTY])


ALL = keeping(id=1, total=2, tags=4)


def said(names, *messages):
    return names_to_say(names, [names.called(one) for one in messages])


@pytest.mark.parametrize(
    ("declared", "name", "aliases", "called"),
    [
        ({}, "total", [], "Total"),
        ({}, "sum", [], "Total"),
        ({}, "new", [], "new"),
        ({}, "New", ["SUM"], "Total"),
        ({}, "id", ["total"], "id"),
        ({"sum": "amount"}, "Sum", [], "amount"),  # what a stream says comes first
        ({"new": "Total"}, "new", ["id"], "Total"),
        ({}, "gone", [], "gone"),  # a column that was dropped
        ({}, "tags", ["sum"], "tags"),  # its own name, though nothing is kept of it
    ],
)
def test_a_stream_s_word_comes_first_then_the_table_s_then_a_schema_s(declared, name, aliases, called):
    names = source_names(declared, TABLE, keeping(id=1, total=2, sum=2, gone=3))

    assert names.of(name, aliases) == called


def test_names_that_are_swapped_or_used_again_in_the_lake_are_followed_by_id():
    swapped = Schema(NestedField(1, "b", LongType()), NestedField(2, "a", LongType()))
    again = Schema(NestedField(1, "a_old", LongType()), NestedField(2, "a", LongType()))

    for table, expected in ((swapped, ["b", "a"]), (again, ["a_old", "a"])):
        names = source_names({}, table, keeping(a=1, b=2))
        assert of(names, "a", "b") == expected
        assert said(names, schema("a", "b")) == {}


@pytest.mark.parametrize("garbage", ["", "[", "{}", "[1]", "7", '{"id":"1"}', '{"id":true}', "[" * 100_000])
def test_of_a_table_that_keeps_no_names_those_of_now_count_and_are_kept(garbage):
    names = source_names({"sum": "Total"}, TABLE, {COLUMNS_PROPERTY: garbage})

    assert of(names, "total", "sum", "no") == ["Total", "Total", "no"]
    assert kept(names_to_say(names)) == {"id": 1, "total": 2, "tags": 4, "sum": 2}
    assert kept(names_to_say(source_names({}, TABLE, {}))) == {"id": 1, "total": 2, "tags": 4}


def test_what_can_be_read_of_the_names_that_are_kept_is_kept():
    names = source_names({}, TABLE, {COLUMNS_PROPERTY: '{"SUM":2,"x":"y","gone":9}'})

    assert of(names, "sum", "x") == ["Total", "x"]
    assert kept(names_to_say(names)) == {"sum": 2, "id": 1, "tags": 4}


def test_a_name_stays_with_its_column_until_that_is_gone_or_a_stream_says_otherwise():
    table = Schema(*TABLE.fields, NestedField(6, "x", LongType()))
    before = keeping(id=1, total=2, tags=4, x=1, y=9)

    assert names_to_say(source_names({}, table, before)) == {}
    assert kept(said(source_names({}, table, before), schema(("z", "x")))) == {
        "id": 1, "total": 2, "tags": 4, "x": 1, "z": 1,
    }  # fmt: skip
    assert said(source_names({}, table, before), schema("id", ("tags", "x"))) == {}
    assert kept(said(source_names({}, table, before), schema(("x", "y")))) == {
        "id": 1, "total": 2, "tags": 4, "x": 1, "y": 1,
    }  # fmt: skip
    assert kept(names_to_say(source_names({"x": "X"}, table, before)))["x"] == 6


def test_a_new_name_of_the_lake_is_none_of_the_source_before_a_message_has_it():
    """Or the source could never have a column of that name, also once the lake gave the name back."""
    renamed = Schema(NestedField(1, "number", LongType()))
    back = Schema(NestedField(1, "id", LongType()))

    assert said(source_names({}, renamed, keeping(id=1)), schema("id")) == {}
    assert of(source_names({}, back, keeping(id=1)), "number") == ["number"]
    assert kept(said(source_names({}, renamed, keeping(id=1)), schema("number"))) == {"id": 1, "number": 1}


def test_columns_that_are_not_the_source_s_have_no_name_of_it():
    own = [NestedField(10 + n, name, StringType()) for n, name in enumerate(CHANGELOG_COLUMNS)]
    names = source_names({"_op": "kind"}, Schema(*TABLE.fields, BESIDE, *own), {}, CHANGELOG_COLUMNS)

    assert kept(names_to_say(names)) == {"id": 1, "total": 2, "tags": 4}
    assert to_be_renamed(names) == {}
    assert of(names, "_ts") == ["_ts"]  # which is refused
    mirror = source_names({"_op": "kind"}, Schema(*TABLE.fields, *own), {})
    assert kept(names_to_say(mirror))["_op"] == 10
    assert to_be_renamed(mirror) == {"_op": "kind"}


def test_a_column_of_the_source_is_never_one_that_stands_beside_another():
    names = source_names({}, Schema(*TABLE.fields, BESIDE), ALL)
    assert of(names, "total__STRING", "total") == ["total__STRING_2", "Total"]

    there = Schema(*TABLE.fields, BESIDE, NestedField(8, "total__string_2", StringType()))
    assert of(source_names({}, there, keeping(total__string=8)), "total__string") == ["total__string_2"]
    assert of(source_names({}, there, ALL), "total__string") == ["total__string_3"]


def test_a_schema_is_called_as_the_table_has_it():
    names = source_names({"number": "id"}, TABLE, keeping(sum=2))
    called = names.called(schema("number", "sum", "x", key=("number",)))

    assert called.called == (("number", "id"), ("sum", "Total"))
    assert [called.in_table(one) for one in ("number", "sum", "x")] == ["id", "Total", "x"]


def test_a_field_of_the_key_that_is_no_column_is_called_so_too():
    assert SourceNames({"number": "id"}).called(schema("id", key=("number",))).called == (("number", "id"),)


def test_an_alias_that_is_another_column_of_the_message_is_none():
    both = schema("total", ("new", "total"))
    names = source_names({}, TABLE, ALL)

    assert [names.called(both).in_table(one) for one in ("total", "new")] == ["Total", "new"]
    assert said(names, both) == {}


def test_of_schemas_that_come_together_an_alias_counts_for_all():
    new, old = schema(("b", "a")), schema("a")
    names = SourceNames().beside([new, old])

    assert [names.called(one).in_table(one.columns[0].name) for one in (new, old)] == ["b", "b"]


def test_a_column_that_the_table_has_by_a_name_of_the_source_is_renamed_once():
    names = source_names({"total": "amount", "sum": "amount"}, TABLE, keeping(total=2, sum=2))
    assert to_be_renamed(names) == {"Total": "amount"}
    renamed = names.renamed({"Total": "amount"})
    assert (of(renamed, "total", "amount"), to_be_renamed(renamed)) == (["amount", "amount"], {})

    kept_names = source_names({"amount": "Total", "sum": "Total"}, TABLE, ALL)
    assert to_be_renamed(kept_names) == {}
    for field in (NestedField(6, "AMOUNT", LongType()), called_so(BESIDE, "amount")):
        assert to_be_renamed(source_names({"total": "amount"}, Schema(*TABLE.fields, field), ALL)) == {}


def called_so(field, name):
    return NestedField(field.field_id, name, field.field_type, doc=field.doc)


def test_no_column_is_renamed_that_a_stream_wants_for_another_name():
    """A table that gives `sum` to `id`, which is wanted itself: it is not taken away."""
    names = source_names({"sum": "amount", "number": "id"}, TABLE, keeping(sum=1))

    assert to_be_renamed(names) == {}


def test_what_was_said_once_stays_on_the_table():
    names = source_names({"sum": "total"}, TABLE, ALL)
    message = schema("sum", ("id", "number", "no"))
    told = said(names, message)
    later = source_names({}, TABLE, told)

    assert kept(told) == {"id": 1, "total": 2, "tags": 4, "sum": 2, "number": 1, "no": 1}
    assert of(later, "sum", "number", "no", "tags") == ["Total", "id", "id", "tags"]
    assert said(later, message, schema("sum")) == {}


def test_nothing_is_said_for_a_column_that_the_table_does_not_have():
    names = source_names({"sum": "amount"}, TABLE, ALL)

    assert said(names, schema("sum", "new")) == {}


def test_the_names_that_are_kept_are_bounded_and_those_of_columns_come_first():
    aliases = [f"a{number}" for number in range(2 * MAX_NAMES)]
    told = said(source_names({"sum": "Total"}, TABLE, {}), schema(("id", *aliases)))

    assert len(kept(told)) == MAX_NAMES
    assert {"id", "total", "tags", "sum", "a0"} <= kept(told).keys()
    full = source_names({"sum": "Total", "a0": "Total"}, TABLE, told)
    assert said(full, schema("b", ("id", *aliases))) == {
        COLUMNS_PROPERTY: json.dumps(kept(told) | {"a0": 2}, separators=(",", ":"))
    }


def test_a_name_means_the_column_whatever_type_one_message_has_there():
    """A column is renamed and becomes text at once; later it is a number again, by its new name."""
    table = Schema(*TABLE.fields, BESIDE)
    columns = Columns(
        {"id": "BIGINT", "Total": "BIGINT", "Total__string": "STRING"}, beside={"Total__string": "Total"}
    )
    names = source_names({}, table, ALL)
    text = names.called(schema(("amount", "total"), kind="string"))
    group, new = beside(columns, Group("t", 1, text), (), ())

    assert (group.schema.in_table("amount"), new) == ("Total__string", {})
    told = names_to_say(names, [text])
    later = source_names({}, table, told).called(schema("amount"))
    assert beside(columns, Group("t", 2, later), (), ())[0].schema.in_table("amount") == "Total"
