"""Manifests that files leave are written anew by partition: the next job finds its own in one, and nothing else has changed."""

import random
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table

from isotherm.clients.catalog import open_catalog
from isotherm.clients.manifests.reading import Manifest, entries
from isotherm.core.model.jobs import OutcomeKind
from support.faults import FaultyCatalog
from support.head_files import live, manifests
from support.many_partitions import NAME, PARTS, append, catalog_of_eight, key, rows
from support.rewriting import bound, commit, compacted, fresh, rewritten
from support.spark import CATALOG


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    return catalog_of_eight(tmp_path)


def partitions(table: Table, manifest: Any) -> set[int]:
    found = entries(Manifest.read(table.io, manifest.manifest_path), manifest)
    return {one.data_file.partition[0] for one in found if one.status != ManifestEntryStatus.DELETED}


def test_no_file_is_another_and_each_partition_is_in_one_manifest(catalog: Any) -> None:
    table = catalog.load_table(NAME)
    before, had = live(table), rows(table)

    assert compacted(catalog, NAME, key(3)).kind is OutcomeKind.DONE

    after = live(table)
    theirs = {path: what for path, what in before.items() if "part=3" not in path}
    assert {path: what for path, what in after.items() if path in before} == theirs
    assert rows(table) == had
    found = [partitions(table, one) for one in manifests(table)]
    assert len(found) <= 6
    assert sum(map(len, found)) == len(set().union(*found)) == PARTS

    # The next one writes one of them anew, and no other.
    paths = {one.manifest_path for one in manifests(table)}
    assert compacted(catalog, NAME, key(4)).kind is OutcomeKind.DONE
    assert len(paths - {one.manifest_path for one in manifests(table)}) == 1
    assert rows(table) == had


def test_what_was_regrouped_for_a_lost_attempt_is_used_again(catalog: Any) -> None:
    table = catalog.load_table(NAME)
    job = bound(table, key(3))
    rewrite, written = rewritten(table, job), []
    folder = Path(table.metadata.location.removeprefix("file://")) / "metadata"

    def racing(real: Any, *arguments: Any) -> Any:
        written.append(sorted(path.name for path in folder.glob(f"*{job.job_id}-m*")))
        if len(written) == 1:
            append(catalog.load_table(NAME), [1], 900)
        return real(*arguments)

    assert commit(FaultyCatalog(catalog, racing), job, rewrite).kind is OutcomeKind.DONE
    assert written[1] == written[0]
    assert len(rows(table)) == 82


def test_what_left_meanwhile_does_not_come_back(catalog: Any) -> None:
    table = catalog.load_table(NAME)
    job = bound(table, key(3))
    rewrite, heads = rewritten(table, job), []

    def racing(real: Any, *arguments: Any) -> Any:
        heads.append(1)
        if len(heads) == 1:
            catalog.load_table(NAME).delete("part = 2")
        return real(*arguments)

    outcome = commit(FaultyCatalog(catalog, racing), job, rewrite)

    assert outcome.kind is OutcomeKind.DONE
    assert len(heads) == 2
    assert {part for _, part in rows(table)} == set(range(PARTS)) - {2}
    # What the first attempt wrote is named as left over.
    listed = {one.manifest_path for one in manifests(table)}
    assert not listed & set(outcome.leftovers)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_comes_and_goes_rows_and_files_of_others_stay(catalog: Any, seed: int) -> None:
    dice, table, first = random.Random(seed), catalog.load_table(NAME), 1000
    for _ in range(8):
        what = dice.choice(["append", "append", "delete", "compact", "compact", "compact"])
        part = dice.randrange(PARTS)
        if what == "append":
            append(table.refresh(), dice.sample(range(PARTS), dice.randint(1, PARTS)), first)
            first += 100
        elif what == "delete":
            table.refresh().delete(f"part = {part}")
        else:
            before, had = live(table), rows(table)
            if sum(f"part={part}/" in path for path in before) < 2:
                continue
            assert compacted(catalog, NAME, key(part)).kind is OutcomeKind.DONE
            after = live(table)
            assert {path: after.get(path) for path in before if f"part={part}/" not in path} == {
                path: one for path, one in before.items() if f"part={part}/" not in path
            }
            assert rows(table) == had
    with_deletes = [
        one for one in manifests(table) if (one.deleted_files_count or 0) + (one.existing_files_count or 0)
    ]
    assert len({one.manifest_path for one in with_deletes}) == len(with_deletes)


@pytest.mark.spark
@pytest.mark.parametrize("version", ["2", "3"])
def test_spark_reads_the_same_rows_and_row_ids_and_writes_on(
    spark: Any, lake_folder: Any, version: str
) -> None:
    lake = open_catalog(CATALOG, lake_folder.pyiceberg_properties, 60)
    ids = ", _row_id, _last_updated_sequence_number" if version == "3" else ""

    def read(name: str) -> list[Any]:
        return [tuple(row) for row in spark.sql(f"SELECT *{ids} FROM lake.{name} ORDER BY id").collect()]

    with fresh(spark, "db.regrouped", "id BIGINT, part INT", "PARTITIONED BY (part)") as name:
        some = f"INSERT INTO lake.{name} SELECT id, CAST(id % 6 AS INT) FROM range({{}}, {{}}, 1, 1)"
        spark.sql(some.format(0, 30))
        spark.sql(some.format(30, 60))
        # In format 3 these two have no row ids before the first commit of that version.
        spark.sql(f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('format-version' = '{version}')")
        for start in range(60, 150, 30):
            spark.sql(some.format(start, start + 30))
        spark.sql(f"DELETE FROM lake.{name} WHERE id IN (7, 68, 100)")
        before = read(name)
        for part in (2, 3, 4):
            outcome = compacted(lake, name, key(part))
            assert outcome.kind is OutcomeKind.DONE, outcome
            assert read(name) == before
        found = spark.sql(f"SELECT path FROM lake.{name}.manifests WHERE content = 0").collect()
        assert len(found) <= 8
        spark.sql(f"DELETE FROM lake.{name} WHERE part = 1 OR id = 20")
        spark.sql(some.format(150, 180))
        kept = [row for row in before if row[1] != 1 and row[0] != 20]
        assert [row for row in read(name) if row[0] < 150] == kept
