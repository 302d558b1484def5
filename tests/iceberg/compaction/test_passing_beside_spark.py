"""Spark reads what was copied of its files: all rows, those that a filter leaves, and those that it has deleted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from isotherm.contract.identity import UNPARTITIONED
from isotherm.core.model.jobs import OutcomeKind, Rewrite
from isotherm.iceberg.compaction.process_executor import LocalExecutor
from isotherm.iceberg.compaction.proof import mismatch
from isotherm.parquet.table_description import described
from support.parquet_files import local
from support.rewriting import bound, commit, fresh

pytestmark = pytest.mark.spark

COLUMNS = (
    "id BIGINT, chance DOUBLE, key STRING, at TIMESTAMP, amount DECIMAL(12,2), list ARRAY<BIGINT>, "
    "inner STRUCT<a: INT, b: STRING>, map MAP<STRING, INT>"
)
ROWS = (
    "SELECT id, rand({0}) AS chance, "
    "concat('k', hex(CAST(rand({0}) * 4e9 AS BIGINT))) AS key, timestamp_seconds(1700000000 + id) AS at, "
    "CAST(id % 77777 AS DECIMAL(12,2)) AS amount, IF(id % 3 = 0, NULL, array(id, NULL)) AS list, "
    "named_struct('a', CAST(id % 9 AS INT), 'b', 'x') AS inner, map('m', CAST(id % 5 AS INT)) AS map "
    "FROM range({0}, {1}, 1, 1)"
)
EACH, FILES = 500_000, 3
QUESTIONS = (
    "count(*), sum(hash(id, chance, key, at, amount, list, inner, map_entries(map))), count(list), sum(inner.a), sum(map['m'])",
    "min(id), max(id), min(at), max(amount), min(key), max(key)",
)
FILTERS = (
    "true",
    "id BETWEEN 700000 AND 700100",
    "id = 1234567",
    "chance > 0.999",
    "isnan(chance)",
    "key = 'none'",
)


@pytest.fixture
def table(spark: Any) -> Iterator[str]:
    with fresh(spark, "db.passing", COLUMNS) as name:
        spark.sql(
            f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('write.parquet.bloom-filter-enabled.column.id'='true', "
            "'write.parquet.bloom-filter-max-bytes'='100000')"
        )
        for number in range(FILES):
            spark.sql(f"INSERT INTO lake.{name} {ROWS.format(number * EACH, (number + 1) * EACH)}")
        yield name


def answers(spark: Any, name: str) -> list[str]:
    return [
        str(spark.sql(f"SELECT {question} FROM lake.{name} WHERE {condition}").collect())
        for question in QUESTIONS
        for condition in FILTERS
    ]


def test_spark_reads_the_same_rows_of_copies_of_its_files(spark: Any, lake: Any, table: str) -> None:
    before = answers(spark, table)
    loaded = lake.load_table(table)
    job = bound(loaded, UNPARTITIONED)
    assert FILES == len(job.data_files)
    assert min(file.size_bytes for file in job.data_files) > 8 * 2**20
    executor = LocalExecutor()
    executor.start(job, described(loaded.metadata), lake.properties)
    executor.wait(120)
    ((_, result),) = executor.poll()
    executor.stop()
    assert isinstance(result, Rewrite), result

    assert mismatch(job, result) is None
    (file,) = result.files
    footer = pq.read_metadata(local(file))
    assert footer.created_by.startswith("parquet-mr")
    assert footer.num_row_groups == FILES
    chunk = footer.row_group(2).column(0)
    assert (True, True) == (chunk.has_offset_index, chunk.has_column_index)
    assert chunk.bloom_filter_offset > 0
    assert {1, 2, 3, 4, 5} <= file.lower_bounds.keys()
    assert 0 == file.nan_value_counts[2]
    assert pq.read_table(local(file), page_checksum_verification=True).num_rows == FILES * EACH
    outcome = commit(lake, job, result)
    assert OutcomeKind.DONE is outcome.kind, outcome
    spark.sql(f"REFRESH TABLE lake.{table}")
    assert before == answers(spark, table)
    files = spark.sql(
        f"SELECT file_path, record_count, readable_metrics.id FROM lake.{table}.files"
    ).collect()
    assert [(file.path, FILES * EACH)] == [(one.file_path, one.record_count) for one in files]
    # Spark's own deletes name rows of it by their positions.
    spark.sql(f"DELETE FROM lake.{table} WHERE id IN (0, 777777, 1499999)")
    assert FILES * EACH - 3 == spark.sql(f"SELECT id FROM lake.{table}").count()
    assert Path(local(file)).stat().st_size == file.size_bytes
