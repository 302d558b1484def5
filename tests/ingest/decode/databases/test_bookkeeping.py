"""What Debezium writes beside the changes of rows: none of it is a row, and none a dead letter, whatever topic it is in."""

import json

import pyarrow as pa
import pytest

from isotherm_ingest.decode.debezium_messages import decoder
from isotherm_ingest.decode.debezium_schema import change_schema
from isotherm_ingest.decode.statement import Wanted
from isotherm_ingest.workers.decoding import Decoding
from isotherm_ingest.workers.tasks import COUNT, LETTERS, SAMPLE, BatchTask
from support.connectors import Table, groups, told, with_schema
from support.wire import from_kafka, typed

SOURCE = {
    "connector": "postgresql",
    "ts_ms": 5,
    "db": "shop",
    "schema": "public",
    "table": "orders",
    "lsn": 9,
    "snapshot": "false",
}
ORDERS = Table(
    "postgresql", "shop.public.orders", SOURCE, {"id": typed("int64"), "x": typed("string")}, ("id",)
)


def field(name, kind="string", **more):
    return {"type": kind, "optional": True, "field": name, **more}


OF_SOURCE = field("source", "struct", fields=[field("db"), field("lsn", "int64")])
BOOKKEEPING = {
    "heartbeat": with_schema("io.debezium.connector.common.Heartbeat", [field("ts_ms", "int64")], {"ts_ms": 5}),
    "begin of a transaction": with_schema(
        "io.debezium.connector.common.TransactionMetadataValue",
        [field("status"), field("id"), field("event_count", "int64"), field("ts_ms", "int64")],
        {"status": "BEGIN", "id": "571:53195829", "event_count": None, "ts_ms": 5},
    ),
    "change of a schema, MySQL": with_schema(
        "io.debezium.connector.mysql.SchemaChangeValue",
        [OF_SOURCE, field("ddl"), field("databaseName"), field("tableChanges", "array", items={"type": "string"})],
        {"source": {"db": "shop", "lsn": None}, "ddl": "ALTER TABLE a RENAME b", "databaseName": "shop", "tableChanges": []},
    ),
    "change of a schema, SQL Server": with_schema(
        "io.debezium.connector.sqlserver.SchemaChangeValue",
        [OF_SOURCE, field("ddl")],
        {"source": {"db": "shop", "lsn": None}, "ddl": None},
    ),
    "change of a schema, Oracle": with_schema(
        "io.debezium.connector.oracle.SchemaChangeValue", [OF_SOURCE, field("ddl")], {"source": {"db": "A", "lsn": None}, "ddl": "x"}
    ),
    "logical decoding message (op m)": with_schema(
        "io.debezium.connector.postgresql.MessageValue",
        [field("op"), field("ts_ms", "int64"), OF_SOURCE, field("message", "struct", fields=[field("prefix"), field("content", "bytes")])],
        {"op": "m", "ts_ms": 5, "source": {"db": "shop", "lsn": 9}, "message": {"prefix": "p", "content": "AAE="}},
    ),
    "notification": with_schema(
        "io.debezium.connector.common.Notification",
        [field("id"), field("type"), field("aggregate_type")],
        {"id": "1", "type": "COMPLETED", "aggregate_type": "Incremental Snapshot"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BOOKKEEPING)
def test_it_is_neither_a_row_nor_a_dead_letter(name):
    """Between changes, a hundred of it: the change is the one sample, and nothing else is reported."""
    key = json.dumps(
        {"schema": {"fields": [{"field": "serverName"}]}, "payload": {"serverName": "s"}}
    ).encode()
    change_key, change = ORDERS.change("c", after={"id": 1})
    values = [change, *[BOOKKEEPING[name]] * 100]
    batch = from_kafka(*values, topic=ORDERS.topic)
    batch = batch.set_column(0, "key", pa.array([change_key, *[key] * 100], pa.binary()))
    lines = list(Decoding(BatchTask({}, {}, {})).lines([batch]))

    assert [line.kind for line in lines if line.kind != COUNT] == [SAMPLE]
    assert not [line for line in lines if line.kind == LETTERS]


def test_a_tombstone_is_nothing():
    assert groups((b"{}", None), ORDERS.change("c", after={"id": 1}))[0].rows.num_rows == 1


def test_a_row_that_is_read_again_in_the_middle_is_a_row_like_any_other():
    """An incremental snapshot: `r` between changes, with no place in the log. By its offset it is newer than what was before."""
    _, rows = told(
        ORDERS.change("u", before={"id": 1}, after={"id": 1, "x": "a"}),
        ORDERS.change("r", after={"id": 1, "x": "b"}, lsn=None, snapshot="incremental"),
        ORDERS.change("u", before={"id": 1}, after={"id": 1, "x": "c"}),
    )

    assert [(row["x"], change["op"], change["lsn"], change["problem"]) for row, change in rows] == [
        ("a", "u", 9, None),
        ("b", "r", None, None),
        ("c", "u", 9, None),
    ]


def test_a_signal_is_a_change_of_the_table_that_it_was_written_to():
    """Debezium is told by rows of a table. Where that table is captured, it has a topic, and is a table of its own."""
    columns = {"id": typed("string"), "type": typed("string"), "data": typed("string")}
    signals = Table("postgresql", "t", SOURCE | {"table": "debezium_signal"}, columns, ("id",))
    signal = {"id": "ad-hoc-1", "type": "execute-snapshot", "data": '{"data-collections": ["public.orders"]}'}
    _, ((row, change),) = told(signals.change("c", after=signal))

    assert (row, change["problem"]) == (signal, None)


def test_a_key_alone_deletes_the_row_of_any_database():
    """The old row is null, as by a connector or a transform that leaves it out: the key has all that is needed."""
    for connector in ("mysql", "sqlserver", "oracle"):
        table = Table(connector, "t", SOURCE, ORDERS.columns, ("id",))
        key, value = table.change("d", before={"id": 7})
        value = value.replace(b'"before":{"id":7,"x":null}', b'"before":null')
        assert b'"before":null' in value
        _, ((row, change),) = told((key, value))

        assert (row, change["op"], change["problem"]) == ({"id": 7, "x": None}, "d", None)


def test_two_tables_of_one_shape_in_one_topic_are_told_apart_by_what_they_say_of_their_source():
    """Several shards routed into one topic, with one schema. Where the table's name has `{table}`, a change of another one is a
    dead letter; where it has not, all are rows of one table.
    """
    key, value = ORDERS.change("c", after={"id": 1})
    other = ORDERS.change("c", after={"id": 2}, table="orders_1")
    schema = change_schema(value.decode(), key.decode())
    columns = pa.schema([("id", pa.int64()), ("x", pa.string())])
    (group,) = groups((key, value), other)
    for parts, problems in (
        (frozenset({"table"}), [None, "other_table:the topic holds changes of two tables with one schema"]),
        (frozenset(), [None, None]),
    ):
        found = decoder(schema, columns, Wanted(("id", "x"), ("id",), True, source_parts=parts))
        change = found.decode(group.to_decode()).column("change")

        assert pa.compute.struct_field(change, "problem").to_pylist() == problems
