"""From a partition that is due to a job: which of its files go, which deletes apply to them, which stay.

A job names every file that it replaces and every other file of its partition, so that the committer can refuse what
came in between. What we cannot rewrite yet is refused here, with a word for metrics and a sentence for a person.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pyiceberg.io import FileIO
from pyiceberg.manifest import FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import VoidTransform

from isotherm.contract.identity import UNPARTITIONED, PartitionKey, TableId
from isotherm.contract.paths import is_plain, written_under
from isotherm.core.model.files import FileKind
from isotherm.core.model.jobs import CompactionJob, Take
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.names import destination
from isotherm.iceberg.manifests.live import LiveEntry, live_files
from isotherm.iceberg.manifests.position_deletes import DataFiles
from isotherm.iceberg.manifests.reachability import never
from isotherm.iceberg.threads import IsStopped
from isotherm.service.ports import Bound


def bind(
    metadata: TableMetadata,
    io: FileIO,
    snapshot: Snapshot,
    partition: PartitionKey,
    spec_id: int | None = None,
    *,
    job_id: str,
    table: TableId,
    partition_label: str,
    take: Take,
    target_size_bytes: int,
    policy_hash: str,
    why: str,
    is_stopped: IsStopped = never,
) -> Bound | Refusal:
    """A compaction job for a partition as it stands in a snapshot, bound to the files that it will replace.

    What `take` does not name stays; so do files of other specs. Without a `spec_id` the spec of which it names the most
    files is taken.

    Raises:
        Stopped: so it was wanted.
    """
    if refusal := _refusal_of_table(metadata):
        return refusal
    live = live_files(metadata, io, snapshot, partition, is_stopped=is_stopped)
    deletes = [entry for entry in live if entry.kind is FileKind.POSITION_DELETES]
    wanted = _wanted([entry for entry in live if entry.kind is FileKind.DATA], deletes, take)
    spec_id = _spec_with_most_files(wanted) if spec_id is None else spec_id
    data = [entry for entry in live if entry.spec_id == spec_id and entry.kind is FileKind.DATA]
    oldest = min((entry.sequence_number for entry in data), default=snapshot.sequence_number or 0)
    equality = list(_equality_deletes(metadata, io, snapshot, partition, live, oldest, is_stopped))
    if refusal := _refusal_of_files(data, deletes, equality) or _refusal_beside(live, take):
        return refusal
    chosen = _chosen([entry for entry in wanted if entry.spec_id == spec_id], take)
    rewritten = DataFiles(chosen)
    applicable = [delete for delete in deletes if rewritten.may_be_named_by(delete)]
    if not chosen or (len(chosen) == 1 and not applicable):
        of = f"{len(chosen)} of {len(data)} data files is smaller than {take.below_bytes} bytes"
        return Refusal(Reason.NOTHING_TO_DO, f"{of}, and no delete applies")
    taken = {entry.identity for entry in (*chosen, *applicable)}
    job = CompactionJob(
        job_id=job_id,
        table=table,
        partition=partition,
        partition_label=partition_label,
        spec_id=spec_id,
        base_snapshot_id=snapshot.snapshot_id,
        base_sequence_number=snapshot.sequence_number or 0,
        data_files=tuple(entry.live_file() for entry in sorted(chosen, key=_in_order)),
        delete_files=tuple(entry.live_file() for entry in sorted(applicable, key=_in_order)),
        bystanders=frozenset(entry.identity for entry in live if entry.identity not in taken),
        target_size_bytes=target_size_bytes,
        policy_hash=policy_hash,
        why=why,
        destination=destination(metadata, spec_id, partition),
        beside_appends=take.through_number is not None,
    )
    return Bound(job, sum(entry.kind is FileKind.DATA for entry in live))


def _refusal_of_table(metadata: TableMetadata) -> Refusal | None:
    """Why nothing of a table can be compacted, if so."""
    if metadata.format_version != 2:
        return Refusal(
            Reason(f"format_v{metadata.format_version}"),
            f"the table has format version {metadata.format_version}; only version 2 is compacted so far",
        )
    for name, place in written_under(metadata.location, metadata.properties).items():
        if not is_plain(place.rstrip("/")):
            return Refusal(Reason.LOCATION, f"its {name} {place!r} may name another place than it says")
    clash = _ambiguous_field(metadata)
    return None if clash is None else Refusal(Reason.AMBIGUOUS_FIELDS, clash)


def _refusal_of_files(
    data: Iterable[LiveEntry], deletes: Iterable[LiveEntry], equality: list[LiveEntry]
) -> Refusal | None:
    """Why these files cannot be compacted, if they cannot."""
    if equality:
        return Refusal(
            Reason.EQUALITY_DELETES,
            f"{len(equality)} equality-delete files apply, for instance {equality[0].path}",
        )
    for entry in (*data, *deletes):
        if entry.file_format != FileFormat.PARQUET:
            name = entry.file_format.value.lower()
            return Refusal(Reason(f"format_{name}"), f"{entry.path} is an {name} file; only Parquet is read")
        if entry.is_encrypted:
            return Refusal(Reason.ENCRYPTED, f"{entry.path} is encrypted")
    return None


def _refusal_beside(live: Iterable[LiveEntry], take: Take) -> Refusal | None:
    """Why these files cannot be compacted beside their writers, if that is wanted."""
    if take.through_number is None or all(entry.kind is FileKind.DATA for entry in live):
        return None
    why = "it is still written, and holds delete files: its writers do not only append"
    return Refusal(Reason.HOT, why)


def _wanted(data: Sequence[LiveEntry], deletes: Sequence[LiveEntry], take: Take) -> list[LiveEntry]:
    """The data files that a job is about: those that are small enough, and those that deletes may name."""
    if take.through_number is not None:
        data = [entry for entry in data if entry.sequence_number <= take.through_number]
    named = DataFiles(data).named_by(deletes) if take.with_deletes else frozenset()
    return [entry for entry in data if entry.size_bytes < take.below_bytes or entry.identity in named]


def _chosen(wanted: Iterable[LiveEntry], take: Take) -> list[LiveEntry]:
    """As many of them as one job may take: the smallest first, or with deletes the oldest.

    A delete file leaves when no file is left that is as old as it. So deletes leave in the order in which they came, also
    where writers bring new ones all the time.
    """
    chosen: list[LiveEntry] = []
    least, left_bytes = 1 if take.with_deletes else 2, take.at_most_bytes
    for entry in sorted(wanted, key=_in_order if take.with_deletes else _in_size):
        if left_bytes is not None and len(chosen) >= least and entry.size_bytes > left_bytes:
            break
        chosen.append(entry)
        left_bytes = None if left_bytes is None else left_bytes - entry.size_bytes
    return chosen


def _equality_deletes(
    metadata: TableMetadata,
    io: FileIO,
    snapshot: Snapshot,
    partition: PartitionKey,
    live: list[LiveEntry],
    after: int,
    is_stopped: IsStopped,
) -> Iterator[LiveEntry]:
    """Equality deletes of the partition, and those of unpartitioned specs, which apply everywhere.

    Only those with a sequence number above `after`.
    """
    yield from (
        entry for entry in live if entry.kind is FileKind.EQUALITY_DELETES and entry.sequence_number > after
    )
    unpartitioned = {spec_id for spec_id, spec in metadata.specs().items() if _is_unpartitioned(spec)}
    if partition == UNPARTITIONED or not unpartitioned:
        return
    for entry in live_files(metadata, io, snapshot, UNPARTITIONED, is_stopped=is_stopped):
        is_equality = entry.kind is FileKind.EQUALITY_DELETES
        if is_equality and entry.spec_id in unpartitioned and entry.sequence_number > after:
            yield entry


def _is_unpartitioned(spec: PartitionSpec) -> bool:
    """Whether a spec divides nothing, by the specification: what version 1 leaves of a dropped field is a void one."""
    return all(isinstance(field.transform, VoidTransform) for field in spec.fields)


def _ambiguous_field(metadata: TableMetadata) -> str | None:
    """Why partitions of different specs cannot be told apart, or None.

    Tables from before partition fields had ids count them from 1000 in each spec: day 3 of one is bucket 3 of another.
    """
    meanings: dict[int, tuple[int, str]] = {}
    for spec in metadata.partition_specs:
        for field in spec.fields:
            if isinstance(field.transform, VoidTransform):
                continue
            meaning = (field.source_id, str(field.transform))
            first = meanings.setdefault(field.field_id, meaning)
            if first != meaning:
                return (
                    f"partition field {field.field_id} is {first[1]} of column {first[0]} in one spec, and {meaning[1]} "
                    f"of column {meaning[0]} in spec {spec.spec_id}: their partitions cannot be told apart"
                )
    return None


def _spec_with_most_files(wanted: Iterable[LiveEntry]) -> int:
    counts = Counter(entry.spec_id for entry in wanted)
    return max(counts, key=lambda spec_id: (counts[spec_id], spec_id), default=0)


def _in_size(entry: LiveEntry) -> tuple[int, int, str]:
    """The smallest first."""
    return entry.size_bytes, *_in_order(entry)


def _in_order(entry: LiveEntry) -> tuple[int, str]:
    """Oldest first: rows that came together stay together."""
    return entry.sequence_number, entry.path
