"""The laws of a plan, whatever the table and the policy: what is due, for how long, and what is left after it."""

import random
from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from isotherm.core.model.decisions import Verdict
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.model.jobs import Action
from isotherm.core.planner.backlog import MAX_ROUNDS, after, done, requested
from isotherm.core.planner.plan import plan
from isotherm.core.policy.policy import Compact, Expire, Orphans, Policy
from isotherm.core.policy.windows import opening
from support.builders import DAY, HOUR, MINUTE, NOW
from support.drawn_views import maintained, policies, worlds
from support.examples import examples
from support.planned import POLICY

RESTLESS = Policy(
    compact=Compact(min_files=4, max_position_deletes=200, rest="0s"),
    expire=Expire(keep_for="10m", keep_last=3, at_once=2),
)


def silence(visits, cold):
    """Of writers that come in visits, a silence twice as long as those within visits says that they are gone."""
    twelfth = cold.silent_for // 12
    long = [place for place, one in enumerate(visits.absences) if one.away_ms > twelfth][-3:]
    shorter = [one.away_ms for one in visits.absences if one.away_ms <= twelfth]
    within = max([0, *shorter, *(one.within_ms for one in visits.absences)])
    if len(long) < 3 or within > twelfth:
        return cold.silent_for
    for number, place in enumerate(long):
        one = visits.absences[place]
        following = visits.absences[long[number + 1]] if number < 2 else None
        end = visits.last_ms if following is None else following.came_ms - following.away_ms
        if end - one.came_ms > 2 * one.away_ms:
            return cold.silent_for
    early = max(cold.quiet_for, 5 * MINUTE, min(2 * within, cold.silent_for // 8))
    return min(early, cold.silent_for)


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
        if not is_behind and quiet < silence(state.visits, policy.cold):
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
        vectors = state.deletes.get(FileKind.DELETION_VECTORS, FileStats())
        deleted = state.deletes.get(FileKind.POSITION_DELETES, FileStats()).rows + vectors.rows
        joins = state.deletes.get(FileKind.EQUALITY_DELETES, FileStats()).files
        many = small_files >= policy.compact.min_files
        full = small_files >= policy.compact.fill_files and small_bytes >= target
        dirty = rows > 0 and deleted / rows >= policy.compact.max_delete_ratio
        joined = rows > 0 and joins >= policy.compact.max_equality_deletes
        most = policy.compact.max_deletion_vectors
        vectored = rows > 0 and most is not None and vectors.files >= most
        if many or full or dirty or joined or vectored:
            due.add(name)
    return due


def due_partitions(planned):
    return {r.decision.partition for r in planned.requests if r.decision.action is Action.COMPACT}


def left_for_the_next(planned):
    """Partitions whose job makes position deletes of equality deletes, and has no room for small files beside that."""
    takes = {r.decision.partition: r.decision.take for r in planned.requests if r.decision.take is not None}
    return {key for key, take in takes.items() if take.converts_equality and not take.rewrites_data}


def due_again(planned, again):
    """What is due after all that was due is done.

    With its first snapshot goes what shows that a table is young: then orphans are looked for, for the first time.
    """
    expires = any(one.decision.action is Action.EXPIRE for one in planned.requests)
    beside = left_for_the_next(planned)
    again = replace(again, requests=tuple(r for r in again.requests if r.decision.partition not in beside))
    return [r for r in again.requests if not expires or r.decision.action is not Action.REMOVE_ORPHANS]


@given(worlds())
def test_it_finds_what_the_obvious_planner_finds(world):
    """The obvious planner knows no rest after a job."""
    waits = any(-DAY < NOW - one.written_at_ms < DAY for one in world.facts.unpublished)

    assert due_partitions(plan(world, RESTLESS, NOW)) == (set() if waits else obviously(world, RESTLESS, NOW))


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
        is_next = request.decision.partition in left_for_the_next(planned)
        assert then.score < 1 or then.verdict is Verdict.RESTING or "ever allows" in then.why or is_next
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
@examples(50)
def test_nothing_begins_outside_the_windows_of_its_action(world, policy):
    for request in plan(world, policy, NOW).requests:
        windows = [w for w in policy.work.windows if request.decision.action in w.do]
        windows = windows or [w for w in policy.work.windows if not w.do]

        assert not windows or opening(windows, policy.work.tz, NOW).is_open


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
            assert request.snapshots or any(end.over_at_ms <= NOW for end in world.facts.ref_ends)
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
