import random
import re
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotherm.core.appends import Appends, Arrival
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.model.holds import Hold, HoldKind, Quarantine
from isotherm.core.model.jobs import Action
from isotherm.core.model.tables import Astray
from isotherm.core.planner.backlog import MAX_ROUNDS, after, done, requested
from isotherm.core.planner.plan import plan
from isotherm.core.planner.view import Flight
from isotherm.core.policy.policy import Compact, Expire, Orphans, Policy, Schedule, Window, Work
from isotherm.core.policy.windows import opening
from isotherm.core.state import PartitionState
from isotherm.core.units import clock_text, parse_size
from support.builders import (
    BUCKETS,
    DAY,
    GIB,
    HOUR,
    KIB,
    MIB,
    MINUTE,
    NOW,
    TABLE,
    facts,
    files,
    key,
    partition,
    snapshots,
    table_state,
    view,
)

RESTLESS = Policy(
    compact=Compact(min_files=4, rest="0s"), expire=Expire(keep_for="10m", keep_last=3, at_once=2)
)
POLICY = Policy(compact=Compact(min_files=4), expire=Expire(keep_for="10m", keep_last=3, at_once=2))


# Strategies are made here, once: making them at each draw took hypothesis longer than drawing.
SIZES = st.dictionaries(
    st.sampled_from([KIB, MIB, 50 * MIB, 96 * MIB, 128 * MIB, 300 * MIB]), st.integers(1, 120)
)
DELETES = st.dictionaries(
    st.sampled_from([FileKind.POSITION_DELETES, FileKind.DELETION_VECTORS, FileKind.EQUALITY_DELETES]),
    st.integers(1, 5000),
)
DELETE_ROW_BYTES = st.sampled_from([10, MIB])
LAST_DAYS = st.integers(NOW - 2 * DAY, NOW + HOUR)
COMPACTED = st.one_of(st.none(), LAST_DAYS)
COMMITS = st.integers(0, 100)
SPANS = st.lists(st.integers(1, 40 * MINUTE), max_size=5)


