"""From which source the rows of a mirror are, as the table itself remembers it: one source, or several.

Only a table that has been of one source since it was empty may be emptied by a truncate of that source. Neither a vector,
which is lost with its token, nor the messages of a batch tell what came before.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from isotherm_ingest.tables.portion import Group

ROWS_OF_PROPERTY = "ingest.rows-of"
SEVERAL = "several"
_PARTS = ("name", "db", "schema", "table")


@dataclass(frozen=True, slots=True)
class RowsOf:
    """The one source of a table."""

    topic: str
    source: tuple[str, str, str, str]
    """As `ChangeSchema.source` has it."""


def said_first(groups: Iterable[Group]) -> dict[str, str]:
    """The property of a table without rows, by the first of its messages. Those of other sources will be found out."""
    group = next(iter(groups), None)
    if group is None or group.schema.source is None:
        return {}
    told = {"topic": group.topic, **dict(zip(_PARTS, group.schema.source, strict=True))}
    return {ROWS_OF_PROPERTY: json.dumps(told, separators=(",", ":"))}


def rows_of(properties: Mapping[str, str]) -> RowsOf | None:
    """The one source of a table, or None where there are several, or nobody knows."""
    try:
        said = json.loads(properties.get(ROWS_OF_PROPERTY, ""))
        told = [said[part] for part in ("topic", *_PARTS)]
    except (ValueError, KeyError, TypeError, RecursionError):  # none, or somebody else's idea of it
        return None
    if not all(isinstance(one, str) for one in told):
        return None
    topic, name, database, schema, table = told
    return RowsOf(topic, (name, database, schema, table))


def doubt(properties: Mapping[str, str]) -> str:
    """Why the rows of a table may be of several sources; empty where they are of one."""
    if rows_of(properties) is not None:
        return ""
    if properties.get(ROWS_OF_PROPERTY) == SEVERAL:
        return f"the table has rows of several sources ({ROWS_OF_PROPERTY})"
    return f"the table does not say from which source its rows are ({ROWS_OF_PROPERTY})"
