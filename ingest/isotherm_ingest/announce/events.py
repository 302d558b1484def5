"""A table's snapshots as commit events: what their summaries and their manifests say, capped, complete or flagged as not."""

from collections.abc import Mapping

from pyiceberg.manifest import ManifestContent, ManifestEntryStatus, ManifestFile
from pyiceberg.table.snapshots import Snapshot

from isotherm.contract.events import (
    MAX_MANIFESTS,
    MAX_PARTITIONS,
    AddedManifest,
    CommitEvent,
    PartitionChange,
)
from isotherm.contract.identity import PartitionKey, partition_key, scalar
from isotherm.contract.summary import INGEST_PIPELINE, INGEST_TOKEN, INGEST_VALID_THROUGH, Origin, origin_of
from isotherm_ingest.tables import offsets
from isotherm_ingest.tables.lake import TableNow, summary_of

MAX_ENTRIES = 5_000
"""Manifest entries that are read for one event, some 0.2 s; above it the change by partition is left out."""

EXCERPT = 2_000
"""Characters of one value of a summary in an event; the token has a field of its own."""


_WRITERS = {Origin.MAINTENANCE: "isotherm"}


def event_of(table: TableNow, snapshot: Snapshot, catalog: str, announced_by: str) -> CommitEvent:
    """The announcement of one snapshot."""
    summary = summary_of(snapshot)
    origin = origin_of(summary)
    manifests = _added_manifests(table, snapshot)
    changes = _changes(table, snapshot, manifests)
    named = None if changes is None else sorted(changes.items())[:MAX_PARTITIONS]
    valid_through = summary.get(INGEST_VALID_THROUGH, "")
    return CommitEvent(
        table_uuid=table.uuid,
        table=table.name,
        catalog=catalog,
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number or 0,
        timestamp_ms=snapshot.timestamp_ms,
        operation=snapshot.summary.operation.value if snapshot.summary is not None else "",
        origin=origin.value,
        writer=summary.get(INGEST_PIPELINE, "") if origin is Origin.INGEST else _WRITERS.get(origin, ""),
        schema_id=snapshot.schema_id,
        spec_ids=tuple(sorted({one.partition_spec_id for one in manifests or ()})),
        manifest_list=snapshot.manifest_list or "",
        added_manifests=tuple(_added(one) for one in (manifests or ())[:MAX_MANIFESTS]),
        added_manifests_complete=manifests is not None and len(manifests) <= MAX_MANIFESTS,
        partitions=tuple(change for _, change in named or ()),
        partitions_complete=changes is not None and named is not None and len(named) == len(changes),
        summary={name: value[:EXCERPT] for name, value in summary.items() if name != INGEST_TOKEN},
        source_offsets=_source_offsets(summary),
        valid_through_ms=int(valid_through) if valid_through.lstrip("-").isdigit() else None,
        announced_by=announced_by,
    )


def _source_offsets(summary: Mapping[str, str]) -> dict[str, dict[str, int]]:
    try:
        vector = offsets.decode(summary[INGEST_TOKEN]).vector
    except (KeyError, offsets.TokenError):
        return {}
    return {topic: {str(number): offset for number, offset in one.items()} for topic, one in vector.items()}


def _added_manifests(table: TableNow, snapshot: Snapshot) -> list[ManifestFile] | None:
    """The manifests that a snapshot added; None: its manifest list is gone."""
    try:
        manifests = snapshot.manifests(table.table.io)
    except OSError:
        return None
    return [one for one in manifests if one.added_snapshot_id == snapshot.snapshot_id]


def _added(manifest: ManifestFile) -> AddedManifest:
    return AddedManifest(
        path=manifest.manifest_path,
        length=manifest.manifest_length,
        spec_id=manifest.partition_spec_id,
        content="data" if manifest.content is ManifestContent.DATA else "deletes",
        added_files=manifest.added_files_count or 0,
        deleted_files=manifest.deleted_files_count or 0,
    )


def _changes(
    table: TableNow, snapshot: Snapshot, manifests: list[ManifestFile] | None
) -> dict[PartitionKey, PartitionChange] | None:
    """What the snapshot did to each partition; None: too much to read, or gone."""
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
