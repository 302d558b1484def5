"""Who stood at a snapshot when it expired goes on as after Iceberg's own expiry: judged by Spark."""

from collections.abc import Callable
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from isotherm.clients.catalog import open_catalog
from isotherm.core.model.jobs import OutcomeKind
from isotherm.core.units import DAY_MS
from isotherm.iceberg.expiry import expire, read
from isotherm.runtime.clock import now_ms
from support.rewriting import fresh
from support.spark import CATALOG

pytestmark = pytest.mark.spark


def by_java(spark: Any, _: Any, name: str, going: list[int]) -> None:
    ids = ", ".join(map(str, going))
    spark.sql(f"CALL lake.system.expire_snapshots(table => '{name}', snapshot_ids => ARRAY({ids}))")


def by_isotherm(spark: Any, lake_folder: Any, name: str, going: list[int]) -> None:
    catalog = open_catalog(CATALOG, lake_folder.pyiceberg_properties, 60)
    table = catalog.load_table(name)
    later_ms = now_ms() + 3 * DAY_MS  # what is staged keeps its parent for a day
    reading = read(table, going, later_ms)
    done = expire(catalog, name, str(table.metadata.table_uuid), reading, "job", lambda _: None, later_ms)
    assert (done.outcome.kind, set(reading.snapshots)) == (OutcomeKind.DONE, set(going)), done
    spark.sql(f"REFRESH TABLE lake.{name}")


EXPIRIES = pytest.mark.parametrize("expiry", [by_java, by_isotherm])


def snapshots(spark: Any, name: str) -> list[int]:
    found = spark.sql(f"SELECT snapshot_id FROM lake.{name}.snapshots ORDER BY committed_at")
    return [row[0] for row in found.collect()]


@EXPIRIES
def test_readers_and_writers_that_stood_at_the_edge_go_on(
    spark: Any, lake_folder: Any, expiry: Callable[..., None]
) -> None:
    with fresh(spark, f"db.edge_{expiry.__name__}", "id BIGINT", "") as name:
        for number in range(5):
            spark.sql(f"INSERT INTO lake.{name} VALUES ({number})")
        known = snapshots(spark, name)
        expiry(spark, lake_folder, name, known[:2])
        assert snapshots(spark, name) == known[2:]

        came = spark.read.option("start-snapshot-id", known[1]).table(f"lake.{name}").collect()
        assert sorted(row[0] for row in came) == [2, 3, 4]
        # As MERGE, UPDATE and DELETE do.
        jvm = spark._jvm.org.apache.iceberg
        table = jvm.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, f"lake.{name}")
        changed = jvm.expressions.Expressions.alwaysFalse()
        overwrite = table.newOverwrite().validateFromSnapshot(known[1]).conflictDetectionFilter(changed)
        overwrite.validateNoConflictingData().validateNoConflictingDeletes().commit()


@EXPIRIES
def test_what_was_staged_on_an_expired_snapshot_is_not_published_a_second_time(
    spark: Any, lake_folder: Any, expiry: Callable[..., None]
) -> None:
    """A load that was staged, and done once more on `main`: its rows were there twice."""
    columns = "part INT, what STRING"
    with fresh(spark, f"db.staged_{expiry.__name__}", columns, "PARTITIONED BY (part)") as name:
        spark.sql(f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('write.wap.enabled'='true')")
        spark.sql(f"INSERT INTO lake.{name} VALUES (0, 'other')")
        spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
        try:
            spark.conf.set("spark.wap.id", f"load {name}")
            spark.sql(f"INSERT OVERWRITE lake.{name} VALUES (1, 'a row')")
            spark.conf.unset("spark.wap.id")
            spark.sql(f"INSERT OVERWRITE lake.{name} VALUES (1, 'a row')")
        finally:
            spark.conf.unset("spark.wap.id")
            spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
        base, staged, again = snapshots(spark, name)
        spark.sql(f"INSERT INTO lake.{name} VALUES (2, 'later')")
        expiry(spark, lake_folder, name, [base, again])

        with pytest.raises(Py4JJavaError, match="not based on an ancestor of the current state"):
            spark.sql(f"CALL lake.system.cherrypick_snapshot('{name}', {staged})")
        rows = spark.sql(f"SELECT what FROM lake.{name} WHERE part = 1").collect()
        assert [row[0] for row in rows] == ["a row"]
