"""The sums by themselves: what they say of a file's statistics, and how much work they make of many columns and deletes."""

import contextlib
import math
import re
import resource
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, IcebergType, LongType, NestedField, StringType

from isotherm.core.model.files import FileKind, LiveFile
from isotherm.core.model.jobs import WrittenFile
from isotherm.core.model.refusals import RefusalError
from isotherm.iceberg.compaction.claims import claims
from isotherm.iceberg.compaction.duckdb_columns import columns_of
from isotherm.iceberg.compaction.local_copy import nearby
from isotherm.iceberg.compaction.row_sums import (
    COLUMN_BYTES,
    UNLIMITED_BYTES,
    RowSums,
    memory_for,
    out_of_memory,
)
from isotherm.parquet.statistics import nan_counts, statistics

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
    modes = {"write.metadata.metrics.default": "full"}
    told = statistics(pq.ParquetFile(path).metadata, schema, modes, nan_counts(table, schema))
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
    """What the reading back finds wrong with what is told of a file."""
    sums = RowSums(schema, None, locations=[file.path])
    with nearby(PyArrowFileIO(), file.path, 0) as path:
        return sums.read_back(path, file)[1]


def test_a_table_of_three_thousand_columns_is_verified(tmp_path: Path) -> None:
    schema = schema_of(*[StringType()] * 3000)
    file = file_of(tmp_path, schema, [pa.array(["a", "b"])] * 3000)

    assert problem(schema, file) is None


@pytest.mark.parametrize(
    ("columns", "allowed_bytes", "expected_bytes"),
    [
        (1, resource.RLIM_INFINITY, UNLIMITED_BYTES),
        (5000, resource.RLIM_INFINITY, 5000 * COLUMN_BYTES),
        (1, 64 * 2**30, 31 * 2**30),
        (5000, 64 * 2**30, 31 * 2**30),
    ],
)
def test_memory_is_half_of_what_the_process_may_take_and_grows_with_the_columns_where_that_is_no_limit(
    columns: int, allowed_bytes: int, expected_bytes: int
) -> None:
    schema = schema_of(*[LongType()] * columns)
    before, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (allowed_bytes, most))
    try:
        found, why = memory_for(schema), out_of_memory(schema)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, most))

    assert found == expected_bytes
    assert f"to verify {columns} columns takes more than {expected_bytes // 2**20} MiB" in why


