"""The columns of a Parquet file as DuckDB sees them, with the ids by which the table knows them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import duckdb
from pyiceberg.table.name_mapping import MappedField, NameMapping


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a Parquet file, at any depth, as DuckDB sees it."""

    name: str
    field_id: int | None
    sql_type: str
    children: tuple["Column", ...] = ()


def columns_of(connection: duckdb.DuckDBPyConnection, path: str, mapping: NameMapping | None) -> list[Column]:
    """The top-level columns of a file; those without an id have it from the name mapping, or from their place."""
    return columns_of_each(connection, [path], mapping)[path]


def columns_of_each(
    connection: duckdb.DuckDBPyConnection, paths: Sequence[str], mapping: NameMapping | None
) -> dict[str, list[Column]]:
    """The same of each of some files, by its path."""
    rows = connection.execute(
        "SELECT file_name, name, field_id, duckdb_type, coalesce(num_children, 0), "
        "coalesce(logical_type, converted_type, '') FROM parquet_schema(?) ORDER BY file_name, column_id",
        [list(paths)],
    ).fetchall()
    return {
        path: _identified_columns([row for _, *row in elements], mapping)
        for path, elements in groupby(rows, key=itemgetter(0))
    }


def _identified_columns(elements: Sequence[Sequence[Any]], mapping: NameMapping | None) -> list[Column]:
    """The top-level columns of a footer's schema, whose elements these are in their order."""
    root = _tree(iter(elements))
    columns = [_unwrapped(one) for one in root.children]
    if any(field_id is not None for _, field_id, *_ in elements[1:]):
        return columns
    if mapping is not None:
        return [_identified(one, mapping.root) for one in columns]
    return [Column(one.name, place, one.sql_type, one.children) for place, one in enumerate(columns, start=1)]


def _tree(rows: Iterator[Sequence[Any]]) -> Column:
    """The next element of a footer's schema, which lists the children of an element behind it."""
    name, field_id, sql_type, children, kind = next(rows)
    inner = tuple(_tree(rows) for _ in range(children))
    marked = "LIST" if kind.upper().startswith("LIST") else "MAP" if kind.upper().startswith("MAP") else ""
    return Column(name, field_id, marked or sql_type or "", inner)


def _unwrapped(column: Column) -> Column:
    """A column whose lists have one child, and whose maps have two: without the groups that repeat them."""
    children = column.children
    if column.sql_type == "MAP":
        children = children[0].children
    elif column.sql_type == "LIST":
        (repeated,) = children
        # Older writers repeat the element itself.
        is_element = len(repeated.children) != 1 or repeated.name in ("array", f"{column.name}_tuple")
        children = (repeated,) if is_element else repeated.children
    return Column(
        column.name, column.field_id, column.sql_type, tuple(_unwrapped(child) for child in children)
    )


def _identified(column: Column, fields: Sequence[MappedField]) -> Column:
    """A column without an id, and all within, with the ids that a name mapping gives to their names."""
    found = next((field for field in fields if column.name in field.names), None)
    inner = found.fields if found is not None else []
    names = {"LIST": ["element"], "MAP": ["key", "value"]}.get(column.sql_type)
    children = tuple(
        _identified(Column(names[place], None, child.sql_type, child.children) if names else child, inner)
        for place, child in enumerate(column.children)
    )
    return Column(column.name, found.field_id if found is not None else None, column.sql_type, children)
