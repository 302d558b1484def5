"""Until when a writer needs the whole history of a branch, back to the table's first snapshot.

Flink's sink commits upserts as a row delta, and does not say on which snapshot it began. Where that adds deletion vectors, as
in format 3, Iceberg's Java looks for others from the head back to a snapshot without a parent. Once any expiry, whoever's, has
taken that one, every such commit fails ("Cannot determine history between starting snapshot null and the last known
ancestor"), and so does the job each time it is started again. It is so in Iceberg 1.11 (`MergingSnapshotProducer`,
`IcebergFilesCommitter`), and in its sources up to August 2026. A history that was cut before is no reason to keep the rest.
"""

from collections.abc import Sequence

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from isotherm.contract.properties import says
from isotherm.contract.summary import ADDED_EQUALITY_DELETES, ADDED_VECTORS, FLINK_CHECKPOINT
from isotherm.core.model.tables import WITH_ROW_IDS
from isotherm.core.planner.retention import PLACE_FOR_MS
from isotherm.iceberg.snapshots import history, summary_of


def whole_until_ms(metadata: TableMetadata) -> int:
    """When Flink's sink needs the whole history no more, in milliseconds since the epoch; 0 where it does not need it now.

    That is so long after it has committed last: a job in which nothing changes commits empty checkpoints.
    """
    if metadata.format_version < WITH_ROW_IDS:
        return 0
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    parents = {snapshot_id: snapshot.parent_snapshot_id for snapshot_id, snapshot in snapshots.items()}
    heads = {
        ref.snapshot_id for ref in metadata.refs.values() if ref.snapshot_ref_type is SnapshotRefType.BRANCH
    }
    if metadata.current_snapshot_id is not None:
        heads.add(metadata.current_snapshot_id)
    return max(
        (_of_branch(metadata, [snapshots[one] for one in history(parents, head)]) for head in heads),
        default=0,
    )


def _of_branch(metadata: TableMetadata, ancestors: Sequence[Snapshot]) -> int:
    """The same of one branch, by its head and what came before, the newest first."""
    if not ancestors or ancestors[-1].parent_snapshot_id is not None:
        return 0
    of_flink = [snapshot for snapshot in ancestors if FLINK_CHECKPOINT in summary_of(snapshot)]
    if not _has_keys(metadata) and not any(map(_is_upsert, of_flink)):
        return 0
    return max((snapshot.timestamp_ms + PLACE_FOR_MS for snapshot in of_flink), default=0)


def _has_keys(metadata: TableMetadata) -> bool:
    """Whether the table says by what its rows are known: a sink that has only inserted so far may upsert the next one."""
    keys = metadata.schema().identifier_field_ids
    return bool(keys) or says(metadata.properties, "write.upsert.enabled", default=False)


def _is_upsert(snapshot: Snapshot) -> bool:
    """Whether rows were changed with it. One that changed a key once has no vector; the next may change it twice."""
    said = summary_of(snapshot)
    return any(said.get(name, "0") != "0" for name in (ADDED_VECTORS, ADDED_EQUALITY_DELETES))
