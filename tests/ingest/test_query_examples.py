"""The examples of docs/queries.md, as they stand there: late rows, random kills and replays, judged by plain Python."""

import json
import random
import re
import textwrap
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from isotherm_ingest.queries.queries import Queries
from isotherm_ingest.tables.java_table import JavaTable
from support.changes import Source
from support.ingest_lab import Lab

pytestmark = [pytest.mark.spark, pytest.mark.stack]
PAGE = Path(__file__).parents[2] / "docs" / "queries.md"
START = datetime(2026, 1, 1, tzinfo=UTC)


class Killed(BaseException):
    """The process is gone."""


def example(name: str, namespace: str) -> str:
    """The streams and queries of an example, in a namespace and topics of the test's own."""
    text = PAGE.read_text(encoding="utf-8").partition(f"    # example: {name}\n    streams:\n")[2]
    block = textwrap.dedent(re.split(r"\n(?=\S)", text)[0])
    block = block.replace(rf"{namespace}\.public\.", r"NS\.public\.").replace(
        rf"{namespace}\.", r"NS\.public\."
    )
    return re.sub(rf"\b{namespace}\.", "NS.", block)


def turns(
    lab: Lab,
    monkeypatch: pytest.MonkeyPatch,
    choose: random.Random,
    send: Callable[[int], None],
    rounds: int = 6,
) -> None:
    """Rounds of messages, batches and queries; now and then everything dies, before or after a commit, and begins again."""
    queries = Queries(lab.config, lab.spark, lab.tools, lab.outbox, lab.broker)
    commit = JavaTable.commit

    def dying(self: Any, *args: Any) -> Any:
        if choose.random() < 0.15:
            raise Killed
        landed = commit(self, *args)
        if choose.random() < 0.15:
            raise Killed
        return landed

    for number in range(rounds):
        send(number)
        monkeypatch.setattr(JavaTable, "commit", dying)
        try:
            lab.ingest()
            queries.turn(10_000 * number)
        except Killed:
            monkeypatch.setattr(JavaTable, "commit", commit)
            lab.again()
            queries = Queries(lab.config, lab.spark, lab.tools, lab.outbox, lab.broker)
    monkeypatch.setattr(JavaTable, "commit", commit)
    lab.ingest()
    for number in range(2):  # a query may read the table of the one before it
        queries.turn(1_000_000 + 10_000 * number)


def at(minutes: float) -> int:
    return int((START + timedelta(minutes=minutes)).timestamp() * 1000)


