"""What stays of a table's history once snapshots are removed: the log, and whose child each snapshot is.

The log says which snapshot was the current one, and since when. By it engines read a table as of a time.

When snapshots are removed, PyIceberg takes their entries out of the log and leaves all others. Then the one before seems
to have been current until the next one, and who reads as of a time in between gets other rows, without a word. So the
log begins behind the newest entry that goes, as in Iceberg's Java. For earlier times there is no answer then.

PyIceberg also takes the parent out of each snapshot whose parent goes. Iceberg's Java leaves it: a writer who began at that
parent commits by it, a reader goes on from it, and a staged snapshot that was made on it is not published on anything else.

Nor may the metadata be older than the log's newest entry, or younger than the clocks of those who write the table: Iceberg's
Java does not load a table in whose metadata times go back by more than a minute. So its time is that of the version before,
and a millisecond; what this machine's clock says has no part in it.
"""

from typing import Any

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import RemoveSnapshotsUpdate, _apply_table_update


class RemoveWithLog(RemoveSnapshotsUpdate):
    """Snapshots go, and all of the log up to the newest of them; their children keep their names. Where PyIceberg itself
    applies the commit.
    """


@_apply_table_update.register(RemoveWithLog)
def removed_with_log(update: RemoveWithLog, base_metadata: TableMetadata, context: Any) -> TableMetadata:
    """The metadata without these snapshots."""
    log, going = base_metadata.snapshot_log, set(update.snapshot_ids)
    begins = max((place for place, entry in enumerate(log, start=1) if entry.snapshot_id in going), default=0)
    shortened = base_metadata.model_copy(update={"snapshot_log": log[begins:]})
    removed: TableMetadata = _apply_table_update.dispatch(RemoveSnapshotsUpdate)(update, shortened, context)
    parents = {one.snapshot_id: one.parent_snapshot_id for one in base_metadata.snapshots}
    kept = [
        one.model_copy(update={"parent_snapshot_id": parents[one.snapshot_id]}) for one in removed.snapshots
    ]
    return removed.model_copy(update={"snapshots": kept, "last_updated_ms": next_ms(base_metadata)})


def next_ms(base_metadata: TableMetadata) -> int:
    """The time of the version after this one, if it brings no snapshot."""
    log = base_metadata.snapshot_log
    # Where it stays as it was, PyIceberg would make it the present time.
    return max(base_metadata.last_updated_ms + 1, log[-1].timestamp_ms if log else 0)
