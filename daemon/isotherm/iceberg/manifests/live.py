"""What is live in a snapshot.

Whole manifests are skipped by their partition summaries where those tell. It reads through the FileIO that it is
given, writes nothing, commits nothing, and reads no clock.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import VoidTransform

from isotherm.clients.manifests.avro import UnreadableError
from isotherm.clients.manifests.reading import Manifest, entries, first_row_id, read_manifest_list
from isotherm.contract.identity import UNPARTITIONED, PartitionKey
from isotherm.core.model.files import NAMED_BY_PATH, FileKind, LiveFile
from isotherm.iceberg.manifests.fetching import fetched
from isotherm.iceberg.manifests.partition_values import MAX_KEY_CHARS, entry_partition_key, may_hold
from isotherm.iceberg.stopping import IsStopped, Stopped, never

DELETE_FILE_PATH = 2147483546
"""Field id of `file_path` in position-delete files; its bounds say which data files a delete file can name."""

MAX_PATH_CHARS = MAX_KEY_CHARS
"""Of a file's location: no store takes as much, and a job names every file of its partition."""
MAX_FILE_BYTES = 2**50
"""A PiB, of one file: no store takes as much. Budgets count what manifests say."""
MOST_LIVE = 1_000_000
"""Live files of one partition, of half a kilobyte each in memory."""
MOST_TIMES = 10
"""How often a list may name the same manifest: its files are held once for each time."""


@dataclass(frozen=True, slots=True)
class LiveEntry:
    """A live file of a snapshot, without the statistics, which most of a manifest consists of."""

    path: str
    content_offset: int | None
    """Where its content begins in a file that holds several, or None where it is a file of its own."""
    kind: FileKind
    spec_id: int
    """The partition spec by which it was written."""
    partition: PartitionKey
    sequence_number: int
    """Its data sequence number: deletes apply by it. Tables of version 1 have none, which counts as 0."""
    size_bytes: int
    """Of a deletion vector those of its blob."""
    rows: int
    file_format: FileFormat
    is_encrypted: bool
    path_bounds: tuple[str | None, str | None] = (None, None)
    """The least and the greatest data file that a position-delete file can name; None where unknown."""
    referenced_data_file: str | None = None
    """The one data file that a position-delete file names, if it names one: by a field, or by equal bounds."""
    equality_ids: tuple[int, ...] = ()
    """The columns by which equality deletes name rows."""
    is_global: bool = False
    """Equality deletes of a spec that divides nothing: they apply to data of every spec and partition."""
    first_row_id: int | None = None
    """Of a data file: the id of its first row, where rows have ids (format version 3)."""

    @property
    def identity(self) -> tuple[str, int | None]:
        """What tells this file from every other: one Puffin file holds the vectors of many data files."""
        return self.path, self.content_offset

    def live_file(self) -> LiveFile:
        """The same as one of our values."""
        return LiveFile(
            path=self.path,
            kind=self.kind,
            size_bytes=self.size_bytes,
            rows=self.rows,
            sequence_number=self.sequence_number,
            content_offset=self.content_offset,
            referenced_data_file=self.referenced_data_file,
            equality_ids=self.equality_ids,
            first_row_id=self.first_row_id,
        )


Known = dict[tuple[str, int | None], tuple[LiveEntry, ...]]
"""What was found in manifests, by their paths and the first row ids that their lists give them."""


def file_kind(content: DataFileContent, *, puffin: bool) -> FileKind:
    """What a file holds; position deletes in a Puffin file are deletion vectors."""
    match content:
        case DataFileContent.DATA:
            return FileKind.DATA
        case DataFileContent.EQUALITY_DELETES:
            return FileKind.EQUALITY_DELETES
        case DataFileContent.POSITION_DELETES:
            return FileKind.DELETION_VECTORS if puffin else FileKind.POSITION_DELETES


def identity(entry: ManifestEntry) -> tuple[str, int | None]:
    """(path, content offset) of an entry that was read by this module."""
    offset: int | None = entry.data_file._data[18]  # noqa: SLF001 (0.12 has no property for field 144)
    return entry.data_file.file_path, offset


