"""The columns by which equality deletes name rows: at any depth of structs, and those that the table dropped since.

A delete applies by the columns that its writer knew, whatever became of them: a dropped one still counts, and a widened
one is compared as what it is now.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import (
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    NestedField,
    PrimitiveType,
    StructType,
)

from isotherm.core.model.refusals import Reason, RefusalError


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One of these columns, and the way to it."""

    way: tuple[int, ...]
    """Field ids: of a top-level column, of a field in it, and so on."""
    schema: Schema
    """Nothing but this way."""
    type: IcebergType


def key_columns(metadata: TableMetadata, ids: Iterable[int]) -> tuple[KeyColumn, ...]:
    """The columns of these ids, as the newest schema that has each of them says.

    Raises:
        RefusalError: no schema has one, or rows cannot be named by it.
    """
    columns = tuple(_key_column(metadata, field_id) for field_id in ids)
    if not columns:
        raise _refused("they say no column by which rows are named")
    return columns


def _key_column(metadata: TableMetadata, field_id: int) -> KeyColumn:
    older = sorted(metadata.schemas, key=lambda one: one.schema_id, reverse=True)
    for schema in (metadata.schema(), *older):
        way = _way(schema.fields, field_id)
        if way:
            break
    else:
        raise _refused(f"column {field_id} is in no schema of the table, or within a list or a map")
    of = way[-1].field_type
    if not isinstance(of, PrimitiveType) or isinstance(of, FloatType | DoubleType):
        raise _refused(f"column {way[-1].name} is a {of}, and the specification allows none as a key")
    if isinstance(of, FixedType):
        # Up to 1.12 at least, its reader uses one buffer for all rows: of a file it knows the last key alone.
        raise _refused(
            f"column {way[-1].name} is a {of}, and Iceberg's Java does not find all rows by such keys"
        )
    return KeyColumn(tuple(field.field_id for field in way), Schema(_alone(way)), of)


def _refused(why: str) -> RefusalError:
    return RefusalError(Reason.EQUALITY_DELETES, f"equality deletes cannot be applied: {why}")


def _way(fields: Sequence[NestedField], field_id: int) -> tuple[NestedField, ...]:
    """The fields from the top to the one of this id, through structs alone; none where there is no such way."""
    for field in fields:
        if field.field_id == field_id:
            return (field,)
        if isinstance(field.field_type, StructType) and (rest := _way(field.field_type.fields, field_id)):
            return (field, *rest)
    return ()


def _alone(way: Sequence[NestedField]) -> NestedField:
    """A field with nothing in it but the rest of the way."""
    first, *rest = way
    of = StructType(_alone(rest)) if rest else first.field_type
    return NestedField(first.field_id, first.name, of, required=False)
