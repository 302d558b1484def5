"""Windows and schedules: when an action waits for its hours, and what a schedule makes due."""

from dataclasses import replace

import pytest

from isotherm.core.model.decisions import Verdict
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.model.jobs import Action
from isotherm.core.partition_state import PartitionState
from isotherm.core.planner.backlog import after
from isotherm.core.planner.plan import plan
from isotherm.core.policy.policy import Compact, Expire, Policy, Schedule, Window, Work
from support.builders import DAY, HOUR, MIB, MINUTE, NOW, files, key, partition, snapshots, view
from support.planned import COLD, POLICY, on_table

ALWAYS = {"cron": "0 0 * * *", "lasts": "1d"}
"""A window that is always open."""


def night(*do):
    """A window that is closed now."""
    return {"cron": "0 3 * * *", "lasts": "1h", **({"do": do} if do else {})}


@pytest.mark.parametrize(
    ("windows", "waiting"),
    [
        ([], set()),
        ([night()], {Action.COMPACT, Action.EXPIRE}),
        ([night("expire")], {Action.EXPIRE}),
        ([night("compact"), ALWAYS], {Action.COMPACT}),
        ([night(), {**ALWAYS, "do": ["expire"]}], {Action.COMPACT}),
        ([night("compact", "expire"), ALWAYS], {Action.COMPACT, Action.EXPIRE}),
        ([night("trim_metadata")], set()),
    ],
    ids=["none", "for all", "for one", "for one beside all", "another for one", "for two", "for another"],
)
def test_an_action_waits_for_its_own_windows_or_else_for_those_of_all(windows, waiting):
    rules = Policy.model_validate(
        {**POLICY.model_dump(exclude={"work"}, mode="json"), "work": {"windows": windows}}
    )
    world = view(COLD, snapshots=snapshots(50), announced_sequence_number=50)
    decisions = {d.action: d.verdict for d in plan(world, rules, NOW).decisions}

    assert {action for action, verdict in decisions.items() if verdict is Verdict.WAITING} == waiting
    assert {decisions[action] for action in {Action.COMPACT, Action.EXPIRE} - waiting} <= {Verdict.DUE}


@pytest.mark.parametrize(("from_score", "converts"), [(0.5, True), (0.01, False)])
def test_a_schedule_converts_no_equality_deletes_of_which_it_would_apply_the_positions(from_score, converts):
    always = Schedule(cron="0 0 * * *", lasts="1d", do=("compact",), from_score=from_score)
    deletes = {FileKind.EQUALITY_DELETES: FileStats(10, 10**4, MIB)}
    state = PartitionState(data=files(30, 128 * MIB, rows=10**4), deletes=deletes, last_write_at_ms=0)
    policy, world = Policy(work=Work(schedules=(always,))), view({key(1): state})
    planned = plan(world, policy, NOW)

    assert planned.of_partitions[0].take.converts_equality is converts
    assert not plan(after(world, planned, policy, NOW), policy, NOW).requests


def test_a_schedule_does_not_merge_what_was_merged():
    """Twenty full files became twenty, as often as it was planned while the schedule was open."""
    always = Schedule(cron="0 0 * * *", lasts="1d", do=("compact",), from_score=0.05)
    deletes = {FileKind.POSITION_DELETES: FileStats(20, 10**7, 20 * 64 * MIB)}
    state = PartitionState(data=files(800, 128 * MIB, rows=10**9), deletes=deletes, last_write_at_ms=0)
    planned = plan(view({key(1): state}), Policy(work=Work(schedules=(always,))), NOW)

    assert planned.of_partitions[0].verdict is Verdict.CLEAN


def test_a_rest_that_only_a_schedule_makes_is_told_until_the_schedule_closes():
    """Then the partition is clean: it owes less than what is due at all times."""
    schedule = Schedule(cron="0 12 * * *", lasts="1h", do=("compact",), from_score=0.1)
    policy = Policy(cold=POLICY.cold, compact=POLICY.compact, work=Work(schedules=(schedule,)))
    noon_ms = NOW // DAY * DAY + DAY // 2
    state = replace(partition(2), compacted_at_ms=noon_ms - 2 * HOUR, last_write_at_ms=noon_ms - HOUR)
    resting = plan(view({key(1): state}), policy, noon_ms).of_partitions[0]
    clean = plan(view({key(1): state}), policy, resting.wake.at_ms).of_partitions[0]

    assert (resting.verdict, resting.wake.at_ms) == (Verdict.RESTING, noon_ms + HOUR)
    assert clean.verdict is Verdict.CLEAN


