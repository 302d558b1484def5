"""Spans of time, as `streams.yaml` says them."""

import re
from typing import Annotated

from pydantic import AfterValidator

_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(span: str) -> float:
    """`500ms`, `2s`, `1m`, `1h` in seconds."""
    match = _SPAN.fullmatch(span)
    if match is None:
        raise ValueError(f"{span!r} is no span of time such as 500ms, 2s, 1m")
    return float(match[1]) * _SECONDS[match[2]]


def _span(value: str) -> str:
    if seconds(value) <= 0:
        raise ValueError(f"{value!r} is no time at all")
    return value


Span = Annotated[str, AfterValidator(_span)]
