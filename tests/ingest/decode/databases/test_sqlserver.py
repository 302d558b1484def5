"""Changes as Debezium's connector for SQL Server documents them. No SQL Server has sent them."""

# ruff: noqa: DTZ001 (columns without a zone)

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from support.connectors import Table, told
from support.wire import DATE, MICROS, MILLIS, NANOS, ZONED, base64_of, decimal, typed

SOURCE = {
    "version": "3.6.1.Final",
    "connector": "sqlserver",
    "name": "server1",
    "ts_ms": 1700000000000,
    "snapshot": "false",
    "db": "testDB",
    "schema": "dbo",
    "table": "kinds",
    "change_lsn": "00000027:00000758:0003",
    "commit_lsn": "00000027:00000758:0005",
    "event_serial_no": 1,
}
ID = "6F9619FF-8B86-D011-B42D-00C04FC964FF"
CASES = [
    ("bit", typed("boolean"), False, "BOOLEAN", False),
    ("tinyint", typed("int16"), 255, "INT", 255),
    ("money", decimal(4, 19), base64_of(-9223372036854775808), "DECIMAL(19,4)", Decimal("-922337203685477.5808")),
    ("smallmoney", decimal(4, 10), base64_of(2147483647), "DECIMAL(10,4)", Decimal("214748.3647")),
    ("real", typed("float"), 0.5, "FLOAT", 0.5),
    ("uniqueidentifier", typed("string"), ID, "STRING", ID),
    ("xml", typed("string", "io.debezium.data.Xml"), "<a/>", "STRING", "<a/>"),
    ("varbinary, rowversion", typed("bytes"), "AAAAAAAAB9E=", "BINARY", b"\0\0\0\0\0\0\x07\xd1"),
    ("date", DATE, -719162, "DATE", date(1, 1, 1)),
    ("time(3)", typed("int32", "io.debezium.time.Time"), 86399999, "INT", 86399999),
    ("time(6)", typed("int64", "io.debezium.time.MicroTime"), 86399999999, "BIGINT", 86399999999),
    ("time(7)", typed("int64", "io.debezium.time.NanoTime"), 86399999999900, "BIGINT", 86399999999900),
    ("datetime", MILLIS, 1706702400123, "TIMESTAMP_NTZ", datetime(2024, 1, 31, 12, 0, 0, 123000)),
    ("datetime2(6)", MICROS, -1, "TIMESTAMP_NTZ", datetime(1969, 12, 31, 23, 59, 59, 999999)),
    ("datetime2(7)", NANOS, 1706702400123456700, "TIMESTAMP_NTZ", datetime(2024, 1, 31, 12, 0, 0, 123456)),
    ("datetime2(7) before 1970", NANOS, -100, "TIMESTAMP_NTZ", datetime(1969, 12, 31, 23, 59, 59, 999999)),
    (
        "datetimeoffset(7)",
        ZONED,
        "2024-01-31T12:00:00.1234567+14:00",
        "TIMESTAMP",
        datetime(2024, 1, 30, 22, 0, 0, 123456, tzinfo=UTC),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "sent", "type_", "value"), [one[1:] for one in CASES], ids=[one[0] for one in CASES]
)
def test_types(kind, sent, type_, value):
    table = Table("sqlserver", "server1.testDB.dbo.kinds", SOURCE, {"id": typed("int32"), "x": kind}, ("id",))
    after = {"id": 1, "x": sent}
    found, rows = told(
        # A snapshot has no position of a change.
        table.change("r", after=after, snapshot="true", change_lsn=None, event_serial_no=None),
        table.change("u", before=after, after={"id": 1}),
        table.change("d", before=after),
    )

    assert found == {"id": "INT", "x": type_}
    assert [row["x"] for row, _ in rows] == [value, None, value]
    assert all(change["problem"] is None and change["lsn"] is None for _, change in rows)


def test_the_key_of_a_row_may_be_a_guid_or_money():
    columns = {"a": typed("string"), "b": decimal(4, 19), "x": typed("string")}
    table = Table("sqlserver", "t", SOURCE, columns, ("a", "b"))
    _, ((row, change),) = told(table.change("d", before={"a": ID, "b": base64_of(12345)}))

    assert row == {"a": ID, "b": Decimal("1.2345"), "x": None}
    assert change["problem"] is None
