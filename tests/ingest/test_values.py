"""What a message says stands in the table, as Spark reads it: names, times, numbers, keys, and what is left out."""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import pytest

from support.changes import Source
from support.ingest_lab import Lab
from support.wire import ID, PLACEHOLDER, decimal, key, message

pytestmark = [pytest.mark.spark, pytest.mark.stack]

STREAMS = r"""
  - {topics: "NS\\.public\\.(shard_.)", table: "NS.shards", key: [id]}
  - {topics: "NS\\.public\\.periods", table: "NS.{table}", out_of_range: clamp}
  - {topics: "NS\\.public\\.emptied", table: "NS.{table}", out_of_range: "null"}
  - {topics: "NS\\.public\\.log", table: "NS.{table}", mode: changelog}
  - {topics: "NS\\.public\\..*", table: "NS.{table}"}
"""


@pytest.fixture
def lab(kafka: Any, spark: Any, lake_folder: Any) -> Iterator[Lab]:
    lab = Lab(kafka, spark, lake_folder, STREAMS)
    yield lab
    lab.close()


def change(table: str, fields: list[dict[str, Any]], **told: Any) -> tuple[bytes, bytes]:
    """A change of a table, with the key that its row says."""
    row = told.get("after") or told.get("before") or told.pop("gone")
    source = {"schema": "public", "db": "shop", "table": table, "ts_ms": 1, "lsn": 1}
    return key(id=row["id"]), message(fields, source=source, **told)


def by_id(lab: Lab, table: str) -> dict[int, dict[str, Any]]:
    return {row.pop("id"): row for row in lab.rows(table)}


def test_no_name_of_a_source_clashes_with_ours(lab: Lab) -> None:
    names = [
        "_op",
        "_ts",
        "_problem",
        "_offset",
        "_topic",
        "_raw_key",
        "row",
        "change",
        "kept",
        "key",
        "a`b",
        'a"b',
    ]
    fields = [ID, *({"field": name, "type": "string"} for name in names)]
    lab.make_topics("names")
    first, second = ({"id": 1, **{name: f"{name} {lap}" for name in names}} for lap in range(2))
    lab.send("names", change("names", fields, after=first))
    lab.ingest()
    lab.send("names", change("names", fields, op="u", before=first, after=second))
    lab.ingest()

    assert lab.rows("names") == [second]


