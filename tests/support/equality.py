"""Equality deletes as Flink and Kafka Connect write them: Spark reads them, and Iceberg's Java alone can commit them."""

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.jobs import Take
from support.rewriting import SOME

_numbers = itertools.count(1)


def keys(*fields: pa.Field | tuple[str, pa.DataType, int], rows: Any) -> pa.Table:
    """Rows of an equality-delete file; a column is (name, type, field id), or a field that has its ids."""
    made = [
        one
        if isinstance(one, pa.Field)
        else pa.field(one[0], one[1], metadata={"PARQUET:field_id": str(one[2])})
        for one in fields
    ]
    return pa.Table.from_pylist(
        [dict(zip([field.name for field in made], row, strict=True)) for row in rows], schema=pa.schema(made)
    )


def delete_by(
    spark: Any,
    name: str,
    folder: Path,
    table: pa.Table,
    ids: Any,
    partition: str | None = None,
    spec_id: int | None = None,
    *,
    with_bounds: bool = False,
    like: Any = None,
    catalog: str = "lake",
) -> None:
    """Commit these keys as equality deletes, in a partition by its path (`flag=true`), or in none; or beside a live file."""
    path = folder / f"equality-{next(_numbers)}.parquet"
    pq.write_table(table, path)
    jvm = spark.sparkContext._jvm
    java = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, f"{catalog}.{name}")
    of = spark.sparkContext._gateway.new_array(jvm.int, len(ids))
    for place, field_id in enumerate(ids):
        of[place] = field_id
    spec_id = spec_id if like is None else like.specId()
    spec = java.spec() if spec_id is None else java.specs().get(spec_id)
    builder = jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(spec).ofEqualityDeletes(of)
    builder = builder.withPath(f"file:{path}").withFormat("parquet").withRecordCount(table.num_rows)
    builder = builder.withFileSizeInBytes(path.stat().st_size)
    if with_bounds:
        every = jvm.org.apache.iceberg.MetricsConfig.getDefault()
        metrics = jvm.org.apache.iceberg.parquet.ParquetUtil.fileMetrics(
            java.io().newInputFile(f"file:{path}"), every
        )
        builder = builder.withMetrics(metrics)
    if partition is not None:
        builder = builder.withPartitionPath(partition)
    if like is not None:
        builder = builder.withPartition(like.partition())
    java.newRowDelta().addDeletes(builder.build()).commit()


EVEN, ODD, WHOLE = PartitionKey('{"1000":true}'), PartitionKey('{"1000":false}'), PartitionKey("{}")
APPLIED = Take(with_deletes=True)
CONVERTED = Take(merges_deletes=True, converts_equality=True)
ID = ("id", pa.int64(), 1)


def files(spark: Any, name: str) -> list[tuple[Any, ...]]:
    """Content and rows of the live files."""
    found = spark.sql(f"SELECT content, record_count FROM lake.{name}.files").collect()
    return sorted(tuple(row) for row in found)


def with_deletes_and_two_specs(spark: Any, name: str, folder: Path) -> None:
    """Fill a new table of rows with a flag: six appends with deletes of both kinds, then four by another spec."""
    for start in range(0, 60, 10):
        spark.sql(f"INSERT INTO lake.{name} " + SOME.format(start, start + 10))
        delete_by(spark, name, folder, keys(ID, rows=[(start - 9,), (start - 3,)]), [1], "flag=false")
        spark.sql(f"DELETE FROM lake.{name} WHERE id = {start + 5}")
    # A partition field more: manifests of two specs are never one.
    spark.sql(f"ALTER TABLE lake.{name} ADD PARTITION FIELD bucket(2, id)")
    for start in range(60, 100, 10):
        spark.sql(f"INSERT INTO lake.{name} " + SOME.format(start, start + 10))
