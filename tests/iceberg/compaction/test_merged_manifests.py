"""A commit that swaps files merges small manifests along: every file is there as it was, in fewer of them."""

from pathlib import Path
from typing import Any

import pytest

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.jobs import OutcomeKind
from isotherm.iceberg.compaction.replaced_manifests import ReplacedManifests
from isotherm.iceberg.manifests.writing import write_manifest_list
from support.equality import with_deletes_and_two_specs
from support.faults import FaultyCatalog
from support.head_files import live, manifests
from support.manifests_of_commits import append, three_parts
from support.rewriting import COLUMNS, bound, commit, compacted, counters, fresh, rewritten, rows

NAME, OURS = "db.t", PartitionKey('{"1000":1}')


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    """A table with nine commits, of which three wrote the partition that is compacted."""
    catalog = three_parts(tmp_path, **{"commit.manifest.min-count-to-merge": "4"})
    table = catalog.load_table(NAME)
    for number in range(9):
        append(table, number % 3, number)
    return catalog


def test_every_file_is_there_as_it_was_in_fewer_manifests(catalog: Any) -> None:
    table = catalog.load_table(NAME)
    before, text = live(table), sorted(table.scan().to_arrow()["id"].to_pylist())

    outcome = compacted(catalog, NAME, OURS)

    assert outcome.kind is OutcomeKind.DONE
    after = live(table)
    theirs = {path: said for path, said in before.items() if "part=1" not in path}
    assert len(theirs) == 6
    assert {path: said for path, said in after.items() if path in before} == theirs
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == text
    found = manifests(table)
    # Ours, what the three that lost a file became, and one of six.
    (merged,) = [one for one in found if one.existing_files_count == 6]
    assert [one.sequence_number for one in found] == [10] * len(found)
    assert merged.min_sequence_number == 1
    assert sorted(
        (one.added_files_count, one.existing_files_count, one.deleted_files_count) for one in found
    ) == [(0, 0, 3), (0, 6, 0), (1, 0, 0)]
    # Whoever goes on writes and reads as before.
    append(table, 1, 9)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(100))


def test_what_was_merged_for_a_lost_attempt_is_used_again(catalog: Any) -> None:
    table = catalog.load_table(NAME)
    job = bound(table, OURS)
    rewrite, times = rewritten(table, job), []
    folder = Path(table.metadata.location.removeprefix("file://")) / "metadata"

    def racing(real: Any, *arguments: Any) -> Any:
        times.append(sorted(path.name for path in folder.glob(f"*{job.job_id}-m*")))
        if len(times) == 1:
            append(catalog.load_table(NAME), 2, 9)
        return real(*arguments)

    outcome = commit(FaultyCatalog(catalog, racing), job, rewrite)

    assert outcome.kind is OutcomeKind.DONE
    # What came meanwhile waits for the next commit.
    assert times[1] == times[0]
    assert len(table.refresh().scan().to_arrow()) == 100
    assert [one for one in outcome.leftovers if "-m" in one] == []


