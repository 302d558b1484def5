"""Snapshots as PyIceberg has them: what each says of itself, and how they follow one another."""

from collections.abc import Iterator, Mapping
from itertools import pairwise

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot


def summary_of(snapshot: Snapshot) -> Mapping[str, str]:
    """The summary of a snapshot; empty where it has none."""
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def operation_of(snapshot: Snapshot) -> str:
    """The operation of a snapshot; empty where its summary says none."""
    return "" if snapshot.summary is None else snapshot.summary.operation.value


def history(parents: Mapping[int, int | None], newest: int | None) -> Iterator[int]:
    """A snapshot and those before it, as far as they are there. Damaged metadata may lead in a circle."""
    seen: set[int] = set()
    while newest is not None and newest in parents and newest not in seen:
        seen.add(newest)
        yield newest
        newest = parents[newest]


def astray(metadata: TableMetadata) -> list[Snapshot]:
    """The snapshots that no branch has in its history and no tag names, as Iceberg's Java tells them."""
    parents = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in metadata.snapshots}
    reached: set[int] = set()
    heads = [metadata.current_snapshot_id]
    for ref in metadata.refs.values():
        if ref.snapshot_ref_type is SnapshotRefType.BRANCH:
            heads.append(ref.snapshot_id)
        else:
            reached.add(ref.snapshot_id)
    in_history: set[int] = set()
    for head in heads:
        current = head
        while current is not None and current in parents and current not in in_history:
            in_history.add(current)
            current = parents[current]
    reached |= in_history
    return [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in reached]


def left_at_ms(metadata: TableMetadata) -> dict[int, int]:
    """When `main` left snapshots last, by their ids, as the table's own log says."""
    return {before.snapshot_id: after.timestamp_ms for before, after in pairwise(metadata.snapshot_log)}


def left_long_after_ms(metadata: TableMetadata) -> dict[int, int]:
    """When `main` left snapshots, by their ids, of those that it left for others than a commit that was just made on them.

    So it is where a branch is published, or a rollback taken back: what follows in the history may be days old by then.
    The table's own log says when that was.
    """
    made = {one.snapshot_id: (one.parent_snapshot_id, one.timestamp_ms) for one in metadata.snapshots}
    return {
        before.snapshot_id: after.timestamp_ms
        for before, after in pairwise(metadata.snapshot_log)
        if made.get(after.snapshot_id) != (before.snapshot_id, after.timestamp_ms)
    }
