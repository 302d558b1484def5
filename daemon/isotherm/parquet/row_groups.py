"""Whole row groups of other files in one new file, without decoding a value.

The bytes of their column chunks and Bloom filters are copied, their indexes lie behind all of them, as Java writes it, and
the footer says where everything lies now. Memory holds a piece of a chunk, the indexes and the footers.
"""

from typing import Any, BinaryIO

import pyarrow.parquet as pq
from thrift.Thrift import TType

from isotherm.parquet.compact_thrift import Field, Items, Struct, bytes_of
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
)
from isotherm.parquet.pages import pieces


class RowGroups:
    """Writes row groups of files that are of one kind (`Footer.kind`) into a file."""

    def __init__(self, sink: Any, kind: Footer) -> None:
        """The sink takes bytes; of `kind` the footer gets all that is not about rows."""
        self._sink, self._kind = sink, kind
        self._groups: list[Group] = []
        self._lies: list[list[tuple[int, int]]] = []
        """Of each chunk, where its pages and its Bloom filter lie in the new file."""
        self._indexes: list[list[tuple[bytes, bytes]]] = []
        """Of each chunk, its column index and its offset index as it was."""
        self._at = 0
        self._put(MAGIC)

    def add(self, stream: BinaryIO, footer: Footer) -> None:
        """Copy all row groups of a file.

        Raises:
            UnusualError: the file ends before its parts do, or is of another kind.
        """
        if footer.kind != self._kind.kind:
            raise UnusualError("row groups of two kinds of files cannot share a footer")
        for group in footer.groups:
            pages = [self._copied(stream, chunk.pages) for chunk in group.chunks]
            filters = [self._copied(stream, chunk.bloom_filter) for chunk in group.chunks]
            self._groups.append(group)
            self._lies.append(list(zip(pages, filters, strict=True)))
            self._indexes.append(
                [
                    (part_of(stream, chunk.column_index), part_of(stream, chunk.offset_index))
                    for chunk in group.chunks
                ]
            )

    def finish(self) -> pq.FileMetaData:
        """Write what comes behind the row groups. Returns the footer as PyArrow reads it."""
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
        rows = sum(group.rows for group in self._groups)
        fields = self._kind.fields | {
            ROWS: Field(TType.I64, rows),
            GROUPS: Field(TType.LIST, Items(TType.STRUCT, groups)),
        }
        content = bytes_of(fields)
        self._put(content + len(content).to_bytes(4, "little") + MAGIC)
        return as_pyarrow(fields)

    def _offset_index(self, chunk: Chunk, index: bytes, pages: int) -> Part:
        """Write the offset index of a chunk whose pages lie there now. Returns where."""
        there = moved(index, pages - chunk.pages.start) if chunk.offset_index is not None else b""
        return Part(self._put(there), len(there))

    def _copied(self, stream: BinaryIO, part: Part | None) -> int:
        """Copy a part of a file, if there is one. Returns where it lies now."""
        at = self._at
        if part is not None:
            stream.seek(part.start)
            for piece in pieces(stream, part.size):
                self._put(piece)
        return at

    @property
    def size_bytes(self) -> int:
        """What is written by now."""
        return self._at

    def _put(self, content: bytes) -> int:
        """Write some bytes. Returns where they lie."""
        at = self._at
        self._sink.write(content)
        self._at += len(content)
        return at


def part_of(stream: BinaryIO, part: Part | None) -> bytes:
    """The bytes of a small part, none where there is no such part."""
    if part is None:
        return b""
    stream.seek(part.start)
    return b"".join(pieces(stream, part.size))
