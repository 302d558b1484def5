"""What a search finds in a table's folders, against what Spark's own removal of orphans would delete."""

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from isotherm.clients.listing import StoredFile, files_below
from isotherm.contract.paths import folder
from isotherm.core.deletion import Cause, Mark, Neighbours, Seen, own_folders
from isotherm.core.model.refusals import Reason
from isotherm.core.orphan_findings import Refused, quarantine_text
from isotherm.core.quarantine import FOLDER
from isotherm.iceberg import orphan_search
from isotherm.iceberg.orphan_search import Others, find
from isotherm.iceberg.remover import sweep
from isotherm.iceberg.stopping import Stopped, never
from isotherm.iceberg.values import loaded_table
from isotherm.runtime.clock import now_ms
from isotherm.service.ports import Sweep
from support.lab import uuid_of
from support.object_store import Fault
from support.search_alone import DAY_MS, START_S, found, put, search_of

IN_QUARANTINE = (f"{FOLDER}/job/data/at_day=2026-01-01/q.parquet", f"{FOLDER}/job/metadata/q-m0.avro")
NAMES = (
    "data/a.parquet",
    "data/at_hour=2026-01-01-01/b.parquet",
    "metadata/c-m0.avro",
    "data/x/y/z/d.parquet",
)


@pytest.mark.spark
@pytest.mark.parametrize("version", [1, 2, 3])
def test_it_finds_what_spark_would_remove(spark, lake, version):
    """Upserts, a rollback, a branch, a tag, statistics, an expiry that left its files, and files that nobody knows."""
    name, mode = f"orphans.of_spark_{version}", "merge-on-read" if version > 1 else "copy-on-write"
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.orphans")
    spark.sql(
        f"CREATE TABLE lake.{name} (id BIGINT, at TIMESTAMP) USING iceberg PARTITIONED BY (days(at)) "
        f"TBLPROPERTIES ('format-version'='{version}', 'write.delete.mode'='{mode}')"
    )
    for day in (1, 2, 3):
        spark.sql(
            f"INSERT INTO lake.{name} VALUES ({day}, TIMESTAMP '2026-01-0{day} 00:00:00'), (9, TIMESTAMP '2026-01-01')"
        )
    first = spark.sql(f"SELECT snapshot_id FROM lake.{name}.snapshots ORDER BY committed_at").first()[0]
    spark.sql(f"ALTER TABLE lake.{name} CREATE TAG kept AS OF VERSION {first}")
    spark.sql(f"ALTER TABLE lake.{name} CREATE BRANCH aside")
    spark.sql(f"INSERT INTO lake.{name}.branch_aside VALUES (100, TIMESTAMP '2026-01-05')")
    spark.sql(f"DELETE FROM lake.{name} WHERE id = 9 AND at = TIMESTAMP '2026-01-01'")
    spark.sql(f"CALL lake.system.compute_table_stats('{name}')")
    spark.sql(
        f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('min-input-files', '1', 'rewrite-all', 'true'))"
    )
    table = lake.load_table(name)
    put(table, *NAMES, *IN_QUARANTINE)
    # Snapshots go, and the files that only they had stay: of a job that crashed in between.
    java = spark.sparkContext._jvm.org.apache.iceberg.spark.Spark3Util
    java = java.loadIcebergTable(spark._jsparkSession, f"lake.{name}")
    java.expireSnapshots().expireOlderThan(now_ms()).cleanExpiredFiles(False).commit()
    for path in Path(table.metadata.location.removeprefix("file://")).rglob("*"):
        os.utime(path, (START_S, START_S))  # Spark looks at nothing that is younger than a day
    said = spark.sql(f"CALL lake.system.remove_orphan_files(table => '{name}', dry_run => true)").collect()
    theirs = {Path(one[0].removeprefix("file:")) for one in said}
    ours = {
        Path(one.path.removeprefix("file://")) for one in found(table.refresh(), ahead_ms=-3 * DAY_MS).orphans
    }

    assert len(ours) > len(NAMES)
    assert not any(FOLDER in str(path) for path in theirs)
    # Versions of the metadata are not looked for here.
    assert ours == {path for path in theirs if not path.name.endswith(".metadata.json")}


