"""A table from scratch: everything that a state says, from all manifests of its head.

This is what the fold must equal at every head that the catalog confirms.
"""

from collections.abc import Sequence
from itertools import takewhile

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot as PyIcebergSnapshot

from isotherm.clients.manifests.reading import read_manifest_list
from isotherm.contract.boundary import MAX_AHEAD_MS
from isotherm.contract.summary import Origin, committed_at_of, origin_of, valid_through_of
from isotherm.core.appends import NO_APPENDS, Appends, Arrival
from isotherm.core.model.changes import Change
from isotherm.core.model.tables import PartitionField
from isotherm.core.partition_state import PartitionState
from isotherm.core.stream_boundary import boundary_of_rows
from isotherm.iceberg.manifests.counts import Question, census
from isotherm.iceberg.snapshots import operation_of, summary_of
from isotherm.iceberg.values import added_manifests, change_of
from isotherm.service.ports import GoOn, LoadedTable, Scan

_NO_APPEND = ("deleted-data-files", "added-delete-files", "removed-delete-files")
"""Counters of a summary that an append leaves out, or at zero."""

RECENT = 20
"""Snapshots behind the head whose changes a full scan reads too: who wrote where lately, also by removing files."""


def scanned(table: Table, loaded: LoadedTable, go_on: GoOn) -> Scan:
    """Everything about a table, from all manifests of its head."""
    # By hand: PyIceberg looks for a snapshot from the first one on, and logs are long.
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    ancestors = [snapshots[snapshot_id] for snapshot_id in reversed(loaded.ancestors())]
    writes = [
        s
        for s in ancestors
        if origin_of(summary_of(s)) is not Origin.MAINTENANCE and operation_of(s) != "replace"
    ]
    numbers = {snapshot.snapshot_id: number for number, snapshot in enumerate(writes, start=1)}
    jobs = [s for s in ancestors if origin_of(summary_of(s)) is Origin.MAINTENANCE]
    ours = {snapshot.snapshot_id: number for number, snapshot in enumerate(jobs, start=1)}
    conversions = {s.snapshot_id: ours[s.snapshot_id] for s in jobs if _counts(s, "removed-equality-deletes")}
    head = ancestors[-1]
    live = census(
        table.metadata,
        table.io,
        read_manifest_list(table.io, head.manifest_list),
        Question(numbers=numbers, ours=ours, conversions=conversions),
        go_on=go_on,
    )
    last = {key: partition.number for key, partition in live.partitions.items()}
    recent = [change_of(table, s, added_manifests(table.io, s), go_on=go_on) for s in writes[-RECENT:]]
    for change in recent:
        for key in change.partitions:
            last[key] = max(last.get(key, 0), numbers[change.snapshot_id])
    # What only snapshots long gone have written was written before the oldest that is left.
    oldest_ms = ancestors[0].timestamp_ms
    times = [oldest_ms, *(snapshot.timestamp_ms for snapshot in writes)]
    done_ms = [committed_at_of(summary_of(one), one.timestamp_ms) for one in jobs]
    others = [
        s for s in ancestors if origin_of(summary_of(s)) is not Origin.MAINTENANCE and not _touches_no_file(s)
    ]
    appends = _appends(others)
    partitions = {}
    for key, partition in live.partitions.items():
        delta, written_ms = partition.delta(), times[last[key]]
        is_appended = appends.count == len(others) and not delta.deletes
        partitions[key] = PartitionState(
            data=delta.data,
            deletes=delta.deletes,
            delete_sizes=delta.delete_sizes,
            first_write_at_ms=written_ms,
            last_write_at_ms=written_ms,
            last_write_number=last[key],
            compacted_at_ms=done_ms[partition.ours - 1] if partition.ours else None,
            arrivals=(Arrival.before_all(written_ms),) if is_appended else (),
        )
    return Scan(
        partitions=partitions,
        head=change_of(table, head, ()),
        boundary_ms=_boundary(writes, recent, loaded.facts.fields),
        foreign_commits=len(writes),
        files=live.files,
        appends=appends,
        read_slowly=live.read_slowly,
    )


def _appends(others: Sequence[PyIcebergSnapshot]) -> Appends:
    """What others appended since they last did something else, by what the retained snapshots say of themselves."""
    line = list(takewhile(_is_append, reversed(others)))
    return Appends(len(line), line[-1].timestamp_ms) if line else NO_APPENDS


def _touches_no_file(snapshot: PyIcebergSnapshot) -> bool:
    """Whether it only wrote manifests again."""
    return operation_of(snapshot) == "replace" and not _counts(snapshot, "added-data-files", *_NO_APPEND)


def _is_append(snapshot: PyIcebergSnapshot) -> bool:
    return operation_of(snapshot) == "append" and not _counts(snapshot, *_NO_APPEND)


def _counts(snapshot: PyIcebergSnapshot, *names: str) -> bool:
    """Whether its summary says one of these counters, and not zero."""
    summary = summary_of(snapshot)
    return any(summary.get(name, "0") != "0" for name in names)


def _boundary(
    writes: Sequence[PyIcebergSnapshot], recent: Sequence[Change], fields: tuple[PartitionField, ...]
) -> int | None:
    """The furthest event time that the retained history gives, each commit capped by its own time."""
    reached = [
        (said, snapshot.timestamp_ms)
        for snapshot in writes
        if (said := valid_through_of(summary_of(snapshot))) is not None
    ]
    if not reached:
        reached = [
            (by_rows, change.committed_at_ms)
            for change in recent
            if (by_rows := boundary_of_rows(change.partitions, fields, change.committed_at_ms)) is not None
        ]
    return max((min(at_ms, committed_ms + MAX_AHEAD_MS) for at_ms, committed_ms in reached), default=None)
