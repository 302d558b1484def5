"""Files counted by partition: all that are live in some manifests, or what one snapshot added and removed there.

Large manifests are read as columns, small ones, and those that cannot be read so, entry by entry (that is counted).
Both give the same. Manifests are summed up as they are read, some at the same time: what stays in memory depends on
how many partitions there are, not on how many files. No clock, no writing.
"""

import sys
import threading
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestEntryStatus, ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import UUIDType

from isotherm.clients.manifests.avro import ALONE_BYTES, UnreadableError
from isotherm.clients.manifests.entry_projection import Brief
from isotherm.clients.manifests.reading import Manifest
from isotherm.contract.identity import PartitionKey, scalar
from isotherm.core.model.changes import PartitionDelta
from isotherm.core.model.files import NO_FILES, FileKind, FileStats, bucket_bounds, size_bucket
from isotherm.core.stream_boundary import by_rows
from isotherm.iceberg.manifests.columns import NotReadError, read_columns
from isotherm.iceberg.manifests.event_time import TimeColumn, time_column
from isotherm.iceberg.manifests.live import file_kind
from isotherm.iceberg.manifests.partition_values import checked_key
from isotherm.service.ports import GoOn, without_end

LARGE_BYTES = 24 * 1024
"""From this size on columns are the faster: their set-up costs as much as PyIceberg needs for some 150 entries."""
DELETED, EXISTING = ManifestEntryStatus.DELETED.value, ManifestEntryStatus.EXISTING.value
ENTRY_BY_ENTRY = sys.maxsize
"""No manifest is large: PyIceberg reads them all."""
MAX_KEYS_CHARS = 128 * 1024 * 1024
"""Of all keys that are counted together: a million partitions with two values have half of it."""
KEYS_KEPT = 20_000
"""Keys of whole numbers, as those of time are: one commit after another writes the same partitions."""
FIELDS_KEPT = 4
"""Of such a key at most. They are kept for as long as the daemon runs: some megabytes."""
_WHOLE_NUMBERS = frozenset({int, bool, type(None)})
STEP = 10
"""Entries between two looks at the time: each may take seconds, and most take some microseconds."""
READERS = 4
"""Manifests read at the same time: two cores are busy, and requests to an object store overlap."""


@dataclass(frozen=True, slots=True)
class Question:
    """Which entries count."""

    snapshot_id: int | None = None
    """Counts what this snapshot added and removed, or what is live where this is None."""
    numbers: Mapping[int, int] = field(default_factory=dict)
    """Snapshots of writers in the order in which they wrote; all others are number 0."""
    ours: Mapping[int, int] = field(default_factory=dict)
    """The same of our own that rewrote data."""
    conversions: Mapping[int, int] = field(default_factory=dict)
    """The same of our own that made position deletes of equality deletes."""


@dataclass(slots=True)
class Counted:
    """One partition: files, rows and bytes, what left taken off."""

    data: dict[int, list[int]] = field(default_factory=dict)
    deletes: dict[FileKind, list[int]] = field(default_factory=dict)
    delete_sizes: dict[int, list[int]] = field(default_factory=dict)
    """Position deletes by size bucket."""
    added: list[int] = field(default_factory=lambda: [0, 0, 0])
    removed: list[int] = field(default_factory=lambda: [0, 0, 0])
    number: int = 0
    """The greatest number of a writer's snapshot that added one of its files."""
    ours: int = 0
    """The same of our own snapshots that read all data for it."""
    reached: list[tuple[int, int]] = field(default_factory=list)
    """How far the event time of files that came reaches, in milliseconds, and how many rows they have."""

    def delta(self) -> PartitionDelta:
        """The same as one of our values."""
        return PartitionDelta(
            data={bucket: _stats(sums) for bucket, sums in self.data.items()},
            deletes={kind: _stats(sums) for kind, sums in self.deletes.items()} if self.deletes else {},
            delete_sizes={bucket: _stats(sums) for bucket, sums in self.delete_sizes.items()}
            if self.delete_sizes
            else {},
            added=_stats(self.added),
            removed=_stats(self.removed),
            reached_ms=by_rows(self.reached),
        )


