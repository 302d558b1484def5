"""The audit's rule that only what is cold was rewritten: when it is broken, when it is not, and when nobody can say."""

from dataclasses import replace

import pytest

from isotherm.audit.evidence import Judged, Said
from isotherm.audit.promises import cold_only, event_time_span
from isotherm.contract.identity import PartitionKey
from support.audited import COLD, FIVE, HOUR_MS, NINE, history, intent, rewrite, verdict, write


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


@pytest.mark.parametrize(
    ("pauses_h", "first", "waits_h", "expected"),
    [
        ((23, 25, 24), 1, 1, Judged.PROVED),
        ((3, 4, 3), 1, 1, Judged.PROVED),
        ((23, 1.9, 24), 1, 10, Judged.BROKEN),
        ((23, 24), 1, 1, Judged.BROKEN),
        ((23, 25, 24), 2, 1, Judged.NOT_PROVABLE),
        ((23, 0.5, 25, 0.2, 24), 1, 0.5, Judged.PROVED),
        ((23, 0.5, 25, 0.2, 24), 1, 0.4, Judged.BROKEN),
        ((23, 25, 0.05, 24), 1, 0.09, Judged.PROVED),
        ((23, 25, 24), 1, 0.08, Judged.BROKEN),
        ((23, 25, 24, *(0.5,) * 8), 1, 1, Judged.PROVED),
        ((23, 25, 24, *(0.5,) * 97), 1, 1, Judged.BROKEN),
        ((5, *(0.3,) * 40, 5, *(0.3,) * 40, 5, *(0.3,) * 40), 1, 1, Judged.BROKEN),
    ],
    ids=[
        "each night",
        "each three hours",
        "all day",
        "two nights",
        "no longer known",
        "in two commits",
        "between the two",
        "one after the other",
        "at once",
        "a visit of hours",
        "a stream by now",
        "a stream that was down",
    ],
)
def test_a_partition_to_which_somebody_comes_in_visits_need_not_be_behind_the_stream(
    pauses_h: tuple[float, ...], first: int, waits_h: float, expected: Judged
) -> None:
    """A job begins early in such a pause, and not when the next batch is due."""
    times = [1_000]
    for pause_h in pauses_h:
        times.append(times[-1] + int(pause_h * HOUR_MS))
    writes = [write(number, at_ms, FIVE, through_h=5.5) for number, at_ms in enumerate(times, 1)]
    ours_ms = times[-1] + int(waits_h * HOUR_MS)
    ours = rewrite(len(writes) + 1, ours_ms, FIVE)

    found = cold_only(history(*writes[first - 1 :], ours, now_ms=times[-1] + 10**8))

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
        # Closed in the margin: the last look may have come after it.
        ((intent(55_000), intent(59_500, "closed")), Judged.PROVED),
        ((intent(55_000), intent(60_500, "closed")), Judged.BROKEN),
        # One followed the other: there was no moment for an honest look.
        (
            (intent(55_000), intent(59_400, intent_id="i2"), intent(59_500, "closed")),
            Judged.BROKEN,
        ),
        (
            (intent(55_000), intent(59_500, "closed"), intent(59_600, intent_id="i2")),
            Judged.PROVED,
        ),
        ((intent(55_000, expires_at_ms=59_500), intent(59_500, intent_id="i2")), Judged.BROKEN),
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
