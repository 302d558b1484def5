"""PyIceberg's tables, snapshots and manifests as our values.

It looks only at what its caller has loaded, and at manifests. It decides nothing and reads no clock.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.snapshots import Snapshot as PyIcebergSnapshot

from isotherm.clients.manifests.avro import UnreadableError
from isotherm.clients.manifests.reading import manifests_listed, read_manifest_list
from isotherm.contract.announcement import announcement
from isotherm.contract.events import CommitEvent
from isotherm.contract.identity import PartitionKey, TableId
from isotherm.contract.paths import PLACES, too_long
from isotherm.contract.summary import (
    JOB_ID,
    NUMBER,
    STAGED_AS,
    committed_at_of,
    is_counter,
    origin_of,
    token_of,
    valid_through_of,
)
from isotherm.core.model.changes import Change, PartitionDelta
from isotherm.core.model.tables import Astray, Snapshot, TableFacts
from isotherm.core.planner.expirable import FOREVER_MS
from isotherm.core.policy.precedence import PROPERTIES
from isotherm.iceberg.compaction.asked_order import kept_names
from isotherm.iceberg.manifests.counts import Question, census
from isotherm.iceberg.manifests.deletes import oldest_data
from isotherm.iceberg.manifests.live import dividing_nothing
from isotherm.iceberg.manifests.which_are_rewritten import needless
from isotherm.iceberg.other_rewriters import rewrite_of_others, rewriter_of
from isotherm.iceberg.partition_fields import partition_fields, why_not_moved
from isotherm.iceberg.refs import MOST_REF_ENDS, needed_until_ms, ref_ends
from isotherm.iceberg.snapshots import (
    astray,
    left_at_ms,
    left_long_after_ms,
    operation_of,
    summary_of,
)
from isotherm.iceberg.unpublished import unpublished
from isotherm.iceberg.unsupported import unsupported
from isotherm.iceberg.whole_history import whole_until_ms
from isotherm.service.ports import GoOn, LoadedTable, TableMissing, without_end

MOST_ADDED = 5000
"""Manifests of its own that a snapshot may have: an import makes one for each of its tasks, some hundreds. Those of dozens
of snapshots are in memory together."""


MAX_FACTS_CHARS = 256_000
"""Of a table's location and its partition fields, which are read with each of its events: a thousand fields and more."""
CHARS_OF_FIELD = 120
"""Of a partition field in a row of the fold, beside its texts."""
MOST_TEXT = 16_000
"""Characters of a property that are kept. No number is as long."""
PROPERTIES_OF_USE = tuple(dict.fromkeys((*PROPERTIES, *PLACES)))
"""The properties by which tables are maintained and found. An owner may have set a million others."""


@dataclass(frozen=True, slots=True)
class ListSize:
    """What the facts of a table take from its head's manifest list, which need not be read again for it."""

    location: str
    format_version: int
    """Of the table: an upgrade leaves the list as it is, and another part of it may be rewritten."""
    manifests: int
    bytes: int
    needless: int | None
    has_undivided: bool = False


def loaded_table(table: Table, name: str, known: ListSize | None = None) -> LoadedTable:
    """PyIceberg's table as ours.

    Raises:
        UnreadableError: what would be read with each of its events is too long.
    """
    metadata = table.metadata
    head = table.current_snapshot()
    kept, left_ms = needed_until_ms(metadata), left_long_after_ms(metadata)
    snapshots = {
        snapshot.snapshot_id: _known(
            snapshot, kept.get(snapshot.snapshot_id, 0), left_ms.get(snapshot.snapshot_id, 0)
        )
        for snapshot in metadata.snapshots
    }
    parents = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in metadata.snapshots}
    loaded = LoadedTable(
        table=TableId(str(metadata.table_uuid), name),
        facts=_facts(table, _list_size(table, known)),
        head=None if head is None else head.snapshot_id,
        snapshots=snapshots,
        parents=parents,
        astray=_strays(metadata),
        metadata_location=table.metadata_location,
        handle=table,
    )
    ancestors = loaded.ancestors()
    first = metadata.snapshot_by_id(ancestors[-1]) if ancestors else None
    return replace(
        loaded,
        facts=replace(loaded.facts, snapshots=len(ancestors)),
        is_whole=first is not None and _is_first(first),
    )


