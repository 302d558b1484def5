"""Partition values in SQL, as manifests hold them, and the moments that partitions of time are made of."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

from isotherm_ingest.sql.text import quoted
from isotherm_ingest.tables.lake import SpecField

MAX_RANGES = 60
"""Ranges in one condition; beyond it, one range from the first to the last."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMES = {"hours", "days", "months", "years"}


def is_time(field: SpecField, kind: str) -> bool:
    """Whether a partition of this field is a span of time, in a column of this type."""
    return field.transform in _TIMES and kind in {"TIMESTAMP", "TIMESTAMP_NTZ", "DATE"}


def moments(field: SpecField, kind: str, ordinals: Collection[int]) -> str | None:
    """A condition that is true in partitions of these ordinals, as ranges of literals. None where no literal can say it."""
    ranges = contiguous(sorted(ordinals))
    if not ranges:
        return None
    if len(ranges) > MAX_RANGES:
        ranges = [(ranges[0][0], ranges[-1][1])]
    column = quoted(field.column)
    try:
        parts = [
            f"({column} >= {_moment(field.transform, first, kind)} AND {column} < {_moment(field.transform, last + 1, kind)})"
            for first, last in ranges
        ]
    except OverflowError:  # a year that no literal holds
        return None
    return " OR ".join(parts)


def contiguous(ordinals: Sequence[int]) -> list[tuple[int, int]]:
    """Runs of sorted ordinals: `[1, 2, 5]` are 1 to 2 and 5 to 5."""
    runs: list[tuple[int, int]] = []
    for one in ordinals:
        if runs and one == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], one)
        else:
            runs.append((one, one))
    return runs


def _moment(transform: str, ordinal: int, kind: str) -> str:
    """The first moment of a partition, as a literal."""
    match transform:
        case "hours":
            moment = _EPOCH + timedelta(hours=ordinal)
        case "days":
            moment = _EPOCH + timedelta(days=ordinal)
        case "months":
            moment = _month(ordinal)
        case _:
            moment = _month(12 * ordinal)
    # isoformat pads the year, strftime does not; an unpadded one is no literal.
    if kind == "DATE":
        return f"DATE'{moment.date().isoformat()}'"
    zone = "Z" if kind == "TIMESTAMP" else ""
    return f"{kind}'{moment.replace(tzinfo=None).isoformat(' ')}{zone}'"


def _month(months: int) -> datetime:
    year, month = 1970 + months // 12, months % 12 + 1
    if not 1 <= year <= 9999:
        raise OverflowError(f"year {year}")
    return datetime(year, month, 1, tzinfo=UTC)
