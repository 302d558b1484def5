"""What the driver tells the workers, and what they report: plain data, that travels."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from isotherm_ingest.decode.debezium_messages import Decoder
from isotherm_ingest.decode.formats import Format
from isotherm_ingest.plan.topic_partition import Position
from isotherm_ingest.plan.truncates import Emptied
from isotherm_ingest.workers.late import Late, Letters

Route = tuple[str, int]
"""A topic, and the number of a schema."""


@dataclass(frozen=True)
class TableTask:
    """What is to be written to one table."""

    name: str
    description: str
    """The table's schemas, specs and properties, as JSON of its metadata."""
    io: Mapping[str, str]
    """Properties of its FileIO."""
    columns: tuple[str, ...]
    """All of the table's columns, in order."""
    decoders: Mapping[Route, Decoder]
    """Of the schemas for which the table need not be altered. Of others a sample is reported."""
    refused: Mapping[Route, str] = field(default_factory=dict)
    """Schemas that do not fit, and why: their messages are dead letters."""
    from_offsets: Mapping[Position, int] = field(default_factory=dict)
    """What stands below is in the table already."""
    key: tuple[str, ...] = ()
    """Of a mirror; of a changelog none."""
    is_empty: bool = False
    """No row that stays in the table can have a key."""
    has_ids: bool = False
    """Rows have ids, which stay with them (format 3)."""
    event_time: str | None = None
    buckets: int = 1
    """By so many tasks it is written at most."""
    emptied: Emptied = field(default_factory=Emptied)
    """What the truncates that are known by now come to, of a mirror."""
    late: Late | None = None
    """Of a replay: only what these dead letters make is written."""


@dataclass(frozen=True)
class BatchTask:
    """What is to be made of the messages of some ranges."""

    tables: Mapping[str, TableTask]
    routes: Mapping[Route, tuple[str, ...]]
    """The tables of messages, as far as they are wanted now. Of others, a sample is reported."""
    problems: Mapping[Route, str]
    """Why messages belong to no table, or not to all that they could have."""
    formats: Mapping[str, Format] = field(default_factory=dict)
    """By topic, how messages are written; of others it is Debezium's JSON."""
    letters: Letters | None = None
    """Of a replay: of all messages that are read, these alone are looked at."""


REPORT = pa.schema(
    [("table", pa.string()), ("bucket", pa.int32()), ("kind", pa.string()), ("body", pa.binary())]
)
REPORT_DDL = "table STRING, bucket INT, kind STRING, body BINARY"

# What a line of a report is.
CHANGES = "changes"
"""Decoded rows, on their way to the task that writes them."""
SURVEY, SAMPLE, FILE, ERROR = "survey", "sample", "file", "error"
TRUNCATED = "truncated"
"""The topic, the partition and the offset of a truncate that the task does not know."""
LATE = "late"
"""What came of dead letters that are replayed."""
KEYS = "keys"
"""Of all changes of a mirror."""
LETTERS, COUNT = "letters", "count of letters"
"""Messages that cannot be written, and how many."""
WAITING, WAITS = "waiting", "waits"
"""Rows that cannot be written before those are found in whose place they come, and that there are some."""
KEPT = (LETTERS, WAITING)
"""What is not brought to the driver with the rest, since it may be large."""
NO_TABLE = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a report."""

    table: str
    kind: str
    body: bytes
    bucket: int = 0

    def data(self) -> Any:
        """What a JSON body says."""
        return json.loads(self.body)


def as_json(value: Any) -> bytes:
    """A body of JSON."""
    return json.dumps(value).encode()


def as_arrow(rows: pa.RecordBatch | pa.Table) -> bytes:
    """A body of rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def rows_of(body: bytes) -> pa.Table:
    """The rows of a body."""
    return pa.ipc.open_stream(pa.py_buffer(body)).read_all()


def report(lines: Iterable[Line]) -> Iterator[pa.RecordBatch]:
    """Lines as Spark takes them, one batch each: bodies may be large."""
    for one in lines:
        columns = ([one.table], [one.bucket], [one.kind], [one.body])
        yield pa.RecordBatch.from_arrays(
            [pa.array(values, kind.type) for values, kind in zip(columns, REPORT, strict=True)], schema=REPORT
        )


def lines_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Line]:
    """The lines that came in batches."""
    for batch in batches:
        for table, bucket, kind, body in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield Line(table, kind, body, bucket)
