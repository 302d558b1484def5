"""Spark reads a table whose manifests we have rewritten as before, and goes on."""

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.manifest import ManifestContent

from isotherm.clients.catalog import open_catalog
from isotherm.core.model.jobs import OutcomeKind
from support.equality import with_deletes_and_two_specs
from support.head_files import manifests
from support.manifests_of_commits import rewrite
from support.rewriting import COLUMNS, compacted, counters, fresh, job_on, partitions, rows
from support.spark import CATALOG


@pytest.mark.spark
@pytest.mark.parametrize("version", [2, 3])
def test_spark_reads_the_same_rows_at_every_snapshot_and_goes_on(
    spark: Any, lake_folder: Any, tmp_path: Path, version: int
) -> None:
    lake = open_catalog(CATALOG, lake_folder.pyiceberg_properties, 60)
    with fresh(spark, f"db.fewer{version}", COLUMNS, "PARTITIONED BY (flag)") as name:
        spark.sql(
            f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('format-version' = '{version}', "
            "'commit.manifest-merge.enabled' = 'false', 'write.delete.mode' = 'merge-on-read')"
        )
        with_deletes_and_two_specs(spark, name, tmp_path)
        snapshots = [row[0] for row in spark.sql(f"SELECT snapshot_id FROM lake.{name}.snapshots").collect()]
        before = {one: rows(spark, name, one) for one in snapshots}
        lineage, counted = _lineage(spark, name, version), counters(spark, name)
        table = lake.load_table(name)

        outcome = rewrite(lake, job_on(table))

        assert outcome.kind is OutcomeKind.DONE, outcome
        assert "not merged" not in outcome.why, outcome.why
        kinds = [(one.content, one.partition_spec_id) for one in manifests(table)]
        assert sorted(kinds) == [
            (ManifestContent.DATA, 0),
            (ManifestContent.DATA, 1),
            (ManifestContent.DELETES, 0),
        ]
        assert {one: rows(spark, name, one) for one in snapshots} == before
        assert rows(spark, name) == before[snapshots[-1]]
        assert _lineage(spark, name, version) == lineage
        assert counters(spark, name) == counted
        # Whoever deletes and merges next finds its rows.
        kept = len(rows(spark, name))
        spark.sql(f"DELETE FROM lake.{name} WHERE id IN (0, 11, 61)")
        assert kept - len(rows(spark, name)) in (2, 3)
        spark.sql(f"CALL lake.system.rewrite_manifests('{name}')")
        assert rows(spark, name, snapshots[-1]) == before[snapshots[-1]]


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["DECIMAL(9,2)", "STRING"])
def test_two_partition_fields_of_one_type_are_read_by_everybody(
    spark: Any, lake_folder: Any, kind: str
) -> None:
    """Java explains a type of Avro once and names it after that, and reads nothing else."""
    lake = open_catalog(CATALOG, lake_folder.pyiceberg_properties, 60)
    with fresh(spark, "db.twice", f"id BIGINT, a {kind}, b {kind}", "PARTITIONED BY (a, b)") as name:
        for start in range(0, 40, 10):
            spark.sql(
                f"INSERT INTO lake.{name} SELECT id, CAST(1 AS {kind}), CAST(2 AS {kind}) FROM range({start}, {start + 10}, 1, 1)"
            )
        before = rows(spark, name)
        table = lake.load_table(name)
        (key,) = partitions(table)

        assert rewrite(lake, job_on(table)).kind is OutcomeKind.DONE
        assert rows(spark, name) == before
        assert len(manifests(table)) == 1
        assert compacted(lake, name, key).kind is OutcomeKind.DONE
        spark.sql(f"REFRESH TABLE lake.{name}")
        assert rows(spark, name) == before
        spark.sql(f"CALL lake.system.rewrite_manifests('{name}')")
        assert len(spark.sql(f"SELECT * FROM lake.{name} WHERE a = 1 AND b = 2").collect()) == len(before)


def _lineage(spark: Any, name: str, version: int) -> list[Any]:
    if version == 2:
        return []
    found = spark.sql(f"SELECT id, _row_id, _last_updated_sequence_number FROM lake.{name} ORDER BY id, 2")
    return [tuple(row) for row in found.collect()]
