"""What a table went through, as values: where it began, and every change since, oldest first.

Two pieces of arithmetic live here. *Counting back*: a state less the changes that led to it is the state before them,
so a history can begin wherever its changes begin, without a scan of what is long gone. *Carrying over*: what a writer
did to the table as it was, done to the table as it would have been under other rules.

Appended files carry over exactly. Removals cannot: a MERGE that rewrote ten small files would have found one large
file there, had they been merged before. So the same *rows* leave, from the very size bucket where that has them, else
from everything that is in the partition, each bucket by its share of rows. Rows are conserved; files and bytes that
others remove are an estimate, and that such a writer would have rewritten larger files is not in it. Who replaces all
that is in a partition replaces all that would have been in it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.contract.summary import Origin
from isotherm.core.appends import Arrival, is_append
from isotherm.core.model.changes import Change, PartitionDelta
from isotherm.core.model.files import NO_FILES, FileKind, FileStats, Part, summed, total
from isotherm.core.model.tables import PartitionField, Snapshot, TableFacts
from isotherm.core.partition_state import NO_PARTITION, PartitionState, StateError
from isotherm.core.state import TableState, apply

NAMES_ROWS = frozenset({FileKind.POSITION_DELETES, FileKind.DELETION_VECTORS})
"""Each of their rows deletes one row; how many an equality delete takes with it, nobody has counted."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A change, and when the daemon heard of it."""

    change: Change
    received_at_ms: int
    loaded: Mapping[PartitionKey, PartitionState] = field(default_factory=dict)
    """The files of partitions whose data files all came in the place of all that were there: `others` tells it."""


@dataclass(frozen=True, slots=True)
class History:
    """A stretch of a table's life without a gap."""

    table: TableId
    facts: TableFacts
    """Of the present: the partition fields of all specs, the format version."""
    partitions: Mapping[PartitionKey, PartitionState]
    """What was there when it began."""
    snapshots: tuple[Snapshot, ...]
    """Those that were there when it began, oldest first."""
    pinned: frozenset[int]
    """Snapshots that tags and branches name now."""
    recorded: tuple[Recorded, ...]
    """Everything since, oldest first, our own maintenance too."""
    starts_at_ms: int
    ends_at_ms: int
    remarks: tuple[str, ...] = ()
    """What is missing, and why, in words."""


def traced_back(
    head: int | None, recorded: Mapping[int, Recorded], read: Callable[[int], Recorded | None], since_ms: int
) -> tuple[list[Recorded], int | None]:
    """The changes that led to a head, oldest first, and the snapshot before them: what is known of it ends there.

    Args:
        head: where to begin.
        recorded: what the daemon remembers, by snapshot id.
        read: reads any other from what the table still has, or returns None where it has expired.
        since_ms: changes before this time are not asked for.
    """
    found: list[Recorded] = []
    while head is not None and (one := recorded.get(head) or read(head)) is not None:
        if one.received_at_ms < since_ms:
            break
        found.append(one)
        head = one.change.parent_id
    return found[::-1], head


def counted_back(
    partitions: Mapping[PartitionKey, PartitionState], changes: Iterable[Change], at_ms: int
) -> dict[PartitionKey, PartitionState]:
    """What was there before some changes, given what is there after them. Everything counts as written at `at_ms`.

    When we compacted a partition before is not known where we did so again since: `as_remembered` says it.

    Raises:
        StateError: the changes do not lead to these partitions.
    """
    data: dict[PartitionKey, dict[int, FileStats]] = {k: dict(p.data) for k, p in partitions.items()}
    deletes: dict[PartitionKey, dict[FileKind, FileStats]] = {
        k: dict(p.deletes) for k, p in partitions.items()
    }
    sizes = {key: partition.position_deletes for key, partition in partitions.items()}
    changes = tuple(changes)
    ours, others = _touched(changes)
    for change in changes:
        for key, delta in change.partitions.items():
            buckets, kinds = data.setdefault(key, {}), deletes.setdefault(key, {})
            for bucket, stats in delta.data.items():
                buckets[bucket] = buckets.get(bucket, NO_FILES) - stats
            for kind, stats in delta.deletes.items():
                kinds[kind] = kinds.get(kind, NO_FILES) - stats
            sizes[key] = _less(sizes.get(key, {}), delta.delete_sizes)
    before = {}
    for key, buckets in data.items():
        left = {bucket: stats for bucket, stats in buckets.items() if stats}
        left_deletes = {kind: stats for kind, stats in deletes[key].items() if stats}
        for stats in (*left.values(), *left_deletes.values()):
            if min(stats.files, stats.rows, stats.bytes) < 0:
                raise StateError(f"partition {key} would have held {stats} before the recorded changes")
        if left or left_deletes:
            now = partitions.get(key, NO_PARTITION)
            done_ms = now.compacted_at_ms
            # A job of ours makes all files of a partition old, and what others did to it before is not on record then.
            is_appended = (now.arrivals or key in ours) and key not in others
            one = PartitionState(left, left_deletes, at_ms, at_ms, 0, delete_sizes=sizes.get(key, {}))
            before[key] = replace(
                one,
                delete_sizes=one.position_deletes,
                compacted_at_ms=done_ms if done_ms is not None and done_ms < at_ms else None,
                arrivals=(Arrival.before_all(at_ms),) if is_appended else (),
            )
    return before


