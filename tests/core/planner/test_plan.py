"""What is decided of each partition, and why, in words with numbers."""

from dataclasses import replace

import pytest

from isotherm.core.model.decisions import Verdict
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.model.holds import Hold, HoldKind, Quarantine
from isotherm.core.model.jobs import Action
from isotherm.core.model.tables import Unpublished
from isotherm.core.planner.plan import plan
from isotherm.core.planner.view import Flight
from isotherm.core.policy.policy import Policy
from support.builders import (
    BUCKETS,
    DAY,
    HOUR,
    KIB,
    MIB,
    MINUTE,
    NOW,
    TABLE,
    facts,
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


def test_who_expires_nothing_here_is_told_that_somebody_must():
    crowded = facts(metadata_file_bytes=16 * MIB, snapshots=6_500, own_snapshots=6_500)
    decision = plan(view(COLD, facts=crowded), Policy(expire={"enabled": False}), NOW).of_partitions[0]

    assert "until some are expired, which expire.enabled leaves to somebody else" in decision.why
    of_others = replace(crowded, properties={"gc.enabled": "false"})
    decision = plan(view(COLD, facts=of_others), Policy(), NOW).of_partitions[0]
    assert "until some are expired, which gc.enabled=false in the table's properties forbids" in decision.why


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
