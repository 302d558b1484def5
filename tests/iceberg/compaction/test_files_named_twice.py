"""A data file that a table names twice, as after a snapshot that was picked twice: no copy leaves unseen.

Nor does one that is live in two partitions, as where two partitions of a Hive table had one folder.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from isotherm.core.model.jobs import OutcomeKind, Swap, Take
from isotherm.core.model.refusals import Reason, Refusal, RefusalError
from isotherm.iceberg.compaction.replace_snapshot import ReplaceSnapshot
from isotherm.iceberg.manifests.live import live_files
from support.builders import NOW
from support.deleted_rows import delete_row
from support.lab import Lab
from support.rewriting import bound, commit, partitions, rewritten, try_to_bind

ALL = Take(10**9)


def filled(lab: Lab) -> Any:
    """Three commits of two rows."""
    table = lab.create(**{"format-version": "2"})
    for _ in range(3):
        lab.append(table, 1, announce=False)
    return table


def first_again(table: Any) -> None:
    """Add the oldest file once more. Whoever picks a snapshot twice does the same."""
    (job,) = (bound(table, key, take=ALL) for key in partitions(table))
    table.add_files([job.data_files[0].path], check_duplicate_files=False)
    table.refresh()


def ids(table: Any) -> list[int]:
    return sorted(table.refresh().scan().to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("take", [Take(10**9, through_number=3), Take(10**9, at_most_bytes=1)])
def test_a_job_that_would_rewrite_one_copy_of_two_is_refused(tmp_path: Path, take: Take) -> None:
    """Both would leave, and the rows of one were written."""
    lab = Lab(tmp_path)
    table = filled(lab)
    (key,) = partitions(table)
    if take.at_most_bytes is not None:
        # It takes two of three copies.
        first_again(table)
    first_again(table)

    refused = try_to_bind(table, key, take=take)

    assert isinstance(refused, Refusal)
    assert refused.reason is Reason.FILE_TWICE


def test_where_all_copies_are_rewritten_every_row_stays(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    table = filled(lab)
    first_again(table)
    (key,) = partitions(table)
    before = ids(table)
    job = bound(table, key, take=ALL)

    outcome = commit(lab.catalog, job, rewritten(table, job))

    assert outcome.kind is OutcomeKind.DONE
    assert before == ids(table) == sorted([0, 1, *range(6)])
    assert len(list(table.scan().plan_files())) == 1


@pytest.mark.parametrize("take", [ALL, Take(10**9, through_number=3)])
def test_a_file_that_is_added_again_meanwhile_refuses_the_commit(tmp_path: Path, take: Take) -> None:
    lab = Lab(tmp_path)
    table = filled(lab)
    (key,) = partitions(table)
    job = bound(table, key, take=take)
    rewrite = rewritten(table, job)
    first_again(table)
    before = ids(table)

    outcome = commit(lab.catalog, job, rewrite)

    assert (OutcomeKind.FAILED, Reason.CONFLICT) == (outcome.kind, outcome.reason)
    assert before == ids(table)


def test_a_copy_that_a_rollback_takes_back_refuses_the_commit(tmp_path: Path) -> None:
    """The rows of both copies were written."""
    lab = Lab(tmp_path)
    table = filled(lab)
    once = table.metadata.current_snapshot_id
    first_again(table)
    (key,) = partitions(table)
    job = bound(table, key, take=ALL)
    rewrite = rewritten(table, job)
    table.manage_snapshots().rollback_to_snapshot(once).commit()
    before = ids(table)

    outcome = commit(lab.catalog, job, rewrite)

    assert (OutcomeKind.FAILED, Reason.CONFLICT) == (outcome.kind, outcome.reason)
    assert before == ids(table) == list(range(6))


@pytest.mark.parametrize(
    "take", [Take(10**9, with_deletes=True), Take(merges_deletes=True)], ids=["applied", "merged"]
)
def test_a_file_that_left_and_was_added_again_refuses_the_commit(tmp_path: Path, take: Take) -> None:
    """What was deleted of it before is there again: those deletes are older than it is now."""
    lab = Lab(tmp_path)
    table = filled(lab)
    (key,) = partitions(table)
    first, second, _ = bound(table, key, take=ALL).data_files
    delete_row(lab, table, first.path, 0, key)
    delete_row(lab, table, second.path, 0, key)
    job = bound(table.refresh(), key, take=take)
    rewrite = rewritten(table, job)
    table.delete("id < 2")
    table.refresh().add_files([first.path])
    before = aged(table, key)

    outcome = commit(lab.catalog, job, rewrite)

    assert (OutcomeKind.FAILED, Reason.CONFLICT) == (outcome.kind, outcome.reason)
    assert before == aged(table, key)


def aged(table: Any, key: Any) -> list[tuple[str, int]]:
    """The live files, with their ages."""
    metadata = table.refresh().metadata
    live = live_files(metadata, table.io, metadata.current_snapshot(), key)
    return sorted((entry.path, entry.sequence_number) for entry in live)


def test_deletes_on_a_file_with_two_ages_are_not_merged(tmp_path: Path) -> None:
    """A delete between the two applies to the elder copy alone; merged with a younger one it would apply to both."""
    lab = Lab(tmp_path)
    table = filled(lab)
    (key,) = partitions(table)
    first, second, _ = bound(table, key, take=ALL).data_files
    delete_row(lab, table, first.path, 0, key)
    table.add_files([first.path], check_duplicate_files=False)
    delete_row(lab, table, second.path, 0, key)

    refused = try_to_bind(table.refresh(), key, take=Take(merges_deletes=True))

    assert isinstance(refused, Refusal)
    assert refused.reason is Reason.FILE_TWICE


def in_two_partitions(lab: Lab, *commits: tuple[str, ...], folder: str = "hive") -> Any:
    """Two files, each of them in some partitions, by commits: Spark's `add_files` makes one of all."""
    by_what = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "what"))
    mapping = '[{"field-id": 1, "names": ["id"]}]'
    table = lab.create(spec=by_what, **{"format-version": "2", "schema.name-mapping.default": mapping})
    files = {lab.root / folder / f"{name}.parquet": ids for name, ids in (("a", [0, 1, 2]), ("b", [3, 4]))}
    for path, ids in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), path)
    for into in commits:
        with table.transaction() as change, change.update_snapshot().fast_append() as append:
            for path, ids in files.items():
                for what in into:
                    append.append_data_file(as_imported(path, what, len(ids)))
    return table.refresh()


