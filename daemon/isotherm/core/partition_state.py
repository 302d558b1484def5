"""What is known of one partition: its live files by size and kind, who wrote to it and when, and how a change changes that.

Time: a partition's last write is the later of the snapshot's own time and the time when we heard of it. Our own
commits, and rewrites by others, count for nothing there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from isotherm.contract.boundary import MAX_AHEAD_MS
from isotherm.contract.identity import PartitionKey
from isotherm.contract.summary import Origin
from isotherm.core.appends import Arrival, arrivals_after, without
from isotherm.core.emptied import Emptied
from isotherm.core.model.changes import Change, PartitionDelta
from isotherm.core.model.files import NO_FILES, FileKind, FileStats, bucket_bounds, size_bucket, summed, total
from isotherm.core.model.tables import PartitionField
from isotherm.core.partitions import time_span
from isotherm.core.visits import NO_VISITS, PAUSE_FROM_MS, Visits


class StateError(Exception):
    """The fold does not fit the table; it must be rebuilt."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition's live files, and when the stream last wrote to it."""

    data: Mapping[int, FileStats] = field(default_factory=dict)
    """Data files by size bucket (`size_bucket`)."""
    deletes: Mapping[FileKind, FileStats] = field(default_factory=dict)
    """Delete files by kind; their rows are an upper bound of the delete rows that still apply."""
    first_write_at_ms: int | None = None
    last_write_at_ms: int | None = None
    last_write_number: int = 0
    """The table's count of foreign commits when this partition was last written."""
    compacted_at_ms: int | None = None
    """When we last rewrote data files of it, or read all for its equality deletes. None: that is not on record.
    Where others have replaced all of it since, when that was written which the job rewrote: it rests from then."""
    pauses_ms: tuple[int, ...] = ()
    """How long its writers stayed away, the last `PAUSES` times that they did so for `PAUSE_FROM_MS` and more."""
    visits: Visits = NO_VISITS
    """Whether they come in visits, which no few pauses tell: there may be any number of them within a visit."""
    arrivals: tuple[Arrival, ...] = ()
    """The latest appends, oldest first, none where the last write was another: they tell which files are old."""
    stamped_at_ms: int | None = None
    """The last write's own time, if that lay too far ahead of this machine's clock to be believed."""
    delete_sizes: Mapping[int, FileStats] = field(default_factory=dict)
    """The position-delete files among `deletes` by size bucket, as far as that is known: ask `position_deletes`."""

    def as_of(self, now_ms: int) -> "PartitionState":
        """The same by a clock that shows this time: if it has reached the last write's own time, it was behind."""
        stamped_ms = self.stamped_at_ms
        return (
            self if stamped_ms is None or stamped_ms > now_ms else replace(self, last_write_at_ms=stamped_ms)
        )

    @property
    def data_total(self) -> FileStats:
        """All data files."""
        return total(self.data.values())

    @property
    def deletes_total(self) -> FileStats:
        """All delete files, of every kind."""
        return total(self.deletes.values())

    @property
    def has_deletes(self) -> bool:
        """Whether there are data files, and delete files that may apply to them."""
        return bool(self.data) and bool(self.deletes)

    @property
    def position_deletes(self) -> Mapping[int, FileStats]:
        """Position-delete files by size bucket. Where their sizes do not add up, all count as of their mean size.

        So does what a version has stored that did not keep sizes. A merge of all of them, or a scan, mends it.
        """
        return _adding_up(self.delete_sizes, self.deletes)

    def came_by(self, number: int) -> Mapping[int, FileStats]:
        """The data files that came up to a sequence number, as far as arrivals are kept apart; by size bucket."""
        return without(self.data, (one for one in self.arrivals if one.before_number >= number))

    def smaller_than(self, size_bytes: float) -> FileStats:
        """Data files that are surely smaller than a size: whole buckets, so a lower bound."""
        return total(stats for bucket, stats in self.data.items() if bucket_bounds(bucket)[1] <= size_bytes)


NO_PARTITION = PartitionState()


