"""Bounds and counts of the files that a rewrite writes: PyIceberg plans its scans by them, and must find every row."""

import datetime as dt
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import EqualTo, GreaterThanOrEqual, IsNull, LessThan, LessThanOrEqual
from pyiceberg.expressions.literals import UUIDLiteral
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
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

from isotherm.contract.identity import UNPARTITIONED
from isotherm.core.model.jobs import OutcomeKind
from support.any_column import NAME, UTC, add, naive
from support.rewriting import compacted


@pytest.fixture
def catalog(empty_catalog: Any) -> Any:
    return empty_catalog


LONG = 5000
"""Characters; Parquet C++ writes no bounds for a chunk whose extreme is longer than 4096 bytes."""


def ids(catalog: Any, condition: Any) -> list[int]:
    """The rows that a filtered scan finds; of UUIDs, which PyArrow cannot compare, those of the files it plans."""
    scan = catalog.load_table(NAME).scan(row_filter=condition, selected_fields=("id",))
    if isinstance(getattr(condition, "literal", None), UUIDLiteral):
        return [row for task in scan.plan_files() for row in range(task.file.record_count)]
    return sorted(scan.to_arrow()["id"].to_pylist())


def bounds(catalog: Any) -> tuple[bytes | None, bytes | None]:
    """Those of column `v` in the one file."""
    files = catalog.load_table(NAME).inspect.files()
    (file,) = files.select(["lower_bounds", "upper_bounds"]).to_pylist()
    lower, upper = (dict(file[name]) for name in ("lower_bounds", "upper_bounds"))
    return lower.get(2), upper.get(2)


@pytest.mark.parametrize("kind", [StringType(), BinaryType()])
def test_a_value_that_parquet_gives_no_bounds_for_is_found(
    catalog: Any, make: Callable[..., Table], kind: IcebergType
) -> None:
    values: list[Any] = ["a", "b", None, "z" * LONG, "c", "d", "e", "f", "g"]
    if isinstance(kind, BinaryType):
        values = [value and value.encode() for value in values]
    make(kind, values)

    outcome = compacted(catalog, NAME, UNPARTITIONED)

    assert OutcomeKind.DONE is outcome.kind, outcome
    # Not compared with a scan of before: PyIceberg's own files have such bounds, and hide the value.
    for value in filter(None, values):
        wanted = [place for place, other in enumerate(values) if other is not None and other >= value]
        assert wanted == ids(catalog, GreaterThanOrEqual("v", value))
    assert (None, None) == bounds(catalog)


VALUES: dict[str, tuple[IcebergType, list[Any]]] = {
    "boolean": (BooleanType(), [True, False, None, True]),
    "int": (IntegerType(), [0, -(2**31), None, 2**31 - 1, 7, -7, 1, 2]),
    "long": (LongType(), [0, -(2**63), None, 2**63 - 1, 7, -7, 1, 2]),
    "float": (FloatType(), [0.0, -1.5, None, float("inf"), float("-inf"), 2.5, -0.0, 1.0]),
    "double": (DoubleType(), [0.0, -1.5, None, float("inf"), float("-inf"), 2.5, -0.0, 1.0]),
    "decimal(9)": (DecimalType(9, 2), [Decimal(v) for v in ("0.00", "-0.01", "9999999.99", "1.28", "-1.28")]),
    "decimal(18)": (DecimalType(18, 2), [Decimal(v) for v in ("0.00", "-0.01", "1.28", "2.56", "-327.68")]),
    "decimal(38)": (
        DecimalType(38, 2),
        [Decimal(v) for v in ("0.00", "-0.01", "1" + "0" * 30 + ".00", "-1" + "0" * 30 + ".00", "2.56")],
    ),
    "date": (DateType(), [dt.date(1, 1, 1), dt.date(9999, 12, 31), None, dt.date(1970, 1, 1)]),
    "time": (TimeType(), [dt.time(0), dt.time(23, 59, 59, 999999), None, dt.time(12)]),
    "timestamp": (
        TimestampType(),
        [
            naive(1, 1, 1),
            naive(9999, 12, 31, 23, 59, 59, 999999),
            None,
            naive(1969, 12, 31),
        ],
    ),
    "timestamptz": (
        TimestamptzType(),
        [dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(9999, 12, 31, tzinfo=UTC), None],
    ),
    "string": (
        StringType(),
        ["", "a", None, "Zoë", "\U0010ffff" * 20, "x" * 40, "e" * 15 + "\ud7ff" + "f", "\ue000" * 17],
    ),
    "string at the end": (StringType(), ["a", "\U0010ffff" * 20, None]),
    "uuid": (
        UUIDType(),
        [uuid.UUID(int=0).bytes, uuid.UUID(int=2**128 - 1).bytes, None, uuid.UUID(int=2**100).bytes],
    ),
    "fixed": (FixedType(3), [b"abc", b"\x00\x00\x00", None, b"\xff\xff\xff"]),
    "binary": (BinaryType(), [b"", b"a", None, b"\xff" * 20, b"a" * 15 + b"\xff\xff", b"\xfe" * 30]),
}


