"""How far a stream must have left a partition behind, as people write it: `2`, `3h` or `learned`."""

from datetime import timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from isotherm.core.units import MAX_COUNT, MAX_SPAN_MS, SPAN_PATTERN, parse_span_ms, span_written

LEARNED: Final = "learned"

UNTAUGHT_INTERVALS: Final = 2.0
"""What `learned` means at most, and for a table that has taught nothing yet."""


def parse_after(value: Any) -> float | timedelta | str:
    """`2`, `3h` or `learned`.

    Raises:
        ValueError: it is none of these.
    """
    if isinstance(value, timedelta) or value == LEARNED:
        return value  # type: ignore[no-any-return]
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 <= value <= MAX_COUNT:
            raise ValueError(f"expected 0 to {MAX_COUNT} intervals")
        return float(value)
    try:
        span_ms = parse_span_ms(value)
    except ValueError:
        raise ValueError("expected `learned`, intervals such as `2`, or a span such as `3h`") from None
    if span_ms > MAX_SPAN_MS:
        raise ValueError("expected a century at most")
    return timedelta(milliseconds=span_ms)


After = Annotated[
    float | timedelta | Literal["learned"],
    BeforeValidator(parse_after),
    PlainSerializer(lambda after: after_written(after) if isinstance(after, timedelta) else after),
    WithJsonSchema(
        {
            "anyOf": [
                {"const": LEARNED},
                {"type": "number", "minimum": 0, "maximum": MAX_COUNT},
                {"type": "string", "pattern": SPAN_PATTERN},
            ]
        }
    ),
]
"""How far a stream must have left a partition behind: intervals of it, a span of event time, or what is learned."""


def after_written(after: timedelta) -> str:
    """A span as people write it in a file, exactly."""
    return span_written(after // timedelta(milliseconds=1))
