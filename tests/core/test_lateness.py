"""What the model of late writes learns, held against streams whose rate of late writes is known."""

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.contract.identity import partition_key
from isotherm.core.lateness import AGES, RETURN_MS, UNTAUGHT, Written
from isotherm.core.partitions import TimeSpan
from isotherm.core.state import apply
from isotherm.store.database import to_json
from support.builders import BUCKETS, DAY, HOUR, HOURLY, MINUTE, NOW, added, change, table_state

START = NOW // DAY * DAY
WRITTEN = Written(1, quiet=1)


def hour(number):
    return TimeSpan(START + number * HOUR, START + (number + 1) * HOUR)


def streamed(days, *, late=lambda *_: (), every=5 * MINUTE):
    """A stream that commits into the present hour, and into the hours (counted back) that `late` gives."""
    learnt, now, written = UNTAUGHT, START + 100 * HOUR, {}
    for number in range(days * DAY // every):
        current = (now - START) // HOUR
        spans = [hour(current), *(hour(current - back) for back in late(number, now))]
        quiet = {span: Written(1, int(now - written.get(span, 0) >= RETURN_MS)) for span in spans}
        written |= dict.fromkeys(spans, now)
        learnt = learnt.after(quiet, boundary_ms=now, partitions=100, committed_at_ms=now)
        now += every
    return learnt, now


def risk_of(learnt, now, back, horizon=MINUTE):
    """Of a partition that lies so many whole hours behind."""
    return learnt.risk(hour((now - START) // HOUR - back - 1), now, horizon)


@pytest.mark.parametrize(("per_day", "share"), [(0.5, 0.8), (4, 0.8), (30, 0.7)])
def test_the_risk_covers_the_true_rate_and_is_not_far_above_it(per_day, share):
    """Each partition between 4 and 8 hours old is written `per_day` times a day, at random.

    A write within ten minutes of the last one is no return: of a very high rate only a part is seen.
    """
    covered, ratios = 0, []
    for seed in range(8):
        dice = random.Random(seed)
        chance = per_day / DAY * 5 * MINUTE

        def late(number, now, dice=dice, chance=chance):
            return [back + 1 for back in (4, 5, 6, 7) if dice.random() < chance]

        learnt, now = streamed(12, late=late)
        found = risk_of(learnt, now, 5)
        true = 1 - math.exp(-per_day / DAY * MINUTE)
        covered += found.probability >= share * true
        ratios.append(found.probability / true)

    assert covered >= 7
    assert sum(ratios) / len(ratios) < 4


def test_a_commit_that_comes_back_to_many_partitions_counts_each_of_them():
    """A MERGE into half of 100 hours, every two hours: each is written once in four hours."""
    dice = random.Random(1)

    def late(number, now):
        return dice.sample(range(1, 100), 50) if number % 24 == 0 else []

    learnt, now = streamed(12, late=late)
    true = 1 - math.exp(-HOUR / (4 * HOUR))

    for back in (9, 20, 40):
        assert 0.8 * true <= risk_of(learnt, now, back, HOUR).probability <= 1.5 * true


def divided(days, comes_back, buckets=16):
    """A stream into all buckets of the present hour, and every two hours into those of older hours that are given."""
    fields = (*HOURLY, replace(BUCKETS[0], field_id=1001))
    now, state, partitions = START + 100 * HOUR, table_state(head=1, boundary_ms=None), {}

    def place(back, bucket):
        return partition_key({1000: now // HOUR - back, 1001: bucket})

    for number in range(days * DAY // (10 * MINUTE)):
        back = comes_back() if number % 12 == 11 else []
        written = [*((0, bucket) for bucket in range(buckets)), *back]
        deltas = {place(*where): added(1) for where in written}
        one = change(number + 2, number + 1, deltas, committed_at_ms=now, valid_through_ms=now)
        applied = apply(state, partitions, one, fields, now)
        state, partitions = applied.state, partitions | applied.partitions
        now += 10 * MINUTE
    return state.lateness, now


def test_of_an_hour_in_buckets_the_rate_of_each_bucket_is_told():
    """A commit into one bucket of sixteen is a sixteenth of a return, and one into all of them is a whole one."""
    dice = random.Random(7)

    def one_bucket():
        return [(back, dice.randrange(16)) for back in range(9, 17)]

    def all_buckets():
        back = dice.randrange(9, 17)
        return [(back, bucket) for bucket in range(16)]

    learnt, now = divided(8, one_bucket)
    true = 1 - math.exp(-1 / 32)

    assert true <= risk_of(learnt, now, 12, HOUR).probability <= 2 * true
    assert 13 < learnt.width <= 16

    learnt, now = divided(6, all_buckets)
    true = 1 - math.exp(-1 / 16)

    assert true <= risk_of(learnt, now, 12, HOUR).probability <= 2 * true


def test_an_hour_has_the_partitions_that_came_while_it_was_the_newest():
    """What comes late, or far ahead by a clock that is wrong, may be anything, and an hour may be written anew."""
    learnt, _ = divided(2, lambda: [(20, bucket) for bucket in range(400)], buckets=1)
    ahead, _ = divided(2, lambda: [(-500, bucket) for bucket in range(400)], buckets=1)

    assert learnt.width == ahead.width == 1


def test_rows_for_days_of_before_do_not_make_the_hours_of_now_wider():
    """The table was divided by days once, and each commit still brings one of those a row."""
    learnt = UNTAUGHT
    for number in range(20 * 24):
        now = 5000 * DAY + number * HOUR
        long_ago = now // DAY * DAY - 40 * DAY
        written = {
            TimeSpan(now, now + HOUR): Written(16, 0, 16),
            TimeSpan(long_ago, long_ago + DAY): Written(1, 1),
        }
        learnt = learnt.after(written, now, 2000, now + HOUR)

    assert 13 < learnt.width <= 16


@pytest.mark.parametrize(
    ("length", "at_once", "commits", "apart"),
    [(HOUR, 24, 60, DAY), (DAY, 30, 24, HOUR), (30 * DAY, 1, 36, 30 * DAY)],
    ids=["a batch each night", "a backfill of two years", "months"],
)
def test_how_many_partitions_an_interval_has_is_learned_also_where_many_come_at_once(
    length, at_once, commits, apart
):
    learnt, start = UNTAUGHT, 20_000 * DAY
    for number in range(commits):
        boundary = start + number * at_once * length
        spans = [boundary + place * length for place in range(at_once)]
        written = {TimeSpan(at, at + length): Written(16, 0, 16) for at in spans}
        learnt = learnt.after(written, boundary, 16 * at_once * commits, start + number * apart)

    assert 10 < learnt.width <= 16


def test_an_age_that_was_never_written_again_is_cold_the_longer_the_colder():
    early, late = streamed(1), streamed(20)

    assert risk_of(*late, 9).probability < risk_of(*early, 9).probability / 5
    assert not risk_of(*late, 9).is_known_hot


def test_one_busy_day_does_not_count():
    def backfill(number, now):
        return [9] if START + 8 * DAY <= now < START + 9 * DAY else []

    quiet, busy = streamed(20), streamed(20, late=backfill)

    assert not risk_of(*busy, 8).is_known_hot
    assert risk_of(*busy, 8).returns == pytest.approx(0, abs=1e-6)
    assert risk_of(*busy, 8).probability == pytest.approx(risk_of(*quiet, 8).probability, rel=0.01)


def test_it_says_nothing_of_what_it_has_not_watched():
    learnt, now = streamed(1)

    assert UNTAUGHT.risk(hour(0), now, MINUTE) is None
    assert risk_of(learnt, now, 5000) is None
    assert learnt.risk(hour((now - START) // HOUR + 3), now, MINUTE) is None


def test_a_day_is_not_enough_to_hold_anything_back():
    learnt, now = streamed(1, late=lambda *_: [6])

    assert not risk_of(learnt, now, 5).is_known_hot


def test_what_comes_back_every_day_is_known_after_some_days():
    learnt, now = streamed(5, late=lambda number, _: [6] if number % 36 == 0 else [])

    assert risk_of(learnt, now, 5).is_known_hot
    assert risk_of(learnt, now, 5).probability > 0.001


def test_a_habit_that_ended_is_forgotten():
    def late(number, now):
        return [6] if number % 36 == 0 and now < START + 15 * DAY else []

    learnt, now = streamed(120, late=late, every=30 * MINUTE)

    assert risk_of(learnt, now, 5).probability < 0.001


def files_of(days, delays, length=HOUR):
    """A stream of a file a minute, and beside it files of rows that are late by so much."""
    learnt = UNTAUGHT
    for number in range(days * DAY // MINUTE):
        now = START + number * MINUTE
        written = {}
        for behind in (0, *delays(number)):
            first = (now - behind) // length * length
            span = TimeSpan(first, first + length)
            written[span] = Written(written.get(span, WRITTEN).files + 1)
        learnt = learnt.after(written, boundary_ms=now, partitions=100, committed_at_ms=now)
    return learnt, now


@pytest.mark.parametrize("length", [HOUR, DAY])
def test_where_no_file_comes_late_a_partition_is_over_when_the_stream_is_past_it(length):
    learnt, now = files_of(3, lambda _: (), length)

    assert learnt.over_after_ms(now, 2 * length) == 0


@pytest.mark.parametrize(("late_ms", "least", "most"), [(40 * MINUTE, 20, 64), (5 * HOUR, 240, 512)])
def test_a_partition_is_over_when_nearly_all_files_of_its_like_had_come(late_ms, least, most):
    """A third of the files is late by the same time, counted from the rows: from the end of their hour by up to it."""
    learnt, now = files_of(3, lambda number: (late_ms,) if number % 2 else ())

    assert least * MINUTE <= learnt.over_after_ms(now, 2 * HOUR) <= most * MINUTE


def test_one_late_file_in_a_hundred_keeps_no_partition_open():
    learnt, now = files_of(3, lambda number: (5 * HOUR,) if number % 100 == 0 else ())

    assert learnt.over_after_ms(now, 2 * HOUR) == 0


def test_how_late_files_are_is_not_said_before_it_was_watched():
    learnt, now = files_of(1, lambda _: ())

    assert UNTAUGHT.over_after_ms(now, HOUR) is None
    assert learnt.over_after_ms(now, DAY - MINUTE) == 0
    assert learnt.over_after_ms(now, DAY) is None


def test_a_leap_of_event_time_is_no_watching():
    """A table's first commits are a backfill of last year, and then the present."""
    learnt = UNTAUGHT
    for number in range(100):
        behind = 365 * 24 if number < 50 else 0
        at = START + number * MINUTE
        learnt = learnt.after({hour(-behind): WRITTEN}, START - behind * HOUR, 100, at)

    assert learnt.over_after_ms(START, 2 * HOUR) is None


def test_a_habit_of_coming_late_that_ended_is_forgotten():
    def delays(number):
        return (5 * HOUR,) if number < 2 * DAY // MINUTE else ()

    early, middle = files_of(3, delays)
    late, now = files_of(70, delays)

    assert early.over_after_ms(middle, 2 * HOUR) >= 4 * HOUR
    assert late.over_after_ms(now, 2 * HOUR) == 0


def test_a_stream_that_stands_still_teaches_nothing():
    learnt, now = streamed(2)
    after = learnt.after({hour((now - START) // HOUR): WRITTEN}, now, 100, now + 30 * DAY)

    assert after.ages[3].watched_ms <= learnt.ages[3].watched_ms + 4 * HOUR


@given(
    st.lists(
        st.tuples(st.integers(-(10**6), 10**6), st.integers(0, 10**6), st.integers(0, 10**7)), max_size=60
    )
)
def test_it_is_bounded_and_total_whatever_comes(commits):
    learnt = UNTAUGHT
    for number, partitions, at in commits:
        learnt = learnt.after({hour(number): WRITTEN}, START + at, partitions, START + at)

    assert len(learnt.ages) <= AGES
    assert len(to_json(learnt)) < 8000
    for number in (0, 5, 10**6):
        found = learnt.risk(hour(-number), START, MINUTE)
        assert found is None or (0 <= found.probability <= 1 and found.returns >= 0)
    over_ms = learnt.over_after_ms(START + 10**7, 0)
    assert over_ms is None or 0 <= over_ms <= MINUTE << AGES


def test_one_commit_stamped_by_a_clock_far_ahead_does_not_end_the_learning():
    learnt, now = streamed(2, late=lambda *_: [5])
    ahead = learnt.after({hour((now - START) // HOUR - 5): WRITTEN}, now, 100, now + 1000 * DAY)
    watched, returns = [], []
    for number in range(3 * 24 * 12):
        at = now + number * 5 * MINUTE
        ahead = ahead.after({hour((at - START) // HOUR - back): WRITTEN for back in (0, 5)}, at, 100, at)
        watched.append(ahead.ages[3].watched_ms)
        returns.append(ahead.ages[3].returns)

    assert watched[-1] > watched[0]
    assert returns[-1] > returns[0]
