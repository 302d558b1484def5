"""Truncates, however they are written: no row and no problem in a mirror, a row of nulls in a changelog."""

import json

import pyarrow as pa
import pytest

from isotherm_ingest.decode.avro import Avro
from isotherm_ingest.decode.debezium_messages import decoder
from isotherm_ingest.decode.debezium_schema import change_schema
from isotherm_ingest.decode.statement import Wanted
from isotherm_ingest.workers.raw_messages import Sorter
from support.avro import ENVELOPE, change, confluent, written
from support.declared import event
from support.declared import rows_of as bare
from support.wire import ID, arrow, decoded, decoder_of, from_kafka, key, message, raw

TOPIC = "shop.public.orders"
NAMED = [ID, {"field": "name", "type": "string"}]
SOURCE = {"schema": "public", "db": "shop", "table": "orders", "ts_ms": 5, "lsn": 9}
ROW = {"id": 1, "name": "n"}


def with_schema(*, keeps, **wanted):
    rows = [{"after": ROW}, {"before": ROW}]
    values = [
        message(NAMED, after=ROW),
        message(NAMED, op="t"),
        *(message(NAMED, op="t", **one) for one in rows),
    ]
    return decoded(decoder_of(NAMED, keeps=keeps, keys=("id",) if keeps else (), **wanted), raw(*values))


def without_schema(*, keeps, **wanted):
    values = [event(after=ROW), event(op="t"), event(op="t", after=ROW), event(op="t", before=ROW)]
    columns = {"id": "BIGINT NOT NULL", "name": "STRING"}
    return bare(columns, *values, envelope=True, keeps=keeps, key=("id",) if keeps else (), **wanted)


def avro(*, keeps, **wanted):
    row = {"id": 1, "name": "n", "amount": None, "at": None, "tags": None, "paid": None}
    changes = [change(after=row), change("t"), change("t", after=row), change("t", before=row)]
    values = [confluent(1, written(ENVELOPE, one)) for one in changes]
    (group,) = Sorter({TOPIC: Avro("confluent", schemas={1: json.dumps(ENVELOPE)})}).groups(
        from_kafka(*values)
    )
    schema = group.format.schema(*group.sample())
    columns = {one.name: one.kind.type for one in schema.columns}
    arrow_columns = pa.schema([(name, arrow(kind)) for name, kind in columns.items()])
    key = ("id",) if keeps else ()
    found = decoder(schema, arrow_columns, Wanted(tuple(columns), key, keeps, **wanted))
    return decoded(found, group.to_decode())


@pytest.mark.parametrize("form", [with_schema, without_schema, avro])
@pytest.mark.parametrize("keeps", [True, False], ids=["mirror", "changelog"])
def test_a_truncate_is_told_in_each_format_and_one_with_a_row_is_none(form, keeps):
    (row, good), (nulls, truncate), *with_rows = form(keeps=keeps)

    assert (row["id"], good["op"], good["problem"]) == (1, "c", None)
    assert set(nulls.values()) == {None}
    assert {"op": "t", "kept": None, "untold": None, "problem": None, "lsn": 9}.items() <= truncate.items()
    assert [(none, bad["problem"]) for none, bad in with_rows] == [(None, "unsupported_op:t")] * 2


@pytest.mark.parametrize("form", [with_schema, without_schema])
def test_a_changelog_that_takes_no_null_has_no_row_for_a_truncate(form):
    _, (_, truncate), *_ = form(keeps=False, required=frozenset({"name"}))
    assert truncate["problem"] == "null_value:name"
    _, (_, truncate), *_ = form(keeps=True, required=frozenset({"name"}))
    assert truncate["problem"] is None


def test_a_truncate_of_another_table_empties_no_mirror():
    """A topic into which a router brings the parts of a table: each part may be truncated alone."""
    other = {**SOURCE, "table": "orders_2024"}
    found = decoder_of(NAMED, source_parts=frozenset())
    values = [
        message(NAMED, after=ROW, source=other),
        message(NAMED, op="t", source=other),
        message(NAMED, op="t"),
    ]
    problems = [told["problem"] for _, told in decoded(found, raw(*values))]

    assert problems == [
        None,
        "truncate_unordered:the topic holds changes of two tables with one schema",
        None,
    ]
    assert json.loads(values[2])["payload"]["source"] == SOURCE


@pytest.mark.parametrize("part", ["name", "db", "schema", "table"])
def test_a_change_of_another_source_is_told_in_each_part_of_its_name(part):
    source = {**SOURCE, "name": "shop"}
    values = [
        message(NAMED, after=ROW, source=source),
        message(NAMED, after=ROW, source={**source, part: "other"}),
    ]
    values += [
        message(NAMED, op="t", source=source),
        message(NAMED, op="t", source={**source, part: "other"}),
    ]
    schema = change_schema(values[0].decode(), key(id=1).decode())
    assert schema.source == ("shop", "shop", "public", "orders")
    wanted = Wanted(("id", "name"), ("id",), keeps=True, source_parts=frozenset(), source=schema.source)
    columns = pa.schema([("id", pa.int64()), ("name", pa.string())])
    told = [told for _, told in decoded(decoder(schema, columns, wanted), raw(*values))]

    assert [one["elsewhere"] for one in told[:3]] == [False, True, False]
    assert [one["problem"] is None for one in told] == [True, True, True, False]
