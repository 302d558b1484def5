"""What rows of new files are sorted by, as people write it: `table`, `none`, `region, at DESC`, or `zorder(region, at)`.

Columns are written as in the `sort_order` of Spark's `rewrite_data_files`.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, WithJsonSchema

TABLE: Final = "table"
"""As the table's own sort order says, where it has one."""
NONE: Final = "none"
"""As they lie in the files that are read."""

MOST_SAID: Final = 100
"""Characters of a name: each partition's verdict repeats it."""
MOST_COLUMNS: Final = 8
"""More tell nothing: of a z-order through nine columns each has six bits."""

_PLAIN = re.compile(r"[^\s,()`'\"]+")
_NO_COLUMNS = ("off", "no", "false", "true", "null", "zorder")
"""Nobody means a column by them who writes nothing else."""
_COLUMN = re.compile(
    rf"\s*(?:`(?P<quoted>[^`]+)`|(?P<plain>{_PLAIN.pattern}))"
    r"(?:\s+(?P<direction>ASC|DESC))?(?:\s+NULLS\s+(?P<nulls>FIRST|LAST))?\s*",
    re.IGNORECASE,
)
_ZORDER = re.compile(r"\s*zorder\s*\((?P<columns>.*)\)\s*", re.IGNORECASE | re.DOTALL)
_EXPECTED = "expected `table`, `none`, columns such as `region, at DESC`, or `zorder(region, at)`"


@dataclass(frozen=True, slots=True)
class SortColumn:
    """A column by which rows are sorted."""

    name: str
    """As the table has it; of a field in a struct with dots."""
    is_falling: bool = False
    are_nulls_last: bool = False

    def __str__(self) -> str:
        is_plain = _PLAIN.fullmatch(self.name) and self.name.lower() not in (TABLE, NONE, *_NO_COLUMNS)
        name = self.name if is_plain else f"`{self.name}`"
        falling = " DESC" if self.is_falling else ""
        nulls = f" NULLS {'LAST' if self.are_nulls_last else 'FIRST'}"
        return f"{name}{falling}{nulls if self.are_nulls_last is not self.is_falling else ''}"


@dataclass(frozen=True, slots=True)
class SortBy:
    """The columns by which rows are sorted: one after the other, or along a curve through all of them."""

    columns: tuple[SortColumn, ...]
    is_zorder: bool = False

    def __str__(self) -> str:
        columns = ", ".join(map(str, self.columns))
        return f"zorder({columns})" if self.is_zorder else columns


def sort_by(text: str) -> SortBy | None:
    """The columns that a text names; None for `table` and `none`.

    Raises:
        ValueError: it cannot be read.
    """
    if text.strip().lower() in (TABLE, NONE):
        return None
    if text.strip().lower() in _NO_COLUMNS:
        raise ValueError(f"{_EXPECTED}; a column of this name is written in backticks")
    curve = _ZORDER.fullmatch(text)
    columns = _columns(text if curve is None else curve["columns"])
    if curve is not None and any(one != SortColumn(one.name) for one in columns):
        raise ValueError("a z-order has no direction: write its columns alone, as in `zorder(region, at)`")
    names = [one.name for one in columns]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"column `{twice}` is named twice")
    if len(columns) > MOST_COLUMNS:
        raise ValueError(f"more than {MOST_COLUMNS} columns; those behind them would hardly count")
    return SortBy(columns, is_zorder=curve is not None)


def _columns(text: str) -> tuple[SortColumn, ...]:
    columns: list[SortColumn] = []
    place = 0
    while (found := _COLUMN.match(text, place)) is not None:
        falling = (found["direction"] or "").upper() == "DESC"
        # Where nothing is said, as in Iceberg and Spark.
        last = falling if found["nulls"] is None else found["nulls"].upper() == "LAST"
        columns.append(SortColumn(found["quoted"] or found["plain"], falling, last))
        place = found.end()
        if place == len(text):
            return tuple(columns)
        if text[place] != ",":
            break
        place += 1
    raise ValueError(f"{_EXPECTED}; not understood from `{text[place : place + 40]}` on")


def _checked(value: Any) -> str:
    """The text, written as we write it.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(value, str):
        raise ValueError(_EXPECTED)  # noqa: TRY004 (pydantic tells the place of a ValueError)
    columns = sort_by(value)
    return value.strip().lower() if columns is None else str(columns)


def named(column: str, names: Collection[str]) -> list[str]:
    """Those of a table's columns that a name means: as it is written, or else in whatever case, as Spark takes it."""
    same = [one for one in names if one == column]
    return same or [one for one in names if one.lower() == column.lower()]


def why_not(text: str, names: Collection[str]) -> str:
    """Why the rows of a table cannot be sorted so, by the names of the columns by which they can; empty where they can."""
    wanted = sort_by(text)
    for column in () if wanted is None else wanted.columns:
        found = named(column.name, names)
        if len(found) != 1:
            which = (
                "no column of this name by which rows can be sorted"
                if not found
                else "several, but for their case"
            )
            return (
                f"compact.sort names column `{column.name[:MOST_SAID]}`, and the table has {which}; name another in the "
                "policy of this table, or write `table`"
            )
    return ""


SortText = Annotated[
    str, BeforeValidator(_checked), WithJsonSchema({"type": "string", "pattern": r"^\s*[^\s,()]"})
]
"""What rows are sorted by."""
