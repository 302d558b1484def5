"""What is decided of each partition, and why, in words with numbers."""

from dataclasses import replace

import pytest

from isotherm.contract.identity import partition_key
from isotherm.core.appends import Arrival
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.model.holds import Hold, HoldKind, Quarantine
from isotherm.core.model.jobs import Action
from isotherm.core.model.tables import Unpublished
from isotherm.core.partition_state import PartitionState
from isotherm.core.planner.backlog import after
from isotherm.core.planner.plan import plan
from isotherm.core.planner.view import Flight
from isotherm.core.policy.policy import Compact, Policy
from support.builders import (
    BUCKETS,
    DAY,
    GIB,
    HOUR,
    HOURLY,
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
from support.planned import COLD, POLICY


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
            {"facts": facts(unpublished=(Unpublished("audit goes on from main", NOW - HOUR),))},
            Verdict.WAITING,
            "cold and due, but audit goes on from main: 10 of 4 files below 96.0 MiB",
        ),
        (
            {"facts": facts(unpublished=(Unpublished("audit goes on from main", NOW - DAY),))},
            Verdict.DUE,
            "cold and due: 10 of 4 files below 96.0 MiB; 10 files, 10.0 MiB to rewrite",
        ),
        (
            {"facts": facts(metadata_file_bytes=16 * MIB, snapshots=20_000, own_snapshots=10_001)},
            Verdict.WAITING,
            (
                "cold and due, but metadata.json has 16.0 MiB (half of expire.max_metadata_size is 16.0 MiB), some 12.4 MiB of "
                "it our own 10001 snapshots, and writers write it with each commit: until some are expired: 10 of 4 files "
                "below 96.0 MiB"
            ),
        ),
        (
            {"facts": facts(metadata_file_bytes=16 * MIB - 1, snapshots=20_000, own_snapshots=10_001)},
            Verdict.DUE,
            "cold and due: 10 of 4 files below 96.0 MiB; 10 files, 10.0 MiB to rewrite",
        ),
        (
            {"facts": facts(metadata_file_bytes=64 * MIB, snapshots=6_400, own_snapshots=6_400)},
            Verdict.DUE,
            "cold and due: 10 of 4 files below 96.0 MiB; 10 files, 10.0 MiB to rewrite",
        ),
        (
            {"facts": facts(metadata_file_bytes=64 * MIB, snapshots=20_000, own_snapshots=10_000)},
            Verdict.DUE,
            "cold and due: 10 of 4 files below 96.0 MiB; 10 files, 10.0 MiB to rewrite",
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
            {"facts": facts(unsupported="column at has type timestamp_ns, which cannot be written yet")},
            Verdict.UNSUPPORTED,
            (
                "column at has type timestamp_ns, which cannot be written yet; debt 2.50: "
                "10 of 4 files below 96.0 MiB"
            ),
        ),
        (
            {"facts": facts(format_version=3)},
            Verdict.DUE,
            "cold and due: 10 of 4 files below 96.0 MiB; 10 files, 10.0 MiB to rewrite",
        ),
    ],
    ids=[
        "due",
        "halted",
        "running",
        "quarantined",
        "audited",
        "audited-long-ago",
        "crowded-by-us",
        "not-crowded",
        "crowded-by-schemas",
        "crowded-by-writers",
        "paused",
        "paused-until-now",
        "of-a-type",
        "unsupported",
    ],
)
def test_a_verdict_says_why_with_numbers(fields, verdict, why):
    decision = plan(view(COLD, **fields), POLICY, NOW).of_partitions[0]

    assert (verdict, why) == (decision.verdict, decision.why)


@pytest.mark.parametrize(
    ("sort", "sortable", "verdict"),
    [
        ("region, AT", ("at", "region"), Verdict.DUE),
        ("region", None, Verdict.DUE),
        ("table", (), Verdict.DUE),
        ("zorder(region, at)", ("at",), Verdict.UNSUPPORTED),
    ],
)
def test_rows_that_cannot_be_sorted_as_the_policy_says_are_not_taken(sort, sortable, verdict):
    """It was found out by each job, in each round, and each took a turn from other tables."""
    policy = Policy(compact={"min_files": 4, "sort": sort})
    decision = plan(view(COLD, facts=facts(sortable=sortable)), policy, NOW).of_partitions[0]

    assert decision.verdict is verdict
    assert ("compact.sort names column `region`" in decision.why) == (verdict is Verdict.UNSUPPORTED)


