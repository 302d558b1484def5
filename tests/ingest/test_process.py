"""`isotherm-ingest run` as a process, on a real change stream: every type, SIGKILL, SIGTERM."""

import json
import signal
import sys
import urllib.request
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from isotherm.demo.stack import Process, Stack
from isotherm.demo.stack.connect import debezium_config

pytestmark = [pytest.mark.spark, pytest.mark.stack]

START_WITHIN_S = 120
TABLE = """
    CREATE TABLE kinds (
        id INT8 PRIMARY KEY, small INT2, four INT4, yes BOOLEAN, words TEXT, code VARCHAR(10), price NUMERIC(10,2),
        huge NUMERIC(38,4), free NUMERIC, at TIMESTAMPTZ NOT NULL, local TIMESTAMP(6), day DATE, doc JSONB, uid UUID,
        texts TEXT[], numbers INT4[], prices NUMERIC(9,3)[], ratio FLOAT8, half FLOAT4, raw BYTEA, nothing TEXT
    )
"""
ROWS = [
    (
        1, -5, 7, True, "grüße\n\"quoted\" \\ 'x'", "c1", "12.30", "-1234567890123456789012345678901234.5678", "0.00012",
        "2024-02-29T12:34:56.123456Z", "2023-12-31T23:59:59.000001", "1969-12-31", '{"a": [1, null]}',
        "6f1b3c9e-6f0a-4d5e-9f3b-0a1b2c3d4e5f", ["a", None, ""], [1, None, -3], ["1.5", "-0.001"], 1.5, -0.25,
        b"\x00\xff", None,
    ),
    (
        2, None, None, None, None, None, "-0.01", "0", "-98765432109876543210", "1999-01-01T00:00:00Z", None, "2400-01-01",
        None, None, None, [], None, float("nan"), None, b"", None,
    ),
    (3, 32767, -2147483648, False, "", "", "99999999.99", "9999999999999999999999999999999999.9999", "7",
     "2024-02-29T12:00:00+05:30", "1960-01-01T00:00:00", "2024-01-01", '"text"', None, ["x"], [0], ["123456.789"],
     -1e300, 0.0, None, None),
]  # fmt: skip


@pytest.fixture
def running(shop_stack: Stack, lake_folder: Any, spark_jars: list[Path], tmp_path: Path) -> Iterator[Any]:
    """Ingest of the table `kinds`; give it a name, and it is (re)started under the supervision of the test."""
    config = tmp_path / "streams.yaml"
    properties = json.dumps(lake_folder.pyiceberg_properties)
    config.write_text(
        f"""
pipeline: kinds
catalog: {{name: lake, properties: {properties}}}
kafka:
  properties: {{bootstrap.servers: "{shop_stack.bootstrap_servers}"}}
  control_topic: kinds.control
  dead_letter_topic: kinds.dead
every: 500ms
http: {{port: 0}}
spark: {{driver_memory: 768m, jars: {json.dumps([str(jar) for jar in spark_jars])}}}
streams:
  - {{topics: "kinds\\\\.public\\\\.kinds", table: "kinds.{{table}}", partition_by: ["days(at)"]}}
"""
    )
    process = Process(
        "ingest", [sys.executable, "-m", "isotherm_ingest.cli", "run", config], tmp_path / "ingest.log"
    )
    yield process
    process.stop(60)


def events(process: Process, name: str) -> list[dict[str, Any]]:
    lines = [line for line in process.log_tail(5000).splitlines() if line.startswith("{")]
    return [event for event in map(json.loads, lines) if event.get("event") == name]


def wait_for(process: Process, name: str, count: int = 1) -> list[dict[str, Any]]:
    process.wait_until(
        lambda: len(events(process, name)) >= count, START_WITHIN_S, f"has logged {count} {name}"
    )
    return events(process, name)


def told(rows: list[Any]) -> list[str]:
    return sorted(str([_plain(value) for value in row]) for row in rows)


def command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # a worker that has just ended
        return ""


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value if value is None else str(value)


def test_every_type_through_a_kill_and_a_stop(shop_stack: Stack, running: Process, lake: Any) -> None:
    with psycopg.connect(shop_stack.postgres_dsn, autocommit=True) as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        connection.execute(TABLE)
        connection.execute("ALTER TABLE kinds REPLICA IDENTITY FULL")
        marks = ", ".join(["%s"] * 21)
        for row in ROWS[:2]:
            connection.execute(f"INSERT INTO kinds VALUES ({marks})", row)
        shop_stack.connect.start_connector(
            "kinds",
            debezium_config(
                shop_stack.postgres,
                "kinds",
                table__include__list="public.kinds",
                slot__name="kinds",
                publication__name="kinds",
                publication__autocreate__mode="filtered",
                decimal__handling__mode="precise",
                poll__interval__ms=50,
            ),
        )
        running.start()
        wait_for(running, "table_committed")
        port = wait_for(running, "http_listening")[0]["port"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert b'isotherm_ingest_commits_total{table="kinds.kinds"} 1.0' in answer.read()

        # SIGKILL of the Python alone: its JVM must not outlive it, and nothing may be doubled.
        family = psutil.Process(running.pid).children(recursive=True)
        assert family
        # Of the catalog's properties, some are secrets, and each user of the machine can read a command line.
        assert not [one for one in family if "spark.sql.catalog" in command_line(one)]
        running.kill(signal.SIGKILL, group=False)
        _, alive = psutil.wait_procs(family, 30)
        assert [] == [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]
        connection.execute(f"INSERT INTO kinds VALUES ({marks})", ROWS[2])
        connection.execute("UPDATE kinds SET words = 'changed', price = NULL WHERE id = 1")
        connection.execute("DELETE FROM kinds WHERE id = 2")
        running.start()
        wait_for(running, "table_committed", 2)
        expected = connection.execute("SELECT * FROM kinds").fetchall()

        table = lake.load_table("kinds.kinds")
        family = psutil.Process(running.pid).children(recursive=True)
        running.kill(signal.SIGTERM, group=True)
        assert 0 == running.wait(60)
        assert events(running, "stopped")
        assert not [one for one in family if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]

    kinds = {field.name: str(field.field_type) for field in table.schema().fields}
    assert {
        "id": "long", "small": "int", "four": "int", "yes": "boolean", "words": "string", "code": "string",
        "price": "decimal(10, 2)", "huge": "decimal(38, 4)", "free": "string", "at": "timestamptz",
        "local": "timestamp", "day": "date", "doc": "string", "uid": "string", "texts": "list<string>",
        "numbers": "list<int>", "prices": "list<decimal(9, 3)>", "ratio": "double", "half": "float", "raw": "binary",
        "nothing": "string",
    } == kinds  # fmt: skip
    names = list(kinds)
    found = [[row[name] for name in names] for row in table.scan().to_arrow().to_pylist()]
    for row in expected:
        document = names.index("doc")
        row_list = list(row)
        row_list[document] = None if row[document] is None else json.dumps(row[document])
        expected[expected.index(row)] = row_list
    assert told(expected) == told(found)
