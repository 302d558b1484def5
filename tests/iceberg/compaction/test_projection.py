"""Rows of older schemas in the present one, at every depth, as Arrow writes them and DuckDB reads them back."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
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
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.jobs import OutcomeKind
from isotherm.iceberg.compaction.local_copy import nearby
from isotherm.iceberg.compaction.projection import nodes, project
from isotherm.iceberg.compaction.row_sums import RowSums
from support.rewriting import bound, commit, rewritten

OLD = Schema(
    NestedField(1, "a", IntegerType(), required=False),
    NestedField(2, "A", FloatType(), required=False),
    NestedField(3, "gone", StringType(), required=False),
    NestedField(
        4,
        "l",
        ListType(5, StructType(NestedField(6, "x y", IntegerType(), required=False)), element_required=False),
        required=False,
    ),
    NestedField(
        7,
        "m",
        MapType(
            8,
            StringType(),
            9,
            StructType(NestedField(10, "v'", DecimalType(4, 1), required=False)),
            value_required=False,
        ),
        required=False,
    ),
    NestedField(
        11,
        "s",
        StructType(
            NestedField(
                12,
                "p",
                ListType(13, ListType(14, IntegerType(), element_required=False), element_required=False),
                required=False,
            ),
            NestedField(15, "q", StringType(), required=False),
        ),
        required=False,
    ),
)
NEW = Schema(
    NestedField(20, "added", TimestamptzType(), required=False),
    NestedField(2, "A", DoubleType(), required=False),
    NestedField(1, "b", LongType(), required=False),
    NestedField(
        11,
        "s",
        StructType(
            NestedField(21, "new", UUIDType(), required=False),
            NestedField(
                12,
                "p",
                ListType(13, ListType(14, LongType(), element_required=False), element_required=False),
                required=False,
            ),
        ),
        required=False,
    ),
    NestedField(
        4,
        "l",
        ListType(
            5,
            StructType(
                NestedField(22, "f", FixedType(3), required=False),
                NestedField(6, "z", LongType(), required=False),
            ),
            element_required=False,
        ),
        required=False,
    ),
    NestedField(
        7,
        "m",
        MapType(
            8,
            StringType(),
            9,
            StructType(NestedField(10, "w", DecimalType(9, 1), required=False)),
            value_required=False,
        ),
        required=False,
    ),
    NestedField(23, "t", TimeType(), required=False),
    NestedField(24, "n", ListType(25, TimestampType(), element_required=False), required=False),
    NestedField(26, "raw", BinaryType(), required=False),
    NestedField(27, "d", DateType(), required=False),
    NestedField(28, "yes", BooleanType(), required=False),
    NestedField(29, "k", StringType(), required=False),
)
ROWS: list[dict[str, Any]] = [
    {
        "a": 1,
        "A": 0.5,
        "gone": "x",
        "l": [{"x y": 1}, None, {"x y": None}],
        "m": [("k", {"v'": None}), ("n", None)],
        "s": {"p": [[1], [], None], "q": "z"},
    },
    {"a": None, "A": None, "gone": None, "l": None, "m": None, "s": None},
    {"a": -1, "A": float("nan"), "gone": "", "l": [], "m": [], "s": {"p": None, "q": None}},
    {"a": 2**31 - 1, "A": float("inf"), "gone": "y", "l": [None], "m": [("", None)], "s": {"p": [], "q": ""}},
]


def projected(rows: list[dict[str, Any]], start: int = 0) -> pa.RecordBatch:
    batch = pa.RecordBatch.from_pylist(rows, schema=schema_to_pyarrow(OLD))
    batch = batch.slice(start)
    return project(batch, nodes(batch.schema), NEW, schema_to_pyarrow(NEW), {29: "const"})


def hashed(batch: pa.RecordBatch, folder: Path, constants: dict[int, Any]) -> list[int]:
    """The hash of each row, as the proof reads it from a file of its own."""
    found = []
    for place in range(batch.num_rows):
        path = folder / "row.parquet"
        pq.write_table(pa.Table.from_batches([batch.slice(place, 1)]), path)
        sums = RowSums(NEW, None, locations=[str(path)])
        with nearby(PyArrowFileIO(), str(path), 0) as near:
            found.append(sums.sum({0: near}, constants)[0].hash)
    return found


@pytest.mark.parametrize("start", [0, 1, 2])
def test_nulls_empty_lists_and_renamed_fields_survive_at_every_depth(start: int) -> None:
    found = projected(ROWS, start).to_pylist()

    wanted = [
        {"l": [{"f": None, "z": 1}, None, {"f": None, "z": None}], "s": {"new": None, "p": [[1], [], None]}},
        {"l": None, "s": None},
        {"l": [], "s": {"new": None, "p": None}},
        {"l": [None], "s": {"new": None, "p": []}},
    ][start:]
    assert wanted == [{key: row[key] for key in ("l", "s")} for row in found]
    assert [row["a"] for row in ROWS][start:] == [row["b"] for row in found]
    assert [None if row["m"] is None else [key for key, _ in row["m"]] for row in ROWS][start:] == [
        None if row["m"] is None else [key for key, _ in row["m"]] for row in found
    ]
    assert [[value for _, value in row["m"] or []][-1:] for row in found] == [
        [None] if row["m"] else [] for row in ROWS[start:]
    ]
    assert {"const"} == {row["k"] for row in found}
    assert {None} == {row["added"] for row in found}


def twins(number: int, name: str) -> StructType:
    """Two fields whose names differ by their case only."""
    return StructType(
        NestedField(number, name, LongType(), required=False),
        NestedField(number + 1, name.upper(), DoubleType(), required=False),
    )


def test_fields_whose_names_differ_by_case_only_are_told_apart_at_every_depth(catalog: Any) -> None:
    """DuckDB takes their names for one. The older files have them in another order."""
    schema = Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "s", twins(3, "a"), required=False),
        NestedField(5, "l", ListType(6, twins(7, "x"), element_required=False), required=False),
        NestedField(
            9, "m", MapType(10, StringType(), 11, twins(12, "v"), value_required=False), required=False
        ),
    )
    table = catalog.create_table("db.twins", schema, properties={"format-version": "2"})
    rows = [
        {"s": {"a": 1, "A": 0.5}, "l": [{"x": 2, "X": 1.5}, None], "m": [("k", {"v": 3, "V": 2.5})]},
        {"s": None, "l": [{"x": None, "X": 4.0}], "m": [("k", {"v": 9, "V": None}), ("n", None)]},
        {"s": {"a": None, "A": 7.0}, "l": [], "m": []},
        {"s": {"a": 5, "A": None}, "l": [{"x": 6, "X": None}], "m": [("k", {"v": None, "V": 8.0})]},
    ]
    for number, row in enumerate(rows):
        if number == 2:
            with table.update_schema() as update:
                for path in ("s.A", "l.X", "m.V"):
                    update.move_first(path)
        table.append(pa.Table.from_pylist([{"id": number, **row}], schema=table.schema().as_arrow()))
    job = bound(table.refresh(), PartitionKey("{}"))

    outcome = commit(catalog, job, rewritten(table, job))

    assert (outcome.kind, len(list(table.refresh().scan().plan_files()))) == (OutcomeKind.DONE, 1)
    found = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: int(row["id"]))
    assert found == [{"id": number, **row} for number, row in enumerate(rows)]


def test_both_engines_say_the_same_of_older_rows(tmp_path: Path) -> None:
    raw = pa.RecordBatch.from_pylist(ROWS, schema=schema_to_pyarrow(OLD))

    by_duckdb = hashed(raw, tmp_path, {29: "const"})
    by_arrow = hashed(projected(ROWS), tmp_path, {})

    assert by_arrow == by_duckdb
    assert len(ROWS) == len(set(by_duckdb))


NEARLY = [
    {**ROWS[0], "l": [{"x y": 1}, None]},
    {**ROWS[0], "l": [{"x y": 1}, {"x y": None}, {"x y": None}]},
    {**ROWS[0], "s": {"p": [[1], None, []], "q": "z"}},
    {**ROWS[0], "s": {"p": [[1], [], [None]], "q": "z"}},
    {**ROWS[1], "l": []},
    {**ROWS[1], "l": [None]},
    {**ROWS[1], "m": []},
    {**ROWS[1], "m": [("", None)]},
    {**ROWS[1], "s": {"p": None, "q": None}},
    {**ROWS[1], "s": {"p": [], "q": None}},
    {**ROWS[1], "s": {"p": [[]], "q": None}},
    {**ROWS[1], "a": 0},
    {**ROWS[1], "A": 0.0},
]


def test_rows_that_are_nearly_the_same_have_other_hashes(tmp_path: Path) -> None:
    raw = pa.RecordBatch.from_pylist(ROWS + NEARLY, schema=schema_to_pyarrow(OLD))

    found = hashed(raw, tmp_path, {29: "const"})

    assert len(ROWS + NEARLY) == len(set(found))