@pytest.mark.parametrize(
    "values",
    [
        [NAN, 1.5, None, -2.5, NAN],
        [NAN, 1.5, -2.5, NAN],
        [float("inf"), NAN, float("-inf"), 0.0],
        [-0.0, None, 0.0],
    ],
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
        {"nan_value_counts": {1: 3}},
        {"nan_value_counts": {}},
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
    with duckdb.connect() as connection, nearby(PyArrowFileIO(), file.path, 0) as path:
        columns = columns_of(connection, path, None)
    queries = [one for claim in claims(columns, schema, file) for one in claim.sql]

    assert [] == [query for query in queries if "FILTER" in query]


class Recorder:
    """A connection of DuckDB that remembers what it was asked."""

    def __init__(self, connection: Any) -> None:
        self._connection, self.asked = connection, []

    def execute(self, query: str, *parameters: Any) -> Any:
        self.asked.append(query)
        return self._connection.execute(query, *parameters)


def test_many_small_delete_files_are_gone_through_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file is a reason to look at all that is known: neither a delete file, nor a data file."""
    schema = schema_of(LongType())
    files = [LiveFile(f"{tmp_path}/{number}.parquet", FileKind.DATA, 0, 200_000, 1) for number in range(4)]
    for file in files:
        pq.write_table(pa.table({"c1": pa.arange(0, file.rows)}), file.path)
    deletes = []
    for number in range(10):
        # Each names all data files, one after the other and again.
        positions = pa.arange(number * 40_000, (number + 1) * 40_000)
        names = pa.array([files[place % 4].path for place in range(len(positions))])
        path = f"{tmp_path}/delete-{number}.parquet"
        pq.write_table(pa.table({"file_path": names, "pos": pc.divide(positions, 4)}), path)
        deletes.append(path)
    connect, opened = duckdb.connect, []
    monkeypatch.setattr(
        duckdb, "connect", lambda *how, **more: opened.append(Recorder(connect(*how, **more))) or opened[-1]
    )
    sums = RowSums(schema, None, files, [*(file.path for file in files), *deletes])
    (recorder,) = opened

    for delete in deletes:
        with nearby(PyArrowFileIO(), delete, 0) as path:
            sums.delete(path, 1, 40_000)
    while_told = [query for query in recorder.asked if "FROM deleted" in query]
    with nearby(PyArrowFileIO(), files[0].path, 0) as path:
        first = sums.sum({0: path}, {})[0]
    recorder.asked.clear()
    with nearby(PyArrowFileIO(), files[3].path, 0) as path:
        last = sums.sum({3: path}, {})[0]
        (query,) = (one for one in recorder.asked if "FROM deleted" in one)
        ((_, plan),) = recorder.execute(f"EXPLAIN (ANALYZE, FORMAT json) {query}").fetchall()

    assert while_told == []
    assert (200_000, 100_000) == (first.rows, first.live) == (last.rows, last.live)
    # DuckDB keeps 122,880 rows together and passes over those groups in which a number is not.
    assert "CREATE TABLE" not in "".join(recorder.asked)
    (scanned,) = re.findall(r'main\.deleted".*?"row_groups_scanned": (\d+)', plan, re.DOTALL)
    assert int(scanned) <= 2


def test_files_of_several_schemas_and_deletes_have_the_same_sums_together_as_alone(tmp_path: Path) -> None:
    schema = schema_of(LongType(), StringType())
    tables = [
        pa.table({"c1": pa.array([1, 2, 3], pa.int32())}),
        pa.table({"c2": ["a", None], "c1": [4, 5]}),
        pa.table({"c1": [4, 5], "C1": [8, 9]}),
        pa.table({"c2": ["a", "b", "c", "d"]}),
    ]
    files = [
        LiveFile(f"{tmp_path}/{number}.parquet", FileKind.DATA, 0, table.num_rows, 1)
        for number, table in enumerate(tables)
    ]
    for file, table in zip(files, tables, strict=True):
        fields = [
            field.with_metadata({"PARQUET:field_id": field.name.removeprefix("c").replace("C1", "7")})
            for field in table.schema
        ]
        pq.write_table(table.cast(pa.schema(fields)), file.path)
    deletes = f"{tmp_path}/deletes.parquet"
    pq.write_table(pa.table({"file_path": [files[1].path, files[3].path], "pos": [0, 2]}), deletes)
    sums = RowSums(schema, None, files, [*(file.path for file in files), deletes])
    with nearby(PyArrowFileIO(), deletes, 0) as path:
        sums.delete(path, 1, 2)

    with contextlib.ExitStack() as near:
        paths = {
            number: near.enter_context(nearby(PyArrowFileIO(), file.path, 0))
            for number, file in enumerate(files)
        }
        together = sums.sum(paths, {})
        alone = [tally for number, path in paths.items() for tally in sums.sum({number: path}, {})]

    assert together == alone
    assert [(one.rows, one.live) for one in together] == [(3, 3), (2, 1), (2, 2), (4, 3)]
    assert len({one.hash for one in together}) == len(files)


@pytest.mark.parametrize("name", ["file_row_number", "File_Row_Number"])
def test_a_column_that_has_the_name_of_the_rows_number_hides_no_position(tmp_path: Path, name: str) -> None:
    """DuckDB numbers the rows of a file under a name that a table may use itself."""
    schema = schema_of(LongType(), LongType())
    values = {"c1": pa.array([5, 6, 7, 8]), name: pa.array([3, 0, 0, 1])}
    tallies = []
    for number, table in enumerate((pa.table(values), pa.table(values).take([0, 1, 3]))):
        file = LiveFile(f"{tmp_path}/{number}.parquet", FileKind.DATA, 0, table.num_rows, 1)
        pq.write_table(table, file.path)
        deletes = f"{tmp_path}/delete-{number}.parquet"
        pq.write_table(pa.table({"file_path": [file.path], "pos": [(2, 99)[number]]}), deletes)
        sums = RowSums(schema, None, [file], [file.path, deletes])
        with nearby(PyArrowFileIO(), deletes, 0) as path:
            sums.delete(path, 1, 1)
        with nearby(PyArrowFileIO(), file.path, 0) as path:
            tallies.append(sums.sum({0: path}, {})[0])

    assert [one.rows for one in tallies] == [4, 3]
    assert (tallies[0].live, tallies[0].hash) == (tallies[1].live, tallies[1].hash)


def test_millions_of_deletes_on_files_that_stay_are_no_matter_of_their_names(tmp_path: Path) -> None:
    """A name is long, and there is no room to hold it for each deleted row: such a merge would fail for ever."""
    name, rows = "s3://b/" + 500 * "x", 1_500_000
    positions = pa.table(
        {"file_path": pa.repeat(pa.scalar(name), rows), "pos": pa.array(range(rows), pa.int64())}
    )
    pq.write_table(positions, tmp_path / "deletes.parquet")
    stays = LiveFile(name, FileKind.DATA, 1, rows, 1)
    sums = RowSums(Schema(), None, [stays], [str(tmp_path / "deletes.parquet")])
    with nearby(PyArrowFileIO(), str(tmp_path / "deletes.parquet"), 0) as path:
        for _ in range(2):
            sums.delete(path, 1, rows)

    assert sums.deletes_on({0: stays}, by_keys=False).rows == rows


def test_what_was_asked_of_each_file_takes_no_memory_for_each_pair_of_files() -> None:
    """Two thousand data files and five hundred deletes, of ten thousand each in a neglected table of upserts."""

    def files(kind: FileKind, count: int, number: int) -> list[LiveFile]:
        return [LiveFile(f"file:/{kind}{place}", kind, 1, 1, number) for place in range(count)]

    data, deletes = files(FileKind.DATA, 2000, 1), files(FileKind.EQUALITY_DELETES, 500, 2)
    tracemalloc.start()
    try:
        sums = RowSums(Schema(), None, data, (), deletes)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 10_000_000
    with pytest.raises(RefusalError, match="500 equality-delete files were not asked of data file 1999"):
        sums.sum({1999: "unread"}, {})
