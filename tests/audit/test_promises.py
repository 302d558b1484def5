"""The audit's rules: each with a history in which its promise is broken, and one in which it is not."""

from dataclasses import replace
from typing import Any

import pytest

from isotherm.audit.evidence import (
    ColdRule,
    Commit,
    Evidence,
    FailedBatch,
    FilesChecked,
    Judged,
    Judgement,
    Promise,
    Recomputed,
    RowsCompared,
    Said,
    SourceCompared,
    Touch,
)
from isotherm.audit.promises import (
    cold_only,
    event_time_span,
    judge,
    nothing_needed_deleted,
    nothing_unseen,
    same_rows,
    writer_wins,
)
from isotherm.contract.events import Intent
from isotherm.contract.identity import PartitionKey

HOUR_MS = 3_600_000
FIVE = PartitionKey('{"1000":5}')
NINE = PartitionKey('{"1000":9}')
RULE = ColdRule(after_ms=lambda length_ms: length_ms, quiet_for_ms=10_000, silent_for_ms=24 * HOUR_MS)
POLICY = "abc"


def write(snapshot_id: int, at_ms: int, *partitions: PartitionKey, through_h: float | None = None) -> Commit:
    return Commit(
        snapshot_id=snapshot_id,
        parent_id=snapshot_id - 1 if snapshot_id > 1 else None,
        committed_at_ms=at_ms,
        operation="append",
        valid_through_ms=None if through_h is None else int(through_h * HOUR_MS),
        touches=tuple(Touch(key, 1, 0) for key in partitions),
    )


def rewrite(snapshot_id: int, at_ms: int, *partitions: PartitionKey, policy: str = POLICY) -> Commit:
    return Commit(
        snapshot_id=snapshot_id,
        parent_id=snapshot_id - 1,
        committed_at_ms=at_ms,
        operation="replace",
        job_id=f"job-{snapshot_id}",
        policy_hash=policy,
        touches=tuple(Touch(key, 1, 3) for key in partitions),
    )


def history(*commits: Commit, **more: Any) -> Evidence:
    """A table by the hour, written and maintained; everything announced, accounted for and compared."""
    ids = frozenset(commit.snapshot_id for commit in commits)
    ours = [commit.snapshot_id for commit in commits if commit.is_ours]
    filled = {
        "announced": ids,
        "accounted": ids,
        "rows": tuple(RowsCompared(one, (7, 77), (7, 77)) for one in ours),
        "files": FilesChecked(snapshots=len(commits), files=10),
        "now_ms": 10_000_000,
        **more,
    }
    return Evidence(
        table="shop.orders", transforms={1000: "hour"}, commits=commits, rules={POLICY: RULE}, **filled
    )


def intent(at_ms: int, state: str = "open", **more: Any) -> Said:
    values = {
        "table_uuid": "u",
        "table": "shop.orders",
        "intent_id": "i1",
        "writer": "shop",
        "state": state,
        "at_ms": at_ms,
        "expires_at_ms": at_ms + 60_000,
        "partitions": (FIVE,),
        **more,
    }
    return Said(at_ms, Intent(**values))


def verdict(judgement: Judgement) -> Judged:
    return judgement.verdict


COLD = (write(1, 1_000, FIVE), write(2, 50_000, NINE, through_h=9.5), rewrite(3, 60_000, FIVE))


# Cold only


def test_a_rewrite_of_a_partition_that_is_quiet_and_behind_the_stream_is_proved() -> None:
    found = cold_only(history(*COLD))

    assert found.verdict is Judged.PROVED
    assert found.counts == {"commits": 1, "partitions_touched": 1, "hot_partitions_touched": 0}
    assert (found.from_ms, found.to_ms) == (1_000, 10_000_000)


def test_a_write_within_the_quiet_span_makes_a_rewrite_of_that_partition_a_breach() -> None:
    commits = (write(1, 1_000, FIVE), write(2, 50_001, FIVE, through_h=9.5), rewrite(3, 60_000, FIVE))

    found = cold_only(history(*commits))

    assert found.verdict is Judged.BROKEN
    assert found.counts["hot_partitions_touched"] == 1
    assert "9999 ms before" in found.evidence[0]


