"""Writing manifests and manifest lists of format versions 1 to 3, for data and for delete files.

PyIceberg's own writers know no delete manifests, drop `referenced_data_file`, and declare `equality_ids` in a way
that Java cannot read; its Avro layer and its types are what is used here. What an entry says is the caller's
business. A file is written once, whole, and never changed.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Literal
from uuid import UUID

from pydantic_core import to_json
from pyiceberg.avro.codecs import AVRO_CODEC_KEY
from pyiceberg.avro.file import MAGIC, META_SCHEMA, AvroFileHeader, AvroOutputFile
from pyiceberg.avro.resolver import construct_writer
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldStats,
    PartitionFieldSummary,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    NestedField,
    PrimitiveType,
    StructType,
    UUIDType,
)
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from isotherm.clients.manifests.named_types import named_apart
from isotherm.clients.manifests.reading import MANIFEST_ROW_ID, READ_VERSION, first_row_id
from isotherm.core.model.jobs import WrittenFile
from isotherm.iceberg.manifests.partition_values import partition_type, signed_halves

BLOCK_ENTRIES = 500
"""Entries per Avro block: one block each costs a third more time and space, one for all costs memory."""
UNASSIGNED = -1
"""A sequence number that the manifest list decides."""
_WRITABLE = {"gzip": "deflate", "deflate": "deflate", "uncompressed": "null", "zstd": "zstandard"}
"""Codecs by the names of `write.avro.compression-codec`, as far as they need no further library."""
_CONTENT = {ManifestContent.DATA: "data", ManifestContent.DELETES: "deletes"}
_VERSION_3_ONLY = frozenset({142, 144, 145})
_EQUALITY_IDS = 135


def added(
    file: WrittenFile, partition: Record, snapshot_id: int, sequence_number: int, sort_order_id: int = 0
) -> ManifestEntry:
    """The entry of a new data file.

    Its data sequence number is given (deletes that came after it was read must go on applying); its file sequence number is
    that of the snapshot, which it inherits.
    """
    # 0 is "unsorted": of what was read nobody knows how it was sorted.
    return _added(file, partition, snapshot_id, sequence_number, DataFileContent.DATA, sort_order_id)


def added_deletes(
    file: WrittenFile, partition: Record, snapshot_id: int, sequence_number: int
) -> ManifestEntry:
    """The entry of a new position-delete file, which applies to no data file that is younger than its sequence number."""
    return _added(file, partition, snapshot_id, sequence_number, DataFileContent.POSITION_DELETES)


def _added(
    file: WrittenFile,
    partition: Record,
    snapshot_id: int,
    sequence_number: int,
    content: DataFileContent,
    sort_order_id: int | None = None,
) -> ManifestEntry:
    data_file = DataFile.from_args(
        READ_VERSION,
        content=content,
        file_path=file.path,
        file_format=FileFormat.PARQUET,
        partition=partition,
        record_count=file.rows,
        file_size_in_bytes=file.size_bytes,
        column_sizes=dict(file.column_sizes),
        value_counts=dict(file.value_counts),
        null_value_counts=dict(file.null_value_counts),
        nan_value_counts=dict(file.nan_value_counts),
        lower_bounds=dict(file.lower_bounds),
        upper_bounds=dict(file.upper_bounds),
        split_offsets=list(file.split_offsets),
        sort_order_id=sort_order_id,
    )
    return ManifestEntry.from_args(
        READ_VERSION,
        status=ManifestEntryStatus.ADDED,
        snapshot_id=snapshot_id,
        sequence_number=sequence_number,
        data_file=data_file,
    )


def existing(entry: ManifestEntry) -> ManifestEntry:
    """The entry of a file that stays: everything as it was."""
    return _restated(entry, ManifestEntryStatus.EXISTING, entry.snapshot_id)


def deleted(entry: ManifestEntry, snapshot_id: int) -> ManifestEntry:
    """The entry of a file that leaves: the new snapshot's id, the sequence numbers that it had."""
    return _restated(entry, ManifestEntryStatus.DELETED, snapshot_id)


def _restated(entry: ManifestEntry, status: ManifestEntryStatus, snapshot_id: int | None) -> ManifestEntry:
    return ManifestEntry.from_args(
        READ_VERSION,
        status=status,
        snapshot_id=snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )


