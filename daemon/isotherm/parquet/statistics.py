"""What a manifest says about a new data file: counts and bounds, made of the file's own Parquet footer.

A footer does not tell how many values are no number (NaN), and its extremes leave them out. Engines take a file without
that count for one without such values: `DELETE … WHERE price < 10` would drop a whole file whose greatest number is 5,
and with it the rows that have none. So these are counted in the rows themselves (`nan_counts`).

A bound that leaves out a value makes rows vanish from every filtered read, so a column has bounds only where each row
group tells its own. Parquet C++ writes none for a chunk whose extreme is longer than 4 KiB. PyIceberg's collector
passes over such a chunk, makes the bounds of the others, and goes through Python's values, which end at year 9999.
Here the footer's raw values are used. What this module says is verified against the rows that are read back (`row_sums`).

Pure functions over values in memory.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    StatisticsCollector,
    compute_statistics_plan,
    match_metrics_mode,
)
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

_FORMATS: dict[type[PrimitiveType], str] = {
    BooleanType: "<?",
    IntegerType: "<i",
    DateType: "<i",
    LongType: "<q",
    TimeType: "<q",
    TimestampType: "<q",
    TimestamptzType: "<q",
    FloatType: "<f",
    DoubleType: "<d",
}
"""How Iceberg writes a single value of a type, where the footer's raw value is a number."""
_METRICS = "write.metadata.metrics."
_SURROGATES = range(0xD800, 0xE000)
_LAST_CODE_POINT = 0x10FFFF


@dataclass(frozen=True, slots=True)
class Statistics:
    """The counts and bounds of a data file by field id, and where its row groups begin."""

    column_sizes: dict[int, int] = field(default_factory=dict)
    value_counts: dict[int, int] = field(default_factory=dict)
    null_value_counts: dict[int, int] = field(default_factory=dict)
    nan_value_counts: dict[int, int] = field(default_factory=dict)
    lower_bounds: dict[int, bytes] = field(default_factory=dict)
    upper_bounds: dict[int, bytes] = field(default_factory=dict)
    split_offsets: tuple[int, ...] = ()


def nan_counts(rows: pa.Table, schema: Schema) -> dict[int, int]:
    """How many values are no number, by field id, of each column of floats. What is nested has no bounds, nor counts."""
    return {
        field.field_id: pc.sum(pc.is_nan(values)).as_py() or 0
        for field, values in zip(schema.fields, rows.columns, strict=True)
        if isinstance(field.field_type, FloatType | DoubleType)
    }


def statistics(
    footer: pq.FileMetaData, schema: Schema, properties: Mapping[str, str], nans: Mapping[int, int]
) -> Statistics:
    """The statistics of a file with a table's schema, as far as the table's metrics modes ask for them.

    Args:
        footer: the file's.
        schema: the table's, with the names by which its properties know the columns. The file's may be spelled in
            another way; its columns are found by their order.
        properties: the table's, with its metrics modes.
        nans: how many values are no number, by field id. A column of floats without a count has no bounds.
    """
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    result = Statistics(split_offsets=tuple(sorted(_begins(group.column(0)) for group in groups)))
    # One entry for each column of the footer, in its order.
    plan = list(compute_statistics_plan(schema, _with_known_modes(properties)).values())
    for place, column in enumerate(plan):
        _add(result, column, [group.column(place) for group in groups], nans.get(column.field_id))
    return result


