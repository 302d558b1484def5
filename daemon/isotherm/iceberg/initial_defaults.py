"""Columns of which rows that were written without them have a value: `initial-default`.

By the specification only format 3 has them, and PyIceberg adds them to tables of format 2 all the same; Spark reads them
there. Whoever rewrites such rows must write the value, and nobody here does yet.
"""

from collections.abc import Iterator

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType


def column_with_default(metadata: TableMetadata) -> str:
    """The name of such a column in any schema of a table, or nothing. Keys of deletes may be of an older one."""
    for schema in metadata.schemas:
        for column in schema.fields:
            if any(field.initial_default is not None for field in _within(column)):
                return column.name[:MOST_SAID]
    return ""


MOST_SAID = 100
"""Characters of a name: each partition's verdict repeats it."""


def _within(column: NestedField) -> Iterator[NestedField]:
    """A column, and the fields within it."""
    waiting = [column]
    while waiting:
        field = waiting.pop()
        yield field
        waiting += _fields_of(field.field_type)


def _fields_of(kind: IcebergType) -> tuple[NestedField, ...]:
    match kind:
        case StructType():
            return kind.fields
        case ListType():
            return (kind.element_field,)
        case MapType():
            return (kind.key_field, kind.value_field)
        case _:
            return ()
