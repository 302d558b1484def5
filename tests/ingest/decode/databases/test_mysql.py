"""Changes as the connectors for MySQL and MariaDB document them. (What a real server's become: tests/ingest/test_mariadb.py.)"""

# ruff: noqa: DTZ001 (columns without a zone)

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from support.connectors import Table, told
from support.wire import DATE, MICROS, MILLIS, PLACEHOLDER, ZONED, base64_of, decimal, typed

SOURCE = {
    "version": "3.6.1.Final",
    "connector": "mysql",
    "name": "shop",
    "ts_ms": 1700000000000,
    "snapshot": "false",
    "db": "inventory",
    "sequence": None,
    "table": "kinds",
    "server_id": 223344,
    "gtid": "24DA167-0C0C-11E8-8442-00059A3C7B00:17",
    "file": "mysql-bin.000003",
    "pos": 484,
    "row": 0,
    "thread": 7,
    "query": None,
}
POINT = typed("struct", "io.debezium.data.geometry.Point")
GEOMETRY = typed("struct", "io.debezium.data.geometry.Geometry")
CASES = [
    ("tinyint", typed("int16"), -128, "INT", -128),
    ("tinyint(1), by the converter for it", typed("boolean"), True, "BOOLEAN", True),
    ("tinyint(1)", typed("int16"), 1, "INT", 1),
    ("smallint unsigned", typed("int32"), 65535, "INT", 65535),
    ("int unsigned", typed("int64"), 4294967295, "BIGINT", 4294967295),
    ("bigint unsigned, long", typed("int64"), -1, "BIGINT", -1),
    (
        "bigint unsigned, precise",
        decimal(0),
        base64_of(2**64 - 1),
        "DECIMAL(38,0)",
        Decimal(18446744073709551615),
    ),
    ("decimal(12,3)", decimal(3, 12), base64_of(-123456789125), "DECIMAL(12,3)", Decimal("-123456789.125")),
    (
        "decimal(65,30)",
        decimal(30, 65),
        base64_of(-(10**64) - 1),
        "STRING",
        "-10000000000000000000000000000000000." + "0" * 29 + "1",
    ),
    ("float", typed("float"), 1.5, "FLOAT", 1.5),
    ("double", typed("double"), 0.1, "DOUBLE", 0.1),
    ("bit(1)", typed("boolean"), True, "BOOLEAN", True),
    ("bit(12): little-endian", typed("bytes", "io.debezium.data.Bits"), "vAo=", "BINARY", b"\xbc\x0a"),
    ("year", typed("int32", "io.debezium.time.Year"), 2024, "INT", 2024),
    ("date", DATE, 19782, "DATE", date(2024, 2, 29)),
    ("time", typed("int64", "io.debezium.time.MicroTime"), -45296123456, "BIGINT", -45296123456),
    ("datetime(3)", MILLIS, 1706702400123, "TIMESTAMP_NTZ", datetime(2024, 1, 31, 12, 0, 0, 123000)),
    ("datetime(6)", MICROS, 1706702400123456, "TIMESTAMP_NTZ", datetime(2024, 1, 31, 12, 0, 0, 123456)),
    (
        "timestamp",
        ZONED,
        "2024-01-31T12:00:00.5Z",
        "TIMESTAMP",
        datetime(2024, 1, 31, 12, 0, 0, 500000, tzinfo=UTC),
    ),
    (
        "datetime, connect",
        typed("int64", "org.apache.kafka.connect.data.Timestamp"),
        1706702400123,
        "TIMESTAMP_NTZ",
        datetime(2024, 1, 31, 12, 0, 0, 123000),
    ),
    ("time, connect", typed("int32", "org.apache.kafka.connect.data.Time"), 45296123, "INT", 45296123),
    ("date, iso", typed("string", "io.debezium.time.IsoDate"), "2024-02-29Z", "STRING", "2024-02-29Z"),
    ("enum", typed("string", "io.debezium.data.Enum"), "blau", "STRING", "blau"),
    ("set", typed("string", "io.debezium.data.EnumSet"), "x,z", "STRING", "x,z"),
    ("json", typed("string", "io.debezium.data.Json"), '{"a": 1}', "STRING", '{"a": 1}'),
    ("blob", typed("bytes"), "AP8=", "BINARY", b"\x00\xff"),
    (
        "point",
        POINT,
        {"x": 1.0, "y": 2.0, "wkb": "AQE=", "srid": None},
        "STRING",
        '{"x":1.0,"y":2.0,"wkb":"AQE=","srid":null}',
    ),
    ("geometry", GEOMETRY, {"wkb": "AQI=", "srid": 4326}, "STRING", '{"wkb":"AQI=","srid":4326}'),
    ("longtext", typed("string"), "x" * 9999, "STRING", "x" * 9999),
]


@pytest.mark.parametrize("connector", ["mysql", "mariadb"])
@pytest.mark.parametrize(
    ("kind", "sent", "type_", "value"), [one[1:] for one in CASES], ids=[one[0] for one in CASES]
)
def test_types(connector, kind, sent, type_, value):
    table = Table(connector, "shop.inventory.kinds", SOURCE, {"id": typed("int64"), "x": kind}, ("id",))
    after = {"id": 1, "x": sent}
    found, rows = told(
        table.change("r", after=after, snapshot="true"),
        table.change("c", after=after),
        table.change("u", before={"id": 1}, after=after),
        table.change("c", after={"id": 2}),
        table.change("d", before=after),
    )

    assert found == {"id": "BIGINT", "x": type_}
    assert [row["x"] for row, _ in rows] == [value, value, value, None, value]
    assert [change["op"] for _, change in rows] == ["r", "c", "u", "c", "d"]
    assert all(change["problem"] is None for _, change in rows)


def test_a_table_is_named_for_its_database_and_has_no_lsn():
    table = Table("mysql", "shop.inventory.kinds", SOURCE, {"id": typed("int64")}, ("id",))
    key, value = table.change("c", after={"id": 1})
    _, ((row, change),) = told((key, value), keeps=False)

    assert row == {"id": 1}
    assert (change["lsn"], change["ts"]) == (None, datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC))


def test_a_null_is_a_null_after_an_update_that_has_an_old_row():
    """Nothing is left out of a row of the binlog (`binlog_row_image=FULL`), which has the old one always."""
    table = Table(
        "mysql", "t", SOURCE, {"id": typed("int64"), "b": typed("bytes", "io.debezium.data.Bits")}, ("id",)
    )
    _, ((row, change),) = told(table.change("u", before={"id": 1, "b": "vAo="}, after={"id": 1}))

    assert row == {"id": 1, "b": None}
    assert (change["kept"], change["untold"]) == (None, None)


def test_a_large_text_that_the_binlog_leaves_out_is_kept():
    """As with `binlog_row_image=NOBLOB`, of which newer connectors make the same placeholder as of PostgreSQL's large values."""
    table = Table("mysql", "t", SOURCE, {"id": typed("int64"), "x": typed("string")}, ("id",))
    _, ((row, change),) = told(table.change("u", before={"id": 1}, after={"id": 1, "x": PLACEHOLDER}))

    assert (row["x"], change["kept"], change["problem"]) == (None, ["x"], None)
