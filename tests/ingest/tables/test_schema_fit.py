"""Whether the rows of a schema fit into a table, and which ALTERs make room."""

import re
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from isotherm_ingest.decode.debezium_messages import CHANGELOG_COLUMNS
from isotherm_ingest.decode.debezium_schema import ChangeSchema, Column
from isotherm_ingest.decode.kinds import kind_of
from isotherm_ingest.failures import TableRefused
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.streams import Stream
from isotherm_ingest.tables.column_names import Names
from isotherm_ingest.tables.lake import Lake
from isotherm_ingest.tables.portion import Group
from isotherm_ingest.tables.schema_fit import MAX_COLUMNS, SchemaFit, changes_for, new_columns
from isotherm_ingest.tables.sessions import Sessions
from isotherm_ingest.tables.source_names import COLUMNS_PROPERTY
from isotherm_ingest.tables.tools import Tools
from support.writes import Spark


def group(**columns):
    named = tuple(Column(name, kind_of({"type": kind})) for name, kind in columns.items())
    return Group(
        "shop.public.orders",
        7,
        ChangeSchema(named, ("id",), "public", "orders", frozenset(), ("before", "after")),
    )


@pytest.mark.parametrize(
    ("columns", "message", "misfit", "changes"),
    [
        ({"id": "BIGINT"}, {"id": "int64"}, None, []),
        ({"ID": "BIGINT"}, {"id": "int64"}, None, []),
        ({"id": "BIGINT"}, {"id": "int32"}, None, []),
        ({"id": "INT"}, {"id": "int64"}, None, ["ALTER COLUMN `id` TYPE BIGINT"]),
        ({"a": "FLOAT"}, {"a": "double"}, None, ["ALTER COLUMN `a` TYPE DOUBLE"]),
        ({"id": "INT"}, {"id": "int32", "x`y": "string"}, None, ["ADD COLUMNS (`x``y` STRING)"]),
        ({"id": "INT", "gone": "STRING"}, {"id": "int32"}, None, []),
        ({"id": "STRING"}, {"id": "int64"}, "column id is STRING in the table and BIGINT in the message", []),
        # What does not fit changes nothing, whatever else would.
        (
            {"id": "STRING"},
            {"new": "int32", "id": "int64"},
            "column id is STRING in the table and BIGINT in the message",
            [],
        ),
    ],
)
def test_a_column_is_added_or_widened_and_never_anything_else(columns, message, misfit, changes):
    assert changes_for(columns, group(**message), "mirror", Names()) == (misfit, changes)


@pytest.mark.parametrize("name", ["_pos", "_FILE", "_row_id"])
def test_a_later_column_with_a_name_of_iceberg_s_own_does_not_fit(name):
    """Spark could never read the table again."""
    misfit, changes = changes_for({"id": "INT"}, group(id="int32", **{name: "string"}), "mirror", Names())

    assert misfit == f"column {name!r} of the source has the name of one of Iceberg's own columns"
    assert changes == []


def test_a_later_column_with_a_name_of_a_changelog_s_own_does_not_fit():
    """It would be dropped without a word, for the table has such a column."""
    columns = {"id": "INT", **{name: own.type for name, own in CHANGELOG_COLUMNS.items()}}
    message = group(id="int32", _op="string")

    assert changes_for(columns, message, "changelog", Names()) == (
        "column '_op' of the source has the name of a changelog's own column",
        [],
    )
    assert changes_for({"id": "INT"}, message, "mirror", Names()) == (None, ["ADD COLUMNS (`_op` STRING)"])


@pytest.mark.parametrize(
    ("columns", "changes"),
    [
        ({"id": "int32", "at_day": "string"}, None),
        ({"id": "int32", "new": "string", "at_day": "string"}, None),
        ({"id": "int32", "at_week": "string"}, ["ADD COLUMNS (`at_week` STRING)"]),
        # It is there already, whatever else has its name.
        ({"id": "int32", "region": "string"}, []),
    ],
)
def test_a_name_that_something_in_the_table_has_does_not_fit(columns, changes):
    """Iceberg would refuse the column with each message that has it, and the table would stand for ever."""
    names = Names(frozenset({"id", "at", "region"}), frozenset(), frozenset({"at_day", "region"}))
    table = {"id": "INT", "at": "TIMESTAMP", "region": "STRING"}
    why = "column 'at_day' of the source has the name of a partition field of the table"

    expected = (why, []) if changes is None else (None, changes)
    assert changes_for(table, group(**columns), "mirror", names) == expected


def test_new_columns_of_a_message_come_together_and_leave_the_table_with_one_schema_more():
    message = group(id="int64", a="int32", b="string")

    assert changes_for({"id": "INT"}, message, "mirror", Names()) == (
        None,
        ["ADD COLUMNS (`a` INT, `b` STRING)", "ALTER COLUMN `id` TYPE BIGINT"],
    )