def live_files(
    metadata: TableMetadata,
    io: FileIO,
    snapshot: Snapshot,
    partition: PartitionKey | None = None,
    known: Known | None = None,
    is_stopped: IsStopped = never,
) -> list[LiveEntry]:
    """The live files of a snapshot, of one partition or of all (`live_files_of`)."""
    return live_files_of(
        metadata, io, snapshot, None if partition is None else [partition], known, is_stopped
    )


def live_files_of(
    metadata: TableMetadata,
    io: FileIO,
    snapshot: Snapshot,
    partitions: Collection[PartitionKey] | None,
    known: Known | None = None,
    is_stopped: IsStopped = never,
) -> list[LiveEntry]:
    """The live files of a snapshot, of some partitions (whatever their spec) or of all.

    With those of partitions come the equality deletes of specs that divide nothing: they apply everywhere.

    In memory are the files that are asked for, and one manifest. `known` keeps what was found in each manifest between
    calls: a manifest never changes, and a commit that lost a race looks at the same ones again. But the ids of its rows are
    said by who lists it: one of format version 2 has them from the first commit of version 3 on.

    Raises:
        Stopped: so it was wanted, between two manifests.
    """
    known = {} if known is None else known
    found: list[LiveEntry] = []
    times = Counter[str]()
    is_divided = partitions is not None and UNPARTITIONED not in partitions
    everywhere = dividing_nothing(metadata) if is_divided else frozenset[int]()
    asked: list[tuple[ManifestFile, bool]] = []
    """Those that may hold such files, each with whether it has deletes that apply everywhere."""
    for manifest in read_manifest_list(io, snapshot.manifest_list):
        is_global = manifest.content == ManifestContent.DELETES and manifest.partition_spec_id in everywhere
        if is_global or partitions is None or may_hold(metadata, manifest, *partitions):
            asked.append((manifest, is_global))
    unknown = {_which(manifest): manifest for manifest, _ in asked if _which(manifest) not in known}
    reading = fetched(io, list(unknown.values()))
    for manifest, is_global in asked:
        if is_stopped():
            raise Stopped
        path, which = manifest.manifest_path, _which(manifest)
        if which not in known:
            live = _live_in(metadata, next(reading), manifest, None if is_global else partitions)
            ours = (one for one in live if not is_global or one.kind is FileKind.EQUALITY_DELETES)
            known[which] = tuple(islice(ours, MOST_LIVE + 1))
        times[path] += bool(known[which])
        if times[path] > MOST_TIMES:
            raise UnreadableError(f"{snapshot.manifest_list} names {path} more than {MOST_TIMES} times")
        found += known[which]
        if len(found) > MOST_LIVE:
            raise UnreadableError(
                f"the partition has more than {MOST_LIVE} live files; no job can name them all"
            )
    return found


def by_partition(
    live: Iterable[LiveEntry], partitions: Iterable[PartitionKey]
) -> dict[PartitionKey, list[LiveEntry]]:
    """What concerns each partition: its own files, and the deletes that apply everywhere."""
    found: dict[PartitionKey, list[LiveEntry]] = {key: [] for key in partitions}
    for entry in live:
        if entry.partition in found:
            found[entry.partition].append(entry)
        elif entry.is_global:
            for of_partition in found.values():
                of_partition.append(entry)
    return found


def live_elsewhere(
    metadata: TableMetadata,
    io: FileIO,
    snapshot: Snapshot,
    partition: PartitionKey,
    paths: Collection[str],
    is_stopped: IsStopped = never,
) -> set[str]:
    """Those of some data files that are live in another partition, too; all of data are read for it. Raises Stopped."""
    found: set[str] = set()
    listed = read_manifest_list(io, snapshot.manifest_list)
    of_data = [manifest for manifest in listed if manifest.content == ManifestContent.DATA]
    for manifest, written in zip(of_data, fetched(io, of_data), strict=True):
        if is_stopped():
            raise Stopped
        live = _live_in(metadata, written, manifest, None)
        found.update(one.path for one in live if one.partition != partition and one.path in paths)
    return found


