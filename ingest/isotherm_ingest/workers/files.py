"""Rows of one table become data files, as the table asks for them: one for each partition, up to the target size.

Nothing is committed here. What is told of a file is JSON, in the form in which REST catalogs tell of files; Iceberg's Java
library reads it where the commit is made.
"""

import contextlib
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import NullOrder, SortDirection
from pyiceberg.types import LongType, NestedField
from pyiceberg.utils.properties import property_as_int

from isotherm.clients.locations import location_provider
from isotherm.parquet.output import NewFile, Output
from isotherm.parquet.table_description import table_of
from isotherm_ingest.decode.debezium_messages import CHANGELOG_COLUMNS, as_type
from isotherm_ingest.workers.partitions import Partition, flat, partitions
from isotherm_ingest.workers.tasks import TableTask

COMPRESSED = 0.3
"""Of the bytes in memory, what rows take in a file; it is measured after the first row group."""
LEAST_FILE_BYTES = 1024 * 1024
"""Of a target, whatever the table says. With a target of a byte each row was a file, and all tables waited for them. Nobody
reads files as small as this quickly."""
LEAST_GROUP_ROWS = 1_000
"""Of a row group, whatever the table says: a group for each row takes a hundred times as long, and so does the footer."""
ROW_ID = NestedField(2147483540, "_row_id", LongType(), required=False)
"""Iceberg's own column of format 3: a row that is written again keeps its id."""


def arrow_of(table: TableTask) -> pa.Schema:
    """The table's columns in Arrow."""
    return schema_to_pyarrow(table_of(table.description).schema(), include_field_ids=False)


def logged(table: TableTask, changes: pa.Table) -> pa.Table:
    """The rows of a changelog: those of the changes, with the columns of `CHANGELOG_COLUMNS`."""
    row, change = (changes.column(name).combine_chunks() for name in ("row", "change"))
    columns = dict(zip(row.type.names, row.flatten(), strict=True))
    kinds = arrow_of(table)
    return pa.table(
        {
            name: columns[name]
            if name in columns
            else as_type(change.field(CHANGELOG_COLUMNS[name].field), kinds.field(name).type)
            for name in table.columns
        }
    )


