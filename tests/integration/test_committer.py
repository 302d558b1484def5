"""A compaction seen by Spark: the same rows, a table that it goes on working with, and writers that lose nothing."""

from typing import Any

import pytest

pytest.importorskip("pyspark")

from integration.rewriting import (  # noqa: E402
    compact_all,
    fresh,
    partitions,
    rows,
)

pytestmark = pytest.mark.spark

COLUMNS = "id BIGINT, name STRING, amount DECIMAL(9,2), at TIMESTAMP, flag BOOLEAN"
SOME = "SELECT id, concat('n', id) AS name, CAST(id AS DECIMAL(9,2)) / 4 AS amount, timestamp_seconds(1700000000 + id * 7200) AS at, id % 2 = 0 AS flag FROM range({}, {})"


def filled(spark: Any, name: str, batches: int = 4, size: int = 30) -> None:
    for number in range(batches):
        spark.sql(f"INSERT INTO lake.{name} " + SOME.format(number * size, (number + 1) * size))


SPECS = [
    "",
    "PARTITIONED BY (days(at))",
    "PARTITIONED BY (hours(at))",
    "PARTITIONED BY (bucket(3, id))",
    "PARTITIONED BY (truncate(2, name))",
    "PARTITIONED BY (flag, months(at))",
    "PARTITIONED BY (amount)",
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.removeprefix("PARTITIONED BY ") or "unpartitioned")
def test_spark_reads_the_same_rows_and_goes_on(spark: Any, lake: Any, spec: str) -> None:
    size = 8 if "amount" in spec or "hours" in spec else 30
    with fresh(spark, "db.same", COLUMNS, spec) as name:
        filled(spark, name, size=size)
        spark.sql(f"INSERT INTO lake.{name} VALUES (NULL, NULL, NULL, NULL, NULL), (NULL, NULL, NULL, NULL, NULL)")
        spark.sql(f"MERGE INTO lake.{name} t USING (SELECT id FROM range(0, 100, 5)) s ON t.id = s.id WHEN MATCHED AND t.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET name = 'changed'")
        before = rows(spark, name)
        base = lake.load_table(name).metadata.current_snapshot_id

        outcomes = compact_all(lake, name)

        assert outcomes
        assert before == rows(spark, name)
        assert before == rows(spark, name, base)
        print(spec, len(partitions(lake.load_table(name))), len(outcomes))
