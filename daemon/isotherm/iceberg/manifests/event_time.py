"""Where manifests say how far the event time of a file's rows reaches: the upper bounds of the time column.

That is the column which a time transform of the partition spec is made from. Its bounds are exact, because writers
shorten only those of text and bytes (spec, "Manifests", `upper_bounds`; "Binary single-value serialization").
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform, MonthTransform, YearTransform
from pyiceberg.types import (
    DateType,
    IcebergType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

from isotherm.core.units import DAY_MS, MINUTE_MS
from isotherm.iceberg.manifests.partition_values import column_type

_NARROWEST_FIRST: Final = (HourTransform, DayTransform, IdentityTransform, MonthTransform, YearTransform)


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """A column of dates or timestamps."""

    field_id: int
    per_ms: int
    """How many units of its numbers make a millisecond."""

    def reached_ms(self, upper_bounds: Mapping[int, bytes] | None) -> int | None:
        """The greatest value of a file, in milliseconds; None where its bounds do not say."""
        bound = None if upper_bounds is None else upper_bounds.get(self.field_id)
        return None if bound is None else self.bound_ms(bound)

    def bound_ms(self, bound: bytes) -> int | None:
        """One bound in milliseconds, rounded up to a minute; None for one of a length that no time has.

        Files that came together then differ by little, and are counted together.
        """
        match len(bound):
            case 4:  # a date, also where the column has become a timestamp since
                return int(struct.unpack("<i", bound)[0]) * DAY_MS
            case 8:
                return -(-int(struct.unpack("<q", bound)[0]) // (self.per_ms * MINUTE_MS)) * MINUTE_MS
            case _:
                return None


def time_column(metadata: TableMetadata, spec: PartitionSpec) -> TimeColumn | None:
    """The column by which a spec divides time most finely; None where it does not divide time."""
    found: list[tuple[int, TimeColumn]] = []
    for field in spec.fields:
        per_ms = _per_ms(column_type(metadata, field.source_id))
        for rank, transform in enumerate(_NARROWEST_FIRST):
            if per_ms is not None and isinstance(field.transform, transform):
                found.append((rank, TimeColumn(field.source_id, per_ms)))
    return min(found, key=lambda one: one[0])[1] if found else None


def _per_ms(kind: IcebergType | None) -> int | None:
    match kind:
        case DateType():
            return 1
        case TimestampType() | TimestamptzType():
            return 1000
        case TimestampNanoType() | TimestamptzNanoType():
            return 1_000_000
        case _:
            return None
