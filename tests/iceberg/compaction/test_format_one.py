"""Tables of format version 1: no sequence numbers, no deletes; compacted and expired like all others, and read by Spark."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.jobs import NOTHING_WRITTEN, OutcomeKind
from isotherm.core.model.refusals import Reason
from isotherm.iceberg.compaction.committer import commit_manifests
from isotherm.iceberg.expiry import expire, read
from isotherm.runtime.clock import now_ms
from support.head_files import live
from support.rewriting import (
    NOW_MS,
    bound,
    commit,
    compact_all,
    compacted,
    counters,
    job_on,
    of_each,
    rewritten,
    rows,
    swept,
)

pytestmark = pytest.mark.spark

ONE = PartitionKey('{"1000":1}')
COLUMNS = "id BIGINT, part INT, text STRING"


@contextmanager
def table(spark: Any, name: str, files: int = 3) -> Iterator[str]:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    spark.sql(f"DROP TABLE IF EXISTS lake.{name}")
    spark.sql(
        f"CREATE TABLE lake.{name} ({COLUMNS}) USING iceberg PARTITIONED BY (part) "
        "TBLPROPERTIES ('format-version'='1', 'write.distribution-mode'='none')"
    )
    for start in range(0, files * 10, 10):
        fill(spark, name, start)
    yield name


def fill(spark: Any, name: str, start: int) -> None:
    spark.sql(
        f"INSERT INTO lake.{name} SELECT id, CAST(id % 2 AS INT), concat('n', id) FROM range({start}, {start + 10}, 1, 1)"
    )


def snapshots(spark: Any, name: str) -> list[int]:
    return [row[0] for row in spark.sql(f"SELECT snapshot_id FROM lake.{name}.snapshots").collect()]


def test_rows_are_the_same_at_every_snapshot_and_spark_goes_on(spark: Any, lake: Any) -> None:
    with table(spark, "db.one") as name:
        # A field of a spec stays in version 1 (`void`), and a column is renamed.
        spark.sql(f"ALTER TABLE lake.{name} ADD PARTITION FIELD bucket(2, id)")
        spark.sql(f"ALTER TABLE lake.{name} RENAME COLUMN text TO said")
        for start in (30, 40):
            fill(spark, name, start)
        spark.sql(f"ALTER TABLE lake.{name} DROP PARTITION FIELD part")
        for start in (50, 60):
            fill(spark, name, start)
        known = snapshots(spark, name)
        before = {one: rows(spark, name, one) for one in known}
        files = lake.load_table(name).inspect.files().num_rows

        outcomes = compact_all(lake, name)

        assert {one.kind for one in outcomes} == {OutcomeKind.DONE}
        assert lake.load_table(name).inspect.files().num_rows < files
        assert lake.load_table(name).metadata.format_version == 1
        spark.sql(f"REFRESH TABLE lake.{name}")
        assert {one: rows(spark, name, one) for one in known} == before
        assert rows(spark, name) == before[known[-1]]
        said, found = counters(spark, name)
        assert found == said
        # Whoever writes, deletes, rewrites or upgrades next finds everything.
        spark.sql(f"DELETE FROM lake.{name} WHERE id IN (1, 41, 62)")
        fill(spark, name, 70)
        spark.sql(
            f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
        )
        spark.sql(f"CALL lake.system.rewrite_manifests('{name}')")
        assert len(rows(spark, name)) == 77
        assert rows(spark, name, known[-1]) == before[known[-1]]


def test_a_table_that_is_upgraded_meanwhile_has_its_rows(spark: Any, lake: Any) -> None:
    """Deletes that come after the upgrade have a number, and apply to all that had none."""
    with table(spark, "db.upgraded") as name:
        found = lake.load_table(name)
        job = bound(found, ONE)
        rewrite = rewritten(found, job)
        spark.sql(
            f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
        )
        before = rows(spark, name)

        assert commit(lake, job, rewrite).kind is OutcomeKind.DONE

        assert rows(spark, name) == before
        spark.sql(f"DELETE FROM lake.{name} WHERE id IN (1, 3, 4)")
        assert len(rows(spark, name)) == len(before) - 3
        left = rows(spark, name)
        assert compacted(lake, name, ONE).kind is OutcomeKind.DONE
        assert rows(spark, name) == left


@pytest.mark.parametrize("what", ["files", "manifests"])
def test_a_table_that_is_upgraded_in_the_race_is_read_and_written_by_spark(
    spark: Any, lake: Any, what: str
) -> None:
    """What was written before it names no sequence numbers, without which Spark reads nothing of such a table."""
    with table(spark, "db.upgraded_late") as name:
        found, times = lake.load_table(name), list[int]()
        job = bound(found, ONE) if what == "files" else job_on(found)
        written = rewritten(found, job) if what == "files" else NOTHING_WRITTEN
        before = rows(spark, name)

        def upgraded(_: Any) -> None:
            if not times:
                times.append(1)
                spark.sql(
                    f"ALTER TABLE lake.{name} SET TBLPROPERTIES "
                    "('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
                )

        if what == "files":
            outcome = commit(lake, job, written, upgraded)
        else:
            outcome = commit_manifests(lake, job, of_each(upgraded), NOW_MS, pause=lambda _: None)

        assert outcome.kind is OutcomeKind.DONE, outcome
        spark.sql(f"REFRESH TABLE lake.{name}")
        assert rows(spark, name) == before
        fill(spark, name, 90)
        spark.sql(f"DELETE FROM lake.{name} WHERE id IN (1, 4, 95)")
        assert len(rows(spark, name)) == len(before) + 7
        spark.sql(f"CALL lake.system.rewrite_manifests('{name}')")
        assert len(rows(spark, name)) == len(before) + 7


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("INSERT INTO lake.{name} VALUES (101, 1, 'x')", OutcomeKind.FAILED),
        ("INSERT INTO lake.{name} VALUES (100, 0, 'x')", OutcomeKind.DONE),
        ("DELETE FROM lake.{name} WHERE id = 3", OutcomeKind.FAILED),
        ("DELETE FROM lake.{name} WHERE id = 4", OutcomeKind.DONE),
        ("INSERT OVERWRITE lake.{name} VALUES (1, 1, 'x')", OutcomeKind.FAILED),
        (
            "CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))",
            OutcomeKind.FAILED,
        ),
        ("CALL lake.system.rewrite_manifests('{name}')", OutcomeKind.DONE),
        (
            "CALL lake.system.expire_snapshots(table => '{name}', older_than => TIMESTAMP '2100-01-01', retain_last => 1)",
            OutcomeKind.DONE,
        ),
    ],
)
def test_what_comes_meanwhile_goes_first(spark: Any, lake: Any, statement: str, kind: OutcomeKind) -> None:
    with table(spark, "db.race_one") as name:
        found = lake.load_table(name)
        job = bound(found, ONE)
        rewrite = rewritten(found, job)
        spark.sql(statement.format(name=name))
        before = rows(spark, name)

        outcome = commit(lake, job, rewrite)

        assert outcome.kind is kind, outcome
        assert rows(spark, name) == before


def test_what_a_failed_job_left_goes_only_after_all_was_read(spark: Any, lake: Any) -> None:
    with table(spark, "db.left_one") as name:
        found = lake.load_table(name)
        job = bound(found, ONE)
        rewrite = rewritten(found, job)
        fill(spark, name, 90)
        before = rows(spark, name)

        outcome = commit(lake, job, rewrite)

        assert outcome.reason is Reason.CONFLICT
        gone = swept(lake.load_table(name), job, outcome)
        assert {file.path for file in rewrite.files} <= set(gone.gone)
        assert rows(spark, name) == before


def test_snapshots_expire_and_what_stays_reads_the_same(spark: Any, lake: Any) -> None:
    with table(spark, "db.expired_one") as name:
        assert compacted(lake, name, ONE).kind is OutcomeKind.DONE
        fill(spark, name, 90)
        known = snapshots(spark, name)
        before = {one: rows(spark, name, one) for one in known[-2:]}
        found = lake.load_table(name)
        files = live(found)

        reading = read(found, known[:-2], now_ms())
        uuid = str(found.metadata.table_uuid)
        done = expire(lake, name, uuid, reading, "job", lambda _: None, now_ms())

        assert done.outcome.kind is OutcomeKind.DONE
        assert not set(reading.files) & set(files)
        spark.sql(f"REFRESH TABLE lake.{name}")
        assert {one: rows(spark, name, one) for one in snapshots(spark, name)} == before
