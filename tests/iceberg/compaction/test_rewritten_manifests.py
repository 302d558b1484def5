"""A table's manifests become fewer: every file is there as it was, and nobody's commit or row is lost."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.types import LongType

from isotherm.clients.catalog import open_catalog
from isotherm.clients.manifests.reading import Manifest, entries
from isotherm.contract.identity import PartitionKey
from isotherm.core.model.jobs import CompactionJob, Outcome, OutcomeKind
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.commit_outcome import settled
from isotherm.iceberg.compaction.committer import commit_manifests
from isotherm.iceberg.values import loaded_table
from support.equality import delete_by, keys
from support.faults import FaultyCatalog
from support.head_files import live, manifests
from support.manifests_of_commits import append, three_parts
from support.rewriting import (
    COLUMNS,
    NOW_MS,
    SOME,
    always,
    bound,
    commit,
    compacted,
    counters,
    fresh,
    job_on,
    of_each,
    partitions,
    rewritten,
    rows,
    swept,
)
from support.spark import CATALOG

NAME, OURS = "db.t", PartitionKey('{"1000":1}')


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    """A table that nobody merges manifests of, with twelve commits to three partitions."""
    catalog = three_parts(tmp_path)
    table = catalog.load_table(NAME)
    for number in range(12):
        append(table, number % 3, number)
    return catalog


def rewrite(catalog: Any, job: CompactionJob, may_commit: Any = always) -> Outcome:
    return commit_manifests(catalog, job, of_each(may_commit), NOW_MS, pause=lambda _: None)


def ids(table: Table) -> list[int]:
    found: list[int] = table.refresh().scan().to_arrow()["id"].to_pylist()
    return sorted(found)


def test_every_file_is_there_as_it_was_in_one_manifest(catalog: Any) -> None:
    table = catalog.load_table(NAME)
    before, read, head = live(table), ids(table), table.metadata.current_snapshot()
    job = job_on(table)

    outcome = rewrite(catalog, job)

    assert (outcome.kind, outcome.leftovers) == (OutcomeKind.DONE, ())
    assert live(table) == before
    assert ids(table) == read
    (one,) = manifests(table)
    assert (one.existing_files_count, one.added_files_count, one.deleted_files_count) == (12, 0, 0)
    assert (one.sequence_number, one.min_sequence_number) == (13, 1)
    snapshot = table.metadata.current_snapshot()
    assert snapshot.parent_snapshot_id == head.snapshot_id
    said = snapshot.summary.additional_properties
    assert snapshot.summary.operation.value == "replace"
    counted = {name: said[name] for name in said if "manifests" in name or name.endswith("-processed")}
    assert counted == {
        "manifests-created": "1",
        "manifests-kept": "0",
        "manifests-replaced": "12",
        "entries-processed": "12",
    }
    assert (said["changed-partition-count"], said["isotherm.job-id"]) == ("0", job.job_id)
    totals = {name: value for name, value in said.items() if name.startswith("total-")}
    assert totals == {
        name: value for name, value in head.summary.additional_properties.items() if name.startswith("total-")
    }
    # Who comes later reads, writes, deletes and compacts as before.
    append(table, 1, 12)
    catalog.load_table(NAME).delete("part = 2")
    assert compacted(catalog, NAME, OURS).kind is OutcomeKind.DONE
    assert ids(table) == [one for one in range(130) if one // 10 == 12 or one // 10 % 3 != 2]


def test_what_is_one_already_is_left_alone(catalog: Any) -> None:
    table = catalog.load_table(NAME)
    assert rewrite(catalog, job_on(table)).kind is OutcomeKind.DONE
    head, job = table.refresh().metadata.current_snapshot_id, job_on(table.refresh())

    outcome = rewrite(catalog, job)

    assert (outcome.kind, outcome.reason, outcome.was_sent) == (
        OutcomeKind.FAILED,
        Reason.NOTHING_TO_DO,
        False,
    )
    assert table.refresh().metadata.current_snapshot_id == head


def test_manifests_that_only_say_what_left_are_dropped(catalog: Any) -> None:
    table = catalog.load_table(NAME)
    assert rewrite(catalog, job_on(table)).kind is OutcomeKind.DONE
    table.refresh().delete("part = 2")
    append(table.refresh(), 0, 12)
    before = live(table)

    assert rewrite(catalog, job_on(table.refresh())).kind is OutcomeKind.DONE

    assert live(table) == before
    (one,) = manifests(table)
    assert (one.existing_files_count, one.deleted_files_count) == (9, 0)


HAPPENINGS: dict[str, Callable[[Table], Any]] = {
    "append": lambda table: append(table, 1, 12),
    "delete of rows": lambda table: table.delete("part == 1 and id < 15"),
    "delete of a partition": lambda table: table.delete("part == 1"),
    "compaction": lambda table: compacted(table.catalog, NAME, OURS),
    "another rewrite": lambda table: rewrite(table.catalog, job_on(table)),
    "expiry of the base": lambda table: (
        append(table, 2, 12),
        table.refresh()
        .maintenance.expire_snapshots()
        .by_ids([one.snapshot_id for one in table.metadata.snapshots[:-1]])
        .commit(),
    ),
    "rollback": lambda table: (
        table.manage_snapshots().rollback_to_snapshot(table.metadata.snapshots[5].snapshot_id).commit()
    ),
    "schema change": lambda table: table.update_schema().add_column("more", LongType()).commit(),
    "tag": lambda table: (
        table.manage_snapshots().create_tag(table.metadata.current_snapshot_id, "t").commit()
    ),
}


@pytest.mark.parametrize("what", HAPPENINGS)
@pytest.mark.parametrize("when", ["before the commit", "in the race"])
def test_whatever_others_do_stands_and_no_file_comes_or_leaves(catalog: Any, what: str, when: str) -> None:
    table = catalog.load_table(NAME)
    job, seen = job_on(table), list[Any]()

    def foreign() -> None:
        if not seen:
            HAPPENINGS[what](catalog.load_table(NAME))
            seen.extend([live(table), ids(table), len(manifests(table))])

    def racing(real: Any, *arguments: Any) -> Any:
        foreign()
        return real(*arguments)

    if when == "before the commit":
        foreign()
    outcome = rewrite(FaultyCatalog(catalog, racing), job)

    assert live(table) == seen[0]
    assert ids(table) == seen[1]
    if what == "another rewrite" and when == "before the commit":
        assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, Reason.NOTHING_TO_DO)
    elif when == "in the race" and what in ("another rewrite", "rollback"):
        assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, Reason.CONFLICT)
    else:
        assert outcome.kind is OutcomeKind.DONE
        assert len(manifests(table)) < seen[2] or seen[2] == 1
    # What the attempts left behind goes, and nothing else.
    gone = swept(table.refresh(), job, outcome).gone
    assert set(gone) == set(outcome.leftovers)
    assert ids(table) == seen[1]


def test_what_was_written_for_a_lost_attempt_is_used_again(catalog: Any) -> None:
    table = catalog.load_table(NAME)
    job, times = job_on(table), []
    folder = Path(table.metadata.location.removeprefix("file://")) / "metadata"

    def racing(real: Any, *arguments: Any) -> Any:
        times.append(sorted(path.name for path in folder.glob(f"*{job.job_id}-m*")))
        if len(times) < 3:
            append(catalog.load_table(NAME), 2, 11 + len(times))
        return real(*arguments)

    assert rewrite(FaultyCatalog(catalog, racing), job).kind is OutcomeKind.DONE
    assert times == [times[0]] * 3
    # What came meanwhile waits for the next one.
    assert len(manifests(table)) == 3
    assert ids(table) == list(range(140))


def test_nothing_is_sent_where_the_last_look_says_no(catalog: Any) -> None:
    table = catalog.load_table(NAME)
    head, job = table.metadata.current_snapshot_id, job_on(table)

    outcome = rewrite(catalog, job, lambda _: Refusal(Reason.PAUSED, "paused"))

    assert (outcome.kind, outcome.reason, outcome.was_sent) == (OutcomeKind.FAILED, Reason.PAUSED, False)
    assert table.refresh().metadata.current_snapshot_id == head
    assert len(outcome.leftovers) == 2


def test_main_does_not_move_while_a_branch_waits_to_be_published(catalog: Any) -> None:
    table = catalog.load_table(NAME)
    head = table.metadata.current_snapshot_id
    table.manage_snapshots().create_branch(head, "audit").commit()
    ids_of_branch = pa.table({"id": [999], "part": pa.array([1], pa.int32()), "text": ["x"]})
    table.refresh().append(ids_of_branch, branch="audit")
    newest = max(one.timestamp_ms for one in table.refresh().metadata.snapshots)

    outcome = commit_manifests(
        catalog, job_on(table.refresh()), of_each(always), newest + 1, pause=lambda _: None
    )

    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, Reason.STAGED)
    assert table.refresh().metadata.current_snapshot_id == head


@pytest.mark.parametrize("has_landed", [True, False])
def test_an_answer_that_is_lost_is_looked_up(catalog: Any, *, has_landed: bool) -> None:
    table = catalog.load_table(NAME)
    job, before = job_on(table), live(table)

    def cut(real: Any, *arguments: Any) -> Any:
        if has_landed:
            real(*arguments)
        raise ConnectionError("cut")

    outcome = rewrite(FaultyCatalog(catalog, cut), job)

    assert live(table) == before
    if has_landed:
        assert outcome.kind is OutcomeKind.DONE
    else:
        assert outcome.kind is OutcomeKind.UNKNOWN
    found = settled(
        lambda name: loaded_table(catalog.load_table(name), name),
        [NAME],
        job,
        outcome.asserted_head_id,
        may_land=True,
    )
    assert (found.kind if found else None) == (OutcomeKind.DONE if has_landed else None)


def damage(*damaged: ManifestFile) -> None:
    for one in damaged:
        path = Path(one.manifest_path.removeprefix("file://"))
        path.write_bytes(path.read_bytes()[:-200])


def test_manifests_that_are_damaged_stay_and_are_named_and_all_others_become_one(
    catalog: Any,
) -> None:
    table = catalog.load_table(NAME)
    bad = [one for one in manifests(table) if (one.sequence_number or 0) % 3 == 0]
    damage(*bad)

    outcome = rewrite(catalog, job_on(table))

    assert outcome.kind is OutcomeKind.DONE
    assert f"; {min(one.manifest_path for one in bad)[:20]}" in outcome.why
    assert "and 3 more stay as they are: UnreadableError" in outcome.why
    left = manifests(table)
    assert {one.manifest_path for one in bad} < {one.manifest_path for one in left}
    assert [one.existing_files_count for one in left if one not in bad and one.existing_files_count] == [8]
    assert len(left) == 5


def test_where_all_are_damaged_nothing_is_committed(catalog: Any) -> None:
    table = catalog.load_table(NAME)
    damage(*manifests(table))
    head = table.metadata.current_snapshot_id

    outcome = rewrite(catalog, job_on(table))

    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, Reason.UNEXPECTED)
    assert "stay as they are: UnreadableError" in outcome.why
    assert table.refresh().metadata.current_snapshot_id == head


def numbers_of(table: Table) -> list[int | None]:
    """The sequence number of each entry at the head, as a manifest or its list says it."""
    found = manifests(table)
    return [
        entry.sequence_number
        for one in found
        for entry in entries(Manifest.read(table.io, one.manifest_path), one)
    ]


@pytest.mark.parametrize("later", [0, 3])
def test_a_table_that_was_upgraded_has_its_manifests_rewritten(tmp_path: Path, later: int) -> None:
    """What version 1 does not say of an entry is the same as what version 2 says."""
    catalog = three_parts(tmp_path, **{"format-version": "1"})
    for number in range(6):
        append(catalog.load_table(NAME), number % 3, number)
    upgrade(catalog)
    for number in range(6, 6 + later):
        append(catalog.load_table(NAME), number % 3, number)
    table = catalog.load_table(NAME)
    before, read = live(table), ids(table)

    outcome = rewrite(catalog, job_on(table))

    assert (outcome.kind, len(manifests(table))) == (OutcomeKind.DONE, 1), outcome
    assert (live(table), ids(table)) == (before, read)


def upgrade(catalog: Any) -> None:
    with catalog.load_table(NAME).transaction() as transaction:
        transaction.upgrade_table_version(2)


@pytest.mark.parametrize("what", ["manifests", "files"])
@pytest.mark.parametrize("is_written_to", [False, True])
def test_what_was_written_before_an_upgrade_is_not_used_after_it(
    tmp_path: Path, what: str, *, is_written_to: bool
) -> None:
    """Manifests of version 1 name no numbers, and in a list of version 2 theirs would be missing: Spark reads no row then."""
    catalog = three_parts(tmp_path, **{"format-version": "1"})
    for number in range(6):
        append(catalog.load_table(NAME), number % 3, number)
    table, times = catalog.load_table(NAME), []
    job = job_on(table) if what == "manifests" else bound(table, OURS)
    written = None if what == "manifests" else rewritten(table, job)

    def racing(real: Any, *arguments: Any) -> Any:
        if not times:
            times.append(1)
            upgrade(catalog)
            if is_written_to:
                append(catalog.load_table(NAME), 2, 6)
        return real(*arguments)

    faulty = FaultyCatalog(catalog, racing)
    outcome = rewrite(faulty, job) if written is None else commit(faulty, job, written)

    assert outcome.kind is OutcomeKind.DONE
    assert None not in numbers_of(table.refresh())
    assert ids(table) == list(range(70 if is_written_to else 60))
    gone = swept(table.refresh(), job, outcome).gone
    assert set(gone) == set(outcome.leftovers) != set()
    assert ids(table) == list(range(70 if is_written_to else 60))


class Tampered:
    """A store that keeps another thing than it was given: of a manifest that was written, when it is read back."""

    def __init__(self, io: Any) -> None:
        self.io, self.opened = io, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.io, name)

    def new_input(self, location: str) -> Any:
        self.opened[location] += 1
        if "/isotherm-" in location and self.opened[location] == 2:
            path = Path(location.removeprefix("file://"))
            path.write_bytes(path.read_bytes().replace(b"/part=", b"/pert=", 1))
        return self.io.new_input(location)


def test_what_reads_back_otherwise_is_not_committed(catalog: Any) -> None:
    table = catalog.load_table(NAME)
    with table.transaction() as transaction:
        transaction.set_properties({"write.avro.compression-codec": "uncompressed"})
    head, job = table.refresh().metadata.current_snapshot_id, job_on(table)

    def tampered(real: Any, *arguments: Any) -> Any:
        loaded = real(*arguments)
        loaded.io = Tampered(loaded.io)
        return loaded

    outcome = rewrite(FaultyCatalog(catalog, on_load=tampered), job)

    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, Reason.UNEXPECTED)
    assert "does not say what they say" in outcome.why
    assert table.refresh().metadata.current_snapshot_id == head


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
        for start in range(0, 60, 10):
            spark.sql(f"INSERT INTO lake.{name} " + SOME.format(start, start + 10))
            id_ = ("id", pa.int64(), 1)
            delete_by(spark, name, tmp_path, keys(id_, rows=[(start - 9,), (start - 3,)]), [1], "flag=false")
            spark.sql(f"DELETE FROM lake.{name} WHERE id = {start + 5}")
        # A partition field more: manifests of two specs are never one.
        spark.sql(f"ALTER TABLE lake.{name} ADD PARTITION FIELD bucket(2, id)")
        for start in range(60, 100, 10):
            spark.sql(f"INSERT INTO lake.{name} " + SOME.format(start, start + 10))
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