def test_a_store_lists_what_lies_in_its_folders(on_s3):
    lab, store = on_s3
    table = lab.create()
    for hour in (1, 2, 3):
        lab.append(table, hour)
    put(table, *NAMES, "data/_hidden/e.parquet", "elsewhere/f.parquet")
    store.faults += [Fault("GET", "list-type=2", 2)]

    result = found(table.refresh())

    assert {one.path.removeprefix(f"{table.metadata.location}/") for one in result.orphans} == set(NAMES)
    assert {one.size_bytes for one in result.orphans} == {len(b"nobody knows me")}
    # Three of each: data files, manifests, manifest lists; and the four.
    assert (result.listed, result.files, result.bytes) == (13, 4, 60)
    assert found(table, ahead_ms=-DAY_MS).files == 0


def test_a_store_that_does_not_answer_is_no_folder_without_files(on_s3):
    lab, store = on_s3
    table = lab.create()
    lab.append(table, 1)
    put(table, *NAMES)
    store.faults += [Fault("GET", "list-type=2", 1000, "403")]

    result = find(table.refresh(), search_of(table))

    assert isinstance(result, Refused)
    assert result.refusal.reason is Reason.STORAGE


def test_a_quarantine_that_may_not_be_listed_keeps_no_orphan_from_being_found(on_s3):
    lab, store = on_s3
    table = lab.create()
    lab.append(table, 1)
    put(table, *NAMES, *IN_QUARANTINE)
    result = found(table.refresh())
    assert {one.path.removeprefix(f"{table.metadata.location}/") for one in result.quarantine} == {
        *IN_QUARANTINE
    }
    store.faults += [Fault("GET", FOLDER, 1000, "403")]

    result = found(table, quarantined=frozenset({f"s3://x/{FOLDER}/j/data/{name_of_a_file(table)}"}))
    assert (result.files, result.quarantine, result.is_whole) == (len(NAMES), None, False)
    assert "ACCESS_DENIED" in result.why_not
    # What the ledger knows is compared all the same.
    assert result.needed_again == {name_of_a_file(table)}


def name_of_a_file(table):
    """One of the table's."""
    return table.inspect.files()["file_path"].to_pylist()[0].rpartition("/")[2]


def test_a_search_tells_what_the_table_misses_of_what_is_in_quarantine(on_disk):
    table = on_disk.create()
    on_disk.append(table, 1)
    name = name_of_a_file(table.refresh())
    put(table, f"{FOLDER}/j/data/{name}", f"{FOLDER}/j/data/other/{name}", *IN_QUARANTINE)
    (path,) = table.inspect.files()["file_path"].to_pylist()
    put(table, f"data/other/{name}")
    result = found(table)
    # The table has its file where it names it: those two are others of its name.
    assert (result.needed_again, result.missed) == ({name}, set())

    Path(path.removeprefix("file://")).unlink()
    right, other = (f"{table.metadata.location}/{FOLDER}/j/data/{part}{name}" for part in ("", "other/"))
    assert found(table).missed == {right}
    Path(f"{table.metadata.location}/data/other/{name}".removeprefix("file://")).unlink()
    assert found(table).missed == {right, other}


def test_what_another_table_keeps_in_quarantine_is_told(on_disk):
    table = on_disk.create()
    on_disk.append(table, 1)
    name = name_of_a_file(table.refresh())
    (path,) = table.inspect.files()["file_path"].to_pylist()
    put(table, f"{FOLDER}/j/data/x/{name}", f"{FOLDER}/j/data/y/{name}")
    Path(path.removeprefix("file://")).unlink()
    claim = folder(f"{table.metadata.location}/data/x")

    result = found(table, others=frozenset({claim}))

    place = f"{table.metadata.location}/{FOLDER}/j/data/x/{name}"
    assert (len(result.missed), result.claimed) == (2, {place: claim})
    said = "; 2 files in quarantine are needed where they were, and 1 of them stays: another table claims "
    assert quarantine_text(result) == f"{said}{claim}"


def test_what_came_between_the_two_listings_is_not_found(on_disk, monkeypatch):
    table = on_disk.create()
    on_disk.append(table, 1)
    put(table, "data/before.parquet")
    listed = []

    def files(io, folder):
        if len(listed) == 2:  # both folders
            put(table, "data/meanwhile.parquet")
        listed.append(folder)
        return files_below(io, folder)

    monkeypatch.setattr(orphan_search, "files_below", files)

    assert [one.path.rpartition("/")[2] for one in found(table.refresh()).orphans] == ["before.parquet"]