def _touched(changes: Iterable[Change]) -> tuple[set[PartitionKey], set[PartitionKey]]:
    """The partitions in which we worked, and those to which somebody else did something else than append."""
    ours, others = set[PartitionKey](), set[PartitionKey]()
    for change in changes:
        if change.origin is Origin.MAINTENANCE:
            ours |= change.partitions.keys()
        elif not is_append(change):
            others |= change.partitions.keys()
    return ours, others


def as_remembered(
    beginning: Mapping[PartitionKey, PartitionState],
    older: Sequence[Recorded],
    done_ms: Mapping[PartitionKey, int],
    table: TableId,
    fields: tuple[PartitionField, ...],
) -> dict[PartitionKey, PartitionState]:
    """What was there at the beginning of a history, with what the daemon knew of it then: its own jobs, and appends.

    Args:
        beginning: as it was counted back.
        older: changes that led to it, oldest first.
        done_ms: when we had last compacted a partition before these.
        table: whose they are.
        fields: its partition fields.

    Raises:
        StateError: the older changes do not lead to the beginning.
    """
    partitions = dict(beginning)
    if older:
        partitions = counted_back(beginning, (one.change for one in older), older[0].received_at_ms)
    for key in partitions.keys() & done_ms.keys():
        if partitions[key].compacted_at_ms is None:
            partitions[key] = replace(partitions[key], compacted_at_ms=done_ms[key])
    state = TableState(table, older[0].change.parent_id if older else None)
    for one in older:
        applied = apply(state, partitions, one.change, fields, one.received_at_ms)
        state = applied.state
        for key, partition in applied.partitions.items():
            if partition is None:
                partitions.pop(key, None)
            else:
                partitions[key] = partition
    return {key: _with_what_was_known(one, partitions[key]) for key, one in beginning.items()}


def _with_what_was_known(one: PartitionState, then: PartitionState) -> PartitionState:
    arrivals = (Arrival.before_all(one.last_write_at_ms or 0),) if then.arrivals else ()
    return replace(
        one,
        compacted_at_ms=then.compacted_at_ms,
        arrivals=arrivals,
        pauses_ms=then.pauses_ms,
        visits=then.visits,
    )


def others(history: History) -> Iterator[Recorded]:
    """What others did, oldest first, and what of it took the place of all that was in a partition then.

    Files of the same sizes in the place of each other are no difference, so that cannot be seen in a change alone.
    """
    there = dict(history.partitions)
    for one in history.recorded:
        loaded = {}
        for key, delta in one.change.partitions.items():
            before = there.get(key, NO_PARTITION)
            sizes = summed(before.position_deletes, delta.delete_sizes)
            data, deletes = summed(before.data, delta.data), summed(before.deletes, delta.deletes)
            there[key] = after = PartitionState(data, deletes, delete_sizes=sizes)
            if delta.removed and before.data and delta.removed.holds(before.data_total):
                loaded[key] = after
        if one.change.origin is not Origin.MAINTENANCE:
            yield replace(one, loaded=loaded) if loaded else one


def carried_over(recorded: Recorded, partitions: Mapping[PartitionKey, PartitionState]) -> Change:
    """A recorded change as it would have been on these partitions. An append stays as it is."""
    change, loaded = recorded.change, recorded.loaded
    if not any(delta.removed for delta in change.partitions.values()):
        return change
    deltas = {
        key: _carried(delta, partitions.get(key, NO_PARTITION), loaded.get(key)) if delta.removed else delta
        for key, delta in change.partitions.items()
    }
    return replace(change, partitions=deltas)


