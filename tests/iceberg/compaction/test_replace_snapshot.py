"""The request that a commit sends: what it asserts, and the snapshot, its times and its totals."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyiceberg.table.update
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import SetSnapshotRefUpdate

from isotherm.contract.summary import BEHIND_MS, committed_at_of
from isotherm.core.model.files import FileKind
from isotherm.core.model.jobs import CompactionJob, OutcomeKind, Rewrite, Swap
from isotherm.iceberg.compaction.replace_snapshot import AssertUnmoved, ReplaceSnapshot
from isotherm.iceberg.manifests.live import LiveEntry, live_files
from support.faults import FaultyCatalog
from support.rewriting import bound, commit, rewritten
from support.two_partitions import NAME, OURS, append, assert_done, branch, contents, ready, schema_change


@pytest.fixture
def catalog(two_partitions: Any) -> Any:
    return two_partitions


def request(
    catalog: Any, job: CompactionJob, rewrite: Rewrite, more: tuple[LiveEntry, ...] = ()
) -> tuple[tuple[Any, ...], Any]:
    """What a commit would ask of the catalog, and its snapshot."""
    table = catalog.load_table(NAME)
    live = live_files(table.metadata, table.io, table.current_snapshot(), OURS)
    asserted, updates = ReplaceSnapshot([Swap(job, rewrite)], is_metastore=True).request(
        table, [*live, *more], 0, 0
    )
    return asserted, updates[0].snapshot


def test_what_is_asserted(catalog: Any) -> None:
    """Each requirement by itself: the committer's own checks would notice most of it in the next attempt."""
    asserted, _ = request(catalog, *ready(catalog))
    # That times do not go back has a test of its own.
    later = {"stamped_at_ms": 2**60}
    asserted = [one.model_copy(update=later if isinstance(one, AssertUnmoved) else {}) for one in asserted]

    def refused() -> set[str]:
        found = set()
        for requirement in asserted:
            try:
                requirement.validate(catalog.load_table(NAME).metadata)
            except CommitFailedException:
                found.add(type(requirement).__name__)
        return found

    assert refused() == set()
    schema_change(catalog.load_table(NAME))
    assert refused() == {"AssertCurrentSchemaId"}
    branch(catalog.load_table(NAME))
    assert refused() == {"AssertCurrentSchemaId", "AssertUnmoved"}
    append(catalog.load_table(NAME), 2)
    assert refused() == {"AssertCurrentSchemaId", "AssertUnmoved", "AssertRefSnapshotId"}
    catalog.drop_table(NAME)
    catalog.create_table(NAME, Schema())
    assert "AssertTableUUID" in refused()


def test_deletes_that_apply_to_files_that_stay_stay(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    table = catalog.load_table(NAME)
    (file, *_) = live_files(table.metadata, table.io, table.current_snapshot(), OURS)
    delete = replace(file, path="s3://b/d", kind=FileKind.POSITION_DELETES, sequence_number=99)

    def removed(job: CompactionJob) -> str | None:
        found: str | None = request(catalog, job, rewrite, (delete,))[1].summary.get("removed-delete-files")
        return found

    assert removed(job) == "1"
    assert removed(replace(job, data_files=job.data_files[1:])) is None


def test_history_does_not_run_backwards_and_main_keeps_what_it_states(catalog: Any) -> None:
    table = catalog.load_table(NAME)
    stated = {"min_snapshots_to_keep": 4, "max_snapshot_age_ms": 10**9, "max_ref_age_ms": 10**10}
    head = table.metadata.current_snapshot_id
    update = SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=head, **stated)
    before = catalog.commit_table(table, (), (update,)).metadata

    assert OutcomeKind.DONE is commit(catalog, *ready(catalog)).kind

    metadata = catalog.load_table(NAME).metadata
    times = [one.timestamp_ms for one in metadata.snapshots]
    assert times == sorted(times)
    assert times[-1] == before.last_updated_ms + 1
    assert stated == {name: getattr(metadata.refs["main"], name) for name in stated}


