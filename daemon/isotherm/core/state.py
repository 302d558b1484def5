"""What is known of a table: a fold over the ancestry of `main`, one change after another.

`apply(state, change)` holds only where the change's parent is the state's head; the caller finds the path from head
to head. A state is never changed, it is replaced, and what was there before is given back, so that a change can be
undone (a rollback, a catalog that dropped our snapshot for a writer). File names are not in it: a job is bound to
its files by reading its partition's manifests.

Time: a partition's last write is the later of the snapshot's own time and the time when we heard of it. Our own
commits, and rewrites by others, count for nothing there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from isotherm.contract.boundary import MAX_AHEAD_MS
from isotherm.contract.identity import PartitionKey, TableId
from isotherm.contract.summary import DUPLICATE_DELETES, Origin
from isotherm.core.appends import NO_APPENDS, Appends, Arrival, arrivals_after, is_append, without
from isotherm.core.lateness import RETURN_MS, UNTAUGHT, Lateness, Written
from isotherm.core.model.changes import Change, PartitionDelta
from isotherm.core.model.files import NO_FILES, FileKind, FileStats, bucket_bounds, size_bucket, summed, total
from isotherm.core.model.tables import PartitionField
from isotherm.core.partitions import TimeSpan, time_span
from isotherm.core.reached import boundary_after
from isotherm.core.summary_totals import gap_to, moved_counters, totals_after


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

PAUSE_FROM_MS = 5 * 60_000
"""A shorter pause is no pause: a stream commits every minute or so."""


@dataclass(frozen=True, slots=True)
class TableState:
    """The fold of one table, without its partitions (those stand beside it, by key)."""

    table: TableId
    head: int | None
    """Snapshot id, or None where the table has no snapshot yet."""
    sequence_number: int = 0
    boundary_ms: int | None = None
    """Event time that the stream has reached, or None where nothing says so."""
    foreign_commits: int = 0
    """Writes by others than us since the state was built; only differences mean something."""
    partitions: int = 0
    """Partitions that hold a live file."""
    lateness: Lateness = UNTAUGHT
    """How often the stream comes back to partitions, by their age."""
    appends: Appends = NO_APPENDS
    """What others appended since they last did something else."""
    totals: Mapping[FileKind, FileStats] = field(default_factory=dict)
    summary_gap: Mapping[str, int] = field(default_factory=dict)
    """The summary's `total-*` counters less our own totals. Writers may count wrongly; a *change* is the alarm."""
    on_faith: int = 0
    """Changes that were applied since the catalog confirmed the head the last time."""
    moved: frozenset[str] = frozenset()
    """Counters of the summary whose difference to ours changed since the state was built."""
    miscounted: frozenset[str] = frozenset()
    """Counters that moved though a full scan said that ours were right: the writers' fault, no alarm any more."""
    rewritten_in: int | None = None
    """The newest change by which somebody else rewrote data files, since the table was scanned."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of `apply`."""

    state: TableState
    partitions: Mapping[PartitionKey, PartitionState | None]
    """New states of the touched partitions. None for one that holds no live file any more."""
    prior: "Prior"
    drifted: bool
    """Whether the difference to the summary's counters changed: the state may be wrong from here on."""


@dataclass(frozen=True, slots=True)
class Prior:
    """What stood before a change, enough to undo it."""

    state: TableState
    partitions: Mapping[PartitionKey, PartitionState | None]


