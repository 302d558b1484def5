"""Whether the rows of a schema fit into a table's columns, and which ALTERs make room for them."""

from collections.abc import Mapping

from isotherm_ingest.sql.debezium import fits, widened
from isotherm_ingest.sql.decode import Group
from isotherm_ingest.sql.text import quoted


def changes_for(columns: Mapping[str, str], group: Group) -> tuple[str | None, list[str]]:
    """What does not fit into the columns, if anything; else the ALTERs that make room for a schema."""
    known = {name.lower(): kind for name, kind in columns.items()}
    changes: list[str] = []
    for column in group.schema.columns:
        kind = known.get(column.name.lower())
        if kind is None:
            changes.append(f"ADD COLUMN {quoted(column.name)} {column.kind.type}")
        elif widened(kind, column.kind.type):
            changes.append(f"ALTER COLUMN {quoted(column.name)} TYPE {column.kind.type}")
        elif not fits(kind, column.kind.type):
            return f"column {column.name} is {kind} in the table and {column.kind.type} in the message", []
    return None, changes
