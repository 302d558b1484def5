"""Equality deletes are applied, or become position deletes: every reader has the same rows, judged by Spark."""

import contextlib
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.jobs import OutcomeKind, Take
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.rewriters import why_not_converted
from isotherm.iceberg.other_rewriters import rewrite_of_others
from isotherm.iceberg.values import loaded_table
from isotherm.runtime.clock import now_ms
from isotherm.service.tables.rewriters import note_seen
from isotherm.store.ledger import Ledger
from support.equality import APPLIED, CONVERTED, EVEN, ID, ODD, WHOLE, delete_by, files, keys
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


def data(spark: Any, name: str) -> set[str]:
    return {row[0] for row in spark.sql(f"SELECT file_path FROM lake.{name}.data_files").collect()}


def upserted(spark: Any, name: str, folder: Path) -> None:
    """Some rows, and each of some keys deleted and written again, as Flink does; rows that nobody had are deleted too."""
    for start in (0, 20, 40):
        spark.sql(f"INSERT INTO lake.{name} " + SOME.format(start, start + 20))
        for flag, first in (("true", start), ("false", start + 1)):
            table = keys(ID, rows=[(first,), (first + 8,), (first - 10,), (1000,)])
            delete_by(spark, name, folder, table, [1], f"flag={flag}")
        spark.sql(f"INSERT INTO lake.{name} " + SOME.format(start, start + 2))


@pytest.mark.parametrize("take", [APPLIED, CONVERTED], ids=["applied", "converted"])
def test_rows_are_the_same_and_the_deletes_are_gone(
    spark: Any, lake: Any, tmp_path: Path, take: Take
) -> None:
    with fresh(spark, "db.upserts", COLUMNS, "PARTITIONED BY (flag)") as name:
        upserted(spark, name, tmp_path)
        spark.sql(f"DELETE FROM lake.{name} WHERE id IN (14, 15, 34, 54)")
        before, base, had = (
            rows(spark, name),
            lake.load_table(name).metadata.current_snapshot_id,
            data(spark, name),
        )

        for key in (EVEN, ODD):
            assert compacted(lake, name, key, take=take).kind is OutcomeKind.DONE
            assert rows(spark, name) == before

        assert rows(spark, name, base) == before
        assert [one for one in files(spark, name) if one[0] == 2] == []
        assert [one[0] for one in files(spark, name) if one[0]] == ([] if take is APPLIED else [1] * 3)
        assert (data(spark, name) == had) is (take is CONVERTED)
        said, found = counters(spark, name)
        assert found == said
        # What a converted file says of rows is applied by the next job.
        assert compacted(lake, name, EVEN).kind is OutcomeKind.DONE
        assert rows(spark, name) == before


def test_small_files_are_rewritten_and_deletes_stay_for_the_others(
    spark: Any, lake: Any, tmp_path: Path
) -> None:
    with fresh(spark, "db.stay", COLUMNS, "PARTITIONED BY (flag)") as name:
        spark.sql(f"INSERT INTO lake.{name} " + SOME.format(1000, 6000))
        upserted(spark, name, tmp_path)
        delete_by(spark, name, tmp_path, keys(ID, rows=[(1002,), (8,), (24,)]), [1], "flag=true")
        before = rows(spark, name)

        outcome = compacted(lake, name, EVEN, take=Take(below_bytes=4000))

        assert outcome.kind is OutcomeKind.DONE
        assert rows(spark, name) == before
        # They are older than what is left of it; those of the other partition are as they were.
        assert [one[1] for one in files(spark, name) if one[0] == 2] == [3, 4, 4, 4, 4, 4, 4]
        assert compacted(lake, name, EVEN, take=CONVERTED).kind is OutcomeKind.DONE
        assert rows(spark, name) == before
        assert [one[1] for one in files(spark, name) if one[0]] == [2, 4, 4, 4]