def test_a_write_at_the_very_end_of_the_quiet_span_is_none() -> None:
    commits = (write(1, 1_000, FIVE), write(2, 50_000, FIVE, through_h=9.5), rewrite(3, 60_000, FIVE))

    assert verdict(cold_only(history(*commits))) is Judged.PROVED


def test_a_write_into_another_partition_does_not_count() -> None:
    commits = (write(1, 1_000, FIVE), write(2, 59_999, NINE, through_h=9.5), rewrite(3, 60_000, FIVE))

    assert verdict(cold_only(history(*commits))) is Judged.PROVED


def test_a_rewrite_of_somebody_else_is_no_write_and_not_ours_to_answer_for() -> None:
    foreign = replace(rewrite(3, 59_000, FIVE), job_id=None, policy_hash=None)
    commits = (
        write(1, 1_000, FIVE),
        write(2, 20_000, NINE, through_h=9.5),
        foreign,
        rewrite(4, 60_000, FIVE),
    )

    found = cold_only(history(*commits))

    assert found.verdict is Judged.PROVED
    assert found.counts["commits"] == 1


def test_our_own_rewrite_is_no_write() -> None:
    commits = (*COLD, rewrite(4, 60_500, FIVE))

    assert verdict(cold_only(history(*commits))) is Judged.PROVED


@pytest.mark.parametrize(("through_h", "expected"), [(7.0, Judged.PROVED), (6.99, Judged.BROKEN)])
def test_a_partition_must_end_a_whole_interval_behind_the_newest_boundary(
    through_h: float, expected: Judged
) -> None:
    commits = (write(1, 1_000, FIVE), write(2, 50_000, NINE, through_h=through_h), rewrite(3, 60_000, FIVE))

    assert verdict(cold_only(history(*commits))) is expected


@pytest.mark.parametrize(
    ("silent_ms", "first", "expected"),
    [
        (24 * HOUR_MS, 1, Judged.PROVED),
        (24 * HOUR_MS - 1, 1, Judged.BROKEN),
        (24 * HOUR_MS, 2, Judged.PROVED),
        (24 * HOUR_MS - 1, 2, Judged.NOT_PROVABLE),
    ],
    ids=["for a day", "not for a day", "a day is all that is known", "not even a day is known"],
)
def test_a_partition_that_nobody_wrote_to_for_a_day_need_not_be_behind_the_stream(
    silent_ms: int, first: int, expected: Judged
) -> None:
    """`cold.silent_for`: its stream has ended. Where the write itself is no longer known, nothing is claimed."""
    ends_ms = 1_000 + silent_ms
    commits = (
        replace(write(1, 1_000, FIVE, through_h=5.5), snapshot_id=1),
        write(2, 1_000, NINE, through_h=5.5),
        rewrite(3, ends_ms, FIVE),
    )

    found = cold_only(history(*commits[first - 1 :], now_ms=ends_ms + 10**7))

    assert found.verdict is expected


def test_a_boundary_that_came_after_the_rewrite_does_not_excuse_it() -> None:
    commits = (
        write(1, 1_000, FIVE),
        write(2, 20_000, NINE, through_h=6),
        rewrite(3, 60_000, FIVE),
        write(4, 70_000, NINE, through_h=20),
    )

    assert verdict(cold_only(history(*commits))) is Judged.BROKEN


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ((intent(55_000),), Judged.BROKEN),
        ((intent(55_000, partitions=None),), Judged.BROKEN),
        ((intent(55_000, partitions=(NINE,)),), Judged.PROVED),
        ((intent(55_000), intent(58_000, "closed")), Judged.PROVED),
        ((intent(55_000), intent(59_500, "closed")), Judged.BROKEN),
        # Within the margin nobody can tell whether we could have read it.
        ((intent(59_500),), Judged.PROVED),
        # It had expired, by its own word.
        ((intent(55_000, expires_at_ms=58_000),), Judged.PROVED),
    ],
)
def test_an_open_intent_makes_its_partitions_hot(said: tuple[Said, ...], expected: Judged) -> None:
    assert verdict(cold_only(history(*COLD, intents=said))) is expected


def test_an_intent_without_an_end_is_capped() -> None:
    for_ever = intent(10_000, expires_at_ms=10_000_000)

    assert verdict(cold_only(history(*COLD, intents=(for_ever,), intent_cap_ms=40_000))) is Judged.PROVED
    assert verdict(cold_only(history(*COLD, intents=(for_ever,), intent_cap_ms=60_000))) is Judged.BROKEN


