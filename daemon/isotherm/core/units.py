"""Spans, sizes, counts and times as people write and read them, held as whole numbers.

`15m` is 900,000 milliseconds, `512MiB` so many bytes. What is read here can be written back exactly. Every value has
a bound, so that no arithmetic with one of them leaves 64 bits.
"""

import math
import re
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

MINUTE_MS = 60_000

HOUR_MS = 3_600_000

DAY_MS = 24 * HOUR_MS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=1024)
def clock_text(at_ms: int) -> str:
    """A point in time for people, in UTC: `2026-11-21 13:05:09`."""
    try:
        return (_EPOCH + timedelta(milliseconds=at_ms)).strftime("%Y-%m-%d %H:%M:%S")
    except OverflowError:
        return f"{at_ms} ms"


_UNITS = (("d", DAY_MS), ("h", HOUR_MS), ("m", MINUTE_MS), ("s", 1000))


@lru_cache(maxsize=1024)
def span_text(span_ms: int) -> str:
    """A span for people, in its two largest units: `5h 3m`, `12s`."""
    if span_ms < 0:
        return f"-{span_text(-span_ms)}"
    parts: list[str] = []
    rest = span_ms
    for name, size in _UNITS:
        count, rest = divmod(rest, size)
        if count or (name == "s" and not parts):
            parts.append(f"{count}{name}")
        elif parts:
            break
    return " ".join(parts[:2])


@lru_cache(maxsize=1024)
def size_text(size_bytes: float, *, up: bool = False) -> str:
    """Bytes for people: `1.5 GiB`. With `up` never less than it is: what must be allowed."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            break
        size /= 1024
    digits = 0 if unit == "B" or (size >= 100 and unit != "TiB") else 1
    if up:
        size = math.ceil(size * 10**digits) / 10**digits
    return f"{size:.{digits}f} {unit}"


_SPANS_MS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}

_SPAN_PART = r"[0-9]{1,12}\s*(?:ms|[smhdw])"

SPAN_PATTERN = rf"^\s*({_SPAN_PART}\s*)+$"
"""A span, for schemas of what people write."""

_SPAN = re.compile(rf"\s*(?:{_SPAN_PART}\s*)+", re.ASCII)

_SIZES = {
    "B": 1,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}

_SIZE = re.compile(r"\s*([0-9]{1,19}(?:\.[0-9]{1,9})?)\s*([A-Za-z]{1,3})\s*", re.ASCII)

MAX_SPAN_MS = 100 * 365 * _SPANS_MS["d"]
"""A century: more is a mistake."""

MAX_SIZE = 2**60
"""An exbibyte."""

MAX_COUNT = 1_000_000_000


class Unit(Enum):
    """What a whole number in a policy measures; stands in the type, for whoever writes the value back."""

    SPAN = "span"
    SIZE = "size"
    COUNT = "count"


def parse_span_ms(value: Any) -> int:
    """`15m`, `1h 30m`, `7d` in milliseconds.

    Raises:
        ValueError: it is not a span; a bare number has no unit.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value == 0:
        return 0
    if not isinstance(value, str) or len(value) > 100 or not _SPAN.fullmatch(value):
        raise ValueError("expected a span with a unit, such as `30s`, `15m`, `6h`, `7d`")
    parts = re.findall(r"([0-9]+)\s*(ms|[smhdw])", value)
    return sum(int(count) * _SPANS_MS[unit] for count, unit in parts)


def parse_size(value: Any) -> int:
    """`512MiB`, `1.5 GB` in bytes; a bare number is bytes.

    Raises:
        ValueError: it is not a size.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value) if isinstance(value, str) and len(value) <= 100 else None
    units = {name.lower(): bytes_ for name, bytes_ in _SIZES.items()}
    if match is None or match[2].lower() not in units:
        raise ValueError("expected a size with a unit, such as `512KiB`, `128MiB`, `20GiB`")
    whole, _, part = match[1].partition(".")
    scale = units[match[2].lower()]
    return int(whole) * scale + (int(part) * scale // 10 ** len(part) if part else 0)


def span_written(span_ms: int) -> str:
    """A span as people write it in a file, exactly: `15m`, `1h30m`, `0s`."""
    parts = []
    rest = span_ms
    for unit, length_ms in _SPANS_MS.items():
        # Weeks are read, but seven days are what people write.
        count, rest = divmod(rest, length_ms) if unit != "w" else (0, rest)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"


def size_written(size_bytes: int) -> str:
    """A size as people write it in a file, exactly: `128MiB`, `1000B`."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size_bytes and size_bytes % _SIZES[unit] == 0:
            return f"{size_bytes // _SIZES[unit]}{unit}"
    return f"{size_bytes}B"


def span_within(least_ms: int, most_ms: int) -> AfterValidator:
    """The bounds of a span. A complaint says them as people write spans; `Field(ge=…)` would say milliseconds."""
    bounds = [f"at least `{span_written(least_ms)}`"] * (least_ms > 0) + [
        f"at most `{span_written(most_ms)}`"
    ]

    def within(span_ms: int) -> int:
        if not least_ms <= span_ms <= most_ms:
            raise ValueError(f"expected a span of {' and '.join(bounds)}")
        return span_ms

    return AfterValidator(within)


Span = Annotated[
    int,
    BeforeValidator(parse_span_ms),
    PlainSerializer(lambda ms: f"{ms}ms", when_used="json"),
    span_within(0, MAX_SPAN_MS),
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": SPAN_PATTERN}, {"enum": [0]}]}),
    Unit.SPAN,
]
"""A span of time, written with its unit, held in milliseconds."""

Size = Annotated[
    int,
    BeforeValidator(parse_size),
    Field(ge=0, le=MAX_SIZE),
    WithJsonSchema(
        {
            "anyOf": [
                {
                    "type": "string",
                    "pattern": r"^\s*[0-9]{1,19}(\.[0-9]{1,9})?\s*([Bb]|[KkMmGgTt][Ii]?[Bb])\s*$",
                },
                {"type": "integer", "minimum": 0, "maximum": MAX_SIZE},
            ]
        }
    ),
    Unit.SIZE,
]
"""A size, written with its unit, held in bytes."""

Count = Annotated[int, Field(strict=True, ge=0, le=MAX_COUNT), Unit.COUNT]
"""A number of things."""
