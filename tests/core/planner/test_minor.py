"""Old files of hot partitions: never without the policy's word, never without proof, never a young file."""

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from isotherm.contract.events import Intent
from isotherm.contract.identity import UNPARTITIONED
from isotherm.contract.summary import Origin
from isotherm.core.appends import Appends, is_append
from isotherm.core.model.changes import PartitionDelta
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.files import FileKind, FileStats, total
from isotherm.core.model.tables import PartitionField
from isotherm.core.planner.minor import ENOUGH_APPENDS
from isotherm.core.planner.plan import plan
from isotherm.core.policy.policy import Cold, Compact, Policy
from isotherm.core.state import TableState, apply
from support.builders import (
    DAY,
    HOUR,
    KIB,
    MIB,
    MINUTE,
    NOW,
    TABLE,
    added,
    change,
    facts,
    key,
    partition,
    removed,
    table_state,
    view,
)

MARGIN = 15 * MINUTE
ALLOWED = Policy(compact=Compact(minor_after="1h"))
BEGAN = NOW - 5 * HOUR


def lived(commits, behind_ms=()):
    """The state of a table without partitions after `(minutes, delta, operation, origin)`, and what came when.

    By how much the daemon's clock was behind at each of the last commits, `behind_ms` tells.
    """
    lags = [*[0] * (len(commits) - len(behind_ms)), *behind_ms][: len(commits)]
    state, partitions, came = TableState(TABLE, None), {}, []
    for number, (minutes, delta, operation, origin) in enumerate(commits, start=1):
        at_ms = BEGAN + minutes * MINUTE
        one = change(
            number,
            state.head,
            {UNPARTITIONED: delta},
            operation=operation,
            origin=origin,
            committed_at_ms=at_ms,
        )
        applied = apply(state, partitions, one, (), at_ms - lags[number - 1])
        state, partitions = applied.state, {k: p for k, p in applied.partitions.items() if p is not None}
        came.append((number, at_ms, delta.added))
    return state, partitions, came


def stream(count, *, apart=1, size=MIB):
    """A commit of one file each minute."""
    return [(place * apart, added(1, size), "append", Origin.INGEST) for place in range(count)]


def decided(state, partitions, policy, now_ms, **fields):
    """The only partition's decision."""
    seen = view(partitions, state=state, facts=facts(fields=()), snapshots=None, **fields)
    return plan(seen, policy, now_ms).of_partitions[0]


def test_what_is_old_is_merged_though_the_partition_is_still_written():
    state, partitions, _ = lived(stream(120))
    decision = decided(state, partitions, ALLOWED, BEGAN + 120 * MINUTE)

    assert decision.verdict is Verdict.DUE
    assert decision.why == (
        "minor: 105 of 20 files below 96.0 MiB older than 15m, in a partition that is still written; "
        "the table's 120 writes of the last 2h only appended; 105 files, 105 MiB to rewrite"
    )
    assert (decision.take.through_number, decision.files) == (105, 105)


def test_in_format_version_1_nothing_tells_which_files_came_first():
    state, partitions, _ = lived(stream(120))
    seen = view(partitions, state=state, facts=facts(fields=(), format_version=1), snapshots=None)
    (decision,) = plan(seen, ALLOWED, BEGAN + 120 * MINUTE).of_partitions
    (silent,) = plan(seen, Policy(), BEGAN + 120 * MINUTE).of_partitions

    assert decision.verdict is silent.verdict is Verdict.HOT
    assert (
        "no minor compaction: in format version 1 nothing tells which files came first; set its"
        in decision.why
    )
    assert "minor" not in silent.why


def test_of_a_quarter_of_an_hour_of_which_a_part_is_young_all_of_it_waits():
    state, partitions, _ = lived(stream(110))

    assert decided(state, partitions, ALLOWED, BEGAN + 110 * MINUTE).take.through_number == 90