def test_a_rewrite_under_a_policy_that_nobody_knows_any_more_is_not_provable() -> None:
    commits = (*COLD[:2], rewrite(3, 60_000, FIVE, policy="old"))

    found = cold_only(history(*commits))

    assert found.verdict is Judged.NOT_PROVABLE
    assert "policy" in found.evidence[0]


def test_a_rewrite_whose_past_has_expired_is_not_provable_and_a_later_one_is() -> None:
    cut = (replace(write(2, 59_000, NINE, through_h=9.5), parent_id=1), rewrite(3, 60_000, FIVE))
    later = (*cut, rewrite(4, 75_000, FIVE))

    assert verdict(cold_only(history(*cut))) is Judged.NOT_PROVABLE
    found = cold_only(history(*later))
    assert (found.verdict, found.from_ms) == (Judged.PROVED, 60_001)


def test_a_rewrite_whose_manifests_are_gone_is_not_provable() -> None:
    commits = (*COLD[:2], replace(COLD[2], touches=None))

    assert verdict(cold_only(history(*commits))) is Judged.NOT_PROVABLE


def test_a_snapshot_of_ours_that_touches_no_file_has_nothing_to_answer_for() -> None:
    commits = (*COLD[:2], replace(COLD[2], touches=(), policy_hash="old"))

    found = cold_only(history(*commits))

    assert (found.verdict, found.counts["commits"]) == (Judged.PROVED, 0)


@pytest.mark.parametrize(
    ("transform", "value", "expected"),
    [
        ("hour", 2, (2 * HOUR_MS, 3 * HOUR_MS)),
        ("day", -1, (-24 * HOUR_MS, 0)),
        ("date", 1, (24 * HOUR_MS, 48 * HOUR_MS)),
        ("month", 1, (31 * 24 * HOUR_MS, 59 * 24 * HOUR_MS)),
        ("month", -1, (-31 * 24 * HOUR_MS, 0)),
        ("year", 2, (730 * 24 * HOUR_MS, 1096 * 24 * HOUR_MS)),
        ("bucket[4]", 3, None),
    ],
)
def test_the_time_of_a_partition(transform: str, value: int, expected: tuple[int, int] | None) -> None:
    assert expected == event_time_span(PartitionKey(f'{{"1000":{value}}}'), {1000: transform})


@pytest.mark.parametrize("fields", [(1000, 1001), (1001, 1000)])
def test_of_several_times_of_a_partition_the_narrowest_counts(fields: tuple[int, int]) -> None:
    """Its hour was written last though its day is long over: taking the day would hide the breach."""
    hour, day = fields
    key = PartitionKey(f'{{"1000":{100 if hour == 1000 else 0},"1001":{0 if hour == 1000 else 100}}}')

    def judged(through_h: float) -> Judged:
        commits = (write(1, 1_000, key), write(2, 50_000, NINE, through_h=through_h), rewrite(3, 60_000, key))
        return verdict(cold_only(replace(history(*commits), transforms={hour: "hour", day: "day"})))

    assert (judged(101.99), judged(102)) == (Judged.BROKEN, Judged.PROVED)


# The writer wins


def test_a_quiet_history_costs_the_writer_nothing() -> None:
    found = writer_wins(
        history(*COLD, intents=(intent(40_000), intent(50_000, "closed", outcome="committed")))
    )

    assert (found.verdict, found.counts["intents"]) == (Judged.PROVED, 1)


@pytest.mark.parametrize(("opened_ms", "expected"), [(58_000, Judged.BROKEN), (59_500, Judged.PROVED)])
def test_a_merge_computed_again_because_of_us_is_a_breach_if_its_intent_stood(
    opened_ms: int, expected: Judged
) -> None:
    said = (intent(opened_ms, partitions=(NINE,)), intent(62_000, "closed", outcome="committed"))
    again = Recomputed(at_ms=61_000, intent_id="i1", base_id=2, head_id=3)

    found = writer_wins(history(*COLD, intents=said, recomputed=(again,)))

    assert found.verdict is expected
    assert (found.counts["merges_recomputed"], found.counts["because_of_us"]) == (1, 1)


