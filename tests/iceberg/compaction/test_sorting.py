"""Rows of new files lie in the table's sort order, as Iceberg's own comparators have it, however few fit into memory."""

import itertools
import math
import resource
import signal
from collections import deque
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import cmp_to_key
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    TruncateTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestamptzType,
    UUIDType,
)

from isotherm.contract.identity import UNPARTITIONED
from isotherm.contract.paths import normalised
from isotherm.core.model.jobs import OutcomeKind, Take
from isotherm.core.model.refusals import RefusalError
from isotherm.core.policy.sort_text import NONE, TABLE
from isotherm.iceberg.compaction.sorting import Ordering, Sorted
from support.rewriting import compacted

DAY = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = {
    "flag": (BooleanType(), st.booleans()),
    "small": (IntegerType(), st.integers(-3, 3)),
    "large": (LongType(), st.integers(-(2**40), 2**40)),
    "half": (FloatType(), st.floats(width=32)),
    "third": (DoubleType(), st.sampled_from([0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, -math.nan])),
    "price": (DecimalType(9, 2), st.decimals(-99, 99, places=2, allow_nan=False)),
    "day": (DateType(), st.dates(date(1969, 1, 1), date(1971, 1, 1))),
    "at": (TimestamptzType(), st.integers(-(10**6), 10**6).map(lambda s: DAY + timedelta(seconds=s))),
    "word": (StringType(), st.text("aä\ud7ff\U0001f600", max_size=3)),
    "blob": (BinaryType(), st.binary(max_size=3)),
}  # fmt: skip
INNER = NestedField(100, "inner", LongType(), required=False)
SCHEMA = Schema(
    *(
        NestedField(number, name, kind, required=False)
        for number, (name, (kind, _)) in enumerate(COLUMNS.items(), 1)
    ),
    NestedField(50, "row", LongType(), required=False),
    NestedField(51, "nested", StructType(INNER), required=False),
    NestedField(52, "key", UUIDType(), required=False),
    NestedField(54, "nanos", TimestampNanoType(), required=False),
    NestedField(53, "many", ListType(101, LongType(), element_required=False), required=False),
)
TRANSFORMS = {"at": DayTransform(), "word": TruncateTransform(1), "large": TruncateTransform(1000)}


def table_with(*fields):
    made = new_table_metadata(
        SCHEMA, UNPARTITIONED_PARTITION_SPEC, SortOrder(), "file:///t", {"format-version": "3"}
    )
    # It counts fields anew; here they have the ids that they are given.
    return made.model_copy(update={"schemas": [SCHEMA], "sort_orders": [SortOrder(*fields, order_id=1)]})


def java(value):
    """A value, as Java orders it: -0 before 0, and NaN, of which there is one, after all others."""
    if isinstance(value, float):
        return (
            math.isnan(value),
            0.0 if math.isnan(value) else value,
            math.copysign(1, value) > 0 or math.isnan(value),
        )
    if isinstance(value, str):
        return value.encode()
    return value


def after(value, transform):
    if value is None or isinstance(transform, IdentityTransform):
        return value
    if isinstance(transform, DayTransform):
        return (value - datetime(1970, 1, 1, tzinfo=UTC)).days
    return value[:1] if isinstance(value, str) else value - value % 1000


def compared(fields):
    def compare(one, other):
        for name, field in fields:
            left, right = (
                after(
                    row["nested"] and row["nested"]["inner"] if name == "inner" else row[name],
                    field.transform,
                )
                for row in (one, other)
            )
            if (left is None) != (right is None):
                return -1 if (left is None) == (field.null_order == NullOrder.NULLS_FIRST) else 1
            if left is not None and java(left) != java(right):
                return -1 if (java(left) < java(right)) == (field.direction == SortDirection.ASC) else 1
        return 0

    return cmp_to_key(compare)


@st.composite
def orders(draw):
    names = draw(st.lists(st.sampled_from([*COLUMNS, "inner"]), min_size=1, max_size=3, unique=True))
    return [
        (
            name,
            SortField(
                100 if name == "inner" else SCHEMA.find_field(name).field_id,
                TRANSFORMS[name] if name in TRANSFORMS and draw(st.booleans()) else IdentityTransform(),
                draw(st.sampled_from(SortDirection)),
                draw(st.sampled_from(NullOrder)),
            ),
        )
        for name in names
    ]


ROWS = st.lists(
    st.fixed_dictionaries(
        {name: st.none() | values for name, (_, values) in COLUMNS.items()}
        | {"nested": st.none() | st.fixed_dictionaries({"inner": st.none() | st.integers(0, 9)})}
    ),
    max_size=60,
)


