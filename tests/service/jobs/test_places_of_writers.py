"""Expiry leaves each writer the snapshot in which it keeps its place, where the writer looks for it."""

import sys

import pytest

from isotherm.core.model.tables import Snapshot
from isotherm.core.planner.expirable import places
from support.lab import EXPIRING, Lab, settle

SINK = {"kafka.connect.offsets.control.sink": '{"0":7}'}
FLINK = {"flink.job-id": "1", "flink.operator-id": "a7", "flink.max-committed-checkpoint-id": "9"}
SPARK = {"spark.sql.streaming.queryId": "q1", "spark.sql.streaming.epochId": "41"}


def found_from_the_head(table, key):
    """What the sinks of Kafka Connect, Flink and Spark find: from the head on, from parent to parent."""
    metadata = table.refresh().metadata
    snapshots = {one.snapshot_id: one for one in metadata.snapshots}
    current = snapshots.get(metadata.current_snapshot_id)
    while current is not None:
        if key in current.summary.additional_properties:
            return current.summary.additional_properties[key]
        current = snapshots.get(current.parent_snapshot_id)
    return None


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path, policy=EXPIRING.replace("min_files: 3", "min_files: 1000, fill_files: 1000"))


@pytest.mark.parametrize("place", [SINK, FLINK, SPARK], ids=["Kafka Connect", "Flink", "Spark"])
def test_a_writer_that_stood_still_finds_its_place(lab, place):
    table = lab.create()
    for hour in range(4):
        lab.append(table, hour)
    lab.append(table, 4, snapshot_properties=place)
    for hour in range(5, 12):
        lab.append(table, hour)

    lab.settled().stop()

    assert len(table.refresh().metadata.snapshots) == 8, "those before it went"
    for key, value in place.items():
        assert found_from_the_head(table, key) == value


def of_job(number, checkpoint):
    return {
        "flink.job-id": f"{number}",
        "flink.operator-id": "a7",
        "flink.max-committed-checkpoint-id": f"{checkpoint}",
    }


def sought_by(table, job):
    """The checkpoint that Flink's sink finds for a job, from the head on, by its own id and operator."""
    metadata = table.refresh().metadata
    snapshots = {one.snapshot_id: one for one in metadata.snapshots}
    current = snapshots.get(metadata.current_snapshot_id)
    while current is not None:
        said = current.summary.additional_properties
        if (said.get("flink.job-id"), said.get("flink.operator-id")) == (f"{job}", "a7"):
            return int(said["flink.max-committed-checkpoint-id"])
        current = snapshots.get(current.parent_snapshot_id)
    return -1


def test_two_flink_jobs_of_one_program_each_find_their_place(lab):
    """One is suspended with a savepoint, the other goes on, and is even started again."""
    table = lab.create()
    for number, job in enumerate((1, 2, 1, 2, 1)):
        lab.append(table, number, snapshot_properties=of_job(job, number))
    service = lab.settled()
    for number in range(5, 25):
        lab.append(table, number, snapshot_properties=of_job(1 if number < 15 else 3, number))
        settle(service)
    service.stop()

    assert [sought_by(table, job) for job in (1, 2, 3)] == [14, 3, 24]


def test_a_flink_job_that_was_started_again_leaves_the_place_of_its_run_before(lab):
    table = lab.create()
    for number in range(12):
        lab.append(table, number, snapshot_properties=of_job(1 if number < 3 else 2, number))
    service = lab.settled()
    service.stop()

    assert [sought_by(table, job) for job in (1, 2)] == [-1, 11]


def test_a_program_that_runs_each_minute_is_looked_at_once_for_each_run():
    def calls(runs):
        snapshots = [Snapshot(number, number, number, f"flink.a7/{number}") for number in range(runs)]
        count = 0

        def note(*_):
            nonlocal count
            count += 1

        sys.setprofile(note)
        try:
            assert places(snapshots) == {runs - 1: runs - 1}
        finally:
            sys.setprofile(None)
        return count

    assert calls(2000) < 2.5 * calls(1000)


def test_a_place_that_is_lost_leaves_no_snapshot_behind(lab):
    """One that stayed alone would be no ancestor of the head, and never go."""
    table = lab.create()
    for hour in range(8):
        lab.append(table, hour, snapshot_properties=SINK if hour == 2 else None)
    service = lab.settled()

    lab.ahead_ms += 15 * 86_400_000
    settle(service)
    service.stop()

    assert len(table.refresh().metadata.snapshots) == 2