def test_times_that_no_reader_takes_and_numbers_of_any_length(lab: Lab) -> None:
    fields = [
        ID,
        {"field": "until", "type": "string", "name": "io.debezium.time.ZonedTimestamp"},
        {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
        {"field": "n", **decimal(0, 78)},
        {"field": "amount", **decimal(2, 5)},
    ]
    wide = base64.b64encode((2**256 - 1).to_bytes(33, "big")).decode()
    after = [
        {"id": 1, "until": "+294247-01-10T04:00:25.2Z", "day": -622191233, "n": wide, "amount": "AQ=="},
        {"id": 2, "until": "0001-01-01T00:00:00Z", "day": 2932896, "n": None, "amount": None},
    ]
    for table in ("periods", "emptied", "sent"):
        lab.make_topics(table)
        lab.send(table, *(change(table, fields, after=row) for row in after))
    lab.ingest()

    last = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    assert cells(lab, "periods") == {
        1: (last, date(9999, 12, 31)),
        2: (datetime(1, 1, 1, tzinfo=UTC), date(9999, 12, 31)),
    }
    assert cells(lab, "emptied") == {1: (None, None), 2: (datetime(1, 1, 1, tzinfo=UTC), date(9999, 12, 31))}
    assert set(cells(lab, "sent")) == {2}
    texts = lab.spark.sql(
        f"SELECT n, CAST(until AS STRING) AS until FROM lake.{lab.name}.periods WHERE id = 1"
    )
    assert [tuple(row) for row in texts.collect()] == [(str(2**256 - 1), "9999-12-31 23:59:59.999999")]
    assert [letter.headers["isotherm.error"] for letter in lab.dead()] == [b"undecodable_value:until"]


def cells(lab: Lab, table: str) -> dict[int, tuple[datetime | None, date | None]]:
    """By PyIceberg: Spark's Python has no time in the year 1 where the zone is behind UTC."""
    now = lab.lake.load(f"{lab.name}.{table}")
    assert now is not None
    rows = now.table.scan().to_arrow().to_pylist()
    return {row["id"]: (row["until"], row["day"]) for row in rows}


def test_tables_of_one_shape_in_one_topic_become_one_table_that_has_its_own_name(lab: Lab) -> None:
    fields = [ID, {"field": "name", "type": "string"}]
    lab.make_topics("shard_1")
    rows = [(f"customers_{number % 3}", {"id": number, "name": f"n{number}"}) for number in range(6)]
    lab.send("shard_1", *(change(table, fields, after=row) for table, row in rows))
    lab.ingest()

    assert sorted(lab.rows("shards"), key=lambda row: row["id"]) == [row for _, row in rows]
    assert lab.dead() == []


def test_a_delete_without_an_old_row_deletes_what_its_key_says(lab: Lab) -> None:
    fields = [ID, {"field": "name", "type": "string"}]
    for table in ("orders", "log"):
        lab.make_topics(table)
        lab.send(table, *(change(table, fields, after={"id": number, "name": "n"}) for number in (1, 2)))
    lab.ingest()
    for table in ("orders", "log"):
        lab.send(table, change(table, fields, op="d", gone={"id": 1}))
    lab.ingest()

    assert lab.rows("orders") == [{"id": 2, "name": "n"}]
    deleted = [row for row in lab.rows("log") if row["_op"] == "d"]
    assert [(row["id"], row["name"]) for row in deleted] == [(1, None)]
    assert lab.dead() == []


def test_what_a_message_does_not_say_is_kept(lab: Lab) -> None:
    """Unchanged large values, and a column that a user added."""
    fields = [
        ID,
        {"field": "name", "type": "string"},
        {"field": "days", "type": "array", "items": {"type": "int32", "name": "io.debezium.time.Date"}},
        {"field": "ratios", "type": "array", "items": {"type": "double"}},
    ]
    unavailable = {"name": PLACEHOLDER, "days": list(PLACEHOLDER.encode()), "ratios": None}
    lab.make_topics("kept")
    row = {"name": "n", "days": [0], "ratios": [0.5]}
    lab.send("kept", *(change("kept", fields, after={"id": number, **row}) for number in (1, 2)))
    lab.ingest()
    lab.spark.sql(f"ALTER TABLE lake.{lab.name}.kept ADD COLUMN theirs STRING")
    lab.spark.sql(f"UPDATE lake.{lab.name}.kept SET theirs = 'mine' WHERE id = 1")
    lab.send("kept", change("kept", fields, op="u", after={"id": 1, **unavailable}))
    lab.ingest()

    days = [date(1970, 1, 1)]
    assert by_id(lab, "kept") == {
        1: {"name": "n", "days": days, "ratios": None, "theirs": "mine"},
        2: {**row, "days": days, "theirs": None},
    }


def test_a_changed_key_does_not_bring_a_placeholder_into_the_table(lab: Lab) -> None:
    fields = [ID, {"field": "name", "type": "string"}]
    lab.make_topics("moved")
    lab.send("moved", change("moved", fields, after={"id": 1, "name": "large"}))
    lab.ingest()
    lab.send("moved", change("moved", fields, op="d", before={"id": 1, "name": None}))
    created = change("moved", fields, after={"id": 2, "name": PLACEHOLDER})
    lab.send("moved", created, headers=[("__debezium.oldkey", key(id=1))])
    lab.ingest()

    ((number, row),) = by_id(lab, "moved").items()
    assert (number, row["name"]) in {(2, None), (2, "large")}


def test_rows_that_do_not_fit_are_sent_once(lab: Lab) -> None:
    """A lost checkpoint brings them again, with those that the table has."""
    source = Source("orders")
    misfit = [
        {**field, "type": "int64"} if field["field"] == "name" else field
        for field in json.loads(source.insert(1)[1])["schema"]["fields"][1]["fields"]
    ]
    lab.make_topics("orders")
    lab.send("orders", source.insert(1))
    lab.ingest()
    row = {"id": 2, "name": 7, "amount": None, "at": None, "tags": None, "paid": None}
    lab.send("orders", change("orders", misfit, after=row), source.insert(3))
    lab.ingest()
    assert [letter.headers["isotherm.reason"] for letter in lab.dead()] == [b"incompatible_schema"]

    lab.close()
    lab.lose_marks()
    lab.again()
    lab.send("orders", source.insert(4))
    lab.ingest()

    assert len(lab.dead()) == 1
    assert sorted(by_id(lab, "orders")) == [1, 3, 4]


def test_a_message_that_says_nothing_of_its_source_stops_none_of_its_schema(lab: Lab) -> None:
    """It comes first, so it is the one from which the schema would be learned."""
    fields = [ID, {"field": "name", "type": "string"}]
    row = {"id": 1, "name": "n"}
    lab.make_topics("first")
    poison = [(key(id=1), message(fields, source=source, after=row)) for source in (None, "x", [1])]
    lab.send("first", *poison, change("first", fields, after=row))
    lab.ingest()

    assert lab.rows("first") == [row]
    assert len(lab.dead()) == 3


def test_a_message_without_a_key_alone_in_its_batch_stops_no_mirror(lab: Lab) -> None:
    fields = [ID, {"field": "name", "type": "string"}]
    lab.make_topics("alone")
    lab.send("alone", change("alone", fields, after={"id": 1, "name": "first"}))
    lab.ingest()
    for broken in (None, b'{"schema":{"fields":[7]}}'):
        _, value = change("alone", fields, after={"id": 1, "name": str(broken)})
        lab.send("alone", (broken, value))
        lab.ingest()

        assert lab.rows("alone") == [{"id": 1, "name": str(broken)}]
    assert lab.dead() == []
