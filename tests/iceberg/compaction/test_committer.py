"""A compaction as Spark sees it: the same rows, true counters, and a table that it goes on working with."""

from typing import Any

import pyarrow.compute as pc
import pytest

from isotherm.contract.identity import PartitionKey
from isotherm.contract.summary import JOB_ID, POLICY_HASH
from isotherm.core.model.jobs import OutcomeKind, Take
from support.rewriting import (
    COLUMNS,
    SOME,
    compact_all,
    compacted,
    counters,
    fresh,
    partitions,
    rows,
    try_to_bind,
)

pytestmark = pytest.mark.spark

MERGE = """
    MERGE INTO lake.{} t USING (SELECT explode(sequence({}, 60, {})) AS id) s ON t.id = s.id
    WHEN MATCHED AND t.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET name = 'changed'
    WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'late')
"""
SPECS = {
    "unpartitioned": "",
    "days": "PARTITIONED BY (days(at))",
    "hours": "PARTITIONED BY (hours(at))",
    "bucket": "PARTITIONED BY (bucket(3, id))",
    "truncate": "PARTITIONED BY (truncate(1, name), months(at))",
    "identity": "PARTITIONED BY (amount)",
}


def filled(spark: Any, name: str) -> None:
    for start in (0, 20, 40):
        spark.sql(f"INSERT INTO lake.{name} " + SOME.format(start, start + 20))
    spark.sql(f"INSERT INTO lake.{name} VALUES (NULL, NULL, NULL, NULL, NULL), (NULL, 'x', NULL, NULL, NULL)")
    spark.sql(MERGE.format(name, 0, 5))


@pytest.mark.parametrize("spec", SPECS)
def test_spark_reads_the_same_rows_and_goes_on(spark: Any, lake: Any, spec: str) -> None:
    with fresh(spark, "db.same", COLUMNS, SPECS[spec]) as name:
        filled(spark, name)
        before = rows(spark, name)
        base = lake.load_table(name).metadata.current_snapshot_id
        files_before = lake.load_table(name).inspect.files().num_rows

        outcomes = compact_all(lake, name)

        assert before == rows(spark, name)
        assert before == rows(spark, name, base)
        said, found = counters(spark, name)
        assert found == said
        assert said["total-delete-files"] == 0
        assert len(partitions(lake.load_table(name))) == said["total-data-files"] < files_before
        assert len(outcomes) <= said["total-data-files"]

        spark.sql(MERGE.format(name, 1, 3))
        merged = rows(spark, name)
        assert merged != before
        spark.sql(
            f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
        )
        spark.sql(f"CALL lake.system.rewrite_manifests('{name}')")
        spark.sql(
            f"CALL lake.system.expire_snapshots(table => '{name}', older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
        )
        assert merged == rows(spark, name)
        if spec != "bucket":
            # Once is enough: what Spark left behind is a table like any other.
            return
        spark.sql(f"INSERT INTO lake.{name} " + SOME.format(0, 60))
        again = rows(spark, name)
        compact_all(lake, name)
        assert again == rows(spark, name)


def test_partitions_that_are_no_number_are_found(spark: Any, lake: Any) -> None:
    with fresh(spark, "db.nan", "id INT, v DOUBLE", "PARTITIONED BY (v)") as name:
        for _ in range(2):
            spark.sql(f"INSERT INTO lake.{name} VALUES (1, double('NaN')), (2, NULL), (3, 1.5)")
        before = rows(spark, name)

        outcomes = compact_all(lake, name)

        assert len(outcomes) == 3
        assert before == rows(spark, name)
        assert spark.sql(f"SELECT * FROM lake.{name} WHERE isnan(v)").count() == 2
        assert spark.sql(f"SELECT * FROM lake.{name}.files").count() == 3


def test_the_snapshot_says_what_spark_would_say(spark: Any, lake: Any) -> None:
    with fresh(spark, "db.summary", COLUMNS, "PARTITIONED BY (flag)") as name:
        filled(spark, name)
        outcome = compacted(lake, name, PartitionKey('{"1000":true}'))
        summary = lake.load_table(name).metadata.current_snapshot().summary
        assert ("policy", outcome.job_id) == (summary[POLICY_HASH], summary[JOB_ID])
        assert summary.operation.value == "replace"
        ours = dict(summary.additional_properties)

        spark.sql(
            f"CALL lake.system.rewrite_data_files(table => '{name}', where => 'flag = false', "
            "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true'))"
        )
        spark_made = [
            one.summary
            for one in lake.load_table(name).metadata.snapshots
            if one.summary.operation.value == "replace"
        ]
        theirs = dict(spark_made[1].additional_properties)

        counts = [
            key for key in theirs if key.startswith(("added", "deleted", "removed", "total", "changed"))
        ]
        assert counts
        assert not set(counts) - set(ours)


