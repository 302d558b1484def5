"""A table's snapshots as commit events: what their summaries and their manifests say."""

from collections.abc import Iterator, Mapping

from pyiceberg.manifest import ManifestEntryStatus, ManifestFile
from pyiceberg.table.snapshots import Snapshot

from isotherm.clients.manifests.avro import UnreadableError, content
from isotherm.clients.manifests.entry_projection import Brief
from isotherm.clients.manifests.reading import Manifest, manifests_listed
from isotherm.contract.announcement import DAEMON, announcement
from isotherm.contract.events import CommitEvent, PartitionChange
from isotherm.contract.identity import PartitionKey, TableId, partition_key, scalar
from isotherm.contract.summary import INGEST_PIPELINE, INGEST_TOKEN, Origin, origin_of, valid_through_of
from isotherm_ingest.tables import offset_vector
from isotherm_ingest.tables.lake import TableNow, summary_of

MAX_ENTRIES = 5_000
"""Manifest entries that are read for one event, some 0.2 s; above it the change by partition is left out."""

MAX_BYTES = 64 * 1024 * 1024
"""Of the manifests of one event, as the daemon reads for one. Their owner may have them unpack to a thousand times as much."""

MAX_UNPACKED_BYTES = 256 * 1024 * 1024
"""Of the manifests of one event, and of its manifest list: 50 kB for each entry, some of a thousand columns and more. It is
in memory beside everything by which tables are written."""

EXCERPT = 2_000
"""Characters of one value of a summary in an event; the token has a field of its own."""


_WRITERS = {Origin.MAINTENANCE: DAEMON}


def event_of(
    table: TableNow, snapshot: Snapshot, catalog: str, announced_by: str, *, grants: bool = False
) -> CommitEvent:
    """The announcement of one snapshot. `grants`: whether who announces grants windows, if the snapshot is its own."""
    summary = summary_of(snapshot)
    origin = origin_of(summary)
    manifests = _added_manifests(table, snapshot)
    changes = _changes(table, snapshot, manifests)
    writer = summary.get(INGEST_PIPELINE, "") if origin is Origin.INGEST else _WRITERS.get(origin, "")
    return announcement(
        TableId(table.uuid, table.name),
        catalog=catalog,
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number,
        timestamp_ms=snapshot.timestamp_ms,
        operation=snapshot.summary.operation.value if snapshot.summary is not None else "",
        origin=origin,
        writer=writer,
        schema_id=snapshot.schema_id,
        manifest_list=snapshot.manifest_list,
        manifests=manifests,
        partitions=changes,
        summary={name: value[:EXCERPT] for name, value in summary.items() if name != INGEST_TOKEN},
        source_offsets=_source_offsets(summary),
        valid_through_ms=valid_through_of(summary),
        announced_by=announced_by,
        grants=grants and origin is Origin.INGEST and writer == announced_by,
    )


def _source_offsets(summary: Mapping[str, str]) -> dict[str, dict[str, int]]:
    try:
        vector = offset_vector.decode(summary[INGEST_TOKEN]).vector
    except (KeyError, offset_vector.TokenError):
        return {}
    return {topic: {str(number): offset for number, offset in one.items()} for topic, one in vector.items()}


def _added_manifests(table: TableNow, snapshot: Snapshot) -> list[ManifestFile] | None:
    """The manifests that a snapshot added, or None where its manifest list is gone, or too much to read."""
    try:
        listed = manifests_listed(table.table.io, snapshot.manifest_list, max_unpacked=MAX_UNPACKED_BYTES)
        return [one for one in listed if one.added_snapshot_id == snapshot.snapshot_id]
    except (OSError, UnreadableError):
        return None


def _changes(
    table: TableNow, snapshot: Snapshot, manifests: list[ManifestFile] | None
) -> dict[PartitionKey, PartitionChange] | None:
    """What the snapshot did to each partition, or None where it is too much to read, or gone, or makes no sense."""
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
        for key, entry in _entries(table, snapshot, manifests):
            count = counts.setdefault(key, [0, 0, 0, 0])
            removed = entry.status == ManifestEntryStatus.DELETED.value
            count[1 if removed else 0] += 1
            count[3 if removed else 2] += entry.rows
    except (OSError, ValueError, TypeError, KeyError):  # what makes no sense, too
        return None
    return {
        key: PartitionChange(
            partition=key, added_files=new, removed_files=old, added_rows=came, removed_rows=left
        )
        for key, (new, old, came, left) in counts.items()
    }


def _entries(
    table: TableNow, snapshot: Snapshot, manifests: list[ManifestFile]
) -> Iterator[tuple[PartitionKey, Brief]]:
    """What a snapshot's manifests say that it did, each with its partition.

    Raises:
        UnreadableError: they make no sense, or are more than is read for one event, whatever their list says.
    """
    left, packed_bytes, unpacked_bytes = MAX_ENTRIES, MAX_BYTES, MAX_UNPACKED_BYTES
    for manifest in manifests:
        data = content(table.table.io, manifest.manifest_path, max_bytes=packed_bytes)
        written = Manifest(manifest.manifest_path, data, unpacked_bytes)
        left -= written.count()
        if left < 0:
            raise UnreadableError(f"snapshot {snapshot.snapshot_id} has more than {MAX_ENTRIES} entries")
        fields = table.table.metadata.specs()[manifest.partition_spec_id].fields
        for entry in written.briefly():
            snapshot_id = manifest.added_snapshot_id if entry.snapshot_id is None else entry.snapshot_id
            if entry.status != ManifestEntryStatus.EXISTING.value and snapshot_id == snapshot.snapshot_id:
                values = zip(fields, entry.partition, strict=True)
                yield partition_key({field.field_id: scalar(value) for field, value in values}), entry
        packed_bytes -= len(data)
        unpacked_bytes -= written.unpacked_bytes
