"""A table's manifests become fewer: every file is there as it was, and nobody's commit or row is lost."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table
from pyiceberg.types import LongType

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.jobs import OutcomeKind
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.commit_outcome import settled
from isotherm.iceberg.compaction.committer import commit_manifests
from isotherm.iceberg.values import loaded_table
from support.faults import FaultyCatalog
from support.head_files import live, manifests
from support.manifests_of_commits import append, ids, rewrite, three_parts
from support.rewriting import (
    always,
    compacted,
    job_on,
    of_each,
    swept,
)

NAME, OURS = "db.t", PartitionKey('{"1000":1}')


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    """A table that nobody merges manifests of, with twelve commits to three partitions."""
    catalog = three_parts(tmp_path)
    table = catalog.load_table(NAME)
    for number in range(12):
        append(table, number % 3, number)
    return catalog


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