def _is_first(snapshot: PyIcebergSnapshot) -> bool:
    """Whether a snapshot is a table's first commit.

    That it names no parent does not tell: some catalogs cut it when that expires. And the first commit after an upgrade
    from format 1 has the number 1 too, but it found files there.
    """
    totals = summary_of(snapshot)
    is_all = totals.get("total-data-files", "") == totals.get("added-data-files", "0")
    return snapshot.sequence_number == 1 and snapshot.parent_snapshot_id is None and is_all


def _list_size(table: Table, known: ListSize | None) -> ListSize:
    head, version = table.current_snapshot(), table.metadata.format_version
    if head is None:
        return ListSize("", version, 0, 0, 0)
    if known is not None and (known.location, known.format_version) == (head.manifest_list, version):
        return known
    manifests = read_manifest_list(table.io, head.manifest_list)
    size_bytes = sum(manifest.manifest_length for manifest in manifests)
    needed_less = needless(table.metadata, manifests)
    return ListSize(
        head.manifest_list,
        version,
        len(manifests),
        size_bytes,
        needed_less,
        has_undivided=not dividing_nothing(table.metadata).isdisjoint(oldest_data(manifests)),
    )


def _facts(table: Table, listed: ListSize) -> TableFacts:
    metadata = table.metadata
    fields = partition_fields(metadata)
    chars = sum(len(f.name) + len(f.transform) + len(f.source_type) + CHARS_OF_FIELD for f in fields)
    if chars + len(metadata.location) > MAX_FACTS_CHARS:
        raise UnreadableError(
            f"its location has more than {MAX_FACTS_CHARS} characters, with its {len(fields)} partition fields; "
            "leave it out"
        )
    theirs = rewrite_of_others(metadata)
    jobs = [job for snapshot in metadata.snapshots if (job := summary_of(snapshot).get(JOB_ID))]
    return TableFacts(
        oldest_job=jobs[0][:MOST_TEXT] if jobs else "",
        own_snapshots=len(jobs),
        rewritten_in=None if theirs is None else theirs.snapshot_id,
        rewritten_by="" if theirs is None else rewriter_of(summary_of(theirs)),
        location=metadata.location,
        format_version=metadata.format_version,
        fields=fields,
        default_spec_id=metadata.default_spec_id,
        properties=properties_of_use(metadata),
        manifests=listed.manifests,
        needless_manifests=listed.needless,
        metadata_bytes=listed.bytes,
        metadata_file_bytes=len(table.io.new_input(table.metadata_location)),
        metadata_versions=len(metadata.metadata_log),
        unsupported=unsupported(metadata),
        sortable=kept_names(metadata.schema()),
        unpublished=unpublished(metadata),
        ref_ends=ref_ends(metadata)[:MOST_REF_ENDS],
        whole_until_ms=whole_until_ms(metadata),
        schemas=len(metadata.schemas),
        specs=len(metadata.partition_specs),
        not_moved=why_not_moved(metadata),
        has_undivided=listed.has_undivided,
    )


def properties_of_use(metadata: TableMetadata) -> dict[str, str]:
    """The properties by which a table is maintained and found, cut to a length at which they mean the same.

    Raises:
        UnreadableError: the location, or one that chooses a folder, is longer than any path.
    """
    said = metadata.properties
    if why := too_long(metadata.location, said):
        raise UnreadableError(why)
    return {name: said[name][:MOST_TEXT] for name in PROPERTIES_OF_USE if name in said}


def _strays(metadata: TableMetadata) -> tuple[Astray, ...]:
    left = left_at_ms(metadata)
    return tuple(_stray(snapshot, left.get(snapshot.snapshot_id, 0)) for snapshot in astray(metadata))


def _stray(snapshot: PyIcebergSnapshot, left_ms: int) -> Astray:
    summary = summary_of(snapshot)
    return Astray(
        snapshot.snapshot_id,
        snapshot.sequence_number or 0,
        committed_at_of(summary, snapshot.timestamp_ms),
        token_of(summary),
        is_staged=STAGED_AS in summary,
        left_at_ms=left_ms,
    )


