"""Changes as Debezium's connector for Oracle documents them. No Oracle has sent them."""

# ruff: noqa: DTZ001 (columns without a zone)

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from support.connectors import Table, told
from support.wire import MICROS, MILLIS, NANOS, PLACEHOLDER, VARIABLE, ZONED, base64_of, decimal, typed

SOURCE = {
    "version": "3.6.1.Final",
    "connector": "oracle",
    "name": "server1",
    "ts_ms": 1700000000000,
    "snapshot": "false",
    "db": "ORCLPDB1",
    "schema": "DEBEZIUM",
    "table": "KINDS",
    "txId": "6.28.807",
    "scn": "2122185",
    "commit_scn": "2122185",
    "rs_id": "001234.00012345.0124",
    "ssn": 1,
    "redo_thread": 1,
    "row_id": "AAASgjAAMAAAACnAAA",
}


def number(unscaled, scale):
    return {"scale": scale, "value": base64_of(unscaled)}


DURATION = "io.debezium.time.MicroDuration"
CASES = [
    ("NUMBER", VARIABLE, number(123456, 3), "STRING", "123.456"),
    ("NUMBER, small", VARIABLE, number(-1, 130), "STRING", "-0." + "0" * 129 + "1"),
    ("NUMBER, large", VARIABLE, number(5, -3), "STRING", "5000"),
    ("FLOAT(126)", VARIABLE, number(15, 1), "STRING", "1.5"),
    ("NUMBER(4)", typed("int16"), -9999, "INT", -9999),
    ("NUMBER(18)", typed("int64"), 10**18 - 1, "BIGINT", 10**18 - 1),
    ("NUMBER(38), INTEGER", decimal(0, 38), base64_of(10**38 - 1), "DECIMAL(38,0)", Decimal(10**38 - 1)),
    ("NUMBER(5,2)", decimal(2, 5), base64_of(-99999), "DECIMAL(5,2)", Decimal("-999.99")),
    ("NUMBER(5,7)", decimal(7, 5), base64_of(12345), "STRING", "0.0012345"),
    ("NUMBER(21,-2)", decimal(-2, 21), base64_of(12345), "STRING", "1234500"),
    ("BINARY_FLOAT", typed("float"), 0.5, "FLOAT", 0.5),
    ("BINARY_DOUBLE", typed("double"), 1e300, "DOUBLE", 1e300),
    ("CHAR", typed("string"), "ab ", "STRING", "ab "),
    ("CLOB", typed("string"), "ab\n", "STRING", "ab\n"),
    ("BLOB, RAW", typed("bytes"), "AP8=", "BINARY", b"\x00\xff"),
    ("ROWID", typed("string"), "AAASgjAAMAAAACnAAA", "STRING", "AAASgjAAMAAAACnAAA"),
    ("XMLTYPE", typed("string", "io.debezium.data.Xml"), "<a/>", "STRING", "<a/>"),
    ("DATE", MILLIS, 1706702400000, "TIMESTAMP_NTZ", datetime(2024, 1, 31, 12)),
    ("TIMESTAMP", MICROS, 1706702400123456, "TIMESTAMP_NTZ", datetime(2024, 1, 31, 12, 0, 0, 123456)),
    ("TIMESTAMP(9)", NANOS, 1706702400123456789, "TIMESTAMP_NTZ", datetime(2024, 1, 31, 12, 0, 0, 123456)),
    (
        "TIMESTAMP WITH TIME ZONE",
        ZONED,
        "2024-01-31T12:00:00.123456789-08:00",
        "TIMESTAMP",
        datetime(2024, 1, 31, 20, 0, 0, 123456, tzinfo=UTC),
    ),
    ("INTERVAL DAY TO SECOND", typed("int64", DURATION), -3723456789, "BIGINT", -3723456789),
    ("INTERVAL, as documented", typed("double", DURATION), 3723456789.0, "DOUBLE", 3723456789.0),
    (
        "INTERVAL, string",
        typed("string", "io.debezium.time.Interval"),
        "P1Y2M3DT4H5M6.78S",
        "STRING",
        "P1Y2M3DT4H5M6.78S",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "sent", "type_", "value"), [one[1:] for one in CASES], ids=[one[0] for one in CASES]
)
def test_types(kind, sent, type_, value):
    table = Table("oracle", "server1.DEBEZIUM.KINDS", SOURCE, {"ID": typed("int32"), "X": kind}, ("ID",))
    after = {"ID": 1, "X": sent}
    found, rows = told(
        table.change("r", after=after, snapshot="true"),
        table.change("u", before=after, after={"ID": 1}),
        table.change("d", before=after),
    )

    assert found == {"ID": "INT", "X": type_}
    assert [row["X"] for row, _ in rows] == [value, None, value]
    assert all(change["problem"] is None and change["lsn"] is None for _, change in rows)


@pytest.mark.parametrize("before", [True, False], ids=["with the old row", "with the key alone"])
def test_a_number_without_limits_may_be_the_key(before):
    """A NUMBER is a struct, in the row and in the key; the row of the insert and that of the delete are one."""
    table = Table("oracle", "t", SOURCE, {"ID": VARIABLE, "X": typed("string")}, ("ID",))
    row = {"ID": number(1005, 1)}
    key, value = table.change("d", before=row)
    if not before:
        whole = b'"before":{"ID":{"scale":1,"value":"J0I="},"X":null}'
        assert value.count(whole.replace(b"J0I=", base64_of(1005).encode())) == 1
        value = value.replace(whole.replace(b"J0I=", base64_of(1005).encode()), b'"before":null')
    _, rows = told(table.change("c", after={**row, "X": "x"}), (key, value))

    assert [(row["ID"], change["op"]) for row, change in rows] == [("100.5", "c"), ("100.5", "d")]
    assert all(change["problem"] is None for _, change in rows)


@pytest.mark.parametrize("kind", [typed("string"), typed("bytes")], ids=["CLOB", "BLOB"])
def test_a_large_object_that_an_update_leaves_out_is_kept(kind):
    placeholder = PLACEHOLDER if kind["type"] == "string" else "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
    table = Table("oracle", "t", SOURCE, {"ID": typed("int32"), "X": kind}, ("ID",))
    row = {"ID": 1, "X": placeholder}
    _, ((row, change),) = told(table.change("u", before=row, after=row))

    assert (row["X"], change["kept"], change["problem"]) == (None, ["X"], None)
