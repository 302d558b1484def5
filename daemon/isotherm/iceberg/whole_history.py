"""Until when a writer needs the whole history of `main`, back to the table's first snapshot.

Flink's sink commits upserts as a row delta, and does not say on which snapshot it began. Where that adds deletion vectors, as
in format 3, Iceberg's Java looks for others from the head back to a snapshot without a parent. Once any expiry, whoever's, has
taken that one, every such commit fails ("Cannot determine history between starting snapshot null and the last known
ancestor"), and so does the job each time it is started again. It is so in Iceberg 1.11 (`MergingSnapshotProducer`,
`IcebergFilesCommitter`), and in its sources up to August 2026. A history that was cut before is no reason to keep the rest.
"""

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from isotherm.contract.summary import ADDED_EQUALITY_DELETES, ADDED_VECTORS, FLINK_CHECKPOINT
from isotherm.core.model.tables import WITH_ROW_IDS
from isotherm.core.planner.retention import PLACE_FOR_MS
from isotherm.iceberg.snapshots import history, summary_of


def whole_until_ms(metadata: TableMetadata) -> int:
    """When Flink's sink needs the whole history no more, in milliseconds since the epoch; 0 where it does not need it now."""
    if metadata.format_version < WITH_ROW_IDS:
        return 0
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    parents = {snapshot_id: snapshot.parent_snapshot_id for snapshot_id, snapshot in snapshots.items()}
    ancestors = [snapshots[one] for one in history(parents, metadata.current_snapshot_id)]
    if not ancestors or ancestors[-1].parent_snapshot_id is not None:
        return 0
    upserts = (snapshot.timestamp_ms for snapshot in ancestors if _is_upsert_of_flink(snapshot))
    return max((at_ms + PLACE_FOR_MS for at_ms in upserts), default=0)


def _is_upsert_of_flink(snapshot: Snapshot) -> bool:
    """Whether Flink's sink changed rows with it. One that changed a key once has no vector; the next may change it twice."""
    said = summary_of(snapshot)
    added = (said.get(name, "0") for name in (ADDED_VECTORS, ADDED_EQUALITY_DELETES))
    return FLINK_CHECKPOINT in said and any(count != "0" for count in added)
