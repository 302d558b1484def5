"""The columns by which a policy wants rows to be sorted, as a table has them; or why it has not."""

from collections.abc import Iterator

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
from isotherm.core.policy.sort_text import named, sort_by, why_not

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


MOST_CHARS = 4_000
"""Of the names that are kept with what is known of a table. Of more than that a job finds out what it can sort by."""


def sortable(struct: StructType, prefix: str = "") -> Iterator[tuple[str, int]]:
    """The columns by which rows can be sorted: their names and ids. One walk: schemas may have thousands."""
    for field in struct.fields:
        if isinstance(field.field_type, StructType):
            yield from sortable(field.field_type, f"{prefix}{field.name}.")
        elif isinstance(field.field_type, COMPARED):
            yield f"{prefix}{field.name}", field.field_id


def kept_names(schema: Schema) -> tuple[str, ...] | None:
    """Their names, or None where these are too long to be kept."""
    names: list[str] = []
    room = MOST_CHARS
    for name, _ in sortable(schema.as_struct()):
        room -= len(name)
        if room < 0:
            return None
        names.append(name)
    return tuple(names)


def asked_order(schema: Schema, text: str) -> AskedOrder | Refusal | None:
    """The order that a policy names, of a table of this schema; None for `table` and `none`."""
    wanted = sort_by(text)
    if wanted is None:
        return None
    columns = list(sortable(schema.as_struct()))
    names = [name for name, _ in columns]
    if why := why_not(text, names):
        return Refusal(Reason.UNSUPPORTED, why)
    keys = [
        SortKey(columns[names.index(named(one.name, names)[0])][1], one.is_falling, one.are_nulls_last)
        for one in wanted.columns
    ]
    return AskedOrder(tuple(keys), wanted.is_zorder)


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
