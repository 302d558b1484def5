"""What a partition key means: its name for people, and the span of event time that it covers.

Pure arithmetic on the ordinals that Iceberg's time transforms give (spec, "Partition Transforms").
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

from isotherm.contract.identity import PartitionKey, Scalar, partition_values
from isotherm.core.model.tables import PartitionField
from isotherm.core.units import DAY_MS, HOUR_MS

FARTHEST_MS = 10**15
"""Some thirty thousand years: a number beyond is held in another unit than the policy says, and is no time."""

REMEMBERED = 20_000
"""Labels and spans of so many partitions are kept: each round asks for those of the same ones."""
REMEMBERED_CHARS = 500
"""Of the keys of those: a longer one, as of a text that is its own partition, is taken apart each time."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """Event time from `start_ms` (inclusive) to `end_ms` (exclusive), UTC."""

    start_ms: int
    end_ms: int

    @property
    def length_ms(self) -> int:
        """The interval of the transform."""
        return self.end_ms - self.start_ms


BREAKS = {
    number: chr(number).encode("unicode_escape").decode()
    for number in (*range(32), *range(127, 160), 0x2028, 0x2029)
}
"""Control characters and line breaks, as they are written in a label."""


def label(key: PartitionKey, fields: Iterable[PartitionField]) -> str:
    """The partition as people write it: `order_time_hour=2026-11-21-13`; parts are joined by a slash.

    Fields that are null, or absent from the file's spec, are left out. Where none is left the partition is called
    `(no value)`, and the whole of an unpartitioned table `(all)`.
    """
    make = _label if len(key) <= REMEMBERED_CHARS else _label.__wrapped__
    return make(key, tuple(fields))


@lru_cache(maxsize=REMEMBERED)
def _label(key: PartitionKey, fields: tuple[PartitionField, ...]) -> str:
    names = {field.field_id: field for field in fields}
    parts = [
        _field_label(names.get(field_id), field_id, value)
        for field_id, value in partition_values(key).items()
    ]
    # A value may be any text: one with a line break would write a line of its own.
    text = "/".join(parts).translate(BREAKS)
    return text or ("(no value)" if fields else "(all)")


def _field_label(field: PartitionField | None, field_id: int, value: Scalar) -> str:
    if field is None:
        return f"{field_id}={value}"
    text = str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            match field.transform:
                case "hour":
                    text = (_EPOCH + timedelta(hours=value)).strftime("%Y-%m-%d-%H")
                case "day":
                    text = (_EPOCH + timedelta(days=value)).strftime("%Y-%m-%d")
                case "month":
                    text = f"{1970 + value // 12:04d}-{value % 12 + 1:02d}"
                case "year":
                    text = f"{1970 + value:04d}"
                case "identity" if field.source_type == "date":
                    text = (_EPOCH + timedelta(days=value)).strftime("%Y-%m-%d")
                case _:
                    pass
        except OverflowError:  # a row from the year 99999 has a partition too
            text = str(value)
    return f"{field.name}={text}"


def time_span(key: PartitionKey, fields: Iterable[PartitionField]) -> TimeSpan | None:
    """The event time that the partition covers; None where no field of it is a time.

    Of several time fields the narrowest counts: it says most.
    """
    make = _time_span if len(key) <= REMEMBERED_CHARS else _time_span.__wrapped__
    return make(key, tuple(fields))


@lru_cache(maxsize=REMEMBERED)
def _time_span(key: PartitionKey, fields: tuple[PartitionField, ...]) -> TimeSpan | None:
    spans = _spans(key, fields)
    return min(spans, key=lambda span: span.length_ms) if spans else None


def is_whole_interval(key: PartitionKey, fields: Iterable[PartitionField]) -> bool:
    """Whether the partition is all that an interval of time has: each field of it is a time."""
    make = _is_whole_interval if len(key) <= REMEMBERED_CHARS else _is_whole_interval.__wrapped__
    return make(key, tuple(fields))


@lru_cache(maxsize=REMEMBERED)
def _is_whole_interval(key: PartitionKey, fields: tuple[PartitionField, ...]) -> bool:
    return 0 < len(partition_values(key)) == len(_spans(key, fields))


def _spans(key: PartitionKey, fields: tuple[PartitionField, ...]) -> list[TimeSpan]:
    values = partition_values(key)
    return [
        span
        for field in fields
        if (value := values.get(field.field_id)) is not None
        and (span := _epoch_span(field, value) if field.epoch else _span(field, value)) is not None
    ]


def with_epochs(fields: Iterable[PartitionField], epochs: Mapping[str, str]) -> tuple[PartitionField, ...]:
    """The fields, with those that a policy says to hold a time, by name, marked so."""
    return tuple(replace(field, epoch=epochs.get(field.name)) for field in fields)


_UNIT_MS = {"s": 1000.0, "ms": 1.0, "us": 0.001, "d": float(DAY_MS)}

_WIDTH = re.compile(r"truncate\[(\d+)\]")


def _epoch_span(field: PartitionField, value: Scalar) -> TimeSpan | None:
    """The time that a number or a text stands for; None where it is not of the form that the policy says."""
    width = _WIDTH.fullmatch(field.transform)
    if width is None and field.transform != "identity":
        return None
    if field.epoch in ("yyyymmdd", "yyyy-mm-dd"):
        # The standard library reads both forms of a date.
        text = str(value)
        try:
            days = (date.fromisoformat(text) - date(1970, 1, 1)).days if len(text) in (8, 10) else None
        except ValueError:
            days = None
        return None if days is None else TimeSpan(days * DAY_MS, (days + 1) * DAY_MS)
    unit_ms = _UNIT_MS.get(field.epoch or "")
    if unit_ms is None or isinstance(value, bool) or not isinstance(value, int):
        return None
    start_ms = int(value * unit_ms)
    if abs(start_ms) > FARTHEST_MS:
        return None
    return TimeSpan(start_ms, start_ms + max(int(unit_ms * int(width[1] if width else 1)), 1))


def _span(field: PartitionField, value: Scalar) -> TimeSpan | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    match field.transform:
        case "hour":
            return TimeSpan(value * HOUR_MS, (value + 1) * HOUR_MS)
        case "day":
            return TimeSpan(value * DAY_MS, (value + 1) * DAY_MS)
        case "identity" if field.source_type == "date":
            return TimeSpan(value * DAY_MS, (value + 1) * DAY_MS)
        case "month":
            return TimeSpan(_month_ms(value), _month_ms(value + 1))
        case "year":
            return TimeSpan(_month_ms(12 * value), _month_ms(12 * value + 12))
        case _:
            return None


def _month_ms(months: int) -> int:
    """The first millisecond of a month, counted from January 1970; proleptic, for any year."""
    years, month = divmod(months, 12)
    return _days_before_year(1970 + years, month) * DAY_MS


def _days_before_year(year: int, month: int) -> int:
    """Days from 1970-01-01 to the first of a month (0 to 11), after Howard Hinnant's `days_from_civil`."""
    shifted_year = year - (month < 2)
    era, year_of_era = divmod(shifted_year, 400)
    day_of_year = (153 * ((month + 10) % 12) + 2) // 5
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146_097 + day_of_era - 719_468
