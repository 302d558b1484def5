"""Where the parts of a Parquet file lie, as its footer says, and the same row groups elsewhere.

A footer names its parts by offsets from the beginning of the file: the pages of each column chunk, its Bloom filter and its
two indexes. All that is moved when a row group goes into another file, and nothing else. So the fields that hold an
offset are known here by their numbers in the format (parquet.thrift). A field of a newer format might hold one too, and so
might what is deprecated. A file that has such a field is not moved (`UnusualError`).

Everything else in the footer stays as it is, whatever it means: statistics, encodings, sizes, sorting columns.
"""

import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from thrift.Thrift import TType

from isotherm.parquet.compact_thrift import Field, Items, NotThriftError, Struct, bytes_of, struct_of

MAGIC: Final = b"PAR1"
MOST_FOOTER_BYTES = 2**20
"""As values a footer takes some fifty times as much. One of three hundred columns and sixteen row groups has as many bytes."""
CHUNK_GROWS_BYTES: Final = 40
"""At most, where it lies elsewhere: six offsets and sizes by five bytes each, and a part of what its row group grows."""
MOST_INDEX_BYTES = 4 * 2**20
"""Of all indexes of a file, which are in memory until the file that is written is closed."""

ROWS, GROUPS, KEYS = 3, 4, 5
"""Of the footer."""
_FOOTER_FIELDS = range(1, 8)
CHUNKS, GROUP_ROWS, GROUP_OFFSET, ORDINAL = 1, 3, 5, 7
"""Of a row group."""
_GROUP_FIELDS = range(1, 8)
CHUNK_OFFSET, META, OFFSET_INDEX, OFFSET_INDEX_BYTES, COLUMN_INDEX, COLUMN_INDEX_BYTES = range(2, 8)
"""Of a column chunk. Its first field names another file, those behind these are of encrypted columns."""
TYPE, CODEC, VALUES, UNPACKED_BYTES, PACKED_BYTES, STATISTICS = 1, 4, 5, 6, 7, 12
DATA_PAGE, DICTIONARY_PAGE, BLOOM_FILTER, BLOOM_FILTER_BYTES = 9, 11, 14, 15
"""Of a column chunk's metadata. Field 10, where an index page lies, was never used."""
_META_FIELDS = frozenset((*range(1, 10), *range(11, 18)))
LOCATIONS, PAGE_OFFSET, PAGE_BYTES, FIRST_ROW = 1, 1, 2, 3
"""Of an offset index, and of each page in it."""
_INDEX_FIELDS, _LOCATION_FIELDS = range(1, 3), range(1, 4)


class UnusualError(ValueError):
    """A file is not laid out so plainly that its row groups can be moved; what is the matter shows when it is decoded."""


class Part(NamedTuple):
    """Some bytes of a file."""

    start: int
    size: int

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.start + self.size


@dataclass(frozen=True, slots=True)
class Chunk:
    """A column of a row group."""

    fields: Struct
    pages: Part
    """With its dictionary, which comes first."""
    bloom_filter: Part | None
    column_index: Part | None
    offset_index: Part | None

    @property
    def meta(self) -> Struct:
        """Its metadata, by field."""
        return sub(self.fields, META)


@dataclass(frozen=True, slots=True)
class Group:
    """A row group."""

    fields: Struct
    rows: int
    chunks: tuple[Chunk, ...]

    @property
    def size_bytes(self) -> int:
        """What its pages take."""
        return sum(chunk.pages.size for chunk in self.chunks)


@dataclass(frozen=True, slots=True)
class Footer:
    """The footer of a file."""

    fields: Struct
    groups: tuple[Group, ...]
    size_bytes: int
    kind: bytes
    """All that it says of the file as a whole but its rows: the schema, keys, who wrote it, orders of columns.

    Readers judge statistics by who wrote them, because some writers are known for wrong ones. So row groups of two
    files may share a footer only where this is equal.
    """

    @property
    def share(self) -> float:
        """The part that its row groups take of what the footer and the indexes of another file may have.

        Where the shares of some files are 1 or less together, what is made of them can be read by `read_footer`.
        """
        chunks = [chunk for group in self.groups for chunk in group.chunks]
        footer_bytes = self.size_bytes + CHUNK_GROWS_BYTES * len(chunks)
        # A page takes seven bytes of an offset index or more, and five more where it lies further behind.
        indexes_bytes = _size(chunk.column_index for chunk in chunks) + 2 * _size(
            chunk.offset_index for chunk in chunks
        )
        return max(footer_bytes / MOST_FOOTER_BYTES, indexes_bytes / MOST_INDEX_BYTES)


class Places(NamedTuple):
    """Where the parts of a chunk lie in the file that is written."""

    pages: int
    bloom_filter: int
    column_index: int
    offset_index: Part
    """Its size too: larger offsets take more bytes."""


