"""Values with good defaults; a test says only what matters to it."""

from isotherm.contract.identity import PartitionKey, TableId, partition_key
from isotherm.contract.summary import Origin
from isotherm.core.model.changes import Change, PartitionDelta
from isotherm.core.model.files import NO_FILES, FileKind, FileStats, size_bucket
from isotherm.core.model.tables import PartitionField, Snapshot, TableFacts
from isotherm.core.partition_state import PartitionState
from isotherm.core.planner.view import Surroundings, View
from isotherm.core.state import TableState

TABLE = TableId("uuid-1", "shop.orders")
HOURLY = (PartitionField(1000, "order_time_hour", "hour", "timestamptz"),)
BUCKETS = (PartitionField(1000, "id_bucket", "bucket[4]", "long"),)
KIB, MIB, GIB = 1024, 1024**2, 1024**3
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
NOW = 1_700_000_000_000


def key(value: int = 1) -> PartitionKey:
    return partition_key({1000: value})


def files(count: int, size: int = MIB, rows: int = 100) -> dict[int, FileStats]:
    """`count` data files of a size, with so many rows each, as a histogram."""
    return {size_bucket(size): FileStats(count, count * rows, count * size)} if count else {}


def partition(
    count: int = 1, size: int = MIB, *, deletes: int = 0, last_write_at_ms: int | None = 0, number: int = 0
):
    return PartitionState(
        data=files(count, size),
        deletes={FileKind.POSITION_DELETES: FileStats(1, deletes, 10 * deletes)} if deletes else {},
        first_write_at_ms=last_write_at_ms,
        last_write_at_ms=last_write_at_ms,
        last_write_number=number,
    )


def table_state(**fields) -> TableState:
    return TableState(**{"table": TABLE, "head": 1, "foreign_commits": 100, **fields})


def facts(**fields) -> TableFacts:
    return TableFacts(**{"location": "file:///w/orders", "format_version": 2, "fields": HOURLY, **fields})


def view(partitions=None, *, state: TableState | None = None, intents=(), words=(), **fields) -> View:
    known = fields.pop("facts", None) or facts()
    fields.setdefault("snapshots", ())
    around = Surroundings(
        state or table_state(boundary_ms=1000 * HOUR), known.fields, tuple(intents), tuple(words)
    )
    return View(around=around, facts=known, partitions=partitions or {}, **fields)


def change(snapshot_id: int, parent_id: int | None, partitions=None, **fields) -> Change:
    return Change(
        **{
            "snapshot_id": snapshot_id,
            "parent_id": parent_id,
            "sequence_number": snapshot_id,
            "committed_at_ms": NOW,
            "operation": "append",
            "origin": Origin.INGEST,
            "partitions": partitions or {},
            **fields,
        }
    )


def added(count: int = 1, size: int = MIB, rows: int = 100) -> PartitionDelta:
    stats = FileStats(count, count * rows, count * size)
    return PartitionDelta(data=files(count, size, rows), added=stats)


def removed(count: int = 1, size: int = MIB, rows: int = 100) -> PartitionDelta:
    stats = FileStats(count, count * rows, count * size)
    return PartitionDelta(data={size_bucket(size): FileStats() - stats}, removed=stats)


def snapshots(count: int, *, newest_at_ms: int = NOW, apart_ms: int = MINUTE, token: str = ""):
    """The ancestors of a head, oldest first; ids and sequence numbers count from 1."""
    return tuple(
        Snapshot(number, number, newest_at_ms - (count - number) * apart_ms, token=token)
        for number in range(1, count + 1)
    )


TARGET = 128 * MIB
"""How large a job makes files, where no policy says it."""


def of_sizes(sizes):
    """A partition of files of these sizes, a row for each KiB."""
    data = {}
    for size in sizes:
        bucket = size_bucket(size)
        data[bucket] = data.get(bucket, NO_FILES) + FileStats(1, 1 + size // KIB, size)
    return PartitionState(data=data)