def _carried(delta: PartitionDelta, here: PartitionState, loaded: PartitionState | None) -> PartitionDelta:
    if loaded is not None:
        # Its deletes too: those that our jobs have applied, or had applied then, name files that are gone.
        new = difference(loaded, here)
        return replace(new, added=delta.added, removed=here.data_total, reached_ms=delta.reached_ms)
    deletes, gone_before = _deletes_after(here.deletes, delta.deletes)
    data, homeless = dict(here.data), 0
    for bucket, stats in delta.data.items():
        if _is_growth(stats):
            continue
        if _bears(data.get(bucket, NO_FILES), stats):
            data[bucket] = data.get(bucket, NO_FILES) + stats
        else:
            homeless -= stats.rows
    # Rows that our own job has applied already cannot leave with their delete file once more.
    leaving = homeless - gone_before
    came = {bucket: stats for bucket, stats in delta.data.items() if _is_growth(stats)}
    # Nor do they come with the writer's new file: it holds them where it leaves their delete file as it was.
    came = _less_rows(came, leaving - total(data.values()).rows)
    data = _less_rows(data, leaving)
    for bucket, stats in came.items():
        data[bucket] = data.get(bucket, NO_FILES) + stats
    if gone_before > homeless and data:
        # They left with data files of the same size, which were smaller here by these rows already.
        largest = max(data, key=lambda bucket: (data[bucket].rows, bucket))
        data[largest] += FileStats(rows=gone_before - homeless)
    # What takes the place of a file of the same size is rows alone, and here that file may be another.
    data = {
        bucket: replace(stats, files=max(stats.files, 1), bytes=max(stats.bytes, 1)) if stats else stats
        for bucket, stats in data.items()
    }
    return replace(delta, data=_less(data, here.data), deletes=_less(deletes, here.deletes))


def difference(after: PartitionState, before: PartitionState) -> PartitionDelta:
    """What makes the one of the other; what came and what left are not told apart."""
    sizes = _less(after.position_deletes, before.position_deletes)
    data, deletes = _less(after.data, before.data), _less(after.deletes, before.deletes)
    return PartitionDelta(data, deletes, delete_sizes=sizes)


def _is_growth(stats: FileStats) -> bool:
    return min(stats.files, stats.rows, stats.bytes) >= 0


def _bears(there: FileStats, stats: FileStats) -> bool:
    """Whether the difference can be taken here as it is, with no rows left in no file."""
    after = there + stats
    return _is_growth(after) and (after.files > 0 or not after)


def _deletes_after(
    here: Mapping[FileKind, FileStats], delta: Mapping[FileKind, FileStats]
) -> tuple[dict[FileKind, FileStats], int]:
    """Delete files afterwards, and how many delete rows should have left but were not there any more."""
    after, gone_before = dict(here), 0
    for kind, stats in delta.items():
        there = after.get(kind, NO_FILES)
        left = there + stats
        if not _bears(there, stats):
            rows = max(left.rows, 0)
            gone_before += rows - left.rows if kind in NAMES_ROWS else 0
            left = FileStats(max(left.files, 1), rows, max(left.bytes, 1)) if rows else NO_FILES
        after[kind] = left
    return after, gone_before


def _less_rows(data: Mapping[int, FileStats], rows: int) -> dict[int, FileStats]:
    """A histogram without so many rows, from each bucket by its share; no bucket falls below zero."""
    there = total(data.values()).rows
    rows = min(rows, there)
    left: dict[int, FileStats] = {}
    for bucket, stats in sorted(data.items()):
        going = -(-rows * stats.rows // there) if rows > 0 else 0
        rows, there = rows - going, there - stats.rows
        if going == 0:
            left[bucket] = stats
        elif going < stats.rows:
            files, size = stats.files * going // stats.rows, stats.bytes * going // stats.rows
            left[bucket] = stats - FileStats(max(min(files, stats.files - 1), 0), going, size)
    return left


def _less(after: Mapping[Part, FileStats], before: Mapping[Part, FileStats]) -> dict[Part, FileStats]:
    differences = {
        part: after.get(part, NO_FILES) - before.get(part, NO_FILES) for part in {**before, **after}
    }
    return {part: stats for part, stats in differences.items() if stats}
