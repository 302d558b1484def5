"""What the workloads have in common: a writer that commits, and what a file of so many bytes holds.

A history is values. Nothing is written, and no clock is read.
"""

from dataclasses import replace
from functools import lru_cache

from isotherm.contract.identity import partition_key
from isotherm.contract.summary import Origin
from isotherm.core.model.changes import Change, PartitionDelta
from isotherm.core.model.files import NO_FILES, FileKind, FileStats, size_bucket
from isotherm.core.model.tables import PartitionField
from isotherm.core.partition_state import PartitionState
from isotherm.core.partitions import time_span
from isotherm.core.replay.history import History, Recorded
from support.builders import DAY, KIB, SECOND, TABLE, facts

START = 1_767_225_600_000
"""2026-01-01 00:00 UTC, a Thursday."""
ROW_BYTES = 200
DELETE_ROW_BYTES = 20
HEARD_AFTER_MS = SECOND
"""From a commit to the daemon's hearing of it."""


def field(transform):
    """The one partition field of a table that is partitioned so."""
    source = "long" if transform.startswith("bucket") else "timestamptz"
    return (PartitionField(1000, "part", transform, source),)


HOURS, DAYS, MONTHS, YEARS = (field(name) for name in ("hour", "day", "month", "year"))


@lru_cache
def wrote(files, size, *, delete_files=0, delete_rows=0, kind=FileKind.POSITION_DELETES):
    """What one commit did to a partition: data files of a size, and delete files with so many rows in all."""
    data = FileStats(files, files * size // ROW_BYTES, files * size)
    deletes = FileStats(delete_files, delete_rows, max(delete_rows * DELETE_ROW_BYTES, delete_files * KIB))
    is_positions = delete_files > 0 and kind is FileKind.POSITION_DELETES
    return PartitionDelta(
        data={size_bucket(size): data} if files else {},
        deletes={kind: deletes} if delete_files else {},
        added=data + (deletes if delete_files else NO_FILES),
        delete_sizes={size_bucket(deletes.bytes // delete_files): deletes} if is_positions else {},
    )


def old(files, size, *, written_at_ms=START - 30 * DAY, delete_files=0, delete_rows=0):
    """A partition that was there before the history begins."""
    delta = wrote(files, size, delete_files=delete_files, delete_rows=delete_rows)
    sizes = delta.delete_sizes
    return PartitionState(delta.data, delta.deletes, written_at_ms, written_at_ms, 0, delete_sizes=sizes)


class Writer:
    """Commits to one table, one after another."""

    def __init__(self, fields, *, before=None, is_ingest=True):
        """`before` is what was there. What a writer that is not ingest's has reached, only the bounds of columns say."""
        self.fields = fields
        self.before = before or {}
        self.is_ingest = is_ingest
        self.recorded = []

    def commit(self, at_ms, writes, *, through_ms=None):
        """A commit of what was written, by the partition's value (None: the table has no partitions)."""
        number = len(self.recorded) + 1
        change = Change(
            snapshot_id=number,
            parent_id=number - 1 or None,
            sequence_number=number,
            committed_at_ms=at_ms,
            operation="overwrite" if any(one.deletes for one in writes.values()) else "append",
            origin=Origin.INGEST if self.is_ingest else Origin.FOREIGN,
            partitions={key(value): self._reaching(value, delta, at_ms) for value, delta in writes.items()},
            valid_through_ms=through_ms if self.is_ingest else None,
        )
        self.recorded.append(Recorded(change, at_ms + HEARD_AFTER_MS))

    def _reaching(self, value, delta, at_ms):
        """The same, and what the bounds of a time column say: its rows are as young as they can be."""
        span = time_span(key(value), self.fields)
        return delta if span is None else replace(delta, reached_ms=min(at_ms, span.end_ms - 1))

    def history(self, days):
        """All of it, from `START` to so many days later."""
        return History(
            table=TABLE,
            facts=facts(fields=self.fields),
            partitions={key(value): state for value, state in self.before.items()},
            snapshots=(),
            pinned=frozenset(),
            recorded=tuple(self.recorded),
            starts_at_ms=START,
            ends_at_ms=round(START + days * DAY),
        )


@lru_cache(maxsize=50_000)
def key(value):
    """The key of a partition by its value."""
    return partition_key({1000: value})


def every(span_ms, days, start_ms=START):
    """The times from a start on, a span apart."""
    return range(start_ms, round(start_ms + days * DAY), span_ms)
