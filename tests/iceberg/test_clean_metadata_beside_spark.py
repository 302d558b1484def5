"""Spark reads every snapshot after unused schemas and specs are gone, and goes on to evolve and write the table."""

import json
from pathlib import Path
from typing import Any

import pytest

from isotherm.clients.catalog import open_catalog
from isotherm.contract.paths import normalised
from support.evolved import cleaned, ids, nothing_is_missing
from support.spark import CATALOG

pytestmark = pytest.mark.spark

STEPS = (
    "INSERT INTO {} VALUES (1, 'a', 'x')",
    "ALTER TABLE {} ADD PARTITION FIELD bucket(2, id) AS by_id",
    "INSERT INTO {} VALUES (2, 'b', 'y')",
    "ALTER TABLE {} REPLACE PARTITION FIELD by_id WITH old AS by_old",
    "ALTER TABLE {} ADD COLUMN more INT",
    "INSERT INTO {} VALUES (3, 'c', 'z', 3)",
    "DELETE FROM {} WHERE id = 2",
    "ALTER TABLE {} DROP PARTITION FIELD by_old",
    "ALTER TABLE {} DROP COLUMN gone",
    "ALTER TABLE {} ALTER COLUMN more TYPE BIGINT",
    "ALTER TABLE {} ADD PARTITION FIELD truncate(2, old) AS by_start",
    "INSERT INTO {} VALUES (4, 'd', 4)",
    "INSERT OVERWRITE {} SELECT id, old, more FROM {}",
    "INSERT INTO {} VALUES (5, 'e', 5)",
)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_snapshot_reads_as_before_and_the_table_goes_on(
    spark: Any, lake_folder: Any, version: int
) -> None:
    name = f"db.evolving_{version}"
    in_spark, delete = f"lake.{name}", ", 'write.delete.mode'='merge-on-read'" if version > 1 else ""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    spark.sql(
        f"CREATE TABLE {in_spark} (id BIGINT, old STRING, gone STRING) USING iceberg "
        f"TBLPROPERTIES ('format-version'='{version}'{delete})"
    )
    for step in STEPS:
        spark.sql(step.replace("{}", in_spark))
    catalog = open_catalog(CATALOG, lake_folder.pyiceberg_properties, 60)
    table = catalog.load_table(name)
    known = [one.snapshot_id for one in table.metadata.snapshots]
    # Its spec and its schema stay with it, on a branch of its own.
    spark.sql(f"ALTER TABLE {in_spark} CREATE BRANCH aside AS OF VERSION {known[1]}")
    before, had = {one: read(spark, in_spark, one) for one in known}, ids(table)

    done = cleaned(catalog, table, [one for one in known[:-1] if one != known[1]])

    left = ids(table)
    assert (done.schemas, done.specs) == (len(had[0]) - len(left[0]), len(had[1]) - len(left[1]))
    assert min(done.schemas, done.specs) > 0, done.outcome.why
    assert [one.snapshot_id for one in table.metadata.snapshots] == [known[1], known[-1]]
    assert [before[one] for one in (known[1], known[-1])] == [
        read(spark, in_spark, one) for one in (known[1], known[-1])
    ]
    # No time in the metadata goes back: Java would not load it.
    assert times(table) == sorted(times(table))
    nothing_is_missing(table)
    go_on(spark, in_spark)
    nothing_is_missing(table)


def read(spark: Any, table: str, snapshot_id: int) -> list[str]:
    return sorted(spark.sql(f"SELECT * FROM {table} VERSION AS OF {snapshot_id}").toJSON().collect())


def times(table: Any) -> list[int]:
    said = json.loads(Path(normalised(table.metadata_location)).read_text())
    return [*(one["timestamp-ms"] for one in said["metadata-log"]), said["last-updated-ms"]]


def go_on(spark: Any, table: str) -> None:
    """A dropped column and a dropped field come back, and are others than before; jobs of Spark's own find no fault."""
    called = table.removeprefix("lake.")
    rows = spark.table(table).count()
    for step in (
        "ALTER TABLE {} ADD COLUMN gone STRING",
        "ALTER TABLE {} ADD PARTITION FIELD bucket(2, id) AS by_id_again",
        "INSERT INTO {} VALUES (6, 'f', 6, 'w')",
        "DELETE FROM {} WHERE id = 5",
        f"CALL lake.system.rewrite_data_files(table => '{called}', options => map('rewrite-all', 'true'))",
        "INSERT INTO {}.branch_aside VALUES (7, 'g', 7, 'v')",
        f"CALL lake.system.expire_snapshots(table => '{called}', older_than => now(), clean_expired_metadata => true)",
    ):
        spark.sql(step.replace("{}", table))

    assert spark.table(table).count() == rows
    assert [one[0] for one in spark.sql(f"SELECT gone FROM {table} WHERE gone IS NOT NULL").collect()] == [
        "w"
    ]
    assert spark.sql(f"SELECT * FROM {table}.branch_aside WHERE id = 7").count() == 1
