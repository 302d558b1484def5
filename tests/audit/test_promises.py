"""The audit's rules on rows, on files and on what goes unseen: each with a history in which its promise is broken, and one
in which it is not.
"""

from dataclasses import replace

import pytest

from isotherm.audit.evidence import FilesChecked, Judged, Promise, RowsCompared, SourceCompared
from isotherm.audit.promises import (
    cold_only,
    judge,
    nothing_needed_deleted,
    nothing_unseen,
    same_rows,
    writer_wins,
)
from support.audited import COLD, history, intent, verdict


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
        (FilesChecked(3, 10, unread=("snap-2.avro: 503",)), Judged.NOT_LOOKED_AT),
        (FilesChecked(3, 10, missing=("a (needed by snapshot 2)",), unread=("b: 503",)), Judged.BROKEN),
    ],
)
def test_every_file_that_is_reached_is_there(files: FilesChecked, expected: Judged) -> None:
    assert verdict(nothing_needed_deleted(history(*COLD, files=files))) is expected


def test_what_somebody_else_took_away_is_named_and_not_laid_at_our_door() -> None:
    files = FilesChecked(3, 10, missing_by_others=("a.parquet (needed by snapshot 2)",))
    found = nothing_needed_deleted(history(*COLD, files=files, accounted=frozenset({1})))
    without = nothing_needed_deleted(history(*COLD, files=files, accounted=None))

    assert found.verdict is Judged.NOT_PROVABLE
    assert found.why == (
        "1 file missing, but the ledger, which keeps a week, does not say that this daemon deleted them; "
        "ask who else deletes in the table's folders"
    )
    assert (found.evidence, found.counts) == (("missing: a.parquet (needed by snapshot 2)",), {"missing": 1})
    assert without.verdict is Judged.NOT_LOOKED_AT
    assert "no ledger that knows the table" in without.why


def test_what_we_took_away_is_a_breach_beside_what_others_did() -> None:
    files = FilesChecked(3, 10, missing=("a",), missing_by_others=("b",))
    found = nothing_needed_deleted(history(*COLD, files=files))

    assert (found.verdict, found.evidence) == (Judged.BROKEN, ("missing: a", "missing: b"))


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


def test_without_a_ledger_nobody_knows_who_should_have_announced_a_snapshot() -> None:
    """A `state.path` that no daemon ever used is no breach."""
    for judge_one in (nothing_unseen, writer_wins):
        found = judge_one(history(*COLD, announced=frozenset(), accounted=None))

        assert (found.verdict, found.why) == (Judged.NOT_LOOKED_AT, "there is no ledger that knows the table")


def test_a_topic_that_was_made_again_has_lost_announcements_that_the_ledger_has() -> None:
    heard, gone = (
        frozenset({1, 2, 3}),
        "the ledger counts it as announced; the control topic, made again or cut, does not have it",
    )
    lost = history(*COLD, announced=frozenset(), heard=heard)
    unseen, won = nothing_unseen(lost), writer_wins(lost)

    assert (unseen.verdict, won.verdict) == (Judged.NOT_PROVABLE, Judged.NOT_PROVABLE)
    assert unseen.why.startswith(gone)
    assert won.why.startswith(gone)


def test_what_neither_the_topic_nor_the_ledger_has_heard_of_is_a_breach_all_the_same() -> None:
    found = nothing_unseen(history(*COLD, announced=frozenset(), heard=frozenset({1, 3})))

    assert (found.verdict, found.evidence) == (Judged.BROKEN, ("snapshot 2 was never announced",))


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
    found = judge(history())

    assert {Judged.NOT_PROVABLE} == {one.verdict for one in found}
