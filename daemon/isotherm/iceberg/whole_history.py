"""Until when a writer needs the whole history of a branch, back to the table's first snapshot.

Flink's sink commits upserts as a row delta, and does not say on which snapshot it began. Where that adds deletion vectors, as
in format 3, Iceberg's Java looks for others from the head back to a snapshot without a parent. Once any expiry, whoever's, has
taken that one, every such commit fails ("Cannot determine history between starting snapshot null and the last known
ancestor"), and so does the job each time it is started again. It is so in Iceberg 1.11 (`MergingSnapshotProducer`,
`IcebergFilesCommitter`), and in its sources up to August 2026. A history that was cut before is no reason to keep the rest.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from isotherm.contract.properties import says
from isotherm.contract.summary import ADDED_EQUALITY_DELETES, ADDED_VECTORS, FLINK_CHECKPOINT
from isotherm.core.model.tables import WITH_ROW_IDS
from isotherm.core.planner.expirable import PLACE_FOR_MS
from isotherm.iceberg.snapshots import summary_of


def whole_until_ms(metadata: TableMetadata) -> int:
    """When Flink's sink needs the whole history no more, in milliseconds since the epoch; 0 where it does not need it now.

    That is so long after it has committed last: a job in which nothing changes commits empty checkpoints.
    """
    if metadata.format_version < WITH_ROW_IDS:
        return 0
    heads = [
        ref.snapshot_id for ref in metadata.refs.values() if ref.snapshot_ref_type is SnapshotRefType.BRANCH
    ]
    if metadata.current_snapshot_id is not None:
        heads.append(metadata.current_snapshot_id)
    found = _by_flink(metadata, heads)
    keyed = _has_keys(metadata)
    return max(
        (
            one.newest_ms + PLACE_FOR_MS
            for one in map(found.get, heads)
            if one is not None and one.is_whole and one.newest_ms is not None and (keyed or one.is_upserted)
        ),
        default=0,
    )


@dataclass(frozen=True, slots=True)
class _Line:
    """What a snapshot's history says of Flink, itself included."""

    is_whole: bool
    """It begins with a snapshot without a parent."""
    newest_ms: int | None = None
    """When Flink committed last."""
    is_upserted: bool = False


_CUT = _Line(is_whole=False)


def _by_flink(metadata: TableMetadata, heads: Iterable[int]) -> dict[int, _Line]:
    """The same of each snapshot in the history of one of these, by id: each is looked at once, however many branches share it."""
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    if not any(FLINK_CHECKPOINT in summary_of(snapshot) for snapshot in snapshots.values()):
        return {}
    found: dict[int, _Line] = {}
    for head in heads:
        line: list[Snapshot] = []
        at: int | None = head
        while at is not None and at not in found and at in snapshots:
            found[at] = _CUT  # until it is known: a damaged history may lead in a circle
            line.append(snapshots[at])
            at = snapshots[at].parent_snapshot_id
        before = _Line(is_whole=True) if at is None else found.get(at, _CUT)
        for snapshot in reversed(line):
            before = found[snapshot.snapshot_id] = _with(before, snapshot)
    return found


def _with(before: _Line, snapshot: Snapshot) -> _Line:
    if FLINK_CHECKPOINT not in summary_of(snapshot):
        return before
    newest_ms = max(before.newest_ms or 0, snapshot.timestamp_ms)
    return _Line(before.is_whole, newest_ms, before.is_upserted or _is_upsert(snapshot))


def _has_keys(metadata: TableMetadata) -> bool:
    """Whether the table says by what its rows are known: a sink that has only inserted so far may upsert the next one."""
    keys = metadata.schema().identifier_field_ids
    return bool(keys) or says(metadata.properties, "write.upsert.enabled", default=False)


def _is_upsert(snapshot: Snapshot) -> bool:
    """Whether rows were changed with it. One that changed a key once has no vector; the next may change it twice."""
    said = summary_of(snapshot)
    return any(said.get(name, "0") != "0" for name in (ADDED_VECTORS, ADDED_EQUALITY_DELETES))
