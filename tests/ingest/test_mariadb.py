"""A real MariaDB, Debezium's connector on a real worker, and ingest: the mirror is what another client reads from the server.

The worker reads it by the connector for MySQL (`support.mariadb` says why).
"""

# ruff: noqa: DTZ001 (columns without a zone)

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from isotherm.demo.stack.connect import Connect
from support.ingest_lab import Lab
from support.mariadb import MariaDB

pytestmark = [pytest.mark.spark, pytest.mark.stack]

STREAMS = r"""
  - {topics: "NS(\\..*)?", table: "NS.{schema}_{table}"}
"""
WITHIN_S = 90
KINDS = {
    "id": "BIGINT UNSIGNED NOT NULL PRIMARY KEY",
    "tiny": "TINYINT",
    "flag": "TINYINT(1)",
    "small": "SMALLINT UNSIGNED NOT NULL",
    "medium": "MEDIUMINT",
    "num": "INT UNSIGNED",
    "big": "BIGINT",
    "huge": "BIGINT UNSIGNED",
    "price": "DECIMAL(12,3)",
    "wide": "DECIMAL(65,30)",
    "f": "FLOAT",
    "d": "DOUBLE",
    "bit1": "BIT(1)",
    "bit12": "BIT(12)",
    "y": "YEAR",
    "day": "DATE",
    "t": "TIME(6)",
    "at": "DATETIME",
    "at6": "DATETIME(6)",
    "ts": "TIMESTAMP(3) NULL",
    "letter": "CHAR(3)",
    "name": "VARCHAR(30) DEFAULT 'none'",
    "txt": "LONGTEXT",
    "raw": "VARBINARY(10)",
    "e": "ENUM('red','grün','blue')",
    "s": "SET('x','y','z')",
    "js": "JSON",
    "pt": "POINT",
}
SELECT = ", ".join("ST_AsText(pt) AS pt" if name == "pt" else name for name in KINDS)


def drawn(dice: random.Random) -> dict[str, Any]:
    """Values as a client sends them; each column has null as often as not, but those that take none."""
    moment = datetime(1000, 1, 1) + timedelta(microseconds=dice.randrange(9000 * 365 * 86_400 * 10**6))
    values = {
        "tiny": dice.randrange(-128, 128),
        "flag": dice.randrange(2),
        "medium": dice.choice([-(2**23), 2**23 - 1, 0]),
        "num": dice.choice([0, 2**32 - 1]),
        "big": dice.choice([-(2**63), 2**63 - 1, -1]),
        "huge": dice.choice([0, 2**63, 2**64 - 1]),
        "price": Decimal(dice.randrange(-(10**12) + 1, 10**12)).scaleb(-3),
        "wide": dice.choice(["-" + "9" * 35 + "." + "9" * 30, "0." + "0" * 29 + "1", "1"]),
        "f": dice.choice([1.5, -0.25, 0]),
        "d": dice.choice([0.1, 1e300, -5e-324]),
        "bit1": dice.randrange(2),
        "bit12": dice.randrange(4096),
        "y": dice.choice([1901, 2024, 2155]),
        "day": dice.choice(["0000-00-00", "1000-01-01", "9999-12-31", str(moment.date())]),
        "t": dice.choice(["-838:59:58.999999", "838:59:58.999999", "00:00:00", "12:34:56.5"]),
        "at": moment.replace(microsecond=0),
        "at6": moment,
        "ts": datetime(2001, 9, 9, 1, 46, 40, dice.randrange(1000) * 1000),
        "letter": dice.choice(["", "ä", "abc"]),
        "name": dice.choice(["", "grün 🙂", 'it\'s \\ "so"']),
        "txt": "x" * dice.choice([0, 1, 100_000]),
        "raw": dice.randbytes(dice.randrange(11)),
        "e": dice.choice(["red", "grün"]),
        "s": dice.choice(["", "x", "x,z"]),
        "js": dice.choice(["{}", '{"a": [1, "ä"]}', "null"]),
        "pt": f"POINT({dice.randrange(9)} {dice.randrange(9)})",
    }
    kept = {name: value for name, value in values.items() if dice.random() < 0.5}
    return {"small": dice.randrange(65536), **kept}


