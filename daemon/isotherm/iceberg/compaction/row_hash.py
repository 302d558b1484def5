"""SQL for the hash of a row, as the table's present schema has the row, however a file holds it.

Values are cast to the table's types before they are hashed: how a file holds them makes no difference. Nested values
are hashed part by part, together with their lengths and nulls, because DuckDB's `hash` takes a null list, an empty
list and a list of one null for the same. (Of floats, 0.0 and -0.0 hash alike.)
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    ListType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from isotherm.iceberg.compaction.duckdb_columns import Column
from isotherm.iceberg.compaction.initial_defaults import initial_default
from isotherm.iceberg.compaction.key_columns import KeyColumn


def row_hash(
    columns: Sequence[Column],
    target: Schema,
    constants: Mapping[int, Any],
    inherited: Mapping[int, str] = MappingProxyType({}),
) -> str:
    """The hash of one row, as `target` has the row.

    Args:
        columns: of the file.
        target: the table's schema.
        constants: values of columns that the file lacks, by field id.
        inherited: what holds, in SQL, where the file has no value for a column, by field id.
    """
    by_id = {column.field_id: place for place, column in enumerate(columns)}
    parts: list[str] = []
    for field in target.fields:
        place = by_id.get(field.field_id)
        if (otherwise := inherited.get(field.field_id)) is not None:
            told = "" if place is None else f"c{place}, "
            parts.append(f"CAST(coalesce({told}{otherwise}) AS {_sql_type(field.field_type)})")
        elif place is not None:
            parts += _parts(f"c{place}", columns[place], field.field_type, 0)
        elif (value := constants.get(field.field_id, initial_default(field))) is not None:
            parts.append(_literal(value, field.field_type))
        else:
            parts += _parts("NULL", None, field.field_type, 0)
    return f"hash({', '.join(parts)})"


def key(columns: Sequence[Column], wanted: KeyColumn, constants: Mapping[int, Any]) -> str:
    """A key column, in the table's type. What a file lacks its partition says, or its default, or it is null."""
    place = next((place for place, one in enumerate(columns) if one.field_id == wanted.field_id), None)
    if place is not None:
        return as_held(f"c{place}", columns[place], wanted.type)
    value = constants.get(wanted.field_id, wanted.initial_default)
    if value is not None:
        return _literal(value, wanted.type)
    return as_held("NULL", None, wanted.type)


_NO_LENGTH, _NO_HASHES = "CAST(NULL AS BIGINT)", "CAST(NULL AS UBIGINT[])"
"""Of a list that is not there: DuckDB hashes nulls of several types in several ways."""


def _parts(value: str, column: Column | None, target: IcebergType, depth: int) -> list[str]:
    """What is hashed of a value; without a column it is null."""
    one = f"v{depth}"
    match target:
        case StructType(fields=fields):
            by_id = {child.field_id: place for place, child in enumerate(column.children if column else ())}
            parts = [f"({value} IS NULL)"]
            for field in fields:
                place = by_id.get(field.field_id)
                if column is not None and place is None and field.initial_default is not None:
                    default = _literal(initial_default(field), field.field_type)
                    parts.append(f"CASE WHEN {value} IS NULL THEN NULL ELSE {default} END")
                elif column is None or place is None:
                    parts += _parts("NULL", None, field.field_type, depth)
                else:
                    inner = f"struct_extract_at({value}, {place + 1})"
                    parts += _parts(inner, column.children[place], field.field_type, depth)
            return parts
        case ListType(element_type=element):
            if column is None:
                return [_NO_LENGTH, _NO_HASHES]
            inner = ", ".join(_parts(one, column.children[0], element, depth + 1))
            return [f"len({value})", f"list_transform({value}, lambda {one}: hash({inner}))"]
        case MapType(key_type=key, value_type=item):
            if column is None:
                return [_NO_LENGTH, _NO_HASHES, _NO_HASHES]
            keys = ", ".join(_parts(one, column.children[0], key, depth + 1))
            items = ", ".join(_parts(one, column.children[1], item, depth + 1))
            return [
                f"len(map_keys({value}))",
                f"list_transform(map_keys({value}), lambda {one}: hash({keys}))",
                f"list_transform(map_values({value}), lambda {one}: hash({items}))",
            ]
        case _:
            return [as_held(value, column, target)]


def as_held(value: str, column: Column | None, target: IcebergType) -> str:
    """A value in the table's type, however the file holds it."""
    held = column.sql_type if column is not None else ""
    if held == "BLOB" and isinstance(target, StringType):
        return f"decode({value})"
    if held == "VARCHAR" and isinstance(target, BinaryType | FixedType):
        return f"encode({value})"
    if held.startswith("TIMESTAMP") and held.endswith("_NS"):
        nanoseconds = ticks(value, "epoch_ns")
        # DuckDB's own cast, and its division, cut towards 1970.
        down = f"({nanoseconds}) // 1000 - CAST(({nanoseconds}) % 1000 < 0 AS BIGINT)"
        value = f"make_timestamp(CAST({down} AS BIGINT))"
    return f"CAST({value} AS {_sql_type(target)})"


def _literal(value: Any, target: IcebergType) -> str:
    """A partition value, as manifests hold it, in the table's type."""
    match target:
        case DateType():
            made = f"DATE '1970-01-01' + {value}"
        case TimeType() | TimestampType() | TimestamptzType():
            made = f"make_timestamp({value}::BIGINT)"
        case BinaryType() | FixedType():
            made = f"from_hex('{value.hex()}')"
        case _:
            made = "'" + str(value).replace("'", "''") + "'"
    return f"CAST({made} AS {_sql_type(target)})"


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
        case DecimalType(precision=precision, scale=scale):
            return f"DECIMAL({precision}, {scale})"
        case FixedType():
            return "BLOB"
        case _ if str(iceberg) in _SQL_TYPES:
            return _SQL_TYPES[str(iceberg)]
        case _:
            raise TypeError(f"columns of type {iceberg} cannot be compacted")


_INFINITY = 2**63 - 1


def ticks(value: str, function: str) -> str:
    """The number that a time is made of: DuckDB takes two of the numbers for infinite, and gives none of them."""
    return f"CASE {value} WHEN 'infinity' THEN {_INFINITY} WHEN '-infinity' THEN -{_INFINITY} ELSE {function}({value}) END"
