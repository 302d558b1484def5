"""Rows of older files in the table's present schema: twice, by two engines that share no code.

`project` makes the rows that are written, with Arrow. `row_hash_sql` says the same in SQL, and DuckDB makes of it
the sum that the written files must have. So a mistake of either is a mismatch, and a mismatch commits nothing.
(PyIceberg's own projection turns null lists and maps of structs into empty ones; that is the kind of mistake.)

Columns are matched by field id, at every depth: renamed, reordered, added, dropped and widened ones. A column that
a file lacks is null, or the constant that its partition gives it. Pure functions over values in memory.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, FixedType, IcebergType, ListType, MapType, StructType

# --- with Arrow ----------------------------------------------------------------------------------------------


def project(
    batch: pa.RecordBatch, source: Schema, target: Schema, arrow: pa.Schema, constants: Mapping[int, Any]
) -> pa.RecordBatch:
    """The rows of a batch as `target` has them.

    `arrow` is `target` in Arrow's types; `constants` gives columns that the file lacks, by field id (only
    top-level columns can be partition sources of a file that does not hold them).
    """
    places = {field.field_id: (place, field.field_type) for place, field in enumerate(source.fields)}
    columns = []
    for field, arrow_field in zip(target.fields, arrow, strict=True):
        if field.field_id in places:
            place, source_type = places[field.field_id]
            columns.append(_projected(batch.column(place), source_type, field.field_type, arrow_field.type))
        elif (value := constants.get(field.field_id)) is not None:
            columns.append(pa.repeat(pa.scalar(value, type=arrow_field.type), batch.num_rows))
        else:
            columns.append(pa.nulls(batch.num_rows, type=arrow_field.type))
    return pa.RecordBatch.from_arrays(columns, schema=arrow)


def _projected(array: pa.Array, source: IcebergType, target: IcebergType, arrow: pa.DataType) -> pa.Array:
    match target:
        case StructType() if isinstance(source, StructType):
            return _projected_struct(array, source, target, arrow)
        case ListType() if isinstance(source, ListType):
            offsets, (values,) = _contents(array, array.values)
            values = _projected(values, source.element_type, target.element_type, arrow.value_type)
            make = pa.LargeListArray if pa.types.is_large_list(arrow) else pa.ListArray
            index = pa.int64() if pa.types.is_large_list(arrow) else pa.int32()
            return make.from_arrays(offsets.cast(index), values, type=arrow, mask=array.is_null())
        case MapType() if isinstance(source, MapType):
            offsets, (keys, items) = _contents(array, array.keys, array.items)
            keys = _projected(keys, source.key_type, target.key_type, arrow.key_type)
            items = _projected(items, source.value_type, target.value_type, arrow.item_type)
            return pa.MapArray.from_arrays(offsets, keys, items, type=arrow, mask=array.is_null())
        case _:
            return _cast(array, arrow)


def _projected_struct(
    array: pa.Array, source: StructType, target: StructType, arrow: pa.DataType
) -> pa.Array:
    places = {field.field_id: (place, field.field_type) for place, field in enumerate(source.fields)}
    children = []
    for number, field in enumerate(target.fields):
        child = arrow.field(number)
        if field.field_id in places:
            place, source_type = places[field.field_id]
            children.append(_projected(array.field(place), source_type, field.field_type, child.type))
        else:
            children.append(pa.nulls(len(array), type=child.type))
    return pa.StructArray.from_arrays(children, fields=list(arrow), mask=array.is_null())


def _contents(array: pa.Array, *children: pa.Array) -> tuple[pa.Array, tuple[pa.Array, ...]]:
    """Offsets from zero, and the children that they refer to: a slice shares its children with the whole."""
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    offsets = pc.subtract(array.offsets, pa.scalar(first, type=array.offsets.type))
    return offsets, tuple(child.slice(first, last - first) for child in children)


def _cast(array: pa.Array, arrow: pa.DataType) -> pa.Array:
    """A widened value, or the same in Arrow's other layout; loses nothing, or raises."""
    if array.type == arrow:
        return array
    if isinstance(arrow, pa.ExtensionType):
        storage = array.storage if isinstance(array, pa.ExtensionArray) else array
        return pa.ExtensionArray.from_storage(arrow, storage.cast(arrow.storage_type))
    if pa.types.is_timestamp(array.type) and array.type.unit == "ns":
        # Old Spark writes 96-bit timestamps, which hold microseconds in nanoseconds.
        return array.cast(arrow, safe=False)
    return array.cast(arrow)


