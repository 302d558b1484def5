"""A table of one column of any type, and files of any physical type in it."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import Table

NAME = "db.t"
UTC = dt.UTC


def naive(*parts: int) -> dt.datetime:
    """A time without a zone."""
    return dt.datetime(*parts, tzinfo=UTC).replace(tzinfo=None)  # type: ignore[misc,arg-type]


def add(table: Table, path: Path, rows: pa.Table) -> None:
    """Register a file that holds these rows, of whatever physical types, as `add_files` of Spark does."""
    kept = path.read_bytes()
    pq.write_table(rows.cast(table.schema().as_arrow().remove_metadata()), path)
    table.add_files([f"file://{path}"])
    path.write_bytes(kept)
