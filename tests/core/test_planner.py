import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import (
    BUCKETS,
    DAY,
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
from isotherm.model import Action, FileKind, FileStats, TableId
from isotherm.planner import Flight, Plan, Quarantine, Request, Verdict, admit, plan
from isotherm.policy import Compact, Expire, Policy
from isotherm.simulate import MAX_ROUNDS, after, backlog
from isotherm.state import PartitionState

POLICY = Policy(compact=Compact(min_files=4), expire=Expire(keep_for="10m", keep_last=3, at_once=2))


@st.composite
def partition_states(draw):
    sizes = draw(
        st.dictionaries(
            st.sampled_from([KIB, MIB, 50 * MIB, 96 * MIB, 128 * MIB, 300 * MIB]), st.integers(1, 120)
        )
    )
    data = {}
    for size, count in sizes.items():
        data |= files(count, size)
    deletes = draw(st.dictionaries(st.sampled_from([FileKind.POSITION_DELETES]), st.integers(1, 5000)))
    return PartitionState(
        data=data,
        deletes={kind: FileStats(1 + rows // 100, rows, 10 * rows) for kind, rows in deletes.items()},
        last_write_at_ms=draw(st.integers(NOW - 2 * DAY, NOW + HOUR)),
        last_write_number=draw(st.integers(0, 100)),
    )


@st.composite
def worlds(draw):
    keys = draw(st.lists(st.integers(0, 1200), unique=True, max_size=6))
    state = table_state(boundary_ms=draw(st.one_of(st.none(), st.integers(0, 1300 * HOUR))))
    return view(
        {key(value): draw(partition_states()) for value in keys},
        state=state,
        snapshots=snapshots(draw(st.integers(0, 40))),
        facts=facts(metadata_file_bytes=draw(st.integers(0, 64 * MIB)), manifests=draw(st.integers(0, 500))),
        announced_sequence_number=draw(st.one_of(st.none(), st.integers(0, 40))),
    )


def obviously(world, policy, now):
    """The planner that anybody would write first: which partitions are due, in thirty lines."""
    due = set()
    for name, state in world.partitions.items():
        hour = int(name.split(":")[1].rstrip("}"))
        boundary = world.around.state.boundary_ms
        if boundary is None or (hour + 1 + policy.cold.after) * HOUR > boundary:
            continue
        quiet = now - state.last_write_at_ms
        commits = world.around.state.foreign_commits - state.last_write_number
        if quiet < policy.cold.quiet_for:
            continue
        if commits < policy.cold.quiet_commits and quiet < policy.cold.quiet_at_most:
            continue
        target = policy.compact.target_file_size
        small_files = small_bytes = rows = 0
        for bucket, stats in state.data.items():
            octave, half = divmod(bucket, 2)
            end = 2 ** (octave + 1) if half else 3 * 2**octave // 2
            rows += stats.rows
            if end <= 0.75 * target:
                small_files, small_bytes = small_files + stats.files, small_bytes + stats.bytes
        deleted = sum(stats.rows for stats in state.deletes.values())
        many = small_files >= policy.compact.min_files
        full = small_files >= policy.compact.fill_files and small_bytes >= target
        dirty = rows > 0 and deleted / rows >= policy.compact.max_delete_ratio
        if many or full or dirty:
            due.add(name)
    return due


def due_partitions(planned):
    return {r.decision.partition for r in planned.requests if r.decision.action is Action.COMPACT}


@given(worlds())
def test_it_finds_what_the_obvious_planner_finds(world):
    assert obviously(world, POLICY, NOW) == due_partitions(plan(world, POLICY, NOW))


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
    again = plan(after(world, planned, POLICY), POLICY, NOW)
    scores = {(d.action, d.partition): d.score for d in again.decisions}

    assert all(scores[r.decision.action, r.decision.partition] < 1 for r in planned.requests)
    assert again.requests == ()


@given(worlds())
def test_the_backlog_is_done_in_one_round(world):
    assert backlog(world, POLICY, NOW).rounds <= 1 < MAX_ROUNDS


@given(worlds())
def test_no_request_would_do_nothing(world):
    for request in plan(world, POLICY, NOW).requests:
        if request.decision.action is Action.EXPIRE:
            assert request.snapshots
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


COLD = {key(1): partition(10)}


@pytest.mark.parametrize(
    ("fields", "verdict", "why"),
    [
        ({}, Verdict.DUE, "cold and due: 10 of 4 files below 96.0 MiB"),
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
            {"facts": facts(format_version=3)},
            Verdict.UNSUPPORTED,
            "format version 3 is followed, not yet rewritten; debt 2.50: 10 of 4 files below 96.0 MiB",
        ),
    ],
    ids=["due", "halted", "running", "quarantined", "unsupported"],
)
def test_a_verdict_says_why_with_numbers(fields, verdict, why):
    decision = plan(view(COLD, **fields), POLICY, NOW).of_partitions[0]

    assert (verdict, why) == (decision.verdict, decision.why)


def test_equality_deletes_are_unsupported_in_words():
    state = replace(partition(10), deletes={FileKind.EQUALITY_DELETES: FileStats(2, 500, 9)})
    decision = plan(view({key(1): state}), POLICY, NOW).of_partitions[0]

    assert decision.verdict is Verdict.UNSUPPORTED
    assert decision.why.startswith("2 files of equality deletes cannot be applied yet")


def test_a_table_without_a_policy_is_only_observed():
    planned = plan(view(COLD, snapshots=snapshots(50), announced_sequence_number=50), None, NOW)

    assert planned.requests == ()
    assert {d.verdict for d in planned.decisions} == {Verdict.OFF}


def test_the_more_debt_a_byte_pays_off_the_sooner():
    world = view({key(1): partition(10, MIB), key(2): partition(10, KIB), key(3): partition(50, KIB)})

    assert [r.decision.partition for r in plan(world, POLICY, NOW).requests] == [key(2), key(3), key(1)]


def expiry(count, *, expire=POLICY.expire, **fields):
    world = view(**{"announced_sequence_number": count, "snapshots": snapshots(count), **fields})
    planned = plan(world, Policy(expire=expire), NOW)
    return planned.on_table(Action.EXPIRE), (planned.requests[0].snapshots if planned.requests else ())


def test_the_newest_and_the_young_stay():
    decision, going = expiry(20)

    assert list(going) == list(range(1, 11))  # 11 to 20 are younger than ten minutes
    assert decision.why == "10 of 20 snapshots may go, due at 2"


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({"snapshots": tuple(replace(s, is_pinned=s.snapshot_id == 4) for s in snapshots(20))}, {4}),
        ({"flights": (Flight("j", Action.COMPACT, key(1), 7, NOW),)}, {7}),
        ({"announced_sequence_number": 8}, {9, 10}),
        ({"announced_sequence_number": None}, set(range(1, 11))),
    ],
    ids=["tag", "base of a job", "not announced", "nothing announced"],
)
def test_what_somebody_may_still_need_stays(fields, kept):
    _, going = expiry(20, **fields)

    assert set(range(1, 11)) - kept == set(going)