# --- with DuckDB ---------------------------------------------------------------------------------------------


def row_hash_sql(source: Schema, target: Schema, constants: Mapping[int, Any]) -> str:
    """A DuckDB expression for the hash of one row of a file, as `target` has the row; see `hashable`.

    Nested values are hashed as text, because DuckDB's hash takes a null list, an empty list and a list of one null
    for the same.
    """
    places = {field.field_id: (place, field.field_type) for place, field in enumerate(source.fields)}
    parts = []
    for field in target.fields:
        if field.field_id in places:
            place, source_type = places[field.field_id]
            value = _sql(f"c{place}", source_type, field.field_type, 0)
        elif constants.get(field.field_id) is not None:
            value = f"CAST(k{field.field_id} AS {_sql_type(field.field_type)})"
        else:
            value = f"CAST(NULL AS {_sql_type(field.field_type)})"
        parts.append(value if field.field_type.is_primitive else f"CAST({value} AS VARCHAR)")
    return f"hash({', '.join(parts)})"


def hashable(batch: pa.RecordBatch, target: Schema, constants: Mapping[int, Any]) -> pa.RecordBatch:
    """A batch under the names that `row_hash_sql` uses: DuckDB takes `a` and `A` for one column, Iceberg for two."""
    columns, names = list(batch.columns), [f"c{place}" for place in range(batch.num_columns)]
    for field_id, value in constants.items():
        arrow = schema_to_pyarrow(target.find_type(field_id), include_field_ids=False)
        columns.append(pa.repeat(pa.scalar(value, type=arrow), batch.num_rows))
        names.append(f"k{field_id}")
    return pa.RecordBatch.from_arrays(columns, names=names)


def _sql(value: str, source: IcebergType, target: IcebergType, depth: int) -> str:
    if source == target and _named_alike(source, target):
        return value
    one = f"_v{depth}"
    match target:
        case StructType() if isinstance(source, StructType):
            by_id = {field.field_id: field for field in source.fields}
            parts = []
            for field in target.fields:
                if (old := by_id.get(field.field_id)) is None:
                    inner = f"CAST(NULL AS {_sql_type(field.field_type)})"
                else:
                    inner = _sql(
                        f"struct_extract({value}, {_text(old.name)})", old.field_type, field.field_type, depth
                    )
                parts.append(f"{_quoted(field.name)} := {inner}")
            made = f"struct_pack({', '.join(parts)})"
        case ListType() if isinstance(source, ListType):
            element = _sql(one, source.element_type, target.element_type, depth + 1)
            made = f"list_transform({value}, lambda {one}: {element})"
        case MapType() if isinstance(source, MapType):
            key = _sql(f"{one}.key", source.key_type, target.key_type, depth + 1)
            item = _sql(f"{one}.value", source.value_type, target.value_type, depth + 1)
            made = (
                f"map_from_entries(list_transform(map_entries({value}), "
                f"lambda {one}: struct_pack(key := {key}, value := {item})))"
            )
        case _:
            return f"CAST({value} AS {_sql_type(target)})"
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE {made} END"


def _named_alike(source: IcebergType, target: IcebergType) -> bool:
    """Whether two types are spelled alike too: a renamed nested field shows in the text that is hashed."""
    return str(source) == str(target)


_SQL_TYPES = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "string": "VARCHAR",
    "uuid": "UUID",
    "binary": "BLOB",
}


def _sql_type(iceberg: IcebergType) -> str:
    match iceberg:
        case StructType(fields=fields):
            inner = ", ".join(f"{_quoted(field.name)} {_sql_type(field.field_type)}" for field in fields)
            return f"STRUCT({inner})"
        case ListType(element_type=element):
            return f"{_sql_type(element)}[]"
        case MapType(key_type=key, value_type=value):
            return f"MAP({_sql_type(key)}, {_sql_type(value)})"
        case DecimalType(precision=precision, scale=scale):
            return f"DECIMAL({precision}, {scale})"
        case FixedType():
            return "BLOB"
        case _ if str(iceberg) in _SQL_TYPES:
            return _SQL_TYPES[str(iceberg)]
        case _:
            raise TypeError(f"columns of type {iceberg} cannot be compacted")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