def test_a_merge_of_position_deletes_leaves_equality_deletes_to_what_they_apply_to(
    spark: Any, lake: Any, tmp_path: Path
) -> None:
    with fresh(spark, "db.beside", COLUMNS, "PARTITIONED BY (flag)") as name:
        spark.sql(f"INSERT INTO lake.{name} " + SOME.format(1000, 6000))
        upserted(spark, name, tmp_path)
        spark.sql(f"DELETE FROM lake.{name} WHERE id IN (1004, 14)")
        spark.sql(f"DELETE FROM lake.{name} WHERE id IN (1006, 16)")
        delete_by(spark, name, tmp_path, keys(ID, rows=[(1002,), (8,), (24,)]), [1], "flag=true")
        before = rows(spark, name)

        outcome = compacted(lake, name, EVEN, take=Take(below_bytes=4000, merges_deletes=True))

        assert outcome.kind is OutcomeKind.DONE
        assert rows(spark, name) == before
        assert [one[1] for one in files(spark, name) if one[0] == 2] == [3, 4, 4, 4, 4, 4, 4]
        assert [one[1] for one in files(spark, name) if one[0] == 1] == [2]


def test_equality_deletes_that_are_older_than_all_data_leave(spark: Any, lake: Any, tmp_path: Path) -> None:
    """Somebody else rewrote the data, and nobody would ever have anything to apply them to."""
    with fresh(spark, "db.dead_keys", COLUMNS, "PARTITIONED BY (flag)") as name:
        for start in (0, 20):
            spark.sql(f"INSERT INTO lake.{name} " + SOME.format(start, start + 20))
        delete_by(spark, name, tmp_path, keys(ID, rows=[(2,), (4,)]), [1], "flag=true")
        delete_by(spark, name, tmp_path, keys(ID, rows=[(3,)]), [1], "flag=false")
        spark.sql(f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('write.delete.mode' = 'copy-on-write')")
        spark.sql(f"DELETE FROM lake.{name} WHERE id IN (6, 26)")
        before, had = rows(spark, name), data(spark, name)

        assert [one[1] for one in files(spark, name) if one[0]] == [1, 2]
        assert compacted(lake, name, EVEN, take=APPLIED).kind is OutcomeKind.DONE
        assert [one[1] for one in files(spark, name) if one[0]] == [1]
        assert (rows(spark, name), data(spark, name)) == (before, had)


def test_a_part_of_the_files_takes_no_delete_away(spark: Any, lake: Any, tmp_path: Path) -> None:
    with fresh(spark, "db.parts", COLUMNS, "PARTITIONED BY (flag)") as name:
        upserted(spark, name, tmp_path)
        before, jobs = rows(spark, name), 0
        while any(one[0] == 2 for one in files(spark, name)):
            part = Take(with_deletes=True, at_most_bytes=1)
            for key in (EVEN, ODD):
                job = try_to_bind(lake.load_table(name), key, take=part)
                if isinstance(job, Refusal):
                    assert job.reason is Reason.NOTHING_TO_DO
                    continue
                assert commit(lake, job, rewritten(lake.load_table(name), job)).kind is OutcomeKind.DONE
                jobs += 1
                assert rows(spark, name) == before
        assert jobs == 10


def voids(spark: Any, lake: Any, name: str, folder: Path) -> None:
    """A table of version 1 keeps a dropped partition field as void; an upsert of Flink may delete under that spec."""
    spark.sql(f"DROP TABLE lake.{name}")
    spark.sql(
        f"CREATE TABLE lake.{name} (id BIGINT, part INT) USING iceberg PARTITIONED BY (part) "
        "TBLPROPERTIES ('format-version'='1')"
    )
    for start in (0, 5):
        spark.sql(f"INSERT INTO lake.{name} SELECT id, 1 FROM range({start}, {start + 5}, 1, 1)")
    spark.sql(f"ALTER TABLE lake.{name} DROP PARTITION FIELD part")
    spark.sql(f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('format-version'='2')")
    delete_by(spark, name, folder, keys(ID, rows=[(4,)]), [1])


ONE = PartitionKey('{"1000":1}')


def test_deletes_of_a_spec_without_partitions_stay_while_they_apply_anywhere(
    spark: Any, lake: Any, tmp_path: Path
) -> None:
    with fresh(spark, "db.voids", "id BIGINT, part INT") as name:
        voids(spark, lake, name, tmp_path)
        spark.sql(f"INSERT INTO lake.{name} SELECT id, 2 FROM range(3, 9, 1, 1)")
        before = rows(spark, name)
        assert len(before) == 15

        refused = try_to_bind(lake.load_table(name), WHOLE, take=CONVERTED)
        assert isinstance(refused, Refusal), refused

        assert compacted(lake, name, ONE).kind is OutcomeKind.DONE

        assert rows(spark, name) == before
        assert files(spark, name) == [(0, 6), (0, 9), (2, 1)]
        # Now they apply to nothing, of whatever spec.
        assert compacted(lake, name, WHOLE, take=CONVERTED).kind is OutcomeKind.DONE
        assert rows(spark, name) == before
        assert files(spark, name) == [(0, 6), (0, 9)]


def test_a_rollback_to_before_deletes_that_apply_everywhere_refuses_the_commit(
    spark: Any, lake: Any, tmp_path: Path
) -> None:
    with fresh(spark, "db.rolled", "id BIGINT, part INT") as name:
        voids(spark, lake, name, tmp_path)
        parent = lake.load_table(name).metadata.current_snapshot().parent_snapshot_id
        job = bound(lake.load_table(name), ONE)
        rewrite = rewritten(lake.load_table(name), job)
        spark.sql(f"CALL lake.system.rollback_to_snapshot('{name}', {parent})")
        before = rows(spark, name)
        assert len(before) == 10

        outcome = commit(lake, job, rewrite)

        assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, Reason.CONFLICT)
        assert rows(spark, name) == before


@pytest.mark.parametrize("take", [APPLIED, CONVERTED], ids=["applied", "converted"])
def test_deletes_that_come_meanwhile_refuse_the_commit(
    spark: Any, lake: Any, tmp_path: Path, take: Take
) -> None:
    with fresh(spark, "db.meanwhile", COLUMNS, "PARTITIONED BY (flag)") as name:
        upserted(spark, name, tmp_path)
        job = bound(lake.load_table(name), EVEN, take=take)
        rewrite = rewritten(lake.load_table(name), job)
        delete_by(spark, name, tmp_path, keys(ID, rows=[(2,), (22,)]), [1], "flag=true")
        before = rows(spark, name)

        outcome = commit(lake, job, rewrite)

        assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, Reason.CONFLICT)
        assert rows(spark, name) == before


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_written_and_in_which_order(spark: Any, lake: Any, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with fresh(spark, "db.chance", "id BIGINT, text STRING, flag BOOLEAN", "PARTITIONED BY (flag)") as name:
        row = "SELECT id, IF(id % 4 = 0, NULL, concat('t', id % 3)), id % 2 = 0"
        jobs = 0
        for _ in range(14):
            number = chance.randrange(30)
            match chance.choice(["insert", "insert", "by id", "by text", "by both", "delete", "job", "job"]):
                case "insert":
                    spark.sql(f"INSERT INTO lake.{name} {row} FROM range({number}, {number + 12}, 1, 1)")
                case "delete":
                    spark.sql(f"DELETE FROM lake.{name} WHERE id BETWEEN {number} AND {number + 2}")
                case "job":
                    jobs += job_of_chance(spark, lake, name, chance)
                case how:
                    some = list(range(number, number + 6))
                    texts = [None if one % 4 == 0 else f"t{one % 3}" for one in some]
                    text = ("text", pa.string(), 2)
                    table, ids = {
                        "by id": (keys(ID, rows=[(one,) for one in some]), [1]),
                        "by text": (keys(text, rows=[(texts[0],)]), [2]),
                        "by both": (keys(ID, text, rows=list(zip(some, texts, strict=True))), [1, 2]),
                    }[how]
                    delete_by(spark, name, tmp_path, table, ids, f"flag={chance.choice(['true', 'false'])}")
        for _ in range(3):
            jobs += job_of_chance(spark, lake, name, chance)
        assert jobs


def job_of_chance(spark: Any, lake: Any, name: str, chance: random.Random) -> int:
    """A job of some kind in some partition, if there is one; the rows are the same after it."""
    take = Take(
        below_bytes=chance.choice([0, 1500, 10**6]),
        with_deletes=(applies := chance.random() < 0.4),
        merges_deletes=(merges := not applies and chance.random() < 0.7),
        converts_equality=merges and chance.random() < 0.7,
        at_most_bytes=chance.choice([None, 3000]),
    )
    table = lake.load_table(name)
    if table.metadata.current_snapshot() is None:
        return 0
    job = try_to_bind(table, chance.choice([EVEN, ODD]), take=take)
    if isinstance(job, Refusal):
        assert job.reason is Reason.NOTHING_TO_DO, job
        return 0
    before = rows(spark, name)
    assert commit(lake, job, rewritten(table, job)).kind is OutcomeKind.DONE
    assert rows(spark, name) == before, take
    said, found = counters(spark, name)
    assert found == said, take
    return 1


@pytest.mark.parametrize("ours", ["converts", "applies"])
def test_a_rewrite_of_somebody_elses_that_is_open_brings_no_row_back(
    spark: Any, lake: Any, tmp_path: Path, ours: str
) -> None:
    """Spark keeps the sequence number of what it rewrites, so that younger equality deletes still apply; if these become
    deletes by path meanwhile, its new path has the rows again, and Java lets it through.
    """
    with fresh(spark, f"db.open_{ours}", "id BIGINT, part INT, text STRING", "PARTITIONED BY (part)") as name:
        for start in (0, 100):
            spark.sql(
                f"INSERT INTO lake.{name} SELECT id, 1, concat('v', id) FROM range({start}, {start + 100}, 1, 1)"
            )
        rewrite = (
            f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
        )
        spark.sql(rewrite)
        spark.sql(f"INSERT INTO lake.{name} VALUES (200, 1, 'v')")
        jvm = spark.sparkContext._jvm
        open_table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            spark._jsparkSession, f"lake.{name}"
        )
        delete_by(spark, name, tmp_path, keys(ID, rows=[(n,) for n in range(10)]), [1], "part=1")
        before = rows(spark, name)

        take = CONVERTED if ours == "converts" else APPLIED
        outcome = compacted(lake, name, PartitionKey('{"1000":1}'), take=take)
        # Refused where theirs was: it is the commit that knows.
        assert outcome.kind is (OutcomeKind.FAILED if ours == "converts" else OutcomeKind.DONE), outcome
        with contextlib.suppress(Exception):
            actions = jvm.org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession)
            actions.rewriteDataFiles(open_table).option("rewrite-all", "true").execute()

        assert rows(spark, name) == before
        assert rewrite_of_others(lake.load_table(name).metadata) is not None


