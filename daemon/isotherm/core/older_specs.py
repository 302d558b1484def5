"""Which partitions are of an older partition spec, and into which of the current one their rows go. Pure arithmetic.

A partition's key tells fields and values, not a spec. One that has a field that is no part of the current spec is of an older
one. One without any value may be either: rows without a value, or a table that was not divided.
"""

from collections.abc import Collection, Iterable

from isotherm.contract.identity import PartitionKey, Scalar, partition_key, partition_values
from isotherm.core.model.job_limits import MAX_OUTPUTS
from isotherm.core.model.tables import PartitionField, TableFacts
from isotherm.core.partitions import TimeSpan, time_span
from isotherm.core.units import DAY_MS, HOUR_MS

WITHOUT_VALUE = partition_key({})
"""The partition of the current spec in which rows lie that have no value in its source column."""


def only_field(fields: Iterable[PartitionField]) -> PartitionField | None:
    """The field of the current spec, where that has one alone: rows of older ones are moved if it is one of time."""
    current = [field for field in fields if field.is_current]
    return current[0] if len(current) == 1 else None


def is_older(key: PartitionKey, facts: TableFacts) -> bool:
    """Whether a partition holds files of an older spec."""
    held = partition_values(key)
    current = {field.field_id for field in facts.fields if field.is_current}
    return not held.keys() <= current if held else facts.has_undivided and bool(current)


def outputs_of(key: PartitionKey, fields: Collection[PartitionField]) -> tuple[PartitionKey, ...] | None:
    """The partitions of the current spec into which the rows of an older one go; None where the key does not tell.

    One more than a job may write is enough to know that they are too many.
    """
    field = only_field(fields)
    if field is None:
        return None
    held = partition_values(key)
    if field.field_id in held:
        return (partition_key({field.field_id: held[field.field_id]}),)
    alike = [one for one in fields if one.source_id == field.source_id is not None]
    span = time_span(key, alike)
    if span is None:
        return None
    return tuple(of_ordinals(field, ordinal(span.start_ms, field), ordinal(span.end_ms - 1, field)))


def of_ordinals(field: PartitionField, first: int, last: int) -> list[PartitionKey]:
    """The partitions of a field of time from one ordinal to another; one more than a job may write, and no more."""
    return [
        partition_key({field.field_id: number}) for number in range(first, min(last, first + MAX_OUTPUTS) + 1)
    ]


def ordinal(at_ms: int, field: PartitionField) -> int:
    """What the transform of a field of time gives for a time."""
    match field.transform:
        case "hour":
            return at_ms // HOUR_MS
        case "month":
            return _months(at_ms)
        case "year":
            return _months(at_ms) // 12
        case _:
            return at_ms // DAY_MS


def span_of(field: PartitionField, value: Scalar) -> TimeSpan:
    """The time that a partition of a field of time covers."""
    span = time_span(partition_key({field.field_id: value}), (field,))
    if span is None:
        raise ValueError(f"{field.name} ({field.transform}) is no time")
    return span


def _months(at_ms: int) -> int:
    """Months since January 1970, of any year; after Howard Hinnant's `civil_from_days`."""
    days = at_ms // DAY_MS + 719_468
    era, day_of_era = divmod(days, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    year = year_of_era + 400 * era + (shifted_month >= 10)
    month = shifted_month + 2 if shifted_month < 10 else shifted_month - 10
    return (year - 1970) * 12 + month
