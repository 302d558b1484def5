"""Messages of one table with any columns, as bytes, and what the decoder makes of them."""

import base64
import json

import pyarrow as pa

from isotherm_ingest.decode.debezium_messages import MESSAGES, Decoder, decoder
from isotherm_ingest.decode.debezium_schema import change_schema
from isotherm_ingest.decode.statement import Wanted
from isotherm_ingest.workers.raw_messages import Sorter

ARROW = {
    "INT": pa.int32(), "BIGINT": pa.int64(), "BOOLEAN": pa.bool_(), "FLOAT": pa.float32(), "DOUBLE": pa.float64(),
    "STRING": pa.string(), "BINARY": pa.binary(), "DATE": pa.date32(), "TIMESTAMP_NTZ": pa.timestamp("us"),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
}  # fmt: skip
ID = {"field": "id", "type": "int64"}
DECIMAL = "org.apache.kafka.connect.data.Decimal"
PLACEHOLDER = "__debezium_unavailable_value"


def arrow(kind):
    """A type of Spark's DDL as Arrow's."""
    if kind.startswith("ARRAY<"):
        return pa.list_(arrow(kind[6:-1]))
    if kind.startswith("DECIMAL("):
        return pa.decimal128(*map(int, kind[8:-1].split(",")))
    return ARROW[kind]


def decimal(scale, precision=None):
    parameters = {"scale": str(scale)} | ({"connect.decimal.precision": str(precision)} if precision else {})
    return {"type": "bytes", "name": DECIMAL, "parameters": parameters}


def message(fields, *, op="c", before=None, after=None, **payload):
    """A change of shop's table orders; `fields` are Connect's, with their names."""
    row = {"type": "struct", "fields": fields}
    names = dict.fromkeys(["schema", "db", "table", "ts_ms", "lsn", *(payload.get("source") or ())])
    source = [{"field": name, "type": "string"} for name in names]
    envelope = [
        {**row, "field": "before"},
        {**row, "field": "after"},
        {"type": "struct", "field": "source", "fields": source},
        {"type": "string", "field": "op"},
    ]
    told = {
        "before": before,
        "after": after,
        "source": {"schema": "public", "db": "shop", "table": "orders", "ts_ms": 5, "lsn": 9},
        "op": op,
        **payload,
    }
    text = {"schema": {"type": "struct", "fields": envelope}, "payload": told}
    return json.dumps(text, separators=(",", ":")).encode()


def key(**values):
    """A message key with its schema."""
    fields = [{"field": name, "type": "int64"} for name in values]
    return json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": values}).encode()


def raw(*values, keys=None, moved=None):
    """Messages, as the decoder gets them; `moved` are those that have the header of a changed key."""
    size = len(values)
    columns = [
        values, keys or [None] * size, moved or [False] * size, ["shop.public.orders"] * size, [0] * size, range(size),
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(
        [pa.array(column, one.type) for column, one in zip(columns, MESSAGES, strict=True)], schema=MESSAGES
    )


def from_kafka(*values, topic="shop.public.orders", first=0, headers=None):
    """Messages, as the job reads them from Kafka."""
    size = len(values)
    columns = {
        "key": pa.array([key(id=1)] * size, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "headers": pa.array(headers or [None] * size, pa.string()),
        "timestamp": pa.array([0] * size, pa.int64()),
        "topic": [topic] * size,
        "partition": pa.array([0] * size, pa.int32()),
        "offset": list(range(first, first + size)),
    }
    return pa.RecordBatch.from_pydict(columns)


def number_of(value):
    """Of the schema of a message."""
    (group,) = Sorter().groups(from_kafka(value))
    return group.schema


def decoder_of(fields, *, table=None, keys=("id",), message_key=None, keeps=True, **wanted) -> Decoder:
    """The decoder of such messages for a table that has their columns, or those of `table`."""
    schema = change_schema(
        message(fields).decode(),
        (message_key or key(id=1)).decode(),
    )
    columns = {column.name: column.kind.type for column in schema.columns} if table is None else table
    schema_of_table = pa.schema([(name, arrow(kind)) for name, kind in columns.items()])
    return decoder(schema, schema_of_table, Wanted(tuple(columns), tuple(keys), keeps, **wanted))


def decoded(found: Decoder, messages):
    """Rows and changes, in plain Python."""
    table = found.decode(messages)
    assert table.num_rows == messages.num_rows
    table.validate(full=True)
    changes = [
        {**change, "kept": None if change["kept"] is None else json.loads(change["kept"])}
        for change in table.column("change").to_pylist()
    ]
    return list(zip(table.column("row").to_pylist(), changes, strict=True))


def base64_of(number):
    return base64.b64encode(number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)).decode()


def typed(kind, name=None, **more):
    return {"type": kind, **({"name": name} if name else {}), **more}


def array(items):
    return {"type": "array", "items": items}


DATE = typed("int32", "io.debezium.time.Date")
ZONED = typed("string", "io.debezium.time.ZonedTimestamp")
MICROS = typed("int64", "io.debezium.time.MicroTimestamp")
MILLIS = typed("int64", "io.debezium.time.Timestamp")
NANOS = typed("int64", "io.debezium.time.NanoTimestamp")
VARIABLE = typed("struct", "io.debezium.data.VariableScaleDecimal")
"""Types that Debezium has a name for."""
