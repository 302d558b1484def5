"""What is known of a table: a fold over the ancestry of `main`, one change after another.

`apply(state, change)` holds only where the change's parent is the state's head; the caller finds the path from head
to head. A state is never changed, it is replaced, and what was there before is given back, so that a change can be
undone (a rollback, a catalog that dropped our snapshot for a writer). File names are not in it: a job is bound to
its files by reading its partition's manifests.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from isotherm.contract.boundary import MAX_AHEAD_MS
from isotherm.contract.identity import PartitionKey, TableId
from isotherm.contract.summary import DUPLICATE_DELETES, Origin
from isotherm.core.appends import NO_APPENDS, Appends, is_append
from isotherm.core.emptied import Emptied, emptied_after
from isotherm.core.lateness import RETURN_MS, UNTAUGHT, Lateness, Written
from isotherm.core.model.changes import Change
from isotherm.core.model.files import NO_FILES, FileKind, FileStats
from isotherm.core.model.tables import PartitionField
from isotherm.core.partition_state import (
    NO_PARTITION,
    Commit,
    PartitionState,
    StateError,
    emptied_of,
    partition_after,
    pauses_after,
    refilled,
)
from isotherm.core.partitions import TimeSpan, time_span
from isotherm.core.stream_boundary import boundary_after
from isotherm.core.summary_totals import gap_to, moved_counters, totals_after


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
    emptied: Mapping[PartitionKey, Emptied] = field(default_factory=dict)
    """Partitions that others have emptied, since the table was scanned, and that we had compacted before."""


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
    commit = Commit(
        change,
        fields,
        state.boundary_ms,
        state.sequence_number,
        at_ms,
        stamped_at_ms,
        number,
        is_append(change),
    )
    after = {
        key: partition_after(key, partitions.get(key) or refilled(state.emptied.get(key)), delta, commit)
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
        lateness=_lateness_after(state, commit, partitions, after),
        appends=state.appends.after(change, at_ms, is_believed=stamped_at_ms is None),
        totals=totals,
        summary_gap={**state.summary_gap, **gap},
        on_faith=state.on_faith + 1,
        moved=state.moved | moved,
        rewritten_in=change.snapshot_id if change.is_foreign_rewrite else state.rewritten_in,
        emptied=_emptied_after(state, commit, partitions, after),
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


def with_pauses(
    partitions: Mapping[PartitionKey, PartitionState],
    recorded: Iterable[tuple[Change, int]],
    head: Change | None,
) -> dict[PartitionKey, PartitionState]:
    """The partitions of a full scan with the pauses of their writers, which a table does not tell.

    Where a change is missing, nobody knows who wrote meanwhile: what was known before it is no pause.

    Args:
        partitions: what the scan found.
        recorded: changes of before the scan and when each was heard of, oldest first.
        head: what the snapshot did that was scanned.
    """
    paused: dict[PartitionKey, PartitionState] = {}
    last = None
    for change, received_at_ms in recorded:
        if change.parent_id != last:
            paused.clear()
        last = change.snapshot_id
        if not change.is_foreign_write:
            continue
        committed_at_ms = min(change.committed_at_ms, received_at_ms + MAX_AHEAD_MS)
        for key in partitions.keys() & change.partitions.keys():
            pauses_ms, visits = pauses_after(paused.get(key, NO_PARTITION), committed_at_ms)
            paused[key] = PartitionState(pauses_ms=pauses_ms, visits=visits)
    if head is not None and head.origin is Origin.MAINTENANCE and head.parent_id == last:
        last = head.snapshot_id  # what we did ourselves is no write
    if head is None or last != head.snapshot_id:
        paused.clear()
    return {
        key: replace(partition, pauses_ms=paused[key].pauses_ms, visits=paused[key].visits)
        if key in paused
        else partition
        for key, partition in partitions.items()
    }


def _emptied_after(
    before: TableState,
    commit: Commit,
    partitions: Mapping[PartitionKey, PartitionState],
    after: Mapping[PartitionKey, PartitionState | None],
) -> Mapping[PartitionKey, Emptied]:
    gone = {
        key: emptied
        for key, left in after.items()
        if left is None and (emptied := emptied_of(partitions.get(key, NO_PARTITION), commit)) is not None
    }
    return emptied_after(before.emptied, gone, after, commit.at_ms)


def _lateness_after(
    before: TableState,
    commit: Commit,
    partitions: Mapping[PartitionKey, PartitionState],
    after: Mapping[PartitionKey, PartitionState | None],
) -> Lateness:
    """What the change says of late writes. Ages are told from the boundary before it.

    Who writes on and on is not back: a return is a write to a partition that nobody had written to for a while.
    """
    change = commit.change
    if not change.is_foreign_write or before.boundary_ms is None:
        return before.lateness
    written: dict[TimeSpan, Written] = {}
    for key, delta in change.partitions.items():
        if (delta.added or delta.removed) and (span := time_span(key, commit.fields)) is not None:
            quiet_ms = change.committed_at_ms - (partitions.get(key, NO_PARTITION).last_write_at_ms or 0)
            born = (after[key] is not None) - (key in partitions)
            # What is updated later does not come late: of updates there is no end, and waiting does not help.
            # (Who writes equality deletes deletes each key, new or not: that says nothing.)
            replaces = bool(delta.removed or delta.deletes.keys() - {FileKind.EQUALITY_DELETES})
            is_update = span.end_ms <= before.boundary_ms and replaces
            one = Written(0 if is_update else delta.added.files, int(quiet_ms >= RETURN_MS), born)
            written[span] = written[span] + one if span in written else one
    return before.lateness.after(written, before.boundary_ms, before.partitions, change.committed_at_ms)
