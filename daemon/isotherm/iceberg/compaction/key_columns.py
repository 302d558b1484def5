"""The columns by which equality deletes name rows, also those that the table dropped since.

A delete applies by the columns that its writer knew, whatever became of them: a dropped one still counts, and a widened
one is compared as what it is now.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import (
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    NestedField,
    PrimitiveType,
    UUIDType,
)

from isotherm.core.model.refusals import Reason, RefusalError
from isotherm.iceberg.compaction.initial_defaults import initial_default


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One of these columns."""

    field_id: int
    name: str
    schema: Schema
    """This column alone; it may be null."""
    type: IcebergType
    initial_default: Any = None
    """What rows of files that lack it have in it."""


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
        found = next((field for field in schema.fields if field.field_id == field_id), None)
        if found is not None:
            break
    else:
        # Up to 1.12 at least, Iceberg's Java applies such deletes where a query reads the struct. Where it does not, or
        # the column is dropped, all rows are gone or none, also for the next query, which finds the keys in a cache.
        raise _refused(
            f"column {field_id} is no top-level column of any schema of the table, and readers do not agree about others"
        )
    of = found.field_type
    if not isinstance(of, PrimitiveType) or isinstance(of, FloatType | DoubleType):
        raise _refused(f"column {found.name} is a {of}, and the specification allows none as a key")
    if isinstance(of, FixedType):
        # Up to 1.12 at least, its reader uses one buffer for all rows: of a file it knows the last key alone.
        raise _refused(
            f"column {found.name} is a {of}, and Iceberg's Java does not find all rows by such keys"
        )
    if isinstance(of, UUIDType):
        # Up to 1.12 at least, it holds the bounds of deletes against those of data in another order than they are made in.
        raise _refused(f"column {found.name} is a {of}, and Iceberg's Java passes over deletes by such keys")
    default = found.initial_default
    alone = Schema(NestedField(field_id, found.name, of, required=False, initial_default=default))
    return KeyColumn(field_id, found.name, alone, of, initial_default(found))


def _refused(why: str) -> RefusalError:
    return RefusalError(Reason.EQUALITY_DELETES, f"equality deletes cannot be applied: {why}")