def write_manifest(
    io: FileIO,
    metadata: TableMetadata,
    location: str,
    spec_id: int,
    content: ManifestContent,
    snapshot_id: int,
    entries: Iterable[ManifestEntry],
) -> ManifestFile:
    """Write a manifest as its entries come; its own sequence number is assigned when it is listed.

    In memory is one block of entries.
    """
    spec = metadata.specs()[spec_id]
    partition = partition_type(metadata, spec)
    sums = _Sums(partition)
    coming = iter(entries)
    with _ManifestOutput(
        io.new_output(location),
        file_schema=_entry_schema(_version(metadata), partition),
        schema_name="manifest_entry",
        record_schema=_entry_schema(READ_VERSION, partition),
        metadata={
            "schema": metadata.schema().model_dump_json(),
            "partition-spec": to_json(spec.fields).decode(),
            "partition-spec-id": str(spec_id),
            "format-version": str(_version(metadata)),
            **({} if _version(metadata) == 1 else {"content": _CONTENT[content]}),
            AVRO_CODEC_KEY: _codec(metadata),
        },
    ) as avro:
        while block := list(islice(coming, BLOCK_ENTRIES)):
            avro.write_block(block)
            sums.add(block)
    return ManifestFile.from_args(
        READ_VERSION,
        manifest_path=location,
        manifest_length=len(io.new_input(location)),
        partition_spec_id=spec_id,
        content=content,
        sequence_number=UNASSIGNED,
        min_sequence_number=UNASSIGNED if sums.least is None else sums.least,
        added_snapshot_id=snapshot_id,
        added_files_count=sums.files[ManifestEntryStatus.ADDED],
        existing_files_count=sums.files[ManifestEntryStatus.EXISTING],
        deleted_files_count=sums.files[ManifestEntryStatus.DELETED],
        added_rows_count=sums.rows[ManifestEntryStatus.ADDED],
        existing_rows_count=sums.rows[ManifestEntryStatus.EXISTING],
        deleted_rows_count=sums.rows[ManifestEntryStatus.DELETED],
        partitions=sums.summaries(),
    )


class _ManifestOutput(AvroOutputFile[ManifestEntry]):
    """PyIceberg's, with a schema that everybody reads."""

    def _write_header(self) -> None:
        schema = AvroSchemaConversion().iceberg_to_avro(self.file_schema, schema_name=self.schema_name)
        said = {**self.metadata, "avro.schema": json.dumps(named_apart(schema))}
        construct_writer(META_SCHEMA).write(self.encoder, AvroFileHeader(MAGIC, said, self.sync_bytes))


def write_manifest_list(
    io: FileIO,
    metadata: TableMetadata,
    location: str,
    snapshot_id: int,
    parent_id: int,
    sequence_number: int,
    manifests: Sequence[ManifestFile],
) -> int:
    """Write the list of a snapshot's manifests; new ones get the snapshot's sequence number, and in version 3 row ids.

    Returns:
        How many row ids were assigned, from the table's `next-row-id` on: none in version 2.
    """
    version = _version(metadata)
    first = next_row_id(metadata)
    listed, assigned = as_listed(manifests, sequence_number, first)
    with AvroOutputFile[ManifestFile](
        io.new_output(location),
        file_schema=MANIFEST_LIST_FILE_SCHEMAS[version],
        schema_name="manifest_file",
        record_schema=MANIFEST_LIST_FILE_SCHEMAS[READ_VERSION],
        metadata={
            "snapshot-id": str(snapshot_id),
            "parent-snapshot-id": str(parent_id),
            **({} if version == 1 else {"sequence-number": str(sequence_number)}),
            **({} if first is None else {"first-row-id": str(first)}),
            "format-version": str(version),
            AVRO_CODEC_KEY: _codec(metadata),
        },
    ) as avro:
        avro.write_block(listed)
    return assigned


def next_row_id(metadata: TableMetadata) -> int | None:
    """From where on row ids are assigned; None where rows have none (format version 2)."""
    return metadata.next_row_id if isinstance(metadata, TableMetadataV3) else None


def _version(metadata: TableMetadata) -> Literal[1, 2, 3]:
    """The format in which a table's manifests are written. Others are refused when a job is bound."""
    return 3 if metadata.format_version == 3 else 2 if metadata.format_version == 2 else 1