def _stats(sums: list[int]) -> FileStats:
    return FileStats(*sums) if any(sums) else NO_FILES


@dataclass(slots=True)
class Census:
    """What was counted."""

    partitions: dict[PartitionKey, Counted] = field(default_factory=dict)
    files: int = 0
    read_slowly: int = 0
    """Large manifests that could not be read as columns."""


def census(
    metadata: TableMetadata,
    io: FileIO,
    manifests: Iterable[ManifestFile],
    question: Question,
    large_bytes: int = LARGE_BYTES,
    fetched: Mapping[str, bytes] = MappingProxyType({}),
    go_on: GoOn = without_end,
) -> Census:
    """Count the files of some manifests of a table.

    `fetched` holds the bytes of those that were read already, by path. One that is there several times is read once, and
    counts each time.

    Raises:
        UnreadableError: one of them makes no sense.
        TooLong: `go_on` says so, between two manifests or within one.
    """
    times = Counter(map(_which, listed := list(manifests)))
    manifests = list({_which(manifest): manifest for manifest in listed}.values())
    sheet = _Sheet(metadata)
    # Of what is live nobody asks how late it came.
    specs = {} if question.snapshot_id is None else metadata.specs()
    columns = {spec_id: time_column(metadata, spec) for spec_id, spec in specs.items()}

    def count(manifest: ManifestFile) -> None:
        go_on()
        path, data = manifest.manifest_path, fetched.get(manifest.manifest_path)
        written = Manifest.read(io, path, manifest.manifest_length) if data is None else Manifest(path, data)
        column = columns.get(manifest.partition_spec_id)
        if len(written.data) < large_bytes:
            sums = _entry_by_entry(written, manifest, question, column, go_on)
            sheet.take(manifest, sums, times[_which(manifest)])
            return
        try:
            tables = read_columns(written, manifest, column)
            groups = _groups(tables, question, written, go_on)
        except NotReadError:
            sheet.census.read_slowly += 1
            sums = _entry_by_entry(written, manifest, question, column, go_on)
        else:
            sums = (one for group in groups for one in _sums(group, written))
        sheet.take(manifest, sums, times[_which(manifest)])

    # The length is what a list says, and no more than that is read.
    together = [manifest for manifest in manifests if manifest.manifest_length <= ALONE_BYTES]
    for manifest in manifests:
        if manifest.manifest_length > ALONE_BYTES or len(together) < READERS:
            count(manifest)
    if len(together) < READERS:
        return sheet.census
    pool = ThreadPoolExecutor(READERS, thread_name_prefix="census")
    try:
        for _ in pool.map(count, together):
            pass
    finally:
        pool.shutdown(cancel_futures=True)
    return sheet.census


def _which(manifest: ManifestFile) -> tuple[object, ...]:
    """What tells a manifest, and how it is counted, from every other."""
    return (
        manifest.manifest_path,
        manifest.manifest_length,
        manifest.partition_spec_id,
        manifest.added_snapshot_id,
    )


class _Sum(NamedTuple):
    """Files of one partition, kind and size."""

    values: tuple[Any, ...]
    kind: FileKind
    bucket: int
    removed: bool
    files: int
    rows: int
    bytes: int
    number: int
    reached_ms: int | None
    ours: int


