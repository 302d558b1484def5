"""Messages of Debezium's connectors for several databases, made after their documentation: of each the source that it tells
and the types that it has. No server has sent them.
"""

import json
from dataclasses import dataclass

import pyarrow as pa

from isotherm_ingest.decode.debezium_messages import decoder
from isotherm_ingest.decode.statement import Wanted
from isotherm_ingest.workers.raw_messages import Sorter
from support.wire import arrow, decoded, from_kafka

CONNECT = {bool: "boolean", int: "int64", str: "string", type(None): "string"}


def text(data):
    """As Connect's converter writes it: the schema first, and no spaces."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()


def with_schema(name, fields, payload):
    """A message beside its schema, as bookkeeping has one too."""
    return text({"schema": {"type": "struct", "name": name, "fields": fields}, "payload": payload})


@dataclass(frozen=True)
class Table:
    """A table of a database, as a connector tells of it."""

    connector: str
    """In the name of its source's schema."""
    topic: str
    source: dict
    """What each change says of its source."""
    columns: dict
    """By name, its type, as Connect has it."""
    key: tuple

    def change(self, op, *, before=None, after=None, **source):
        """A key and a value. Rows say what is not null."""
        said = {**self.source, **source}
        of_source = [
            {"type": CONNECT[type(value)], "optional": True, "field": name}
            for name, value in self.source.items()
        ]
        row = {
            "type": "struct",
            "fields": [{"optional": True, **kind, "field": name} for name, kind in self.columns.items()],
            "optional": True,
            "name": f"{self.topic}.Value",
        }
        fields = [
            {**row, "field": "before"},
            {**row, "field": "after"},
            {
                "type": "struct",
                "fields": of_source,
                "name": f"io.debezium.connector.{self.connector}.Source",
                "field": "source",
            },
            {"type": "string", "optional": False, "field": "op"},
            {"type": "int64", "optional": True, "field": "ts_ms"},
        ]
        payload = {
            "before": self._whole(before),
            "after": self._whole(after),
            "source": said,
            "op": op,
            "ts_ms": 1700000000500,
        }
        row = after or before
        key = {name: row[name] for name in self.key}
        of_key = [{**self.columns[name], "optional": False, "field": name} for name in self.key]
        return with_schema(f"{self.topic}.Key", of_key, key), with_schema(
            f"{self.topic}.Envelope", fields, payload
        )

    def _whole(self, row):
        return None if row is None else dict.fromkeys(self.columns) | row


def groups(*messages, topic="t"):
    """Messages by their schemas, as a worker has them."""
    keys, values = zip(*messages, strict=True)
    batch = from_kafka(*values, topic=topic)
    return list(Sorter().groups(batch.set_column(0, "key", pa.array(keys, pa.binary()))))


def told(*messages, key=None, keeps=True, **wanted):
    """The types of the one table that is made for some messages, and what each of them becomes."""
    tables, rows = [], []
    for group in groups(*messages):
        schema = group.format.schema(*group.sample())
        table = {one.name: one.kind.type for one in schema.columns}
        columns = pa.schema([(name, arrow(kind)) for name, kind in table.items()])
        asked = Wanted(tuple(table), schema.key if key is None else key, keeps, **wanted)
        rows += decoded(decoder(schema, columns, asked), group.to_decode())
        tables.append(table)
    assert tables == tables[:1] * len(tables)
    return tables[0], sorted(rows, key=lambda one: one[1]["offset"])
