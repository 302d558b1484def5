"""Whose turn it is: fair between tables, bounded waits, within every limit."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.contract.identity import TableId
from isotherm.core.model.decisions import Plan, Request
from isotherm.core.model.jobs import Action, ExecutorName
from isotherm.core.planner.plan import plan
from isotherm.core.planner.turns import KEPT_AFTER_MS, Room, admit
from isotherm.core.policy.policy import Compact, Expire, Policy
from isotherm.core.reads import weight
from support.builders import HOUR, KIB, MINUTE, NOW, key, partition, snapshots, view

POLICY = Policy(compact=Compact(min_files=4), expire=Expire(keep_for="10m", keep_last=3, at_once=2))


def request(table, size, *, waited=0, number=1, saved=None):
    """Ten files of a size that are due."""
    world = view({key(number): partition(10, size)})
    decision = plan(world, POLICY, NOW).of_partitions[0]
    if saved is not None:
        decision = replace(decision, saved_bytes=saved)
    return Request(TableId(table, table), decision, due_since_ms=NOW - waited)


def planned(*requests):
    return Plan(requests[0].table, (), (), tuple(requests))


def names(chosen):
    return [one.table.name for one in chosen]


def test_each_table_gets_its_turn():
    one = planned(*[request("a", KIB)] * 5)
    other = planned(request("b", KIB))

    assert set(names(admit([one, other], 0, 2, None, NOW))) == {"a", "b"}


@pytest.mark.parametrize(
    ("running", "at_once", "expected"), [(0, 0, 0), (2, 2, 0), (3, 2, 0), (1, 2, 1), (0, 9, 5)]
)
def test_no_more_jobs_than_allowed(running, at_once, expected):
    one = planned(*[request("a", KIB)] * 5)

    assert len(admit([one], running, at_once, None, NOW)) == expected


def test_work_on_whole_tables_is_let_in_by_turns():
    """A few run at once, so by names alone the first few tables would keep the others waiting as long as they are due."""
    plans = [planned(of_whole_table(request(name, KIB))) for name in "abcd"]

    assert names(admit(plans, 0, 2, None, NOW, None, {"a": NOW - 1, "c": NOW - 2})) == ["b", "d", "c", "a"]


def of_whole_table(one):
    return replace(one, decision=replace(one.decision, action=Action.EXPIRE, partition=None))


def test_no_more_bytes_than_the_budget_leaves():
    one = planned(request("a", 100 * KIB), request("a", KIB))
    chosen = admit([one], 0, 5, 20 * KIB, NOW)

    assert [r.decision.bytes for r in chosen] == [10 * KIB]


def test_what_has_not_fitted_the_budget_for_an_hour_is_passed_over_no_more():
    large = planned(request("a", 100 * KIB, waited=KEPT_AFTER_MS))
    small = planned(*[request("b", KIB)] * 3)

    assert admit([large, small], 0, 5, 20 * KIB, NOW) == ()
    assert names(admit([large, small], 0, 5, 1100 * KIB, NOW)) == ["a", "b", "b", "b"]


def test_what_a_tables_own_limit_leaves_is_kept_for_what_waits_and_others_go_on():
    one = planned(request("a", 100 * KIB, waited=KEPT_AFTER_MS), request("a", KIB))
    other = planned(request("b", KIB))

    assert names(admit([one, other], 0, 5, None, NOW, {"a": Room(bytes=20 * KIB)})) == ["b"]


def test_a_table_has_no_more_jobs_and_bytes_than_its_own_limits_leave():
    one, other = planned(*[request("a", KIB)] * 5), planned(*[request("b", KIB)] * 5)
    rooms = {"a": Room(jobs=1), "b": Room(bytes=25 * KIB)}

    assert sorted(names(admit([one, other], 0, 9, None, NOW, rooms))) == ["a", "b", "b"]


def test_a_higher_priority_is_served_first_and_never_starves_the_others():
    one, other = planned(*[request("a", KIB)] * 3), planned(*[request("b", KIB)] * 3)
    waiting = planned(*[request("a", KIB, waited=61 * MINUTE)] * 3)
    rooms = {"b": Room(priority=1)}

    assert names(admit([one, other], 0, 1, None, NOW, rooms)) == ["b"]
    assert names(admit([waiting, other], 0, 1, None, NOW, rooms)) == ["a"]


def test_of_what_waits_alike_what_is_read_comes_first_and_never_starves_the_others():
    read = planned(*[request("b", KIB, waited=20 * MINUTE)] * 3)
    alike = planned(*[request("a", KIB, waited=20 * MINUTE)] * 3)
    longer = planned(*[request("a", KIB, waited=41 * MINUTE)] * 3)
    much_longer = planned(*[request("a", KIB, waited=5 * HOUR + MINUTE)])
    long_read = planned(*[request("b", KIB, waited=4 * HOUR)])
    rooms = {"b": Room(reads_per_day=10**6)}

    assert names(admit([read, alike], 0, 4, None, NOW, rooms)) == ["b", "a", "b", "a"]
    assert names(admit([read, longer], 0, 1, None, NOW, rooms)) == ["a"]
    assert names(admit([long_read, much_longer], 0, 1, None, NOW, rooms)) == ["a"]


def test_of_what_has_only_just_fallen_due_comes_first_what_saves_most_each_day():
    rich, read = planned(request("a", KIB, saved=20_000)), planned(request("b", KIB, saved=10_000))

    assert names(admit([rich, read], 0, 1, None, NOW)) == ["a"]
    assert names(admit([rich, read], 0, 1, None, NOW, {"b": Room(reads_per_day=2)})) == ["b"]


def test_in_one_table_what_waits_for_long_comes_before_what_saves_more():
    old = request("a", KIB, number=1, saved=1000, waited=5 * HOUR)
    rich = request("a", KIB, number=2, saved=500_000)
    richer = request("a", KIB, number=3, saved=5_000_000)

    assert list(admit([planned(old, rich, richer)], 0, 3, None, NOW)) == [richer, old, rich]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 50)), max_size=20),
    st.integers(0, 5),
    st.integers(0, 5),
    st.integers(0, 2000),
    st.integers(0, 3 * HOUR),
)
def test_admission_never_exceeds_what_there_is(wishes, running, at_once, left, waited):
    queues = {
        name: [request(name, size * KIB, waited=waited) for who, size in wishes if who == name]
        for name in "abc"
    }
    rooms = {"a": Room(jobs=1), "b": Room(bytes=100 * KIB), "c": Room(priority=1)}
    plans = [planned(*queue) for queue in queues.values() if queue]
    chosen = admit(plans, running, at_once, left * KIB, NOW, rooms)

    assert len(chosen) <= max(at_once - running, 0)
    assert sum(r.decision.bytes for r in chosen) <= left * KIB
    assert sum(r.table.name == "a" for r in chosen) <= 1
    assert sum(r.decision.bytes for r in chosen if r.table.name == "b") <= 100 * KIB
    assert admit(list(reversed(plans)), running, at_once, left * KIB, NOW, rooms) == chosen


ONE = request("a", KIB)


PRIORITIES = st.integers(0, 2)
SAVED = st.integers(1, 10**9)
READS = st.sampled_from((0, 0, 1, 30, 1000, 10**9))


def longest_waits(tables, slots, hours, budget=None):
    """How many minutes each of these tables waited at the longest: endless backlogs, and a round a minute.

    A table is how many minutes a job takes, its priority, what it saves, how often it is read, and what a job reads.
    """
    served, running, spent, last, worst, plans = {}, [], [], {}, {}, []
    for number, (_, _, saved, _, size) in enumerate(tables):
        decision = replace(ONE.decision, saved_bytes=saved, bytes=size)
        plans.append(planned(Request(TableId(str(number), str(number)), decision, due_since_ms=NOW)))
    for minute in range(hours * 60):
        now = NOW + minute * MINUTE
        running = [end for end in running if end > minute]
        spent = [(at, size) for at, size in spent if at > minute - 60]
        left = None if budget is None else budget - sum(size for _, size in spent)
        rooms = {
            str(number): Room(priority, served_at_ms=served.get(str(number), {}), reads_per_day=reads)
            for number, (_, priority, _, reads, _) in enumerate(tables)
        }
        for one in admit(plans, len(running), slots, left, now, rooms):
            name = one.table.name
            worst[name] = max(worst.get(name, 0), minute - last.get(name, 0))
            last[name], served[name] = minute, {ExecutorName.LOCAL: now}
            running.append(minute + tables[int(name)][0])
            spent.append((minute, one.decision.bytes))
    return [worst.get(str(name), hours * 60) for name in range(len(tables))]


def allowed_waits(tables, alone):
    """So many minutes each may wait that would wait for `alone` if all had the same priority, and the same readers."""
    highest = max(priority for _, priority, *_ in tables)
    most = max(weight(reads) for *_, reads, _ in tables)
    for _, priority, _, reads, _ in tables:
        for_reads = min(60 * (most - weight(reads)), alone * (most > weight(reads)))
        yield alone + 60 * (highest - priority) + for_reads


@given(
    st.lists(
        st.tuples(st.integers(1, 30), PRIORITIES, SAVED, READS, st.just(KIB)),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 3),
)
def test_no_table_waits_longer_than_the_docs_say(tables, slots):
    """Tables with jobs of so many minutes, priorities, reads; each has its turn within a bound."""
    longest = max(minutes for minutes, *_ in tables)
    # A round a minute: each job may wait for one more.
    alone = len(tables) * (longest + 1) / slots + longest + 1

    for waited, most in zip(longest_waits(tables, slots, 24), allowed_waits(tables, alone), strict=True):
        assert waited <= most


@given(
    st.lists(
        st.tuples(st.integers(1, 9), PRIORITIES, SAVED, READS, st.sampled_from((1, 30, 51, 99, 100))),
        min_size=1,
        max_size=5,
    ),
    st.integers(1, 4),
)
def test_nor_under_a_budget_that_a_single_job_may_use_up(tables, slots):
    alone = 60 * (len(tables) + 1)

    found = longest_waits(tables, slots, 24, budget=100)
    for waited, most in zip(found, allowed_waits(tables, alone), strict=True):
        assert waited <= most


def test_nobody_is_ranked_for_slots_that_are_not_free():
    class Untouched(dict):
        def get(self, *_):
            raise AssertionError

    plans = [planned(request(name, KIB)) for name in "ab"]

    assert admit(plans, 2, 2, None, NOW, Untouched({"a": Room()})) == ()


def test_expiry_costs_no_slot():
    planned_expiry = plan(view(snapshots=snapshots(20), announced_sequence_number=20), POLICY, NOW)

    assert [r.decision.action for r in admit([planned_expiry], 5, 5, 0, NOW)] == [Action.EXPIRE]


def on_spark(one):
    return replace(one, executor=ExecutorName.SPARK)


def test_a_cluster_has_slots_of_its_own():
    plans = [planned(on_spark(request("a", KIB)), request("a", KIB), request("b", KIB))]

    assert [one.executor for one in admit(plans, 2, 2, None, NOW, cluster_slots=4)] == [ExecutorName.SPARK]
    assert [one.executor for one in admit(plans, 0, 4, None, NOW)] == [ExecutorName.LOCAL] * 2
    assert len(admit(plans, 0, 4, None, NOW, cluster_slots=4)) == 3


def test_the_limits_of_a_table_hold_for_both_together():
    one = planned(on_spark(request("a", 2 * KIB)), request("a", KIB))

    assert len(admit([one], 0, 4, None, NOW, {"a": Room(jobs=1)}, cluster_slots=4)) == 1
    assert len(admit([one], 0, 4, None, NOW, {"a": Room(bytes=25 * KIB)}, cluster_slots=4)) == 1


@pytest.mark.parametrize("limit", ["of all", "of the table"])
def test_what_becomes_free_is_kept_for_what_waits_for_a_cluster_too(limit):
    large = on_spark(request("a", 100 * KIB, waited=KEPT_AFTER_MS))
    small = request("a" if limit == "of the table" else "b", KIB)
    left, rooms = (20 * KIB, {}) if limit == "of all" else (None, {"a": Room(bytes=20 * KIB)})
    plans = [planned(large, small)] if limit == "of the table" else [planned(large), planned(small)]

    assert admit(plans, 0, 4, left, NOW, rooms, cluster_slots=1) == ()
    # While the cluster is full others of the budget go on. Of a table's own limits its other jobs would take all, each time.
    assert admit(plans, 0, 4, left, NOW, rooms) == (() if limit == "of the table" else (small,))


def test_a_cluster_that_hangs_keeps_no_job_of_its_table_waiting_for_ever():
    """Of its own limits something is kept for what waits there, and only in every second hour."""
    here, plenty = request("a", KIB), {"a": Room(jobs=4)}
    for hours in range(8):
        there = on_spark(request("a", KIB, waited=hours * HOUR, number=2))

        found = admit([planned(there, here)], 0, 4, None, NOW, plenty)

        assert found == (() if hours % 2 else (here,))


WORK = st.lists(st.tuples(st.integers(1, 20), st.booleans(), st.booleans()), min_size=1, max_size=5)


@given(WORK, st.integers(1, 2), st.integers(1, 2))
def test_with_a_cluster_too_a_table_waits_no_longer_than_the_docs_say(tables, here, there):
    """Endless backlogs of jobs of so many minutes, here, there, or in both places; a round a minute."""
    slots = {ExecutorName.LOCAL: here, ExecutorName.SPARK: there}
    places = {ExecutorName.LOCAL: [], ExecutorName.SPARK: []}
    plans = []
    for number, (_, is_here, is_there) in enumerate(tables):
        one = Request(TableId(str(number), str(number)), ONE.decision, due_since_ms=NOW)
        mine = [one] * (is_here or not is_there) + [on_spark(one)] * is_there
        plans.append(planned(*mine))
        for request in mine:
            places[request.executor].append(number)
    served, running, last, worst = {}, [], {}, {}
    for minute in range(12 * 60):
        now = NOW + minute * MINUTE
        running = [(end, where) for end, where in running if end > minute]
        free = {one: slots[one] - sum(where is one for _, where in running) for one in slots}
        rooms = {name: Room(served_at_ms=times) for name, times in served.items()}
        for one in admit(
            plans, 0, free[ExecutorName.LOCAL], None, now, rooms, cluster_slots=free[ExecutorName.SPARK]
        ):
            name, place = one.table.name, (one.table.name, one.executor)
            worst[place] = max(worst.get(place, 0), minute - last.get(place, 0))
            last[place] = minute
            served.setdefault(name, {})[one.executor] = now
            running.append((minute + tables[int(name)][0], one.executor))

    for where, numbers in places.items():
        longest = max((tables[number][0] for number in numbers), default=0)
        most = len(numbers) * (longest + 1) / slots[where] + longest + 1
        for number in numbers:
            assert worst.get((str(number), where), 12 * 60) <= most
