"""A table's snapshots as commit events: what their summaries and their manifests say."""

from collections.abc import Mapping

from pyiceberg.manifest import ManifestEntryStatus, ManifestFile
from pyiceberg.table.snapshots import Snapshot

from isotherm.contract.announcement import DAEMON, announcement
from isotherm.contract.events import CommitEvent, PartitionChange
from isotherm.contract.identity import PartitionKey, TableId, partition_key, scalar
from isotherm.contract.summary import INGEST_PIPELINE, INGEST_TOKEN, Origin, origin_of, valid_through_of
from isotherm_ingest.tables import offsets
from isotherm_ingest.tables.lake import TableNow, summary_of

MAX_ENTRIES = 5_000
"""Manifest entries that are read for one event, some 0.2 s; above it the change by partition is left out."""

EXCERPT = 2_000
"""Characters of one value of a summary in an event; the token has a field of its own."""


_WRITERS = {Origin.MAINTENANCE: DAEMON}


def event_of(table: TableNow, snapshot: Snapshot, catalog: str, announced_by: str) -> CommitEvent:
    """The announcement of one snapshot."""
    summary = summary_of(snapshot)
    origin = origin_of(summary)
    manifests = _added_manifests(table, snapshot)
    changes = _changes(table, snapshot, manifests)
    return announcement(
        TableId(table.uuid, table.name),
        catalog=catalog,
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number,
        timestamp_ms=snapshot.timestamp_ms,
        operation=snapshot.summary.operation.value if snapshot.summary is not None else "",
        origin=origin,
        writer=summary.get(INGEST_PIPELINE, "") if origin is Origin.INGEST else _WRITERS.get(origin, ""),
        schema_id=snapshot.schema_id,
        manifest_list=snapshot.manifest_list,
        manifests=manifests,
        partitions=changes,
        summary={name: value[:EXCERPT] for name, value in summary.items() if name != INGEST_TOKEN},
        source_offsets=_source_offsets(summary),
        valid_through_ms=valid_through_of(summary),
        announced_by=announced_by,
    )


def _source_offsets(summary: Mapping[str, str]) -> dict[str, dict[str, int]]:
    try:
        vector = offsets.decode(summary[INGEST_TOKEN]).vector
    except (KeyError, offsets.TokenError):
        return {}
    return {topic: {str(number): offset for number, offset in one.items()} for topic, one in vector.items()}


def _added_manifests(table: TableNow, snapshot: Snapshot) -> list[ManifestFile] | None:
    """The manifests that a snapshot added, or None where its manifest list is gone."""
    try:
        manifests = snapshot.manifests(table.table.io)
    except OSError:
        return None
    return [one for one in manifests if one.added_snapshot_id == snapshot.snapshot_id]


def _changes(
    table: TableNow, snapshot: Snapshot, manifests: list[ManifestFile] | None
) -> dict[PartitionKey, PartitionChange] | None:
    """What the snapshot did to each partition, or None where it is too much to read, or gone."""
    if manifests is None:
        return None
    entries = sum(
        (one.added_files_count or 0) + (one.existing_files_count or 0) + (one.deleted_files_count or 0)
        for one in manifests
    )
    if entries > MAX_ENTRIES:
        return None
    counts: dict[PartitionKey, list[int]] = {}
    try:
        for manifest in manifests:
            fields = table.table.metadata.specs()[manifest.partition_spec_id].fields
            for entry in manifest.fetch_manifest_entry(table.table.io, discard_deleted=False):
                if entry.status is ManifestEntryStatus.EXISTING or entry.snapshot_id != snapshot.snapshot_id:
                    continue
                values = entry.data_file.partition
                key = partition_key({field.field_id: scalar(values[at]) for at, field in enumerate(fields)})
                count = counts.setdefault(key, [0, 0, 0, 0])
                removed = entry.status is ManifestEntryStatus.DELETED
                count[1 if removed else 0] += 1
                count[3 if removed else 2] += entry.data_file.record_count
    except (OSError, TypeError, KeyError):
        return None
    return {
        key: PartitionChange(
            partition=key, added_files=new, removed_files=old, added_rows=came, removed_rows=left
        )
        for key, (new, old, came, left) in counts.items()
    }