def test_the_end_of_a_schedule_wakes_nothing_that_is_due_without_it():
    """It rests, or waits for its window, for longer than the schedule lasts; the schedule has no part in that."""
    noon_ms = NOW // DAY * DAY + DAY // 2
    schedule = Schedule(cron="0 12 * * *", lasts="1h", do=("compact",), from_score=0.1)
    window = Window(cron="0 22 * * *", lasts="1h")
    state = replace(partition(10), compacted_at_ms=noon_ms - 2 * HOUR, last_write_at_ms=noon_ms - HOUR)
    resting, waiting = (
        plan(view({key(1): one}), Policy(compact=POLICY.compact, work=work), noon_ms).of_partitions[0]
        for one, work in (
            (state, Work(schedules=(schedule,))),
            (replace(state, compacted_at_ms=None), Work(windows=(window,), schedules=(schedule,))),
        )
    )

    assert (resting.verdict, resting.wake.at_ms) == (
        Verdict.RESTING,
        noon_ms - 2 * HOUR + POLICY.compact.rest,
    )
    assert (waiting.verdict, waiting.wake.at_ms) == (Verdict.WAITING, noon_ms + 10 * HOUR)
    assert resting.score >= 1


@pytest.mark.parametrize("ago", [0, HOUR, 20 * HOUR, 3 * DAY])
def test_under_a_schedule_the_verdict_on_orphans_stands_until_the_time_it_names(ago):
    nightly = Schedule(cron="0 1 * * *", lasts="4h", do=("remove_orphans",), from_score=0.1)
    policy, found = Policy(work=Work(schedules=(nightly,))), []
    for hours in range(8 * 24):
        world = view({}, snapshots=snapshots(1), last_done_ms={Action.REMOVE_ORPHANS: NOW - ago})
        found.append(on_table(plan(world, policy, NOW + hours * HOUR), Action.REMOVE_ORPHANS))
        for at, before in enumerate(found[:-1]):
            if before.wake.at_ms is None or before.wake.at_ms > NOW + hours * HOUR:
                assert before.verdict is found[-1].verdict, (at, hours)
        if found[-1].verdict is not found[0].verdict:
            return
    raise AssertionError("it is never due")


def test_what_waits_under_a_schedule_is_looked_at_again_when_the_schedule_closes():
    nightly = Schedule(cron="0 22 * * *", lasts="1h", do=("compact",), from_score=0.4)
    policy = Policy(compact=Compact(min_files=20), work=Work(bytes_per_hour=1, schedules=(nightly,)))
    decision = plan(view(COLD), policy, NOW).of_partitions[0]
    eleven_ms = NOW + 46 * MINUTE + 40_000

    assert (decision.verdict, decision.wake.at_ms) == (Verdict.WAITING, eleven_ms)
    assert plan(view(COLD), policy, eleven_ms).of_partitions[0].verdict is Verdict.CLEAN


def test_nor_is_it_late_by_a_schedule_while_it_rests():
    """The oldest could have gone some hours ago, a tenth of the day by which it goes at the latest: twice in a night."""
    night = Schedule(cron="0 0 * * *", lasts="24h", do=("expire",), from_score=0.1)
    policy = Policy(work=Work(schedules=(night,)), expire=Expire(keep_for="2d", keep_last=5))
    world = view(
        {},
        snapshots=snapshots(900, apart_ms=5 * MINUTE),
        announced_sequence_number=900,
        last_done_ms={Action.EXPIRE: NOW - 5 * HOUR},
    )

    assert on_table(plan(world, policy, NOW), Action.EXPIRE).verdict is Verdict.CLEAN
    assert on_table(plan(world, policy, NOW + 19 * HOUR), Action.EXPIRE).verdict is Verdict.DUE


def test_a_schedule_ends_no_rest_of_an_expiry():
    night = Schedule(cron="0 0 * * *", lasts="24h", do=("expire",), from_score=0.1)
    policy = Policy(work=Work(schedules=(night,)), expire=Expire(keep_for="10m", keep_last=5, at_latest="7d"))
    world = view(
        {},
        snapshots=snapshots(50),
        announced_sequence_number=50,
        last_done_ms={Action.EXPIRE: NOW - 5 * HOUR},
    )

    assert on_table(plan(world, policy, NOW), Action.EXPIRE).verdict is Verdict.CLEAN
    assert on_table(plan(world, policy, NOW + 20 * HOUR), Action.EXPIRE).verdict is Verdict.DUE