def _known(snapshot: PyIcebergSnapshot, kept_until_ms: int, left_at_ms: int) -> Snapshot:
    return Snapshot(
        snapshot_id=snapshot.snapshot_id,
        sequence_number=snapshot.sequence_number or 0,
        committed_at_ms=committed_at_of(summary_of(snapshot), snapshot.timestamp_ms),
        token=token_of(summary_of(snapshot)),
        is_pinned=kept_until_ms >= FOREVER_MS,
        kept_until_ms=min(kept_until_ms, FOREVER_MS),
        left_at_ms=min(left_at_ms, FOREVER_MS),
        is_rewrite=operation_of(snapshot) == Operation.REPLACE.value,
    )


def name_mapping_of(metadata: TableMetadata) -> str:
    """By which names the columns of files without field ids are found, as the table's property has it."""
    return metadata.properties.get(TableProperties.DEFAULT_NAME_MAPPING, "")


def snapshot_of(table: Table, snapshot_id: int) -> PyIcebergSnapshot:
    """A snapshot by its id. Raises TableMissing where the metadata has it no more."""
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise TableMissing(f"snapshot {snapshot_id} is not in the metadata")
    return snapshot


def added_manifests(io: FileIO, snapshot: PyIcebergSnapshot) -> list[ManifestFile]:
    """The manifests that this snapshot added, without those that only carry files over.

    Raises:
        UnreadableError: they are more than a commit adds.
    """
    added: list[ManifestFile] = []
    for manifest in manifests_listed(io, snapshot.manifest_list):
        # Unknown counts (version 1 may leave them out) are looked into.
        has_news = manifest.added_files_count != 0 or manifest.deleted_files_count != 0
        if manifest.added_snapshot_id == snapshot.snapshot_id and has_news:
            added.append(manifest)
            if len(added) > MOST_ADDED:
                why = (
                    f"{snapshot.manifest_list} names more than {MOST_ADDED} manifests that its snapshot added"
                )
                raise UnreadableError(why)
    return added


def change_of(
    table: Table,
    snapshot: PyIcebergSnapshot,
    manifests: Iterable[ManifestFile],
    fetched: Mapping[str, bytes] = MappingProxyType({}),
    go_on: GoOn = without_end,
) -> Change:
    """What a snapshot did to each partition, from the manifests that it added; the others as of `census`."""
    summary = summary_of(snapshot)
    manifests = list(manifests)
    return Change(
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number or 0,
        committed_at_ms=committed_at_of(summary, snapshot.timestamp_ms),
        operation=operation_of(snapshot),
        origin=origin_of(summary),
        partitions=deltas_of(table, manifests, snapshot.snapshot_id, fetched, go_on),
        manifests=names_of(manifests),
        valid_through_ms=valid_through_of(summary),
        totals=totals_of(summary),
    )


def event_of(table: TableId, snapshot: PyIcebergSnapshot, added: Sequence[ManifestFile]) -> CommitEvent:
    """The announcement of a snapshot."""
    summary = summary_of(snapshot)
    return announcement(
        table,
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number,
        timestamp_ms=committed_at_of(summary, snapshot.timestamp_ms),
        operation=operation_of(snapshot),
        origin=origin_of(summary),
        schema_id=snapshot.schema_id,
        manifest_list=snapshot.manifest_list,
        manifests=added,
        summary={name: text for name, text in summary.items() if is_counter(name)},
        valid_through_ms=valid_through_of(summary),
    )


def names_of(manifests: Iterable[ManifestFile]) -> tuple[tuple[str, int], ...]:
    """What manifests are held against each other by: path and spec."""
    return tuple(sorted((manifest.manifest_path, manifest.partition_spec_id) for manifest in manifests))


def totals_of(summary: Mapping[str, str]) -> dict[str, int]:
    """The counters of a summary by which totals are compared, as far as they are numbers."""
    return {name: int(text) for name, text in summary.items() if is_counter(name) and NUMBER.fullmatch(text)}


def deltas_of(
    table: Table,
    manifests: Iterable[ManifestFile],
    snapshot_id: int,
    fetched: Mapping[str, bytes] = MappingProxyType({}),
    go_on: GoOn = without_end,
) -> dict[PartitionKey, PartitionDelta]:
    """What one snapshot added to and removed from each partition, by these manifests; the others as of `census`."""
    counted = census(table.metadata, table.io, manifests, Question(snapshot_id), fetched=fetched, go_on=go_on)
    return {key: partition.delta() for key, partition in counted.partitions.items()}
