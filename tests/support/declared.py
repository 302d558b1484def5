"""Messages of JSON without a schema, and what is made of them."""

import json

import pyarrow as pa

from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.decode.debezium_messages import decoder
from isotherm_ingest.decode.declared_json import DeclaredJson
from isotherm_ingest.decode.statement import Wanted
from isotherm_ingest.streams import StreamsConfig
from isotherm_ingest.workers.raw_messages import Sorter
from support.wire import arrow, decoded, from_kafka

TOPIC = "shop.public.orders"
CONFIG = """\
pipeline: shop
catalog: {name: lake}
kafka: {properties: {bootstrap.servers: unused}}
streams:
  - topics: 'events\\.sensors'
    table: lake.sensors
    mode: changelog
    format: json
    envelope: none
    columns:
      sensor: STRING NOT NULL
      at: TIMESTAMP(ms)
"""
"""One stream of plain events."""


def stream_of(text=CONFIG):
    """The first stream of streams.yaml."""
    return parse_yaml(text, "streams.yaml", StreamsConfig).streams[0]


def text_of(value):
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def rows_of(columns, *messages, envelope=False, others="ignore", key=(), keeps=False, keys=None, **wanted):
    """What each message becomes: its row, and what is known of the change; `columns` are types by name.

    Messages are bytes, or what JSON is made of; `keys` are those of the messages.
    """
    form = DeclaredJson(tuple(columns.items()), envelope, others)
    batch = from_kafka(*map(text_of, messages))
    if keys is not None:
        batch = batch.set_column(0, "key", pa.array(keys, pa.binary()))
    (group,) = Sorter({TOPIC: form}).groups(batch)
    sample = group.sample() or (json.dumps(event(after={})), None)
    schema = form.schema(*sample)
    table = {one.name: one.kind.type for one in schema.columns}
    found = decoder(
        schema,
        pa.schema([(name, arrow(kind)) for name, kind in table.items()]),
        Wanted(tuple(table), tuple(key), keeps, **wanted),
    )
    return decoded(found, group.to_decode())


def event(*, op="c", before=None, after=None, **more):
    """A change of shop's table orders, without its schema."""
    source = {"schema": "public", "db": "shop", "table": "orders", "ts_ms": 5, "lsn": 9}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 6, **more}
