"""Spark reads what was copied of its files: all rows, those that a filter leaves, and those that it has deleted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from isotherm.contract.identity import UNPARTITIONED
from isotherm.contract.paths import normalised
from isotherm.core.model.jobs import OutcomeKind, Rewrite, Take, WrittenFile
from isotherm.iceberg.compaction.process_executor import LocalExecutor
from isotherm.iceberg.compaction.proof import mismatch
from isotherm.parquet.table_description import described
from support.parquet_files import local
from support.rewriting import bound, commit, fresh, rewritten, rows

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


EVERY_TYPE = (
    "id BIGINT, s STRING, long STRING, d DECIMAL(9,2), d38 DECIMAL(38,5), f FLOAT, db DOUBLE, dt DATE, "
    "at TIMESTAMP, tn TIMESTAMP_NTZ, b BOOLEAN, raw BINARY, i INT, st STRUCT<x: INT, y: STRING>, "
    "list ARRAY<STRING>, map MAP<STRING, DOUBLE>, deep STRUCT<p: STRUCT<q: BIGINT>>"
)
ODD_ROWS = (
    "SELECT id, IF(id % 7 = 0, NULL, concat('n', id % 50)) AS s, "
    "IF(id % 9 = 0, NULL, repeat(concat('m', id % 5), 100)) AS long, "
    "IF(id % 5 = 0, NULL, CAST((id - 2000) / 100 AS DECIMAL(9,2))) AS d, "
    "CAST(-id * 12345678901 AS DECIMAL(38,5)) AS d38, "
    "IF(id % 11 = 0, NULL, CAST(id AS FLOAT) - 3000) AS f, "
    "IF(id % 13 = 0, -0.0D, CAST(id AS DOUBLE)) AS db, date_add(DATE'1969-12-01', CAST(id AS INT)) AS dt, "
    "timestamp_seconds(id * 1000 - 999999) AS at, CAST(timestamp_seconds(id * 1000) AS TIMESTAMP_NTZ) AS tn, "
    "id % 2 = 0 AS b, IF(id % 3 = 0, NULL, encode(concat('r', id), 'UTF-8')) AS raw, CAST(id AS INT) AS i, "
    "IF(id % 4 = 0, NULL, named_struct('x', IF(id % 5 = 0, NULL, CAST(id AS INT)), 'y', concat('y', id))) AS st, "
    "IF(id % 6 = 0, NULL, array('a', NULL, concat('e', id))) AS list, "
    "IF(id % 8 = 0, NULL, map('k', CAST(id AS DOUBLE))) AS map, "
    "IF(id % 10 = 0, NULL, named_struct('p', IF(id % 3 = 0, NULL, named_struct('q', id)))) AS deep "
    "FROM range({}, {}, 1, 1)"
)
ODD_FILTERS = (
    *("s = 'n17'", "s IS NULL", "long IS NULL", "long > 'm3'", "d < -10.50", "d38 > -100000", "f = 'NaN'"),
    *("f < -2900", "db = 0.0", "db = -0.0", "dt < DATE'1970-01-05'", "at < TIMESTAMP'1970-01-01'", "b"),
    *("raw IS NULL", "raw = encode('r100', 'UTF-8')", "i = 777", "st.x = 77", "st.x IS NULL"),
    *("st.y = 'y99'", "list[2] = 'e55'", "map['k'] = 33", "deep.p.q IS NULL", "deep.p.q = 70"),
    *("id BETWEEN 1990 AND 2010", "id = 3456"),
)
FILTERED = "write.parquet.bloom-filter-enabled.column."
GROUPS = "write.parquet.row-group-"
LAYOUTS = {
    "as they come": {},
    "many pages": {"write.parquet.page-row-limit": "100"},
    "many row groups": {
        f"{GROUPS}size-bytes": "100000",
        f"{GROUPS}check-min-record-count": "100",
        f"{GROUPS}check-max-record-count": "200",
    },
    "a Bloom filter": {f"{FILTERED}id": "true", "write.parquet.page-row-limit": "100"},
    "a Bloom filter that Spark leaves out": {f"{FILTERED}id": "true", f"{FILTERED}s": "true"},
}


@pytest.mark.usefixtures("small_groups_are_worth_it")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_files_of_any_layout_and_type_have_the_same_rows_and_filters_find_them(
    spark: Any, lake: Any, layout: str
) -> None:
    with fresh(spark, "db.layouts", EVERY_TYPE) as name:
        for key, value in LAYOUTS[layout].items():
            spark.sql(f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('{key}' = '{value}')")
        for first in range(0, 4000, 1000):
            spark.sql(f"INSERT INTO lake.{name} {ODD_ROWS.format(first, first + 1000)}")
        before = rows(spark, name), found_by_filters(spark, name)
        sources = bound(lake.load_table(name), UNPARTITIONED).data_files
        groups = sum(pq.read_metadata(normalised(one.path)).num_row_groups for one in sources)

        file = merged(spark, lake, name)

        assert before == (rows(spark, name), found_by_filters(spark, name))
        footer = pq.read_metadata(local(file))
        is_copied = layout != "a Bloom filter that Spark leaves out"
        assert footer.created_by.startswith("parquet-mr") == is_copied
        if is_copied:
            assert footer.num_row_groups == groups

        # A copy of copies, beside one of the new schema.
        for change in (
            *("RENAME COLUMN s TO t", "ADD COLUMN s STRING", "ALTER COLUMN i TYPE BIGINT"),
            *("DROP COLUMN d", "ADD COLUMN d DECIMAL(9,2)"),
        ):
            spark.sql(f"ALTER TABLE lake.{name} {change}")
        spark.sql(f"INSERT INTO lake.{name} SELECT * FROM lake.{name} WHERE id < 50")
        changed = rows(spark, name)

        merged(spark, lake, name)

        assert changed == rows(spark, name)


def found_by_filters(spark: Any, name: str) -> dict[str, Any]:
    return {
        condition: spark.sql(f"SELECT count(*), sum(id) FROM lake.{name} WHERE {condition}").first()
        for condition in ODD_FILTERS
    }


def merged(spark: Any, lake: Any, name: str) -> WrittenFile:
    """What a job makes of all files."""
    table = lake.load_table(name)
    job = bound(table, UNPARTITIONED, take=Take(10**9))
    result = rewritten(table, job)
    assert mismatch(job, result) is None
    assert commit(lake, job, result).kind is OutcomeKind.DONE
    spark.sql(f"REFRESH TABLE lake.{name}")
    (file,) = result.files
    return file