def read_footer(stream: BinaryIO, most_bytes: int = MOST_FOOTER_BYTES) -> Footer:
    """The footer of a file.

    Raises:
        UnusualError: there is none, or it is not plain, or it has more than so many bytes.
    """
    most_bytes = min(most_bytes, MOST_FOOTER_BYTES)
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    begins = stream.read(len(MAGIC))
    stream.seek(max(size - 8, 0))
    tail = stream.read(8)
    length = int.from_bytes(tail[:4], "little")
    start = size - 8 - length
    if begins != MAGIC or tail[4:] != MAGIC or start < len(MAGIC) or length > most_bytes:
        raise UnusualError(f"no plain Parquet file with a footer of at most {most_bytes} bytes")
    stream.seek(start)
    fields = parsed(stream.read(length))
    _check_known(fields, _FOOTER_FIELDS, "the footer")
    groups = tuple(_group(group, place) for place, group in enumerate(subs(fields, GROUPS)))
    if sum(group.rows for group in groups) != number(fields, ROWS):
        raise UnusualError("the row groups have another number of rows than the file")
    chunks = [chunk for group in groups for chunk in group.chunks]
    _check_parts([part for chunk in chunks for part in _parts(chunk)], start)
    if (
        _size(part for chunk in chunks for part in (chunk.column_index, chunk.offset_index))
        > MOST_INDEX_BYTES
    ):
        raise UnusualError(f"the indexes of the file have more than {MOST_INDEX_BYTES} bytes")
    return Footer(fields, groups, length, bytes_of(without(fields, (ROWS, GROUPS))))


def _size(parts: Iterable[Part | None]) -> int:
    return sum(part.size for part in parts if part is not None)


def as_pyarrow(content: bytes) -> pq.FileMetaData:
    """The bytes of a footer as PyArrow reads them.

    Raises:
        UnusualError: it does not.
    """
    file = b"".join((MAGIC, content, len(content).to_bytes(4, "little"), MAGIC))
    try:
        return pq.read_metadata(pa.py_buffer(file))
    except (pa.ArrowException, OSError) as err:
        raise UnusualError(f"PyArrow does not read the footer: {err}") from err


def parsed(content: bytes) -> Struct:
    """A structure.

    Raises:
        UnusualError: it is none.
    """
    try:
        return struct_of(content)
    except NotThriftError as err:
        raise UnusualError(str(err)) from err


def written(fields: Struct) -> bytes:
    """A structure that was changed, as it is written.

    Raises:
        UnusualError: an offset does not fit its field: some writers may have taken the least that held it.
    """
    try:
        return bytes_of(fields)
    except NotThriftError as err:
        raise UnusualError(str(err)) from err


def _parts(chunk: Chunk) -> list[Part]:
    """All parts of a chunk."""
    every = (chunk.pages, chunk.bloom_filter, chunk.column_index, chunk.offset_index)
    return [part for part in every if part is not None]


def _check_parts(every: Iterable[Part], end: int) -> None:
    """No part reaches into another one or out of the file: many that share bytes would be written once for each."""
    ordered = sorted(every)
    if any(part.start < len(MAGIC) or part.size < 0 or part.end > end for part in ordered) or any(
        one.end > other.start for one, other in pairwise(ordered)
    ):
        raise UnusualError("parts of the file reach into each other, or out of it")


def _group(fields: Struct, place: int) -> Group:
    _check_known(fields, _GROUP_FIELDS, "a row group")
    group = Group(fields, number(fields, GROUP_ROWS), tuple(_chunk(chunk) for chunk in subs(fields, CHUNKS)))
    if not group.chunks:
        raise UnusualError("a row group has no columns")
    begins = group.chunks[0].pages.start
    if number(fields, GROUP_OFFSET, begins) != begins or number(fields, ORDINAL, place) != place:
        raise UnusualError("a row group says that it lies elsewhere than its first column")
    return group


def _chunk(fields: Struct) -> Chunk:
    _check_known(fields, range(CHUNK_OFFSET, COLUMN_INDEX_BYTES + 1), "a column chunk")
    meta = sub(fields, META)
    _check_known(meta, _META_FIELDS, "a column chunk's metadata")
    start = number(meta, DATA_PAGE)
    if DICTIONARY_PAGE in meta:
        dictionary = number(meta, DICTIONARY_PAGE)
        if not 0 < dictionary < start:
            raise UnusualError("a dictionary does not lie before its pages")
        start = dictionary
    return Chunk(
        fields,
        Part(start, number(meta, PACKED_BYTES)),
        _part(meta, BLOOM_FILTER, BLOOM_FILTER_BYTES),
        _part(fields, COLUMN_INDEX, COLUMN_INDEX_BYTES),
        _part(fields, OFFSET_INDEX, OFFSET_INDEX_BYTES),
    )


def _part(fields: Struct, offset: int, size: int) -> Part | None:
    """Where a part lies that may be missing."""
    return Part(number(fields, offset), number(fields, size)) if offset in fields or size in fields else None


