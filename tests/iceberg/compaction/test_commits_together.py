"""Several jobs of a table in one commit: all or none of those that nothing stands against, and none for another's sake."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from isotherm.clients.manifests.avro import UnreadableError
from isotherm.contract.summary import JOB_ID, JOB_IDS, jobs_of
from isotherm.core.model.jobs import CompactionJob, Outcome, OutcomeKind, Swap
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction import commit_outcome, one_commit
from isotherm.iceberg.compaction.replaced_manifests import ReplacedManifests
from support.faults import FaultyCatalog
from support.head_files import live, manifests
from support.many_partitions import NAME, append, catalog_of_eight, key, rows
from support.rewriting import bound, commit_together, compacted, rewritten, swept

DONE, FAILED, UNKNOWN = OutcomeKind.DONE, OutcomeKind.FAILED, OutcomeKind.UNKNOWN


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    return catalog_of_eight(tmp_path)


def ready(catalog: Any, parts: Sequence[int] = (1, 2, 3)) -> list[Swap]:
    table = catalog.load_table(NAME)
    jobs = [bound(table, key(part)) for part in parts]
    return [Swap(job, rewritten(table, job)) for job in jobs]


def kinds(outcomes: Sequence[Outcome]) -> list[tuple[OutcomeKind, Reason]]:
    return [(one.kind, one.reason) for one in outcomes]


def files_of(table: Table, swap: Swap) -> set[str]:
    """The files of a job that are live."""
    return {path for path in live(table) if swap.job.job_id in path}


def is_swapped(table: Table, swap: Swap) -> bool:
    """Whether all that the job wrote is live and nothing that it read, or else the other way round."""
    here = set(live(table))
    read = {file.path for file in swap.job.read_files}
    wrote = {file.path for file in swap.rewrite.all_files}
    assert (read <= here) is (not wrote & here)
    assert (wrote <= here) is (not read & here)
    return wrote <= here


def test_they_are_one_snapshot_which_says_whose_it_is(catalog: Any) -> None:
    swaps, table = ready(catalog), catalog.load_table(NAME)
    before, had = live(table), rows(table)
    snapshots = len(table.metadata.snapshots)

    outcomes = commit_together(catalog, swaps)

    head = table.refresh().metadata.current_snapshot()
    assert [(one.kind, one.snapshot_id) for one in outcomes] == [(DONE, head.snapshot_id)] * 3
    assert [one.job_id for one in outcomes] == [swap.job.job_id for swap in swaps]
    assert len(table.metadata.snapshots) == snapshots + 1
    assert rows(table) == had
    assert all(is_swapped(table, swap) for swap in swaps)
    stay = {path: said for path, said in before.items() if path in live(table)}
    assert stay == {path: said for path, said in live(table).items() if path in before}
    said = head.summary.additional_properties
    assert (said["changed-partition-count"], said[JOB_ID]) == ("3", swaps[0].job.job_id)
    assert jobs_of(said) == tuple(swap.job.job_id for swap in swaps)
    assert (said["added-data-files"], said["deleted-data-files"]) == ("3", "15")
    assert int(said["total-data-files"]) == len(live(table))
    assert len({one.manifest_path for one in manifests(table) if one.added_files_count}) == 1


def test_the_summary_of_one_job_is_as_it_was(catalog: Any) -> None:
    commit_together(catalog, ready(catalog, [1]))

    said = catalog.load_table(NAME).current_snapshot().summary.additional_properties
    assert JOB_IDS not in said
    assert len(jobs_of(said)) == 1
    assert jobs_of({"added-records": "1"}) == ()


def test_each_file_has_the_sequence_number_of_its_own_job(catalog: Any) -> None:
    """Deletes that came between the two bindings must apply to the files of the older one alone."""
    (older,) = ready(catalog, [1])
    append(catalog.load_table(NAME), [5], 800)
    (younger,) = ready(catalog, [2])

    assert kinds(commit_together(catalog, [older, younger])) == [(DONE, Reason.COMMITTED)] * 2

    table = catalog.load_table(NAME)
    numbers = [{live(table)[path][1] for path in files_of(table, swap)} for swap in (older, younger)]
    assert numbers == [{older.job.base_sequence_number}, {younger.job.base_sequence_number}]
    assert older.job.base_sequence_number < younger.job.base_sequence_number


def test_a_job_whose_partition_was_written_is_left_out(catalog: Any) -> None:
    swaps = ready(catalog)
    append(catalog.load_table(NAME), [2], 900)
    table = catalog.load_table(NAME)
    had = rows(table)

    outcomes = commit_together(catalog, swaps)

    assert kinds(outcomes) == [(DONE, Reason.COMMITTED), (FAILED, Reason.CONFLICT), (DONE, Reason.COMMITTED)]
    assert [is_swapped(table, swap) for swap in swaps] == [True, False, True]
    assert rows(table) == had
    assert not outcomes[1].was_sent
    assert jobs_of(table.refresh().current_snapshot().summary.additional_properties) == (
        swaps[0].job.job_id,
        swaps[2].job.job_id,
    )


@pytest.mark.parametrize("refused", [0, 1, 2])
def test_a_job_that_must_not_be_is_left_out_and_nothing_of_it_remains(catalog: Any, refused: int) -> None:
    swaps, table = ready(catalog), catalog.load_table(NAME)
    asked: list[list[str]] = []
    hot = swaps[refused].job.job_id

    def may_commit(_: Table, jobs: Sequence[CompactionJob]) -> dict[str, Refusal]:
        asked.append([job.job_id for job in jobs])
        return {hot: Refusal(Reason.HOT, "an intent names it")} if hot in asked[-1] else {}

    outcomes = commit_together(catalog, swaps, may_commit)

    others = [swap.job.job_id for swap in swaps if swap.job.job_id != hot]
    assert asked == [[swap.job.job_id for swap in swaps], others]
    assert [one.kind for one in outcomes] == [FAILED if one.job_id == hot else DONE for one in outcomes]
    assert outcomes[refused].reason is Reason.HOT
    assert [is_swapped(table, swap) for swap in swaps] == [swap.job.job_id != hot for swap in swaps]
    # What the first request left behind is told once, and is no part of the snapshot.
    left = [path for one in outcomes for path in one.leftovers]
    assert len(left) == len(set(left)) > 0
    used = {one.manifest_path for one in manifests(table)} | {table.current_snapshot().manifest_list}
    assert not used & set(left)
    for swap, outcome in zip(swaps, outcomes, strict=True):
        assert not swept(table.refresh(), swap.job, outcome).postponed
    assert len(rows(table)) == 80
    folder = Path(table.metadata.location.removeprefix("file://")) / "metadata"
    ours = {str(path) for path in folder.glob("*isotherm-*")}
    assert ours == {path.removeprefix("file://") for path in used if "isotherm-" in path}


def test_where_all_are_refused_each_has_its_own_reason(catalog: Any) -> None:
    swaps = ready(catalog, [1, 2])
    reasons = dict(zip([swap.job.job_id for swap in swaps], (Reason.HOT, Reason.POLICY), strict=True))

    outcomes = commit_together(
        catalog, swaps, lambda *_: {name: Refusal(reason, "so") for name, reason in reasons.items()}
    )

    assert kinds(outcomes) == [(FAILED, Reason.HOT), (FAILED, Reason.POLICY)]
    assert len(catalog.load_table(NAME).metadata.snapshots) == 5


def test_where_rows_differ_nothing_more_of_the_table_is_committed(catalog: Any) -> None:
    first, second = ready(catalog, [1, 2])
    wrong = Swap(second.job, replace(second.rewrite, hash_written=second.rewrite.hash_written + 1))
    asked: list[Table] = []

    outcomes = commit_together(catalog, [first, wrong], lambda table, _: asked.append(table) or {})

    assert kinds(outcomes) == [(FAILED, Reason.HALTED), (FAILED, Reason.MISMATCH)]
    assert second.job.job_id in outcomes[0].why
    assert not any(one.was_sent for one in outcomes)
    assert asked == []
    assert len(catalog.load_table(NAME).metadata.snapshots) == 5


def test_a_manifest_that_is_gone_is_trouble_of_its_partition_alone(catalog: Any) -> None:
    """Each partition has one of its own by then."""
    for part in range(8):
        assert compacted(catalog, NAME, key(part)).kind is DONE
        append(catalog.load_table(NAME), [part], 1000 + 10 * part)
    table = catalog.load_table(NAME)
    swaps = ready(catalog, [1, 2])
    lost = {path for path in live(table) if "part=1" in path}
    for manifest in manifests(table):
        paths = {one.data_file.file_path for one in manifest.fetch_manifest_entry(table.io)}
        if paths <= lost:
            Path(manifest.manifest_path.removeprefix("file://")).unlink()

    outcomes = commit_together(catalog, swaps)

    assert kinds(outcomes) == [(FAILED, Reason.STORAGE), (DONE, Reason.COMMITTED)]


def test_what_was_written_for_all_is_written_over_by_none_and_told_once(
    catalog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The damage is found once manifests of the request are there."""
    swaps, real = ready(catalog, [1, 2]), ReplacedManifests.replaced
    before = len(catalog.load_table(NAME).metadata.snapshots)

    def damaged(self: ReplacedManifests, *arguments: Any) -> Any:
        found = real(self, *arguments)
        if len(self.swaps) > 1:
            raise UnreadableError("a manifest of one of them")
        return found

    monkeypatch.setattr(ReplacedManifests, "replaced", damaged)

    outcomes = commit_together(catalog, swaps)

    table = catalog.load_table(NAME)
    assert [one.kind for one in outcomes] == [DONE, DONE]
    assert len(table.metadata.snapshots) == before + 2
    used = {one.manifest_path for one in manifests(table)}
    left = [path for one in outcomes for path in one.leftovers]
    assert len(left) == len(set(left)) > 0
    assert not used & set(left)
    folder = Path(table.metadata.location.removeprefix("file://")) / "metadata"
    assert all((folder / path.rpartition("/")[2]).exists() for path in left)