def dividing_nothing(metadata: TableMetadata) -> frozenset[int]:
    """The specs without partitions, by the specification: what version 1 leaves of a dropped field is a void one."""
    return frozenset(
        spec_id
        for spec_id, spec in metadata.specs().items()
        if all(isinstance(field.transform, VoidTransform) for field in spec.fields)
    )


def _which(manifest: ManifestFile) -> tuple[str, int | None]:
    return manifest.manifest_path, first_row_id(manifest)


def _live_in(
    metadata: TableMetadata,
    written: Manifest,
    manifest: ManifestFile,
    partitions: Collection[PartitionKey] | None,
) -> Iterator[LiveEntry]:
    spec_id = manifest.partition_spec_id
    is_whole = spec_id in dividing_nothing(metadata)
    wanted = None if partitions is None else {key: key for key in partitions}
    for entry in entries(written, manifest):
        if entry.status == ManifestEntryStatus.DELETED:
            continue
        key = entry_partition_key(metadata, spec_id, entry)
        if wanted is None or key in wanted:
            # One text for all files of a partition.
            yield _live_entry(entry, spec_id, key if wanted is None else wanted[key], is_whole=is_whole)


def _live_entry(entry: ManifestEntry, spec_id: int, partition: PartitionKey, *, is_whole: bool) -> LiveEntry:
    file = entry.data_file
    path, offset = identity(entry)
    texts = (path, file._data[17] or "")  # noqa: SLF001 (0.12 has no property for field 143)
    if max(map(len, texts)) > MAX_PATH_CHARS or len(file.equality_ids or ()) > MAX_PATH_CHARS:
        raise UnreadableError(f"a file's location has more than {MAX_PATH_CHARS} characters: {path[:100]}…")
    blob_bytes: int | None = file._data[19]  # noqa: SLF001 (0.12 has no property for field 145)
    size_bytes = file.file_size_in_bytes if blob_bytes is None else blob_bytes
    if not 0 <= size_bytes <= MAX_FILE_BYTES:
        raise UnreadableError(f"{path} cannot have {size_bytes} bytes, as its manifest says")
    kind = file_kind(file.content, puffin=file.file_format == FileFormat.PUFFIN)
    names_data_files = kind in NAMED_BY_PATH
    bounds = _path_bounds(file) if names_data_files else (None, None)
    return LiveEntry(
        path=path,
        content_offset=offset,
        kind=kind,
        spec_id=spec_id,
        partition=partition,
        sequence_number=entry.sequence_number or 0,
        size_bytes=size_bytes,
        rows=file.record_count,
        file_format=file.file_format,
        is_encrypted=file.key_metadata is not None,
        path_bounds=bounds,
        referenced_data_file=_referenced(file, bounds) if names_data_files else None,
        equality_ids=tuple(file.equality_ids or ()) if kind is FileKind.EQUALITY_DELETES else (),
        is_global=kind is FileKind.EQUALITY_DELETES and is_whole,
        first_row_id=first_row_id(file) if kind is FileKind.DATA else None,
    )


def _path_bounds(file: DataFile) -> tuple[str | None, str | None]:
    low = (file.lower_bounds or {}).get(DELETE_FILE_PATH)
    high = (file.upper_bounds or {}).get(DELETE_FILE_PATH)
    return _text(low), _text(high)


def _text(bound: bytes | None) -> str | None:
    """A bound as text. One that a writer cut off within a character says nothing, nor one that no location has."""
    try:
        return None if bound is None or len(bound) > MAX_PATH_CHARS else bound.decode()
    except UnicodeDecodeError:
        return None


def _referenced(file: DataFile, bounds: tuple[str | None, str | None]) -> str | None:
    field: str | None = file._data[17]  # noqa: SLF001 (0.12 has no property for field 143)
    low, high = bounds
    return low if field is None and low == high else field
