"""Whether a file that somebody wrote is one that we would write: what may be copied need not be written anew.

It has the table's columns, by id, name, type and order, and none is null that must not be. It is packed as the table asks, in row groups that are not larger
than it asks, with the Bloom filters for which it asks. And its footer tells of every column what a manifest says: nulls, and
extremes that are values of it, or none. Where a footer tells less, what is written anew is better for readers.
"""

import math
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import sanitize_column_names
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.utils.properties import property_as_int
from thrift.Thrift import TType

from isotherm.parquet.compact_thrift import Struct, bytes_of
from isotherm.parquet.footer import (
    CODEC,
    KEYS,
    STATISTICS,
    TYPE,
    Footer,
    UnusualError,
    as_pyarrow,
    items,
    number,
    sub,
    without,
)
from isotherm.parquet.output import bloom_filters, understood, writer_options
from isotherm.parquet.statistics import is_counted

WORTH_BYTES = 8 * 1024 * 1024
"""A row group of this size is left as it is. To read it takes as long as ten requests to a store, and a hundred times as long
as to look for it; a reader gains next to nothing from a larger one."""
FOOTER_BYTES = 20 * 1024
"""So many may a footer have for each 8 MiB of its file, a quarter of a percent. A footer is parsed three times until its copy is
proved. With a hundred columns of numbers in such a file that takes as long as to decode them, and nothing is gained."""
LARGER = 1.1
"""By which a row group may be larger than the table asks: writers see how large one has become when it has."""

_CODECS = {"none": 0, "snappy": 1, "gzip": 2, "zstd": 6, "lz4": 7}
"""The format's own numbers, by PyArrow's names. That of LZ4 is the newer of two."""
_TYPES = {
    "BOOLEAN": 0,
    "INT32": 1,
    "INT64": 2,
    "FLOAT": 4,
    "DOUBLE": 5,
    "BYTE_ARRAY": 6,
    "FIXED_LEN_BYTE_ARRAY": 7,
}
"""The format's own numbers of physical types, by PyArrow's names; none of 96 bits, which the table's columns never have."""
_SIZES = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8}
"""Of their values. Those of fixed length have that of their column."""
_SIZE_STATISTICS = 16
"""Of a chunk's metadata."""
_TEXT_BYTES, _REPETITIONS, _DEFINITIONS = 1, 2, 3
"""Of these: how long its texts are, and how many values have each level."""
_EXTREMES = (1, 2, 5, 6)
"""Of a chunk's statistics: the older pair and the newer one."""
_IS_GREATEST_EXACT, _IS_LEAST_EXACT = 7, 8
"""Of a chunk's statistics: whether the extreme is a value of the column, and not one that was cut off."""


def most_footer_bytes(file_bytes: int) -> int:
    """The longest footer with which a file of this size is worth copying."""
    return FOOTER_BYTES * file_bytes // WORTH_BYTES