def test_what_a_request_that_was_given_up_left_behind_is_told_also_where_nobody_can_look(
    catalog: Any,
) -> None:
    swaps, sent = ready(catalog, [1, 2]), []
    hot = swaps[0].job.job_id

    def may_commit(_: Table, jobs: Sequence[CompactionJob]) -> dict[str, Refusal]:
        return {hot: Refusal(Reason.HOT, "so")} if len(jobs) == 2 else {}

    def landing(real: Any, *arguments: Any) -> Any:
        answer = real(*arguments)
        sent.append(1)
        return answer

    def away(real: Any, *arguments: Any) -> Any:
        if sent:
            raise ConnectionError("away")
        return real(*arguments)

    outcomes = commit_together(FaultyCatalog(catalog, landing, away), swaps, may_commit)

    assert [one.kind for one in outcomes] == [FAILED, DONE]
    table = catalog.load_table(NAME)
    used = {one.manifest_path for one in manifests(table)} | {table.current_snapshot().manifest_list}
    assert len(outcomes[1].leftovers) >= 2
    assert not used & set(outcomes[1].leftovers)


def test_a_race_that_is_lost_is_run_again_with_all_that_still_may(catalog: Any) -> None:
    swaps, table = ready(catalog), catalog.load_table(NAME)
    races = []

    def racing(real: Any, *arguments: Any) -> Any:
        races.append(1)
        if len(races) == 1:
            append(catalog.load_table(NAME), [3, 7], 900)
        return real(*arguments)

    outcomes = commit_together(FaultyCatalog(catalog, racing), swaps)

    assert kinds(outcomes) == [
        (DONE, Reason.COMMITTED),
        (DONE, Reason.COMMITTED),
        (FAILED, Reason.CONFLICT),
    ]
    assert [is_swapped(table, swap) for swap in swaps] == [True, True, False]
    assert outcomes[2].was_sent
    assert len(rows(table)) == 84