def test_rows_of_older_schemas_come_out_in_the_present_one(spark: Any, lake: Any) -> None:
    columns = (
        "id INT, renamed STRING, dropped STRING, small FLOAT, price DECIMAL(5,2), "
        "place STRUCT<x: INT, old: STRING, inner: STRUCT<k: FLOAT>>, tags ARRAY<STRUCT<t: STRING, n: INT>>, "
        "props MAP<STRING, STRUCT<v: INT, w: STRING>>, plain MAP<STRING, INT>, nums ARRAY<INT>, raw BINARY, day DATE"
    )
    values = [
        (
            "(1, 'a', 'b', 1.5, 1.25, named_struct('x', 1, 'old', 'o', 'inner', named_struct('k', 2.5)), "
            "array(named_struct('t', 'q, r', 'n', 1), NULL, named_struct('t', NULL, 'n', NULL)), "
            "map('k', named_struct('v', 1, 'w', 'w'), 'null', NULL), map('a', 1, 'b', NULL), array(1, NULL, 3), X'00FF', DATE '2024-02-29')"
        ),
        "(2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        "(3, '', '', float('nan'), -0.01, named_struct('x', NULL, 'old', NULL, 'inner', NULL), array(), map(), map(), array(), X'', DATE '0001-01-01')",
        "(4, 'Zoë', 'x', float('-inf'), 999.99, named_struct('x', 4, 'old', '', 'inner', named_struct('k', NULL)), array(NULL), map('', NULL), map('', NULL), array(NULL), X'27', DATE '9999-12-31')",
    ]
    with fresh(spark, "db.evolved", columns) as name:
        for value in values:
            spark.sql(f"INSERT INTO lake.{name} VALUES {value}")
        changes = [
            "RENAME COLUMN renamed TO named",
            "DROP COLUMN dropped",
            "ALTER COLUMN id TYPE BIGINT",
            "ALTER COLUMN small TYPE DOUBLE",
            "ALTER COLUMN price TYPE DECIMAL(9,2)",
            "ADD COLUMN fresh STRING FIRST",
            "ADD COLUMN dropped TIMESTAMP",
            "RENAME COLUMN place.x TO y",
            "DROP COLUMN place.old",
            "ADD COLUMN place.more ARRAY<STRING>",
            "ALTER COLUMN place.inner.k TYPE DOUBLE",
            "ADD COLUMN tags.element.added BIGINT",
            "ALTER COLUMN tags.element.n TYPE BIGINT",
            "ALTER COLUMN tags.element.n FIRST",
            "RENAME COLUMN props.value.v TO u",
            "ADD COLUMN props.value.added DATE",
            "ALTER COLUMN plain.value TYPE BIGINT",
            "ALTER COLUMN nums.element TYPE BIGINT",
            "ALTER COLUMN day AFTER id",
        ]
        for change in changes:
            spark.sql(f"ALTER TABLE lake.{name} {change}")
        spark.sql(
            f"INSERT INTO lake.{name} (id, fresh, nums) VALUES (5, 'f', array(5000000000)), (6, NULL, NULL)"
        )
        spark.sql(f"DELETE FROM lake.{name} WHERE id = 6")
        before = rows(spark, name)

        outcome = compacted(lake, name, PartitionKey("{}"))

        assert OutcomeKind.DONE is outcome.kind
        assert before == rows(spark, name)
        assert lake.load_table(name).inspect.files().num_rows == 1


def test_each_spec_is_compacted_by_itself(spark: Any, lake: Any) -> None:
    with fresh(spark, "db.specs", COLUMNS, "PARTITIONED BY (flag)") as name:
        filled(spark, name)
        spark.sql(f"ALTER TABLE lake.{name} ADD PARTITION FIELD days(at)")
        filled(spark, name)
        spark.sql(f"ALTER TABLE lake.{name} DROP PARTITION FIELD flag")
        filled(spark, name)
        spark.sql(f"ALTER TABLE lake.{name} DROP COLUMN flag")
        before = rows(spark, name)

        compact_all(lake, name)

        assert before == rows(spark, name)
        said, found = counters(spark, name)
        assert found == said
        spark.sql(
            f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
        )
        assert before == rows(spark, name)