class AsAsked:
    """What a table asks of its files."""

    def __init__(self, metadata: TableMetadata) -> None:
        """Files are held against this table."""
        written, sink = sanitize_column_names(metadata.schema()), pa.BufferOutputStream()
        pq.ParquetWriter(
            sink, schema_to_pyarrow(written), store_decimal_as_integer=True, store_schema=False
        ).close()
        self._own = pq.read_metadata(pa.py_buffer(sink.getvalue())).schema
        self._leaves = _leaves(self._own)
        properties = understood(metadata.properties)
        self._codec = _CODECS[writer_options(metadata.properties)["compression"]]
        self._most_bytes = LARGER * (
            property_as_int(
                properties,
                TableProperties.PARQUET_ROW_GROUP_SIZE_BYTES,
                TableProperties.PARQUET_ROW_GROUP_SIZE_BYTES_DEFAULT,
            )
            or 0
        )
        # Where nobody asks, it is PyArrow's limit, which Java does not know.
        self._most_rows = property_as_int(properties, TableProperties.PARQUET_ROW_GROUP_LIMIT, None)
        self._filtered = frozenset(bloom_filters(metadata, written, 1) or ())

    def check(self, footer: Footer) -> None:
        """Whether a file with this footer can stay as it is.

        Raises:
            UnusualError: it cannot.
        """
        try:
            self._check(footer)
        except (pa.ArrowException, UnicodeDecodeError) as err:
            raise UnusualError(f"PyArrow does not read the footer: {err}") from err

    def _check(self, footer: Footer) -> None:
        # Without keys: Arrow's own schema among them would say in which of Arrow's layouts its rows were.
        told = as_pyarrow(bytes_of(without(footer.fields, (KEYS,))))
        # The proof reads all texts, and not each is one.
        str((told.created_by, told.schema))
        self._check_columns(told.schema)
        columns, groups = _leaves(told.schema), footer.groups
        if not groups or min(group.size_bytes for group in (groups[0], *groups[:-1])) < WORTH_BYTES:
            raise UnusualError(f"a row group that is not the last one has less than {WORTH_BYTES} bytes")
        for place, group in enumerate(groups):
            if group.size_bytes > self._most_bytes or (
                self._most_rows is not None and group.rows > self._most_rows
            ):
                raise UnusualError("a row group is larger than the table asks")
            if len(group.chunks) != len(self._leaves):
                raise UnusualError("a row group has other columns than its file")
            for column, chunk in zip(columns, group.chunks, strict=True):
                _check_sizes(column, chunk.meta)
            row_group = told.row_group(place)
            for at, (leaf, chunk) in enumerate(zip(self._leaves, group.chunks, strict=True)):
                self._check_chunk(row_group.column(at), leaf, chunk.meta, group.rows)

    def _check_columns(self, theirs: pq.ParquetSchema) -> None:
        found, wanted = theirs.to_arrow_schema(), self._own.to_arrow_schema()
        if len(found) != len(wanted) or not all(map(_fits, found, wanted)):
            raise UnusualError("the columns are not those of the table")
        for one, other in zip(_leaves(theirs), self._leaves, strict=True):
            # Lists have had several shapes, and a UUID is sixteen bytes that somebody has called so.
            if one.path != other.path or _is_uuid(one) != _is_uuid(other):
                raise UnusualError("a column is not written as the table's are")

    def _check_chunk(self, told: pq.ColumnChunkMetaData, leaf: Any, meta: Struct, rows: int) -> None:
        path = leaf.path
        if told.path_in_schema != path or (not leaf.max_repetition_level and told.num_values != rows):
            raise UnusualError(f"a row group does not hold {rows} values of column {path}")
        if number(meta, CODEC) != self._codec:
            raise UnusualError(f"column {path} is packed in another way than the table asks")
        if path in self._filtered and told.bloom_filter_offset is None:
            raise UnusualError(f"column {path} has no Bloom filter, for which the table asks")
        if told.statistics is not None and told.statistics.has_null_count and not is_counted(told):
            raise UnusualError(f"column {path} has more nulls than values, or less than none")
        if _is_uuid(leaf):
            if told.statistics is not None and told.statistics.has_min_max:
                raise UnusualError(f"column {path} has extremes, of which readers have several orders")
            return
        if told.statistics is None or not told.statistics.has_null_count:
            raise UnusualError(f"the footer does not tell how many values of column {path} are null")
        exact = sub(meta, STATISTICS)
        if any(name in exact and not exact[name].value for name in (_IS_GREATEST_EXACT, _IS_LEAST_EXACT)):
            raise UnusualError(f"the extremes of column {path} were cut off")
        if told.physical_type in {"FLOAT", "DOUBLE"}:
            _check_floats(told)


def _check_sizes(column: Any, meta: Struct) -> None:
    """Whether a chunk has the type of its column, and extremes and histograms of its size.

    Where not, PyArrow ends the process as soon as it looks.
    """
    physical = column.physical_type
    if number(meta, TYPE) != _TYPES.get(physical):
        raise UnusualError(f"a column of type {physical} has a chunk of another type")
    size = column.length if physical == "FIXED_LEN_BYTE_ARRAY" else _SIZES.get(physical)
    found = sub(meta, STATISTICS) if STATISTICS in meta else {}
    extremes = [found[name] for name in _EXTREMES if name in found]
    if size is not None and any(one.type != TType.STRING or len(one.value) != size for one in extremes):
        raise UnusualError(f"the extremes of a column of type {physical} have not {size} bytes")
    sizes = sub(meta, _SIZE_STATISTICS) if _SIZE_STATISTICS in meta else {}
    if _TEXT_BYTES in sizes and physical != "BYTE_ARRAY":
        raise UnusualError(f"a column of type {physical} has a length of texts")
    levels = {_REPETITIONS: column.max_repetition_level, _DEFINITIONS: column.max_definition_level}
    if any(name in sizes and len(items(sizes, name)) not in {0, most + 1} for name, most in levels.items()):
        raise UnusualError("a histogram of levels has another size than there are levels")


def _check_floats(told: pq.ColumnChunkMetaData) -> None:
    """A column of floats without extremes counts as one that has no number at all."""
    found = told.statistics
    if not found.has_min_max:
        is_told = found.null_count == told.num_values
    else:
        is_told = not (math.isnan(found.min_raw) or math.isnan(found.max_raw))
    if not is_told:
        raise UnusualError(
            f"the footer does not tell between which numbers column {told.path_in_schema} lies"
        )


def _fits(theirs: pa.Field, ours: pa.Field) -> bool:
    """Whether a column is the table's. Spark calls one required that has no null in a file, which does no harm."""
    if (theirs.name, theirs.metadata) != (ours.name, ours.metadata) or (
        theirs.nullable and not ours.nullable
    ):
        return False
    one, other = theirs.type, ours.type
    if not pa.types.is_nested(one):
        return bool(one == other)
    if (one.id, one.num_fields) != (other.id, other.num_fields):
        return False
    return all(_fits(one.field(place), other.field(place)) for place in range(one.num_fields))


def _leaves(schema: pq.ParquetSchema) -> list[Any]:
    return [schema.column(place) for place in range(len(schema))]


def _is_uuid(leaf: Any) -> bool:
    return bool(leaf.logical_type.type == "UUID")