@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.integers(1, 3), st.sampled_from([20 * KIB, MIB, 40 * MIB])),
        min_size=ENOUGH_APPENDS,
        max_size=60,
    ),
    st.sampled_from(["1m", "15m", "40m", "3h"]),
    st.integers(0, 30),
    st.lists(st.sampled_from([0, HOUR // 2, 2 * HOUR, 200 * HOUR]), max_size=5),
)
@example([(0, 1, 20 * KIB)] * ENOUGH_APPENDS, "1m", 0, [200 * HOUR])
def test_no_file_is_taken_that_came_within_the_margin(steps, quiet_for, later, behind_ms):
    """Whatever came when, and though this machine's clock was behind at the last ones, and was put right.

    By its sequence number none of them is among those that a job may take.
    """
    commits, minutes = [], 0
    for wait, count, size in steps:
        minutes += wait
        commits.append((minutes, added(count, size), "append", Origin.INGEST))
    state, partitions, came = lived(commits, behind_ms)
    policy = Policy(cold=Cold(quiet_for=quiet_for), compact=Compact(minor_after="0s", min_files=2))
    now_ms = BEGAN + (minutes + later) * MINUTE
    decision = decided(state, partitions, policy, now_ms)
    if decision.verdict is not Verdict.DUE or not decision.why.startswith("minor"):
        return
    margin = min(policy.cold.quiet_for, HOUR)
    young = [number for number, at_ms, _ in came if now_ms - at_ms < margin]
    old = total(files for number, at_ms, files in came if now_ms - at_ms >= margin)

    assert all(number > decision.take.through_number for number in young)
    assert decision.files <= old.files


@given(st.booleans(), st.integers(0, 200), st.integers(0, 3 * HOUR))
def test_without_the_policy_or_the_proof_a_hot_partition_is_left_alone(is_allowed, count, for_ms):
    state, partitions, _ = lived(stream(120))
    now_ms = BEGAN + 120 * MINUTE
    state = replace(state, appends=Appends(count, now_ms - for_ms))
    policy = ALLOWED if is_allowed else Policy()
    is_proved = count >= ENOUGH_APPENDS and for_ms >= HOUR
    decision = decided(state, partitions, policy, now_ms)

    assert (decision.verdict is Verdict.DUE) is (is_allowed and is_proved)
    if not is_allowed:
        assert decision == decided(replace(state, appends=Appends()), partitions, Policy(), now_ms)
        assert "minor" not in decision.why


NO_APPENDS = {
    "a row is deleted": (
        PartitionDelta(deletes={FileKind.POSITION_DELETES: FileStats(1, 1, 9)}, added=FileStats(1, 1, 9)),
        "delete",
        Origin.FOREIGN,
    ),
    "a file is overwritten": (removed(1), "overwrite", Origin.FOREIGN),
    "an append that takes a file away": (removed(1), "append", Origin.FOREIGN),
    "somebody else compacts": (PartitionDelta(), "replace", Origin.FOREIGN),
}


@pytest.mark.parametrize("what", NO_APPENDS)
def test_the_first_commit_that_is_no_append_ends_it_at_once(what):
    state, partitions, _ = lived([*stream(120), (120, *NO_APPENDS[what])])
    decision = decided(state, partitions, ALLOWED, BEGAN + 121 * MINUTE)

    assert decision.verdict is Verdict.HOT
    assert state.appends == Appends()


def test_a_proof_does_not_begin_with_a_commit_that_a_clock_far_behind_has_heard_of():
    """The clock was ten days behind when the first of them came, and is right again."""
    commits = [(0, removed(1, MIB), "delete", Origin.FOREIGN), *stream(ENOUGH_APPENDS + 1)]
    commits.insert(0, (0, added(2), "append", Origin.INGEST))
    lag = 240 * HOUR
    state, _, _ = lived(commits, [lag, *[0] * ENOUGH_APPENDS])

    assert state.appends.count == ENOUGH_APPENDS
    assert state.appends.since_ms >= BEGAN


def test_our_own_commits_neither_prove_nor_disprove_anything():
    ours = (120, PartitionDelta(), "replace", Origin.MAINTENANCE)
    state, _, _ = lived([*stream(120), ours])

    assert state.appends == lived(stream(120))[0].appends
    assert not is_append(change(1, None, {UNPARTITIONED: removed(1)}))


def test_an_intent_makes_it_hot():
    state, partitions, _ = lived(stream(120))
    now_ms = BEGAN + 120 * MINUTE
    intent = Intent(
        table_uuid=TABLE.uuid, table=TABLE.name, intent_id="i", writer="merger", state="open",
        at_ms=now_ms, expires_at_ms=now_ms + MINUTE, partitions=None,
    )  # fmt: skip
    decision = decided(state, partitions, ALLOWED, now_ms, intents=(intent,))

    assert decision.verdict is Verdict.HOT
    assert "no minor compaction: an open intent names it" in decision.why
    assert decision.wake.at_ms == now_ms + MINUTE


def test_what_is_missing_is_said():
    state, partitions, _ = lived(stream(50))
    weekly = Policy(compact=Compact(minor_after="7d"))
    decision = decided(state, partitions, weekly, BEGAN + 50 * MINUTE)

    assert decision.why.endswith(
        "no minor compaction: the table's 50 writes of the last 50m only appended, 20 in 7d are needed"
    )
    assert decision.wake.at_ms == BEGAN + 50 * MINUTE - MINUTE + MARGIN


def test_who_waits_in_vain_for_a_partition_to_cool_is_told_what_the_policy_could_allow():
    silent = Policy()
    state, partitions, _ = lived(stream(200, apart=60))
    now_ms = BEGAN + 199 * HOUR
    advice = "; writers have only appended for 8d 7h: compact.minor_after would have its old files merged"
    assert decided(state, partitions, silent, now_ms).why.endswith(advice)

    lately, _, _ = lived([*stream(100, apart=60), (6000, added(1), "overwrite", Origin.FOREIGN)])
    young = {key: replace(one, first_write_at_ms=now_ms - 23 * HOUR) for key, one in partitions.items()}
    few, _, _ = lived(stream(19, apart=11 * 60))
    for other, of in ((lately, partitions), (state, young), (few, partitions)):
        decision = decided(other, of, silent, now_ms)
        assert (decision.verdict, "minor_after" in decision.why) == (Verdict.HOT, False)


def test_after_a_job_it_rests_as_a_cold_one_does():
    state, partitions, _ = lived(stream(120))
    now_ms = BEGAN + 120 * MINUTE
    rested = {UNPARTITIONED: replace(partitions[UNPARTITIONED], compacted_at_ms=now_ms - 3 * HOUR)}
    decision = decided(state, rested, ALLOWED, now_ms)

    assert decision.verdict is Verdict.HOT
    assert (
        "no minor compaction yet: 105 of 20 files below 96.0 MiB older than 15m, and it rests" in decision.why
    )
    assert decided(state, rested, ALLOWED, now_ms + DAY).verdict is Verdict.DUE


def test_what_was_merged_before_the_end_of_its_time_does_not_rest_once_it_is_cold():
    """A job beside the writers of a day is none of the day as a whole."""
    daily = (PartitionField(1000, "day", "day", "timestamptz"),)
    ends = 20 * DAY
    some = replace(
        partition(40, MIB, last_write_at_ms=ends + HOUR), compacted_at_ms=ends - 3 * HOUR, pauses_ms=()
    )
    late = replace(some, compacted_at_ms=ends + HOUR // 2)
    state = table_state(boundary_ms=ends + 3 * DAY, foreign_commits=100)

    def verdict(one):
        seen = view({key(19): one}, state=state, facts=facts(fields=daily), snapshots=None)
        return plan(seen, ALLOWED, ends + 3 * HOUR).of_partitions[0].verdict

    assert (verdict(some), verdict(late)) == (Verdict.DUE, Verdict.RESTING)


def test_a_delete_file_that_is_there_is_said_to_keep_it_from_its_old_files():
    state, partitions, _ = lived(stream(120))
    deletes = {FileKind.POSITION_DELETES: FileStats(1, 3, KIB)}
    kept = {UNPARTITIONED: replace(partitions[UNPARTITIONED], deletes=deletes)}

    assert (
        "no minor compaction: it holds 1 delete file"
        in decided(state, kept, ALLOWED, BEGAN + 120 * MINUTE).why
    )


def test_a_rewrite_of_manifests_by_somebody_else_proves_and_disproves_nothing():
    state, _, _ = lived(stream(30))
    idle = change(31, state.head, {}, operation="replace", origin=Origin.FOREIGN)
    touching = change(31, state.head, {UNPARTITIONED: added()}, operation="replace", origin=Origin.FOREIGN)

    assert state.appends.after(idle, NOW) == state.appends
    assert state.appends.after(touching, NOW) == Appends()


def test_files_of_a_table_that_was_of_version_1_are_never_surely_old():
    state, partitions, _ = lived(stream(120))
    arrivals = tuple(replace(one, before_number=0) for one in partitions[UNPARTITIONED].arrivals)
    numberless = {UNPARTITIONED: replace(partitions[UNPARTITIONED], arrivals=arrivals)}

    assert "no file is surely older" in decided(state, numberless, ALLOWED, BEGAN + 120 * MINUTE).why


def test_arrivals_are_kept_of_what_is_written_and_not_of_what_is_over():
    hour = key(100)
    state, partitions = TableState(TABLE, None, boundary_ms=90 * HOUR), {}
    for number, (delta, origin) in enumerate(
        [(added(3), Origin.INGEST), (removed(1), Origin.MAINTENANCE)], start=1
    ):
        for boundary in (90 * HOUR, 200 * HOUR):
            one = change(number, state.head, {hour: delta}, origin=origin, operation="append")
            applied = apply(replace(state, boundary_ms=boundary), partitions, one, facts().fields, NOW)
            if origin is Origin.MAINTENANCE:
                assert bool(applied.partitions[hour].arrivals) is (boundary == 90 * HOUR)
        state, partitions = replace(applied.state, boundary_ms=90 * HOUR), dict(applied.partitions)
