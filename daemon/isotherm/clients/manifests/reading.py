"""Manifests and manifest lists as PyIceberg's values, every entry with what it inherits.

They are read with the structs of format version 3 for older tables too: PyIceberg reads with those of version 2 by
default and drops `referenced_data_file`, the offsets of deletion vectors and row ids, and what is rewritten from that
is destroyed.

PyIceberg spends most of its time on a small manifest in resolving its schema: a resolved schema is kept for the
manifests that follow. How the bytes are read is `avro`'s business.

Reads through the FileIO that it is given, a file at a time; writes nothing.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyiceberg.avro.reader import (
    DefaultReader,
    FixedReader,
    NoneReader,
    Reader,
    StructReader,
    UnknownReader,
)
from pyiceberg.avro.resolver import ReadSchemaResolver, SchemaPartnerAccessor
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
)
from pyiceberg.schema import visit_with_partner
from pyiceberg.types import DoubleType, IcebergType, ListType, MapType, StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from isotherm.clients.manifests.avro import (
    MAX_BYTES,
    MAX_LIST_BYTES,
    MAX_UNPACKED_BYTES,
    AvroData,
    UnreadableError,
    content,
)
from isotherm.clients.manifests.entry_projection import Brief, BriefReader
from isotherm.clients.manifests.named_types import explained
from isotherm.clients.whole_doubles import WholeDoubleReader

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

READ_VERSION: Final = 3
_FILE_ROW_ID, MANIFEST_ROW_ID = 16, 15
"""The places of field 142 in a data file, and of field 520 in a manifest: 0.12 has no properties for them."""
MAX_SCHEMA_CHARS = 256 * 1024
"""Of the schema of entries, which takes 4,000 and some hundred for each partition field: resolving more takes seconds."""
MAX_LISTED = 1_000_000
"""Manifests of a list, of a kilobyte each in memory: two years with a commit a minute of which none is merged."""
LAYOUTS_KEPT = 256
"""Resolved schemas, some hundred kilobytes at most: a table has one for each spec and writer."""
KEPT_CHARS = 16 * 1024
"""Of the schema that one of them is resolved from. A longer one takes up to forty times as much, and is resolved again."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Layout:
    """How the entries of a manifest are written."""

    reader: Reader
    partition: StructType
    """The partition values, in the order in which they are written."""
    brief: BriefReader
    """Reads what counting needs of an entry."""


class Manifest:
    """A manifest's bytes, and what its header says of them.

    Raises:
        UnreadableError: the bytes are not those of a manifest; also while it is counted or iterated over.
    """

    def __init__(self, location: str, data: bytes, max_unpacked: int = MAX_UNPACKED_BYTES) -> None:
        self.data = data
        self._avro = AvroData(location, data, max_unpacked)
        self.avro_schema = self._avro.schema
        self.layout = _understood(_layout, self._avro)

    @classmethod
    def read(
        cls, files: FileIO, location: str, length: int | None = None, max_bytes: int = MAX_BYTES
    ) -> "Manifest":
        """The manifest at a location, which has this length where somebody says so.

        Raises:
            TooLargeError: it has more bytes than its length or `max_bytes`.
            UnreadableError: it has fewer bytes than its length, or is no Avro file.
        """
        return cls(location, content(files, location, length, max_bytes))

    @property
    def unpacked_bytes(self) -> int:
        """What was unpacked of it when it was last iterated over."""
        return self._avro.unpacked_bytes

    def count(self) -> int:
        """How many entries its blocks announce, without decoding them."""
        return self._avro.count()

    def __iter__(self) -> Iterator[ManifestEntry]:
        """Its entries as they are written, decoded one after another."""
        return self._avro.decoded(self.layout.reader.read)

    def briefly(self) -> Iterator[Brief]:
        """The same, of each no more than counting needs."""
        return self._avro.decoded(self.layout.brief.read)

    def pieces(self, size_bytes: int) -> Iterator[tuple[int, bytes]]:
        """Its entries as bytes, in pieces of about this size, each with the count that is announced of it."""
        return self._avro.pieces(size_bytes)


class _Resolver(ReadSchemaResolver):
    """PyIceberg's, but for doubles, and for lists of what takes no bytes: they would be read for centuries."""

    def list(self, list_type: ListType, list_partner: IcebergType | None, element_reader: Reader) -> Reader:
        _require_bytes(element_reader)
        return super().list(list_type, list_partner, element_reader)

    def map(
        self, map_type: MapType, map_partner: IcebergType | None, key_reader: Reader, value_reader: Reader
    ) -> Reader:
        _require_bytes(key_reader)
        return super().map(map_type, map_partner, key_reader, value_reader)

    def visit_double(self, double_type: DoubleType, partner: IcebergType | None) -> Reader:  # noqa: ARG002
        return WholeDoubleReader()  # type: ignore[no-untyped-call]


def _require_bytes(reader: Reader) -> None:
    """Raises ValueError: values may take no bytes, so that a list of a few bytes can hold any number of them."""
    waiting = [reader]
    while waiting:
        one = waiting.pop()
        if isinstance(one, StructReader):
            waiting += [field for _, field in one.field_readers]
        elif not isinstance(one, NoneReader | UnknownReader | DefaultReader) and one != FixedReader(0):
            return
    raise ValueError("a list or a map of values that take no bytes")


