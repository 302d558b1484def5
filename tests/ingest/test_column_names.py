"""Columns whose name Iceberg does not take: the messages that have them are dead letters, and the table goes on."""

import json

import pytest

from support.ingest_lab import Lab
from support.wire import ID, MICROS, array, message, typed

pytestmark = [pytest.mark.spark, pytest.mark.stack]

STREAMS = r"""
  - {topics: "NS\\.public\\.hourly.*", table: "NS.{table}", partition_by: ["hours(at)"]}
  - {topics: "NS\\.public\\..*", table: "NS.{table}"}
"""
AT = {"field": "at", **MICROS}
LIST, WITHIN = {"field": "a", **array(typed("int32"))}, {"field": "a.element", "type": "string"}
LATER = {
    "hourly": ([AT], [AT, {"field": "at_hour", "type": "int64"}]),
    "lists": ([LIST], [LIST, WITHIN]),
    "texts": ([WITHIN], [WITHIN, LIST]),
    # Two names to us, and one to Spark.
    "dotless": ([{"field": "i", "type": "string"}], [{"field": "\u0131", "type": "string"}]),
}


@pytest.fixture
def lab(kafka, spark, lake_folder):
    lab = Lab(kafka, spark, lake_folder, STREAMS)
    yield lab
    lab.close()


def change(table, number, fields):
    source = {"schema": "public", "db": "shop", "table": table, "ts_ms": 1, "lsn": 1}
    after = {"id": number, **dict.fromkeys(one["field"] for one in fields)}
    told = {"schema": {"type": "struct", "fields": [ID]}, "payload": {"id": number}}
    return json.dumps(told).encode(), message([ID, *fields], source=source, after=after)


def test_a_later_column_that_iceberg_does_not_take_stops_no_table(lab):
    lab.make_topics(*LATER, "hourly_first")
    for table, (fields, _) in LATER.items():
        lab.send(table, change(table, 1, fields))
    lab.ingest()
    for table, (fields, more) in LATER.items():
        lab.send(table, change(table, 2, more), change(table, 3, fields))
    lab.send("hourly_first", change("hourly_first", 1, LATER["hourly"][1]))
    lab.ingest()

    for table, (fields, _) in LATER.items():
        assert sorted(row["id"] for row in lab.rows(table)) == [1, 3], table
        (row,) = (row for row in lab.rows(table) if row["id"] == 3)
        assert set(row) == {"id", *(one["field"] for one in fields)}
        assert not lab.is_left_out(table)
    letters = [(one.headers["isotherm.topic"].decode(), one.headers["isotherm.reason"]) for one in lab.dead()]
    assert sorted(letters) == [
        (f"{lab.name}.public.{table}", b"incompatible_schema") for table in sorted(LATER)
    ]
    # There is no table that could stay as it is.
    assert lab.is_left_out("hourly_first")