def as_listed(
    manifests: Iterable[ManifestFile], sequence_number: int, first: int | None
) -> tuple[list[ManifestFile], int]:
    """Manifests with what the list assigns, and how many row ids that takes.

    Those of data that have no first row id get the next one, and as many as they have rows, also where each file has its
    own already: so does Iceberg's Java.
    """
    found, assigned = [], 0
    for one in manifests:
        manifest = _with_number(one, sequence_number)
        if first is not None and manifest.content == ManifestContent.DATA and first_row_id(one) is None:
            manifest._data[MANIFEST_ROW_ID] = first + assigned  # noqa: SLF001 (0.12 has no property for it)
            assigned += (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
        found.append(manifest)
    return found, assigned


def _with_number(manifest: ManifestFile, sequence_number: int) -> ManifestFile:
    """A manifest with its sequence numbers. A new value: one that lost a race is listed again with another."""
    values: list[Any] = list(manifest._data)  # noqa: SLF001 (PyIceberg's copy() would share it)
    listed = ManifestFile(*values)
    if listed.sequence_number == UNASSIGNED:
        listed.sequence_number = sequence_number
    if listed.min_sequence_number == UNASSIGNED:
        listed.min_sequence_number = sequence_number
    return listed


def _codec(metadata: TableMetadata) -> str:
    """The codec that the table asks for, in Avro's words; gzip where this installation cannot write it.

    Java takes the names in any case, and knows some whose libraries are not here (snappy).
    """
    asked = metadata.properties.get(
        TableProperties.WRITE_AVRO_COMPRESSION, TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT
    ).lower()
    return _WRITABLE.get(asked, "deflate")


def _entry_schema(version: Literal[1, 2, 3], partition: StructType) -> Schema:
    return manifest_entry_schema_with_data_file(version, _data_file_type(version, partition))


def _data_file_type(version: Literal[1, 2, 3], partition: StructType) -> StructType:
    """The columns of a data file in a manifest, with the partition's fields put in."""
    fields = []
    # Version 1 alone has a size of blocks, which must be there and means nothing; PyIceberg fills it in.
    for field in DATA_FILE_TYPE[1 if version == 1 else READ_VERSION].fields:
        if version == 2 and field.field_id in _VERSION_3_ONLY:
            continue
        changed: dict[str, Any] = {}
        if field.field_id == 102:
            changed["field_type"] = partition
        elif field.field_id == _EQUALITY_IDS:
            changed["field_type"] = ListType(
                element_id=136, element_type=IntegerType(), element_required=True
            )
        fields.append(field.model_copy(update=changed) if changed else field)
    return StructType(*fields)


class _Sums:
    """What a manifest list says of a manifest, summed up while it is written."""

    def __init__(self, partition: StructType) -> None:
        self.files = dict.fromkeys(ManifestEntryStatus, 0)
        self.rows = dict.fromkeys(ManifestEntryStatus, 0)
        self.least: int | None = None
        """The least data sequence number of a live file, or None where there is none."""
        self._values = [_stats_of(field) for field in partition.fields]
        self._uuids = {
            place: _Uuids()
            for place, field in enumerate(partition.fields)
            if isinstance(field.field_type, UUIDType)
        }

    def add(self, entries: Iterable[ManifestEntry]) -> None:
        for entry in entries:
            self.files[entry.status] += 1
            self.rows[entry.status] += entry.data_file.record_count
            if entry.status != ManifestEntryStatus.DELETED:
                number = entry.sequence_number or 0
                self.least = number if self.least is None else min(self.least, number)
            # Deleted files count, as in Java.
            for place, stats in enumerate(self._values):
                stats.update(entry.data_file.partition[place])
            for place, uuids in self._uuids.items():
                uuids.add(entry.data_file.partition[place])

    def summaries(self) -> list[PartitionFieldSummary] | None:
        """What the values of each partition field span, or None where readers would not agree on it.

        A manifest without summaries is read by everybody. One whose bounds are in another order than the reader's is
        passed over, and its rows are missing.
        """
        if not all(uuids.has_one_order for uuids in self._uuids.values()):
            return None
        return [_with_both_zeros(stats) for stats in self._values]


def _with_both_zeros(stats: PartitionFieldStats) -> PartitionFieldSummary:
    """The bounds of a field's values. Java takes -0.0 for less than 0.0, and Python for equal: a bound of zero includes both."""
    found = stats.to_summary()
    low, high = found.lower_bound, found.upper_bound
    if isinstance(stats._type, FloatType | DoubleType) and low is not None and high is not None:  # noqa: SLF001
        zero = bytes(len(low))
        minus = zero[:-1] + b"\x80"
        low, high = (minus if low == zero else low), (zero if high == minus else high)
    return PartitionFieldSummary(found.contains_null, found.contains_nan, low, high)


class _Uuids:
    """The least and the greatest UUID of a partition field, in each order that readers have."""

    def __init__(self) -> None:
        self._by_bytes: list[UUID] = []
        self._signed: list[UUID] = []

    def add(self, value: UUID | None) -> None:
        if value is not None:
            self._by_bytes = _ends([*self._by_bytes, value])
            self._signed = _ends([*self._signed, value], signed_halves)

    @property
    def has_one_order(self) -> bool:
        """Whether both orders have the same ends, so that what lies between them does for every reader."""
        return self._by_bytes == self._signed


def _ends(values: list[UUID], order: Callable[[UUID], Any] | None = None) -> list[UUID]:
    """The least and the greatest."""
    return [min(values, key=order), max(values, key=order)]


def _stats_of(field: NestedField) -> PartitionFieldStats:
    if not isinstance(field.field_type, PrimitiveType):
        raise TypeError(f"partition field {field.name} has type {field.field_type}")
    return PartitionFieldStats(field.field_type)
