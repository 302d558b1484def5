"""Old files of a partition that is still written, on real tables: beside appends, and never beside anything else."""

import pytest

from isotherm.contract.identity import PartitionKey
from isotherm.contract.summary import JOB_ID
from isotherm.core import observations as seen
from isotherm.core.model.decisions import Verdict
from isotherm.core.planner.minor import ENOUGH_APPENDS
from isotherm.service.topics.events_to_state import Touched
from support.lab import EAGER, Lab, of, settle, started, until_a_job_runs, uuid_of, wait_for_children

MINOR = EAGER.replace("quiet_for: 0s", "quiet_for: 1m").replace(
    "min_files: 3", "min_files: 3, minor_after: 1m"
)
MARGIN_S = 61


def live(table):
    """The live data files, each with its sequence number."""
    entries = table.refresh().inspect.entries().to_pylist()
    return {one["data_file"]["file_path"]: one["sequence_number"] for one in entries if one["status"] != 2}


def ids(table):
    return sorted(table.refresh().scan().to_arrow()["id"].to_pylist())


def written_on(tmp_path, *, policy=MINOR):
    """A table of one hour with so many appends as are enough, all of them older than a minute, and a daemon."""
    lab = Lab(tmp_path, policy)
    table = lab.create()
    for _ in range(ENOUGH_APPENDS):
        lab.append(table, 1)
    lab.ahead_ms += MARGIN_S * 1000
    return lab, table


def ours(table):
    return [one for one in table.refresh().snapshots() if JOB_ID in one.summary.additional_properties]


def test_a_hot_partition_is_compacted_while_its_writer_goes_on(tmp_path):
    """The appends before, during and after the job all go through, and no file of theirs is taken that is young."""
    lab, table = written_on(tmp_path)
    before = set(live(table))
    service = started(lab)
    service.step(0)
    lab.append(table, 1)
    service.intake.take_or_set_aside(service.events.poll(0))
    until_a_job_runs(service)
    lab.append(table, 1)
    service.step(0)
    lab.append(table, 1, announce=False)
    young, expected = {path for path in live(table) if "isotherm-" not in path} - before, ids(table)
    wait_for_children(service)
    service.compactions.finish()

    (done,) = service.ledger.operations()
    assert (done.state, len(ours(table))) == ("done", 1)
    assert done.why.startswith(
        f"minor: {ENOUGH_APPENDS} of 3 files below 96.0 MiB older than 1m, in a partition"
    )
    assert expected == ids(table)
    assert len(young) == 3
    assert young < set(live(table))
    assert len(live(table)) == 4
    lab.append(table, 1)
    settle(service)
    assert len(ours(table)) == 1
    assert len(ids(table)) == len(expected) + 2
    service.stop()


def deleted(lab, table):
    table.refresh()
    table.delete("id = 0")


def appended_and_overwritten(lab, table):
    lab.append(table, 1, announce=False)
    table.refresh()
    table.overwrite(table.scan().to_arrow().slice(0, 1), "id = 3")


@pytest.mark.parametrize("happens", [deleted, appended_and_overwritten])
def test_the_first_commit_that_is_no_append_wins_over_a_job_in_flight(tmp_path, happens):
    """Nobody announces it, and nobody does it again: the last look finds it."""
    lab, table = written_on(tmp_path)
    service = started(lab)
    until_a_job_runs(service)
    happens(lab, table)
    expected = ids(table)
    wait_for_children(service)
    service.compactions.finish()

    assert ours(table) == []
    assert next(one.reason for one in service.ledger.operations()) in {"conflict", "hot"}
    assert expected == ids(table)
    settle(service)
    assert ours(table) == []
    row = service.fold.table(str(table.metadata.table_uuid))
    assert row.state.appends.count < 2
    service.stop()


def test_a_job_beside_appends_is_ended_by_anything_else_in_its_table(tmp_path):
    lab, table = written_on(tmp_path)
    service = started(lab)
    until_a_job_runs(service)
    uuid, elsewhere = uuid_of(table), frozenset({PartitionKey("{}")})
    for keys in (elsewhere, None):
        service.compactions.cancel_touched([Touched(uuid, keys, is_append=True)])
    assert len(service.compactions) == 1

    service.compactions.cancel_touched([Touched(uuid, elsewhere)])

    assert len(service.compactions) == 0
    assert of(lab, seen.JobEnded)[-1].reason == "intent"
    service.stop()


@pytest.mark.parametrize(
    "policy", [MINOR.replace(", minor_after: 1m", ""), MINOR.replace("minor_after: 1m", "minor_after: 1d")]
)
def test_without_the_policy_or_before_its_time_nothing_hot_is_touched(tmp_path, policy):
    lab, table = written_on(tmp_path, policy=policy)
    service = started(lab)
    settle(service)

    assert ours(table) == []
    tally = service.fold.tally(str(table.metadata.table_uuid))
    assert tally.verdicts == {Verdict.HOT: 1}
    service.stop()


def test_what_the_fold_learned_is_what_a_scan_finds_in_the_history(tmp_path):
    lab, table = written_on(tmp_path)
    service = started(lab)
    uuid = str(table.metadata.table_uuid)
    service.step(0)
    for _ in range(3):
        lab.append(table, 1)
        service.step(0)
    learned = service.fold.table(uuid).state.appends
    service.follower.rebuild_later(service.fold.table(uuid).state.table)
    for _ in range(3):
        service.step(0)

    assert learned.count == ENOUGH_APPENDS + 3
    assert service.fold.table(uuid).state.appends == learned
    service.stop()


@pytest.mark.parametrize(
    ("happens", "appended"), [(None, True), (deleted, False), (appended_and_overwritten, False)]
)
def test_of_a_table_that_a_scan_finds_it_is_known_whether_its_writers_only_appended(
    tmp_path, happens, appended
):
    """So late rows of years ago are compacted too, where nobody comes back any more."""
    lab, table = written_on(tmp_path)
    lab.append(table, 2)
    if happens is not None:
        happens(lab, table)

    partitions = lab.scan().values()

    assert {bool(one.arrivals) for one in partitions} == {appended}