def test_a_table_that_has_very_many_columns_gets_no_more():
    """Its metadata grows with each that comes, by all of them, until nobody reads it any more."""
    columns = {f"c{number}": "INT" for number in range(MAX_COLUMNS)}
    why = f"the table has {MAX_COLUMNS} columns, and would have more than {MAX_COLUMNS}"

    assert changes_for(columns, group(new="int32"), "mirror", Names()) == (why, [])
    assert changes_for(columns, group(c0="int32"), "mirror", Names()) == (None, [])
    assert changes_for(columns, group(c0="int64"), "mirror", Names()) == (
        None,
        ["ALTER COLUMN `c0` TYPE BIGINT"],
    )
    del columns["c9"]
    assert changes_for(columns, group(new="int32"), "mirror", Names()) == (None, ["ADD COLUMNS (`new` INT)"])


class Altering(Spark):
    """A session that adds columns, and refuses those of one name as Iceberg does."""

    def __init__(self, table, refuses=None):
        super().__init__()
        self._table, self._refuses = table, refuses

    def sql(self, statement):
        if told := re.search(r"RENAME COLUMN `(\w+)` TO `(\w+)`", statement):
            if told[2] == self._refuses:
                raise RuntimeError("Unsupported table change: it has the name of something else")
            with self._table.refresh().update_schema() as change:
                change.rename_column(*told.groups())
            return
        if "TBLPROPERTIES" in statement:
            with self._table.refresh().transaction() as change:
                change.set_properties(dict(re.findall(r"'([^']*)'='([^']*)'", statement)))
            return
        added = re.findall(r"`(\w+)` (\w+)(?: COMMENT '([^']*)')?", statement.partition("ADD COLUMNS")[2])
        if self._refuses in {name for name, *_ in added}:
            raise RuntimeError("Unsupported table change: it has the name of something else")
        with self._table.refresh().update_schema() as change:
            for name, kind, doc in added:
                change.add_column(name, {"BIGINT": LongType(), "STRING": StringType()}[kind], doc=doc or None)


@pytest.fixture
def table(tmp_path):
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace("shop")
    return catalog.create_table("shop.orders", Schema(NestedField(1, "id", LongType())))


def fit_of(table, refuses=None, **options):
    tools = Tools(Lake("lake", table.catalog.properties), None, None, Metrics(), "shop", None)
    stream = Stream(topics="shop.*", table="shop.{table}", **options)
    return SchemaFit("shop.orders", stream, Sessions(Altering(table, refuses)), tools)


def fitted(table, groups, refuses=None):
    """What becomes of a table and of these schemas."""
    fit = fit_of(table, refuses)
    return fit.made_to_fit(fit.load(), groups, ())


def test_new_columns_of_all_schemas_of_a_batch_leave_the_table_with_one_schema_more(table):
    """Metadata keeps each schema, with all of its columns; readers have a limit."""
    groups = [group(id="int64", **{f"c{number}": "string"}) for number in range(30)]
    now, fitting, refused = fitted(table, groups)

    assert list(now.columns) == ["id", *(f"c{number}" for number in range(30))]
    assert (fitting, refused) == (tuple(groups), {})
    assert len(table.refresh().schemas()) == 2


def test_a_schema_that_the_table_refuses_keeps_no_other_from_fitting(table):
    groups = [group(id="int64", **{name: "string"}) for name in ("a", "bad", "c")]
    now, fitting, refused = fitted(table, groups, refuses="bad")

    assert list(now.columns) == ["id", "a", "c"]
    assert fitting == (groups[0], groups[2])
    assert list(refused) == [groups[1]]
    assert "the table refuses ADD COLUMNS (`bad` STRING)" in refused[groups[1]]


def test_what_no_message_of_the_batch_has_is_not_added_with_the_columns_of_the_others(table):
    met = [group(id="int64", a="string"), group(id="int64", b="string")]
    remembered = replace(group(id="int64", dropped="string"), is_met=False)
    now, fitting, _ = fitted(table, [*met, remembered])

    assert (list(now.columns), fitting) == (["id", "a", "b"], tuple(met))


@pytest.mark.parametrize(
    ("groups", "added"),
    [
        ([{"a": "int32"}, {"A": "int64"}, {"a": "int32"}], {"a": "BIGINT"}),
        ([{"a": "int64"}, {"a": "string", "b": "int32"}, {"c": "int32"}], {"a": "BIGINT", "c": "INT"}),
        ([{"id": "string", "a": "int32"}, {"b": "int32"}], {"b": "INT"}),
        ([{"_pos": "string"}, {"at_day": "string", "b": "int32"}, {"c": "int32"}], {"c": "INT"}),
    ],
)
def test_a_schema_that_does_not_fit_beside_those_before_it_brings_no_column(groups, added):
    names = Names(partition_fields=frozenset({"at_day"}))

    assert new_columns({"id": "BIGINT"}, [group(**one) for one in groups], "mirror", names) == added