def apply(
    state: TableState,
    partitions: Mapping[PartitionKey, PartitionState],
    change: Change,
    fields: Iterable[PartitionField],
    received_at_ms: int,
) -> Applied:
    """The state after a change; `partitions` holds (at least) the states of those that the change touches.

    Raises:
        StateError: the change does not follow the state's head, or a count would fall below zero.
    """
    if change.parent_id != state.head:
        raise StateError(
            f"snapshot {change.snapshot_id} follows {change.parent_id}, the state stands at {state.head}"
        )
    # A commit from the far future would hold its partitions back, and move the boundary, for as long.
    stamped_at_ms = change.committed_at_ms if change.committed_at_ms > received_at_ms + MAX_AHEAD_MS else None
    change = replace(change, committed_at_ms=min(change.committed_at_ms, received_at_ms + MAX_AHEAD_MS))
    at_ms, fields = max(change.committed_at_ms, received_at_ms), tuple(fields)
    number = state.foreign_commits + change.is_foreign_write
    commit = _Commit(change, fields, state, at_ms, stamped_at_ms, number, is_append(change))
    after = {
        key: _partition_after(key, partitions.get(key, NO_PARTITION), delta, commit)
        for key, delta in change.partitions.items()
    }
    born = sum(left is not None and key not in partitions for key, left in after.items())
    gone = sum(left is None and key in partitions for key, left in after.items())
    totals = totals_after(state.totals, change.partitions.values())
    gap = gap_to(change.totals, totals)
    moved = moved_counters(state.summary_gap, gap, change.totals.get(DUPLICATE_DELETES, 0))
    new_state = replace(
        state,
        head=change.snapshot_id,
        sequence_number=change.sequence_number,
        boundary_ms=boundary_after(state.boundary_ms, change, fields),
        foreign_commits=number,
        partitions=state.partitions + born - gone,
        lateness=_lateness_after(commit, partitions, after),
        appends=state.appends.after(change, at_ms, is_believed=stamped_at_ms is None),
        totals=totals,
        summary_gap={**state.summary_gap, **gap},
        on_faith=state.on_faith + 1,
        moved=state.moved | moved,
        rewritten_in=change.snapshot_id if change.is_foreign_rewrite else state.rewritten_in,
    )
    prior = Prior(state, {key: partitions.get(key) for key in after})
    return Applied(new_state, after, prior, drifted=bool(moved - state.miscounted))


def built(
    table: TableId,
    partitions: Mapping[PartitionKey, PartitionState],
    head: Change | None,
    *,
    boundary_ms: int | None,
    foreign_commits: int,
    lateness: Lateness = UNTAUGHT,
    appends: Appends = NO_APPENDS,
    before: TableState | None = None,
) -> TableState:
    """The state of a table after a full scan at `head` (its `partitions` are not used).

    A scan does not tell how often the stream came back; `lateness` is what was known of it before. Nor does it tell
    who is wrong where the summary's counters moved away from ours: `before` is what was believed until now, and
    where it had the same totals at the same head, the writers count wrongly. That is no reason to scan the table
    after each of their commits.
    """
    totals = dict.fromkeys(FileKind, NO_FILES)
    for partition in partitions.values():
        totals[FileKind.DATA] += partition.data_total
        for kind, stats in partition.deletes.items():
            totals[kind] += stats
    if head is None:
        return TableState(table, None, totals=totals, lateness=lateness)
    return TableState(
        table=table,
        head=head.snapshot_id,
        sequence_number=head.sequence_number,
        boundary_ms=boundary_ms,
        foreign_commits=foreign_commits,
        partitions=len(partitions),
        lateness=lateness,
        appends=appends,
        totals=totals,
        summary_gap=gap_to(head.totals, totals),
        miscounted=_miscounted(before, head.snapshot_id, totals),
    )


def _miscounted(before: TableState | None, head: int, totals: Mapping[FileKind, FileStats]) -> frozenset[str]:
    if before is None:
        return frozenset()
    was_right = before.head == head and all(
        before.totals.get(kind, NO_FILES) == totals[kind] for kind in FileKind
    )
    return before.miscounted | before.moved if was_right else before.miscounted


@dataclass(frozen=True, slots=True)
class _Commit:
    """What all partitions of a change have in common."""

    change: Change
    fields: tuple[PartitionField, ...]
    before: TableState
    at_ms: int
    """When it was written, or heard of."""
    stamped_at_ms: int | None
    """Its own time, if that is not believed."""
    number: int
    """The table's count of foreign commits after it."""
    is_append: bool