def test_deletes_are_merged_whatever_data_is_to_be_sorted_by():
    state = replace(partition(4, GIB), deletes={FileKind.POSITION_DELETES: FileStats(200, 20, 9)})
    world = view({key(1): state}, facts=facts(sortable=("at",)))
    decision = plan(world, Policy(compact={"sort": "region"}), NOW).of_partitions[0]

    assert (decision.verdict, decision.take.rewrites_data) == (Verdict.DUE, False)


def test_who_expires_nothing_here_is_told_that_somebody_must():
    crowded = facts(metadata_file_bytes=16 * MIB, snapshots=6_500, own_snapshots=6_500)
    decision = plan(view(COLD, facts=crowded), Policy(expire={"enabled": False}), NOW).of_partitions[0]

    assert "until some are expired, which expire.enabled leaves to somebody else" in decision.why
    of_others = replace(crowded, properties={"gc.enabled": "false"})
    decision = plan(view(COLD, facts=of_others), Policy(), NOW).of_partitions[0]
    assert "until some are expired, which gc.enabled=false in the table's properties forbids" in decision.why


def test_vectors_are_applied_with_their_data():
    state = replace(partition(4, 128 * MIB), deletes={FileKind.DELETION_VECTORS: FileStats(4, 2000, 400)})
    decision = plan(view({key(1): state}, facts=facts(format_version=3)), POLICY, NOW).of_partitions[0]

    assert decision.verdict is Verdict.DUE
    assert decision.why.startswith("cold and due: 2000 delete rows on 400 rows, limit 33%")
    assert decision.take.with_deletes


def test_a_vector_for_each_data_file_is_no_reason_to_rewrite_them_unless_the_policy_says_so():
    state = replace(partition(800, 128 * MIB), deletes={FileKind.DELETION_VECTORS: FileStats(800, 2000, 400)})
    world = view({key(1): state}, facts=facts(format_version=3))
    policies = Policy(), Policy(compact=Compact(max_deletion_vectors=100))

    found = [plan(world, policy, NOW).of_partitions[0] for policy in policies]

    assert [one.verdict for one in found] == [Verdict.CLEAN, Verdict.DUE]
    assert "800 of 100 deletion vectors" in found[1].why


@pytest.mark.parametrize("version", [2, 3])
def test_in_version_3_nobody_writes_new_position_deletes(version):
    """What was written before is applied, once it is many."""
    some, many = (
        replace(partition(4, GIB), deletes={FileKind.POSITION_DELETES: FileStats(files, 20, 9)})
        for files in (20, 200)
    )
    world = view({key(1): some, key(2): many}, facts=facts(format_version=version))
    found = plan(world, Policy(), NOW).of_partitions

    assert [one.verdict is Verdict.DUE for one in found] == [version == 2, True]
    assert found[1].take.merges_deletes is (version == 2)
    assert found[1].take.with_deletes is (version == 3)


@pytest.mark.parametrize(("count", "verdict"), [(10, Verdict.HOT), (1, Verdict.CLEAN)])
def test_what_this_version_cannot_rewrite_is_said_before_it_is_due(count, verdict):
    world = view({key(1): partition(count, last_write_at_ms=NOW if verdict is Verdict.HOT else 0)})
    later = replace(world, facts=facts(unsupported="format version 1 is followed, not yet rewritten"))
    blocked, fine = (plan(one, POLICY, NOW).of_partitions[0] for one in (later, world))

    assert blocked.verdict is fine.verdict is verdict
    assert (
        blocked.why
        == f"{fine.why}; not to be compacted then: format version 1 is followed, not yet rewritten"
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


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (
            FileKind.EQUALITY_DELETES,
            "12 of 10 equality-delete files, 500 rows in them; at most 22 files, 10.0 MiB to rewrite",
        ),
        (
            FileKind.DELETION_VECTORS,
            "500 delete rows on 1000 rows, limit 33%; at most 22 files, 10.0 MiB to rewrite",
        ),
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

    short = facts(watched_since_ms=NOW - DAY)
    (unknown,) = plan(view({key(1): state}, facts=short), Policy(), NOW).of_partitions

    assert (alone.take.converts_equality, alone.take.with_deletes) == (True, False)
    assert (unknown.take.converts_equality, unknown.take.with_deletes) == (False, True)
    assert "they are not made into position deletes, because its commits are known since" in unknown.why
    assert (beside.take.converts_equality, beside.take.with_deletes) == (False, True)
    assert beside.why.endswith(
        "rewrites files of this table too (snapshot 7) and could bring deleted rows back"
    )