def test_a_commit_of_ours_behind_another_head_is_found() -> None:
    commits = (*COLD, write(4, 60_100, NINE))
    again = Recomputed(at_ms=61_000, intent_id="i1", base_id=2, head_id=4)

    found = writer_wins(history(*commits, intents=(intent(58_000, partitions=(NINE,)),), recomputed=(again,)))

    assert found.verdict is Judged.BROKEN


def test_a_merge_computed_again_because_of_somebody_else_is_only_counted() -> None:
    again = Recomputed(at_ms=61_000, intent_id="i1", base_id=1, head_id=2)

    found = writer_wins(history(*COLD, intents=(intent(40_000),), recomputed=(again,)))

    assert (found.verdict, found.counts["merges_recomputed"]) == (Judged.PROVED, 1)


@pytest.mark.parametrize(("opened_ms", "expected"), [(58_000, Judged.BROKEN), (59_500, Judged.PROVED)])
def test_without_a_log_the_attempts_of_an_intent_tell(opened_ms: int, expected: Judged) -> None:
    said = (
        intent(opened_ms, partitions=(NINE,)),
        intent(61_000, partitions=(NINE,), attempt=2),
        intent(62_000, "closed", outcome="committed", attempt=2),
    )

    found = writer_wins(history(*COLD, intents=said))

    assert (found.verdict, found.counts["merges_recomputed"]) == (expected, 1)


def test_a_second_attempt_long_before_our_commit_is_not_our_doing() -> None:
    said = (intent(40_000, partitions=(NINE,)), intent(41_000, partitions=(NINE,), attempt=2))

    assert verdict(writer_wins(history(*COLD, intents=said))) is Judged.PROVED


@pytest.mark.parametrize(("failed_at_ms", "expected"), [(61_000, Judged.BROKEN), (59_000, Judged.PROVED)])
def test_a_failed_batch_is_a_breach_where_a_commit_of_ours_lies_within_it(
    failed_at_ms: int, expected: Judged
) -> None:
    failed = FailedBatch(at_ms=failed_at_ms, started_at_ms=failed_at_ms - 2_000, error="conflict")

    found = writer_wins(history(*COLD, failed_batches=(failed,)))

    assert (found.verdict, found.counts["batches_failed"]) == (expected, 1)


def test_a_merge_that_gave_up_while_we_committed_is_a_breach() -> None:
    said = (intent(50_000, partitions=(NINE,)), intent(61_000, "closed", outcome="failed"))

    assert verdict(writer_wins(history(*COLD, intents=said))) is Judged.BROKEN
    assert verdict(writer_wins(history(*COLD[:2], intents=said))) is Judged.PROVED


def test_what_the_control_topic_has_forgotten_is_not_provable() -> None:
    found = writer_wins(history(*COLD, announced_since_ms=70_000))

    assert (found.verdict, found.why) == (
        Judged.NOT_PROVABLE,
        "the control topic no longer has messages of its time",
    )


def test_a_control_topic_that_cannot_be_read_now_is_the_reason_and_nothing_has_expired() -> None:
    for judge_one in (writer_wins, nothing_unseen):
        found = judge_one(history(*COLD, topic_is_known=False))

        assert (found.verdict, found.why) == (Judged.NOT_LOOKED_AT, "the control topic cannot be read")


def test_a_young_snapshot_is_not_said_to_be_announced_where_the_control_topic_cannot_be_read() -> None:
    young = history(*COLD, topic_is_known=False, now_ms=61_000, announce_within_ms=600_000)

    assert verdict(nothing_unseen(young)) is Judged.NOT_LOOKED_AT


def test_what_is_gone_for_good_is_named_beside_what_cannot_be_read_now() -> None:
    found = nothing_unseen(history(*COLD, announced_since_ms=70_000, accounted=None))

    assert (found.verdict, found.why) == (
        Judged.NOT_PROVABLE,
        "the control topic no longer has messages of its time",
    )
    assert verdict(nothing_unseen(history(*COLD, accounted=None))) is Judged.NOT_LOOKED_AT
    without = replace(history(*COLD), rules={})
    assert cold_only(without).why == "it was made under another policy than that in force"


# Same rows


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((7, 77), (7, 77), Judged.PROVED),
        ((7, 77), (6, 70), Judged.BROKEN),
        ((7, 77), (7, 78), Judged.BROKEN),
    ],
)
def test_a_rewrite_keeps_every_row(before: tuple[int, int], after: tuple[int, int], expected: Judged) -> None:
    found = same_rows(history(*COLD, rows=(RowsCompared(3, before, after),)))

    assert found.verdict is expected