@pytest.mark.parametrize("ahead_ms", [0, BEHIND_MS // 2, BEHIND_MS, 10 * BEHIND_MS])
def test_no_writers_clock_has_to_be_as_far_as_ours(catalog: Any, ahead_ms: int) -> None:
    """Java refuses what a writer stamps more than a minute before the last snapshot; its clock may be minutes behind."""
    table = catalog.load_table(NAME)
    now_ms = table.metadata.last_updated_ms + ahead_ms
    job = bound(table, OURS)

    outcome = commit(catalog, job, rewritten(table, job), now_ms=now_ms, clock_s=lambda: 0.0)
    assert outcome.kind is OutcomeKind.DONE

    snapshot = catalog.load_table(NAME).metadata.current_snapshot()
    assert snapshot.timestamp_ms == max(table.metadata.last_updated_ms + 1, now_ms - BEHIND_MS)
    assert committed_at_of(snapshot.summary.additional_properties, snapshot.timestamp_ms) == max(
        now_ms, snapshot.timestamp_ms
    )


def test_a_commit_is_as_old_as_its_last_look(catalog: Any) -> None:
    """It is judged by that time: whoever wrote, or meant to, before it must have been seen, and nobody later."""
    table = catalog.load_table(NAME)
    job, now_ms, gone_s = bound(table, OURS), table.metadata.last_updated_ms, [0.0]

    def look(_: Table) -> None:
        gone_s[0] += 40

    outcome = commit(catalog, job, rewritten(table, job), look, now_ms, lambda: gone_s[0])
    assert outcome.kind is OutcomeKind.DONE

    snapshot = catalog.load_table(NAME).metadata.current_snapshot()
    assert snapshot.timestamp_ms == max(table.metadata.last_updated_ms + 1, now_ms + 40_000 - BEHIND_MS)
    said = snapshot.summary.additional_properties
    assert committed_at_of(said, snapshot.timestamp_ms) == now_ms + 40_000
    assert said["isotherm.job-id"] == job.job_id


def set_a_property(table: Table) -> None:
    with table.transaction() as change:
        change.set_properties({"owner": "me"})


@pytest.mark.parametrize(
    "happens",
    [
        set_a_property,
        lambda table: table.manage_snapshots().create_tag(table.metadata.current_snapshot_id, "t").commit(),
    ],
    ids=["a property", "a tag"],
)
@pytest.mark.parametrize("when", ["in the last look", "in the race"])
def test_times_of_metadata_do_not_go_back_where_something_else_was_committed(
    catalog: Any, monkeypatch: pytest.MonkeyPatch, happens: Callable[[Table], None], when: str
) -> None:
    """Java does not load a table whose metadata is more than a minute older than its log says."""
    job, rewrite = ready(catalog)
    # An hour has passed since the last commit, also for who commits meanwhile.
    now_ms = catalog.load_table(NAME).metadata.last_updated_ms + 6 * BEHIND_MS
    monkeypatch.setattr(pyiceberg.table.update, "datetime_to_millis", lambda _: now_ms)
    done: list[bool] = []

    def meanwhile() -> None:
        if not done:
            happens(catalog.load_table(NAME))
        done.append(True)

    def racing(real: Any, *arguments: Any) -> Any:
        meanwhile()
        return real(*arguments)

    if when == "in the race":
        outcome = commit(FaultyCatalog(catalog, racing), job, rewrite, now_ms=now_ms)
    else:
        outcome = commit(catalog, job, rewrite, lambda _: meanwhile(), now_ms=now_ms)

    assert outcome.kind is OutcomeKind.DONE
    metadata = catalog.load_table(NAME).metadata
    assert metadata.last_updated_ms >= max(one.timestamp_ms for one in metadata.metadata_log)


def test_new_files_keep_the_starting_sequence_number(catalog: Any) -> None:
    """A delete that came after we read has a higher one, and must go on applying."""
    job, rewrite = ready(catalog)
    append(catalog.load_table(NAME), 2)

    outcome = commit(catalog, job, rewrite)

    table = catalog.load_table(NAME)
    head = table.metadata.current_snapshot()
    live = (
        entry for manifest in head.manifests(table.io) for entry in manifest.fetch_manifest_entry(table.io)
    )
    found = {entry.data_file.file_path: entry for entry in live if entry.data_file.partition[0] == 1}
    assert {file.path for file in rewrite.files} == set(found)
    assert {(job.base_sequence_number, head.sequence_number, outcome.snapshot_id)} == {
        (one.sequence_number, one.file_sequence_number, one.snapshot_id) for one in found.values()
    }
    assert head.sequence_number == job.base_sequence_number + 2


@pytest.mark.parametrize(
    "total", ["9" * 5000, "²", "-7", "many"], ids=["digits", "superscript", "negative", "word"]
)
def test_a_total_of_another_writer_that_is_no_number_is_left_out_and_told_once(
    catalog: Any, total: str
) -> None:
    before = contents(catalog)
    job, rewrite = ready(catalog)
    table = catalog.load_table(NAME)
    path = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    metadata["snapshots"][-1]["summary"]["total-records"] = total
    path.write_text(json.dumps(metadata))

    outcome = commit(catalog, job, rewrite)

    assert_done(catalog, outcome, before)
    summary = catalog.load_table(NAME).current_snapshot().summary
    assert summary.get("total-records") is None
    assert int(summary["total-data-files"]) == len(catalog.load_table(NAME).inspect.data_files())
    assert ("total-records were no numbers" in outcome.why) == (total != "-7")
    for _ in range(4):
        append(catalog.load_table(NAME), 1)
    job = bound(catalog.load_table(NAME), OURS)
    assert "no numbers" not in commit(catalog, job, rewritten(catalog.load_table(NAME), job)).why
