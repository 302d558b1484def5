"""Data files of one table, as the table asks for them; PyIceberg reads them back, and Iceberg's own JSON is the form."""

import json
import math
import random
import uuid
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.io.pyarrow import PyArrowFile, schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
)
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from isotherm.parquet.table_description import described, table_of
from isotherm_ingest.decode.debezium_messages import CHANGE, as_type
from isotherm_ingest.workers.files import files_of
from isotherm_ingest.workers.tasks import TableTask
from isotherm_ingest.workers.writing import write

COLUMNS = {
    "id": LongType(), "text": StringType(), "at": TimestamptzType(), "local": TimestampType(), "day": DateType(),
    "price": DecimalType(10, 2), "real": DoubleType(), "raw": BinaryType(), "token": UUIDType(),
}  # fmt: skip
SCHEMA = Schema(*(NestedField(place, name, kind) for place, (name, kind) in enumerate(COLUMNS.items(), 1)))
NAMES = list(COLUMNS)
ROW = {
    "id": 7, "text": "häß/=?", "at": datetime(2024, 5, 6, 7, 8, tzinfo=UTC), "local": datetime(2024, 5, 6, 7, 8),  # noqa: DTZ001 (that is the type)
    "day": date(1969, 12, 30), "price": Decimal("-1.50"), "real": 1.5, "raw": b"\x00\xff",
    "token": str(uuid.UUID(int=5)),
}  # fmt: skip


@pytest.fixture
def catalog(tmp_path):
    made = load_catalog(
        "lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    made.create_namespace("shop")
    return made


def spec(*fields):
    return PartitionSpec(
        *(
            PartitionField(NAMES.index(name) + 1, 1000 + place, transform, f"p{place}")
            for place, (name, transform) in enumerate(fields)
        )
    )


def task_of(table, **more):
    return TableTask("shop.orders", described(table.metadata), {}, tuple(NAMES), {}, **more)


def rows_of(*rows):
    schema = schema_to_pyarrow(SCHEMA, include_field_ids=False)
    columns = []
    for one in schema:
        plain = pa.string() if isinstance(one.type, pa.UuidType) else one.type
        columns.append(as_type(pa.array([row.get(one.name) for row in rows], plain), one.type))
    return pa.Table.from_arrays(columns, names=NAMES)


def read(files):
    return [
        row for one in files for row in pq.read_table(one["file-path"].removeprefix("file://")).to_pylist()
    ]


@pytest.mark.parametrize(
    ("fields", "values"),
    [
        ((("at", HourTransform()), ("text", TruncateTransform(2))), [476_383, "hä"]),
        ((("at", DayTransform()), ("price", IdentityTransform())), ["2024-05-06", "-1.50"]),
        ((("day", IdentityTransform()), ("local", MonthTransform())), ["1969-12-30", 652]),
        ((("at", IdentityTransform()),), ["2024-05-06T07:08:00+00:00"]),
        ((("local", IdentityTransform()),), ["2024-05-06T07:08:00"]),
        ((("raw", IdentityTransform()), ("token", IdentityTransform())), ["00ff", str(uuid.UUID(int=5))]),
        ((("real", IdentityTransform()), ("id", VoidTransform())), [1.5, None]),
        ((("raw", TruncateTransform(1)), ("id", TruncateTransform(5))), ["00", 5]),
        ((("text", IdentityTransform()), ("text", BucketTransform(4))), ["häß/=?", 0]),
    ],
)
def test_a_partition_is_told_as_iceberg_says_values(catalog, fields, values):
    table = catalog.create_table("shop.orders", SCHEMA, partition_spec=spec(*fields))
    (file,) = files_of(task_of(table), rows_of(ROW))

    assert json.loads(json.dumps(file))["partition"] == values
    assert (file["spec-id"], file["record-count"]) == (table.spec().spec_id, 1)


@pytest.mark.parametrize("name", ["id", "text", "at", "day", "price", "raw", "token"])
def test_a_bucket_is_the_one_that_iceberg_counts(catalog, name):
    table = catalog.create_table("shop.orders", SCHEMA, partition_spec=spec((name, BucketTransform(7))))
    (file,) = files_of(task_of(table), rows_of(ROW))
    value = uuid.UUID(ROW[name]) if name == "token" else ROW[name]

    assert file["partition"] == [BucketTransform(7).transform(COLUMNS[name])(value)]


def test_each_partition_is_one_file_whatever_its_value_is(catalog):
    """NaN equals nothing, null is no value, and neither they nor infinities are numbers of JSON."""
    table = catalog.create_table("shop.orders", SCHEMA, partition_spec=spec(("real", IdentityTransform())))
    values = [1.0, float("nan"), None, 1.0, float("nan"), None, -math.inf]
    files = files_of(
        task_of(table), rows_of(*({"id": place, "real": one} for place, one in enumerate(values)))
    )

    assert sorted((str(one["partition"][0]), one["record-count"]) for one in files) == [
        ("-inf", 1), ("1.0", 2), ("None", 2), ("nan", 2),
    ]  # fmt: skip
    assert sorted(row["id"] for row in read(files)) == list(range(7))


def test_statistics_are_those_of_the_rows(catalog):
    table = catalog.create_table("shop.orders", SCHEMA)
    (file,) = files_of(task_of(table), rows_of({**ROW, "id": 3}, {**ROW, "id": 500}, {**ROW, "id": None}))

    by_id = {name: dict(zip(file[name]["keys"], file[name]["values"], strict=True)) for name in
             ("value-counts", "null-value-counts", "lower-bounds", "upper-bounds")}  # fmt: skip
    assert (by_id["value-counts"][1], by_id["null-value-counts"][1]) == (3, 1)
    assert (by_id["lower-bounds"][1], by_id["upper-bounds"][1]) == ("0300000000000000", "F401000000000000")


def test_rows_are_sorted_as_asked_or_as_the_table_says(catalog):
    order = SortOrder(
        SortField(1, IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_FIRST), order_id=1
    )
    table = catalog.create_table("shop.orders", SCHEMA, sort_order=order)
    rows = rows_of(*({"id": one, "text": str(one)} for one in (2, None, 3, 1)))

    assert [row["id"] for row in read(files_of(task_of(table), rows))] == [None, 3, 2, 1]
    assert [row["text"] for row in read(files_of(task_of(table), rows, ["text"]))] == ["1", "2", "3", "None"]


def test_a_key_that_is_a_list_has_no_order(catalog):
    schema = Schema(NestedField(1, "tags", ListType(3, LongType(), False)), NestedField(2, "id", LongType()))
    table = catalog.create_table("shop.orders", schema)
    rows = pa.Table.from_pylist(
        [{"tags": [2], "id": 2}, {"tags": [3], "id": 1}], schema_to_pyarrow(schema, include_field_ids=False)
    )
    task = TableTask("shop.orders", described(table.metadata), {}, ("tags", "id"), {})

    assert [
        [row["id"] for row in read(files_of(task, rows, key))] for key in (("tags",), ("tags", "id"))
    ] == [
        [2, 1],
        [1, 2],
    ]


def test_files_lie_where_the_table_says_and_no_property_names_code(catalog):
    properties = {
        "write.object-storage.enabled": "true",
        "write.parquet.compression-codec": "GZIP",
    }
    table = catalog.create_table("shop.orders", SCHEMA, properties=properties)
    named = {**properties, "write.py-location-provider.impl": "no.such.code"}
    task = replace(
        task_of(table), description=described(table.metadata.model_copy(update={"properties": named}))
    )
    (file,) = files_of(task, rows_of(ROW))

    assert file["file-path"].startswith(f"{table.location()}/data/")
    assert (
        len(file["file-path"].removeprefix(f"{table.location()}/data/").split("/")) == 5
    )  # scattered by a hash
    footer = pq.read_metadata(file["file-path"].removeprefix("file://"))
    assert footer.row_group(0).column(0).compression == "GZIP"


def test_what_was_written_before_a_failure_is_deleted(catalog, tmp_path):
    required = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "text", StringType()))
    table = catalog.create_table(
        "shop.orders",
        required,
        partition_spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p")),
    )
    task = TableTask("shop.orders", described(table.metadata), {}, ("id", "text"), {})
    rows = pa.table({"id": pa.array([1, None]), "text": pa.array(["a", "b"], pa.large_string())})

    with pytest.raises(ValueError, match="id"):
        files_of(task, rows)
    assert list(tmp_path.rglob("*.parquet")) == []


