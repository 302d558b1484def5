"""Tables that messages choose by what they say, as Spark reads them."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from support.changes import Source
from support.ingest_lab import Lab

pytestmark = [pytest.mark.spark, pytest.mark.stack]
DECLARED = "{id: BIGINT, region: STRING, at: TIMESTAMP}"
STREAMS = rf"""
  - topics: NS\.public\.orders
    table: "NS.{{table}}_{{field:name}}"
    mode: changelog
    partition_by: [days(at)]
    tables_at_most: 4
  - topics: NS\.public\.payments
    table: "NS.{{topic}}_{{field:region}}"
    format: json
    columns: {DECLARED}
  - topics: NS\.public\.lines
    table: "NS.{{schema}}_{{table}}"
    routed_by: source
    format: json
    columns: {{id: BIGINT, name: STRING}}
"""
TABLES = ("orders", "payments", "lines")


@pytest.fixture
def lab(kafka: Any, spark: Any, lake_folder: Any) -> Iterator[Lab]:
    lab = Lab(kafka, spark, lake_folder, STREAMS)
    lab.make_topics(*TABLES)
    yield lab
    lab.close()


def tables(lab: Lab) -> set[str]:
    return {name.partition(".")[2] for name in lab.lake.names(frozenset({lab.name}))}


def reasons(lab: Lab) -> list[bytes | None]:
    return sorted(letter.headers["isotherm.reason"] or b"" for letter in lab.dead())


def test_each_value_of_a_changelog_is_a_table_and_what_has_none_is_a_dead_letter(lab: Lab) -> None:
    """Changes of before and after a restart; the oracle is what was sent, in plain Python."""
    choose, source = random.Random(7), Source("orders")
    names = ["EU West", "us", "apac", None, "", "x" * 65]
    sent: dict[str, list[int]] = {}
    dead = 0
    for turn in range(4):
        for _ in range(12):
            number, name = len(source.log), choose.choice(names)
            lab.send("orders", source.insert(number, name=name))
            if name in {"EU West", "us", "apac"}:
                sent.setdefault(f"orders_{str(name).lower().replace(' ', '_')}", []).append(number)
            else:
                dead += 1
        lab.ingest()
        if turn == 1:
            lab.again()

    assert tables(lab) == sent.keys()
    for table, numbers in sent.items():
        assert sorted(row["id"] for row in lab.rows(table)) == numbers
    assert reasons(lab) == [b"no_route"] * dead
    lab.send(
        "orders",
        *(source.insert(100 + n, name=f"new{n % 3}") for n in range(6)),
        source.insert(200, name="us"),
    )
    lab.ingest()
    lab.again()
    lab.send("orders", source.insert(201, name="new1"), source.insert(202, name="new0"))
    lab.ingest()

    assert tables(lab) == {*sent, "orders_new0"}
    assert sorted(row["id"] for row in lab.rows("orders_new0")) == [100, 103, 202]
    assert 200 in {row["id"] for row in lab.rows("orders_us")}
    assert reasons(lab) == [b"no_route"] * (dead + 5)


def payment(op: str, number: int, region: str, *, old: bool = True) -> tuple[bytes, bytes]:
    row = {"id": number, "region": region, "at": "2024-01-01T00:00:00Z"}
    images = {"before": row if old else None} if op == "d" else {"after": row}
    source = {"schema": "public", "table": "payments", "db": "shop"}
    text = json.dumps({"before": None, "after": None, "source": source, "op": op, "ts_ms": 1, **images})
    return json.dumps({"id": number, "region": region}).encode(), text.encode()


def test_a_row_of_a_mirror_whose_key_changes_leaves_one_table_for_the_other(lab: Lab) -> None:
    """Debezium makes a delete and an insert of it; each goes where its own row is. Rows are those of a fold."""
    choose = random.Random(11)
    rows: dict[int, str] = {}
    for _ in range(4):
        for _ in range(25):
            number, region = choose.randrange(10), choose.choice(["eu", "us", "apac"])
            was = rows.get(number)
            if was is not None and (was != region or choose.random() < 0.3):
                lab.send("payments", payment("d", number, was, old=choose.random() < 0.5))
                del rows[number]
            if choose.random() < 0.7:
                lab.send("payments", payment("u" if number in rows else "c", number, region))
                rows[number] = region
        lab.ingest()

    topic = lab.topic("payments").replace(".", "_").replace("-", "_")
    for region in ("eu", "us", "apac"):
        mine = {(row["id"], row["region"]) for row in lab.rows(f"{topic}_{region}")}
        assert mine == {(number, one) for number, one in rows.items() if one == region}
    assert lab.dead() == []


def test_a_mirror_whose_messages_have_the_field_in_no_key_is_not_written(lab: Lab) -> None:
    key, value = payment("c", 1, "eu")
    lab.send("payments", (b'{"id":1}', value), (key, value))
    lab.ingest()

    assert reasons(lab) == [b"no_route"]
    assert [name.rpartition("_")[2] for name in tables(lab)] == ["eu"]


def line(schema: str, table: str, number: int) -> tuple[bytes, bytes]:
    source = {"schema": schema, "table": table, "db": "shop"}
    change = {"before": None, "after": {"id": number, "name": table}, "source": source, "op": "c", "ts_ms": 1}
    return json.dumps({"id": number}).encode(), json.dumps(change).encode()


def test_several_source_tables_of_one_topic_that_look_alike_are_told_apart_by_their_source(lab: Lab) -> None:
    """As a topic-routing transform brings them into one topic, of JSON without schemas."""
    sent = [("a", "orders", 1), ("a", "lines", 1), ("b", "orders", 1), ("a", "orders", 2)]
    lab.send("lines", *(line(*one) for one in sent))
    lab.ingest()
    lab.again()
    lab.send("lines", line("b", "lines", 1), line("b", "orders", 3))
    lab.ingest()

    rows = {table: sorted(row["id"] for row in lab.rows(table)) for table in tables(lab)}
    assert rows == {"a_orders": [1, 2], "a_lines": [1], "b_orders": [1, 3], "b_lines": [1]}
    assert lab.dead() == []