@pytest.mark.parametrize("kind", VALUES)
def test_each_value_of_each_type_is_found_by_a_filter(
    catalog: Any, make: Callable[..., Table], kind: str
) -> None:
    field_type, values = VALUES[kind]
    make(field_type, values)
    conditions = [
        condition("v", uuid.UUID(bytes=value) if kind == "uuid" else value)
        for value in values
        if value is not None
        for condition in ((EqualTo, GreaterThanOrEqual, LessThanOrEqual) if kind != "boolean" else (EqualTo,))
        if not (kind == "uuid" and condition is not EqualTo)
    ]
    conditions.append(IsNull("v"))
    wanted = [ids(catalog, condition) for condition in conditions] if kind != "uuid" else None

    outcome = compacted(catalog, NAME, UNPARTITIONED)

    assert OutcomeKind.DONE is outcome.kind, outcome
    found = [ids(catalog, condition) for condition in conditions]
    assert found == wanted if wanted is not None else all(found)
    assert len(values) == len(ids(catalog, GreaterThanOrEqual("id", 0)))


FAR = {
    "date": (DateType(), pa.array([-1_000_000, 0, 4_000_000, 5, 6], pa.int32()).cast(pa.date32()), "<i"),
    "timestamp": (
        TimestampType(),
        pa.array([-(2**60), 0, 2**62, 5], pa.int64()).cast(pa.timestamp("us")),
        "<q",
    ),
    "infinite timestamp": (
        TimestampType(),
        pa.array([2**63 - 1, 0, 7, 5], pa.int64()).cast(pa.timestamp("us")),
        "<q",
    ),
    "infinite date": (
        DateType(),
        pa.array([2**31 - 1, 0, -(2**31) + 1, 5], pa.int32()).cast(pa.date32()),
        "<i",
    ),
    "string": (StringType(), pa.array(["e" * 15 + "\ud7ff" + "f", "a", "b", "c"]), None),
}
"""Values of which Python, or PyIceberg, makes no bounds: PostgreSQL's infinity comes out as such days."""


@pytest.mark.parametrize("kind", FAR)
def test_values_at_the_edge_have_bounds_too(
    catalog: Any, make: Callable[..., Table], tmp_path: Path, kind: str
) -> None:
    field_type, values, layout = FAR[kind]
    table = make(field_type, [])
    table.transaction().set_properties(
        {"schema.name-mapping.default": '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["v"]}]'}
    ).commit_transaction()
    for place in (0, 1):
        path, part = tmp_path / f"{place}.parquet", values[place::2]
        rows = pa.table({"id": list(range(place, len(values), 2)), "v": part})
        pq.write_table(rows, path)
        # PyIceberg makes no entry of such values; nulls in their place give one.
        add(table.refresh(), path, rows.set_column(1, "v", pa.nulls(len(part), values.type)))

    outcome = compacted(catalog, NAME, UNPARTITIONED)

    assert OutcomeKind.DONE is outcome.kind, outcome
    assert list(range(len(values))) == ids(catalog, GreaterThanOrEqual("id", 0))
    if layout is None:
        assert (b"a", ("e" * 15 + "\ue000").encode()) == bounds(catalog)
    else:
        ordinals = values.view(pa.int32() if layout == "<i" else pa.int64()).to_pylist()
        assert (struct.pack(layout, min(ordinals)), struct.pack(layout, max(ordinals))) == bounds(catalog)


def test_no_number_is_no_bound_and_hides_none(catalog: Any, make: Callable[..., Table]) -> None:
    nan = float("nan")
    make(DoubleType(), [nan, nan, nan, nan, nan, nan, 1.5, nan, None, 2.5])

    outcome = compacted(catalog, NAME, UNPARTITIONED)

    assert OutcomeKind.DONE is outcome.kind, outcome
    assert [6, 9] == ids(catalog, LessThanOrEqual("v", 2.5))
    assert (1.5, 2.5) == tuple(from_bytes(DoubleType(), one) for one in bounds(catalog))


def test_no_footer_has_extremes_of_uuids(catalog: Any, make: Callable[..., Table]) -> None:
    """Iceberg's Java compares UUIDs in another order than Parquet, and would pass over row groups that it needs."""
    make(UUIDType(), [uuid.UUID(int=number).bytes for number in (7, 2**127 + 5, 2**128 - 1, 0)])

    outcome = compacted(catalog, NAME, UNPARTITIONED)

    assert OutcomeKind.DONE is outcome.kind, outcome
    (task,) = catalog.load_table(NAME).scan().plan_files()
    footer = pq.read_metadata(task.file.file_path.removeprefix("file://"))
    columns = {column.path_in_schema: column for column in map(footer.row_group(0).column, range(2))}
    assert {"id": True, "v": False} == {name: one.is_stats_set for name, one in columns.items()}