def _with_known_modes(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties without metrics modes that are none: what they would say is left to the default, as Java does it."""
    return {
        name: value
        for name, value in properties.items()
        if not name.startswith(_METRICS) or _is_metrics_mode(value)
    }


def _is_metrics_mode(text: str) -> bool:
    try:
        match_metrics_mode(text)
    except ValueError:
        return False
    return True


def _begins(chunk: pq.ColumnChunkMetaData) -> int:
    offset: int = chunk.data_page_offset
    return min(chunk.dictionary_page_offset, offset) if chunk.has_dictionary_page else offset


def _add(
    result: Statistics, column: StatisticsCollector, chunks: list[pq.ColumnChunkMetaData], nans: int | None
) -> None:
    """Add what the chunks of a column tell."""
    field_id, mode = column.field_id, column.mode
    result.column_sizes[field_id] = sum(chunk.total_compressed_size for chunk in chunks)
    if mode.type is MetricModeTypes.NONE:
        return
    result.value_counts[field_id] = sum(chunk.num_values for chunk in chunks)
    if nans is not None:
        result.nan_value_counts[field_id] = nans
    told = [chunk.statistics for chunk in chunks]
    if not all(is_counted(chunk) for chunk in chunks):
        return
    result.null_value_counts[field_id] = sum(one.null_count for one in told)
    is_float = isinstance(column.iceberg_type, FloatType | DoubleType)
    if mode.type is MetricModeTypes.COUNTS or (is_float and nans is None):
        return
    least, greatest = _extremes(column.iceberg_type, chunks)
    if least is None or greatest is None:
        return
    lower, upper = _bounds(column.iceberg_type, least, greatest, mode.length)
    if lower is not None:
        result.lower_bounds[field_id] = lower
    if upper is not None:
        result.upper_bounds[field_id] = upper


def is_counted(chunk: pq.ColumnChunkMetaData) -> bool:
    """Whether a chunk tells how many of its values are null. A number that cannot be would have readers skip rows."""
    told = chunk.statistics
    return told is not None and told.has_null_count and 0 <= told.null_count <= chunk.num_values


def _extremes(iceberg: IcebergType, chunks: list[pq.ColumnChunkMetaData]) -> tuple[Any, Any]:
    """The least and the greatest raw value; None where there is no value, or a chunk does not tell."""
    if not isinstance(iceberg, (DecimalType, StringType, BinaryType, FixedType, *_FORMATS)):
        # UUIDs have no order that all readers share: Java compares them as signed numbers.
        return None, None
    least = greatest = None
    for chunk in chunks:
        told = chunk.statistics
        if not told.has_min_max:
            if chunk.num_values == told.null_count or isinstance(iceberg, FloatType | DoubleType):
                # No value, or none that is a number: bounds leave NaN out.
                continue
            return None, None
        low, high = (_comparable(iceberg, raw) for raw in (told.min_raw, told.max_raw))
        least = low if least is None else min(least, low)
        greatest = high if greatest is None else max(greatest, high)
    return least, greatest


def _comparable(iceberg: IcebergType, raw: Any) -> Any:
    """A raw value of the footer in a form that has the column's order."""
    if isinstance(iceberg, DecimalType) and isinstance(raw, bytes):
        return int.from_bytes(raw, "big", signed=True)
    return raw


def _bounds(
    iceberg: IcebergType, least: Any, greatest: Any, length: int | None
) -> tuple[bytes | None, bytes | None]:
    """The extremes as manifests hold them, shortened to at most `length` characters or bytes."""
    match iceberg:
        case StringType():
            try:
                return _lower_text(least, length), _upper_text(greatest, length)
            except UnicodeDecodeError:
                return None, None
        case BinaryType():
            return least[:length], _upper_binary(greatest, length)
        case FixedType():
            return least, greatest
        case DecimalType():
            return _unscaled(least), _unscaled(greatest)
        case FloatType() | DoubleType():
            # Where one zero is there the other one may be too, of which Java takes -0.0 for the lesser.
            width = _FORMATS[type(iceberg)]
            return struct.pack(width, least or -0.0), struct.pack(width, greatest or 0.0)
        case _:
            layout = _FORMATS[type(iceberg)]  # type: ignore[index]
            return struct.pack(layout, least), struct.pack(layout, greatest)


def _unscaled(value: int) -> bytes:
    """A decimal's digits in as few bytes as hold them and a sign."""
    bits = (value if value >= 0 else ~value).bit_length() + 1
    return value.to_bytes((bits + 7) // 8, "big", signed=True)


def _lower_text(value: bytes, length: int | None) -> bytes:
    return value.decode()[:length].encode()


def _upper_text(value: bytes, length: int | None) -> bytes | None:
    """A text that no value exceeds: cut off, and its last character that can grow grown.

    Returns None where there is none.
    """
    text = value.decode()
    if length is None or len(text) <= length:
        return value
    characters = [ord(one) for one in text[:length]]
    while characters and characters[-1] == _LAST_CODE_POINT:
        characters.pop()
    if not characters:
        return None
    characters[-1] += 1
    if characters[-1] in _SURROGATES:
        characters[-1] = _SURROGATES.stop
    return "".join(map(chr, characters)).encode()


def _upper_binary(value: bytes, length: int | None) -> bytes | None:
    """The same for bytes."""
    if length is None or len(value) <= length:
        return value
    kept = value[:length].rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