def test_no_file_of_a_partition_is_left_by_one_that_fails(catalog, tmp_path, monkeypatch):
    """Neither those that were done, nor the one that was begun."""
    table = catalog.create_table(
        "shop.orders", SCHEMA, properties={"write.target-file-size-bytes": "1048576"}
    )
    rows = rows_of(*({"id": one, "text": random.Random(one).randbytes(160).hex()} for one in range(30_000)))
    begun = []

    def create(self, overwrite=False):
        begun.append(self.location)
        if len(begun) == 3:
            raise OSError("no space left")
        return real(self, overwrite)

    real = PyArrowFile.create
    monkeypatch.setattr(PyArrowFile, "create", create)
    with pytest.raises(OSError, match="no space left"):
        files_of(task_of(table), rows)
    assert len(begun) == 3
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_field_whose_column_is_gone_cuts_nothing(catalog):
    """In format 1 a field that is dropped stays, as one that is always null."""
    table = catalog.create_table("shop.orders", SCHEMA, partition_spec=spec(("id", VoidTransform())))
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("id")
    (file,) = files_of(task_of(table.refresh()), rows_of(ROW).drop_columns(["id"]))

    assert file["partition"] == [None]


def test_a_description_is_the_same_until_the_table_looks_otherwise(catalog):
    table = catalog.create_table("shop.orders", SCHEMA)
    before = described(table.metadata)
    table.append(pa.table({"id": [1]}, schema=pa.schema([("id", pa.int64())])))
    assert described(table.refresh().metadata) == before
    assert table_of(before).schema() == SCHEMA

    with table.update_schema() as update:
        update.add_column("more", StringType())
    assert described(table.refresh().metadata) != before