def test_the_newest_ingest_token_stays():
    only_token = tuple(replace(s, has_token=s.snapshot_id == 5) for s in snapshots(20))
    _, going = expiry(20, snapshots=only_token)

    assert 5 not in going
    assert len(going) == 9


def test_an_expiry_waits_until_it_is_worth_a_commit():
    decision, going = expiry(20, expire=Expire(keep_for="10m", keep_last=3, at_once=11))

    assert (decision.verdict, going) == (Verdict.CLEAN, ())
    assert decision.wake.at_ms == NOW + MINUTE


def request(table, size, score=2.0):
    world = view({key(1): partition(10, size)})
    decision = replace(plan(world, POLICY, NOW).of_partitions[0], score=score)
    return Request(TableId(table, table), decision)


def planned(*requests):
    return Plan(requests[0].table, (), (), tuple(requests))


def test_each_table_gets_its_turn():
    one = planned(*[request("a", KIB)] * 5)
    other = planned(request("b", KIB))
    chosen = admit([one, other], running=0, jobs_at_once=2, bytes_left=None)

    assert {r.table.name for r in chosen} == {"a", "b"}


@pytest.mark.parametrize(
    ("running", "at_once", "expected"), [(0, 0, 0), (2, 2, 0), (3, 2, 0), (1, 2, 1), (0, 9, 5)]
)
def test_no_more_jobs_than_allowed(running, at_once, expected):
    one = planned(*[request("a", KIB)] * 5)

    assert len(admit([one], running, at_once, None)) == expected


def test_no_more_bytes_than_the_budget_leaves():
    one = planned(request("a", 100 * KIB), request("a", KIB))
    chosen = admit([one], 0, 5, bytes_left=20 * KIB)

    assert [r.decision.bytes for r in chosen] == [10 * KIB]


def test_expiry_costs_no_slot():
    planned_expiry = plan(view(snapshots=snapshots(20), announced_sequence_number=20), POLICY, NOW)

    assert [r.decision.action for r in admit([planned_expiry], 5, 5, 0)] == [Action.EXPIRE]


def test_buckets_go_by_quiet_alone():
    world = view({key(1): partition(10)}, facts=facts(fields=BUCKETS), state=table_state(boundary_ms=None))

    assert plan(world, POLICY, NOW).of_partitions[0].verdict is Verdict.DUE
    assert world.table == TABLE
