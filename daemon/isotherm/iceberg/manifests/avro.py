"""Avro files as blocks and values, read strictly and in bounded memory, whatever somebody wrote into them.

PyIceberg takes a file that ends too early for one that has ended: here the blocks are walked strictly. Its compiled
decoder believes every length that it finds, and reads on behind the end of what it was given
(apache/iceberg-python#3955, mended after 0.12.0): a forged manifest would end the process. So each length is compared with
what is left. A block is as large as it likes once it is unpacked: it is unpacked up to a limit.

Reads through the FileIO that it is given, a file at a time; writes nothing.
"""

import bz2
import io
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from pyiceberg.avro.codecs import AVRO_CODEC_KEY
from pyiceberg.avro.decoder import BinaryDecoder, StreamingBinaryDecoder, new_decoder
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.file import META_SCHEMA, SYNC_SIZE, AvroFileHeader
from pyiceberg.avro.reader import Reader
from pyiceberg.avro.resolver import construct_reader, construct_writer
from pyiceberg.io import FileIO

from isotherm.iceberg.retries import retried

MAX_BYTES = 64 * 1024 * 1024
"""Of a manifest or a manifest list: eight times what writers aim at. What is larger is no manifest, or an attack."""
MAX_BLOCK_BYTES = 128 * 1024 * 1024
"""Of an unpacked block. Writers make blocks of some hundred kilobytes; some make one of a whole manifest."""
MOST_DEFLATE = 1032
"""Deflate makes no more than this of a byte."""
PIECE_BYTES = 1024 * 1024
"""What is asked for at a time: PyArrow takes that much memory before it looks how much there is."""
T = TypeVar("T")
_MAGIC = b"Obj\x01"
_SCHEMA = "avro.schema"
_HEADER: Final[Reader] = construct_reader(META_SCHEMA, {-1: AvroFileHeader})


class UnreadableError(ValueError):
    """A manifest makes no sense."""


class AvroData:
    """The bytes of an Avro file, and what its header says of them.

    Raises:
        UnreadableError: the bytes are not those of an Avro file; also while it is counted or decoded.
    """

    def __init__(self, location: str, data: bytes) -> None:
        self.location, self.data = location, data
        try:
            if not data.startswith(_MAGIC):
                raise ValueError("it does not begin as an Avro file does")  # noqa: TRY301 (one place says what failed)
            decoder = StreamingBinaryDecoder(data)
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
        for count, packed in self._blocks():
            try:
                block = self._unpacked(packed)
                if count > len(block):
                    raise ValueError(f"a block of {len(block)} bytes announces {count} values")  # noqa: TRY301 (as above)
                decoder: Any = _Decoder(block)
                for _ in range(count):
                    yield read(decoder)
                if decoder.tell() > len(block):
                    raise EOFError("a value ends behind its block")  # noqa: TRY301 (as above)
            except Exception as err:  # every codec has errors of its own
                raise UnreadableError(f"{self.location}: {err}") from err

    def under(self, schema: str) -> bytes:
        """The same values in a file with another schema, which must tell the same of each byte.

        Raises:
            UnreadableError: a block is too large, which whoever reads the file might not notice in time.
        """
        for _, packed in self._blocks():
            if self._codec_name != "deflate" or len(packed) * MOST_DEFLATE > MAX_BLOCK_BYTES:
                try:
                    self._unpacked(packed)
                except Exception as err:
                    raise UnreadableError(f"{self.location}: {err}") from err
        buffer = io.BytesIO()
        meta = {_SCHEMA: schema, AVRO_CODEC_KEY: self._codec_name}
        header = AvroFileHeader(_MAGIC, meta, self._header.sync)
        construct_writer(META_SCHEMA).write(BinaryEncoder(buffer), header)
        return buffer.getvalue() + self.data[self._start :]

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


class _Decoder(BinaryDecoder):
    """PyIceberg's compiled decoder, kept within the bytes that there are."""

    def __init__(self, data: bytes) -> None:
        inner = new_decoder(data)
        self._end = len(data)
        self._read, self._read_ints = inner.read, inner.read_ints
        # What reads a few bytes notices the end by itself. Called some hundred times for each entry.
        self.tell, self.skip = inner.tell, inner.skip  # type: ignore[method-assign]
        self.read_int, self.skip_int = inner.read_int, inner.skip_int  # type: ignore[method-assign]
        self.skip_bytes, self.skip_utf8 = inner.skip_bytes, inner.skip_utf8  # type: ignore[method-assign]

    def tell(self) -> int:
        """Where it stands."""
        raise NotImplementedError

    def skip(self, n: int) -> None:
        """Go on by so many bytes."""
        raise NotImplementedError

    def read(self, n: int) -> bytes:
        """So many bytes."""
        self._expect(n)
        return self._read(n)

    def read_ints(self, n: int) -> tuple[int, ...]:
        """So many numbers, of a byte at least."""
        self._expect(n)
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


def content(files: FileIO, location: str, length: int | None = None) -> bytes:
    """The bytes of an Avro file, of which no more are read than it may have.

    An event may name a data file of gigabytes as its manifest.

    Raises:
        UnreadableError: it has another length than was said, or more than `MAX_BYTES`, or is no Avro file.
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
