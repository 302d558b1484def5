"""Whether the pages of a column chunk are there, as far as it shows without decoding them.

Each page has a header with its length. Here the headers are read from the first to the last, and the pages must fill the
chunk without a gap, hold as many values as the footer says, and lie where the offset index says. Where a header has a
checksum, as Java writes it, the bytes of its page must have it. What a page of a writer without checksums means is
seen by nobody here.
"""

import io
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from isotherm.parquet.compact_thrift import NotThriftError, Struct, read_struct
from isotherm.parquet.footer import (
    DATA_PAGE,
    DICTIONARY_PAGE,
    FIRST_ROW,
    LOCATIONS,
    PAGE_BYTES,
    PAGE_OFFSET,
    UNPACKED_BYTES,
    VALUES,
    Chunk,
    Group,
    UnusualError,
    moved,
    number,
    parsed,
    sub,
    subs,
)

PIECE_BYTES = 2**20
"""What is in memory at a time."""
MOST_HEADER_BYTES = 2**16
"""Of the header of a page: some thirty, and two extremes in pages of older writers."""
MOST_PAGES = 100_000
"""Of a column chunk: two billion rows, by Java's twenty thousand to a page. To read so many headers takes seconds."""

_KIND, _UNPACKED, _PACKED, _CHECKSUM, _DATA, _DATA_2 = 1, 2, 3, 4, 5, 8
"""Fields of a page's header."""
_VALUES, _ROWS = 1, 3
"""Of the headers of data pages within it; the rows of those of version 2 alone."""
_DATA_KIND, _DICTIONARY_KIND, _DATA_2_KIND = 0, 2, 3
"""What a page may be."""


class DamagedPageError(ValueError):
    """A page has not the checksum that its header tells."""


class Page(NamedTuple):
    """A page with its header."""

    start: int
    size: int
    """With its header, as it lies there."""
    unpacked: int
    """With its header, unpacked."""
    is_dictionary: bool
    values: int
    rows: int | None
    """None where its header does not tell."""


def check_group(stream: BinaryIO, group: Group) -> None:
    """Whether all pages of a row group are what the footer says.

    Raises:
        UnusualError: they are not, or it does not show.
        DamagedPageError: one of them has not the checksum that it should have.
    """
    for chunk in group.chunks:
        _check_chunk(stream, chunk, group.rows)


def _check_chunk(stream: BinaryIO, chunk: Chunk, rows: int) -> None:
    pages = list(_pages(stream, chunk))
    has_dictionary = DICTIONARY_PAGE in chunk.meta
    data = pages[has_dictionary:]
    if [page.is_dictionary for page in pages] != [True] * has_dictionary + [False] * len(data):
        raise UnusualError("a dictionary is not the first page of its chunk")
    if data and data[0].start != number(chunk.meta, DATA_PAGE):
        raise UnusualError("the first page does not lie where the footer says")
    if sum(page.values for page in data) != number(chunk.meta, VALUES):
        raise UnusualError("the pages hold another number of values than the footer says")
    if sum(page.unpacked for page in pages) != number(chunk.meta, UNPACKED_BYTES):
        raise UnusualError("the pages have another size than the footer says")
    told = [page.rows for page in data]
    if None not in told and sum(one or 0 for one in told) != rows:
        raise UnusualError("the pages hold another number of rows than the footer says")
    if chunk.offset_index is not None:
        stream.seek(chunk.offset_index.start)
        # One that cannot be moved would be found when the copy is nearly written.
        index = moved(stream.read(chunk.offset_index.size), 0)
        _check_index(parsed(index), data, rows)


def _check_index(index: Struct, data: list[Page], rows: int) -> None:
    """Whether an offset index names the pages that are there. Where rows begin is known of some pages alone."""
    locations = subs(index, LOCATIONS)
    named = [(number(one, PAGE_OFFSET), number(one, PAGE_BYTES)) for one in locations]
    if named != [(page.start, page.size) for page in data]:
        raise UnusualError("the offset index names other pages than there are")
    first = [number(one, FIRST_ROW) for one in locations]
    if first[:1] not in ([], [0]) or sorted(first) != first or max(first, default=0) > rows:
        raise UnusualError("the offset index numbers rows that are not there")
    for page, begins, ends in zip(data, first, [*first[1:], rows], strict=True):
        if page.rows is not None and ends - begins != page.rows:
            raise UnusualError("the offset index numbers other rows than the pages hold")


def _pages(stream: BinaryIO, chunk: Chunk) -> Iterator[Page]:
    start = chunk.pages.start
    for _ in range(MOST_PAGES):
        if start >= chunk.pages.end:
            return
        stream.seek(start)
        # A header that is none may say that it is as long as the file, and as values it would be much longer.
        window = io.BytesIO(stream.read(MOST_HEADER_BYTES))
        try:
            header = read_struct(window)
        except NotThriftError as err:
            raise UnusualError(f"no page begins at byte {start}: {err}") from err
        begins = start + window.tell()
        stream.seek(begins)
        packed, unpacked = number(header, _PACKED), number(header, _UNPACKED)
        end = begins + packed
        if packed < 0 or unpacked < 0 or end > chunk.pages.end:
            raise UnusualError(f"the page at byte {start} reaches behind its chunk")
        if _CHECKSUM in header and _checksum(stream, packed) != number(header, _CHECKSUM) % 2**32:
            raise DamagedPageError(f"the page at byte {start} has not the checksum that its header tells")
        values, rows = _held(header)
        is_dictionary = number(header, _KIND) == _DICTIONARY_KIND
        yield Page(start, end - start, begins - start + unpacked, is_dictionary, values, rows)
        start = end
    raise UnusualError(f"a column chunk has more than {MOST_PAGES} pages")


def _held(header: Struct) -> tuple[int, int | None]:
    """How many values a page holds, and how many rows, if it tells."""
    kind = number(header, _KIND)
    if kind == _DICTIONARY_KIND:
        # What a dictionary holds counts for none of a column's values.
        return 0, None
    if kind == _DATA_KIND:
        return number(sub(header, _DATA), _VALUES), None
    if kind == _DATA_2_KIND:
        data = sub(header, _DATA_2)
        return number(data, _VALUES), number(data, _ROWS)
    raise UnusualError(f"a page is of kind {kind}")


def _checksum(stream: BinaryIO, size: int) -> int:
    checksum = 0
    for piece in pieces(stream, size):
        checksum = zlib.crc32(piece, checksum)
    return checksum


def pieces(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """So many bytes from where the stream is.

    Raises:
        UnusualError: it ends before.
    """
    while size:
        piece = stream.read(min(size, PIECE_BYTES))
        if not piece:
            raise UnusualError(f"the file ends {size} bytes early")
        size -= len(piece)
        yield piece