class Shop:
    """The source: a client that writes to the server."""

    def __init__(self, server: MariaDB, name: str) -> None:
        self.name, self._dice = name, random.Random(5)
        self.connection = server.connect()
        self.do(f"CREATE DATABASE {name}")
        self.do(f"USE {name}")
        self.do("SET sql_mode = ''")  # zero dates are taken
        columns = ", ".join(f"{name} {kind}" for name, kind in KINDS.items())
        self.do(f"CREATE TABLE kinds ({columns})")
        self._number = 0

    def do(self, sql: str, *values: Any) -> Any:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, values)
            return cursor.fetchall()

    def change(self) -> None:
        """A random change, of one row or of many."""
        throw, row = self._dice.random(), drawn(self._dice)
        sets = ", ".join(f"{name} = {'ST_GeomFromText(%s)' if name == 'pt' else '%s'}" for name in row)
        numbers = [number for (number,) in self.do("SELECT id FROM kinds ORDER BY id")]
        if throw < 0.5 or not numbers:
            self._number += 1
            # Half of the keys are beyond a signed number.
            number = self._number if self._number % 2 else 2**64 - self._number
            self.do(f"INSERT INTO kinds SET id = %s, {sets}", number, *row.values())
        elif throw < 0.8:
            self.do(f"UPDATE kinds SET {sets} WHERE id = %s", *row.values(), self._dice.choice(numbers))
        elif throw < 0.85:
            self.do("UPDATE kinds SET id = id + 1000 WHERE id = %s AND id < 900", self._dice.choice(numbers))
        elif throw < 0.9:
            self.do("UPDATE kinds SET tiny = 7 WHERE id < 20")
        else:
            self.do("DELETE FROM kinds WHERE id = %s", self._dice.choice(numbers))

    def rows(self, *more: str) -> list[dict[str, Any]]:
        """What the server has, by another connection's own question, in the words of the table."""
        names = [*KINDS, *more]
        found = self.do(f"SELECT {', '.join([SELECT, *more])} FROM kinds")
        return [{name: _meant(name, value) for name, value in zip(names, row, strict=True)} for row in found]


def _meant(name: str, value: Any) -> Any:
    """What a value of the server's is in the table, by plain Python."""
    if value is None or value == "0000-00-00":  # which Debezium makes null
        return None
    match name:
        case "id" | "huge":
            return Decimal(value)
        case "wide":
            return format(value, "f")
        case "bit1":
            return value == b"\1"
        case "bit12":
            return value[::-1]
        case "t":
            return value // timedelta(microseconds=1)
        case "ts":
            return value.replace(tzinfo=UTC)
        case "pt":
            return tuple(map(float, value.removeprefix("POINT(").removesuffix(")").split()))
    return value


def _read(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the table, as far as Spark has its own ways to show a value."""
    found = {name: bytes(value) if isinstance(value, bytearray) else value for name, value in row.items()}
    if found["pt"] is not None:
        point = json.loads(found["pt"])
        found["pt"] = point["x"], point["y"]
    if found["ts"] is not None:
        found["ts"] = found["ts"].astimezone(UTC)
    return found


def ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["id"])


@pytest.fixture
def lab(kafka: Any, spark: Any, lake_folder: Any) -> Iterator[Lab]:
    lab = Lab(kafka, spark, lake_folder, STREAMS)
    yield lab
    lab.close()


@pytest.fixture
def server(tmp_path: Any, pytestconfig: pytest.Config) -> Iterator[MariaDB]:
    made = MariaDB(tmp_path / "a server", pytestconfig.rootpath / ".pytest_cache" / "mariadb")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def connect(kafka: Any, server: MariaDB, tmp_path: Any) -> Iterator[Connect]:
    made = Connect(tmp_path / "connect", kafka.bootstrap_servers, plugins={"mysql": server.connector_jars})
    made.start()
    yield made
    made.stop()


def test_the_mirror_is_what_the_server_has(lab: Lab, server: MariaDB, connect: Connect) -> None:
    shop = Shop(server, f"{lab.name}_shop")
    table = f"{shop.name}_kinds"
    marks = iter(range(10_000, 10_100))

    def has_seen(mark: int) -> bool:
        lab.ingest()
        return lab.snapshots(table) != [] and any(row["id"] == mark for row in lab.rows(table))

    def catch_up() -> None:
        """Until the source's last change has been through a batch: the topic has them in the order of the log."""
        shop.do("INSERT INTO kinds SET id = %s, small = 0", mark := next(marks))
        connect.process.wait_until(lambda: has_seen(mark), WITHIN_S, f"has sent mark {mark}")

    for _ in range(40):
        shop.change()
    config = server.connector(
        lab.name,
        lab.kafka.bootstrap_servers,
        database__include__list=shop.name,
        bigint__unsigned__handling__mode="precise",
        provide__transaction__metadata=True,
        heartbeat__interval__ms=200,
    )
    connect.start_connector("shop", config)
    catch_up()
    assert ordered([_read(row) for row in lab.rows(table)]) == ordered(shop.rows())

    for _ in range(80):
        shop.change()
    shop.do("START TRANSACTION")
    shop.do("DELETE FROM kinds")
    shop.do("ROLLBACK")
    catch_up()
    assert ordered([_read(row) for row in lab.rows(table)]) == ordered(shop.rows())

    shop.do("ALTER TABLE kinds ADD COLUMN note VARCHAR(10)")
    shop.do("UPDATE kinds SET note = 'new' WHERE id < 30")
    connect.stop_connector("shop")
    for _ in range(20):
        shop.change()
    connect.start_connector("shop", config)
    catch_up()
    assert ordered([_read(row) for row in lab.rows(table)]) == ordered(shop.rows("note"))

    # What the connector says of itself has topics of its own, which the stream has too. It is no row, and no dead letter.
    assert {topic for topic in lab.broker.topics(f"{lab.name}.*") if "." not in topic} == {lab.name}
    assert lab.read(f"{lab.name}.transaction")
    assert lab.dead() == []