def minute_of(ms: int) -> datetime:
    return datetime.fromtimestamp(ms // 60_000 * 60, UTC)


def as_utc(row: dict[str, Any]) -> dict[str, Any]:
    return {name: one.astimezone(UTC) if isinstance(one, datetime) else one for name, one in row.items()}


def test_sensors(kafka: Any, spark: Any, lake_folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lab, choose, sent = (
        Lab(kafka, spark, lake_folder, example("sensors", "plant")),
        random.Random(1),
        list[Any](),
    )
    lab.make_topics("readings", partitions=2)

    def send(number: int) -> None:
        late = choose.choice([0, 0, -20])
        for _ in range(choose.randrange(1, 30)):
            one = {"equipment": choose.choice("xyz"), "at": at(number * 10 + choose.uniform(0, 10) + late)}
            one["celsius"] = choose.randrange(400) / 8
            sent.append(one)
            lab.send("readings", (one["equipment"].encode(), json.dumps(one).encode()))

    turns(lab, monkeypatch, choose, send)
    by_minute = defaultdict(list)
    for one in sent:
        by_minute[minute_of(one["at"]), one["equipment"]].append(one["celsius"])
    expected = [
        {
            "minute": minute,
            "equipment": name,
            "readings": len(all_of),
            "mean": sum(all_of) / len(all_of),
            "hottest": max(all_of),
        }
        for (minute, name), all_of in by_minute.items()
    ]
    found = [as_utc(row) for row in lab.rows("minutes")]
    lab.close()
    assert sorted(expected, key=str) == sorted(found, key=str)


def test_fraud(kafka: Any, spark: Any, lake_folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lab, choose, sent = (
        Lab(kafka, spark, lake_folder, example("fraud", "bank")),
        random.Random(2),
        list[Any](),
    )
    lab.make_topics("payments")

    def send(number: int) -> None:
        for _ in range(choose.randrange(5, 30)):
            one = {
                "card": choose.choice("123"),
                "at": at(number + choose.uniform(-2, 1)),
                "amount": f"{choose.randrange(60_000) / 100:.2f}",
            }
            sent.append(one)
            lab.send("payments", (one["card"].encode(), json.dumps(one).encode()))

    turns(lab, monkeypatch, choose, send)
    by_minute, by_card = defaultdict(list), defaultdict(list)
    for one in sent:
        by_minute[one["card"], minute_of(one["at"])].append(Decimal(one["amount"]))
        by_card[one["card"]].append(one)
    alerts = {
        key: (len(all_of), sum(all_of))
        for key, all_of in by_minute.items()
        if len(all_of) >= 5 or sum(all_of) > 1000
    }
    found = {
        (row["card"], row["minute"].astimezone(UTC)): (row["payments"], row["total"])
        for row in lab.rows("alerts")
    }
    cards = {row["card"]: as_utc(row) for row in lab.rows("cards")}
    told: dict[Any, Any] = {}
    for letter in lab.read(f"{lab.name}.alerts"):
        assert letter.key is not None
        key = json.loads(letter.key)
        told[key["card"], datetime.fromisoformat(key["minute"])] = letter.value and json.loads(letter.value)
    lab.close()

    assert found == alerts
    assert {key: (row["payments"], Decimal(str(row["total"]))) for key, row in told.items() if row} == alerts
    for card, all_of in by_card.items():
        assert cards[card] == {
            "card": card,
            "payments": len(all_of),
            "total": sum(Decimal(one["amount"]) for one in all_of),
            "last_paid": datetime.fromtimestamp(max(one["at"] for one in all_of) / 1000, UTC),
            "alerts": sum(key[0] == card for key in alerts),
        }


def test_customer_360(kafka: Any, spark: Any, lake_folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lab, choose = Lab(kafka, spark, lake_folder, example("customer 360", "crm")), random.Random(3)
    lab.make_topics("customers", "orders")
    number, text = {"type": "int64", "optional": True}, {"type": "string", "optional": True}
    customers = Source("customers", {"id": number, "name": text, "segment": text})
    orders = Source("orders", {"id": number, "customer_id": number, "amount": number})
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{lab.name}")
    spark.sql(f"CREATE TABLE lake.{lab.name}.segments (code STRING, title STRING) USING iceberg")
    spark.sql(f"INSERT INTO lake.{lab.name}.segments VALUES ('a', 'Airlines'), ('b', 'Banks')")

    def send(_: int) -> None:
        for source, make in (
            (
                customers,
                lambda: {"name": f"n{choose.randrange(99)}", "segment": choose.choice(["a", "b", None])},
            ),
            (orders, lambda: {"customer_id": choose.randrange(6), "amount": choose.randrange(100)}),
        ):
            for _ in range(choose.randrange(1, 12)):
                key = choose.randrange(6 if source is customers else 20)
                if key in source.rows and choose.random() < 0.3:
                    lab.send(source.table, source.delete(key))
                elif key in source.rows:
                    lab.send(source.table, source.update(key, **make()))
                else:
                    lab.send(source.table, source.insert(key, **make()))

    turns(lab, monkeypatch, choose, send)
    titles = {"a": "Airlines", "b": "Banks"}
    expected = []
    for key, customer in customers.rows.items():
        mine = [one["amount"] for one in orders.rows.values() if one["customer_id"] == key]
        expected.append(
            {
                "customer_id": key,
                "name": customer["name"],
                "segment": titles.get(customer["segment"]),
                "orders": len(mine),
                "revenue": sum(mine),
            }
        )
    found = lab.rows("customer_360")
    lab.close()
    assert sorted(expected, key=str) == sorted(found, key=str)
