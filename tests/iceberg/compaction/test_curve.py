"""Files of a curve are narrow in each of its columns, whatever their types, and hold the rows that were there."""

import math
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise, product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
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
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from isotherm.clients.catalog import open_catalog
from isotherm.contract.identity import UNPARTITIONED
from isotherm.contract.paths import normalised
from isotherm.core.model.jobs import AskedOrder, OutcomeKind, SortKey, Take
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.policy.sort_text import why_not
from isotherm.iceberg.compaction.asked_order import asked_order, kept_names
from isotherm.iceberg.compaction.curve import Curve, places
from support.rewriting import bound, compacted
from support.spark import CATALOG

DAY = datetime(2026, 1, 1, tzinfo=UTC)
VALUES = {
    "flag": (BooleanType(), bool),
    "small": (IntegerType(), lambda n: n - 500),
    "large": (LongType(), lambda n: (n - 500) * 2**40),
    "half": (FloatType(), lambda n: (n - 500) / 8),
    "third": (DoubleType(), lambda n: math.inf if n > 990 else (n - 500) / 3),
    "price": (DecimalType(20, 2), lambda n: Decimal(n - 500) / 4),
    "day": (DateType(), lambda n: date(1969, 1, 1) + timedelta(days=n)),
    "hour": (TimeType(), lambda n: (DAY + timedelta(seconds=n)).time()),
    "at": (TimestamptzType(), lambda n: DAY + timedelta(seconds=n)),
    "word": (StringType(), lambda n: f"https://example.com/a/long/way/to/what/tells/them/apart/{n:04}"),
    "blob": (BinaryType(), lambda n: n.to_bytes(2, "big")),
    "raw": (FixedType(4), lambda n: n.to_bytes(4, "big")),
}
PAIRS = [*pairwise([*VALUES, "flag"])]
FILES = 16


def lake(folder, schema, rows, *, version="2", files=FILES):
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", schema, properties={"format-version": version})
    for part in range(files):
        # Not what is even: pages of the same size would hide a sample that sees one kind of row alone.
        table.append(pa.Table.from_pylist(rows[part::files], schema=schema.as_arrow()))
    return catalog


def parts(catalog, sort, bytes_each):
    take = Take(2**40)
    outcome = compacted(
        catalog, "shop.orders", UNPARTITIONED, take=take, target_size_bytes=bytes_each, sort=sort
    )
    assert outcome.kind is OutcomeKind.DONE, outcome
    files = [task.file for task in catalog.load_table("shop.orders").scan().plan_files()]
    assert {file.sort_order_id for file in files} == {0}
    return [pq.read_table(normalised(file.file_path)).to_pylist() for file in files]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_each_file_is_narrow_in_each_column_of_whatever_type(tmp_path, one, other):
    chance = random.Random(one)
    schema = Schema(
        NestedField(1, one, VALUES[one][0], required=False),
        NestedField(2, other, VALUES[other][0], required=False),
        NestedField(3, "row", LongType(), required=False),
    )
    points = [(chance.randrange(1000), chance.randrange(1000)) for _ in range(4000)]
    rows = [
        {one: VALUES[one][1](first), other: VALUES[other][1](second), "row": number}
        for number, (first, second) in enumerate(points)
    ]
    files = parts(lake(tmp_path, schema, rows), f"zorder({one}, {other})", 4000)

    assert len(files) >= 4
    assert sorted(row["row"] for file in files for row in file) == [*range(4000)]
    for column in (0, 1):
        if (one, other)[column] == "flag":
            continue
        widths = [np.ptp([points[row["row"]][column] for row in file]) for file in files]
        # Of n squares each side is a root of n.
        assert np.mean(widths) < 1000 * 1.6 / math.sqrt(len(files)), (one, other)[column]


def test_a_column_of_wide_numbers_does_not_decide_alone(tmp_path):
    """Bits of the values themselves would be those of the wide column alone, but for the last ones."""
    chance = random.Random(1)
    schema = Schema(
        NestedField(1, "wide", LongType(), required=False), NestedField(2, "narrow", IntegerType(), required=False)
    )  # fmt: skip
    rows = [{"wide": chance.randrange(2**62), "narrow": chance.choice([7, 8, 9])} for _ in range(4000)]
    files = parts(lake(tmp_path, schema, rows), "zorder(wide, narrow)", 5000)

    assert len(files) >= 6
    assert np.mean([len({row["narrow"] for row in file}) for file in files]) < 2.5