@pytest.mark.parametrize(
    ("was_seen", "why"), [(True, "another writer rewrites"), (False, "it takes 14d to see whether another")]
)
def test_a_rewrite_of_theirs_that_was_open_brings_nothing_back_though_their_last_one_has_expired(
    spark: Any, lake: Any, tmp_path: Path, was_seen: bool, why: str
) -> None:
    """As above, with an expiry of all that tells of them; then the ledger does, or says that nothing is known yet."""
    ledger, name = Ledger(None), f"db.forgotten_{was_seen}".lower()

    def last_look(table: Table) -> Refusal | None:
        against = why_not_converted(note_seen(ledger, loaded_table(table, name), None, now_ms()))
        return None if against is None else Refusal(Reason.CONFLICT, against)

    with fresh(spark, name, "id BIGINT, part INT, text STRING", "PARTITIONED BY (part)"):
        for start in (0, 100):
            spark.sql(
                f"INSERT INTO lake.{name} SELECT id, 1, concat('v', id) FROM range({start}, {start + 100}, 1, 1)"
            )
        spark.sql(
            f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
        )
        if was_seen:
            assert last_look(lake.load_table(name)) is not None
        spark.sql(f"INSERT INTO lake.{name} VALUES (200, 1, 'v')")
        spark.sql(f"CALL lake.system.expire_snapshots('{name}', TIMESTAMP '2999-01-01', 1)")
        assert rewrite_of_others(lake.load_table(name).metadata) is None
        jvm = spark.sparkContext._jvm
        open_table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            spark._jsparkSession, f"lake.{name}"
        )
        delete_by(spark, name, tmp_path, keys(ID, rows=[(n,) for n in range(10)]), [1], "part=1")
        before = rows(spark, name)

        table = lake.load_table(name)
        job = bound(table, PartitionKey('{"1000":1}'), take=CONVERTED)
        outcome = commit(lake, job, rewritten(table, job), last_look)
        actions = jvm.org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession)
        actions.rewriteDataFiles(open_table).option("rewrite-all", "true").execute()

        assert rows(spark, name) == before
        assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, Reason.CONFLICT)
        assert why in outcome.why