def _partition_after(
    key: PartitionKey, before: PartitionState, delta: PartitionDelta, commit: _Commit
) -> PartitionState | None:
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
        span, boundary_ms = time_span(key, commit.fields), commit.before.boundary_ms
        # Which files are young matters where a partition is written on and on, and costs as much as all else of it.
        if span is not None and boundary_ms is not None and span.end_ms <= boundary_ms:
            new["arrivals"] = ()
    else:
        new["arrivals"] = arrivals_after(
            before.arrivals,
            delta,
            is_append=commit.is_append,
            number=commit.before.sequence_number,
            written_before_ms=before.stamped_at_ms or before.last_write_at_ms,
            at_ms=commit.at_ms,
        )
    if commit.change.is_foreign_write:
        done_ms = before.compacted_at_ms
        if done_ms is not None and before.data and delta.removed.holds(before.data_total):
            # Loaded anew, it rests from its last load on: from the end of the job it would be a job later each time.
            new["compacted_at_ms"] = min(done_ms, before.last_write_at_ms or done_ms)
        new["pauses_ms"] = _pauses_after(before, commit.at_ms)
        if before.first_write_at_ms is None:
            new["first_write_at_ms"] = commit.at_ms
        new["last_write_at_ms"] = _last_write_ms(before, commit.at_ms)
        new["last_write_number"] = commit.number
        new["stamped_at_ms"] = commit.stamped_at_ms
    return replace(before, **new)


def _compacted_ms(partition: PartitionState, change: Change, delta: PartitionDelta) -> int | None:
    """A job that only merged position deletes is none from which data rests: it read no data.

    One that made position deletes of equality deletes has read all of it.
    """
    has_read = any(delta.data.values()) or delta.deletes.get(FileKind.EQUALITY_DELETES, NO_FILES).files < 0
    return change.committed_at_ms if has_read else partition.compacted_at_ms


def _last_write_ms(before: PartitionState, written_at_ms: int) -> int:
    """The later of two writes. One that lies far ahead of the next was stamped by a clock that ran ahead."""
    last_ms = before.last_write_at_ms or 0
    return written_at_ms if last_ms > written_at_ms + MAX_AHEAD_MS else max(written_at_ms, last_ms)


def _pauses_after(before: PartitionState, written_at_ms: int) -> tuple[int, ...]:
    pause_ms = 0 if before.last_write_at_ms is None else written_at_ms - before.last_write_at_ms
    return (*before.pauses_ms, pause_ms)[-PAUSES:] if pause_ms >= PAUSE_FROM_MS else before.pauses_ms


def with_pauses(
    partitions: Mapping[PartitionKey, PartitionState], recorded: Iterable[tuple[Change, int]]
) -> dict[PartitionKey, PartitionState]:
    """The partitions of a full scan with the pauses of their writers, which a table does not tell.

    Args:
        partitions: what the scan found.
        recorded: changes of before the scan and when each was heard of, oldest first.
    """
    paused: dict[PartitionKey, PartitionState] = {}
    for change, received_at_ms in recorded:
        if not change.is_foreign_write:
            continue
        written_at_ms = max(min(change.committed_at_ms, received_at_ms + MAX_AHEAD_MS), received_at_ms)
        for key in partitions.keys() & change.partitions.keys():
            before = paused.get(key, NO_PARTITION)
            paused[key] = PartitionState(
                last_write_at_ms=_last_write_ms(before, written_at_ms),
                pauses_ms=_pauses_after(before, written_at_ms),
            )
    return {
        key: replace(partition, pauses_ms=paused[key].pauses_ms) if key in paused else partition
        for key, partition in partitions.items()
    }


def _lateness_after(
    commit: _Commit,
    partitions: Mapping[PartitionKey, PartitionState],
    after: Mapping[PartitionKey, PartitionState | None],
) -> Lateness:
    """What the change says of late writes. Ages are told from the boundary before it.

    Who writes on and on is not back: a return is a write to a partition that nobody had written to for a while.
    """
    change, before = commit.change, commit.before
    if not change.is_foreign_write or before.boundary_ms is None:
        return before.lateness
    written: dict[TimeSpan, Written] = {}
    for key, delta in change.partitions.items():
        if (delta.added or delta.removed) and (span := time_span(key, commit.fields)) is not None:
            quiet_ms = change.committed_at_ms - (partitions.get(key, NO_PARTITION).last_write_at_ms or 0)
            born = (after[key] is not None) - (key in partitions)
            one = Written(delta.added.files, int(quiet_ms >= RETURN_MS), born)
            written[span] = written[span] + one if span in written else one
    return before.lateness.after(written, before.boundary_ms, before.partitions, change.committed_at_ms)
