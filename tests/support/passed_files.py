"""Tables whose files are copied undecoded by a rewrite, and what tells whether they were."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from isotherm.core.model.jobs import CompactionJob, Rewrite
from support.parquet_files import local, rows

NAME = "db.t"
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "text", StringType(), required=False),
    NestedField(3, "price", DecimalType(9, 2), required=False),
    NestedField(4, "at", TimestamptzType(), required=False),
    NestedField(5, "half", DoubleType(), required=False),
    NestedField(6, "flag", BooleanType(), required=False),
    NestedField(7, "raw", BinaryType(), required=False),
    NestedField(8, "list", ListType(9, LongType(), element_required=False), required=False),
    NestedField(10, "map", MapType(11, StringType(), 12, LongType(), value_required=False), required=False),
    NestedField(
        13,
        "inner",
        StructType(
            NestedField(14, "x", IntegerType(), required=False),
            NestedField(15, "y", StringType(), required=False),
        ),
        required=False,
    ),
)
FILES = 4


def four_files(catalog: Any) -> Table:
    """A table of some files, as PyIceberg writes them: without indexes, which tells them from ours."""
    made: Table = catalog.create_table(NAME, SCHEMA, properties={"format-version": "2"})
    for seed in range(FILES):
        made.append(rows(seed))
    return made


def changed(table: Table, **properties: str) -> Table:
    table.transaction().set_properties(
        {f"write.{name.replace('_', '-')}": value for name, value in properties.items()}
    ).commit_transaction()
    return table.refresh()


def was_copied(path: Path) -> bool:
    """Whether a new file has no indexes, as those that it was made of."""
    return not pq.read_metadata(path).row_group(0).column(0).has_offset_index


def sizes(result: Rewrite) -> tuple[int, int]:
    """How many new files were copied, and how many were not."""
    found = [was_copied(local(file)) for file in result.files]
    return sum(found), len(found) - sum(found)


def content(paths: list[Path]) -> list[Any]:
    """All rows, by an engine that has written none of them."""
    names = ", ".join(f"'{path}'" for path in paths)
    return duckdb.sql(
        f"SELECT CAST(t AS VARCHAR) AS row FROM read_parquet([{names}]) AS t ORDER BY row"
    ).fetchall()


def sources(job: CompactionJob) -> list[Path]:
    return [Path(file.path.removeprefix("file://")) for file in job.data_files]
