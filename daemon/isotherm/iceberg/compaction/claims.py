"""What a manifest will tell of a written file's columns, and whether it holds for the rows that DuckDB reads."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DoubleType,
    FixedType,
    FloatType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from isotherm.core.model.jobs import WrittenFile
from isotherm.iceberg.compaction.duckdb_columns import Column
from isotherm.iceberg.compaction.row_hash import as_held, ticks


@dataclass(frozen=True, slots=True)
class Claim:
    """A column of which a manifest will tell something."""

    name: str
    field_type: PrimitiveType
    value: str
    nulls: int | None
    nans: int | None
    values: int | None
    lower: bytes | None
    upper: bytes | None

    @property
    def sql(self) -> tuple[str, str, str, str]:
        """How many values are not null, and how many are no number; the least and the greatest of the others.

        As what Python can hold, in the same order.
        """
        count = f"count({self.value})"
        # Not by FILTER: DuckDB takes quadratic time for many aggregates with filters of their own.
        nans = f"count(CASE WHEN isnan({self.value}) THEN 1 END)" if self._is_float else "0"
        if self.lower is None and self.upper is None:
            return count, nans, "NULL", "NULL"
        kept = f"CASE WHEN NOT isnan({self.value}) THEN {self.value} END" if self._is_float else self.value
        low, high = (_comparable(f"{name}({kept})", self.field_type) for name in ("min", "max"))
        return count, nans, low, high

    @property
    def _is_float(self) -> bool:
        return isinstance(self.field_type, FloatType | DoubleType)

    def problem(self, rows: int, count: int, nans: int, least: Any, greatest: Any) -> str | None:
        """What is told of it that does not hold, if anything."""
        if self.values is not None and self.values != rows:
            return f"column {self.name} is said to have {self.values} values in {rows} rows"
        if self.nulls is not None and self.nulls != rows - count:
            return f"column {self.name} is said to have {self.nulls} nulls, and has {rows - count}"
        has_bounds = self.lower is not None or self.upper is not None
        if self.nans != nans and (self.nans is not None or (self._is_float and has_bounds)):
            return f"column {self.name} is said to have {self.nans} values that are no number, and has {nans}"
        if least is None and (count == 0 or self._is_float):
            # Nothing counts: there is no value, or none that is a number.
            return None
        if self.lower is not None and not _ordinal(self.field_type, self.lower) <= least:
            return f"column {self.name} has values below its lower bound"
        if self.upper is not None and not greatest <= _ordinal(self.field_type, self.upper):
            return f"column {self.name} has values above its upper bound"
        return None


def claims(columns: Sequence[Column], target: Schema, file: WrittenFile) -> Iterator[Claim]:
    """What is told of the columns that have one value in each row."""
    places = {column.field_id: (f"c{place}", column) for place, column in enumerate(columns)}
    for field in target.fields:
        yield from _claims_of(field.name, field, *places[field.field_id], file)


def _claims_of(
    name: str, field: NestedField, value: str, column: Column, file: WrittenFile
) -> Iterator[Claim]:
    if isinstance(field.field_type, StructType):
        places = {child.field_id: place for place, child in enumerate(column.children)}
        for child in field.field_type.fields:
            place = places[child.field_id]
            inner = f"struct_extract_at({value}, {place + 1})"
            yield from _claims_of(f"{name}.{child.name}", child, inner, column.children[place], file)
    elif isinstance(field.field_type, PrimitiveType):
        yield Claim(
            name,
            field.field_type,
            as_held(value, column, field.field_type),
            file.null_value_counts.get(field.field_id),
            file.nan_value_counts.get(field.field_id),
            file.value_counts.get(field.field_id),
            file.lower_bounds.get(field.field_id),
            file.upper_bounds.get(field.field_id),
        )


def _comparable(value: str, field_type: PrimitiveType) -> str:
    """SQL for a value that Python compares as Iceberg does; Python's own times end at year 9999."""
    match field_type:
        case DateType():
            return f"({value} - DATE '1970-01-01')"
        case TimeType():
            return f"epoch_us({value})"
        case TimestampType() | TimestamptzType():
            return ticks(value, "epoch_us")
        case StringType():
            return f"encode({value})"
        case _:
            return value


def _ordinal(field_type: PrimitiveType, bound: bytes) -> Any:
    """A bound, in the same form."""
    match field_type:
        case StringType() | BinaryType() | FixedType():
            return bound
        case BooleanType():
            return bool(struct.unpack("<?", bound)[0])
        case _:
            return from_bytes(field_type, bound)