def as_imported(path: Path, what: str, rows: int) -> DataFile:
    """The file in a partition, without statistics."""
    empty = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
    return DataFile.from_args(
        2,
        content=DataFileContent.DATA,
        file_path=str(path),
        file_format=FileFormat.PARQUET,
        partition=Record(what),
        record_count=rows,
        file_size_in_bytes=path.stat().st_size,
        spec_id=0,
        **{name: {} for name in (*empty, "lower_bounds", "upper_bounds")},
    )


def by_partition(table: Any) -> list[tuple[str, int]]:
    rows = table.refresh().scan().to_arrow()
    return sorted(zip(rows["what"].to_pylist(), rows["id"].to_pylist(), strict=True))


def test_a_file_of_two_partitions_leaves_the_jobs_alone(tmp_path: Path) -> None:
    """Both entries would leave, and the rows of one partition were written."""
    lab = Lab(tmp_path)
    table = in_two_partitions(lab, ("1", "2"))
    first, second = partitions(table)
    before = by_partition(table)
    job = bound(table, first, take=ALL)

    outcome = commit(lab.catalog, job, rewritten(table, job))

    assert outcome.kind is OutcomeKind.DONE
    assert before == by_partition(table)
    assert [len(aged(table, key)) for key in (first, second)] == [1, 2]


def test_no_other_number_of_files_leaves_a_manifest_than_was_found_in_it(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    table = in_two_partitions(lab, ("1", "1"))
    (first,) = partitions(table)
    job = bound(table, first, take=ALL)
    live = live_files(table.metadata, table.io, table.metadata.current_snapshot(), first)
    (manifest,) = table.metadata.current_snapshot().manifests(table.io)
    known = {(manifest.manifest_path, None): tuple(live[1:])}
    snapshot = ReplaceSnapshot([Swap(job, rewritten(table, job))], True, known=known)

    with pytest.raises(RefusalError, match="files would leave") as refused:
        snapshot.request(table, live[1:], 0, NOW)

    assert refused.value.refusal.reason is Reason.MISMATCH


@pytest.mark.parametrize("commits", [(("1", "2"),), (("1",), ("2",))], ids=["one manifest", "two"])
def test_a_file_of_two_partitions_stays_where_deletes_name_it(tmp_path: Path, commits: Any) -> None:
    """A delete that names one file applies to it in both for Iceberg's Java, and in one for others."""
    lab = Lab(tmp_path)
    table = in_two_partitions(lab, *commits)
    first, _ = partitions(table)
    delete_row(lab, table, str(lab.root / "hive" / "a.parquet"), 0, first)

    refused = try_to_bind(table.refresh(), first, take=Take(10**9, with_deletes=True))

    assert isinstance(refused, Refusal)
    assert refused.reason is Reason.FILE_TWICE


def test_a_file_in_the_tables_own_folder_that_is_of_two_partitions_is_found_by_the_commit(
    tmp_path: Path,
) -> None:
    lab = Lab(tmp_path)
    table = in_two_partitions(lab, ("1", "2"), folder="warehouse/shop/orders/data")
    first, _ = partitions(table)
    delete_row(lab, table, f"{lab.root}/warehouse/shop/orders/data/a.parquet", 0, first)
    job = bound(table.refresh(), first, take=Take(10**9, with_deletes=True))
    before = aged(table, first)

    outcome = commit(lab.catalog, job, rewritten(table, job))

    assert (OutcomeKind.FAILED, Reason.FILE_TWICE) == (outcome.kind, outcome.reason)
    assert before == aged(table, first)
