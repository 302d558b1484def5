"""Rows that have a value by their column's default alone have it after a compaction too. Spark is the judge."""

import uuid
from datetime import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
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
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from isotherm.clients.catalog import open_catalog
from isotherm.contract.identity import UNPARTITIONED
from isotherm.contract.paths import normalised
from isotherm.core.model.jobs import OutcomeKind, Take
from support.equality import delete_by, keys
from support.rewriting import compacted, rows
from support.spark import CATALOG

DEFAULTS: dict[str, tuple[IcebergType, Any]] = {
    "flag": (BooleanType(), True),
    "small": (IntegerType(), -7),
    "large": (LongType(), 2**40),
    "half": (FloatType(), 0.5),
    "third": (DoubleType(), 1 / 3),
    "price": (DecimalType(9, 2), Decimal("12.50")),
    "day": (DateType(), "2026-02-28"),
    "at": (TimestampType(), "2026-02-28T10:00:00.123456"),
    "since": (TimestamptzType(), "2026-02-28T10:00:00.123456+00:00"),
    "country": (StringType(), 'DE\'s "finest"'),
    "blob": (BinaryType(), b"\x00\xff"),
    "tiny": (DecimalType(18, 8), Decimal("0.00000000")),
}
NOT_BESIDE_SPARK: dict[str, tuple[IcebergType, Any]] = {
    "hour": (TimeType(), "10:30:00"),
    "key": (UUIDType(), uuid.UUID(int=7)),
    "four": (FixedType(4), b"abcd"),
}


@pytest.fixture(scope="module")
def catalog(lake_folder: Any) -> Any:
    return open_catalog(CATALOG, lake_folder.pyiceberg_properties, 60)


def table(spark: Any, version: int) -> str:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    spark.sql("DROP TABLE IF EXISTS lake.db.defaults")
    spark.sql(
        "CREATE TABLE lake.db.defaults (id BIGINT, point STRUCT<x: INT>, points ARRAY<STRUCT<x: INT>>) USING iceberg "
        f"TBLPROPERTIES ('format-version'='{version}')"
    )
    for values in ("(1, named_struct('x', 1), array(named_struct('x', 2), NULL))", "(2, NULL, NULL)"):
        spark.sql(f"INSERT INTO lake.db.defaults VALUES {values}")
    return "db.defaults"


@pytest.mark.spark
@pytest.mark.parametrize("version", [2, 3])
def test_what_a_file_lacks_is_written(spark: Any, catalog: Any, version: int) -> None:
    """PyIceberg adds such columns to tables of version 2 as well, and Spark reads them there."""
    name = table(spark, version)
    with catalog.load_table(name).update_schema() as change:
        for column, (kind, value) in DEFAULTS.items():
            change.add_column(column, kind, default_value=value)
        change.add_column(("point", "y"), StringType(), default_value="north")
        change.add_column(("points", "element", "y"), IntegerType(), default_value=9)
    spark.sql(f"REFRESH TABLE lake.{name}")
    columns = ", ".join("NULL" for _ in DEFAULTS)
    spark.sql(
        f"INSERT INTO lake.{name} VALUES (3, named_struct('x', 1, 'y', 'south'), array(named_struct('x', 1, 'y', NULL)), {columns})"
    )
    before = rows(spark, name)
    assert sum("north" in row for row in before) == 1

    outcome = compacted(catalog, name, UNPARTITIONED)

    assert outcome.kind is OutcomeKind.DONE, outcome.why
    assert rows(spark, name) == before
    assert spark.sql(f"SELECT * FROM lake.{name}.files").count() == 1


@pytest.mark.parametrize("column", NOT_BESIDE_SPARK)
def test_defaults_of_types_that_spark_does_not_know(empty_catalog: Any, column: str) -> None:
    kind, value = NOT_BESIDE_SPARK[column]
    schema = Schema(NestedField(1, "id", LongType(), required=False))
    made = empty_catalog.create_table("db.t", schema, properties={"format-version": "2"})
    for number in range(2):
        made.append(pa.table({"id": [number]}, schema=pa.schema([("id", pa.int64())])))
    with made.update_schema() as change:
        change.add_column(column, kind, default_value=value)

    assert compacted(empty_catalog, "db.t", UNPARTITIONED).kind is OutcomeKind.DONE

    (task,) = made.refresh().scan().plan_files()
    written = pq.ParquetFile(normalised(task.file.file_path)).read().column(column).to_pylist()
    assert written == [time(10, 30) if column == "hour" else value] * 2


@pytest.mark.spark
def test_deletes_name_rows_by_a_default(spark: Any, catalog: Any, tmp_path: Path) -> None:
    name = table(spark, 2)
    with catalog.load_table(name).update_schema() as change:
        change.add_column("country", StringType(), default_value="DE")
    spark.sql(f"REFRESH TABLE lake.{name}")
    field_id = catalog.load_table(name).schema().find_field("country").field_id
    spark.sql(
        f"INSERT INTO lake.{name} VALUES (3, NULL, NULL, 'FR'), (4, NULL, NULL, 'DE'), (5, NULL, NULL, NULL)"
    )
    delete_by(spark, name, tmp_path, keys(("country", pa.string(), field_id), rows=[("DE",)]), [field_id])
    before = rows(spark, name)
    assert len(before) == 2

    outcome = compacted(catalog, name, UNPARTITIONED, take=Take(with_deletes=True))

    assert outcome.kind is OutcomeKind.DONE, outcome.why
    assert rows(spark, name) == before