def test_deletes_of_a_whole_partition_are_applied_and_leave(spark: Any, lake: Any) -> None:
    with fresh(spark, "db.granular", COLUMNS, "PARTITIONED BY (flag)") as name:
        spark.sql(f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('write.delete.granularity'='partition')")
        filled(spark, name)
        spark.sql(f"DELETE FROM lake.{name} WHERE id IN (7, 27, 47)")
        before = rows(spark, name)
        key = PartitionKey('{"1000":false}')
        table = lake.load_table(name)
        whole = try_to_bind(table, key)
        assert any(file.referenced_data_file is None for file in whole.delete_files)

        outcome = compacted(lake, name, key)

        assert OutcomeKind.DONE is outcome.kind
        assert before == rows(spark, name)
        assert spark.sql(f"SELECT * FROM lake.{name}.delete_files WHERE NOT partition.flag").count() == 0


def test_a_partition_of_which_every_row_is_deleted_becomes_empty(spark: Any, lake: Any) -> None:
    with fresh(spark, "db.emptied", COLUMNS, "PARTITIONED BY (bucket(2, id))") as name:
        for start in (0, 20):
            spark.sql(f"INSERT INTO lake.{name} " + SOME.format(start, start + 20))
        # A MERGE writes deletes; a DELETE of everything would drop the files.
        spark.sql(
            f"MERGE INTO lake.{name} t USING (SELECT id FROM range(40)) s ON t.id = s.id WHEN MATCHED THEN DELETE"
        )

        outcomes = compact_all(lake, name)

        assert len(outcomes) == 2
        assert rows(spark, name) == []
        assert spark.sql(f"SELECT * FROM lake.{name}.files").count() == 0
        said, found = counters(spark, name)
        assert found == said


def test_what_is_compacted_does_not_qualify_again(spark: Any, lake: Any) -> None:
    with fresh(spark, "db.again", COLUMNS) as name:
        filled(spark, name)
        target = lake.load_table(name).inspect.files()["file_size_in_bytes"].to_pylist()[0] * 2

        compacted(lake, name, PartitionKey("{}"), target_size_bytes=target)

        again = try_to_bind(lake.load_table(name), PartitionKey("{}"), target_size_bytes=target)
        assert again.reason == "nothing_to_do"


def test_files_that_are_not_parquet_are_refused_in_words(spark: Any, lake: Any) -> None:
    with fresh(spark, "db.orc", "id INT") as name:
        spark.sql(f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('write.format.default'='orc')")
        spark.sql(f"INSERT INTO lake.{name} VALUES (1)")

        refusal = try_to_bind(lake.load_table(name), PartitionKey("{}"))

        assert refusal.reason == "format_orc"


def test_retention_of_the_branch_and_other_refs_stay(spark: Any, lake: Any) -> None:
    with fresh(spark, "db.refs", COLUMNS) as name:
        filled(spark, name)
        spark.sql(
            f"ALTER TABLE lake.{name} REPLACE BRANCH main RETAIN 7 DAYS WITH SNAPSHOT RETENTION 3 SNAPSHOTS 2 DAYS"
        )
        spark.sql(f"ALTER TABLE lake.{name} CREATE TAG t")
        before = dict(lake.load_table(name).metadata.refs)

        outcome = compacted(lake, name, PartitionKey("{}"))

        after = dict(lake.load_table(name).metadata.refs)
        assert outcome.snapshot_id == after["main"].snapshot_id
        assert before["t"] == after["t"]
        kept = [
            (ref.min_snapshots_to_keep, ref.max_snapshot_age_ms, ref.max_ref_age_ms)
            for ref in (before["main"], after["main"])
        ]
        assert kept[0] == kept[1]
        assert kept[0][0] == 3


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_a_part_leaves_deletes_that_name_what_stays(spark: Any, lake: Any, granularity: str) -> None:
    """Small files alone, then file after file: every row is the same each time, and at the end no delete is left."""
    with fresh(spark, "db.parts", COLUMNS) as name:
        spark.sql(f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('write.delete.granularity' = '{granularity}')")
        filled(spark, name)
        spark.sql(MERGE.format(name, 1, 3))
        before, files = rows(spark, name), lake.load_table(name).inspect.files()
        sizes = files.filter(pc.equal(files["content"], 0))["file_size_in_bytes"].to_pylist()
        small = Take(sorted(sizes)[2] + 1)

        outcome = compacted(lake, name, PartitionKey("{}"), take=small)

        assert outcome.kind is OutcomeKind.DONE
        assert before == rows(spark, name)
        said, found = counters(spark, name)
        assert found == said
        assert said["total-delete-files"] > 0
        parts = 0
        while lake.load_table(name).inspect.delete_files().num_rows:
            one = compacted(lake, name, PartitionKey("{}"), take=Take(with_deletes=True, at_most_bytes=1))
            parts += 1
            assert one.kind is OutcomeKind.DONE
            assert before == rows(spark, name)
            assert parts <= len(sizes)
        said, found = counters(spark, name)
        assert found == said
        assert parts > 1
