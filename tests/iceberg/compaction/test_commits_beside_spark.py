"""What Spark does in other partitions while a compaction runs does not stop it."""

from collections.abc import Iterator
from typing import Any

import pytest

from isotherm.core.model.jobs import OutcomeKind
from support.rewriting import bound, commit, fresh, rewritten, rows
from support.two_partitions import OURS


@pytest.fixture
def spark_table(spark: Any) -> Iterator[str]:
    with fresh(spark, "db.races", "id BIGINT, part INT, text STRING", "PARTITIONED BY (part)") as name:
        for start in (0, 10, 20):
            spark.sql(
                f"INSERT INTO lake.{name} SELECT id, CAST(1 + id % 2 AS INT), concat('v', id) "
                f"FROM range({start}, {start + 10}, 1, 1)"
            )
        spark.sql(f"DELETE FROM lake.{name} WHERE id IN (4, 5, 14, 15)")
        yield name


BETWEEN = {
    "rewrite_manifests": "CALL lake.system.rewrite_manifests('{name}')",
    "rewrite_data_files elsewhere": (
        "CALL lake.system.rewrite_data_files(table => '{name}', where => 'part = 2', "
        "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true'))"
    ),
    "expire_snapshots": (
        "CALL lake.system.expire_snapshots(table => '{name}', older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
    ),
    "merge elsewhere": (
        "MERGE INTO lake.{name} t USING (SELECT id FROM range(0, 60)) s ON t.id = s.id AND t.part = 2 AND s.id % 2 = 1 "
        "WHEN MATCHED THEN UPDATE SET text = 'merged' WHEN NOT MATCHED AND s.id > 30 AND s.id % 2 = 1 "
        "THEN INSERT (id, part, text) VALUES (s.id, 2, 'new')"
    ),
}


@pytest.mark.spark
@pytest.mark.parametrize("what", BETWEEN)
def test_what_spark_does_elsewhere_does_not_stop_us(
    spark: Any, lake: Any, spark_table: str, what: str
) -> None:
    table = lake.load_table(spark_table)
    job = bound(table, OURS)
    assert job.delete_files
    rewrite = rewritten(table, job)
    if what == "expire_snapshots":
        spark.sql(f"INSERT INTO lake.{spark_table} VALUES (7, 2, 'x')")
    spark.sql(BETWEEN[what].format(name=spark_table))
    before = rows(spark, spark_table)

    outcome = commit(lake, job, rewrite)

    assert OutcomeKind.DONE is outcome.kind, outcome
    assert before == rows(spark, spark_table)
    assert (
        spark.sql(
            f"SELECT * FROM lake.{spark_table}.all_files WHERE partition.part = 1 AND file_path LIKE '%{job.job_id}-%'"
        )
        .select("file_path")
        .distinct()
        .count()
        == 1
    )
    assert spark.sql(f"SELECT * FROM lake.{spark_table}.files WHERE partition.part = 1").count() == 1
