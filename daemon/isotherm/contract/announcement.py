"""The announcement of a snapshot, by whoever makes it: capped, and marked where it does not tell everything."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from isotherm.contract.events import (
    MAX_MANIFESTS,
    MAX_PARTITIONS,
    AddedManifest,
    CommitEvent,
    PartitionChange,
    checked,
)
from isotherm.contract.identity import PartitionKey, TableId
from isotherm.contract.summary import Origin

DAEMON = "isotherm"
"""How the daemon is called as a writer, and as who announces."""

_DATA = 0
"""The specification's number for manifests of data files; the others hold deletes."""


class Manifest(Protocol):
    """A manifest, as a manifest list has it."""

    @property
    def manifest_path(self) -> str: ...  # noqa: D102 (the specification's names)
    @property
    def manifest_length(self) -> int: ...  # noqa: D102
    @property
    def partition_spec_id(self) -> int: ...  # noqa: D102
    @property
    def content(self) -> int: ...  # noqa: D102
    @property
    def added_files_count(self) -> int | None: ...  # noqa: D102
    @property
    def deleted_files_count(self) -> int | None: ...  # noqa: D102


def announcement(
    table: TableId,
    *,
    snapshot_id: int,
    parent_id: int | None,
    sequence_number: int | None,
    timestamp_ms: int,
    operation: str,
    origin: Origin,
    valid_through_ms: int | None,
    catalog: str = "",
    writer: str = "",
    schema_id: int | None = None,
    manifest_list: str | None = None,
    manifests: Sequence[Manifest] | None = None,
    partitions: Mapping[PartitionKey, PartitionChange] | None = None,
    summary: Mapping[str, str] | None = None,
    source_offsets: Mapping[str, Mapping[str, int]] | None = None,
    announced_by: str = "",
    grants: bool = False,
) -> CommitEvent:
    """The event of one snapshot.

    `manifests` are those that the snapshot added, and `partitions` what it did to each partition. Where one of them is
    None, whoever wants it has to find it. Everything else is as in the event.

    Raises:
        EventError: the snapshot says something that no event can have.
    """
    told = [one for one in manifests or () if None not in (one.added_files_count, one.deleted_files_count)]
    named = sorted((partitions or {}).items())[:MAX_PARTITIONS]
    with checked():
        return CommitEvent(
            table_uuid=table.uuid,
            table=table.name,
            catalog=catalog,
            snapshot_id=snapshot_id,
            parent_id=parent_id,
            sequence_number=sequence_number or 0,
            timestamp_ms=timestamp_ms,
            operation=operation,
            origin=origin.value,
            writer=writer,
            schema_id=schema_id,
            spec_ids=tuple(sorted({one.partition_spec_id for one in manifests or ()})),
            manifest_list=manifest_list or "",
            added_manifests=tuple(_added(one) for one in told[:MAX_MANIFESTS]),
            # Version 1 may leave the counts out, and an event must not guess.
            added_manifests_complete=manifests is not None and len(told[:MAX_MANIFESTS]) == len(manifests),
            partitions=tuple(change for _, change in named),
            partitions_complete=partitions is not None and len(named) == len(partitions),
            summary=summary or {},
            source_offsets=source_offsets or {},
            valid_through_ms=valid_through_ms,
            announced_by=announced_by,
            grants=grants,
        )


def _added(manifest: Manifest) -> AddedManifest:
    return AddedManifest(
        path=manifest.manifest_path,
        length=manifest.manifest_length,
        spec_id=manifest.partition_spec_id,
        content="data" if manifest.content == _DATA else "deletes",
        added_files=manifest.added_files_count or 0,
        deleted_files=manifest.deleted_files_count or 0,
    )