def placed(group: Group, places: Sequence[Places], ordinal: int) -> Struct:
    """What the footer of another file says of a row group.

    Args:
        group: the row group as it was.
        places: of its chunks, in that file.
        ordinal: its number there.
    """
    chunks = [_placed_chunk(chunk, place) for chunk, place in zip(group.chunks, places, strict=True)]
    changed = {GROUP_OFFSET: places[0].pages, ORDINAL: ordinal}
    moved = _with(group.fields, changed)
    return {**moved, CHUNKS: Field(TType.LIST, Items(TType.STRUCT, chunks))}


def _placed_chunk(chunk: Chunk, place: Places) -> Struct:
    by = place.pages - chunk.pages.start
    meta = _with(
        chunk.meta,
        {
            DATA_PAGE: number(chunk.meta, DATA_PAGE) + by,
            DICTIONARY_PAGE: number(chunk.meta, DICTIONARY_PAGE, 0) + by,
            BLOOM_FILTER: place.bloom_filter,
        },
    )
    # Its metadata is in the footer alone, which the format says with a 0.
    changed = {
        CHUNK_OFFSET: 0,
        COLUMN_INDEX: place.column_index,
        OFFSET_INDEX: place.offset_index.start,
        OFFSET_INDEX_BYTES: place.offset_index.size,
    }
    return {**_with(chunk.fields, changed), META: Field(TType.STRUCT, meta)}


def placeless(group: Group) -> bytes:
    """All that a footer says of a row group but where it lies: equal for the same row group in two files."""
    chunks: list[Struct] = []
    for chunk in group.chunks:
        meta = without(chunk.meta, (DATA_PAGE, DICTIONARY_PAGE, BLOOM_FILTER))
        begins = number(chunk.meta, DATA_PAGE) - chunk.pages.start
        meta[DATA_PAGE] = Field(TType.I64, begins)
        where = (CHUNK_OFFSET, META, OFFSET_INDEX, OFFSET_INDEX_BYTES, COLUMN_INDEX)
        chunks.append({**without(chunk.fields, where), META: Field(TType.STRUCT, meta)})
    fields = without(group.fields, (CHUNKS, GROUP_OFFSET, ORDINAL))
    return bytes_of({**fields, CHUNKS: Field(TType.LIST, Items(TType.STRUCT, chunks))})


def moved(index: bytes, by: int) -> bytes:
    """An offset index of pages that lie so many bytes further behind.

    Raises:
        UnusualError: it is none, or has a field that may hold another offset, or an offset does not fit its field.
    """
    fields = parsed(index)
    _check_known(fields, _INDEX_FIELDS, "an offset index")
    locations = []
    for location in subs(fields, LOCATIONS):
        _check_known(location, _LOCATION_FIELDS, "a page of an offset index")
        locations.append(_with(location, {PAGE_OFFSET: number(location, PAGE_OFFSET) + by}))
    return written({**fields, LOCATIONS: Field(TType.LIST, Items(TType.STRUCT, locations))})


def number(fields: Struct, name: int, default: int | None = None) -> int:
    """A number that a structure holds.

    Raises:
        UnusualError: it does not, and there is no default.
    """
    found = fields.get(name)
    if found is None and default is not None:
        return default
    if found is None or found.type not in {TType.I16, TType.I32, TType.I64}:
        raise UnusualError(f"field {name} of a structure is no number")
    value: int = found.value
    return value


def sub(fields: Struct, name: int) -> Struct:
    """A structure that a structure holds. Raises UnusualError: it does not."""
    found = fields.get(name)
    if found is None or found.type != TType.STRUCT:
        raise UnusualError(f"field {name} of a structure is no structure")
    value: Struct = found.value
    return value


def subs(fields: Struct, name: int) -> list[Struct]:
    """A list of structures that a structure holds. Raises UnusualError: it does not."""
    values: list[Struct] = items(fields, name, TType.STRUCT)
    return values


def items(fields: Struct, name: int, of: int = TType.I64) -> list[Any]:
    """A list that a structure holds, of values of this type. Raises UnusualError: it does not."""
    found = fields.get(name)
    if found is None or found.type != TType.LIST or found.value.type != of:
        raise UnusualError(f"field {name} of a structure is no list of type {of}")
    values: list[Any] = found.value.values
    return values


def _check_known(fields: Struct, known: Collection[int], of: str) -> None:
    if unknown := sorted(fields.keys() - set(known)):
        raise UnusualError(f"{of} has field {unknown[0]}, which may hold where something lies")


def _with(fields: Struct, values: Mapping[int, int]) -> Struct:
    """The same fields, of which these have other values; one that is not there stays so."""
    return {
        name: Field(field.type, values[name]) if name in values else field for name, field in fields.items()
    }


def without(fields: Struct, names: Collection[int]) -> Struct:
    """The same fields but these."""
    return {name: field for name, field in fields.items() if name not in names}