def test_a_delete_by_bounds_takes_no_row_that_has_no_number(catalog: Any, make: Callable[..., Table]) -> None:
    """Engines drop a whole file where its bounds match, and no count says that some of its values are no number."""
    nan = float("nan")
    make(DoubleType(), [1.5, nan, 2.5, 3.5, nan, nan, 4.5, 0.5])

    outcome = compacted(catalog, NAME, UNPARTITIONED)

    assert OutcomeKind.DONE is outcome.kind, outcome
    table = catalog.load_table(NAME)
    table.delete(LessThan("v", 10.0))
    assert [1, 4, 5] == sorted(table.scan().to_arrow()["id"].to_pylist())


@pytest.mark.parametrize(("mode", "counts"), [("none", []), ("counts", [(2, 3)]), ("full", [(2, 3)])])
def test_values_that_are_no_number_are_counted_over_all_row_groups(
    catalog: Any, make: Callable[..., Table], mode: str, counts: list[tuple[int, int]]
) -> None:
    nan = float("nan")
    make(FloatType(), [nan, 1.5, None, nan, 2.5, 0.5, 3.5, nan], **{"write.metadata.metrics.default": mode})

    outcome = compacted(catalog, NAME, UNPARTITIONED)

    assert OutcomeKind.DONE is outcome.kind, outcome
    (file,) = catalog.load_table(NAME).inspect.files().select(["nan_value_counts"]).to_pylist()
    assert counts == file["nan_value_counts"]
    assert (mode == "full") is (bounds(catalog) != (None, None))


def test_what_a_person_hides_from_manifests_stays_hidden(catalog: Any) -> None:
    """The mode is looked up under the column's name, and the file has another spelling of it."""
    schema = Schema(
        NestedField(1, "e mail", StringType(), required=False),
        NestedField(2, "v", LongType(), required=False),
    )
    table = catalog.create_table(
        NAME,
        schema,
        properties={"format-version": "2", "write.metadata.metrics.column.e mail": "none"},
    )
    for _ in range(2):
        table.append(pa.table({"e mail": ["secret@example.org"], "v": [1]}))

    compacted(catalog, NAME, UNPARTITIONED)

    (file,) = catalog.load_table(NAME).inspect.files().to_pylist()
    assert [{2}] * 3 == [set(dict(file[name])) for name in ("value_counts", "lower_bounds", "upper_bounds")]


@pytest.mark.parametrize(
    ("column", "default", "length"),
    [
        ("truncate(4)", "most", 4),
        ("truncate(0)", "truncate(5)", 5),
        ("5", "", 16),
        ("truncate(x)", "full", 20),
    ],
)
def test_a_metrics_mode_that_is_none_leaves_it_to_the_default(
    catalog: Any, make: Callable[..., Table], column: str, default: str, length: int
) -> None:
    """Java warns of it, and goes on with what the default says, or with its own."""
    table = make(StringType(), ["a" * 20, "b" * 20])
    with table.transaction() as change:
        change.set_properties(
            {"write.metadata.metrics.default": default, "write.metadata.metrics.column.v": column}
        )

    assert OutcomeKind.DONE is compacted(catalog, NAME, UNPARTITIONED).kind

    lower, _ = bounds(catalog)
    assert lower == b"a" * length


def test_counts_of_nested_columns_are_those_of_their_leaves(catalog: Any) -> None:
    schema = Schema(
        NestedField(1, "s", StructType(NestedField(2, "x", LongType(), required=False)), required=False),
        NestedField(3, "l", ListType(4, LongType(), element_required=False), required=False),
        NestedField(5, "m", MapType(6, StringType(), 7, LongType(), value_required=False), required=False),
        NestedField(8, "v", LongType(), required=False),
    )
    table = catalog.create_table(NAME, schema, properties={"format-version": "2"})
    schema = table.schema()
    row = {"s": {"x": None}, "l": [1, None], "m": [("a", None)], "v": 3}
    for rows in ([row, {"s": None, "l": None, "m": None, "v": None}], [{**row, "s": {"x": 5}, "l": []}]):
        table.append(pa.Table.from_pylist(rows, schema=schema.as_arrow()))
    before = [dict(file["null_value_counts"]) for file in table.inspect.files().to_pylist()]

    compacted(catalog, NAME, UNPARTITIONED)

    (file,) = catalog.load_table(NAME).inspect.files().to_pylist()
    after = dict(file["null_value_counts"])
    assert {schema.find_field("s.x").field_id: 2, schema.find_field("v").field_id: 1}.items() <= after.items()
    assert after == {one: before[0][one] + before[1][one] for one in before[0]}
