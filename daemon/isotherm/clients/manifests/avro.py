"""Avro files as blocks and values, read strictly and in bounded memory, whatever somebody wrote into them.

PyIceberg takes a file that ends too early for one that has ended: here the blocks are walked strictly. Its compiled
decoder believes every length that it finds. It reads on behind the end of what it was given
(apache/iceberg-python#3955, mended after 0.12.0), and a length below zero leads it before the beginning: a forged
manifest would end the process. So each length is compared with what is left. A block is as large as it likes once it is
unpacked: it is unpacked up to a limit, and so are all blocks together and each value.

Reads through the FileIO that it is given, a file at a time; writes nothing.
"""

import bz2
import io
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from pyiceberg.avro.codecs import AVRO_CODEC_KEY
from pyiceberg.avro.decoder import BinaryDecoder, new_decoder
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.file import META_SCHEMA, SYNC_SIZE, AvroFileHeader
from pyiceberg.avro.reader import Reader
from pyiceberg.avro.resolver import construct_reader, construct_writer
from pyiceberg.io import FileIO

from isotherm.clients.retries import retried

MAX_BYTES = 256 * 1024 * 1024
"""Of a manifest. Writers aim at 8 MiB; one of 250 files with ten thousand columns has 90. A larger one is an attack."""
MAX_LIST_BYTES = 64 * 1024 * 1024
"""Of a manifest list, many of which are read together."""
ALONE_BYTES = 16 * 1024 * 1024
"""A count or a proof reads a manifest with more while it reads no other: those read together are in memory together."""
MAX_BLOCK_BYTES = 128 * 1024 * 1024
"""Of an unpacked block. Writers make blocks of some hundred kilobytes; some make one of a whole manifest."""
MAX_UNPACKED_BYTES = 2 * 1024 * 1024 * 1024
"""Of all blocks together: reading more takes minutes. A manifest of the size that writers aim at may shrink to 1/256."""
MAX_VALUE_BYTES = 16 * 1024 * 1024
"""Of one value: its maps take some thirty times as much memory. An entry of ten thousand columns has a megabyte."""
MAX_HEADER_BYTES = 8 * 1024 * 1024
"""Of the header, because its map takes that much more memory, too. It holds the table's schema: three megabytes for ten
thousand columns with a sentence about each."""
FIRST_BYTES = 64 * 1024
"""What is asked for first."""
PIECE_BYTES = 1024 * 1024
"""What is asked for at a time then: PyArrow takes that much memory before it looks how much there is."""
T = TypeVar("T")
_GOES_ON = bytes(range(128, 256))
"""Bytes with which no number ends."""
_MAGIC = b"Obj\x01"
_SCHEMA = "avro.schema"
_HEADER: Final[Reader] = construct_reader(META_SCHEMA, {-1: AvroFileHeader})


class UnreadableError(ValueError):
    """A manifest makes no sense."""


class TooLargeError(UnreadableError):
    """A file has more bytes than were to be read."""