def files_of(table: TableTask, rows: pa.Table, order: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Write rows, which have the table's columns, and `_row_id` behind them where they have ids.

    Args:
        table: what is known of the table.
        rows: all that come into these files.
        order: columns by which rows are sorted within each file; without any, the table's sort order.
    """
    metadata = table_of(table.description)
    io = load_file_io(dict(table.io), metadata.location)
    done: list[dict[str, Any]] = []
    begun: list[str] = []
    try:
        for key, part in partitions(metadata, rows):
            ordered = _sorted(part, order) if order else _in_order(metadata, part)
            done.extend(_told(metadata, key, one) for one in _write(io, metadata, key, ordered, begun))
    except BaseException:
        for path in begun:
            with contextlib.suppress(Exception):  # it may not even be there
                io.delete(path)
        raise
    return done


def _write(
    io: FileIO, metadata: TableMetadata, key: Partition | None, rows: pa.Table, begun: list[str]
) -> Sequence[NewFile]:
    """Write the rows of one partition; `begun` gets the path of each file before there is anything of it."""
    target = property_as_int(
        metadata.properties,
        TableProperties.WRITE_TARGET_FILE_SIZE_BYTES,
        TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT,
    )
    provider, written_by = location_provider(metadata.location, metadata.properties), uuid.uuid4()

    def name(number: int) -> str:
        # PyIceberg asks its key of a partition for nothing else.
        begun.append(provider.new_data_location(f"{written_by}-{number:05d}.parquet", cast(Any, key)))
        return begun[-1]

    output = Output(
        io,
        metadata,
        name,
        max(target or TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT, LEAST_FILE_BYTES),
        rows.num_rows,
        max(rows.nbytes / rows.num_rows * COMPRESSED, 1),
        schema_of(metadata, has_ids=rows.num_columns > len(metadata.schema().fields)),
        LEAST_GROUP_ROWS,
    )
    try:
        for batch in rows.to_batches():
            output.write(_named(batch, output.arrow))
        return output.finish()
    except BaseException:
        output.abandon()
        raise


def _named(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows under the names of the files, at every depth.

    Raises:
        ValueError: a column that the table requires has no value.
    """
    columns = []
    for values, field in zip(rows.columns, schema, strict=True):
        if values.null_count and not field.nullable:
            raise ValueError(
                f"column {field.name} is required, and {values.null_count} rows have no value: ALTER TABLE … ALTER COLUMN "
                f"{field.name} DROP NOT NULL lets them in"
            )
        if not _is_like(values.type, field.type):
            raise TypeError(f"column {field.name} is {field.type}, and its values are {values.type}")
        columns.append(pa.array(_Named(values, field.type)))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_like(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether two types are the same but for the names in them."""
    if not one.num_fields:
        return bool(one == other)
    return (
        one.id == other.id
        and one.num_fields == other.num_fields
        and all(_is_like(one.field(place).type, other.field(place).type) for place in range(one.num_fields))
    )


class _Named:
    """Values under the names of another type. A cast would match by name, and make null of what it does not find."""

    def __init__(self, values: pa.Array, kind: pa.DataType) -> None:
        self._values, self._kind = values, kind

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._kind.__arrow_c_schema__(), self._values.__arrow_c_array__()[1]


def schema_of(metadata: TableMetadata, *, has_ids: bool) -> Schema:
    """The schema of the files."""
    schema = metadata.schema()
    return Schema(*schema.fields, ROW_ID) if has_ids else schema


def _in_order(metadata: TableMetadata, rows: pa.Table) -> pa.Table:
    """Rows as the table wants them sorted."""
    fields = metadata.sort_order().fields if metadata.default_sort_order_id else []
    if not fields:
        return rows
    schema = metadata.schema()
    keys = {}
    for place, one in enumerate(fields):
        values = flat(rows.column(schema.find_column_name(one.source_id) or ""))
        keys[f"k{place}"] = one.transform.pyarrow_transform(schema.find_type(one.source_id))(values)
    order = [
        (
            name,
            "ascending" if one.direction is SortDirection.ASC else "descending",
            "at_start" if one.null_order is NullOrder.NULLS_FIRST else "at_end",
        )
        for name, one in zip(keys, fields, strict=True)
    ]
    return rows.take(pc.sort_indices(pa.table(keys), sort_keys=order))


def _sorted(rows: pa.Table, order: Sequence[str]) -> pa.Table:
    """Rows by these columns; lists among them have no order, and stay as they come."""
    names = [name for name in order if not pa.types.is_nested(rows.schema.field(name).type)]
    if not names:
        return rows
    keys = pa.Table.from_arrays([flat(rows.column(name)) for name in names], names=names)
    return rows.take(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in names]))


# What is told of a file


def _told(metadata: TableMetadata, key: Partition | None, file: NewFile) -> dict[str, Any]:
    found = file.statistics
    told: dict[str, Any] = {
        "spec-id": metadata.default_spec_id,
        "content": "data",
        "file-path": file.path,
        "file-format": "parquet",
        "partition": [] if key is None else key.as_json(),
        "file-size-in-bytes": file.size_bytes,
        "record-count": file.rows,
        "column-sizes": _by_id(found.column_sizes),
        "value-counts": _by_id(found.value_counts),
        "null-value-counts": _by_id(found.null_value_counts),
        "nan-value-counts": _by_id(found.nan_value_counts),
        "lower-bounds": _by_id({one: bound.hex().upper() for one, bound in found.lower_bounds.items()}),
        "upper-bounds": _by_id({one: bound.hex().upper() for one, bound in found.upper_bounds.items()}),
        "split-offsets": list(found.split_offsets),
        "sort-order-id": 0,
    }
    return told


def _by_id(values: Mapping[int, Any]) -> dict[str, list[Any]]:
    return {"keys": list(values), "values": list(values.values())}
