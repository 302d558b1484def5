from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.core.policy.cron import checked_cron, opening
from isotherm.core.policy.policy import Window
from support.builders import DAY, HOUR, MINUTE

NIGHT = Window(cron="0 23 * * *", lasts="4h")
HALF_HOURS = Window(cron="*/30 * * * *", lasts="10m")


def at(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("now", "closes", "opens"),
    [
        pytest.param("2026-11-21T22:59:59", None, "2026-11-21T23:00", id="before it opens"),
        pytest.param("2026-11-21T23:00:00", "2026-11-22T03:00", None, id="the moment it opens"),
        pytest.param("2026-11-22T02:59:59", "2026-11-22T03:00", None, id="over midnight"),
        pytest.param("2026-11-22T03:00:00", None, "2026-11-22T23:00", id="the moment it closes"),
    ],
)
def test_a_window_is_open_from_its_hit_until_it_has_lasted(now, closes, opens):
    found = opening([NIGHT], at(now))

    assert (found.closes_at_ms, found.opens_at_ms) == (closes and at(closes), opens and at(opens))


def test_of_several_windows_the_last_to_close_and_the_next_to_open_count():
    found = opening([NIGHT, HALF_HOURS], at("2026-11-21T23:05"))

    assert found.closes_at_ms == at("2026-11-22T03:00")
    assert opening([NIGHT, HALF_HOURS], at("2026-11-21T12:15")).opens_at_ms == at("2026-11-21T12:30")


def test_without_windows_nothing_is_open_and_nothing_will_be():
    found = opening([], at("2026-11-21T12:00"))

    assert (found.is_open, found.opens_at_ms) == (False, None)


@given(
    st.integers(0, 4 * 10**12), st.sampled_from([NIGHT, HALF_HOURS, Window(cron="7 3 29 2 *", lasts="2d")])
)
def test_an_answer_holds_until_the_time_it_names(now_ms, window):
    found = opening([window], now_ms)
    changes_at_ms = found.closes_at_ms or found.opens_at_ms

    assert changes_at_ms > now_ms
    assert opening([window], changes_at_ms - 1).is_open is found.is_open
    assert opening([window], changes_at_ms).is_open is not found.is_open or window is HALF_HOURS


@pytest.mark.parametrize(
    "text", ["", "0 3 * *", "0 33 * * *", "0 0 30 2 *", "* * * * * *", "nightly", "0 0 0 0 0"]
)
def test_what_is_no_cron_expression_is_refused(text):
    with pytest.raises(ValueError, match=r"cron|fields"):
        checked_cron(text)


def test_spans_are_those_of_the_policy():
    assert (NIGHT.lasts, HALF_HOURS.lasts, DAY) == (4 * HOUR, 10 * MINUTE, 24 * HOUR)
