"""How many messages a CPU second of a worker decodes, format by format, and what fastavro reads of the same."""

import io
import json
import time

import fastavro
import pyarrow as pa
from measure import row

from isotherm_ingest.decode.avro import Avro
from isotherm_ingest.decode.debezium_json import DebeziumJson
from isotherm_ingest.decode.debezium_messages import decoder
from isotherm_ingest.decode.declared_json import DeclaredJson
from isotherm_ingest.decode.statement import Wanted
from isotherm_ingest.workers.raw_messages import RAW, Sorter
from support.avro import ENVELOPE, KEY, change, confluent
from support.changes import Source
from support.wire import arrow

MESSAGES, BATCH, LAPS = 30_000, 10_000, 3
COLUMNS = {
    "id": "BIGINT", "name": "STRING", "amount": "DECIMAL(10,2)", "at": "TIMESTAMP", "tags": "ARRAY<STRING>", "paid": "BOOLEAN",
}  # fmt: skip


def benchmarks(say):
    """The same changes of one table in each format, decoded for a mirror of it."""
    formats = made()
    best = {}
    for lap in range(LAPS):
        say(f"lap {lap + 1} of {LAPS}")
        for name, (form, messages) in formats.items():
            best[name] = max(best.get(name, 0), rate(form, messages))
        best["fastavro"] = max(best.get("fastavro", 0), rate_of_fastavro(formats["avro"][1]))
    held = {name: ("debezium-json", name) for name in formats} | {
        "avro, against fastavro": ("fastavro", "avro")
    }
    return [
        row(f"decoding, {name}", best[ours], "messages/CPU-s", best[other], best[ours] / best[other])
        for name, (other, ours) in held.items()
    ]


def made():
    """By name, a format and its messages."""
    source = Source("orders")
    full = [source.insert(number, number / 1000) for number in range(MESSAGES)]
    bare = [(_json(json.loads(key)["payload"]), _bare(json.loads(value)["payload"])) for key, value in full]
    rows = [(key, _json(json.loads(value)["after"])) for key, value in bare]
    avro = [_avro(one) for one in source.rows.values()]
    cut = [
        (key, value[:-1] if number % BATCH == BATCH // 2 else value)
        for number, (key, value) in enumerate(avro)
    ]
    registered = Avro("confluent", schemas={1: json.dumps(ENVELOPE), 2: json.dumps(KEY)})
    declared = tuple(COLUMNS.items())
    return {
        "debezium-json": (DebeziumJson(), full),
        "json": (DeclaredJson(declared), bare),
        "json without envelope": (DeclaredJson(declared, has_envelope=False), rows),
        "avro": (registered, avro),
        "avro, of which one in 10,000 is cut off": (registered, cut),
    }


def rate(form, messages):
    """Messages a CPU second, from bytes to rows."""
    batches = [_batch(messages[first : first + BATCH]) for first in range(0, len(messages), BATCH)]
    (group,) = Sorter({"t": form}).groups(batches[0])
    schema = form.schema(*group.sample())
    columns = pa.schema([(one.name, arrow(one.kind.type)) for one in schema.columns])
    found = decoder(schema, columns, Wanted(tuple(columns.names), ("id",), keeps=True))
    found.decode(group.to_decode())  # it is planned once
    started_s, sorter = time.process_time(), Sorter({"t": form})
    for batch in batches:
        for one in sorter.groups(batch):
            found.decode(one.to_decode())
    return len(messages) / (time.process_time() - started_s)


def rate_of_fastavro(messages):
    """What it reads in a loop, without making anything of it."""
    schema = fastavro.parse_schema(ENVELOPE)
    started_s = time.process_time()
    for _, value in messages:
        fastavro.schemaless_reader(io.BytesIO(value[5:]), schema)
    return len(messages) / (time.process_time() - started_s)


def _batch(messages):
    size = len(messages)
    columns = [
        [key for key, _ in messages], [value for _, value in messages], [None] * size, [0] * size, ["t"] * size, [0] * size, range(size),
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(
        [pa.array(values, one.type) for values, one in zip(columns, RAW, strict=True)], schema=RAW
    )


def _json(value):
    return json.dumps(value, separators=(",", ":")).encode()


def _bare(payload):
    payload["after"]["amount"] = str(payload["after"]["id"] / 4)
    return _json(payload)


def _avro(one):
    whole = int(one["amount"].scaleb(2))
    wire = {
        **one,
        "amount": whole.to_bytes((whole.bit_length() + 8) // 8, signed=True),
        "at": one["at"].isoformat(),
    }
    return confluent(2, _written(KEY, {"id": one["id"]})), confluent(
        1, _written(ENVELOPE, change("c", None, wire))
    )


def _written(schema, value):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()
