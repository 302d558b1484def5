"""The columns by which a policy wants rows to be sorted, as a table has them; or why it has not."""

from collections.abc import Sequence

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

from isotherm.core.model.jobs import AskedOrder, SortKey
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.policy.sort_text import sort_by

COMPARED = (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)
"""Types whose values are compared here as Iceberg's own comparators do: not UUIDs, which Java takes for two signed numbers."""


def asked_order(schema: Schema, text: str) -> AskedOrder | Refusal | None:
    """The order that a policy names, of a table of this schema; None for `table` and `none`."""
    wanted = sort_by(text)
    if wanted is None:
        return None
    keys: list[SortKey] = []
    for column in wanted.columns:
        found = _field_ids(schema, column.name)
        if len(found) != 1:
            which = (
                "has no such column" if not found else "has several columns of that name, but for its case"
            )
            return _refused(f"column `{column.name}`, and the table {which}")
        kind = schema.find_type(found[0])
        if not isinstance(kind, COMPARED) or path_of(schema.as_struct(), found[0]) is None:
            return _refused(
                f"column `{column.name}`, by whose values ({str(kind)[:60]}) rows cannot be sorted"
            )
        keys.append(SortKey(found[0], column.is_falling, column.are_nulls_last))
    return AskedOrder(tuple(keys), wanted.is_zorder)


def _refused(what: str) -> Refusal:
    return Refusal(
        Reason.POLICY, f"compact.sort names {what}; name others in the policy of this table, or write `table`"
    )


def _field_ids(schema: Schema, name: str) -> Sequence[int]:
    """The columns that a name means: as it is written, or else in whatever case, as Spark takes it."""
    names = schema.column_names
    same = [one for one in names if one == name] or [one for one in names if one.lower() == name.lower()]
    return [schema.find_field(one).field_id for one in same]


def path_of(struct: StructType, field_id: int) -> tuple[int, ...] | None:
    """The places of a column in its row and its structs, or None if it is in a list or a map."""
    for place, field in enumerate(struct.fields):
        if field.field_id == field_id:
            return (place,)
        if (
            isinstance(field.field_type, StructType)
            and (inner := path_of(field.field_type, field_id)) is not None
        ):
            return (place, *inner)
    return None