@pytest.mark.parametrize("lands", [True, False])
def test_an_answer_that_is_lost_is_unknown_of_each_until_somebody_can_look(catalog: Any, lands: bool) -> None:
    swaps, sent = ready(catalog), []

    def lost(real: Any, *arguments: Any) -> Any:
        sent.append(1)
        if lands:
            real(*arguments)
        raise ConnectionError("cut")

    def away(real: Any, *arguments: Any) -> Any:
        if sent:
            raise ConnectionError("away")
        return real(*arguments)

    outcomes = commit_together(FaultyCatalog(catalog, lost, away), swaps)

    assert kinds(outcomes) == [(UNKNOWN, Reason.UNKNOWN)] * 3
    assert len({one.asserted_head_id for one in outcomes}) == 1
    table = catalog.load_table(NAME)
    assert [is_swapped(table, swap) for swap in swaps] == [lands] * 3
    found = [commit_outcome.landed(table.metadata, swap.job) for swap in swaps]
    assert [one is not None for one in found] == [lands] * 3


def test_a_job_that_is_refused_after_a_request_of_unknown_end_is_unknown_and_the_others_go_on(
    catalog: Any,
) -> None:
    swaps, sent = ready(catalog, [1, 2]), []
    hot = swaps[1].job.job_id

    def lost(real: Any, *arguments: Any) -> Any:
        sent.append(arguments)
        if len(sent) == 1:
            raise ConnectionError("cut")
        return real(*arguments)

    def may_commit(_: Table, jobs: Sequence[CompactionJob]) -> dict[str, Refusal]:
        return {hot: Refusal(Reason.HOT, "so")} if sent and len(jobs) == 2 else {}

    outcomes = commit_together(FaultyCatalog(catalog, lost), swaps, may_commit)

    assert [one.kind for one in outcomes] == [DONE, UNKNOWN]
    assert outcomes[1].asserted_head_id == swaps[1].job.base_snapshot_id
    table = catalog.load_table(NAME)
    assert [is_swapped(table, swap) for swap in swaps] == [True, False]
    # The first request asserts a head that is gone: it cannot land any more.
    with pytest.raises(CommitFailedException):
        catalog.commit_table(*sent[0])
    assert len(rows(table)) == 80


def test_many_that_are_refused_one_after_another_take_no_other_with_them(
    catalog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is refused only once those before it are: that is no race, and costs none of the attempts."""
    monkeypatch.setattr(one_commit, "ATTEMPTS", 3)
    swaps = ready(catalog, range(6))

    def may_commit(_: Table, jobs: Sequence[CompactionJob]) -> dict[str, Refusal]:
        return {jobs[0].job_id: Refusal(Reason.HOT, "so")} if len(jobs) > 1 else {}

    outcomes = commit_together(catalog, swaps, may_commit)

    assert [one.kind for one in outcomes] == [FAILED] * 5 + [DONE]
