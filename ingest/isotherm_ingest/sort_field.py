"""One field of a table's sort order, as `streams.yaml` says it."""

import re

from isotherm.runtime.strict_model import StrictModel
from isotherm_ingest.partition_field import NAME

_SORT_FIELD = re.compile(
    rf"(?P<column>{NAME})(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?",
    re.IGNORECASE,
)


class SortField(StrictModel):
    """One field of a sort order, taken apart."""

    column: str
    direction: str
    """`ASC` or `DESC`."""
    nulls: str
    """`FIRST` or `LAST`; where nothing is said, as Iceberg has it: first where values ascend."""


def sort_field(text: str) -> SortField:
    """Take `region` or `at desc nulls last` apart.

    Raises:
        ValueError: it is none of those.
    """
    match = _SORT_FIELD.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no field of a sort order; known: c, c desc, c asc nulls last, …")
    direction = (match["direction"] or "asc").upper()
    nulls = match["nulls"] or ("first" if direction == "ASC" else "last")
    return SortField(column=match["column"], direction=direction, nulls=nulls.upper())
