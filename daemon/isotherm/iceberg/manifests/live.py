"""What is live in a snapshot, and how partition values stand in manifests.

Whole manifests are skipped by their partition summaries where those tell. It reads through the FileIO that it is
given, writes nothing, commits nothing, and reads no clock.
"""

import math
import struct
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StructType,
    UnknownType,
    UUIDType,
)

from isotherm.contract.identity import (
    UNPARTITIONED,
    PartitionKey,
    Scalar,
    partition_key,
    partition_values,
    scalar,
)
from isotherm.core.model.files import FileKind, LiveFile
from isotherm.iceberg.manifests.reading import read_manifest, read_manifest_list

DELETE_FILE_PATH = 2147483546
"""Field id of `file_path` in position-delete files; its bounds say which data files a delete file can name."""


@dataclass(frozen=True, slots=True)
class LiveEntry:
    """A live file of a snapshot: its manifest entry, everything inherited, and where it stands."""

    entry: ManifestEntry
    manifest: ManifestFile
    partition: PartitionKey

    @property
    def file(self) -> DataFile:
        """The file, as PyIceberg has it."""
        return self.entry.data_file

    @property
    def spec_id(self) -> int:
        """The partition spec by which it was written."""
        return self.manifest.partition_spec_id

    @property
    def sequence_number(self) -> int:
        """Its data sequence number: deletes apply by it. Tables of version 1 have none, which counts as 0."""
        return self.entry.sequence_number or 0

    @property
    def identity(self) -> tuple[str, int | None]:
        """What tells this file from every other: one Puffin file holds the vectors of many data files."""
        return identity(self.entry)

    @property
    def kind(self) -> FileKind:
        """What the file holds."""
        return file_kind(self.file.content, puffin=self.file.file_format == FileFormat.PUFFIN)

    @property
    def referenced_data_file(self) -> str | None:
        """The one data file that a position-delete file names, if it names one: said so, or by equal bounds."""
        if self.kind is FileKind.EQUALITY_DELETES or self.kind is FileKind.DATA:
            return None
        said: str | None = self.file._data[17]  # noqa: SLF001 (0.12 has no property for field 143)
        if said is not None:
            return said
        low, high = self.path_bounds
        return low if low is not None and low == high else None

    @property
    def path_bounds(self) -> tuple[str | None, str | None]:
        """The least and the greatest data file that a position-delete file can name; None where unknown."""
        low = (self.file.lower_bounds or {}).get(DELETE_FILE_PATH)
        high = (self.file.upper_bounds or {}).get(DELETE_FILE_PATH)
        return (low.decode() if low is not None else None, high.decode() if high is not None else None)

    def live_file(self) -> LiveFile:
        """The same as one of our values."""
        return LiveFile(
            path=self.file.file_path,
            kind=self.kind,
            size_bytes=self.file.file_size_in_bytes,
            rows=self.file.record_count,
            sequence_number=self.sequence_number,
            content_offset=self.identity[1],
            referenced_data_file=self.referenced_data_file,
        )


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


# --- what is live -----------------------------------------------------------------------------------------------


def live_files(
    metadata: TableMetadata,
    io: FileIO,
    snapshot: Snapshot,
    partition: PartitionKey | None = None,
    known: dict[str, list[ManifestEntry]] | None = None,
) -> list[LiveEntry]:
    """The live files of a snapshot, of one partition (whatever their spec) or of all.

    `known` keeps the entries of manifests between calls: a manifest never changes, and a commit that lost a race
    looks at the same ones again.
    """
    found: list[LiveEntry] = []
    for manifest in read_manifest_list(io, snapshot.manifest_list):
        if partition is not None and not may_hold(metadata, manifest, partition):
            continue
        for entry in _entries(io, manifest, known):
            if entry.status == ManifestEntryStatus.DELETED:
                continue
            key = entry_partition_key(metadata, manifest.partition_spec_id, entry)
            if partition is None or key == partition:
                found.append(LiveEntry(entry, manifest, key))
    return found


def _entries(
    io: FileIO, manifest: ManifestFile, known: dict[str, list[ManifestEntry]] | None
) -> list[ManifestEntry]:
    if known is None:
        return read_manifest(io, manifest)
    if manifest.manifest_path not in known:
        known[manifest.manifest_path] = read_manifest(io, manifest)
    return known[manifest.manifest_path]


