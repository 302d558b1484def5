"""What a policy would make of a table, at once and once all of it is cold."""

from dataclasses import replace

from hypothesis import given

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.partition_state import PartitionState
from isotherm.core.planner.backlog import done
from isotherm.core.planner.examination import examined
from isotherm.core.policy.policy import Expire, Policy, Work
from support.builders import GIB, HOUR, MIB, NOW, facts, files, key, partition, snapshots, table_state, view
from support.drawn_views import maintained, policies

YOUNG = NOW // HOUR - 1
"""An hour that the stream has not left."""


def test_what_is_cold_is_gained_at_once_and_what_is_hot_in_the_end():
    hot = replace(partition(60), last_write_at_ms=NOW - 1000)
    world = view(
        {key(1): partition(100), key(YOUNG): hot, key(2): partition(1)},
        state=table_state(boundary_ms=NOW),
        snapshots=snapshots(20),
        announced_sequence_number=20,
    )
    found, planned = examined(world, Policy(), NOW)

    assert (found.partitions, found.files, found.snapshots) == (3, 161, 20)
    assert dict(found.verdicts) == {Verdict.DUE: 1, Verdict.HOT: 1, Verdict.CLEAN: 1}
    assert (found.at_once.files, found.at_once.work.jobs) == (62, 1)
    assert (found.in_the_end.files, found.in_the_end.work.jobs, found.spared) == (3, 2, 158)
    assert found.in_the_end.work.bytes == found.at_once.work.bytes + hot.data_total.bytes
    assert found.sizes == ((3 * MIB // 2, 161),)
    assert len(planned.of_partitions) == 3


def test_a_budget_or_a_window_is_no_reason_to_gain_less_in_the_end():
    night = {"cron": "0 3 * * *", "lasts": "1h"}
    policy = Policy(work=Work(bytes_per_hour=GIB, windows=[night]))
    state = replace(partition(0), data=files(100, 50 * MIB), last_write_at_ms=0)
    found, _ = examined(view({key(1): state}, snapshots=()), policy, NOW)

    assert (found.at_once.work.jobs, found.at_once.files) == (0, 100)
    assert found.in_the_end.files < 80


def test_deletes_are_files_that_a_scan_opens():
    deletes = {FileKind.POSITION_DELETES: FileStats(500, 5000, MIB)}
    state = replace(partition(30), deletes=deletes, last_write_at_ms=0)
    found, _ = examined(view({key(1): state}, snapshots=()), Policy(), NOW)

    assert (found.files, found.data.files, found.deletes.files) == (530, 30, 500)
    assert found.in_the_end.files <= 2


@given(maintained(), policies())
def test_what_it_says_of_now_is_the_backlog(world, policy):
    found, _ = examined(world, policy, NOW)

    assert found.at_once.work == done(replace(world, snapshots=None), policy, NOW)[0]
    if not found.at_once.work.jobs:
        assert found.at_once.files == found.files
    assert sum(count for _, count in found.sizes) == found.data.files
    assert 0 <= found.may_expire <= found.snapshots


def test_a_large_partition_is_as_many_jobs_as_it_takes():
    state = replace(partition(0), data=files(400, 60 * MIB), last_write_at_ms=0)
    found, _ = examined(view({key(1): state}, snapshots=()), Policy(), NOW)

    assert found.at_once.work.bytes == 400 * 60 * MIB
    assert found.at_once.work.jobs == 3


def test_what_schedules_make_due_is_gained_in_the_end_too():
    night = {"cron": "0 0 * * *", "lasts": "24h", "do": ["compact"], "from_score": 0.1}
    world = view({key(1): replace(partition(20), last_write_at_ms=0)}, snapshots=())
    found, _ = examined(world, Policy(work=Work(schedules=[night])), NOW)

    assert (found.at_once.files, found.in_the_end.files) == (1, 1)


def test_where_nothing_expires_nothing_may_go():
    found, _ = examined(view({}, snapshots=snapshots(20_000)), Policy(expire=Expire(enabled=False)), NOW)

    assert (found.may_expire, found.snapshots) == (0, 20_000)


def test_half_of_the_rows_are_half_of_the_bytes_once_deletes_are_applied():
    deletes = {FileKind.POSITION_DELETES: FileStats(2, 500_000, MIB)}
    data = files(4, GIB, rows=250_000)
    found, _ = examined(
        view({key(1): PartitionState(data, deletes, last_write_at_ms=0)}, snapshots=()), Policy(), NOW
    )

    assert found.at_once.files == 16
    assert found.suffers >= 4


def test_a_partition_without_a_time_that_is_written_on_and_on_gains_nothing_by_waiting():
    hot = replace(partition(100), last_write_at_ms=NOW - 1000, last_write_number=100)
    world = view(
        {PartitionKey("{}"): hot},
        state=table_state(boundary_ms=NOW),
        snapshots=snapshots(5000),
        facts=facts(fields=()),
    )
    found, _ = examined(world, Policy(), NOW)

    assert (found.never_cold, found.in_the_end.files, found.in_the_end.work.jobs) == (1, 100, 0)
    assert found.suffers == found.never_cold_files > 90
