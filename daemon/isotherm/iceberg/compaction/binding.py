"""From a partition that is due to a job that names its files, or to a sentence that says why there is none.

A job names every file that it replaces and every other file of its partition, so that the committer can refuse what
came in between. What we cannot rewrite yet is refused here, with a word for metrics and a sentence for a person.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pyiceberg.io import FileIO
from pyiceberg.manifest import FileFormat
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import UnknownType

from isotherm.clients.manifests.reading import read_manifest_list
from isotherm.contract.identity import PartitionKey, TableId
from isotherm.contract.paths import normalised
from isotherm.core.model.files import NAMED_BY_PATH, FileKind, LiveFile
from isotherm.core.model.jobs import CompactionJob, Take
from isotherm.core.model.refusals import Reason, Refusal, RefusalError
from isotherm.core.model.tables import WITH_ROW_IDS
from isotherm.core.policy.sort_text import NONE, TABLE
from isotherm.iceberg.compaction.asked_order import asked_order
from isotherm.iceberg.compaction.job_files import Choice, choice_of, in_order
from isotherm.iceberg.compaction.key_columns import key_columns
from isotherm.iceberg.compaction.movable import Movable, movable, place_of
from isotherm.iceberg.compaction.names import destination
from isotherm.iceberg.manifests.deletes import oldest_data
from isotherm.iceberg.manifests.live import LiveEntry, live_elsewhere, live_files
from isotherm.iceberg.manifests.partition_values import partition_type
from isotherm.iceberg.manifests.reachability import reached
from isotherm.iceberg.misplaced import misplaced_table
from isotherm.iceberg.stopping import IsStopped, never
from isotherm.iceberg.unsupported import unsupported
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
    sort: str = NONE,
    is_stopped: IsStopped = never,
) -> Bound | Refusal:
    """A compaction job for a partition as it stands in a snapshot, bound to the files that it will replace.

    What `take` does not name stays; so do files of other specs. Without a `spec_id` the spec of which it names the most
    files is taken. `sort` is what new files are sorted by, as a policy says it. Raises Stopped: so it was wanted.
    """
    if refusal := _refusal_of_table(metadata):
        return refusal
    asked = asked_order(metadata.schema(), sort) if take.rewrites_data else None
    if isinstance(asked, Refusal):
        return asked
    live = live_files(metadata, io, snapshot, partition, is_stopped=is_stopped)
    moved = movable(metadata, io, snapshot, partition, live, take, is_stopped)
    if isinstance(moved, Refusal):
        return moved
    choice = choice_of(live, partition, spec_id, take, _oldest(io, snapshot, take), moved)
    if refusal := (
        _refusal_of_choice(metadata, live, choice, take)
        or _refusal_elsewhere(metadata, io, snapshot, partition, live, choice, is_stopped)
    ):
        return refusal
    job = CompactionJob(
        job_id=job_id,
        table=table,
        partition=partition,
        partition_label=partition_label,
        spec_id=choice.spec_id,
        base_snapshot_id=snapshot.snapshot_id,
        base_sequence_number=snapshot.sequence_number or 0,
        data_files=_ordered(choice.chosen),
        delete_files=_ordered(choice.applicable),
        staying=tuple(choice.staying()) if choice.is_merge else (),
        bystanders=frozenset(entry.identity for entry in live if entry.identity not in choice.taken),
        target_size_bytes=target_size_bytes,
        policy_hash=policy_hash,
        why=why,
        destination=destination(metadata, choice.spec_id, partition),
        beside_appends=take.through_number is not None,
        merges_deletes=choice.is_merge,
        converts_equality=bool(choice.converted),
        sort_order_id=metadata.default_sort_order_id if sort == TABLE else 0,
        asked_order=asked,
    )
    return Bound(_moving(job, metadata, moved), sum(entry.kind is FileKind.DATA for entry in live))


def _moving(job: CompactionJob, metadata: TableMetadata, moved: Movable | None) -> CompactionJob:
    """The job, which writes in the current spec if it moves files."""
    if moved is None:
        return job
    outputs = sorted({key for file in job.data_files for key in moved[file.identity]})
    spec_id = metadata.default_spec_id
    place = place_of(metadata, spec_id, outputs)
    return replace(job, output_spec_id=spec_id, outputs=tuple(outputs), destination=place)


def _oldest(io: FileIO, snapshot: Snapshot, take: Take) -> Mapping[int, int]:
    """The oldest data of every spec, where a job is about deletes that may apply to all of them."""
    if not (take.converts_equality or take.with_deletes):
        return {}
    return oldest_data(read_manifest_list(io, snapshot.manifest_list))


def _refusal_of_table(metadata: TableMetadata) -> Refusal | None:
    """Why nothing of a table can be compacted, if so."""
    if why := misplaced_table(metadata):
        return Refusal(Reason.LOCATION, why)
    if why := unsupported(metadata):
        return Refusal(Reason.UNSUPPORTED, why)
    clash = _ambiguous_field(metadata)
    return None if clash is None else Refusal(Reason.AMBIGUOUS_FIELDS, clash)


def _refusal_of_choice(
    metadata: TableMetadata, live: Sequence[LiveEntry], choice: Choice, take: Take
) -> Refusal | None:
    """Why these files cannot be compacted, by what is known of their partition alone."""
    return (
        _refusal_of_files(metadata, choice)
        or _refusal_beside(live, take)
        or _refusal_of_new_deletes(metadata, choice)
        or choice.refusal(take)
        or _refusal_of_copies(live, choice)
    )


def _refusal_of_spec(metadata: TableMetadata, spec_id: int) -> Refusal | None:
    """Why no manifest of a spec can be written, if so: of a column that was dropped not even an old schema may be left."""
    spec = metadata.specs().get(spec_id)
    for field in () if spec is None else partition_type(metadata, spec).fields:
        if isinstance(field.field_type, UnknownType):
            of = f"partition field {field.name} of spec {spec_id}"
            why = f"{of} is of a column that no schema of the table has any more: its type is not known"
            return Refusal(Reason.AMBIGUOUS_FIELDS, why)
    return None


def _refusal_of_files(metadata: TableMetadata, choice: Choice) -> Refusal | None:
    """Why these files cannot be compacted, if they cannot."""
    if refusal := _refusal_of_spec(metadata, choice.spec_id):
        return refusal
    equality = [entry for entry in choice.applicable if entry.kind is FileKind.EQUALITY_DELETES]
    for entry in (*choice.data, *choice.deletes, *equality):
        if entry.kind is not FileKind.DELETION_VECTORS and entry.file_format != FileFormat.PARQUET:
            name = entry.file_format.value.lower()
            return Refusal(Reason(f"format_{name}"), f"{entry.path} is an {name} file; only Parquet is read")
        if entry.is_encrypted:
            return Refusal(Reason.ENCRYPTED, f"{entry.path} is encrypted")
    try:
        for ids in {entry.equality_ids for entry in equality}:
            key_columns(metadata, ids)
    except RefusalError as err:
        return err.refusal
    return None


def _refusal_of_new_deletes(metadata: TableMetadata, choice: Choice) -> Refusal | None:
    """Why no position-delete file may be written, if so: the table was upgraded after this was planned."""
    if not choice.is_merge or metadata.format_version < WITH_ROW_IDS:
        return None
    why = f"no position-delete file may be added to a table of format version {metadata.format_version}"
    return Refusal(Reason.FORMAT, why)


def _refusal_of_copies(live: Iterable[LiveEntry], choice: Choice) -> Refusal | None:
    """Why files that the table names twice cannot be compacted, if they cannot.

    Whoever picks a snapshot twice adds its files twice, and readers have their rows twice. A file leaves with all its
    copies, so all must be rewritten. Deletes apply to each copy by its own age, but they name the path of all.
    """
    copies = Counter(entry.identity for entry in live)
    taken = Counter(choice.identities)
    torn = [identity for identity, count in taken.items() if copies[identity] != count]
    if choice.applicable:
        named = (*choice.chosen, *(choice.staying() if choice.is_merge else ()))
        torn += [file.identity for file in named if copies[file.identity] > 1]
    if not torn:
        return None
    first = min(torn, key=str)
    why = f"the table names {first[0]} {copies[first]} times, and one job cannot tell these apart"
    return Refusal(Reason.FILE_TWICE, why)


def _refusal_elsewhere(
    metadata: TableMetadata,
    io: FileIO,
    snapshot: Snapshot,
    partition: PartitionKey,
    live: Sequence[LiveEntry],
    choice: Choice,
    is_stopped: IsStopped,
) -> Refusal | None:
    """Why what other partitions hold keeps a partition with deletes from being compacted, if it does."""
    return _refusal_of_deletes_elsewhere(
        metadata, io, snapshot, live, is_stopped
    ) or _refusal_of_files_elsewhere(metadata, io, snapshot, partition, choice, is_stopped)


def _refusal_of_deletes_elsewhere(
    metadata: TableMetadata,
    io: FileIO,
    snapshot: Snapshot,
    live: Sequence[LiveEntry],
    is_stopped: IsStopped,
) -> Refusal | None:
    """Why a partition with deletes on a file of another partition cannot be compacted, if there are any.

    By the specification a delete file lies where its data file lies. Readers apply one that names a single file wherever
    that lies; here it would count as one whose file is gone, and leave. So the whole snapshot is asked for such files.
    """
    here = {normalised(entry.path) for entry in live if entry.kind is FileKind.DATA}
    wanted = {
        path
        for entry in live
        if entry.kind in NAMED_BY_PATH and (path := entry.referenced_data_file) is not None
    }
    missing = {path for path in wanted if normalised(path) not in here}
    if not missing:
        return None
    alone = metadata.model_copy(
        update={"snapshots": [snapshot], "statistics": [], "partition_statistics": []}
    )
    found = reached(alone, io, missing, None, is_stopped)
    if not found:
        return None
    why = f"{len(found)} files of other partitions have their deletes here, for instance {min(found)}"
    return Refusal(Reason.DELETES_ELSEWHERE, why)


def _refusal_of_files_elsewhere(
    metadata: TableMetadata,
    io: FileIO,
    snapshot: Snapshot,
    partition: PartitionKey,
    choice: Choice,
    is_stopped: IsStopped,
) -> Refusal | None:
    """Why a partition whose files are live in another one, too, cannot be compacted with its deletes, if it cannot.

    Which deletes apply to them there, readers do not agree about. What a writer of Iceberg's wrote has a name of its own,
    in the table's folder for data; files that were imported may be anywhere, and in two partitions. For these the whole
    snapshot is asked.
    """
    if not choice.applicable:
        return None
    named = (*choice.chosen, *(choice.staying() if choice.is_merge else ()))
    folder = (
        metadata.properties.get(TableProperties.WRITE_DATA_PATH) or f"{metadata.location.rstrip('/')}/data"
    )
    own = f"{normalised(folder).rstrip('/')}/"
    imported = {file.path for file in named if not normalised(file.path).startswith(own)}
    found = live_elsewhere(metadata, io, snapshot, partition, imported, is_stopped) if imported else set()
    if not found:
        return None
    why = f"{len(found)} files that deletes name are live in another partition too, for instance {min(found)}"
    return Refusal(Reason.FILE_TWICE, why)


def _refusal_beside(live: Iterable[LiveEntry], take: Take) -> Refusal | None:
    """Why these files cannot be compacted beside their writers, if that is wanted."""
    if take.through_number is None or all(entry.kind is FileKind.DATA for entry in live):
        return None
    why = "it is still written, and holds delete files: its writers do not only append"
    return Refusal(Reason.HOT, why)


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


def _ordered(entries: Iterable[LiveEntry]) -> tuple[LiveFile, ...]:
    return tuple(entry.live_file() for entry in sorted(entries, key=in_order))