@given(
    orders(),
    ROWS,
    st.integers(1, 20),
    st.sampled_from([1, 1000, 10_000, 2**30]),
    st.sampled_from([1, 500, 10_000]),
)
def test_rows_come_in_the_order_of_iceberg_and_none_is_lost(
    fields, rows, at_a_time, memory_bytes, chunk_bytes
):
    arrow = schema_to_pyarrow(SCHEMA)
    rows = [
        {**row, "row": number, "key": None, "many": None, "nanos": None} for number, row in enumerate(rows)
    ]
    ordering = Ordering.of(table_with(*(field for _, field in fields)), 1)
    it = Sorted(ordering, arrow, memory_bytes, chunk_bytes)
    for start in range(0, len(rows), at_a_time):
        it.add(pa.RecordBatch.from_pylist(rows[start : start + at_a_time], schema=arrow))
    found = [row for batch in it.rows() for row in batch.to_pylist()]
    it.close()

    assert sorted(row["row"] for row in found) == [*range(len(rows))]
    given = {row["row"]: row for row in pa.Table.from_pylist(rows, schema=arrow).to_pylist()}
    assert all(repr(row) == repr(given[row["row"]]) for row in found)
    key = compared(fields)
    assert all(not key(later) < key(earlier) for earlier, later in itertools.pairwise(found))


def test_minus_zero_comes_before_zero_and_nan_after_all_numbers():
    arrow = schema_to_pyarrow(SCHEMA)
    it = Sorted(Ordering.of(table_with(SortField(5, IdentityTransform())), 1), arrow)
    values = [math.nan, 0.0, math.inf, -0.0, 1.5, -math.nan, -1.5, 0.0, -math.inf, None, -0.0]
    it.add(pa.RecordBatch.from_pylist([{"third": value} for value in values], schema=arrow))
    found = [str(row["third"]) for batch in it.rows() for row in batch.to_pylist()]

    assert [one.removeprefix("-") if "nan" in one else one for one in found] == [
        "None", "-inf", "-1.5", "-0.0", "-0.0", "0.0", "0.0", "1.5", "inf", "nan", "nan"
    ]  # fmt: skip


def test_parts_that_overlap_are_merged():
    """Each chunk of a part has rows that come between those of the others."""
    arrow = schema_to_pyarrow(SCHEMA)
    it = Sorted(Ordering.of(table_with(SortField(3, IdentityTransform())), 1), arrow, 20_000, 2_000)
    for start in range(7):
        rows = [{"large": number * 7 + start} for number in range(300)]
        it.add(pa.RecordBatch.from_pylist(rows, schema=arrow))

    assert [row["large"] for batch in it.rows() for row in batch.to_pylist()] == [*range(2100)]
    it.close()


def test_a_merge_of_very_many_parts_sorts_a_row_about_as_often_as_one_of_few():
    """Of each part half a chunk waits. Where that was more than is sorted at a time, all of it was sorted for each chunk."""
    arrow, work = schema_to_pyarrow(SCHEMA), {}

    class Counted(Ordering):
        def sorted(self, columns):
            work[parts] = work.get(parts, 0) + columns.num_rows
            return super().sorted(columns)

    ordering = Ordering.of(table_with(SortField(3, IdentityTransform())), 1)
    for parts in (4, 100):
        it = Sorted(Counted(ordering.order_id, ordering.keys), arrow, 4_000, 400)
        for start in range(parts):
            rows = [{"large": number * parts + start} for number in range(100)]
            it.add(pa.RecordBatch.from_pylist(rows, schema=arrow))
        found = [row for batch in it.rows() for row in batch.column("large").to_pylist()]
        it.close()
        assert found == [*range(100 * parts)]

    assert work[100] / 100 < 2 * work[4] / 4


UUIDS = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16), b"k" * 16, bytes(16)], pa.binary(16)))
ENDS = pa.array([0, 1, 2, 3], pa.int32())


@pytest.mark.parametrize(
    "nested",
    [
        pa.StructArray.from_arrays([UUIDS], names=["first"]),
        pa.ListArray.from_arrays(ENDS, UUIDS),
        pa.MapArray.from_arrays(ENDS, pa.array(["a", "b", "c"]), UUIDS),
    ],
    ids=["struct", "list", "map"],
)
def test_uuids_within_other_columns_are_put_aside_too(nested):
    """Arrow makes no empty table of them."""
    rows = pa.RecordBatch.from_arrays([pa.array([3, 1, 2]), nested], names=["large", "nested"])
    by_id = Ordering.of(table_with(SortField(3, IdentityTransform())), 1)
    first = Ordering(1, tuple(replace(key, path=(0,)) for key in by_id.keys))
    it = Sorted(first, rows.schema, 1)
    it.add(rows)
    found = pa.Table.from_batches(it.rows())
    it.close()

    assert found.column("large").to_pylist() == [1, 2, 3]
    assert found.column("nested").to_pylist() == [nested[place].as_py() for place in (1, 2, 0)]