def test_what_shows_only_at_the_second_listing_that_a_folder_is_anothers_keeps_its_files(
    on_disk, monkeypatch
):
    table = on_disk.create()
    on_disk.append(table, 1)
    put(table, "data/a/theirs.parquet", "data/b/mine.parquet")
    listed = []

    def files(io, folder):
        if len(listed) == 2:  # both folders
            put(table, "data/a/_delta_log/0.json")
        listed.append(folder)
        return reversed(list(files_below(io, folder)))

    monkeypatch.setattr(orphan_search, "files_below", files)
    result = found(table.refresh())

    assert (result.files, [one.path.rpartition("/")[2] for one in result.orphans]) == (1, ["mine.parquet"])


def test_while_it_goes_through_what_a_store_lists_together_it_is_asked_whether_to_stop(on_disk, monkeypatch):
    table = on_disk.create()
    on_disk.append(table, 1)
    many = [StoredFile(f"{number}.parquet", 1, 1) for number in range(10_000)]
    asked, listed = [], []

    def files(io, folder):
        listed.append(folder)
        return iter([many])

    monkeypatch.setattr(orphan_search, "files_below", files)

    def is_stopped():
        asked.append(True)
        return len(asked) == 5

    with pytest.raises(Stopped):
        find(table, search_of(table), is_stopped)
    assert len(listed) == 1, "within the first folder"


def test_of_another_tables_folder_all_that_lies_in_it_is_its_own_and_nothing_beside_it():
    others = Others("s3a://lake/shop/orders/")
    others.add("data/t1/metadata/v1.metadata.json")
    others.add("data/x/_delta_log/0.json")

    assert all(f"s3://lake/shop/orders/data/{name}" in others for name in ("t1/a", "t1/b/c", "x/a"))
    assert not any(f"s3://lake/shop/orders/data/{name}" in others for name in ("t10/a", "t1", "a", "y/x/a"))


def test_the_file_that_tells_a_stores_time_is_found_where_it_may_not_be_deleted(on_s3):
    lab, store = on_s3
    table = lab.create()
    lab.append(table, 1)
    store.faults += [Fault("DELETE", "isotherm-clock-", 1000, "403")]
    with suppress(Exception):
        lab.maintainer(lab.executor).clock_skew_ms(loaded_table(table.refresh(), "shop.orders"))

    (left,) = found(table).orphans

    assert "/metadata/isotherm-clock-" in left.path


def test_a_file_that_was_written_again_stays(on_s3):
    """A stream that begins an epoch once more gives its files the names of before."""
    lab, _ = on_s3
    table = lab.create()
    lab.append(table, 1)
    put(table, "data/old.parquet")
    path = f"{table.refresh().metadata.location}/data/old.parquet"
    neighbours = Neighbours(own_folders(table.metadata.location, (), ("shop", "orders")))
    wanted = Sweep(uuid_of(table), (Mark(path, "job", Cause.ORPHAN, Seen(1, 1)),), {}, neighbours)

    kept = sweep(table, replace(wanted, before_ms={Cause.ORPHAN: now_ms() - DAY_MS}), never)
    gone = sweep(table, replace(wanted, before_ms={Cause.ORPHAN: now_ms() + DAY_MS}), never)

    assert kept.kept[path].reason == "young"
    assert gone.gone == (path,)


def test_a_file_that_is_written_again_while_others_are_proved_stays(on_disk):
    table = on_disk.create()
    on_disk.append(table, 1)
    put(table, "data/old.parquet")
    path = f"{table.refresh().metadata.location}/data/old.parquet"
    file, before_ms = Path(path.removeprefix("file://")), now_ms() + 50
    neighbours = Neighbours(own_folders(table.metadata.location, (), ("shop", "orders")))
    wanted = Sweep(uuid_of(table), (Mark(path, "job", Cause.ORPHAN, Seen(1, 1)),), {}, neighbours)
    wanted = replace(wanted, before_ms={Cause.ORPHAN: before_ms})

    class Catalog:
        """The last look at the table is the moment."""

        def load_table(self, name):
            while file.stat().st_mtime_ns < before_ms * 1_000_000:
                file.write_bytes(b"of a stream that began once more")
            return on_disk.catalog.load_table(name)

    table.catalog = Catalog()

    swept = sweep(table, wanted, never)

    assert swept.postponed == {path: "it was written again since it was looked at"}


def test_only_files_that_writers_of_iceberg_make_are_orphans(on_disk):
    table = on_disk.create()
    on_disk.append(table, 1)
    put(table, "data/raw/2026.csv", "data/raw/2026.parquet", "data/_SUCCESS")

    assert [one.path.rpartition("/")[2] for one in found(table.refresh()).orphans] == ["2026.parquet"]