class AvroData:
    """The bytes of an Avro file, and what its header says of them.

    Raises:
        UnreadableError: the bytes are not those of an Avro file; also while it is counted or decoded.
    """

    def __init__(self, location: str, data: bytes, max_unpacked: int = MAX_UNPACKED_BYTES) -> None:
        self.location, self.data = location, data
        self.unpacked_bytes = 0
        """What its blocks had so far, unpacked; no more than `max_unpacked` are."""
        self._max_unpacked = max_unpacked
        try:
            if not data.startswith(_MAGIC):
                raise ValueError("it does not begin as an Avro file does")  # noqa: TRY301 (one place says what failed)
            decoder = _Decoder(data[:MAX_HEADER_BYTES])
            header: Any = _HEADER.read(decoder)
            self._header, self._codec = header, header.compression_codec()
            self._codec_name: str = header.meta.get(AVRO_CODEC_KEY, "null")
            self._start = decoder.tell()
            self.schema: str = header.meta[_SCHEMA]
        except Exception as err:
            raise UnreadableError(f"{location}: {err}") from err

    def count(self) -> int:
        """How many values its blocks announce, without decoding them."""
        return sum(count for count, _ in self._blocks())

    def decoded(self, read: Callable[[BinaryDecoder], T]) -> Iterator[T]:
        """Its values, one after another."""
        for count, block in self._unpacked_blocks():
            try:
                if count > len(block):
                    raise ValueError(f"a block of {len(block)} bytes announces {count} values")  # noqa: TRY301 (one place)
                decoder = _Decoder(block)
                for _ in range(count):
                    decoder.begin_value()
                    yield read(decoder)
                if decoder.tell() != len(block):
                    raise EOFError("the last value of a block does not end with it")  # noqa: TRY301 (as above)
            except Exception as err:
                raise UnreadableError(f"{self.location}: {err}") from err

    def pieces(self, size_bytes: int) -> Iterator[tuple[int, bytes]]:
        """The unpacked blocks put together to pieces of about this size, each with the count that is announced of it."""
        values, blocks, size = 0, list[bytes](), 0
        for count, block in self._unpacked_blocks():
            if blocks and size + len(block) > size_bytes:
                yield values, b"".join(blocks)
                values, blocks, size = 0, [], 0
            values += count
            blocks.append(block)
            size += len(block)
        if blocks:
            yield values, b"".join(blocks)

    def _unpacked_blocks(self) -> Iterator[tuple[int, bytes]]:
        self.unpacked_bytes = 0
        for count, packed in self._blocks():
            try:
                block = self._unpacked(packed)
            except Exception as err:  # every codec has errors of its own
                raise UnreadableError(f"{self.location}: {err}") from err
            self.unpacked_bytes += len(block)
            if self.unpacked_bytes > self._max_unpacked:
                raise UnreadableError(
                    f"{self.location} has more than {self._max_unpacked} bytes when unpacked"
                )
            yield count, block

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        """The blocks, whole or not at all, with the count of values that each announces."""
        data, sync = self.data, self._header.sync
        # The zeros end a number that the end of the file cuts off.
        decoder = new_decoder(data + bytes(SYNC_SIZE))
        decoder.skip(self._start)
        while (position := decoder.tell()) < len(data):
            count, size = decoder.read_int(), decoder.read_int()
            if size < 0 or decoder.tell() + size + SYNC_SIZE > len(data):
                raise UnreadableError(f"{self.location} ends within the block at {position}")
            if not 0 <= count <= MAX_BLOCK_BYTES:
                raise UnreadableError(f"{self.location}: the block at {position} announces {count} values")
            block = decoder.read(size)
            if decoder.read(SYNC_SIZE) != sync:
                raise UnreadableError(f"{self.location} has no end of the block at {position}")
            yield count, block

    def _unpacked(self, packed: bytes) -> bytes:
        """A block's bytes, of which no more are made than it may have."""
        match self._codec_name:
            case "deflate":
                unpacker: Any = zlib.decompressobj(-15)
                block: bytes = unpacker.decompress(packed, MAX_BLOCK_BYTES + 1)
                if not unpacker.eof and len(block) <= MAX_BLOCK_BYTES:
                    raise EOFError("a block ends too early")
            case "bzip2":
                block = bz2.BZ2Decompressor().decompress(packed, MAX_BLOCK_BYTES + 1)
            case "zstandard":
                from zstandard import ZstdDecompressor

                block = ZstdDecompressor().stream_reader(packed).read(MAX_BLOCK_BYTES + 1)
            case _:
                # Snappy makes no more than 21 bytes of one.
                block = self._codec.decompress(packed) if self._codec else packed
        if len(block) > MAX_BLOCK_BYTES:
            raise ValueError(f"a block has more than {MAX_BLOCK_BYTES} bytes")
        return block


def number(value: int) -> bytes:
    """A number as Avro writes it."""
    buffer = io.BytesIO()
    BinaryEncoder(buffer).write_int(value)
    return buffer.getvalue()


