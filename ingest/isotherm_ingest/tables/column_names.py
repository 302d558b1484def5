"""Which names a column of the source can have in a table. Only values here.

Some are Iceberg's own, or a changelog's. Others something in the table has already: a partition field (`at_hour`, of
`hours(at)`), or what is within another column (`a.element`, of a list `a`). Iceberg adds no column of such a name, or cannot
read the table afterwards.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, index_by_name

from isotherm_ingest.decode.debezium_messages import CHANGELOG_COLUMNS
from isotherm_ingest.decode.debezium_schema import Column
from isotherm_ingest.streams import Stream
from isotherm_ingest.tables.reserved_columns import RESERVED_COLUMNS

_LIST = "ARRAY<"


@dataclass(frozen=True, slots=True)
class Names:
    """The names that something in a table has."""

    columns: frozenset[str] = frozenset()
    """In lower case."""
    within: frozenset[str] = frozenset()
    """Full names of what is within the columns, in lower case."""
    partition_fields: frozenset[str] = frozenset()
    """Of any spec that the table has or had: Iceberg keeps them all."""

    def clash_of(self, column: Column) -> str | None:
        """Why a column cannot be added, or None if it can."""
        told = f"column {column.name!r} of the source has the name of"
        if column.name in self.partition_fields:
            return f"{told} a partition field of the table"
        if column.name.lower() in self.within:
            return f"{told} what is within another column"
        if clash := self.columns & set(_within(column)):
            return (
                f"what is within column {column.name!r} of the source has the name of column {min(clash)!r}"
            )
        return None

    def with_column(self, column: Column) -> "Names":
        """After it was added."""
        return replace(
            self,
            columns=self.columns | {column.name.lower()},
            within=self.within.union(_within(column)),
        )


def names_of(schema: Schema, specs: Iterable[PartitionSpec]) -> Names:
    """The names in a table with this schema and these specs."""
    columns = {field.name for field in schema.fields}
    return Names(
        frozenset(name.lower() for name in columns),
        frozenset(name.lower() for name in index_by_name(schema) if name not in columns),
        frozenset(field.name for spec in specs for field in spec.fields),
    )


def first_clash(columns: Iterable[Column], stream: Stream) -> str | None:
    """Why a table that is made for a stream cannot have all of these columns, or None if it can."""
    # A field by identity has the name of its column.
    fields = frozenset(one.field_name for one in stream.spec if one.transform != "identity")
    names = Names(partition_fields=fields)
    for column in sorted(columns, key=lambda one: one.name):
        if clash := clash_of(column.name, stream.mode) or names.clash_of(column):
            return clash
        names = names.with_column(column)
    return None


def clash_of(name: str, mode: str) -> str | None:
    """Why no column of the source can have its name in a table of this mode, or None if one can."""
    if name.lower() in RESERVED_COLUMNS:
        return f"column {name!r} of the source has the name of one of Iceberg's own columns"
    if mode == "changelog" and name.lower() in CHANGELOG_COLUMNS:
        return f"column {name!r} of the source has the name of a changelog's own column"
    return None


def _within(column: Column) -> Iterator[str]:
    """Full names, in lower case, of what is within a column of the source: only lists hold anything."""
    name, kind = column.name.lower(), column.kind.type
    while kind.startswith(_LIST):
        name, kind = f"{name}.element", kind.removeprefix(_LIST)
        yield name