def test_times_that_rise_from_file_to_file_are_told_apart(tmp_path):
    """By the oldest rows alone, all others were later than the last part."""
    chance = random.Random(3)
    schema = Schema(
        NestedField(1, "at", LongType(), required=False), NestedField(2, "b", LongType(), required=False)
    )
    # `lake` deals rows out one by one.
    rows = [
        {"at": number % FILES * 250 + number // FILES, "b": chance.randrange(2**30)} for number in range(4000)
    ]
    files = parts(lake(tmp_path, schema, rows), "zorder(at, b)", 4000)

    assert len(files) >= 4
    widths = [np.ptp([row["at"] for row in file]) for file in files]
    assert np.mean(widths) < 4000 * 1.6 / math.sqrt(len(files))


def test_rows_without_a_value_lie_together(tmp_path):
    chance = random.Random(2)
    inner = StructType(NestedField(4, "b", StringType(), required=False))
    schema = Schema(
        NestedField(1, "a", LongType(), required=False), NestedField(2, "in", inner, required=False)
    )
    rows = [
        {
            "a": chance.choice([None, -1, 0, 1]),
            "in": chance.choice([None, {"b": None}, {"b": str(chance.random())}, {"b": str(chance.random())}]),
        }
        for _ in range(4000)
    ]  # fmt: skip
    files = parts(lake(tmp_path, schema, rows), "zorder(a, in.b)", 1000)

    assert len(files) >= 6
    mixed = [file for file in files if {None, 0} <= {row["a"] for row in file}]
    assert len(mixed) < len(files) / 2
    assert sum(row["a"] is None for file in files for row in file) == sum(row["a"] is None for row in rows)


@pytest.mark.parametrize("files", [2, 50])
def test_a_sample_of_few_rows_or_none_is_enough(tmp_path, files):
    schema = Schema(NestedField(1, "a", LongType(), required=False), NestedField(2, "b", LongType(), required=False))  # fmt: skip
    rows = [{"a": None, "b": number} for number in range(files * 2)]
    found = parts(lake(tmp_path, schema, rows, files=files), "zorder(a, b)", 10**6)

    assert [row["b"] for file in found for row in file] == [*range(files * 2)]


@pytest.mark.parametrize(("columns", "bits"), [(1, 5), (2, 1), (2, 5), (3, 3), (4, 2)])
def test_the_curve_goes_through_each_point_once_and_from_each_to_a_neighbour(columns, bits):
    points = np.array([*product(range(1 << bits), repeat=columns)])
    found = places([*points.T], bits)

    assert sorted(found) == [*range(len(points))]
    assert all(np.abs(np.diff(points[np.argsort(found)], axis=0)).sum(axis=1) == 1)


SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "Id", LongType(), required=False),
    NestedField(3, "Region", StringType(), required=False),
    NestedField(4, "key", UUIDType(), required=False),
    NestedField(5, "many", ListType(6, LongType(), element_required=False), required=False),
    NestedField(7, "row", StructType(NestedField(8, "inner", LongType(), required=False)), required=False),
)


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("table", None),
        ("none", None),
        ("id, region DESC", AskedOrder((SortKey(1), SortKey(3, is_falling=True, are_nulls_last=True)))),
        ("zorder(Id, row.inner)", AskedOrder((SortKey(2), SortKey(8)), is_zorder=True)),
    ],
)
def test_columns_are_found_by_name_and_in_another_case_where_that_is_clear(text, order):
    assert asked_order(SCHEMA, text) == order


@pytest.mark.parametrize(
    ("text", "which"),
    [
        ("gone", "no column of this name by which rows can be sorted"),
        ("ID", "several, but for their case"),
        ("key", "no column of this name by which rows can be sorted"),
        ("many", "no column of this name by which rows can be sorted"),
        ("many.element", "no column of this name by which rows can be sorted"),
        ("row", "no column of this name by which rows can be sorted"),
    ],
)
def test_a_column_by_which_nothing_can_be_sorted_is_told(text, which):
    refusal = asked_order(SCHEMA, f"id, {text}")

    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.UNSUPPORTED
    assert refusal.why == (
        f"compact.sort names column `{text}`, and the table has {which}; name another in the policy of this table, "
        "or write `table`"
    )
    assert why_not(f"id, {text}", kept_names(SCHEMA)) == refusal.why