def file_of(schema: str, count: int, block: Sequence[bytes]) -> Iterator[bytes]:
    """An Avro file with one block, piece by piece."""
    buffer, sync = io.BytesIO(), bytes(SYNC_SIZE)
    header = AvroFileHeader(_MAGIC, {_SCHEMA: schema, AVRO_CODEC_KEY: "null"}, sync)
    construct_writer(META_SCHEMA).write(BinaryEncoder(buffer), header)
    yield buffer.getvalue()
    yield number(count)
    yield number(sum(map(len, block)))
    yield from block
    yield sync


class _Decoder(BinaryDecoder):
    """PyIceberg's compiled decoder, kept within the bytes that there are, and a value within `MAX_VALUE_BYTES`."""

    def __init__(self, data: bytes) -> None:
        inner = new_decoder(data)
        self._data = data
        self._size = self._end = len(data)
        self._read, self._read_ints, self._skip = inner.read, inner.read_ints, inner.skip
        # What reads a few bytes notices the end by itself. Called some hundred times for each entry.
        self.tell = inner.tell  # type: ignore[method-assign]
        self.read_int, self.skip_int = inner.read_int, inner.skip_int  # type: ignore[method-assign]

    def begin_value(self) -> None:
        """Another value begins where the last one ended."""
        self._end = min(self.tell() + MAX_VALUE_BYTES, self._size)

    def tell(self) -> int:
        """Where it stands."""
        raise NotImplementedError

    def skip(self, n: int) -> None:
        """Go on by so many bytes."""
        self._expect(n)
        self._skip(n)

    def read(self, n: int) -> bytes:
        """So many bytes."""
        self._expect(n)
        return self._read(n)

    def read_ints(self, n: int) -> tuple[int, ...]:
        """So many numbers, of a byte at least and of ten at most: the compiled decoder does not look where they end."""
        self._expect(n)
        at = self.tell()
        if len(self._data[at : min(at + 10 * n, self._end)].translate(None, _GOES_ON)) < n:
            raise EOFError(f"{n} numbers are announced where {self._end - at} bytes are left")
        return self._read_ints(n)

    def read_int_bytes_dict(self, n: int, dest: dict[int, bytes]) -> None:
        """Bounds by column: most of what an entry consists of."""
        read_int, read, tell, end = self.read_int, self._read, self.tell, self._end
        for _ in range(n):
            key, size = read_int(), read_int()
            if not 0 <= size <= end - tell():
                self._expect(size)
            dest[key] = read(size) if size else b""

    def _expect(self, size: int) -> None:
        left = self._end - self.tell()
        if not 0 <= size <= left:
            raise EOFError(f"{size} bytes are announced where {left} are left")


def content(files: FileIO, location: str, length: int | None = None, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of an Avro file, of which no more are read than it may have.

    An event may name a data file of gigabytes as its manifest.

    Raises:
        TooLargeError: it has more bytes than was said, or than `max_bytes`.
        UnreadableError: it has fewer bytes than was said, or is no Avro file.
    """
    limit = max_bytes if length is None else length
    if limit > max_bytes:
        raise TooLargeError(f"{location} is said to have {limit} bytes, more than {max_bytes}")

    def read() -> bytes:
        with files.new_input(location).open() as stream:
            # The file of a small commit is one request; of what is no Avro file no other follows.
            begin = bytes(stream.read(min(max(limit, len(_MAGIC)) + 1, FIRST_BYTES)))
            if not begin.startswith(_MAGIC):
                raise UnreadableError(f"{location} does not begin as an Avro file does")
            pieces, left = [begin], max(limit + 1 - len(begin), 0)
            while left and (piece := bytes(stream.read(min(left, PIECE_BYTES)))):
                pieces.append(piece)
                left -= len(piece)
            return b"".join(pieces)

    data = retried(read)
    if len(data) > limit:
        raise TooLargeError(f"{location} has more than {limit} bytes")
    if length is not None and len(data) < length:
        raise UnreadableError(f"{location} has {len(data)} bytes, and should have {length}")
    return data
