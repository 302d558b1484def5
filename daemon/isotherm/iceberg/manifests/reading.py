"""Manifests and manifest lists as PyIceberg's values, every entry with what it inherits.

They are read with the structs of format version 3 for older tables too: PyIceberg reads with those of version 2 by
default and drops `referenced_data_file`, the offsets of deletion vectors and row ids, and what is rewritten from that
is destroyed.

PyIceberg takes a file that ends too early for one that has ended, and spends most of its time on a small manifest in
resolving its schema: here the blocks are walked strictly, and a resolved schema is kept for the manifests that follow.
Two faults of its compiled decoder are kept away from, both mended after 0.12.0: it rounds doubles to single precision
(apache/iceberg-python#3808), and reads on behind the end of what it was given (#3955).

Reads through the FileIO that it is given, a file at a time; writes nothing.
"""

import io
import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from pyiceberg.avro.codecs import AVRO_CODEC_KEY
from pyiceberg.avro.decoder import BinaryDecoder, StreamingBinaryDecoder, new_decoder
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.file import META_SCHEMA, SYNC_SIZE, AvroFileHeader
from pyiceberg.avro.reader import DoubleReader, Reader
from pyiceberg.avro.resolver import (
    ReadSchemaResolver,
    SchemaPartnerAccessor,
    construct_reader,
    construct_writer,
    resolve_reader,
)
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
from pyiceberg.types import DoubleType, IcebergType, StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from isotherm.iceberg.manifests.brief import Brief, BriefReader
from isotherm.iceberg.storage import retried

READ_VERSION: Final = 3
LAYOUTS_KEPT = 256
"""Resolved schemas, some hundred kilobytes at most: a table has one for each spec and writer."""
MAX_BYTES = 64 * 1024 * 1024
"""Of a manifest or a manifest list: eight times what writers aim at. What is larger is no manifest, or an attack."""
PIECE_BYTES = 1024 * 1024
"""What is asked for at a time: PyArrow takes that much memory before it looks how much there is."""
_MAGIC = b"Obj\x01"
_SCHEMA = "avro.schema"
_HEADER: Final[Reader] = construct_reader(META_SCHEMA, {-1: AvroFileHeader})


class UnreadableError(ValueError):
    """A manifest makes no sense."""


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

    def __init__(self, location: str, data: bytes) -> None:
        self.location, self.data = location, data
        try:
            if not data.startswith(_MAGIC):
                raise ValueError("it does not begin as an Avro file does")  # noqa: TRY301 (one place says what failed)
            decoder = StreamingBinaryDecoder(data)
            header: Any = _HEADER.read(decoder)
            self._header, self._codec = header, header.compression_codec()
            self._start = decoder.tell()
            self.avro_schema: str = header.meta[_SCHEMA]
            self.layout = _layout(self.avro_schema)
        except Exception as err:
            raise UnreadableError(f"manifest {location}: {err}") from err

    @classmethod
    def read(cls, files: FileIO, location: str, length: int | None = None) -> "Manifest":
        """The manifest at a location, which has this length where somebody says so.

        Raises:
            UnreadableError: it has another length, or is no Avro file of at most `MAX_BYTES`.
        """
        return cls(location, _content(files, location, length))

    def count(self) -> int:
        """How many entries its blocks announce, without decoding them."""
        return sum(count for count, _ in self._blocks())

    def __iter__(self) -> Iterator[ManifestEntry]:
        """Its entries as they are written, decoded one after another."""
        return self._decoded(self.layout.reader.read)

    def briefly(self) -> Iterator[Brief]:
        """The same, of each no more than counting needs."""
        return self._decoded(self.layout.brief.read)

    def _decoded(self, read: Callable[[BinaryDecoder], Any]) -> Iterator[Any]:
        for count, block in self._blocks():
            try:
                decoder = new_decoder(self._codec.decompress(block) if self._codec else block)
                for _ in range(count):
                    yield read(decoder)
            except Exception as err:  # every codec has errors of its own
                raise UnreadableError(f"manifest {self.location}: {err}") from err

    def under(self, avro_schema: str) -> bytes:
        """The same entries in a file with another schema, which must tell the same of each byte."""
        buffer = io.BytesIO()
        meta = {_SCHEMA: avro_schema, AVRO_CODEC_KEY: self._header.meta[AVRO_CODEC_KEY]}
        header = AvroFileHeader(_MAGIC, meta, self._header.sync)
        construct_writer(META_SCHEMA).write(BinaryEncoder(buffer), header)
        return buffer.getvalue() + self.data[self._start :]

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        return _blocks(self.location, self.data, self._start, self._header.sync)


