"""Tables of format version 3: deletion vectors are applied, rows keep their ids. Spark is the judge."""

import random
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyroaring import BitMap64

from isotherm.clients.catalog import open_catalog
from isotherm.contract.identity import PartitionKey
from isotherm.contract.paths import normalised
from isotherm.core.model.files import FileKind
from isotherm.core.model.jobs import OutcomeKind, Take
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.rewrite import attempt
from isotherm.iceberg.manifests.live import live_files
from isotherm.parquet.table_description import described
from support.rewriting import (
    bound,
    commit,
    compact_all,
    compacted,
    counters,
    rewritten,
    try_to_bind,
)
from support.spark import CATALOG


@pytest.fixture(scope="module")
def catalog(lake_folder: Any) -> Any:
    """As the daemon opens it: PyIceberg by itself writes no metadata of version 3."""
    return open_catalog(CATALOG, lake_folder.pyiceberg_properties, 60)


COLUMNS = "id BIGINT, part INT, text STRING"
OURS, OTHERS = PartitionKey('{"1000":1}'), PartitionKey('{"1000":2}')
ON_READ = ", ".join(f"'write.{what}.mode'='merge-on-read'" for what in ("merge", "delete", "update"))


@contextmanager
def table(spark: Any, name: str, version: int = 3) -> Iterator[str]:
    """Two partitions, in three files each."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    spark.sql(f"DROP TABLE IF EXISTS lake.{name}")
    spark.sql(
        f"CREATE TABLE lake.{name} ({COLUMNS}) USING iceberg PARTITIONED BY (part) TBLPROPERTIES "
        f"('format-version'='{version}', 'write.distribution-mode'='none', {ON_READ})"
    )
    for start in (0, 20, 40):
        insert(spark, name, start)
    yield name
    spark.sql(f"DROP TABLE IF EXISTS lake.{name}")


def insert(spark: Any, name: str, start: int, rows: int = 20) -> None:
    spark.sql(
        f"INSERT INTO lake.{name} SELECT id, CAST(1 + id % 2 AS INT), concat('v', id) "
        f"FROM range({start}, {start + rows}, 1, 1)"
    )


def upgraded(spark: Any, name: str) -> None:
    spark.sql(f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('format-version'='3')")


def lineage(spark: Any, name: str, where: str = "true") -> list[tuple[Any, ...]]:
    """Every row as Spark reads it, with its id and when it was last updated."""
    found = spark.sql(
        f"SELECT *, _row_id, _last_updated_sequence_number FROM lake.{name} WHERE {where} ORDER BY id"
    )
    return [tuple(row) for row in found.collect()]


def ids(spark: Any, name: str) -> list[int]:
    return [row[-2] for row in lineage(spark, name)]


def files_of(catalog: Any, name: str) -> set[tuple[str, int | None]]:
    found = catalog.load_table(name)
    head = found.metadata.current_snapshot()
    return {entry.identity for entry in live_files(found.metadata, found.io, head, OURS)}


def kinds(catalog: Any, name: str, key: PartitionKey = OURS) -> set[FileKind]:
    found = catalog.load_table(name)
    head = found.metadata.current_snapshot()
    return {entry.kind for entry in live_files(found.metadata, found.io, head, key)}


@pytest.mark.spark
@pytest.mark.parametrize("version", [2, 3])
def test_files_of_few_deleted_rows_stay_with_their_deletes(spark: Any, catalog: Any, version: int) -> None:
    with table(spark, f"db.spared{version}", version) as name:
        spark.sql(f"DELETE FROM lake.{name} WHERE id IN (0, 2, 4, 6, 8, 10, 22)")
        rows = spark.sql(f"SELECT * FROM lake.{name} ORDER BY id").collect()
        before = files_of(catalog, name)

        outcome = compacted(catalog, name, OURS, take=Take(0, with_deletes=True, spared_ratio=0.3))

        assert outcome.kind is OutcomeKind.DONE, outcome
        assert spark.sql(f"SELECT * FROM lake.{name} ORDER BY id").collect() == rows
        after = files_of(catalog, name)
        assert [len(before - after), len(after - before)] == [2, 1], "one file, with its deletes"
        deleted = FileKind.DELETION_VECTORS if version == 3 else FileKind.POSITION_DELETES
        assert kinds(catalog, name) == {FileKind.DATA, deleted}


@pytest.mark.spark
def test_vectors_are_applied_and_rows_keep_their_ids(spark: Any, catalog: Any) -> None:
    with table(spark, "db.three") as name:
        spark.sql(f"DELETE FROM lake.{name} WHERE id IN (3, 4, 23, 24, 43)")
        spark.sql(f"UPDATE lake.{name} SET text = 'new' WHERE id IN (5, 6)")
        before = lineage(spark, name)
        assert FileKind.DELETION_VECTORS in kinds(catalog, name)

        outcome = compacted(catalog, name, OURS)

        assert outcome.kind is OutcomeKind.DONE, outcome
        assert lineage(spark, name) == before
        assert kinds(catalog, name) == {FileKind.DATA}
        assert FileKind.DELETION_VECTORS in kinds(catalog, name, OTHERS)
        said, found = counters(spark, name)
        del (
            said["total-files-size"],
            found["total-files-size"],
        )  # of a vector, Spark's table has its whole file
        assert said == found


@pytest.mark.spark
def test_spark_goes_on_with_what_was_compacted_again_and_again(spark: Any, catalog: Any) -> None:
    """A row that we moved and Spark updates keeps its id; those that Spark appends get new ones."""
    with table(spark, "db.again_three") as name:
        for start in (60, 80, 100):
            spark.sql(f"DELETE FROM lake.{name} WHERE id % 10 = {start // 20}")
            before = lineage(spark, name)
            compact_all(catalog, name)
            assert lineage(spark, name) == before

            insert(spark, name, start)
            spark.sql(f"UPDATE lake.{name} SET text = 'u{start}' WHERE id IN (2, 11, {start + 1})")
            after = {row[0]: row for row in lineage(spark, name)}
            for row in before:
                is_updated = row[0] in (2, 11, start + 1)
                assert after[row[0]][-2] == row[-2]
                assert (after[row[0]][-1] > row[-1]) is is_updated
            assert len(set(ids(spark, name))) == len(after)
        spark.sql(
            f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
        )
        assert {row[0]: row for row in lineage(spark, name)} == after


@pytest.mark.spark
@pytest.mark.parametrize("first", ["us", "a writer"])
def test_a_table_of_version_2_goes_on_as_one_of_version_3(spark: Any, catalog: Any, first: str) -> None:
    """Its rows have no ids yet, and get them with the first commit, whosever that is."""
    with table(spark, "db.upgraded", version=2) as name:
        spark.sql(f"DELETE FROM lake.{name} WHERE id IN (3, 4, 23)")
        upgraded(spark, name)
        if first == "a writer":
            insert(spark, name, 60)
        before = lineage(spark, name)
        assert kinds(catalog, name) == {FileKind.DATA, FileKind.POSITION_DELETES}

        outcome = compacted(catalog, name, OURS)

        assert outcome.kind is OutcomeKind.DONE, outcome
        after = lineage(spark, name)
        assert [row[:3] for row in after] == [row[:3] for row in before]
        assert len({row[-2] for row in after} - {None}) == len(after)
        if first == "a writer":
            assert after == before
        insert(spark, name, 100)
        assert [row for row in lineage(spark, name) if row[0] < 100] == after
        assert len(set(ids(spark, name))) == len(ids(spark, name))


@pytest.mark.spark
def test_what_was_planned_before_an_upgrade_writes_no_new_position_deletes(spark: Any, catalog: Any) -> None:
    merge = Take(merges_deletes=True)
    with table(spark, "db.merged", version=2) as name:
        for deleted in (2, 22):
            spark.sql(f"DELETE FROM lake.{name} WHERE id = {deleted}")
        assert bound(catalog.load_table(name), OURS, take=merge).merges_deletes
        upgraded(spark, name)

        refusal = try_to_bind(catalog.load_table(name), OURS, take=merge)

        assert isinstance(refusal, Refusal)
        assert refusal.reason is Reason.FORMAT
        assert "no position-delete file may be added" in refusal.why


@pytest.mark.spark
def test_ids_that_a_writer_gave_meanwhile_refuse_what_was_read_without(spark: Any, catalog: Any) -> None:
    with table(spark, "db.meanwhile", version=2) as name:
        upgraded(spark, name)
        found = catalog.load_table(name)
        job = bound(found, OURS)
        rewrite = rewritten(found, job)
        spark.sql(f"INSERT INTO lake.{name} VALUES (61, 2, 'elsewhere')")
        before = lineage(spark, name)

        outcome = commit(catalog, job, rewrite)

        assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, Reason.CONFLICT), outcome
        assert lineage(spark, name) == before


@pytest.mark.spark
def test_ids_that_a_writer_gave_while_our_request_lost_its_race_refuse_it_too(
    spark: Any, catalog: Any
) -> None:
    """What the first attempt read of manifests is no longer all that their list says of them."""
    with table(spark, "db.race_of_ids", version=2) as name:
        upgraded(spark, name)
        found = catalog.load_table(name)
        job = bound(found, OURS)
        rewrite = rewritten(found, job)
        before: list[Any] = []

        def may_commit(_: Any) -> None:
            if not before:
                spark.sql(f"INSERT INTO lake.{name} VALUES (61, 2, 'elsewhere')")
                before.extend(lineage(spark, name))

        outcome = commit(catalog, job, rewrite, may_commit)

        assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, Reason.CONFLICT), outcome
        assert lineage(spark, name) == before


@pytest.mark.spark
@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("DELETE FROM lake.{name} WHERE id = 9", OutcomeKind.DONE),
        ("DELETE FROM lake.{name} WHERE id = 8", OutcomeKind.FAILED),
        ("UPDATE lake.{name} SET text = 'x' WHERE id = 9", OutcomeKind.DONE),
        ("CALL lake.system.rewrite_manifests('{name}')", OutcomeKind.DONE),
        (
            "CALL lake.system.expire_snapshots(table => '{name}', older_than => TIMESTAMP '2100-01-01', retain_last => 1)",
            OutcomeKind.DONE,
        ),
    ],
)
def test_what_comes_meanwhile_goes_first(spark: Any, catalog: Any, statement: str, kind: OutcomeKind) -> None:
    with table(spark, "db.race_three") as name:
        spark.sql(f"DELETE FROM lake.{name} WHERE id IN (2, 3)")
        found = catalog.load_table(name)
        job = bound(found, OURS)
        rewrite = rewritten(found, job)
        spark.sql(statement.format(name=name))
        before = lineage(spark, name)

        outcome = commit(catalog, job, rewrite)

        assert outcome.kind is kind, outcome
        assert lineage(spark, name) == before


@pytest.mark.spark
@pytest.mark.parametrize(
    "damage", ["a bit", "cut", "another length", "behind the end", "of more rows", "gone"]
)
def test_a_damaged_vector_is_named_and_nothing_is_committed(spark: Any, catalog: Any, damage: str) -> None:
    with table(spark, "db.damaged_three") as name:
        spark.sql(f"DELETE FROM lake.{name} WHERE id = 2")
        found = catalog.load_table(name)
        job = bound(found, OURS)
        (vector,) = job.deletion_vectors
        path = Path(normalised(vector.path))
        content = bytearray(path.read_bytes())
        start, end = vector.content_offset, vector.content_offset + vector.size_bytes
        match damage:
            case "a bit":
                content[end - 6] ^= 1
            case "cut":
                del content[end - 2 :]
            case "another length":
                content[start : start + 4] = struct.pack(">i", 7)
            case "behind the end" | "of more rows":
                content[start:end] = _blob([10**6] if damage == "behind the end" else [0, 1], end - start)
        path.unlink()
        if damage != "gone":
            path.write_bytes(content)

        refusal = attempt(job, described(found.metadata), found.catalog.properties)

        assert isinstance(refusal, Refusal)
        assert refusal.reason in (Reason.CORRUPT_FILE, Reason.MISSING_FILE)
        assert str(path) in refusal.why


def _blob(positions: list[int], size: int) -> bytes:
    body = bytes.fromhex("d1d33964") + BitMap64(positions).serialize()
    body += bytes(max(size - len(body) - 8, 0))
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def _step(spark: Any, name: str, chance: random.Random, number: int) -> None:
    """Something that a writer does, or another compactor."""
    some = ", ".join(str(chance.randrange(60 + 10 * number)) for _ in range(chance.randint(1, 5)))
    everything = "options => map('rewrite-all', 'true')"
    match chance.choice(("insert", "insert", "delete", "update", "merge", "manifests", "column", "data")):
        case "insert":
            rows = f"({1000 + number}, 1, 'i'), ({2000 + number}, 2, 'i')"
            spark.sql(f"INSERT INTO lake.{name} (id, part, text) VALUES {rows}")
        case "delete":
            spark.sql(f"DELETE FROM lake.{name} WHERE id IN ({some})")
        case "update":
            spark.sql(f"UPDATE lake.{name} SET text = 'u{number}' WHERE id IN ({some})")
        case "merge":
            spark.sql(
                f"MERGE INTO lake.{name} t USING (SELECT DISTINCT explode(array({some}, {3000 + number})) AS id) s ON t.id = s.id "
                f"WHEN MATCHED AND s.id % 3 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET text = 'm{number}' "
                "WHEN NOT MATCHED THEN INSERT (id, part, text) VALUES (s.id, 1, 'new')"
            )
        case "manifests":
            spark.sql(f"CALL lake.system.rewrite_manifests('{name}')")
        case "column":
            spark.sql(f"ALTER TABLE lake.{name} ADD COLUMN c{number} INT")
        case "data":
            spark.sql(
                f"CALL lake.system.rewrite_data_files(table => '{name}', where => 'part = 2', {everything})"
            )


@pytest.mark.spark
@pytest.mark.parametrize(("seed", "version"), [(0, 2), (1, 3), (2, 3)])
def test_whatever_happens_between_our_rewrites_no_row_and_no_id_changes(
    spark: Any, catalog: Any, seed: int, version: int
) -> None:
    chance = random.Random(seed)
    with table(spark, f"db.random_{seed}", version=version) as name:
        for number in range(15):
            _step(spark, name, chance, number)
            if number == 1 and version == 2:
                upgraded(spark, name)
            if number % 3 != 2:
                continue
            before, head = lineage(spark, name), catalog.load_table(name).metadata.current_snapshot_id

            compact_all(catalog, name)

            for row, other in zip(lineage(spark, name), before, strict=True):
                assert row == other if other[-2] is not None else row[:-2] == other[:-2]
            assert len(set(ids(spark, name))) == len(before)
            then = lineage(spark, f"{name} VERSION AS OF {head}")
            assert [row[0] for row in then] == [row[0] for row in before]
