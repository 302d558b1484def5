"""Columns that are renamed, at the source or in the lake: rows of before and after are one column."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from isotherm.contract.summary import INGEST_VALID_THROUGH
from isotherm_ingest.tables.definition import KEY_PROPERTY
from isotherm_ingest.tables.source_names import COLUMNS_PROPERTY
from support.changes import COLUMNS, Source, latest, moment
from support.ingest_lab import Lab
from support.wire import PLACEHOLDER

pytestmark = [pytest.mark.spark, pytest.mark.stack]
STREAMS = r"""
  - topics: NS\.public\.(orders|customers)
    table: NS.{table}
    names: {label: [name, title]}
    partition_by: [days(at)]
  - topics: NS\.public\.payments
    table: NS.{table}
    mode: changelog
    names: {name: [title], number: [id]}
    partition_by: [days(at)]
  - topics: NS\.public\.lines
    table: NS.{table}
    key: [id]
    event_time: at
    names: {number: [id]}
  - topics: NS\.public\.plain
    table: NS.plain
    mode: changelog
    format: json
    envelope: none
    columns: {id: BIGINT, a: BIGINT, b: BIGINT, c: BIGINT}
"""
TABLES = ("orders", "customers", "payments", "lines", "plain")


@pytest.fixture
def lab(kafka: Any, spark: Any, lake_folder: Any) -> Iterator[Lab]:
    lab = Lab(kafka, spark, lake_folder, STREAMS)
    lab.make_topics(*TABLES)
    yield lab
    lab.close()


def calling(name: str) -> dict[str, Any]:
    """The columns of a source that calls `name` otherwise."""
    return {name if one == "name" else one: kind for one, kind in COLUMNS.items()}


def folded(log: list[tuple[str, dict[str, Any]]], key: str = "id") -> list[dict[str, Any]]:
    """The rows that a mirror has after changes."""
    rows: dict[Any, dict[str, Any]] = {}
    for op, row in log:
        if op == "d":
            rows.pop(row[key], None)
        else:
            rows[row[key]] = row
    return list(rows.values())


def as_the_table(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {"label" if one == name else one: value for one, value in row.items()}


def say(lab: Lab, names: dict[str, tuple[str, ...]]) -> None:
    """The driver is started again with other names in all streams."""
    streams = tuple(one.model_copy(update={"names": names}) for one in lab.config.streams)
    lab.config = lab.config.model_copy(update={"streams": streams})
    lab.again()


def field_ids(lab: Lab, table: str) -> dict[str, int]:
    now = lab.lake.load(f"{lab.name}.{table}")
    assert now is not None
    return {one.name: one.field_id for one in now.table.schema().fields}


@pytest.mark.parametrize("seed", range(3))
def test_old_and_new_producers_write_one_column_whatever_comes_first(lab: Lab, seed: int) -> None:
    """Three names, in any order, across restarts; rows are those of a fold in plain Python."""
    choose = random.Random(seed)
    names = ["name", "title", "label"]
    sources = {name: Source("orders", calling(name)) for name in names}
    log: list[tuple[str, dict[str, Any]]] = []
    for turn in range(6):
        for _ in range(12):
            name, number = choose.choice(names[: 1 + turn // 2]), choose.randrange(8)
            source = sources[name]
            if number in source.rows and choose.random() < 0.3:
                lab.send("orders", source.delete(number))
            else:
                lab.send("orders", source.insert(number, choose.randrange(80), **{name: f"{name} {turn}"}))
            log.append((source.log[-1][0], as_the_table(source.log[-1][1], name)))
        lab.ingest()
        if choose.random() < 0.5:
            lab.again()

    assert latest(folded(log)) == latest(lab.rows("orders"))
    assert lab.dead() == []


def test_a_column_is_renamed_in_the_table_and_stays_the_same(lab: Lab) -> None:
    """It keeps its id, so rows of before are read by the new name, and nothing is written again."""
    old, new = Source("orders", calling("extra")), Source("orders", calling("title"))
    say(lab, {})
    lab.send("orders", old.insert(1, extra="first"))
    lab.ingest()
    before = field_ids(lab, "orders")
    say(lab, {"label": ("extra", "title")})
    lab.send("orders", new.insert(2, title="second"))
    lab.ingest()

    assert field_ids(lab, "orders") == {"label" if n == "extra" else n: i for n, i in before.items()}
    assert {1: "first", 2: "second"} == {row["id"]: row["label"] for row in lab.rows("orders")}
    lab.send("orders", new.update(2, title=PLACEHOLDER, paid=True), old.insert(3, extra="third"))
    lab.ingest()
    assert {1: "first", 2: "second", 3: "third"} == {row["id"]: row["label"] for row in lab.rows("orders")}
    assert {1: None, 2: True, 3: None} == {row["id"]: row["paid"] for row in lab.rows("orders")}


def test_columns_that_somebody_renames_in_the_lake_are_followed(lab: Lab) -> None:
    """Also the one of the key, that of the event time, and one that was renamed twice, by Spark and by PyIceberg."""
    source = Source("customers")
    lab.send("customers", source.insert(1), source.insert(2, 30))
    lab.ingest()
    table = f"lake.{lab.name}.customers"
    for old, new in (("id", "customer_id"), ("at", "seen_at"), ("amount", "debt"), ("debt", "owed")):
        lab.spark.sql(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
    now = lab.lake.load(f"{lab.name}.customers")
    assert now is not None
    with now.table.update_schema() as change:
        change.rename_column("paid", "is_paid")
    lab.send("customers", source.update(1, paid=True, at=moment(50)), source.delete(2), source.insert(3))
    lab.ingest()
    lab.again()
    lab.send("customers", source.update(3, amount=None))
    lab.ingest()

    renamed = {"id": "customer_id", "at": "seen_at", "amount": "owed", "paid": "is_paid", "name": "label"}
    expected = [{renamed.get(n, n): v for n, v in row.items()} for row in source.rows.values()]
    assert latest(expected) == latest(lab.rows("customers"))
    assert lab.dead() == []
    assert INGEST_VALID_THROUGH in lab.snapshots("customers")[-1].summary.additional_properties


def of_key(message: tuple[bytes, bytes], name: str) -> tuple[bytes, bytes]:
    key, value = message
    return key.replace(b'"id"', b'"%s"' % name.encode()), value.replace(b'"id"', b'"%s"' % name.encode())


def test_a_primary_key_is_renamed_at_its_source(lab: Lab) -> None:
    """Deletes by key alone find their rows; a changelog follows, too."""
    source = Source("lines")
    lab.send("lines", *(source.insert(number) for number in range(4)))
    lab.ingest()
    changes = [source.update(0, name="new"), source.delete(1), source.insert(7)]
    lab.send("lines", *(of_key(one, "Number") for one in changes))
    key, value = of_key(source.delete(2), "Number")
    lab.send("lines", (key, value.replace(b'"before":{', b'"before":null,"x":{')))
    lab.ingest()
    expected = [
        {"number": row["id"], **{n: v for n, v in row.items() if n != "id"}} for row in source.rows.values()
    ]

    assert latest(expected) == latest(lab.rows("lines"))
    now = lab.lake.load(f"{lab.name}.lines")
    assert now is not None
    assert now.properties[KEY_PROPERTY] == '["number"]'


def test_a_message_with_two_names_of_one_column_is_a_dead_letter_and_the_others_go_on(lab: Lab) -> None:
    both = Source("payments", {**COLUMNS, "title": COLUMNS["name"]})
    lab.send(
        "payments",
        Source("payments").insert(1),
        both.insert(2),
        Source("payments", calling("title")).insert(3, title="t"),
    )
    lab.ingest()

    assert {1: "n1", 3: "t"} == {row["number"]: row["name"] for row in lab.rows("payments")}
    (letter,) = lab.dead()
    assert letter.headers["isotherm.reason"] == b"incompatible_schema"
    assert b"columns 'name' and 'title' of the message are both 'name' of the table" in (
        letter.headers["isotherm.error"] or b""
    )


def test_names_that_are_swapped_or_used_again_in_the_lake_are_followed(lab: Lab) -> None:
    """Whatever becomes of Iceberg's own mapping of names, which is not ingest's."""

    def rename(*pairs: tuple[str, str]) -> None:
        for old, new in pairs:
            lab.spark.sql(f"ALTER TABLE lake.{lab.name}.plain RENAME COLUMN {old} TO {new}")

    def send(number: int) -> None:
        lab.send("plain", (b"k", json.dumps({"id": number, "a": 1, "b": 2, "c": 3}).encode()))
        lab.ingest()

    send(1)
    ids = field_ids(lab, "plain")
    rename(("a", "tmp"), ("b", "a"), ("tmp", "b"))
    lab.spark.sql(f"ALTER TABLE lake.{lab.name}.plain SET TBLPROPERTIES ('schema.name-mapping.default'='[]')")
    send(2)
    rename(("c", "c_old"), ("b", "c"))
    lab.again()
    send(3)
    now = lab.lake.load(f"{lab.name}.plain")

    told = sorted((row["id"], row["c"], row["a"], row["c_old"]) for row in lab.rows("plain"))
    assert told == [(number, 1, 2, 3) for number in (1, 2, 3)]
    assert lab.dead() == []
    assert now is not None
    assert json.loads(now.properties[COLUMNS_PROPERTY]) == {one: ids[one] for one in ("id", "a", "b", "c")}
    assert json.loads(now.properties["schema.name-mapping.default"]) == []