def test_a_rewrite_whose_rows_nobody_can_read_is_not_provable() -> None:
    assert verdict(same_rows(history(*COLD, rows=()))) is Judged.NOT_PROVABLE


def test_a_rewrite_that_has_expired_is_said_to_be_missing() -> None:
    found = same_rows(history(*COLD, lost_commits_until_ms=(500,)))

    assert found.verdict is Judged.PROVED
    assert found.evidence == ("1 older commit of ours expired from the table",)
    assert verdict(same_rows(history(*COLD[:2], lost_commits_until_ms=(500,)))) is Judged.NOT_PROVABLE


@pytest.mark.parametrize(("equal", "expected"), [(True, Judged.PROVED), (False, Judged.BROKEN)])
def test_the_table_holds_the_rows_of_its_source(equal: bool, expected: Judged) -> None:
    assert verdict(same_rows(history(*COLD, source=SourceCompared(9, 9, equal)))) is expected


# Nothing needed is deleted


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (FilesChecked(3, 10), Judged.PROVED),
        (FilesChecked(3, 10, missing=("a.parquet (needed by snapshot 2)",)), Judged.BROKEN),
        (FilesChecked(3, 10, failed_scans=("snapshot 2: no such file",)), Judged.BROKEN),
        (None, Judged.NOT_PROVABLE),
    ],
)
def test_every_file_that_is_reached_is_there(files: FilesChecked | None, expected: Judged) -> None:
    assert verdict(nothing_needed_deleted(history(*COLD, files=files))) is expected


# Nothing goes unseen


@pytest.mark.parametrize(
    ("since_ms", "expected"), [(None, Judged.BROKEN), (50_000, Judged.BROKEN), (50_001, Judged.PROVED)]
)
def test_what_stood_in_the_table_before_us_is_not_broken(since_ms: int | None, expected: Judged) -> None:
    """The first minute on a lake that exists: nobody had announced its snapshots to a topic that was not there."""
    found = nothing_unseen(history(*COLD, announced=frozenset({1, 3}), accounted_since_ms=since_ms))

    assert verdict(found) is expected
    # What is said covers the time since then alone.
    assert found.from_ms == (50_001 if expected is Judged.PROVED else 1_000)


def test_a_snapshot_that_was_never_announced_is_a_breach() -> None:
    found = nothing_unseen(history(*COLD, announced=frozenset({1, 3})))

    assert found.verdict is Judged.BROKEN
    assert found.evidence == ("snapshot 2 was never announced",)


def test_a_snapshot_that_the_daemon_does_not_know_is_a_breach() -> None:
    assert verdict(nothing_unseen(history(*COLD, accounted=frozenset({1, 2})))) is Judged.BROKEN


def test_a_snapshot_that_somebody_saw_and_that_left_no_trace_is_a_breach() -> None:
    assert verdict(nothing_unseen(history(*COLD, seen=frozenset({99})))) is Judged.BROKEN


def test_a_young_snapshot_may_still_be_on_its_way() -> None:
    found = nothing_unseen(
        history(*COLD, announced=frozenset({1, 2}), now_ms=61_000, announce_within_ms=5_000)
    )

    assert (found.verdict, found.counts["on_the_way"]) == (Judged.PROVED, 1)
    late = nothing_unseen(
        history(*COLD, announced=frozenset({1, 2}), now_ms=65_001, announce_within_ms=5_000)
    )
    assert late.verdict is Judged.BROKEN


def test_announcements_older_than_the_control_topic_are_not_provable_and_the_rest_is() -> None:
    found = nothing_unseen(history(*COLD, announced=frozenset({2, 3}), announced_since_ms=40_000))

    assert (found.verdict, found.from_ms) == (Judged.PROVED, 1_001)
    assert found.why == "2 snapshots, each announced and accounted for"


# All of them


def test_a_clean_history_proves_all_five() -> None:
    found = judge(history(*COLD, intents=(intent(40_000), intent(50_000, "closed"))))

    assert dict.fromkeys(Promise, Judged.PROVED) == {one.promise: one.verdict for one in found}


def test_a_table_without_history_proves_nothing() -> None:
    found = judge(history(files=None))

    assert {Judged.NOT_PROVABLE} == {one.verdict for one in found}
