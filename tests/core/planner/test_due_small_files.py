"""How many small files of a partition are enough for a job."""

from dataclasses import replace

import pytest

from isotherm.contract.identity import partition_key
from isotherm.core.appends import Arrival
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.planner.backlog import after
from isotherm.core.planner.plan import plan
from isotherm.core.policy.policy import Compact, Policy
from support.builders import BUCKETS, DAY, HOUR, HOURLY, KIB, MIB, NOW, facts, files, key, partition, view


@pytest.mark.parametrize(
    ("count", "size", "why"),
    [
        (7, 80 * MIB, "(at 5 that fill one and 5 files less; rewriting them would leave 3 less)"),
        (12, 24 * MIB, "(at 5 that fill one)"),
    ],
    ids=["nearly large enough", "small"],
)
def test_files_that_are_nearly_large_enough_are_said_to_be_left_alone_for_that(count, size, why):
    state = replace(partition(0), data=files(count, size), last_write_at_ms=NOW - 2 * DAY)
    (decision,) = plan(view({key(1): state}), Policy(), NOW).of_partitions

    assert why in decision.why
    assert (decision.verdict is Verdict.DUE) is (count == 12)


WEEK = 7 * DAY


def test_where_an_interval_has_more_than_one_partition_six_files_are_never_enough():
    """Each of its partitions would be a commit: five of ours for each of the writer's, and all at once for an old table."""
    fields = (*HOURLY, replace(BUCKETS[0], field_id=1001))
    for number, verdict in ((6, Verdict.CLEAN), (20, Verdict.DUE)):
        state = replace(partition(0), data=files(number, MIB), last_write_at_ms=NOW - 30 * DAY)
        where = partition_key({1000: NOW // HOUR - 800, 1001: 3})
        (one,) = plan(view({where: state}, facts=facts(fields=fields)), Policy(), NOW).of_partitions
        assert one.verdict is verdict


FEW_DELETES = {"deletes": {FileKind.POSITION_DELETES: FileStats(3, 3, 9)}}
SIX_DELETES = {"deletes": {FileKind.POSITION_DELETES: FileStats(6, 6, 9)}, "data": files(4, 128 * MIB)}


@pytest.mark.parametrize(
    ("changes", "where", "count", "verdict"),
    [
        ({}, {}, 5, Verdict.CLEAN),
        ({}, {}, 6, Verdict.DUE),
        (FEW_DELETES, {}, 6, Verdict.DUE),
        (SIX_DELETES, {}, 1, Verdict.DUE),
        (SIX_DELETES, {}, 2, Verdict.DUE),
        (SIX_DELETES | {"data": files(5, 128 * MIB)}, {}, 1, Verdict.CLEAN),
        ({"compacted_at_ms": NOW - WEEK}, {}, 6, Verdict.DUE),
        ({}, {"facts": facts(fields=BUCKETS)}, 6, Verdict.CLEAN),
    ],
    ids=[
        "few",
        "six",
        "beside deletes",
        "six deletes",
        "and small files",
        "one each",
        "compacted",
        "in a bucket",
    ],
)
def test_a_week_after_the_last_write_to_a_time_six_small_files_or_shared_deletes_are_enough(
    changes, where, count, verdict
):
    """A mirror's days kept nineteen of each for ever, once their orders were closed. It is decided again at that time."""
    data = changes.get("data", {}) | files(count, MIB)
    state = replace(partition(0), **{**changes, "data": data, "last_write_at_ms": NOW - WEEK})
    world, number = (
        view({key(1): state}, **where),
        Policy(compact=Compact(min_files=20, max_position_deletes=20)),
    )
    before, then = (plan(world, Policy(), at_ms).of_partitions[0] for at_ms in (NOW - 1, NOW))

    assert (before.verdict, then.verdict) == (Verdict.CLEAN, verdict)
    assert before.wake.at_ms == NOW or (where and before.wake.at_ms is None)
    assert plan(world, number, NOW).of_partitions[0].verdict is Verdict.CLEAN
    if verdict is Verdict.DUE:
        (left,) = plan(after(world, plan(world, Policy(), NOW), Policy(), NOW), Policy(), NOW).of_partitions

        assert left.verdict is Verdict.CLEAN


WRITTEN_LARGE = {"compacted_at_ms": None, "data": files(4, 128 * MIB)}
LATE = {"arrivals": (Arrival.before_all(NOW),), "compacted_at_ms": NOW - DAY}


@pytest.mark.parametrize(
    ("changes", "where", "count", "size", "verdict"),
    [
        ({}, {}, 20, MIB, Verdict.DUE),
        ({}, {}, 24, 90 * MIB, Verdict.CLEAN),
        (LATE, {}, 5, MIB, Verdict.CLEAN),
        (LATE, {}, 6, MIB, Verdict.DUE),
        (LATE, {}, 7, 80 * MIB, Verdict.CLEAN),
        ({**LATE, "arrivals": ()}, {}, 6, MIB, Verdict.CLEAN),
        ({**LATE, "compacted_at_ms": None}, {}, 6, MIB, Verdict.CLEAN),
        ({**LATE, **WRITTEN_LARGE}, {}, 5, MIB, Verdict.CLEAN),
        ({**LATE, **WRITTEN_LARGE}, {}, 6, MIB, Verdict.DUE),
        ({**LATE, **WRITTEN_LARGE, "arrivals": ()}, {}, 6, MIB, Verdict.CLEAN),
        ({**LATE, "deletes": {FileKind.POSITION_DELETES: FileStats(1, 1, 9)}}, {}, 6, MIB, Verdict.CLEAN),
        (LATE, {"facts": facts(fields=BUCKETS)}, 6, MIB, Verdict.CLEAN),
        (LATE, {"facts": facts(fields=BUCKETS)}, 20, MIB, Verdict.DUE),
    ],
    ids=[
        "many",
        "nearly large enough",
        "few late ones",
        "late ones",
        "large late ones",
        "by somebody who does more than append",
        "the first",
        "few beside large ones",
        "beside large ones",
        "beside large ones by somebody who does more than append",
        "beside deletes",
        "in a bucket",
        "many in a bucket",
    ],
)
def test_of_rows_that_came_late_six_small_files_are_enough(changes, where, count, size, verdict):
    data = changes.get("data", {}) | files(count, size)
    state = replace(partition(0), last_write_at_ms=NOW - 2 * DAY, **{**changes, "data": data})

    assert plan(view({key(1): state}, **where), Policy(), NOW).of_partitions[0].verdict is verdict


def test_crumbs_do_not_wait_for_files_that_are_nearly_large_enough():
    state = replace(partition(0), data={**files(70, 10 * KIB), **files(200, 90 * MIB)}, last_write_at_ms=0)
    (decision,) = plan(view({key(1): state}), Policy(), NOW).of_partitions

    assert (decision.verdict, decision.files) == (Verdict.DUE, 70)


def test_what_is_worth_it_goes_by_the_size_that_files_should_have():
    state = replace(partition(0), data=files(40, 128 * MIB), last_write_at_ms=0)
    larger = Policy(compact=Compact(target_file_size="512MiB"))

    decisions = [plan(view({key(1): state}), one, NOW).of_partitions[0] for one in (Policy(), larger)]

    assert [one.verdict for one in decisions] == [Verdict.CLEAN, Verdict.DUE]


def test_a_number_in_the_policy_holds_as_it_stands():
    state = replace(partition(19), last_write_at_ms=0, **LATE)
    policy = Policy(compact=Compact(min_files=20))

    assert plan(view({key(1): state}), policy, NOW).of_partitions[0].verdict is Verdict.CLEAN