# --- partitions ----------------------------------------------------------------------------------------------


def entry_partition_key(metadata: TableMetadata, spec_id: int, entry: ManifestEntry) -> PartitionKey:
    """The partition of an entry, as a key of the unified partition type."""
    fields = metadata.specs()[spec_id].fields
    if not fields:
        return UNPARTITIONED
    values = entry.data_file.partition
    return partition_key({field.field_id: scalar(values[place]) for place, field in enumerate(fields)})


def typed(value: Scalar | None, field_type: IcebergType) -> Any:
    """The opposite of `scalar`: the value as manifests hold it."""
    if value is None:
        return None
    match field_type:
        case DecimalType():
            return Decimal(str(value))
        case UUIDType():
            return uuid.UUID(str(value))
        case BinaryType() | FixedType():
            return bytes.fromhex(str(value))
        case _:
            return value


def partition_type(metadata: TableMetadata, spec: PartitionSpec) -> StructType:
    """The type of a spec's partition values.

    PyIceberg does not know the type of a field whose source column was dropped, and could then neither read the
    bounds of its values nor write them again; the newest schema that still has the column knows.
    """
    schemas = [metadata.schema(), *sorted(metadata.schemas, key=lambda one: one.schema_id, reverse=True)]
    fields = []
    for field in spec.fields:
        for schema in schemas:
            if field.source_id in schema._lazy_id_to_field:  # noqa: SLF001 (find_field raises instead)
                source = schema.find_field(field.source_id).field_type
                result = field.transform.result_type(source)
                break
        else:
            result = UnknownType()
        fields.append(NestedField(field.field_id, field.name, result, required=False))
    return StructType(*fields)


def partition_record(metadata: TableMetadata, spec_id: int, key: PartitionKey) -> Record:
    """The partition values of a key in the order of a spec."""
    values = partition_values(key)
    fields = partition_type(metadata, metadata.specs()[spec_id]).fields
    return Record(*(typed(values.get(field.field_id), field.field_type) for field in fields))


def may_hold(metadata: TableMetadata, manifest: ManifestFile, key: PartitionKey) -> bool:
    """Whether a manifest may hold files of a partition, by its summaries; true where they do not tell."""
    spec = metadata.specs()[manifest.partition_spec_id]
    values = partition_values(key)
    if any(field_id not in {field.field_id for field in spec.fields} for field_id in values):
        # A value in a field that this spec does not have: its files have no value there.
        return False
    if not manifest.partitions:
        return True
    fields = partition_type(metadata, spec).fields
    return all(
        _summary_may_hold(summary, field.field_type, values.get(field.field_id))
        for field, summary in zip(fields, manifest.partitions, strict=True)
    )


def _summary_may_hold(summary: PartitionFieldSummary, field_type: IcebergType, value: Scalar | None) -> bool:
    if value is None:
        return summary.contains_null
    if isinstance(value, float) and math.isnan(value):
        return summary.contains_nan is not False
    if isinstance(field_type, UnknownType):
        return True
    if summary.lower_bound is None or summary.upper_bound is None:
        # Nothing but nulls and NaN.
        return False
    low, high = (_bound(field_type, bound) for bound in (summary.lower_bound, summary.upper_bound))
    wanted = typed(value, field_type)
    if isinstance(field_type, UUIDType):
        # The specification's order, or that of older Java, which compares the halves as signed numbers.
        return bool(low <= wanted <= high) or _halves(low) <= _halves(wanted) <= _halves(high)
    return bool(low <= wanted <= high)


def _halves(value: uuid.UUID) -> tuple[int, ...]:
    return struct.unpack(">qq", value.bytes)


def _bound(field_type: IcebergType, value: bytes) -> Any:
    """A bound of a summary. A column that was widened has bounds of four bytes in older manifests."""
    if isinstance(field_type, LongType) and len(value) == 4:
        field_type = IntegerType()
    elif isinstance(field_type, DoubleType) and len(value) == 4:
        field_type = FloatType()
    if isinstance(field_type, UUIDType):
        # PyIceberg's conversion leaves it as bytes.
        return uuid.UUID(bytes=value)
    if not isinstance(field_type, PrimitiveType):
        raise TypeError(f"a partition field of type {field_type}")
    return from_bytes(field_type, value)
