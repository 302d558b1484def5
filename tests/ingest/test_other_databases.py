"""Changes after the documentation of several databases, through Kafka and Spark: the tables are what plain Python folds.

No server but Kafka is here; what a real MariaDB's changes become is in test_mariadb.
"""

import json
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from support.connectors import Table, with_schema
from support.documents import change
from support.ingest_lab import Lab
from support.wire import VARIABLE, base64_of, decimal, typed

pytestmark = [pytest.mark.spark, pytest.mark.stack]

STREAMS = r"""
  - {topics: "NS\\.mongo\\..*", table: "NS.{schema}_{table}"}
  - {topics: "NS\\.oracle\\..*", table: "NS.{table}"}
  - {topics: "NS\\.shard[12]\\.orders", table: "NS.orders"}
  - {topics: "NS\\.sqlserver", table: "NS.log", mode: changelog}
"""
HEARTBEAT = with_schema(
    "io.debezium.connector.common.Heartbeat", [{"type": "int64", "field": "ts_ms"}], {"ts_ms": 5}
)


@pytest.fixture
def lab(kafka: Any, spark: Any, lake_folder: Any) -> Iterator[Lab]:
    lab = Lab(kafka, spark, lake_folder, STREAMS)
    yield lab
    lab.close()


def send(lab: Lab, topic: str, *messages: tuple[bytes | None, bytes | None]) -> None:
    for key, value in messages:
        lab.producer.produce(f"{lab.name}.{topic}", key=key, value=value)
    lab.producer.flush()


def table(lab: Lab, connector: str, source: dict[str, Any], columns: dict[str, Any], *key: str) -> Table:
    return Table(connector, lab.name, {"connector": connector, "ts_ms": 5, **source}, columns, key)


def test_documents_of_two_collections(lab: Lab) -> None:
    """Keys are of every kind; deletes have the key alone or the old document, and a tombstone behind them."""
    dice = random.Random(2)
    keys = ["1004", '"1004"', '{"$oid": "596e275826f08b2730779e1f"}', '{"a": 1}', "12.5", "7"]
    rows: dict[str, dict[str, str]] = {"customers": {}, "orders": {}}
    for lap in range(3):
        for number in range(40):
            name, key = dice.choice(sorted(rows)), dice.choice(keys)
            old = rows[name].pop(key, None)
            messages = []
            if old is not None and dice.random() < 0.4:
                messages = [
                    change("d", key, before=dice.choice([old, None]), collection=name),
                    (change("d", key)[0], None),
                ]
            else:
                new = rows[name][key] = json.dumps({"_id": {"$any": key}, "lap": lap, "n": number})
                messages = [change("c" if old is None else "u", key, after=new, collection=name)]
            send(lab, f"mongo.{name}", *messages, (None, HEARTBEAT))
        lab.ingest()
        for name, expected in rows.items():
            found = {row["_id"]: row["document"] for row in lab.rows(f"inventory_{name}")}
            assert found == expected, (lap, name)
            assert len(lab.rows(f"inventory_{name}")) == len(expected)
    assert lab.dead() == []


def test_rows_of_oracle_whose_key_is_a_number_without_limits(lab: Lab) -> None:
    source = {"db": "ORCL", "schema": "DEBEZIUM", "table": "KINDS", "scn": "2122185", "snapshot": "false"}
    kinds = table(
        lab, "oracle", source, {"ID": VARIABLE, "AMOUNT": decimal(2, 9), "NAME": typed("string")}, "ID"
    )

    def number(value: int) -> dict[str, Any]:
        return {"scale": 1, "value": base64_of(value)}

    rows = {one: {"ID": number(one), "AMOUNT": base64_of(one * 7), "NAME": f"n{one}"} for one in range(15)}
    send(lab, "oracle.kinds", *(kinds.change("r", after=row, snapshot="true") for row in rows.values()))
    lab.ingest()
    for one in (3, 4):
        old, rows[one] = rows[one], {**rows[one], "AMOUNT": None}
        send(lab, "oracle.kinds", kinds.change("u", before=old, after=rows[one]))
    for one in (5, 6):
        send(lab, "oracle.kinds", kinds.change("d", before=rows.pop(one)))
    lab.ingest()

    assert sorted((row["ID"], row["AMOUNT"], row["NAME"]) for row in lab.rows("KINDS")) == sorted(
        (str(Decimal(one) / 10) if one % 10 else f"{one // 10}.0", None if row["AMOUNT"] is None else Decimal(one * 7) / 100, row["NAME"])
        for one, row in rows.items()
    )  # fmt: skip
    assert lab.dead() == []


def test_one_table_of_the_topics_of_two_shards(lab: Lab) -> None:
    """The table's name has nothing of the source, so both shards are of it; the key says which shard a row is of."""
    columns = {"shard": typed("int32"), "id": typed("int64"), "x": typed("string")}
    rows = {}
    for lap in range(2):
        for shard in (1, 2):
            source = {"db": f"shop{shard}", "table": "orders", "file": "binlog.000003", "pos": 4, "row": 0}
            orders = table(lab, "mysql", source, columns, "shard", "id")
            for number in range(10):
                old = rows.get((shard, number))
                row = rows[shard, number] = {"shard": shard, "id": number, "x": f"{lap}-{shard}-{number}"}
                op = "c" if old is None else "u"
                send(lab, f"shard{shard}.orders", orders.change(op, before=old, after=row))
        lab.ingest()
        found = sorted(lab.rows("orders"), key=lambda row: (row["shard"], row["id"]))
        assert found == [rows[key] for key in sorted(rows)]
    assert lab.dead() == []


def test_a_changelog_of_sql_server_has_each_change_and_no_lsn_of_postgresql(lab: Lab) -> None:
    source = {"db": "testDB", "schema": "dbo", "table": "log", "change_lsn": "00000027:00000758:0003"}
    log = table(lab, "sqlserver", source, {"id": typed("int32"), "paid": decimal(4, 19)}, "id")
    one, two = {"id": 1, "paid": base64_of(12345)}, {"id": 1, "paid": base64_of(-1)}
    send(
        lab,
        "sqlserver",
        log.change("r", after=one),
        log.change("u", before=one, after=two),
        log.change("r", after=two, change_lsn=None),  # an incremental snapshot
        log.change("d", before=two),
    )
    lab.ingest()
    found = sorted(lab.rows("log"), key=lambda row: row["_offset"])

    assert [(row["_op"], row["id"], row["paid"], row["_lsn"]) for row in found] == [
        ("r", 1, Decimal("1.2345"), None),
        ("u", 1, Decimal("-0.0001"), None),
        ("r", 1, Decimal("-0.0001"), None),
        ("d", 1, Decimal("-0.0001"), None),
    ]
