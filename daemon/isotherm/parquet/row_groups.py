"""Whole row groups of other files in one new file, without decoding a value.

The bytes of their column chunks and Bloom filters are copied, their indexes lie behind all of them, as Java writes it, and
the footer says where everything lies now. All of that is laid out before a byte is written: what cannot be read again, since it has
too much of indexes, is decoded instead. Memory holds a piece of a chunk, the indexes and the footers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow.parquet as pq
from thrift.Thrift import TType

from isotherm.parquet import footer as limits
from isotherm.parquet.compact_thrift import Field, Items, Struct
from isotherm.parquet.footer import (
    GROUPS,
    MAGIC,
    ROWS,
    Chunk,
    Footer,
    Group,
    Part,
    Places,
    UnusualError,
    as_pyarrow,
    moved,
    placed,
    written,
)
from isotherm.parquet.pages import pieces


@dataclass(frozen=True, slots=True)
class Layout:
    """A new file, of which nothing is written yet: `MAGIC`, parts of its sources, and what lies behind them."""

    parts: Sequence[Sequence[Part]]
    """What is copied of each source, in this order."""
    behind: bytes
    footer: pq.FileMetaData
    """As PyArrow reads it."""
    size_bytes: int

    def copied(self, source: int, stream: BinaryIO) -> Iterator[bytes]:
        """What a source gives, by its number.

        Raises:
            UnusualError: it ends before its parts do.
        """
        for part in self.parts[source]:
            stream.seek(part.start)
            yield from pieces(stream, part.size)


class RowGroups:
    """Row groups of files that are of one kind (`Footer.kind`), as they will lie in a file."""

    def __init__(self, kind: Footer) -> None:
        """Of `kind` the footer gets all that is not about rows."""
        self._kind = kind
        self._parts: list[list[Part]] = []
        self._groups: list[Group] = []
        self._lies: list[list[tuple[int, int]]] = []
        """Of each chunk, where its pages and its Bloom filter lie in the new file."""
        self._indexes: list[list[tuple[bytes, bytes]]] = []
        """Of each chunk, its column index and its offset index as it was."""
        self._at = len(MAGIC)
        self._behind: list[bytes] = []

    def add(self, stream: BinaryIO, footer: Footer) -> None:
        """Lay out all row groups of a file behind those that are there, and read their indexes.

        Raises:
            UnusualError: the file ends before its parts do, or is of another kind.
        """
        if footer.kind != self._kind.kind:
            raise UnusualError("row groups of two kinds of files cannot share a footer")
        self._parts.append([])
        for group in footer.groups:
            pages = [self._place(chunk.pages) for chunk in group.chunks]
            filters = [self._place(chunk.bloom_filter) for chunk in group.chunks]
            self._groups.append(group)
            self._lies.append(list(zip(pages, filters, strict=True)))
            self._indexes.append(
                [
                    (part_of(stream, chunk.column_index), part_of(stream, chunk.offset_index))
                    for chunk in group.chunks
                ]
            )

    def laid_out(self) -> Layout:
        """The whole file, once all row groups are there.

        Raises:
            UnusualError: it could not be read again, because its footer or indexes are too large, or an offset is.
        """
        begin = self._at
        at_columns = [[self._put(columns) for columns, _ in indexes] for indexes in self._indexes]
        groups: list[Struct] = []
        for ordinal, group in enumerate(self._groups):
            places = [
                Places(pages, bloom_filter, columns, self._offset_index(chunk, index, pages))
                for chunk, (pages, bloom_filter), columns, (_, index) in zip(
                    group.chunks,
                    self._lies[ordinal],
                    at_columns[ordinal],
                    self._indexes[ordinal],
                    strict=True,
                )
            ]
            groups.append(placed(group, places, ordinal))
        indexes_bytes = self._at - begin
        rows = sum(group.rows for group in self._groups)
        fields = self._kind.fields | {
            ROWS: Field(TType.I64, rows),
            GROUPS: Field(TType.LIST, Items(TType.STRUCT, groups)),
        }
        content = written(fields)
        if len(content) > limits.MOST_FOOTER_BYTES or indexes_bytes > limits.MOST_INDEX_BYTES:
            raise UnusualError(
                f"a footer of {len(content)} bytes and indexes of {indexes_bytes} are too large"
            )
        self._put(content + len(content).to_bytes(4, "little") + MAGIC)
        return Layout(self._parts, b"".join(self._behind), as_pyarrow(content), self._at)

    def _offset_index(self, chunk: Chunk, index: bytes, pages: int) -> Part:
        """Lay out the offset index of a chunk whose pages lie there now. Returns where."""
        there = moved(index, pages - chunk.pages.start) if chunk.offset_index is not None else b""
        return Part(self._put(there), len(there))

    def _place(self, part: Part | None) -> int:
        """Lay out a part of a file, if there is one. Returns where it lies now."""
        at = self._at
        if part is not None:
            self._parts[-1].append(part)
            self._at += part.size
        return at

    def _put(self, content: bytes) -> int:
        """Lay out what is not copied. Returns where it lies."""
        at = self._at
        self._behind.append(content)
        self._at += len(content)
        return at


def part_of(stream: BinaryIO, part: Part | None) -> bytes:
    """The bytes of a small part, none where there is no such part."""
    if part is None:
        return b""
    stream.seek(part.start)
    return b"".join(pieces(stream, part.size))
