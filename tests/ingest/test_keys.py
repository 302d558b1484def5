"""Whatever the key is, and whoever changes what, a mirror has one row for each: written by ingest, read by Spark."""

import json
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType, UUIDType

from support.ingest_lab import Lab
from support.wire import message

pytestmark = [pytest.mark.spark, pytest.mark.stack]

STREAMS = r"""
  - {topics: "NS\\.public\\.codes", table: "NS.{table}", key: [code]}
  - {topics: "NS\\.public\\.upper", table: "NS.{table}", key: [ID]}
  - {topics: "NS\\.public\\..*", table: "NS.{table}"}
"""


@pytest.fixture
def lab(kafka: Any, spark: Any, lake_folder: Any) -> Iterator[Lab]:
    lab = Lab(kafka, spark, lake_folder, STREAMS)
    yield lab
    lab.close()


def key(**values: Any) -> bytes:
    """A message key with its schema."""
    fields = [{"field": name, "type": "string"} for name in values]
    return json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": values}).encode()


def change(table: str, keys: dict[str, Any], row: dict[str, Any], **told: Any) -> tuple[bytes, bytes]:
    """A change of a table whose columns are all text."""
    fields = [{"field": name, "type": "string"} for name in row]
    source = {"schema": "public", "db": "shop", "table": table, "ts_ms": 1, "lsn": 1}
    return key(**keys), message(fields, source=source, after=row, **told)


def test_keys_and_names_that_mean_something_to_spark_s_sql_are_only_text(lab: Lab) -> None:
    name = "a ${env:HOME}.`b`"
    texts = ["${env:HOME}", "${spark:spark.master}", "it's \\ ${x}", ""]
    lab.make_topics("texts")
    for lap in ("first", "second"):
        lab.send("texts", *(change("texts", {name: text}, {name: text, "lap": lap}) for text in texts))
        lab.ingest()

    assert sorted((row[name], row["lap"]) for row in lab.rows("texts")) == sorted(
        (text, "second") for text in texts
    )


def test_a_key_of_uuids_that_somebody_else_made(lab: Lab) -> None:
    """Spark's filters find nothing in such a column."""
    lab.lake.catalog.create_namespace_if_not_exists(lab.name)
    fields = (NestedField(1, "id", UUIDType(), required=True), NestedField(2, "lap", StringType()))
    lab.lake.catalog.create_table(f"{lab.name}.uuids", Schema(*fields, identifier_field_ids=[1]))
    uuids = sorted(str(uuid5(NAMESPACE_DNS, f"{number}")) for number in range(10))
    lab.make_topics("uuids")
    for lap in ("first", "second"):
        lab.send("uuids", *(change("uuids", {"id": one}, {"id": one, "lap": lap}) for one in uuids))
        lab.ingest()

    assert sorted((row["id"], row["lap"]) for row in lab.rows("uuids")) == [(one, "second") for one in uuids]


def test_a_table_that_lost_a_column_of_its_key_is_refused(lab: Lab) -> None:
    """Added again, it would be null in every row, and each row would come once more. One that was renamed is not lost."""
    lab.make_topics("lost")
    lab.send("lost", change("lost", {"id": "1"}, {"id": "1", "lap": "first"}))
    lab.ingest()
    table = f"lake.{lab.name}.lost"
    lab.spark.sql(f"ALTER TABLE {table} RENAME COLUMN id TO ident")
    lab.send("lost", change("lost", {"id": "1"}, {"id": "1", "lap": "second"}))
    lab.ingest()
    assert [(row["ident"], row["lap"]) for row in lab.rows("lost")] == [("1", "second")]

    lab.spark.sql(f"ALTER TABLE {table} DROP COLUMN ident")
    lab.send("lost", change("lost", {"id": "1"}, {"id": "1", "lap": "third"}))
    lab.ingest()
    assert [row["lap"] for row in lab.rows("lost")] == ["second"]
    assert lab.is_left_out("lost")


def test_the_case_of_letters_tells_no_columns_apart(lab: Lab) -> None:
    """In the stream's key, in the table, and in a source that renamed its columns before the table was made."""
    lab.make_topics("upper", "cases")
    lab.send(
        "cases",
        change("cases", {"Id": "1"}, {"Id": "1", "Name": "first"}),
        change("cases", {"id": "1"}, {"id": "1", "name": "second"}),
    )
    lab.send("upper", change("upper", {"id": "1"}, {"id": "1"}))
    lab.ingest()
    lab.send("cases", change("cases", {"id": "1"}, {"id": "1", "name": "third"}))
    lab.send("upper", change("upper", {"id": "1"}, {"id": "1"}))
    lab.ingest()

    assert [{name.lower(): value for name, value in row.items()} for row in lab.rows("cases")] == [
        {"id": "1", "name": "third"}
    ]
    assert lab.rows("upper") == [{"id": "1"}]


def test_a_column_of_any_type_that_somebody_added_keeps_its_value(lab: Lab) -> None:
    lab.make_topics("theirs")
    lab.send("theirs", change("theirs", {"id": "1"}, {"id": "1", "lap": "first"}))
    lab.ingest()
    table = f"lake.{lab.name}.theirs"
    lab.spark.sql(
        f"ALTER TABLE {table} ADD COLUMNS (s STRUCT<`a b`: ARRAY<INT>>, m MAP<STRING, DATE>, l ARRAY<STRUCT<x: DECIMAL(9,2)>>)"
    )
    lab.spark.sql(
        f"UPDATE {table} SET s = named_struct('a b', array(1)), m = map('k', DATE'2024-01-01'), "
        "l = array(named_struct('x', 1.50))"
    )
    lab.send("theirs", change("theirs", {"id": "1"}, {"id": "1", "lap": "second"}, op="u"))
    lab.ingest()

    assert lab.rows("theirs") == [
        {
            "id": "1",
            "lap": "second",
            "s": {"a b": [1]},
            "m": {"k": date(2024, 1, 1)},
            "l": [{"x": Decimal("1.50")}],
        }
    ]


def test_an_update_takes_a_row_to_another_key_of_the_table(lab: Lab) -> None:
    """One that the source does not know as a key: Debezium sends no delete of the old one."""
    lab.make_topics("codes")
    rows = [{"id": str(number), "code": code} for number, code in enumerate("abc")]
    lab.send("codes", *(change("codes", {"id": row["id"]}, row) for row in rows))
    lab.ingest()
    moves = [(0, "a", "x"), (1, "b", "a"), (0, "x", "b"), (2, "c", "c")]
    lab.send(
        "codes",
        *(
            change("codes", {}, {"id": str(one), "code": new}, op="u", before={"id": str(one), "code": old})
            for one, old, new in moves
        ),
    )
    lab.ingest()

    assert sorted((row["id"], row["code"]) for row in lab.rows("codes")) == [
        ("0", "b"),
        ("1", "a"),
        ("2", "c"),
    ]