@lru_cache(maxsize=LAYOUTS_KEPT)
def _layout(avro_schema: str) -> Layout:
    written = explained(json.loads(avro_schema, object_hook=_without_nanos))
    schema = AvroSchemaConversion().avro_to_iceberg(written)
    resolver = _Resolver(
        {-1: ManifestEntry, 2: DataFile}, {0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent}
    )
    wanted = MANIFEST_ENTRY_SCHEMAS[READ_VERSION]
    reader: Reader = visit_with_partner(schema, wanted, resolver, SchemaPartnerAccessor())  # type: ignore[misc]
    partition = schema.find_type("data_file.partition")
    if not isinstance(partition, StructType):
        raise TypeError("its partition values are no struct")
    return Layout(reader, partition, BriefReader(reader))


def _without_nanos(written: dict[str, Any]) -> dict[str, Any]:
    """Nanoseconds, which PyIceberg does not know here, as the plain numbers that they are."""
    return {"type": "long"} if written.get("logicalType") == "timestamp-nanos" else written


def read_manifest_list(files: FileIO, location: str) -> list[ManifestFile]:
    """The manifests of a snapshot.

    Raises:
        UnreadableError: the file is damaged, or ends too early.
    """
    return list(manifests_listed(files, location))


def manifests_listed(
    files: FileIO, location: str, max_bytes: int = MAX_LIST_BYTES, max_unpacked: int = MAX_UNPACKED_BYTES
) -> Iterator[ManifestFile]:
    """The same; it is read now, and decoded one after another, so what is damaged may show only at the end.

    Raises:
        UnreadableError: the file is damaged, ends too early, or (TooLargeError) has more bytes.
    """
    avro = AvroData(location, content(files, location, max_bytes=max_bytes), max_unpacked)
    if (count := avro.count()) > MAX_LISTED:
        raise UnreadableError(f"{location} names {count} manifests, more than {MAX_LISTED}")
    return avro.decoded(_understood(_list_reader, avro).read)


def _understood(understand: "_lru_cache_wrapper[T]", avro: AvroData) -> T:
    """What a header's schema means."""
    length = len(avro.schema)
    if length > MAX_SCHEMA_CHARS:
        raise UnreadableError(
            f"{avro.location} has a schema of {length} characters, more than {MAX_SCHEMA_CHARS}"
        )
    try:
        return understand(avro.schema) if length <= KEPT_CHARS else understand.__wrapped__(avro.schema)
    except Exception as err:  # rubbish ends in whatever a parser says to it
        raise UnreadableError(f"{avro.location}: {err}") from err


@lru_cache(maxsize=LAYOUTS_KEPT)
def _list_reader(avro_schema: str) -> Reader:
    schema = AvroSchemaConversion().avro_to_iceberg(json.loads(avro_schema))
    resolver = _Resolver({-1: ManifestFile, 508: PartitionFieldSummary}, {517: ManifestContent})
    wanted = MANIFEST_LIST_FILE_SCHEMAS[READ_VERSION]
    reader: Reader = visit_with_partner(schema, wanted, resolver, SchemaPartnerAccessor())  # type: ignore[misc]
    return reader


def entries(written: Manifest, manifest: ManifestFile) -> Iterator[ManifestEntry]:
    """Every entry of a manifest, deleted ones too, with what it inherits written into it.

    They come one after another: a large manifest's entries are never all in memory.
    """
    if manifest.content == ManifestContent.DELETES:
        return (_with_inherited(entry, manifest) for entry in written)
    return _with_row_ids((_with_inherited(entry, manifest) for entry in written), first_row_id(manifest))


def first_row_id(of: ManifestFile | DataFile) -> int | None:
    """The id of the first row, of a manifest or of a data file, where it is known (format version 3)."""
    place = MANIFEST_ROW_ID if isinstance(of, ManifestFile) else _FILE_ROW_ID
    # What PyIceberg itself has read of an older list is shorter.
    found: int | None = of._data[place] if place < len(of._data) else None  # noqa: SLF001
    return found


def _with_row_ids(listed: Iterator[ManifestEntry], first: int | None) -> Iterator[ManifestEntry]:
    """The rule of the specification: files without a first row id have those that follow each other in their manifest.

    Without one of the manifest they have none, whatever they say themselves, as in Iceberg's Java.
    """
    following = first
    for entry in listed:
        file = entry.data_file
        if following is None:
            file._data[_FILE_ROW_ID] = None  # noqa: SLF001 (0.12 has no property for field 142)
        elif first_row_id(file) is None and entry.status != ManifestEntryStatus.DELETED:
            file._data[_FILE_ROW_ID] = following  # noqa: SLF001
            following += file.record_count
        yield entry


def _with_inherited(entry: ManifestEntry, manifest: ManifestFile) -> ManifestEntry:
    """The rules of the specification: snapshot id where absent, sequence numbers of what this snapshot added."""
    if entry.snapshot_id is None and manifest.added_snapshot_id is not None:
        entry.snapshot_id = manifest.added_snapshot_id
    inherits = manifest.sequence_number == 0 or entry.status == ManifestEntryStatus.ADDED
    if entry.sequence_number is None and inherits:
        entry.sequence_number = manifest.sequence_number
    if entry.file_sequence_number is None and inherits:
        entry.file_sequence_number = manifest.sequence_number
    entry.data_file.spec_id = manifest.partition_spec_id
    return entry
