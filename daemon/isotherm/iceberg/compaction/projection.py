"""Rows of older files in the table's present schema, with Arrow: these are the rows that are written.

Columns are matched by field id, at every depth: renamed, reordered, added, dropped and widened ones. A column that
a file lacks is the constant that its partition gives it, or its initial default, or null. A file without ids gets them from the table's name
mapping, or else by the order of its columns, as in Java. Whether the rows are right is for `row_sums` to say, which shares
no code with this. (PyIceberg's own projection turns null lists and maps of structs into empty ones.)

Pure functions over values in memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from isotherm.iceberg.compaction.initial_defaults import initial_default

_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True)
class Node:
    """A column of a file at any depth: its field id, if it has one, and what it is made of."""

    field_id: int | None
    children: tuple["Node", ...] = ()


def nodes(schema: pa.Schema, mapping: NameMapping | None = None) -> tuple[Node, ...]:
    """The columns of a file.

    Raises:
        ValueError: the file has nested columns without ids, and the table has no names for them.
    """
    own = _own_nodes(schema)
    if any(_has_id(node) for node in own):
        return own
    if mapping is not None:
        return tuple(_named(field, mapping.root) for field in schema)
    for field in schema:
        if field.type.num_fields:
            raise ValueError(
                f"column {field.name} is nested and has no field ids, and the table has no name mapping"
            )
    return tuple(Node(place) for place in range(1, len(schema) + 1))


def has_ids(schema: pa.Schema) -> bool:
    """Whether a file says the ids of its columns itself."""
    return any(_has_id(node) for node in _own_nodes(schema))


def _own_nodes(schema: pa.Schema) -> tuple[Node, ...]:
    return tuple(_own(field) for field in schema)


def _own(field: pa.Field) -> Node:
    """A column with the ids that the file gives it."""
    found = (field.metadata or {}).get(_FIELD_ID)
    return Node(
        int(found) if found is not None else None, tuple(_own(child) for child in _children(field.type))
    )


def _has_id(node: Node) -> bool:
    return node.field_id is not None or any(_has_id(child) for child in node.children)


def _named(field: pa.Field, mapped: Sequence[MappedField], name: str | None = None) -> Node:
    """A column with the ids that a name mapping gives it; one that it does not know has none."""
    found = next((one for one in mapped if (name or field.name) in one.names), None)
    inner = found.fields if found is not None else []
    if pa.types.is_map(field.type):
        names: tuple[str | None, ...] = ("key", "value")
    elif pa.types.is_struct(field.type):
        names = (None,) * field.type.num_fields
    else:
        names = ("element",)
    children = zip(_children(field.type), names, strict=False)
    return Node(
        found.field_id if found is not None else None,
        tuple(_named(child, inner, one) for child, one in children),
    )


def _children(arrow: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(arrow):
        return [arrow.key_field, arrow.item_field]
    if pa.types.is_struct(arrow):
        return [arrow.field(place) for place in range(arrow.num_fields)]
    return [arrow.value_field] if arrow.num_fields else []


def project(
    batch: pa.RecordBatch,
    columns: Sequence[Node],
    target: Schema,
    arrow: pa.Schema,
    constants: Mapping[int, Any],
) -> pa.RecordBatch:
    """The rows of a batch, which has these columns, as `target` has them.

    `arrow` is `target` in Arrow's types; `constants` gives columns that the file lacks, by field id (only
    top-level columns can be partition sources of a file that does not hold them).
    """
    places = {column.field_id: place for place, column in enumerate(columns)}
    arrays = []
    for field, arrow_field in zip(target.fields, arrow, strict=True):
        if (place := places.get(field.field_id)) is not None:
            arrays.append(_projected(batch.column(place), columns[place], field.field_type, arrow_field.type))
        else:
            value = constants.get(field.field_id, initial_default(field))
            arrays.append(repeated(value, batch.num_rows, arrow_field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=arrow)


def repeated(value: Any, rows: int, arrow: pa.DataType) -> pa.Array:
    """One value, or null, for each row."""
    if value is None:
        return pa.nulls(rows, type=arrow)
    if isinstance(arrow, pa.UuidType):
        stored = pa.repeat(pa.scalar(value.bytes, type=arrow.storage_type), rows)
        return pa.ExtensionArray.from_storage(arrow, stored)
    return pa.repeat(pa.scalar(value, type=arrow), rows)


def _projected(array: pa.Array, node: Node, target: IcebergType, arrow: pa.DataType) -> pa.Array:
    match target:
        case StructType():
            return _projected_struct(array, node, target, arrow)
        case ListType():
            offsets, (values,) = _contents(array, array.values)
            values = _projected(values, node.children[0], target.element_type, arrow.value_type)
            make = pa.LargeListArray if pa.types.is_large_list(arrow) else pa.ListArray
            index = pa.int64() if pa.types.is_large_list(arrow) else pa.int32()
            return make.from_arrays(offsets.cast(index), values, type=arrow, mask=array.is_null())
        case MapType():
            offsets, (keys, items) = _contents(array, array.keys, array.items)
            keys = _projected(keys, node.children[0], target.key_type, arrow.key_type)
            items = _projected(items, node.children[1], target.value_type, arrow.item_type)
            return pa.MapArray.from_arrays(offsets, keys, items, type=arrow, mask=array.is_null())
        case _:
            return _cast(array, arrow)


def _projected_struct(array: pa.Array, node: Node, target: StructType, arrow: pa.DataType) -> pa.Array:
    places = {child.field_id: place for place, child in enumerate(node.children)}
    children = []
    for number, field in enumerate(target.fields):
        child = arrow.field(number)
        if (place := places.get(field.field_id)) is not None:
            children.append(
                _projected(array.field(place), node.children[place], field.field_type, child.type)
            )
        else:
            children.append(repeated(initial_default(field), len(array), child.type))
    return pa.StructArray.from_arrays(children, fields=list(arrow), mask=array.is_null())


def _contents(array: pa.Array, *children: pa.Array) -> tuple[pa.Array, tuple[pa.Array, ...]]:
    """Offsets from zero, and the children that they refer to: a slice shares its children with the whole."""
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    offsets = pc.subtract(array.offsets, pa.scalar(first, type=array.offsets.type))
    return offsets, tuple(child.slice(first, last - first) for child in children)


def _cast(array: pa.Array, arrow: pa.DataType) -> pa.Array:
    """A widened value, or the same in Arrow's other layout; loses nothing but nanoseconds, or raises."""
    if array.type == arrow:
        return array
    if isinstance(arrow, pa.ExtensionType):
        storage = array.storage if isinstance(array, pa.ExtensionArray) else array
        return pa.ExtensionArray.from_storage(arrow, storage.cast(arrow.storage_type))
    if pa.types.is_timestamp(arrow) and pa.types.is_timestamp(array.type) and array.type.unit == "ns":
        return _microseconds(array).cast(arrow)
    return array.cast(arrow)


def _microseconds(array: pa.Array) -> pa.Array:
    """Nanoseconds in whole microseconds, the earlier ones: as Java and Spark read 96-bit timestamps."""
    nanoseconds = array.view(pa.int64())
    toward_zero = pc.divide(nanoseconds, 1000)
    is_before = pc.less(nanoseconds, pc.multiply(toward_zero, 1000))
    return pc.subtract(toward_zero, is_before.cast(pa.int64()))