def test_schemas_bring_no_more_columns_together_than_a_table_may_have():
    groups = [
        group(**{f"g{number}c{place}": "int32" for place in range(MAX_COLUMNS // 2)}) for number in range(3)
    ]

    assert len(new_columns({}, groups, "mirror", Names())) == MAX_COLUMNS


def test_a_column_is_renamed_as_its_stream_says_and_the_table_keeps_its_old_name(table):
    fit = fit_of(table, names={"number": ["id", "no"]})
    now = fit.renamed(fit.load())
    message = group(no="int64")
    called = replace(message, schema=fit.names(now).called(message.schema))
    now, fitting, refused = fit.made_to_fit(now, [called], ())

    assert ([(one.field_id, one.name) for one in now.table.schema().fields], refused) == ([(1, "number")], {})
    assert fitting == (called,)
    later = fit_of(table).names(now)
    assert [later.of(one) for one in ("id", "no", "other")] == ["number", "number", "other"]
    assert fit.renamed(now).table.metadata == now.table.metadata


def test_a_column_that_cannot_be_renamed_refuses_its_table_with_the_reason(table):
    fit = fit_of(table, refuses="number", names={"number": ["id"]})

    with pytest.raises(
        TableRefused, match=r"shop\.orders refuses RENAME COLUMN `id` TO `number`: .*something else"
    ):
        fit.renamed(fit.load())


def test_iceberg_s_own_name_mapping_is_left_alone_and_columns_that_come_are_kept_by_name(table):
    """It says how files without ids are read: a name that it lacks, or gives another column, changes rows."""
    fit = fit_of(table)
    now, _, _ = fit.made_to_fit(fit.renamed(fit.load()), [group(id="int64", new="string")], ())

    assert dict(now.properties) == {COLUMNS_PROPERTY: '{"id":1,"new":2}'}


def test_rows_of_imported_files_without_ids_stay_the_same(table, tmp_path):
    """A column of theirs is renamed, and a stream says that its old name is another one now."""
    file = str(tmp_path / "imported.parquet")
    pq.write_table(pa.table({"id": [1], "amount": [10], "total": [99]}), file)
    with table.update_schema() as change:
        change.add_column("amount", LongType()).add_column("total", LongType())
    table.add_files([file])
    with table.update_schema() as change:
        change.rename_column("total", "old_total")
    fit = fit_of(table, names={"amount": ["total"]})
    before = table.refresh().scan().to_arrow().to_pylist()
    now = fit.renamed(fit.load())
    called = group(id="int64", total="int64")
    called = replace(called, schema=fit.names(now).called(called.schema))
    fit.made_to_fit(now, [called], ())

    assert called.schema.in_table("total") == "amount"
    assert (
        table.refresh().scan().to_arrow().to_pylist() == before == [{"id": 1, "amount": 10, "old_total": 99}]
    )


def test_what_does_not_fit_gets_a_column_that_says_so_in_the_alter_that_adds_it(table):
    """It is found again by that when both were renamed; a name means the column, and not the one beside it."""
    fit = fit_of(table, misfits="column")
    now, _, _ = fit.made_to_fit(fit.load(), [group(id="int64", sum="int64")], ("id",))
    schemas = len(now.table.schemas())
    text = group(id="int64", amount="string")
    column = replace(text.schema.columns[1], aliases=("sum",))
    text = replace(text, schema=replace(text.schema, columns=(text.schema.columns[0], column)))
    called = replace(text, schema=fit.names(now).called(text.schema))
    messages = [called, group(id="int64", sum__string="string")]
    now, fitting, refused = fit.made_to_fit(now, messages, ("id",))

    assert [(one.name, one.doc) for one in now.table.schema().fields[2:]] == [
        ("sum__string_2", "ingest: of column 2, what does not fit into it"),
        ("sum__string", None),
    ]
    assert (len(now.table.schemas()), len(fitting), refused) == (schemas + 2, 2, {})
    assert now.properties[COLUMNS_PROPERTY] == '{"id":1,"sum":2,"sum__string":4,"amount":2}'
    with now.table.update_schema() as change:
        change.rename_column("sum", "total").rename_column("sum__string_2", "text")
    now = fit.load()
    called = replace(text, schema=fit.names(now).called(text.schema))
    again, (fitting,), refused = fit.made_to_fit(now, [called], ("id",))
    assert (fitting.schema.in_table("amount"), refused) == ("text", {})
    assert again.table.metadata == now.table.metadata


def test_two_columns_of_a_message_that_are_one_of_the_table_do_not_fit():
    message = group(a="int64", b="int64")
    called = replace(message, schema=replace(message.schema, called=(("b", "A"),)))

    assert changes_for({"a": "BIGINT"}, called, "mirror", Names()) == (
        "columns 'a' and 'b' of the message are both 'A' of the table",
        [],
    )