class Unsearched(Schema):
    """A schema of which each search walks through all of it."""

    def find_field(self, *_):
        raise AssertionError

    find_type = find_field


def test_of_very_many_columns_no_names_are_kept():
    """One walk finds them: a table is loaded between a commit's last look and its request."""
    wide = Unsearched(*(NestedField(number, f"column_{number}", LongType()) for number in range(1, 1000)))

    assert kept_names(wide) is None
    assert asked_order(wide, "column_999") == AskedOrder((SortKey(999),))


def test_a_sample_of_large_rows_holds_their_keys_alone(tmp_path):
    """Documents of 20 kB beside the key, in one struct, and as keys: all 80 MB of them were in memory."""
    inner = StructType(
        NestedField(3, "id", LongType(), required=False), NestedField(4, "text", StringType(), required=False)
    )
    schema = Schema(
        NestedField(1, "row", inner, required=False), NestedField(2, "b", LongType(), required=False)
    )
    rows = [
        {"row": {"id": number, "text": "x" * 20_000 + str(number)}, "b": number % 7} for number in range(4000)
    ]
    table = lake(tmp_path, schema, rows).load_table("shop.orders")
    job = bound(table, UNPARTITIONED, take=Take(2**40), sort="zorder(row.id, row.text, b)")
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    curve = Curve.of(table.io, job, table.metadata, {}, job.asked_order)
    pa.set_memory_pool(before)

    assert [len(edges) > 100 for edges in curve.edges] == [True, False, False]
    assert pool.max_memory() < 40 * 10**6


@pytest.mark.spark
def test_a_reader_opens_no_more_files_than_after_sparks_own_z_order(spark, lake_folder):
    columns = "id BIGINT, customer INT, at TIMESTAMP, word STRING"
    rows = (
        "SELECT id, CAST(hash(id) % 1000 AS INT) AS customer, timestamp_seconds(1700000000 + hash(id, 1) % 864000) AS at, "
        "repeat(md5(CAST(id AS STRING)), 2) AS word FROM range(0, 60000, 1, 6)"
    )
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    for name in ("ours", "theirs"):
        spark.sql(f"DROP TABLE IF EXISTS lake.db.{name}")
        spark.sql(
            f"CREATE TABLE lake.db.{name} ({columns}) USING iceberg TBLPROPERTIES ('format-version'='2')"
        )
        spark.sql(f"INSERT INTO lake.db.{name} {rows}")
    before = spark.sql("SELECT count(*), sum(hash(*)) FROM lake.db.ours").collect()
    target = 200_000
    catalog = open_catalog(CATALOG, lake_folder.pyiceberg_properties, 60)
    outcome = compacted(
        catalog,
        "db.ours",
        UNPARTITIONED,
        take=Take(2**40),
        target_size_bytes=target,
        sort="zorder(customer, at)",
    )
    assert outcome.kind is OutcomeKind.DONE
    spark.sql(
        "CALL lake.system.rewrite_data_files(table => 'db.theirs', strategy => 'sort', sort_order => 'zorder(customer, at)', "
        f"options => map('rewrite-all', 'true', 'target-file-size-bytes', '{target}', 'shuffle-partitions-per-file', '1'))"
    )

    assert spark.sql("SELECT count(*), sum(hash(*)) FROM lake.db.ours").collect() == before

    def opened(name):
        """The part of the files that is opened for a customer, and for a day."""
        files = spark.sql(f"SELECT readable_metrics FROM lake.db.{name}.files").collect()
        assert len(files) >= 8

        def of(column, value):
            metrics = [row.readable_metrics[column] for row in files]
            return sum(one.lower_bound <= value <= one.upper_bound for one in metrics) / len(files)

        customers = np.mean([of("customer", value) for value in range(-900, 1000, 100)])
        first = datetime.fromtimestamp(1700000000 - 800000, UTC).replace(tzinfo=None)
        return customers, np.mean([of("at", first + timedelta(days=day)) for day in range(18)])

    ours, theirs = opened("ours"), opened("theirs")
    assert sum(ours) < 1.2 * sum(theirs)
    assert max(ours) < 0.5
