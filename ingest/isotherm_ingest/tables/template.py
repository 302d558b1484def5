"""What a stream's template makes of one table, now that its columns are known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from isotherm_ingest.failures import TableRefused
from isotherm_ingest.sql.text import quoted
from isotherm_ingest.streams import Stream
from isotherm_ingest.table_template import NO_IDENTIFIERS, UNSORTED
from isotherm_ingest.tables.lake import TableNow


@dataclass(frozen=True, slots=True)
class Template:
    """Of one table."""

    columns: Mapping[str, str]
    """With their types, and whether they are required."""
    order: Sequence[str]
    """The fields of its sort order, in SQL."""
    identifiers: Sequence[str]

    def missing(self, now: TableNow) -> list[str]:
        """The ALTERs for what a table without rows does not have yet."""
        metadata, schema = now.table.metadata, now.table.schema()
        changes = []
        if self.order and not now.table.sort_order().fields:
            # Locally: otherwise Spark would write another distribution into the properties.
            changes.append(f"WRITE LOCALLY ORDERED BY {', '.join(self.order)}")
        is_required = all(schema.find_field(name).required for name in self.identifiers)
        if self.identifiers and is_required and not metadata.schema().identifier_field_ids:
            changes.append(f"SET IDENTIFIER FIELDS {', '.join(map(quoted, self.identifiers))}")
        return changes


def template_of(name: str, stream: Stream, key: Sequence[str], columns: Mapping[str, str]) -> Template:
    """What a table of these columns is made of.

    Args:
        name: of the table.
        stream: whose table it is.
        key: of a mirror.
        columns: by name, their types in SQL.

    Raises:
        TableRefused: it cannot be made.
    """
    own = {column.lower(): column for column in columns}
    order = []
    for field in stream.sort_order:
        column = _checked(f"sort_by of {name}", field.column, own, columns, UNSORTED)
        order.append(f"{quoted(column)} {field.direction} NULLS {field.nulls}")
    identifiers = [
        _checked(f"identifier_fields of {name}", column, own, columns, NO_IDENTIFIERS)
        for column in (key if stream.identifier_fields else ())
    ]
    return Template(
        {column: f"{kind} NOT NULL" if column in identifiers else kind for column, kind in columns.items()},
        order,
        identifiers,
    )


def _checked(
    what: str, column: str, own: Mapping[str, str], columns: Mapping[str, str], refused: tuple[str, ...]
) -> str:
    """A column as the table writes its name."""
    found = own.get(column.lower())
    if found is None:
        raise TableRefused(f"{what} names {column!r}, which the table does not have: {sorted(columns)}")
    if columns[found].startswith(refused):
        raise TableRefused(
            f"{what} names {column!r}, which is {columns[found]}: Iceberg takes no such column"
        )
    return found
