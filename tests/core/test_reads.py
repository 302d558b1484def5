"""How often a table is read: what fades, what is known after a minute, and how it is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.core.reads import HALF_LIFE_MS, Reads, reads_text, weight
from support.builders import DAY, HOUR, MINUTE, NOW

TIMES = st.integers(NOW - 400 * DAY, NOW + 400 * DAY)


def read_on(per_day, days):
    """A table that is read so often, evenly, for so many days up to now."""
    reads = Reads()
    for hour in range(days * 24):
        reads = reads.counted(round(per_day / 24), NOW - days * DAY + hour * HOUR)
    return reads


@pytest.mark.parametrize("days", [1, 2, 7, 30, 365])
def test_what_is_read_evenly_is_known_after_a_day_and_stays_the_same(days):
    assert read_on(480, days).per_day(NOW) == pytest.approx(480, rel=0.05)


def test_a_few_scans_in_the_first_minute_are_a_few_a_day():
    assert Reads().counted(10, NOW).per_day(NOW + MINUTE) == pytest.approx(10, rel=0.06)


def test_after_a_week_of_silence_half_is_left_and_after_a_year_nothing():
    reads = read_on(480, 365)

    assert reads.per_day(NOW + HALF_LIFE_MS) == pytest.approx(240, rel=0.05)
    assert reads.per_day(NOW + 365 * DAY) < 0.001


@given(st.lists(st.tuples(st.integers(0, 10**6), TIMES), max_size=20), TIMES)
def test_whatever_the_clock_does_a_rate_is_a_number(counts, now):
    """It may go back, and forth by years."""
    reads = Reads()
    for scans, at in counts:
        reads = reads.counted(scans, at)

    assert 0 <= reads.per_day(now) <= 1.1 * sum(scans for scans, _ in counts)


def test_scans_of_a_clock_that_was_ahead_fade_from_when_it_is_right():
    ahead = Reads().counted(1000, NOW + 100 * DAY)
    right = ahead.counted(1, NOW)

    assert right.per_day(NOW + 10 * HALF_LIFE_MS) < 1
    assert right.per_day(NOW) == pytest.approx(Reads().counted(1001, NOW).per_day(NOW))


@given(st.integers(0, 10**6), st.integers(1, 10**6), TIMES)
def test_more_scans_are_more(some, more, now):
    before = Reads().counted(some, NOW)

    assert before.counted(more, now).per_day(now) > before.per_day(now)


@pytest.mark.parametrize(
    ("per_day", "expected"), [(-1, 0), (0, 0), (9, 1 / 3), (99, 2 / 3), (1000, 1), (10**9, 1)]
)
def test_each_tenfold_weighs_a_third(per_day, expected):
    assert weight(per_day) == pytest.approx(expected, abs=0.001)


@pytest.mark.parametrize(
    ("per_day", "expected"),
    [
        (41_234.4, "read 41,234 times a day"),
        (412, "read 412 times a day"),
        (1.2, "read once a day"),
        (0.3, "read 2 times a week"),
        (0.1, "read once a week"),
        (0.01, "read less than once a week"),
    ],
)
def test_it_is_told_in_words(per_day, expected):
    assert reads_text(per_day) == expected
