"""The proof by itself: what it says of a file's statistics, and how much work it makes of many columns and deletes."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, IcebergType, NestedField

from isotherm.core.model.jobs import WrittenFile
from isotherm.iceberg.compaction.nearby import nearby
from isotherm.iceberg.compaction.proof import Proof, _facts
from isotherm.iceberg.compaction.statistics import statistics

NAN = float("nan")


def schema_of(*types: IcebergType) -> Schema:
    return Schema(
        *(NestedField(one, f"c{one}", kind, required=False) for one, kind in enumerate(types, start=1))
    )


def file_of(folder: Path, schema: Schema, columns: list[pa.Array]) -> WrittenFile:
    """A file of these columns, with statistics that are true."""
    path = folder / "written.parquet"
    table = pa.table(
        [column.cast(field.type) for column, field in zip(columns, schema.as_arrow(), strict=True)],
        schema=schema.as_arrow(),
    )
    pq.write_table(table, path)
    told = statistics(pq.ParquetFile(path).metadata, schema, {"write.metadata.metrics.default": "full"})
    return WrittenFile(
        path=str(path),
        size_bytes=path.stat().st_size,
        rows=table.num_rows,
        column_sizes=told.column_sizes,
        value_counts=told.value_counts,
        null_value_counts=told.null_value_counts,
        nan_value_counts=told.nan_value_counts,
        lower_bounds=told.lower_bounds,
        upper_bounds=told.upper_bounds,
        split_offsets=told.split_offsets,
    )


def problem(schema: Schema, file: WrittenFile) -> str | None:
    """What the proof finds wrong with what is told of a file."""
    proof = Proof(schema, None, locations=[file.path])
    with nearby(PyArrowFileIO(), file.path) as path:
        return proof.read_back(path, file)[1]


@pytest.mark.parametrize(
    "values", [[NAN, 1.5, None, -2.5, NAN], [float("inf"), NAN, float("-inf"), 0.0], [-0.0, None, 0.0]]
)
def test_bounds_of_floats_are_judged_by_the_values_that_are_numbers(
    tmp_path: Path, values: list[Any]
) -> None:
    schema = schema_of(DoubleType())
    file = file_of(tmp_path, schema, [pa.array(values)])
    numbers = [value for value in values if value is not None and not math.isnan(value)]

    assert problem(schema, file) is None
    for lie in (
        {"lower_bounds": {1: to_bytes(DoubleType(), max(numbers) + 1)}},
        {"upper_bounds": {1: to_bytes(DoubleType(), -7.0)}},
    ):
        assert problem(schema, replace(file, **lie)) is not None


def test_no_number_at_all_is_below_or_above_no_bound(tmp_path: Path) -> None:
    schema = schema_of(DoubleType())
    file = file_of(tmp_path, schema, [pa.array([NAN, None, NAN])])
    bound = to_bytes(DoubleType(), 1.0)

    assert problem(schema, replace(file, lower_bounds={1: bound}, upper_bounds={1: bound})) is None


def test_no_aggregate_of_the_query_that_reads_back_has_a_filter_of_its_own(tmp_path: Path) -> None:
    """With filters DuckDB takes time by the square of their number; a clock would judge that badly."""
    schema = schema_of(*[DoubleType()] * 10)
    file = file_of(tmp_path, schema, [pa.array([1.0, NAN])] * 10)
    proof = Proof(schema, None, locations=[file.path])
    with nearby(PyArrowFileIO(), file.path) as path:
        columns = proof._columns(path)
    queries = [one for fact in _facts(columns, schema, file) for one in fact.sql]

    assert [] == [query for query in queries if "FILTER" in query]
