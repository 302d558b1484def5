"""How a file holds its values makes no difference to what a rewrite reads: physical types, layouts, order of columns."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from isotherm.contract.identity import UNPARTITIONED
from isotherm.core.model.jobs import OutcomeKind
from support.any_column import NAME, UTC, add, naive
from support.rewriting import compacted


@pytest.fixture
def catalog(empty_catalog: Any) -> Any:
    return empty_catalog


def test_timestamps_of_96_bits_keep_their_days(catalog: Any, tmp_path: Path) -> None:
    """Spark before 3, Hive and Impala write them; as nanoseconds the first and the last of these would be others."""
    days = [
        naive(1, 1, 1),
        naive(2999, 12, 31),
        naive(4712, 12, 31),
        naive(2020, 1, 2, 3),
    ]
    schema = Schema(NestedField(1, "at", TimestamptzType(), required=False))
    mapping = '[{"field-id": 1, "names": ["at"]}]'
    table = catalog.create_table(
        NAME, schema, properties={"format-version": "2", "schema.name-mapping.default": mapping}
    )
    rows = pa.table({"at": pa.array(days, pa.timestamp("us"))})
    for number in range(2):
        path = tmp_path / f"old-{number}.parquet"
        pq.write_table(rows, path, use_deprecated_int96_timestamps=True)
        # PyIceberg cannot add a file with such timestamps; the same file without them gives the entry.
        add(table, path, rows)

    outcome = compacted(catalog, NAME, UNPARTITIONED)

    assert OutcomeKind.DONE is outcome.kind, outcome
    found = catalog.load_table(NAME).scan().to_arrow()["at"].to_pylist()
    assert sorted(day.replace(tzinfo=UTC) for day in days * 2) == sorted(found)


PHYSICAL: dict[str, tuple[IcebergType, pa.Array, list[Any]]] = {
    "milliseconds": (TimestampType(), pa.array([1, -1, None], pa.timestamp("ms")), [1000, -1000, None]),
    "nanoseconds": (TimestampType(), pa.array([5000, -5000, None], pa.timestamp("ns")), [5, -5, None]),
    "parts of microseconds": (
        TimestampType(),
        pa.array([5001, -5001, None, 2**63 - 1, -(2**63)], pa.timestamp("ns")),
        [5, -6, None, 9223372036854775, -9223372036854776],
    ),
    "parts of microseconds with a zone": (
        TimestamptzType(),
        pa.array([5999, -1, None, 2**63 - 1, -(2**63) + 1], pa.timestamp("ns", "UTC")),
        [5, -1, None, 9223372036854775, -9223372036854776],
    ),
    "with a zone": (TimestampType(), pa.array([5, -5, None], pa.timestamp("us", "UTC")), [5, -5, None]),
    "without a zone": (TimestamptzType(), pa.array([5, -5, None], pa.timestamp("us")), [5, -5, None]),
    "time in milliseconds": (TimeType(), pa.array([5, 0, None], pa.time32("ms")), [5000, 0, None]),
    "unsigned": (LongType(), pa.array([5, 2**32 - 1, None], pa.uint32()), [5, 2**32 - 1, None]),
    "narrow": (IntegerType(), pa.array([5, -5, None], pa.int8()), [5, -5, None]),
    "binary for text": (StringType(), pa.array(["Zoë".encode(), b"", None], pa.binary()), ["Zoë", "", None]),
    "fixed for uuid": (
        UUIDType(),
        pa.array([bytes(15) + b"x", None], pa.binary(16)),
        [bytes(15) + b"x", None],
    ),
}


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize("kind", PHYSICAL)
def test_how_a_file_holds_a_value_makes_no_difference(
    catalog: Any,
    make: Callable[..., Table],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    zone: str,
) -> None:
    field_type, values, wanted = PHYSICAL[kind]
    monkeypatch.setenv("TZ", zone)
    table = make(field_type, [])
    table.transaction().set_properties(
        {"schema.name-mapping.default": '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["v"]}]'}
    ).commit_transaction()
    for place in (0, 1):
        path, nulls = (
            tmp_path / f"{place}.parquet",
            pa.nulls(len(values), table.schema().as_arrow().field("v").type),
        )
        rows = pa.table({"id": list(range(len(values))), "v": values, "not in the mapping": values})
        pq.write_table(rows, path)
        add(table.refresh(), path, pa.table({"id": rows["id"], "v": nulls}))

    outcome = compacted(catalog, NAME, UNPARTITIONED)

    assert OutcomeKind.DONE is outcome.kind, outcome
    found = catalog.load_table(NAME).scan().to_arrow().sort_by("id")["v"].combine_chunks()
    storage = found.storage if isinstance(found, pa.ExtensionArray) else found
    if not isinstance(field_type, (StringType, UUIDType)):
        storage = storage.cast(pa.int64())
    assert [one for one in wanted for _ in range(2)] == storage.to_pylist()


LAYOUTS: dict[str, pa.Array] = {
    "text views": pa.array(["a", "b" * 50, None], pa.string_view()),
    "binary views": pa.array([b"a", b"b" * 50, None], pa.binary_view()),
    "lists of a fixed size": pa.array([[1.0, 2.0], [3.0, None], None], pa.list_(pa.float32(), 2)),
    "large lists": pa.array([[1], [], None], pa.large_list(pa.int64())),
    "a dictionary": pa.array(["a", "b", None]).dictionary_encode(),
    "lists of dictionaries": pa.array(
        [["a", "a", None], [], None], pa.list_(pa.dictionary(pa.int32(), pa.string()))
    ),
    "lists of a fixed size in a struct": pa.array(
        [{"l": [1, 2]}, {"l": None}, None], pa.struct([("l", pa.list_(pa.int32(), 2))])
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_of_arrow_that_a_file_was_written_from_makes_no_difference(
    catalog: Any, tmp_path: Path, layout: str
) -> None:
    rows = pa.table({"id": pa.arange(0, 3), "v": LAYOUTS[layout]})
    table = catalog.create_table(NAME, rows.schema, properties={"format-version": "2"})
    for number in range(2):
        pq.write_table(rows, tmp_path / f"{number}.parquet")
        table.add_files([f"file://{tmp_path}/{number}.parquet"])

    outcome = compacted(catalog, NAME, UNPARTITIONED)

    assert OutcomeKind.DONE is outcome.kind, outcome
    found = catalog.load_table(NAME).scan().to_arrow().sort_by("id")["v"].to_pylist()
    assert [value for value in LAYOUTS[layout].to_pylist() for _ in range(2)] == found


def test_what_geoparquet_calls_a_geometry_keeps_its_bytes(catalog: Any, tmp_path: Path) -> None:
    """DuckDB would write the point with its bytes the other way round, and refuse what is no geometry."""
    point = struct.pack(">BIdd", 0, 1, 1.0, 2.0)
    geo = (
        b'{"version": "1.0.0", "primary_column": "v", '
        b'"columns": {"v": {"encoding": "WKB", "geometry_types": ["Point"]}}}'
    )
    rows = pa.table({"v": pa.array([point, b"no geometry", None], pa.binary())})
    table = catalog.create_table(NAME, rows.schema, properties={"format-version": "2"})
    for number in range(2):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(rows.replace_schema_metadata({b"geo": geo}), path)
        table.add_files([f"file://{path}"])

    outcome = compacted(catalog, NAME, UNPARTITIONED)

    assert OutcomeKind.DONE is outcome.kind, outcome
    found = catalog.load_table(NAME).scan().to_arrow()["v"].to_pylist()
    assert sorted([point, b"no geometry"] * 2) == sorted(value for value in found if value is not None)


def test_a_file_without_ids_and_a_table_without_names_are_matched_by_order(
    catalog: Any, make: Callable[..., Table], tmp_path: Path
) -> None:
    table = make(StringType(), ["a", "b"])
    for file in table.inspect.files()["file_path"].to_pylist():
        path = file.removeprefix("file://")
        rows = pq.ParquetFile(path).read()
        plain = pa.Table.from_arrays(rows.columns, names=["other", "names"])
        pq.write_table(plain, path)

    outcome = compacted(catalog, NAME, UNPARTITIONED)

    assert OutcomeKind.DONE is outcome.kind, outcome
    assert [(0, "a"), (1, "b")] == sorted(
        (row["id"], row["v"]) for row in catalog.load_table(NAME).scan().to_arrow().to_pylist()
    )
