"""A partition rests from its last job, and what is done to it meanwhile."""

from dataclasses import replace

import pytest

from isotherm.core.model.decisions import Verdict
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.model.tables import PartitionField
from isotherm.core.partition_state import PartitionState
from isotherm.core.planner.backlog import after
from isotherm.core.planner.plan import plan
from isotherm.core.policy.policy import Compact, Policy, Schedule, Work
from isotherm.core.units import clock_text
from support.builders import DAY, GIB, HOUR, MIB, NOW, facts, files, key, partition, table_state, view
from support.planned import POLICY

DAILY = (PartitionField(1000, "day", "day", "timestamptz"),)


@pytest.mark.parametrize(
    ("compacted_ago", "written_ago", "count", "verdict"),
    [
        (2 * HOUR, HOUR, 10, Verdict.RESTING),
        (2 * HOUR, HOUR, 80, Verdict.DUE),
        (DAY, HOUR, 10, Verdict.DUE),
        (HOUR, 2 * HOUR, 10, Verdict.DUE),
        (-HOUR, HOUR, 10, Verdict.DUE),
    ],
    ids=["rests", "much more debt", "a day later", "the next part", "told by a clock that is ahead"],
)
def test_a_partition_that_is_written_again_rests_from_its_last_job(
    compacted_ago, written_ago, count, verdict
):
    state = replace(partition(count), compacted_at_ms=NOW - compacted_ago, last_write_at_ms=NOW - written_ago)
    decision = plan(view({key(1): state}), POLICY, NOW).of_partitions[0]

    assert decision.verdict is verdict
    if verdict is Verdict.RESTING:
        until_ms = NOW - compacted_ago + DAY

        assert decision.wake.at_ms == until_ms
        assert decision.why.startswith(
            f"cold, but rests from its last job until {clock_text(until_ms)}, unless its score reaches 20 (it is 2.50): "
        )


@pytest.mark.parametrize(
    ("boundary_ms", "verdict"), [(NOW - HOUR, Verdict.RESTING), (NOW + 20 * HOUR, Verdict.DUE)]
)
def test_a_job_from_before_the_end_of_its_time_counts_until_the_stream_has_passed_that(boundary_ms, verdict):
    """A policy of little `silent_for`: its own silence has made a day cold that is not over, again and again."""
    today = key(NOW // DAY)
    state = replace(partition(10), compacted_at_ms=NOW - 3 * HOUR, last_write_at_ms=NOW - 2 * HOUR)
    around = table_state(boundary_ms=boundary_ms, foreign_commits=100)
    policy = Policy(compact=POLICY.compact, cold={"silent_for": "1h", "after": 0})
    decision = plan(view({today: state}, facts=facts(fields=DAILY), state=around), policy, NOW).of_partitions[
        0
    ]

    assert decision.verdict is verdict
    if verdict is Verdict.RESTING:
        assert decision.wake.boundary_ms == (NOW // DAY + 1) * DAY


@pytest.mark.parametrize("min_files", ["learned", 20])
@pytest.mark.parametrize(
    ("count", "size", "verdict"),
    [
        (100, 16 * MIB, Verdict.RESTING),
        (160, 16 * MIB, Verdict.DUE),
        (399, MIB, Verdict.RESTING),
        (400, MIB, Verdict.DUE),
        (100, 64 * MIB, Verdict.DUE),
    ],
)
def test_a_rest_ends_at_twenty_times_what_is_due_whatever_the_size_of_the_files(
    min_files, count, size, verdict
):
    """What a job gains for each byte is no limit of it: files of 16 MiB were compacted once a day, and grew for ever."""
    state = PartitionState(
        data=files(count, size), last_write_at_ms=NOW - HOUR, compacted_at_ms=NOW - 2 * HOUR
    )
    policy = Policy(compact=Compact(min_files=min_files))
    decision = plan(view({key(1): state}), policy, NOW).of_partitions[0]

    assert decision.verdict is verdict
    assert (decision.score >= 20) is (verdict is Verdict.DUE)


def with_deletes(data_bytes, delete_files, delete_bytes=MIB):
    """A partition of two files that rests, with position deletes of few rows."""
    deletes = {FileKind.POSITION_DELETES: FileStats(delete_files, delete_files, delete_bytes)}
    return PartitionState(
        data=files(2, data_bytes // 2, rows=10**6),
        deletes=deletes,
        last_write_at_ms=NOW - HOUR,
        compacted_at_ms=NOW - 2 * HOUR,
    )


@pytest.mark.parametrize("data_bytes", [MIB, 63 * MIB, 65 * MIB, 10 * GIB])
def test_while_its_data_rests_a_partition_of_any_size_has_its_deletes_merged(data_bytes):
    decision = plan(view({key(1): with_deletes(data_bytes, 210)}), POLICY, NOW).of_partitions[0]

    assert decision.verdict is Verdict.DUE
    assert decision.take.merges_deletes
    assert not decision.take.rewrites_data
    assert decision.why == (
        "cold and due: 210 of 20 position-delete files, while its data rests until "
        f"{clock_text(NOW + DAY - 2 * HOUR)}; 210 files, 1.0 MiB to rewrite, deletes are merged"
    )


def test_what_is_merged_while_data_rests_says_its_own_number():
    """Its small files owe more, and wait for the end of the rest."""
    state = with_deletes(10 * GIB, 210)
    world = view({key(1): replace(state, data={**state.data, **files(40)})})
    planned = plan(world, POLICY, NOW)

    assert "210 of 20 position-delete files, while" in planned.of_partitions[0].why
    assert plan(after(world, planned, POLICY, NOW), POLICY, NOW).of_partitions[0].verdict is Verdict.RESTING


def test_a_schedule_does_not_merge_the_deletes_of_a_partition_that_rests():
    """A few hundred times a night otherwise. And what rests is kept until its rest is over, not until a schedule opens."""
    schedule = Schedule(cron="0 12 * * *", lasts="1h", do=("compact",), from_score=0.1)
    policy = Policy(compact=POLICY.compact, work=Work(schedules=(schedule,)))
    noon_ms = NOW // DAY * DAY + DAY // 2
    state = with_deletes(10 * GIB, 60)
    state = replace(
        state,
        data={**state.data, **files(40)},
        last_write_at_ms=noon_ms - 3 * HOUR,
        compacted_at_ms=noon_ms - 4 * HOUR,
    )
    world = view({key(1): state})
    before, open_ = (plan(world, policy, at_ms).of_partitions[0] for at_ms in (noon_ms - HOUR, noon_ms))

    assert before.wake.at_ms == noon_ms + DAY - 4 * HOUR
    assert {before.verdict, open_.verdict} == {Verdict.RESTING}