def test_a_stream_that_commits_while_manifests_are_merged_wins_one_race(
    catalog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.load_table(NAME)
    job = bound(table, OURS)
    rewrite, numbers, real = rewritten(table, job), iter(range(9, 99)), ReplacedManifests._one_of  # noqa: SLF001

    def slow(self: ReplacedManifests, *arguments: Any) -> Any:
        append(catalog.load_table(NAME), 2, next(numbers))
        return real(self, *arguments)

    monkeypatch.setattr(ReplacedManifests, "_one_of", slow)

    assert commit(catalog, job, rewrite).kind is OutcomeKind.DONE
    assert len(table.refresh().scan().to_arrow()) == 100
    assert next(numbers) == 10


def test_what_left_while_manifests_were_merged_does_not_come_back(catalog: Any) -> None:
    table = catalog.load_table(NAME)
    job = bound(table, OURS)
    rewrite, heads = rewritten(table, job), []

    def racing(real: Any, *arguments: Any) -> Any:
        heads.append(table.refresh().metadata.current_snapshot_id)
        if len(heads) == 1:
            catalog.load_table(NAME).delete("part = 2")
        return real(*arguments)

    assert commit(FaultyCatalog(catalog, racing), job, rewrite).kind is OutcomeKind.DONE
    assert len(heads) == 2
    assert set(table.refresh().scan().to_arrow()["part"].to_pylist()) == {0, 1}
    assert len(table.scan().to_arrow()) == 60


def test_a_damaged_manifest_of_others_stays_where_it_is(catalog: Any) -> None:
    table = catalog.load_table(NAME)
    job = bound(table, OURS)
    rewrite = rewritten(table, job)
    others = [one for one in manifests(table) if one.sequence_number == 3]
    (path,) = (Path(one.manifest_path.removeprefix("file://")) for one in others)
    # Its summary says that it holds nothing of this partition.
    path.write_bytes(path.read_bytes()[:-200])

    outcome = commit(catalog, job, rewrite)

    assert outcome.kind is OutcomeKind.DONE
    assert [one.manifest_path for one in others] == [
        one.manifest_path for one in manifests(table) if one.manifest_path == others[0].manifest_path
    ]
    assert len(manifests(table)) == 8
    assert "stay as they are: UnreadableError" in outcome.why


def test_a_manifest_that_is_listed_twice_stays_twice(catalog: Any) -> None:
    table = catalog.load_table(NAME)
    found = manifests(table)
    # Where six of the other partitions are one, a seventh is left over.
    size = {"commit.manifest.target-size-bytes": str(sum(one.manifest_length for one in found[:6]) + 100)}
    with table.transaction() as transaction:
        transaction.set_properties(size)
    head = table.metadata.current_snapshot()
    assert head is not None
    Path(head.manifest_list.removeprefix("file://")).unlink()
    write_manifest_list(
        table.io, table.metadata, head.manifest_list, head.snapshot_id, 1, 9, [*found, found[0]]
    )
    assert len(table.scan().to_arrow()) == 100

    assert compacted(catalog, NAME, OURS).kind is OutcomeKind.DONE
    assert len(table.refresh().scan().to_arrow()) == 100


def test_manifests_whose_list_counts_other_files_stay_where_they_are(catalog: Any) -> None:
    table = catalog.load_table(NAME)
    head, listed = table.metadata.current_snapshot(), manifests(table)
    # The oldest one, of another partition, is said to hold one file more than it does.
    next(one for one in listed if one.sequence_number == 1)._data[8] = 1  # noqa: SLF001 (it has no setter)
    write_manifest_list(
        table.io,
        table.metadata,
        head.manifest_list,
        head.snapshot_id,
        head.parent_snapshot_id,
        head.sequence_number,
        listed,
    )

    outcome = compacted(catalog, NAME, OURS)

    assert outcome.kind is OutcomeKind.DONE
    assert len(manifests(table)) == 8
    assert " and 5 more stay as they are" in outcome.why
    assert "they hold 6 files, their list says 7" in outcome.why


@pytest.mark.spark
def test_spark_reads_the_same_rows_at_every_snapshot(spark: Any, lake: Any, tmp_path: Path) -> None:
    with fresh(spark, "db.manifests", COLUMNS, "PARTITIONED BY (flag)") as name:
        spark.sql(f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('commit.manifest.min-count-to-merge' = '3')")
        with_deletes_and_two_specs(spark, name, tmp_path)
        ids = [row[0] for row in spark.sql(f"SELECT snapshot_id FROM lake.{name}.snapshots").collect()]
        before = {one: rows(spark, name, one) for one in ids}

        outcome = compacted(lake, name, PartitionKey('{"1000":true}'), spec_id=0)

        assert outcome.kind is OutcomeKind.DONE
        assert {one: rows(spark, name, one) for one in ids} == before
        assert rows(spark, name) == rows(spark, name, lake.load_table(name).metadata.refs["main"].snapshot_id)
        said, found = counters(spark, name)
        assert found == said
        per = spark.sql(
            f"SELECT content, partition_spec_id, count(*) FROM lake.{name}.manifests GROUP BY 1, 2 ORDER BY 1, 2"
        ).collect()
        assert all(row[2] <= 14 for row in per), per
        # Whoever deletes next finds its rows in merged manifests.
        kept = len(rows(spark, name))
        spark.sql(f"DELETE FROM lake.{name} WHERE id IN (0, 11, 61)")
        assert kept - len(rows(spark, name)) in (2, 3)
        assert rows(spark, name, ids[-1]) == before[ids[-1]]
