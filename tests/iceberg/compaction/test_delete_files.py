"""Merging position-delete files: the same rows for every reader, fewer files, and no data file touched."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.jobs import OutcomeKind, Take
from isotherm.core.model.refusals import Reason, Refusal
from support.rewriting import (
    COLUMNS,
    SOME,
    bound,
    commit,
    compacted,
    counters,
    fresh,
    rewritten,
    rows,
    try_to_bind,
)

pytestmark = pytest.mark.spark

MERGED = Take(merges_deletes=True)
EVEN = PartitionKey('{"1000":true}')


def deleted_one_by_one(
    spark: Any, name: str, granularity: str = "partition", ids: Any = range(0, 60, 12)
) -> None:
    """Three files for each flag, then a commit of deletes for each id."""
    spark.sql(f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('write.delete.granularity' = '{granularity}')")
    for start in (0, 20, 40):
        spark.sql(f"INSERT INTO lake.{name} " + SOME.format(start, start + 20))
    for number in ids:
        spark.sql(f"DELETE FROM lake.{name} WHERE id = {number}")


def live(spark: Any, name: str, content: str) -> list[tuple[Any, ...]]:
    found = spark.sql(
        f"SELECT file_path, record_count, partition.flag FROM lake.{name}.files WHERE content {content}"
    )
    return sorted(tuple(row) for row in found.collect())


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_many_delete_files_become_one_and_the_data_stays(spark: Any, lake: Any, granularity: str) -> None:
    with fresh(spark, "db.merged", COLUMNS, "PARTITIONED BY (flag)") as name:
        deleted_one_by_one(spark, name, granularity)
        before, data = rows(spark, name), live(spark, name, "= 0")
        base = lake.load_table(name).metadata.current_snapshot_id

        outcome = compacted(lake, name, EVEN, take=MERGED)

        assert outcome.kind is OutcomeKind.DONE
        assert before == rows(spark, name)
        assert before == rows(spark, name, base)
        assert data == live(spark, name, "= 0")
        assert [(5, True)] == [one[1:] for one in live(spark, name, "= 1")]
        said, found = counters(spark, name)
        assert found == said
        # Whoever writes next finds its rows as before.
        spark.sql(f"DELETE FROM lake.{name} WHERE id IN (2, 12, 8)")
        assert len(before) - 2 == spark.table(f"lake.{name}").count()
        compacted(lake, name, EVEN)
        assert len(before) - 2 == spark.table(f"lake.{name}").count()
        assert live(spark, name, "= 1") == []


def test_small_files_are_rewritten_and_the_deletes_on_the_others_merged_in_one_commit(
    spark: Any, lake: Any
) -> None:
    with fresh(spark, "db.both", COLUMNS, "PARTITIONED BY (flag)") as name:
        deleted_one_by_one(spark, name)
        spark.sql(f"INSERT INTO lake.{name} " + SOME.format(60, 1060))
        spark.sql(f"DELETE FROM lake.{name} WHERE id IN (62, 64)")
        before = rows(spark, name)
        sizes = spark.sql(
            f"SELECT file_size_in_bytes FROM lake.{name}.data_files WHERE partition.flag ORDER BY 1"
        ).collect()
        below = sizes[-1][0]

        outcome = compacted(lake, name, EVEN, take=Take(below_bytes=below, merges_deletes=True))

        assert outcome.kind is OutcomeKind.DONE
        assert before == rows(spark, name)
        assert [(2, True)] == [one[1:] for one in live(spark, name, "= 1")]
        assert [25, 500] == sorted(one[1] for one in live(spark, name, "= 0") if one[2])
        said, found = counters(spark, name)
        assert found == said


def test_deletes_that_are_read_for_small_files_say_of_others_what_they_said(spark: Any, lake: Any) -> None:
    """More deletes apply to the small files than one job may merge: they leave too, or stay, and no row comes back."""
    with fresh(spark, "db.read_too", COLUMNS, "PARTITIONED BY (flag)") as name:
        deleted_one_by_one(spark, name, ids=())
        for start, end in ((60, 1060), (2000, 3000)):
            spark.sql(f"INSERT INTO lake.{name} " + SOME.format(start, end))
        for number in range(5):
            # Of small files and of large ones.
            ids = [2 + 2 * number, 62 + 2 * number, 2002 + 2 * number]
            spark.sql(f"DELETE FROM lake.{name} WHERE id IN ({ids[0]}, {ids[1]}, {ids[2]})")
        before = rows(spark, name)

        take = Take(below_bytes=3000, merges_deletes=True, at_most_bytes=1)
        assert compacted(lake, name, EVEN, take=take).kind is OutcomeKind.DONE

        assert before == rows(spark, name)
        said, found = counters(spark, name)
        assert found == said


def test_a_merged_file_is_as_the_specification_wants_it(spark: Any, lake: Any) -> None:
    with fresh(spark, "db.sorted", COLUMNS, "PARTITIONED BY (flag)") as name:
        deleted_one_by_one(spark, name, ids=(56, 8, 48, 6, 28, 6))
        table = lake.load_table(name)

        rewrite = rewritten(table, bound(table, EVEN, take=MERGED))

        (file,) = rewrite.merged.files
        found = pq.read_table(Path(file.path.removeprefix("file://")))
        assert [(one.name, one.metadata[b"PARQUET:field_id"]) for one in found.schema] == [
            ("file_path", b"2147483546"),
            ("pos", b"2147483545"),
        ]
        pairs = list(zip(found["file_path"].to_pylist(), found["pos"].to_pylist(), strict=True))
        assert pairs == sorted(set(pairs))
        assert len(pairs) == file.rows == 5
        assert (file.lower_bounds[2147483546], file.upper_bounds[2147483546]) == (
            pairs[0][0].encode(),
            pairs[-1][0].encode(),
        )


def test_what_deletes_say_of_files_that_are_gone_is_left_out(spark: Any, lake: Any) -> None:
    with fresh(spark, "db.dangling", COLUMNS, "PARTITIONED BY (flag)") as name:
        deleted_one_by_one(spark, name)
        # Copy on write: the files are replaced, and what deletes said of them is applied.
        spark.sql(f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('write.delete.mode' = 'copy-on-write')")
        spark.sql(f"DELETE FROM lake.{name} WHERE id IN (2, 22)")
        before = rows(spark, name)

        assert compacted(lake, name, EVEN, take=MERGED).kind is OutcomeKind.DONE

        assert before == rows(spark, name)
        # Of the rows 0, 12, 24, 36 and 48 the last one is in a file that is still there.
        assert [(1, True)] == [one[1:] for one in live(spark, name, "= 1")]


def test_deletes_that_name_nothing_any_more_leave_without_a_new_file(spark: Any, lake: Any) -> None:
    with fresh(spark, "db.dead", COLUMNS, "PARTITIONED BY (flag)") as name:
        deleted_one_by_one(spark, name, ids=(2, 4))
        spark.sql(f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('write.delete.mode' = 'copy-on-write')")
        spark.sql(f"DELETE FROM lake.{name} WHERE id IN (6, 26, 46)")
        before = rows(spark, name)

        assert compacted(lake, name, EVEN, take=MERGED).kind is OutcomeKind.DONE

        assert before == rows(spark, name)
        assert live(spark, name, "= 1") == []


@pytest.mark.parametrize("ids", [(2,), (2, 4)])
def test_where_deletes_that_should_be_applied_name_nothing_any_more_they_leave(
    spark: Any, lake: Any, ids: tuple[int, ...]
) -> None:
    """Else their rows counted as deleted for ever, and each day there was nothing to do."""
    with fresh(spark, "db.dead_rows", COLUMNS, "PARTITIONED BY (flag)") as name:
        deleted_one_by_one(spark, name, ids=ids)
        spark.sql(f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('write.delete.mode' = 'copy-on-write')")
        spark.sql(f"DELETE FROM lake.{name} WHERE id IN (6, 26, 46)")
        before = rows(spark, name)
        take = Take(with_deletes=True)

        assert len(live(spark, name, "= 1")) == len(ids)
        assert compacted(lake, name, EVEN, take=take).kind is OutcomeKind.DONE
        assert before == rows(spark, name)
        assert live(spark, name, "= 1") == []
        assert isinstance(try_to_bind(lake.load_table(name), EVEN, take=take), Refusal)


def test_a_part_merges_the_oldest_and_nothing_but_one_file_is_left_at_the_end(spark: Any, lake: Any) -> None:
    with fresh(spark, "db.merged_parts", COLUMNS, "PARTITIONED BY (flag)") as name:
        deleted_one_by_one(spark, name)
        before, parts = rows(spark, name), 0
        while len(live(spark, name, "= 1")) > 1:
            outcome = compacted(lake, name, EVEN, take=Take(merges_deletes=True, at_most_bytes=1))
            parts += 1
            assert outcome.kind is OutcomeKind.DONE
            assert before == rows(spark, name)

        assert parts == 4
        refused = try_to_bind(lake.load_table(name), EVEN, take=MERGED)
        assert isinstance(refused, Refusal)
        assert refused.reason is Reason.NOTHING_TO_DO


def test_a_delete_that_came_meanwhile_refuses_the_merge(spark: Any, lake: Any) -> None:
    with fresh(spark, "db.raced", COLUMNS, "PARTITIONED BY (flag)") as name:
        deleted_one_by_one(spark, name)
        table = lake.load_table(name)
        job = bound(table, EVEN, take=MERGED)
        rewrite = rewritten(table, job)
        spark.sql(f"DELETE FROM lake.{name} WHERE id = 2")
        before = rows(spark, name)

        outcome = commit(lake, job, rewrite)

        assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, Reason.CONFLICT)
        assert before == rows(spark, name)


def test_data_that_came_between_two_deletes_stays_without_its_rows(spark: Any, lake: Any) -> None:
    with fresh(spark, "db.between", COLUMNS, "PARTITIONED BY (flag)") as name:
        deleted_one_by_one(spark, name, ids=(2, 4))
        spark.sql(f"INSERT INTO lake.{name} " + SOME.format(100, 140))
        spark.sql(f"DELETE FROM lake.{name} WHERE id IN (102, 104)")
        before = rows(spark, name)

        assert compacted(lake, name, EVEN, take=MERGED).kind is OutcomeKind.DONE

        assert before == rows(spark, name)
        assert [(4, True)] == [one[1:] for one in live(spark, name, "= 1")]


def test_what_is_merged_leaves_less_room_for_small_files(spark: Any, lake: Any) -> None:
    """A job that reads more than a budget ever allows would wait for ever."""
    with fresh(spark, "db.room", COLUMNS, "PARTITIONED BY (flag)") as name:
        for start in range(0, 240, 20):
            spark.sql(f"INSERT INTO lake.{name} " + SOME.format(start, start + 20))
        for number in (0, 20, 40, 60):
            spark.sql(f"DELETE FROM lake.{name} WHERE id = {number}")
        table = lake.load_table(name)
        every = bound(table, EVEN, take=Take(1_000_000, merges_deletes=True))
        deletes, data = (
            sum(file.size_bytes for file in files) for files in (every.delete_files, every.data_files)
        )
        most = deletes + data // 3

        some = bound(table, EVEN, take=Take(1_000_000, merges_deletes=True, at_most_bytes=most))

        assert (12, 4) == (len(every.data_files), len(every.delete_files))
        assert 2 < len(some.data_files) < 12
        assert sum(file.size_bytes for file in (*some.data_files, *some.delete_files)) <= most


@pytest.mark.parametrize("granularity", ["file", "partition"])
@pytest.mark.parametrize("below", [0, 1_000_000])
def test_deletes_that_are_applied_leave_less_room_for_data(
    spark: Any, lake: Any, granularity: str, below: int
) -> None:
    """A job that fills a pause of its writers with data, and reads deletes too, is in vain each time."""
    with fresh(spark, "db.applied_room", COLUMNS, "PARTITIONED BY (flag)") as name:
        spark.sql(f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('write.delete.granularity' = '{granularity}')")
        for start in range(0, 240, 20):
            spark.sql(f"INSERT INTO lake.{name} " + SOME.format(start, start + 20))
        for number in (0, 2):
            spark.sql(f"DELETE FROM lake.{name} WHERE id % 20 = {number}")
        table = lake.load_table(name)
        every = bound(table, EVEN, take=Take(below, with_deletes=True))
        most = every.read_bytes * 2 // 3

        some = bound(table, EVEN, take=Take(below, with_deletes=True, at_most_bytes=most))

        assert len(every.data_files) == 12
        assert 2 < len(some.data_files) < 12
        assert some.read_bytes <= most


@pytest.mark.parametrize("size", ["1", "64mb"])
def test_however_small_a_table_wants_its_delete_files_one_is_made(spark: Any, lake: Any, size: str) -> None:
    """Of many small ones there would be as many as before, and the same job would be due for ever."""
    with fresh(spark, "db.small", COLUMNS, "PARTITIONED BY (flag)") as name:
        deleted_one_by_one(spark, name)
        before = rows(spark, name)
        spark.sql(
            f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('write.delete.target-file-size-bytes' = '{size}', "
            "'write.parquet.compression-level' = '19', 'write.delete.parquet.compression-codec' = 'Snappy')"
        )

        assert compacted(lake, name, EVEN, take=MERGED).kind is OutcomeKind.DONE

        assert before == rows(spark, name)
        ((path, deleted, _),) = live(spark, name, "= 1")
        group = pq.ParquetFile(path.removeprefix("file://")).metadata.row_group(0)
        assert (5, "SNAPPY") == (deleted, group.column(0).compression)