def _content(files: FileIO, location: str, length: int | None = None) -> bytes:
    """The bytes of an Avro file, of which no more are read than it may have.

    An event may name a data file of gigabytes as its manifest.
    """
    limit = MAX_BYTES if length is None else length
    if limit > MAX_BYTES:
        raise UnreadableError(f"{location} is said to have {limit} bytes, more than {MAX_BYTES}")

    def read() -> bytes:
        with files.new_input(location).open() as stream:
            begin = bytes(stream.read(len(_MAGIC)))
            if begin != _MAGIC:
                raise UnreadableError(f"{location} does not begin as an Avro file does")
            pieces, left = [begin], max(limit - len(begin), 0) + 1
            while left and (piece := bytes(stream.read(min(left, PIECE_BYTES)))):
                pieces.append(piece)
                left -= len(piece)
            return b"".join(pieces)

    data = retried(read)
    if len(data) > limit:
        raise UnreadableError(f"{location} has more than {limit} bytes")
    if length is not None and len(data) < length:
        raise UnreadableError(f"{location} has {len(data)} bytes, and should have {length}")
    return data


def _blocks(location: str, data: bytes, start: int, sync: bytes) -> Iterator[tuple[int, bytes]]:
    """The blocks of an Avro file, whole or not at all: PyIceberg takes one that is cut off for the end of the file."""
    # The zeros end a number that the end of the file cuts off.
    decoder = new_decoder(data + bytes(SYNC_SIZE))
    decoder.skip(start)
    while (position := decoder.tell()) < len(data):
        count, size = decoder.read_int(), decoder.read_int()
        if count < 0 or size < 0 or decoder.tell() + size + SYNC_SIZE > len(data):
            raise UnreadableError(f"{location} ends within the block at {position}")
        block = decoder.read(size)
        if decoder.read(SYNC_SIZE) != sync:
            raise UnreadableError(f"{location} has no end of the block at {position}")
        yield count, block


class _WholeDoubleReader(DoubleReader):
    """All eight bytes of a double."""

    def read(self, decoder: BinaryDecoder) -> float:
        value: float = struct.unpack("<d", decoder.read(8))[0]
        return value


class _Resolver(ReadSchemaResolver):
    """PyIceberg's, but for doubles."""

    def visit_double(self, double_type: DoubleType, partner: IcebergType | None) -> Reader:  # noqa: ARG002
        return _WholeDoubleReader()  # type: ignore[no-untyped-call]


@lru_cache(maxsize=LAYOUTS_KEPT)
def _layout(avro_schema: str) -> Layout:
    schema = AvroSchemaConversion().avro_to_iceberg(json.loads(avro_schema, object_hook=_without_nanos))
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


@lru_cache(maxsize=LAYOUTS_KEPT)
def _list_reader(avro_schema: str) -> Reader:
    return resolve_reader(
        AvroSchemaConversion().avro_to_iceberg(json.loads(avro_schema)),
        MANIFEST_LIST_FILE_SCHEMAS[READ_VERSION],
        {-1: ManifestFile, 508: PartitionFieldSummary},
        {517: ManifestContent},
    )


def read_manifest_list(files: FileIO, location: str) -> list[ManifestFile]:
    """The manifests of a snapshot.

    Raises:
        UnreadableError: the file is damaged, or ends too early.
    """
    data = _content(files, location)
    try:
        decoder = StreamingBinaryDecoder(data)
        header: Any = _HEADER.read(decoder)
        codec, read = header.compression_codec(), _list_reader(header.meta[_SCHEMA]).read
        manifests: list[ManifestFile] = []
        for count, block in _blocks(location, data, decoder.tell(), header.sync):
            entries_of = new_decoder(codec.decompress(block) if codec else block)
            manifests.extend(read(entries_of) for _ in range(count))
    except UnreadableError:
        raise
    except Exception as err:  # rubbish ends in whatever a codec or a decoder says to it
        raise UnreadableError(f"manifest list {location}: {err}") from err
    return manifests


def entries(written: Manifest, manifest: ManifestFile) -> Iterator[ManifestEntry]:
    """Every entry of a manifest, deleted ones too, with what it inherits written into it.

    They come one after another: a large manifest's entries are never all in memory.
    """
    return (_with_inherited(entry, manifest) for entry in written)


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