class _Sheet:
    """A census while it is taken, by several threads."""

    def __init__(self, metadata: TableMetadata) -> None:
        self.census = Census()
        self._specs = metadata.specs()
        self._keys: dict[tuple[int, tuple[Any, ...]], PartitionKey] = {}
        self._chars = 0
        """Of all partitions' keys."""
        self._lock = threading.Lock()

    def take(self, manifest: ManifestFile, sums: Iterable[_Sum], times: int) -> None:
        """Put down what a manifest holds, so many times."""
        spec_id = manifest.partition_spec_id
        field_ids = tuple(field.field_id for field in self._specs[spec_id].fields)
        with self._lock:
            for one in sums:
                self._put(self._key(spec_id, field_ids, one.values), one, times)

    def _put(self, key: PartitionKey, one: _Sum, times: int) -> None:
        partition = self.census.partitions.get(key)
        if partition is None:
            self._chars += len(key)
            if self._chars > MAX_KEYS_CHARS:
                raise UnreadableError(
                    f"its partition values have more than {MAX_KEYS_CHARS} characters together"
                )
            partition = self.census.partitions[key] = Counted()
        is_data = one.kind is FileKind.DATA
        if is_data:
            sums = partition.data.setdefault(one.bucket, [0, 0, 0])
        else:
            sums = partition.deletes.setdefault(one.kind, [0, 0, 0])
        signed = -times if one.removed else times
        _add(sums, one, signed)
        if not is_data and one.kind is FileKind.POSITION_DELETES:
            _add(partition.delete_sizes.setdefault(one.bucket, [0, 0, 0]), one, signed)
        _add(partition.removed if one.removed else partition.added, one, times)
        partition.number = max(partition.number, one.number)
        if one.reached_ms is not None and is_data and not one.removed:
            partition.reached.append((one.reached_ms, times * one.rows))
        partition.ours = max(partition.ours, one.ours)
        self.census.files += times * one.files

    def _key(self, spec_id: int, field_ids: tuple[int, ...], values: tuple[Any, ...]) -> PartitionKey:
        known = self._keys.get((spec_id, values))
        if known is not None:
            return known
        if len(values) < len(field_ids):
            raise UnreadableError(f"{len(values)} partition values, and {len(field_ids)} fields in the spec")
        kinds = set(map(type, values))
        are_few = len(values) <= FIELDS_KEPT and kinds <= _WHOLE_NUMBERS
        key = (_key_of if are_few else _key_of.__wrapped__)(field_ids, *values)
        # 0.0 and -0.0 are two partitions, and one to a dictionary.
        if float not in kinds:
            self._keys[spec_id, values] = key
        return key


@lru_cache(maxsize=KEYS_KEPT, typed=True)
def _key_of(field_ids: tuple[int, ...], *values: Any) -> PartitionKey:
    return checked_key(dict(zip(field_ids, map(scalar, values), strict=False)))


def _add(sums: list[int], one: _Sum, times: int) -> None:
    sums[0] += times * one.files
    sums[1] += times * one.rows
    sums[2] += times * one.bytes


# --- entry by entry ------------------------------------------------------------------------------------------


def _entry_by_entry(
    written: Manifest, manifest: ManifestFile, question: Question, column: TimeColumn | None, go_on: GoOn
) -> Iterator[_Sum]:
    for place, entry in enumerate(written.briefly()):
        if place % STEP == 0:
            go_on()
        removed = entry.status == DELETED
        # An entry without a snapshot inherits the manifest's.
        snapshot_id = manifest.added_snapshot_id if entry.snapshot_id is None else entry.snapshot_id
        if question.snapshot_id is None:
            if removed:
                continue
        elif entry.status == EXISTING or snapshot_id != question.snapshot_id:
            continue
        yield _Sum(
            values=entry.partition,
            kind=FileKind.DATA if not entry.content else _kind_of_deletes(entry),
            bucket=size_bucket(entry.size_bytes),
            removed=removed,
            files=1,
            rows=entry.rows,
            bytes=entry.size_bytes,
            number=0 if snapshot_id is None else question.numbers.get(snapshot_id, 0),
            reached_ms=None if column is None else column.reached_ms(entry.upper_bounds),
            ours=0 if snapshot_id is None else _jobs(question, is_data=not entry.content).get(snapshot_id, 0),
        )