def test_names_that_files_spell_otherwise_lose_no_value(catalog):
    """A name with a space is another one in the file, at every depth."""
    inner = StructType(NestedField(3, "a b", ListType(4, StringType(), False), required=False))
    schema = Schema(NestedField(1, "the id", LongType()), NestedField(2, "nested", inner))
    table = catalog.create_table("shop.orders", schema)
    rows = pa.Table.from_pylist(
        [{"the id": 1, "nested": {"a b": ["x", None]}}, {"the id": None, "nested": None}],
        schema_to_pyarrow(schema, include_field_ids=False),
    )
    (file,) = files_of(
        TableTask("shop.orders", described(table.metadata), {}, ("the id", "nested"), {}), rows
    )

    assert read([file]) == [
        {"the_x20id": 1, "nested": {"a_x20b": ["x", None]}},
        {"the_x20id": None, "nested": None},
    ]


def test_large_tables_become_files_of_the_target_size(catalog):
    table = catalog.create_table(
        "shop.orders", SCHEMA, properties={"write.target-file-size-bytes": "1048576"}
    )
    dice = random.Random(7)
    rows = rows_of(*({"id": one, "text": dice.randbytes(80).hex()} for one in range(40_000)))
    files = files_of(task_of(table), rows)

    assert len(files) > 2
    assert all(500_000 < one["file-size-in-bytes"] < 1_500_000 for one in files)
    assert pc.sum(pa.array([one["record-count"] for one in files])).as_py() == 40_000


@pytest.mark.parametrize("said", ["1", "-1", "1048575"])
def test_a_table_has_no_file_and_no_row_group_for_each_row_whatever_its_owner_says(catalog, said):
    asked = {"write.target-file-size-bytes": said, "write.parquet.row-group-limit": "1"}
    table = catalog.create_table("shop.orders", SCHEMA, properties=asked)
    (file,) = files_of(task_of(table), rows_of(*({"id": one, "text": "x"} for one in range(2_500))))

    assert (file["record-count"], len(file["split-offsets"])) == (2_500, 3)


def test_a_changelog_says_of_each_change_what_it_was(catalog):
    """Its own columns too have the types of the table, and not those in which changes travel."""
    schema = Schema(
        NestedField(1, "id", LongType()), NestedField(2, "_op", StringType()), NestedField(3, "_topic", StringType()),
        NestedField(4, "_ts", TimestamptzType()), NestedField(5, "_topic_partition", IntegerType()),
        NestedField(6, "_offset", LongType()), NestedField(7, "_lsn", LongType()),
    )  # fmt: skip
    table = catalog.create_table("shop.log", schema)
    task = TableTask("shop.log", described(table.metadata), {}, tuple(one.name for one in schema.fields), {})
    row = pa.array([{"id": 1}, {"id": 2}], pa.struct([("id", pa.int64())]))
    change = pa.array(
        [("c", ROW["at"], 9, "shop", 3, place, None, None, None, False) for place in (7, 8)], CHANGE
    )
    lines = list(write(task, pa.table({"row": row, "change": change})))

    assert [tuple(found.values()) for found in read([one.data() for one in lines])] == [
        (1, "c", "shop", ROW["at"], 3, 7, 9),
        (2, "c", "shop", ROW["at"], 3, 8, 9),
    ]


@pytest.mark.parametrize("text", ["中" * 28, "a" * 5000, "x/" * 200, "中" * 1_000_000])
def test_a_text_of_any_length_is_a_partition(catalog, text):
    """No name of a folder on a disk has more than 255 bytes; what a folder is called means nothing."""
    table = catalog.create_table("shop.orders", SCHEMA, partition_spec=spec(("text", IdentityTransform())))
    long, like_it, other = text, text + "b", "short"

    files = files_of(task_of(table), rows_of(*(ROW | {"text": one} for one in (long, like_it, other))))

    assert [one["partition"] for one in files] == [[long], [like_it], [other]]
    assert [row["text"] for row in read(files)] == [long, like_it, other]
    folders = [one["file-path"].rpartition("/")[0] for one in files]
    assert len(set(folders)) == 3, "rows of two partitions lie apart"
    assert folders[2].endswith("/data/p0=short")


def test_partitions_of_many_texts_are_no_longer_than_a_key_of_s3(catalog):
    names = [f"c{number}" for number in range(9)]
    schema = Schema(*(NestedField(place, name, StringType()) for place, name in enumerate(names, 1)))
    fields = (PartitionField(one, 999 + one, IdentityTransform(), f"p{one}") for one in range(1, 10))
    table = catalog.create_table("shop.orders", schema, partition_spec=PartitionSpec(*fields))
    texts = {name: ["a" * 200, "a" * 199 + name] for name in names}
    rows = pa.table(texts, schema_to_pyarrow(schema, include_field_ids=False))

    task = TableTask("shop.orders", described(table.metadata), {}, tuple(names), {})
    files = [one["file-path"].partition("/data/")[2] for one in files_of(task, rows)]

    assert len({path.rpartition("/")[0] for path in files}) == 2
    assert max(map(len, files)) < 300
