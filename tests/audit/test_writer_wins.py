"""The audit's rule that writers never lose to us, and what is said where its evidence is gone."""

import pytest

from isotherm.audit.evidence import FailedBatch, Judged, Recomputed
from isotherm.audit.promises import writer_wins
from support.audited import COLD, NINE, history, intent, verdict, write


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


def test_where_the_topic_cannot_be_read_no_intent_is_known_even_if_nothing_of_ours_is_there() -> None:
    found = writer_wins(history(write(1, 1_000, NINE), topic_is_known=False))

    assert found.verdict is Judged.NOT_LOOKED_AT
