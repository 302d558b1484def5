"""What a row group that was copied must be, and what it is: a checksum of its bytes, and of all that its file says of it.

Both sums are made after the footer as PyArrow reads it, which shares no code with what copies: where the pages of each
column lie, how many values they hold, and between which extremes. So a byte that was lost, a chunk of another column, a
footer that leads elsewhere and statistics that got lost are found by a sum that differs. Where Bloom filters and indexes lie,
PyArrow does not say. These are found by `isotherm.parquet.footer`, as they were and as they are.
"""

import hashlib
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow.parquet as pq

from isotherm.iceberg.compaction.row_sums import HASH_MODULUS, Tally
from isotherm.parquet.footer import Footer, Group, Part, moved, placeless, read_footer
from isotherm.parquet.pages import pieces
from isotherm.parquet.row_groups import part_of

_DIGEST_BYTES = 16
"""As many as a sum of row hashes has: both are added up."""


def group_sums(path: str, footer: Footer | None = None) -> Tally:
    """The rows of a file, and the sum of the hashes of its row groups.

    Args:
        path: of the file.
        footer: its own, where it was read before. To read one of many columns takes as long as to sum up their pages.

    Raises:
        UnusualError: it is no file whose row groups can be copied.
    """
    told = pq.read_metadata(path)
    with Path(path).open("rb") as stream:
        footer = footer or read_footer(stream)
        hashes = [_hash(stream, footer, group, told, place) for place, group in enumerate(footer.groups)]
    return Tally(told.num_rows, told.num_rows, sum(hashes) % HASH_MODULUS)


def _hash(stream: BinaryIO, footer: Footer, group: Group, told: pq.FileMetaData, place: int) -> int:
    one = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    # In its first line it says where it lies in memory.
    schema = str(told.schema).partition("\n")[2]
    of_file = (footer.kind, repr((told.created_by, told.format_version, schema)).encode())
    row_group = told.row_group(place)
    of_group = repr((row_group.num_rows, row_group.num_columns, row_group.total_byte_size)).encode()
    for text in (*of_file, of_group, placeless(group)):
        _add(one, text)
    for number, chunk in enumerate(group.chunks):
        column = row_group.column(number)
        _add(one, repr(_told(column)).encode())
        start = column.dictionary_page_offset or column.data_page_offset
        _add_part(one, stream, Part(start, column.total_compressed_size))
        _add_part(one, stream, chunk.bloom_filter)
        _add_part(one, stream, chunk.column_index)
        index = part_of(stream, chunk.offset_index)
        _add(one, moved(index, -start) if index else b"")
    return int.from_bytes(one.digest(), "big")


def _told(chunk: pq.ColumnChunkMetaData) -> tuple[Any, ...]:
    """What PyArrow reads of a column chunk, but where it lies."""
    found = chunk.statistics
    statistics = None
    if found is not None:
        extremes = (found.min_raw, found.max_raw) if found.has_min_max else None
        statistics = (extremes, found.null_count if found.has_null_count else None, found.num_values)
    return (
        chunk.path_in_schema,
        chunk.physical_type,
        chunk.compression,
        chunk.encodings,
        chunk.has_dictionary_page,
        chunk.num_values,
        chunk.total_compressed_size,
        chunk.total_uncompressed_size,
        statistics,
    )


def _add(one: Any, content: bytes) -> None:
    """Its length first: what ends here cannot begin behind."""
    one.update(len(content).to_bytes(8, "big"))
    one.update(content)


def _add_part(one: Any, stream: BinaryIO, part: Part | None) -> None:
    one.update((part.size if part is not None else 0).to_bytes(8, "big"))
    if part is not None:
        stream.seek(part.start)
        for piece in pieces(stream, part.size):
            one.update(piece)