@st.composite
def partition_states(draw):
    data = {}
    for size, count in draw(SIZES).items():
        data |= files(count, size)
    written_ms = draw(LAST_DAYS)
    deletes, row_bytes = draw(DELETES), draw(DELETE_ROW_BYTES)
    return PartitionState(
        data=data,
        deletes={kind: FileStats(1 + rows // 100, rows, row_bytes * rows) for kind, rows in deletes.items()},
        last_write_at_ms=written_ms,
        last_write_number=draw(COMMITS),
        compacted_at_ms=draw(COMPACTED),
        stamped_at_ms=draw(STAMPED),
        arrivals=arrivals(draw(SPANS), data, written_ms),
    )


def arrivals(spans, data, written_ms):
    """Some of a partition's files came lately, one batch of them after another."""
    times = [written_ms - sum(spans[place:]) for place in range(len(spans) + 1)]
    parts = max(len(spans), 1)
    came = {
        bucket: FileStats(s.files // parts, s.rows // parts, s.bytes // parts) for bucket, s in data.items()
    }
    return tuple(
        Arrival(begin_ms, before_ms, 10 * number, came)
        for number, (before_ms, begin_ms) in enumerate(pairwise(times), start=1)
    )


STAMPED = st.one_of(st.none(), st.integers(NOW - HOUR, NOW + 2 * DAY))
PARTITION = partition_states()
KEYS = st.lists(st.integers(0, 1200), unique=True, max_size=6)
BOUNDARIES = st.one_of(st.none(), st.integers(0, 1300 * HOUR))
APPENDS = st.builds(Appends, st.integers(15, 40), st.one_of(st.none(), st.integers(NOW - DAY, NOW + HOUR)))
SNAPSHOTS = st.integers(0, 40)
METADATA_BYTES = st.integers(0, 64 * MIB)
MANIFESTS = st.integers(0, 500)
ANNOUNCED = st.one_of(st.none(), SNAPSHOTS)
LAST_DONE = st.dictionaries(st.just(Action.EXPIRE), st.integers(NOW - HOUR, NOW + HOUR), max_size=1)


@st.composite
def worlds(draw):
    keys = draw(KEYS)
    state = table_state(boundary_ms=draw(BOUNDARIES), appends=draw(APPENDS), sequence_number=100)
    return view(
        {key(value): draw(PARTITION) for value in keys},
        state=state,
        snapshots=snapshots(draw(SNAPSHOTS)),
        facts=facts(metadata_file_bytes=draw(METADATA_BYTES), manifests=draw(MANIFESTS)),
        announced_sequence_number=draw(ANNOUNCED),
        last_done_ms=draw(LAST_DONE),
    )


WORLD = worlds()
PAUSES_MS = st.lists(st.integers(5 * MINUTE, 2 * HOUR), max_size=8).map(tuple)
SINCE = st.one_of(st.none(), st.integers(NOW - 3 * DAY, NOW + HOUR))


@st.composite
def maintained(draw):
    """Worlds in which we have worked before, and writers come back as they did."""
    world = draw(WORLD)
    partitions = {
        where: replace(state, compacted_at_ms=draw(SINCE), pauses_ms=draw(PAUSES_MS))
        for where, state in world.partitions.items()
    }
    return replace(world, partitions=partitions)


HOURS = st.lists(
    st.tuples(st.integers(0, 23), st.sampled_from([None, ["expire"], ["compact", "rewrite_manifests"]])),
    max_size=2,
)
SCHEDULED = st.lists(st.tuples(st.integers(0, 23), st.floats(0.01, 1)), max_size=2)
MINUTES = st.integers(0, 40).map("{}m".format)
OF_COLD = st.fixed_dictionaries(
    {
        "after": st.sampled_from([0, 1, 2, 3, "90m", "learned"]),
        "quiet_commits": st.integers(0, 20),
        "quiet_for": st.sampled_from(["0s", "15m", "3h"]),
    }
)
OF_COMPACT = st.fixed_dictionaries(
    {
        "min_files": st.integers(2, 60),
        "minor_after": st.sampled_from([None, "0s", "12h"]),
        "max_delete_ratio": st.floats(0.01, 2),
        "max_position_deletes": st.integers(1, 60),
        "max_equality_deletes": st.integers(1, 60),
        "max_deletion_vectors": st.integers(1, 60),
    }
)
OF_EXPIRE = st.fixed_dictionaries(
    {
        "keep_for": MINUTES,
        "keep_last": st.integers(1, 30),
        "at_once": st.integers(1, 12),
        "at_latest": MINUTES,
        "every": st.integers(0, 60).map("{}m".format),
    }
)
MIN_MANIFESTS = st.integers(2, 200)
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu"])
BYTES_PER_HOUR = st.one_of(st.none(), st.integers(0, 10**10))


@st.composite
def policies(draw):
    """Policies with every kind of limit, window and schedule."""
    hours = draw(HOURS)
    schedules = [
        {"cron": f"0 {hour} * * *", "lasts": "3h", "do": ["compact", "expire"], "from_score": score}
        for hour, score in draw(SCHEDULED)
    ]
    return Policy.model_validate(
        {
            "cold": draw(OF_COLD),
            "compact": draw(OF_COMPACT),
            "expire": draw(OF_EXPIRE),
            "manifests": {"min_count": draw(MIN_MANIFESTS)},
            "work": {
                "tz": draw(ZONES),
                "windows": [
                    {"cron": f"30 {hour} * * *", "lasts": "2h", **({"do": do} if do else {})}
                    for hour, do in hours
                ],
                "schedules": schedules,
                "bytes_per_hour": draw(BYTES_PER_HOUR),
            },
        }
    )


def obviously(world, policy, now):
    """The planner that anybody would write first: which partitions are due, in thirty lines."""
    due = set()
    for name, kept in world.partitions.items():
        state = kept.as_of(now)
        hour = int(name.split(":")[1].rstrip("}"))
        boundary = world.around.state.boundary_ms
        quiet = now - state.last_write_at_ms
        # What a span is in hours; of these tables nothing was learned yet.
        after = {timedelta(minutes=90): 1.5, "learned": 2}.get(policy.cold.after, policy.cold.after)
        is_behind = boundary is not None and (hour + 1 + after) * HOUR <= boundary
        if not is_behind and quiet < policy.cold.silent_for:
            continue
        commits = world.around.state.foreign_commits - state.last_write_number
        if quiet < policy.cold.quiet_for:
            continue
        if commits < policy.cold.quiet_commits and quiet < policy.cold.quiet_at_most:
            continue
        target = policy.compact.target_file_size
        small_files = small_bytes = all_files = all_bytes = rows = 0
        for bucket, stats in sorted(state.data.items()):
            octave, half = divmod(bucket, 2)
            begin, end = (3 * 2**octave // 2, 2 ** (octave + 1)) if half else (2**octave, 3 * 2**octave // 2)
            rows += stats.rows
            if end <= 0.75 * target:
                all_files, all_bytes = all_files + stats.files, all_bytes + stats.bytes
                # A file joins when all that is smaller, and its like, have its size.
                if not small_files or all_bytes - stats.bytes // stats.files >= begin:
                    small_files, small_bytes = all_files, all_bytes
        if FileKind.DELETION_VECTORS in state.deletes:
            continue  # nobody can apply these yet
        deleted = state.deletes.get(FileKind.POSITION_DELETES, FileStats()).rows
        joins = state.deletes.get(FileKind.EQUALITY_DELETES, FileStats()).files
        many = small_files >= policy.compact.min_files
        full = small_files >= policy.compact.fill_files and small_bytes >= target
        dirty = rows > 0 and deleted / rows >= policy.compact.max_delete_ratio
        joined = rows > 0 and joins >= policy.compact.max_equality_deletes
        if many or full or dirty or joined:
            due.add(name)
    return due


def due_partitions(planned):
    return {r.decision.partition for r in planned.requests if r.decision.action is Action.COMPACT}


def due_again(planned, again):
    """What is due after all that was due is done.

    With its first snapshot goes what shows that a table is young: then orphans are looked for, for the first time.
    """
    expires = any(one.decision.action is Action.EXPIRE for one in planned.requests)
    return [r for r in again.requests if not expires or r.decision.action is not Action.REMOVE_ORPHANS]


@given(worlds())
def test_it_finds_what_the_obvious_planner_finds(world):
    """The obvious planner knows no rest after a job."""
    assert obviously(world, RESTLESS, NOW) == due_partitions(plan(world, RESTLESS, NOW))


@given(maintained(), policies())
def test_with_every_limit_a_verdict_keeps_the_laws(world, policy):
    """Whatever the policy says: a job leaves a score below 1, or data that rests, or deletes that fit no budget; planning
    again finds nothing, and no job does nothing.
    """
    planned = plan(world, policy, NOW)
    again = plan(after(world, planned, policy, NOW), policy, NOW)
    left = {(d.action, d.partition): d for d in again.decisions}

    assert due_again(planned, again) == []
    for request in planned.requests:
        then = left[request.decision.action, request.decision.partition]
        assert then.score < 1 or then.verdict is Verdict.RESTING or "ever allows" in then.why
        if request.decision.action is Action.COMPACT:
            state = world.partitions[request.decision.partition]
            assert request.decision.files >= 2 or state.has_deletes


@given(maintained(), policies(), st.integers(0, 3 * DAY))
def test_with_every_limit_a_verdict_stands_until_the_time_it_names(world, policy, later):
    then = {(d.action, d.partition): d for d in plan(world, policy, NOW + later).decisions}
    for decision in plan(world, policy, NOW).decisions:
        wakes = decision.wake.at_ms is not None and decision.wake.at_ms <= NOW + later
        # What is due is looked at in every round, and what is running ends by itself.
        if not wakes and decision.verdict is not Verdict.DUE:
            assert then[decision.action, decision.partition].verdict is decision.verdict


@given(worlds(), policies())
def test_a_schedule_only_ever_makes_more_due(world, policy):
    bare = policy.model_copy(update={"work": policy.work.model_copy(update={"schedules": ()})})

    assert due_partitions(plan(world, bare, NOW)) <= due_partitions(plan(world, policy, NOW))


@given(maintained(), policies())
@settings(max_examples=50)
def test_nothing_begins_outside_the_windows_of_its_action(world, policy):
    for request in plan(world, policy, NOW).requests:
        windows = [w for w in policy.work.windows if request.decision.action in w.do]
        windows = windows or [w for w in policy.work.windows if not w.do]

        assert not windows or opening(windows, policy.work.tz, NOW).is_open


COLD = {key(1): partition(10)}
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


@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(world, shuffle: random.Random):
    items = list(world.partitions.items())
    shuffle.shuffle(items)

    assert plan(world, POLICY, NOW) == plan(replace(world, partitions=dict(items)), POLICY, NOW)


@given(worlds())
def test_every_partition_gets_a_verdict_and_a_why(world):
    decisions = plan(world, POLICY, NOW).decisions

    assert sorted(world.partitions) == [d.partition for d in decisions if d.partition is not None]
    assert all(d.why for d in decisions)


@given(worlds())
def test_a_job_brings_the_score_below_one(world):
    planned = plan(world, POLICY, NOW)
    again = plan(after(world, planned, POLICY, NOW), POLICY, NOW)
    scores = {(d.action, d.partition): d.score for d in again.decisions}

    assert all(scores[r.decision.action, r.decision.partition] < 1 for r in planned.requests)
    assert due_again(planned, again) == []


@given(worlds())
def test_the_backlog_is_done_in_one_round(world):
    """Orphans apart: see `due_again`."""
    policy = POLICY.model_copy(update={"orphans": Orphans(mode="off")})
    work, _ = done(world, policy, NOW)
    assert work.rounds <= 1 < MAX_ROUNDS
    assert work == requested(world, plan(world, policy, NOW))


@given(worlds())
def test_no_request_would_do_nothing(world):
    for request in plan(world, POLICY, NOW).requests:
        if request.decision.action is Action.EXPIRE:
            assert request.snapshots
        if request.decision.partition is None:
            continue
        state = world.partitions[request.decision.partition]
        assert request.decision.files >= 2 or (request.decision.files and state.deletes_total.rows)


@given(worlds(), st.integers(0, 3 * DAY))
def test_a_verdict_stands_until_the_time_it_names(world, later):
    """A decision is kept until `wake`; before that, planning again must give the same verdict."""
    then = {d.partition: d for d in plan(world, POLICY, NOW + later).decisions if d.partition}
    for now in plan(world, POLICY, NOW).decisions:
        if now.partition is not None and (now.wake.at_ms is None or NOW + later < now.wake.at_ms):
            assert now.verdict is then[now.partition].verdict


@pytest.mark.parametrize(
    ("fields", "verdict", "why"),
    [
        ({}, Verdict.DUE, "cold and due: 10 of 4 files below 96.0 MiB; 10 files, 10.0 MiB to rewrite"),
        ({"halted": "mismatch: rows differ"}, Verdict.HALTED, "the table is halted: mismatch: rows differ"),
        (
            {"flights": (Flight("j", Action.COMPACT, key(1), 1, NOW),)},
            Verdict.RUNNING,
            "a job is running: 10 of 4 files below 96.0 MiB",
        ),
        (
            {"quarantined": {key(1): Quarantine(NOW + MINUTE, 3, "missing_file: gone")}},
            Verdict.QUARANTINED,
            "failed 3 times in a row (missing_file: gone); tried again in 1m",
        ),
        (
            {"pause": Hold(HoldKind.PAUSE, "u", "t", "load test", NOW, until_ms=NOW + 5 * MINUTE)},
            Verdict.OFF,
            "paused, for another 5m: load test",
        ),
        (
            {"pause": Hold(HoldKind.PAUSE, "u", "t", "load test", NOW - MINUTE, until_ms=NOW)},
            Verdict.DUE,
            "cold and due: 10 of 4 files below 96.0 MiB; 10 files, 10.0 MiB to rewrite",
        ),
        (
            {"facts": facts(format_version=3)},
            Verdict.UNSUPPORTED,
            "format version 3 is followed, not yet rewritten; debt 2.50: 10 of 4 files below 96.0 MiB",
        ),
    ],
    ids=["due", "halted", "running", "quarantined", "paused", "paused-until-now", "unsupported"],
)
def test_a_verdict_says_why_with_numbers(fields, verdict, why):
    decision = plan(view(COLD, **fields), POLICY, NOW).of_partitions[0]

    assert (verdict, why) == (decision.verdict, decision.why)


def test_deletion_vectors_are_unsupported_in_words():
    state = replace(partition(10), deletes={FileKind.DELETION_VECTORS: FileStats(2, 500, 9)})
    decision = plan(view({key(1): state}), POLICY, NOW).of_partitions[0]

    assert decision.verdict is Verdict.UNSUPPORTED
    assert decision.why.startswith("2 files of deletion vectors cannot be applied yet")


@pytest.mark.parametrize(("count", "verdict"), [(10, Verdict.HOT), (1, Verdict.CLEAN)])
def test_what_this_version_cannot_rewrite_is_said_before_it_is_due(count, verdict):
    world = view({key(1): partition(count, last_write_at_ms=NOW if verdict is Verdict.HOT else 0)})
    later = replace(world, facts=facts(format_version=3))
    blocked, fine = (plan(one, POLICY, NOW).of_partitions[0] for one in (later, world))

    assert blocked.verdict is fine.verdict is verdict
    assert (
        blocked.why
        == f"{fine.why}; not to be compacted then: format version 3 is followed, not yet rewritten"
    )


def test_a_table_without_a_policy_is_only_observed():
    planned = plan(view(COLD, snapshots=snapshots(50), announced_sequence_number=50), None, NOW)

    assert planned.requests == ()
    assert {d.verdict for d in planned.decisions} == {Verdict.OFF}


def test_what_saves_readers_the_most_for_each_byte_comes_first():
    """Whatever made it due: many small files, few of them, or deletes."""
    laden = replace(
        partition(4, 128 * MIB), deletes={FileKind.POSITION_DELETES: FileStats(200, 2 * 10**6, 40 * MIB)}
    )
    world = view(
        {key(1): partition(10, MIB), key(2): partition(10, KIB), key(3): partition(50, KIB), key(4): laden}
    )
    due = [r.decision.partition for r in plan(world, POLICY, NOW).requests]

    assert due == [key(3), key(4), key(2), key(1)]


@pytest.mark.parametrize(
    ("compacted_ago", "written_ago", "count", "verdict"),
    [
        (2 * HOUR, HOUR, 10, Verdict.RESTING),
        (2 * HOUR, HOUR, 60, Verdict.DUE),
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
            f"cold, but rests from its last job until {clock_text(until_ms)}, unless its score reaches 15 (it is 2.50): "
        )


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
        "cold and due: 210 of 200 position-delete files, while its data rests until "
        f"{clock_text(NOW + DAY - 2 * HOUR)}; 210 files, 1.0 MiB to rewrite, deletes are merged"
    )


def test_what_is_merged_while_data_rests_says_its_own_number():
    """Its small files owe more, and wait for the end of the rest."""
    state = with_deletes(10 * GIB, 210)
    world = view({key(1): replace(state, data={**state.data, **files(40)})})
    planned = plan(world, POLICY, NOW)

    assert "210 of 200 position-delete files, while" in planned.of_partitions[0].why
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


def test_deletes_that_are_merged_along_make_no_job_larger_than_a_budget_allows():
    """It would wait for ever."""
    deletes = {FileKind.POSITION_DELETES: FileStats(60, 6000, 100 * MIB)}
    state = PartitionState(data=files(100, 20 * MIB, rows=10**6), deletes=deletes, last_write_at_ms=0)
    policy = Policy(work=Work(bytes_per_hour=GIB))
    decision = plan(view({key(1): state}), policy, NOW).of_partitions[0]

    assert decision.verdict is Verdict.DUE
    assert decision.bytes <= GIB


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


PAUSES = (20 * MINUTE, 20 * MINUTE, 20 * MINUTE, 6 * MINUTE, 20 * MINUTE)


@pytest.mark.parametrize(
    ("quiet", "size", "verdict", "why"),
    [
        (15 * MINUTE, MIB, Verdict.DUE, "10 files, 10.0 MiB to rewrite"),
        (15 * MINUTE, 90 * MIB, Verdict.DUE, "100 files, 8.8 GiB to rewrite"),
        (19 * MINUTE + 55_000, 90 * MIB, Verdict.WAITING, "its writers come back in"),
        (23 * MINUTE, 90 * MIB, Verdict.DUE, "8.8 GiB to rewrite"),
    ],
    ids=["a small job", "a large one in parts", "not even two files", "longer than any pause"],
)
def test_a_job_is_as_long_as_its_writers_stay_away(quiet, size, verdict, why):
    """They come back every twenty minutes or so. Of a large partition as much is taken as fits."""
    count = 10 if size == MIB else 100
    state = replace(partition(count, size), last_write_at_ms=NOW - quiet, pauses_ms=PAUSES)
    decision = plan(view({key(1): state}), POLICY, NOW).of_partitions[0]

    if verdict is Verdict.DUE and size > MIB and quiet < 20 * MINUTE:
        assert decision.bytes < 10 * GIB
        assert 10_000 + decision.bytes * 1000 // (20 * MIB) <= 20 * MINUTE - quiet
    else:
        assert why in decision.why
    assert decision.verdict is verdict
    if verdict is Verdict.WAITING:
        assert decision.wake.at_ms == NOW - quiet + 20 * MINUTE


@pytest.mark.parametrize(
    ("millions", "quiet", "verdict", "why"),
    [
        (192, 16 * MINUTE, Verdict.DUE, "2.9 GiB to read, equality deletes become position deletes"),
        (192, 18 * MINUTE, Verdict.WAITING, "its writers come back in 2m"),
        (350, 16 * MINUTE, Verdict.DUE, "4.4 GiB to rewrite"),
    ],
    ids=["it fits", "it fits the next pause", "no pause is as long"],
)
def test_equality_deletes_are_not_applied_in_parts_where_they_can_be_converted_in_the_next_pause(
    millions, quiet, verdict, why
):
    """A part takes no delete away, and the partition would rest from it for a day."""
    deletes = {FileKind.EQUALITY_DELETES: FileStats(70, 70_000, MIB)}
    data = files(288, 128 * MIB, rows=millions * 10**6 // 288)
    state = PartitionState(data, deletes, last_write_at_ms=NOW - quiet, pauses_ms=(20 * MINUTE,) * 4)
    (decision,) = plan(view({key(1): state}), Policy(), NOW).of_partitions

    assert decision.verdict is verdict
    assert why in decision.why


@pytest.mark.parametrize(
    ("pauses_ms", "work", "says"),
    [
        (
            (20 * MINUTE,) * 4,
            Work(),
            "5.3 GiB would make position deletes of them, but the pause that its writers",
        ),
        ((), Work(bytes_per_hour=4 * GIB), "of them, but work.bytes_per_hour allows 4.0 GiB"),
        (
            (),
            Work(bytes_per_day=4 * GIB, bytes_per_hour=6 * GIB),
            "of them, but work.bytes_per_day allows 4.0 GiB",
        ),
        ((), Work(bytes_per_hour=6 * GIB), None),
    ],
    ids=["the pause", "an hour", "a day", "it fits"],
)
def test_the_why_of_applied_equality_deletes_names_what_keeps_them_from_becoming_positions(
    pauses_ms, work, says
):
    deletes = {FileKind.EQUALITY_DELETES: FileStats(70, 70_000, MIB)}
    data = files(288, 128 * MIB, rows=350 * 10**6 // 288)
    state = PartitionState(data, deletes, last_write_at_ms=NOW - 16 * MINUTE, pauses_ms=pauses_ms)
    (decision,) = plan(view({key(1): state}), Policy(work=work), NOW).of_partitions

    assert decision.take.converts_equality is (says is None)
    assert (says or "equality deletes become position deletes") in decision.why


@given(partition_states(), st.integers(GIB, 9 * GIB), st.integers(1, 2000))
def test_who_raises_a_budget_as_far_as_the_why_says_has_raised_it_enough(state, limit, times):
    """With a larger budget a job takes more."""
    state = replace(
        state, data={bucket: FileStats(s.files * times, s.rows, s.bytes * times) for bucket, s in state.data.items()},
        compacted_at_ms=None, last_write_at_ms=0, stamped_at_ms=None, arrivals=(),
    )  # fmt: skip

    def why(most):
        policy = Policy(work=Work(bytes_per_hour=most), compact=Compact(max_delete_ratio=0.001))
        (decision,) = plan(view({key(1): state}), policy, NOW).of_partitions
        return decision.why

    said = re.search(r"its ([0-9.]+ .i?B) are more than work.bytes_per_hour ever allows", why(limit))
    if said:
        enough = parse_size(said.group(1).replace(" ", ""))
        assert "ever allows" not in why(enough), why(enough)


def test_where_no_job_is_allowed_that_is_why_it_waits():
    policy = Policy(work=Work(jobs_at_once=0))
    (decision,) = plan(view({key(1): partition(30)}), policy, NOW).of_partitions

    assert (decision.verdict, "work.jobs_at_once allows no job" in decision.why) == (Verdict.WAITING, True)


@pytest.mark.parametrize(
    ("count", "size", "why"),
    [
        (7, 80 * MIB, "(at 5 that fill one and 5 files less; rewriting them would leave 3 less)"),
        (12, 24 * MIB, "(at 5 that fill one)"),
    ],
    ids=["nearly large enough", "small"],
)
def test_files_that_are_nearly_large_enough_are_said_to_be_left_alone_for_that(count, size, why):
    state = replace(partition(0), data=files(count, size), last_write_at_ms=0)
    (decision,) = plan(view({key(1): state}), Policy(), NOW).of_partitions

    assert why in decision.why
    assert (decision.verdict is Verdict.DUE) is (count == 12)


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


def test_of_many_snapshots_a_twentieth_must_be_free_to_go():
    """Ten of ten thousand are not worth reading and writing the metadata of all."""
    week = Expire(at_once=10)
    few, many = (expiry(10_080 + count, expire=week)[0] for count in (500, 540))

    assert (few.verdict, many.verdict) == (Verdict.CLEAN, Verdict.DUE)
    assert "of 10580 snapshots may go, due at 529" in few.why


def on_table(planned, action):
    """The verdict on one action on the table as a whole."""
    return next(decision for decision in planned.of_table if decision.action is action)


def expiry(count, *, expire=POLICY.expire, **fields):
    world = view(**{"announced_sequence_number": count, "snapshots": snapshots(count), **fields})
    planned = plan(world, Policy(expire=expire), NOW)
    return on_table(planned, Action.EXPIRE), (planned.requests[0].snapshots if planned.requests else ())


def test_the_newest_and_the_young_stay():
    decision, going = expiry(20)

    assert list(going) == list(range(1, 11))  # 11 to 20 are younger than ten minutes
    assert decision.why == "10 of 20 snapshots may go, due at 2"


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({"snapshots": tuple(replace(s, is_pinned=s.snapshot_id == 4) for s in snapshots(20))}, {4}),
        (
            {
                "snapshots": tuple(
                    replace(s, kept_until_ms=NOW + 1 if s.snapshot_id == 4 else NOW) for s in snapshots(20)
                )
            },
            {4},
        ),
        ({"flights": (Flight("j", Action.COMPACT, key(1), 7, NOW),)}, {7}),
        ({"announced_sequence_number": 8}, {9, 10}),
        ({"announced_sequence_number": None}, set(range(1, 11))),
    ],
    ids=["tag", "branch", "base of a job", "not announced", "nothing announced"],
)
def test_what_somebody_may_still_need_stays(fields, kept):
    _, going = expiry(20, **fields)

    assert set(range(1, 11)) - kept == set(going)


WRITER = "ingest.a"


def stray(number, ago_ms, **fields):
    return Astray(1000 + number, 1000 + number, NOW - ago_ms, **fields)


@pytest.mark.parametrize(
    ("one", "goes"),
    [
        (stray(1, 10 * 60_000), True),
        (stray(1, 10 * 60_000 - 1), False),
        (stray(1, DAY - 1, is_staged=True), False),
        (stray(1, DAY, is_staged=True), True),
        (stray(1, 14 * DAY - 1, token=WRITER), False),
        (stray(1, 14 * DAY, token=WRITER), True),
    ],
    ids=["old", "young", "staged", "staged long ago", "a place", "an old place"],
)
def test_what_no_branch_or_tag_reaches_goes_by_age_alone(one, goes):
    _, going = expiry(20, astray=(one,))

    assert list(going) == [*([1001] if goes else []), *range(1, 11)]


def test_of_more_than_one_commit_takes_the_oldest_go_and_the_rest_does_not_wait_for_a_day():
    daily = Expire(keep_for="10m", keep_last=5, at_latest="7d")
    decision, going = expiry(4000, expire=daily, last_done_ms={Action.EXPIRE: NOW - MINUTE})
    left, _ = expiry(1500, expire=daily, last_done_ms={Action.EXPIRE: NOW - MINUTE})

    assert (decision.verdict, decision.files, len(going)) == (Verdict.DUE, 3990, 2000)
    assert going == tuple(range(1, 2001))
    assert left.verdict is Verdict.CLEAN


@pytest.mark.parametrize(("keep_last", "kept_until_ms"), [(20, 0), (5, NOW)], ids=["the newest", "a branch"])
def test_what_something_else_kept_until_now_is_not_overdue(keep_last, kept_until_ms):
    """Else each commit would free one that is long overdue, and be followed by an expiry."""
    expire = Expire(keep_for="10m", keep_last=keep_last, at_latest="30m")
    # A commit an hour, the last one just now: it has freed the oldest.
    log = tuple(
        replace(one, committed_at_ms=NOW - (keep_last - place) * HOUR, kept_until_ms=kept_until_ms)
        for place, one in enumerate(snapshots(keep_last + 1))
    )
    soon, later = (
        on_table(
            plan(
                view(
                    {}, snapshots=log, announced_sequence_number=100, last_done_ms={Action.EXPIRE: NOW - HOUR}
                ),
                Policy(expire=expire),
                at_ms,
            ),
            Action.EXPIRE,
        )
        for at_ms in (NOW, NOW + HOUR)
    )

    assert (soon.verdict, soon.files) == (Verdict.CLEAN, 1)
    assert later.verdict is Verdict.DUE


def test_the_verdict_says_how_many_no_branch_or_tag_reaches():
    decision, _ = expiry(20, astray=(stray(1, 10 * 60_000), stray(2, 0)))

    assert decision.why == "11 of 22 snapshots may go, due at 2, 1 of them reached by no branch or tag"


def test_a_place_that_a_newer_snapshot_of_main_has_keeps_nothing_that_is_astray():
    newer = tuple(replace(s, sequence_number=2000, token=WRITER) for s in snapshots(1))
    _, going = expiry(1, snapshots=newer, astray=(stray(1, HOUR, token=WRITER), stray(2, HOUR)))

    assert going == (1001, 1002)


def test_the_base_of_a_job_that_a_rollback_left_stays():
    flights = (Flight("j", Action.COMPACT, key(1), 1001, NOW),)
    _, going = expiry(20, astray=(stray(1, DAY), stray(2, DAY)), flights=flights)

    assert list(going) == [1002, *range(1, 11)]


def test_what_is_astray_wakes_the_verdict_when_it_is_old_enough():
    decision, _ = expiry(1, snapshots=snapshots(1), astray=(stray(1, 0), stray(2, 0)))

    assert decision.wake.at_ms == NOW + 10 * 60_000


TOKENS = {2: "ingest.a", 4: "ingest.a", 5: "kafka.connect.offsets.control.sink", 6: "ingest.a"}


def with_places(**first):
    """Twenty snapshots, some of which keep a writer's place; `first` changes the oldest of those that do so last."""
    tokened = (replace(s, token=TOKENS.get(s.snapshot_id, "")) for s in snapshots(20))
    return tuple(replace(s, **first) if s.snapshot_id == 5 else s for s in tokened)


def test_a_writers_place_stays_with_all_that_came_after_it():
    """Writers look for it from the head on, from parent to parent: a snapshot that is missing between ends their search."""
    decision, going = expiry(20, snapshots=with_places())

    assert set(going) == {1, 2, 3, 4}
    assert "6 kept for a writer's place" in decision.why


def test_a_writer_that_is_away_for_two_weeks_loses_its_place():
    away = with_places(committed_at_ms=NOW - 14 * DAY + 1)
    held, going = expiry(20, snapshots=away, expire=Expire(keep_for="10m", keep_last=3, at_once=5))
    _, after = expiry(20, snapshots=with_places(committed_at_ms=NOW - 14 * DAY))

    assert set(going) == set()
    assert held.wake.at_ms == NOW + 1
    assert set(after) == {1, 2, 3, 4, 5}


def test_a_writers_place_is_not_worth_a_metadata_file_that_is_too_large():
    expire = Expire(keep_for="10m", keep_last=3, at_once=2, max_metadata_size="3MiB")
    at_the_limit, below = (
        expiry(20, snapshots=with_places(), expire=expire, facts=facts(metadata_file_bytes=size))[1]
        for size in (3 * MIB, 3 * MIB - 1)
    )

    assert set(at_the_limit) == set(range(1, 11))
    assert set(below) == {1, 2, 3, 4}


def test_an_expiry_waits_until_it_is_worth_a_commit():
    decision, going = expiry(20, expire=Expire(keep_for="10m", keep_last=3, at_once=11))

    assert (decision.verdict, going) == (Verdict.CLEAN, ())
    assert decision.wake.at_ms == NOW + MINUTE


def test_a_few_old_snapshots_go_when_it_is_late():
    expire = Expire(keep_for="10m", keep_last=3, at_once=100, at_latest="5m")
    decision, going = expiry(20, expire=expire)

    assert decision.why == "the oldest could have gone 9m ago, 5m at the latest"
    assert decision.option == "expire.at_latest"
    assert len(going) == 10


def test_large_metadata_lets_snapshots_go_sooner():
    expire = Expire(keep_for="10m", keep_last=3, at_once=100, max_metadata_size="1MiB")
    decision, going = expiry(20, expire=expire, facts=facts(metadata_file_bytes=3 * MIB))

    assert decision.why == "metadata.json has 3.0 MiB of 1.0 MiB, and 10 of 20 snapshots may go"
    assert decision.option == "expire.max_metadata_size"
    assert len(going) == 10


def test_a_table_is_expired_once_in_a_while():
    done = {Action.EXPIRE: NOW - 20 * HOUR}
    decision, going = expiry(20, last_done_ms=done)
    later, _ = expiry(20, last_done_ms={Action.EXPIRE: NOW - DAY})

    assert (decision.verdict, going) == (Verdict.CLEAN, ())
    assert decision.why == "10 of 20 snapshots may go, due at 2, and once in 1d: in 4h"
    assert decision.wake.at_ms is not None
    assert decision.wake.at_ms <= NOW + 4 * HOUR
    assert later.verdict is Verdict.DUE


def test_large_metadata_that_young_snapshots_make_is_no_reason_to_expire_a_few():
    expire = Expire(keep_for="16m", keep_last=3, at_once=100, max_metadata_size="1MiB")
    decision, _ = expiry(20, expire=expire, facts=facts(metadata_file_bytes=300 * MIB))

    assert decision.verdict is Verdict.CLEAN


@pytest.mark.parametrize(
    ("action", "world", "verdict", "why"),
    [
        pytest.param(
            Action.REWRITE_MANIFESTS,
            {"facts": facts(manifests=450, metadata_bytes=90 * MIB), "state": table_state(partitions=100)},
            Verdict.UNSUPPORTED,
            "due, but this version cannot rewrite manifests yet: 450 manifests for 100 partitions, 12 would do "
            "(due 100 above that, at 4 to a partition)",
            id="too many manifests",
        ),
        pytest.param(
            Action.REWRITE_MANIFESTS,
            {"facts": facts(manifests=20, metadata_bytes=MIB), "state": table_state(partitions=2)},
            Verdict.CLEAN,
            "20 manifests for 2 partitions, 1 would do (due 100 above that, at 4 to a partition)",
            id="few manifests",
        ),
        pytest.param(
            Action.TRIM_METADATA,
            {"facts": facts(metadata_versions=250)},
            Verdict.DUE,
            "150 of 250 old metadata.json files may go, due at 100",
            id="old metadata",
        ),
        pytest.param(
            Action.TRIM_METADATA,
            {"snapshots": snapshots(9000), "last_done_ms": {Action.TRIM_METADATA: NOW - 17 * HOUR}},
            Verdict.DUE,
            "as many as 1020 metadata.json files may go since 17h ago, due at 100 once a day, and at 1000 once an hour",
            id="metadata of most of a day",
        ),
        pytest.param(
            Action.TRIM_METADATA,
            {"snapshots": snapshots(9000), "last_done_ms": {Action.TRIM_METADATA: NOW - 2 * HOUR}},
            Verdict.CLEAN,
            "as many as 120 metadata.json files may go since 2h ago, due at 100 once a day, and at 1000 once an hour",
            id="metadata of two hours",
        ),
        pytest.param(
            Action.TRIM_METADATA,
            {"snapshots": snapshots(20), "last_done_ms": {Action.TRIM_METADATA: NOW - DAY}},
            Verdict.DUE,
            "as many as 1515 metadata.json files may go since 1d ago, due at 100 once a day, and at 1000 once an hour",
            id="metadata of a table that keeps few snapshots",
        ),
        pytest.param(
            Action.TRIM_METADATA,
            {"snapshots": snapshots(1000)},
            Verdict.CLEAN,
            "0 of 1000 old metadata.json files may go, due at 100; all are younger than 7d",
            id="metadata of a young table",
        ),
        pytest.param(
            Action.REMOVE_ORPHANS,
            {"snapshots": snapshots(100)},
            Verdict.CLEAN,
            "the table is younger than an orphan must be (3d)",
            id="a young table",
        ),
        pytest.param(
            Action.REMOVE_ORPHANS,
            {"snapshots": snapshots(5000)},
            Verdict.DUE,
            "nobody has looked for orphans yet",
            id="nobody has looked",
        ),
        pytest.param(
            Action.REMOVE_ORPHANS,
            {"last_done_ms": {Action.REMOVE_ORPHANS: NOW - DAY}},
            Verdict.CLEAN,
            "looked for 1d ago, every 7d",
            id="orphans looked for lately",
        ),
    ],
)
def test_the_table_as_a_whole_has_verdicts_too(action, world, verdict, why):
    decision = on_table(plan(view(**world), POLICY, NOW), action)

    assert (decision.verdict, decision.why) == (verdict, why)
    assert len(decision.label) > len("()")


def test_without_its_snapshots_nothing_is_decided_of_the_table():
    planned = plan(view({key(1): partition(10)}, snapshots=None), POLICY, NOW)

    assert planned.of_table == ()
    assert [d.verdict for d in planned.of_partitions] == [Verdict.DUE]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (
            FileKind.EQUALITY_DELETES,
            "12 of 10 equality-delete files, 500 rows in them; at most 22 files, 10.0 MiB to rewrite",
        ),
        (FileKind.DELETION_VECTORS, "debt 1.52: 500 delete rows on 1000 rows, limit 33%"),
    ],
)
def test_each_kind_of_delete_has_its_own_debt(kind, why):
    state = replace(partition(10), deletes={kind: FileStats(12, 500, 9)})
    policy = Policy(compact=Compact(min_files=100))

    assert plan(view({key(1): state}), policy, NOW).of_partitions[0].why.endswith(why)


@pytest.mark.parametrize(("ratio", "said"), [(0.33, "33%"), (0.015, "1.5%"), (0.004, "0.4%"), (2, "200%")])
def test_the_limit_of_delete_rows_is_told_as_the_policy_says_it(ratio, said):
    state = replace(partition(1), deletes={FileKind.POSITION_DELETES: FileStats(1, 1, 9)})
    policy = Policy(compact=Compact(max_delete_ratio=ratio))

    assert (
        f"1 delete rows on 100 rows, limit {said}"
        in plan(view({key(1): state}), policy, NOW).of_partitions[0].why
    )


def test_buckets_go_by_quiet_alone():
    world = view({key(1): partition(10)}, facts=facts(fields=BUCKETS), state=table_state(boundary_ms=None))

    assert plan(world, POLICY, NOW).of_partitions[0].verdict is Verdict.DUE
    assert world.table == TABLE


def test_what_waits_under_a_schedule_is_looked_at_again_when_the_schedule_closes():
    nightly = Schedule(cron="0 22 * * *", lasts="1h", do=("compact",), from_score=0.4)
    policy = Policy(compact=Compact(min_files=20), work=Work(bytes_per_hour=1, schedules=(nightly,)))
    decision = plan(view(COLD), policy, NOW).of_partitions[0]
    eleven_ms = NOW + 46 * MINUTE + 40_000

    assert (decision.verdict, decision.wake.at_ms) == (Verdict.WAITING, eleven_ms)
    assert plan(view(COLD), policy, eleven_ms).of_partitions[0].verdict is Verdict.CLEAN


def test_deletes_that_do_not_fit_a_budget_keep_no_small_files_waiting():
    """The keys of the large files that deletes name are more than an hour allows; a hundred small ones are not."""
    large, small = PartitionState(data=files(8, 2 * GIB, rows=10**8), last_write_at_ms=0), partition(100, MIB)
    deletes = {FileKind.EQUALITY_DELETES: FileStats(12, 100, MIB)}
    both = replace(small, data={**large.data, **small.data}, deletes=deletes)
    world = view({key(1): both, key(2): replace(large, deletes=deletes)}, hour_budget_bytes=GIB)
    first, without_small = plan(world, Policy(), NOW).of_partitions

    assert (first.verdict, first.files, first.bytes) == (Verdict.DUE, 100, 100 * MIB)
    assert first.why.startswith("cold and due: 100 of 20 files below 96.0 MiB;")
    assert without_small.verdict is Verdict.WAITING
    assert "12 of 10 equality-delete files" in without_small.why


def test_a_verdict_is_kept_no_longer_than_until_the_last_writes_own_time():
    """It lay ahead of this machine's clock. Once that is there, the partition was written just now."""
    clean = replace(partition(2, 128 * MIB), last_write_at_ms=NOW - DAY, stamped_at_ms=NOW + HOUR)
    (decision,) = plan(view({key(1): clean}), Policy(), NOW).of_partitions
    (then,) = plan(view({key(1): clean}), Policy(), NOW + HOUR).of_partitions

    assert (decision.verdict, then.verdict) == (Verdict.CLEAN, Verdict.HOT)
    assert decision.wake.at_ms == NOW + HOUR


def test_equality_deletes_are_applied_where_somebody_else_rewrites_files_too():
    """Their rewrite may be open: what is made of the deletes would not apply to what it writes."""
    deletes = {FileKind.EQUALITY_DELETES: FileStats(70, 70_000, MIB)}
    state = PartitionState(files(40, 128 * MIB, rows=10**6), deletes, last_write_at_ms=NOW - 16 * MINUTE)
    (alone,) = plan(view({key(1): state}), Policy(), NOW).of_partitions
    (beside,) = plan(view({key(1): state}, facts=facts(rewritten_in=7)), Policy(), NOW).of_partitions

    assert (alone.take.converts_equality, alone.take.with_deletes) == (True, False)
    assert (beside.take.converts_equality, beside.take.with_deletes) == (False, True)
    assert beside.why.endswith(
        "rewrites files of this table too (snapshot 7) and could bring deleted rows back"
    )


def test_why_keys_of_a_huge_partition_are_not_read_is_said():
    deletes = {FileKind.EQUALITY_DELETES: FileStats(70, 70_000, MIB)}
    state = PartitionState(files(1600, 128 * MIB, rows=10**6), deletes, last_write_at_ms=0)
    (decision,) = plan(view({key(1): state}), Policy(), NOW).of_partitions

    assert decision.why.endswith("would make position deletes of them, but a job reads 10.0 GiB at most")


def test_what_a_branch_or_a_tag_kept_until_the_last_expiry_is_not_overdue():
    """Else each commit sets one free that is long overdue, and is followed by an expiry."""
    log = snapshots(300, apart_ms=HOUR)
    free = tuple(replace(one, is_pinned=number >= 1) for number, one in enumerate(log))
    soon, _ = expiry(
        0, snapshots=free, last_done_ms={Action.EXPIRE: NOW - HOUR}, announced_sequence_number=300
    )
    later, going = expiry(
        0, snapshots=free, last_done_ms={Action.EXPIRE: NOW - 25 * HOUR}, announced_sequence_number=300
    )

    assert (soon.verdict, later.verdict, len(going)) == (Verdict.CLEAN, Verdict.DUE, 1)


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