def _adding_up(
    sizes: Mapping[int, FileStats], deletes: Mapping[FileKind, FileStats]
) -> Mapping[int, FileStats]:
    """The position deletes by size bucket, where these add up to all that there are."""
    here = deletes.get(FileKind.POSITION_DELETES, NO_FILES)
    if total(sizes.values()) == here and all(
        min(one.files, one.rows, one.bytes) >= 0 for one in sizes.values()
    ):
        return sizes
    return {size_bucket(here.bytes // max(here.files, 1)): here} if here else {}


PAUSES = 8


@dataclass(frozen=True, slots=True)
class Commit:
    """What all partitions of a change have in common."""

    change: Change
    fields: tuple[PartitionField, ...]
    boundary_ms: int | None
    """Event time that the stream had reached before it."""
    sequence_number: int
    """The table's before it."""
    at_ms: int
    """When it was written, or heard of."""
    stamped_at_ms: int | None
    """Its own time, if that is not believed."""
    number: int
    """The table's count of foreign commits after it."""
    is_append: bool


def partition_after(
    key: PartitionKey, before: PartitionState, delta: PartitionDelta, commit: Commit
) -> PartitionState | None:
    """A partition after a change, or None where it holds no live file any more.

    Raises:
        StateError: a count would fall below zero.
    """
    data = summed(before.data, delta.data)
    deletes = summed(before.deletes, delta.deletes)
    for stats in (*data.values(), *deletes.values()):
        if min(stats.files, stats.rows, stats.bytes) < 0:
            raise StateError(f"partition {key} would hold {stats}")
    if not data and not deletes:
        return None
    new: dict[str, Any] = {"data": data, "deletes": deletes}
    if deletes or before.deletes or before.delete_sizes:
        sizes = summed(before.position_deletes, delta.delete_sizes)
        new["delete_sizes"] = _adding_up(sizes, deletes) if sizes else sizes
    if commit.change.origin is Origin.MAINTENANCE:
        new["compacted_at_ms"] = _compacted_ms(before, commit.change, delta)
        span, boundary_ms = time_span(key, commit.fields), commit.boundary_ms
        # Which files are young matters where a partition is written on and on, and costs as much as all else of it.
        if span is not None and boundary_ms is not None and span.end_ms <= boundary_ms:
            new["arrivals"] = ()
    else:
        new["arrivals"] = arrivals_after(
            before.arrivals,
            delta,
            is_append=commit.is_append,
            number=commit.sequence_number,
            written_before_ms=before.stamped_at_ms or before.last_write_at_ms,
            at_ms=commit.at_ms,
        )
    if commit.change.is_foreign_write:
        if before.data and delta.removed.holds(before.data_total):
            new["compacted_at_ms"] = _replaced_rest_ms(before)
        new["pauses_ms"], new["visits"] = pauses_after(before, commit.change.committed_at_ms)
        if before.first_write_at_ms is None:
            new["first_write_at_ms"] = commit.at_ms
        new["last_write_at_ms"] = last_write_ms(before, commit.at_ms)
        new["last_write_number"] = commit.number
        new["stamped_at_ms"] = commit.stamped_at_ms
    return replace(before, **new)


def emptied_of(partition: PartitionState, commit: Commit) -> Emptied | None:
    """What is remembered of a partition that a change has emptied; None where it has no rest to keep."""
    rest_ms = _replaced_rest_ms(partition)
    if rest_ms is None or not commit.change.is_foreign_write:
        return None
    return Emptied(commit.at_ms, rest_ms, partition.last_write_at_ms, partition.pauses_ms, partition.visits)


def _replaced_rest_ms(partition: PartitionState) -> int | None:
    """From when on a partition rests of which all files are replaced: from the write that the last job followed.

    Counted from the end of a job, each rest would end a job later than the one before.
    """
    done_ms = partition.compacted_at_ms
    return None if done_ms is None else min(done_ms, partition.last_write_at_ms or done_ms)


def refilled(emptied: Emptied | None) -> PartitionState:
    """A partition without files, as the first that come find it."""
    if emptied is None:
        return NO_PARTITION
    return PartitionState(
        compacted_at_ms=emptied.compacted_at_ms,
        last_write_at_ms=emptied.last_write_at_ms,
        pauses_ms=emptied.pauses_ms,
        visits=emptied.visits,
    )


def _compacted_ms(partition: PartitionState, change: Change, delta: PartitionDelta) -> int | None:
    """A job that only merged position deletes is none from which data rests: it read no data.

    One that made position deletes of equality deletes has read all of it.
    """
    has_read = any(delta.data.values()) or delta.deletes.get(FileKind.EQUALITY_DELETES, NO_FILES).files < 0
    return change.committed_at_ms if has_read else partition.compacted_at_ms


def last_write_ms(before: PartitionState, written_at_ms: int) -> int:
    """The later of two writes. One that lies far ahead of the next was stamped by a clock that ran ahead."""
    last_ms = before.last_write_at_ms or 0
    return written_at_ms if last_ms > written_at_ms + MAX_AHEAD_MS else max(written_at_ms, last_ms)


def pauses_after(before: PartitionState, committed_at_ms: int) -> tuple[tuple[int, ...], Visits]:
    """How long its writers stayed away, and whether in visits, once they have written again; by their own times."""
    last_ms = before.visits.last_ms if before.visits.last_ms is not None else before.last_write_at_ms
    pause_ms = 0 if last_ms is None else committed_at_ms - last_ms
    pauses_ms = (*before.pauses_ms, pause_ms)[-PAUSES:] if pause_ms >= PAUSE_FROM_MS else before.pauses_ms
    return pauses_ms, before.visits.after(committed_at_ms, last_ms)