def _jobs(question: Question, *, is_data: bool) -> Mapping[int, int]:
    return question.ours if is_data else question.conversions


def _kind_of_deletes(entry: Brief) -> FileKind:
    try:
        puffin = FileFormat(entry.file_format) is FileFormat.PUFFIN
    except ValueError as err:
        raise UnreadableError(f"a file has the format {entry.file_format}") from err
    return file_kind(DataFileContent(entry.content), puffin=puffin)


# --- columns -------------------------------------------------------------------------------------------------

_BUCKETS = pa.array([-(2**63), *(bucket_bounds(bucket)[0] for bucket in range(1, 126))], pa.int64())
"""Where the buckets of `size_bucket` begin."""


def _groups(tables: Iterable[pa.Table], question: Question, written: Manifest, go_on: GoOn) -> list[pa.Table]:
    """The entries that count, summed up batch by batch: nobody knows before the last one whether they are whole."""
    groups, key_bytes = list[pa.Table](), 0
    for table in tables:
        go_on()
        group = _grouped(table, question, written)
        key_bytes += sum(
            group.column(f"p{place}").nbytes for place in range(len(written.layout.partition.fields))
        )
        if key_bytes > MAX_KEYS_CHARS:
            raise NotReadError("its batches have too many partition values to be in memory together")
        groups.append(group)
    return groups


def _grouped(table: pa.Table, question: Question, written: Manifest) -> pa.Table:
    """The entries of a batch that count, summed up."""
    removed = pc.equal(table.column("status"), ManifestEntryStatus.DELETED.value)
    if question.snapshot_id is None:
        counts = pc.invert(removed)
    else:
        existing = pc.equal(table.column("status"), ManifestEntryStatus.EXISTING.value)
        counts = pc.and_not(pc.equal(table.column("snapshot"), question.snapshot_id), existing)
    snapshots = table.column("snapshot")
    ours = pc.if_else(
        pc.equal(table.column("content"), DataFileContent.DATA.value),
        _numbered(snapshots, _jobs(question, is_data=True)),
        _numbered(snapshots, _jobs(question, is_data=False)),
    )
    bucket = pc.subtract(pc.search_sorted(_BUCKETS, table.column("bytes"), side="right"), 1)
    keys = [f"p{place}" for place in range(len(written.layout.partition.fields))]
    keys += ["content", "puffin", "bucket", "removed", "reached"]
    return (
        table.append_column("removed", removed)
        .append_column("bucket", bucket)
        .append_column("number", _numbered(snapshots, question.numbers))
        .append_column("ours", ours)
        .filter(counts)
        .group_by(keys, use_threads=False)
        .aggregate(
            [
                ([], "count_all"),
                *((name, "sum") for name in ("rows", "bytes")),
                *((name, "max") for name in ("number", "ours")),
            ]
        )
    )


def _numbered(snapshots: pa.ChunkedArray, numbers: Mapping[int, int]) -> pa.ChunkedArray:
    places = pc.index_in(snapshots, pa.array(numbers.keys(), pa.int64()))
    return pc.fill_null(pa.array(numbers.values(), pa.int64()).take(places), 0)


def _sums(group: pa.Table, written: Manifest) -> Iterator[_Sum]:
    fields = written.layout.partition.fields
    names = (
        "content",
        "puffin",
        "bucket",
        "removed",
        "count_all",
        "rows_sum",
        "bytes_sum",
        "number_max",
        "reached",
        "ours_max",
    )
    values = (f"p{place}" for place in range(len(fields)))
    columns = [group.column(name).to_pylist() for name in (*values, *names)]
    for place, one in enumerate(fields):
        if isinstance(one.field_type, UUIDType):
            columns[place] = [None if value is None else uuid.UUID(bytes=value) for value in columns[place]]
    for row in zip(*columns, strict=True):
        content, puffin, *others = row[len(fields) :]
        yield _Sum(row[: len(fields)], file_kind(DataFileContent(content), puffin=puffin), *others)