def test_however_many_parts_are_put_aside_one_file_is_open(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    arrow = schema_to_pyarrow(SCHEMA)
    it = Sorted(Ordering.of(table_with(SortField(3, IdentityTransform())), 1), arrow, 1)
    before = len(list(Path("/dev/fd").iterdir()))
    for number in range(50):
        it.add(pa.RecordBatch.from_pylist([{"large": 50 - number}], schema=arrow))

    assert len(list(Path("/dev/fd").iterdir())) == before + 1
    assert [row["large"] for batch in it.rows() for row in batch.to_pylist()] == [*range(1, 51)]
    it.close()


@pytest.mark.parametrize(
    "field",
    [
        SortField(52, IdentityTransform()),  # Java compares it as two signed numbers
        SortField(101, IdentityTransform()),
        SortField(99, IdentityTransform()),
        SortField(10, TruncateTransform(2)),  # nobody computes it
        SortField(54, HourTransform()),  # nor this
    ],
    ids=["UUID", "in a list", "gone", "part of bytes", "hours of nanoseconds"],
)
def test_what_cannot_be_compared_as_iceberg_does_is_left_as_it_is(field):
    known = SortField(1, IdentityTransform())

    assert Ordering.of(table_with(known, field), 1) is None
    assert Ordering.of(table_with(known), 1) is not None
    assert Ordering.of(table_with(known), 7) is None
    assert Ordering.of(table_with(), 1) is None


def test_what_is_put_aside_has_no_name_and_a_full_disk_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ordering, arrow = Ordering.of(table_with(SortField(2, BucketTransform(4))), 1), schema_to_pyarrow(SCHEMA)
    it = Sorted(ordering, arrow, 1)
    it.add(pa.RecordBatch.from_pylist([{"small": 1}], schema=schema_to_pyarrow(SCHEMA)))
    assert [*tmp_path.iterdir()] == []
    it.close()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    it = Sorted(ordering, arrow, 1)
    with pytest.raises(Exception, match="putting rows aside while they are sorted"):
        it.add(pa.RecordBatch.from_pylist([{"small": 1}], schema=schema_to_pyarrow(SCHEMA)))


def test_what_is_left_to_write_to_a_full_disk_hides_nothing_when_it_is_let_go():
    """A disk that is full is told as such. What Python still had to write was told instead, as a mistake of ours."""
    it = Sorted(Ordering.of(table_with(SortField(2, BucketTransform(4))), 1), schema_to_pyarrow(SCHEMA), 1)
    rows = pa.RecordBatch.from_pylist([{"small": 1}], schema=schema_to_pyarrow(SCHEMA))
    allowed, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
    try:
        with pytest.raises(RefusalError, match="putting rows aside while they are sorted"):
            deque(map(it.add, itertools.repeat(rows, 1000)))
        it.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (allowed, most))
        signal.signal(signal.SIGXFSZ, before)


@pytest.mark.parametrize("sort", [TABLE, NONE, "Key DESC, id"])
def test_a_job_writes_files_in_the_order_that_is_asked_for_and_says_so_of_the_tables_own(tmp_path, sort):
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    schema = Schema(
        NestedField(1, "id", LongType(), required=False), NestedField(2, "key", StringType(), required=False)
    )
    order = SortOrder(
        SortField(2, direction=SortDirection.DESC, null_order=NullOrder.NULLS_LAST), SortField(1)
    )
    table = catalog.create_table("shop.orders", schema, sort_order=order)
    for start in range(4):
        ids = [number * 4 + start for number in range(2000)]
        keys = [None if number % 11 == 0 else f"key {number * 7919 % 100}" for number in ids]
        table.append(pa.table({"id": pa.array(ids, pa.int64()), "key": pa.array(keys, pa.string())}))
    outcome = compacted(
        catalog, "shop.orders", UNPARTITIONED, take=Take(2**40), target_size_bytes=4_000, sort=sort
    )
    assert outcome.kind is OutcomeKind.DONE

    files = [task.file for task in catalog.load_table("shop.orders").scan().plan_files()]
    assert len(files) > 1
    assert {file.sort_order_id for file in files} == {1 if sort == TABLE else 0}
    for file in files:
        rows = pq.read_table(normalised(file.file_path)).to_pylist()
        in_order = sorted(rows, key=lambda row: row["id"])
        in_order.sort(key=lambda row: row["key"] or "", reverse=True)
        assert (rows == in_order) is (sort != NONE)
