import sys
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from cronsim import CronSim
from hypothesis import example, given
from hypothesis import strategies as st

from isotherm.core.policy.policy import Window
from isotherm.core.policy.windows import checked_cron, opening
from isotherm.core.policy.zone_names import OF_THE_MACHINE
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
    found = opening([NIGHT], "UTC", at(now))

    assert (found.closes_at_ms, found.opens_at_ms) == (closes and at(closes), opens and at(opens))


def test_of_several_windows_the_last_to_close_and_the_next_to_open_count():
    found = opening([NIGHT, HALF_HOURS], "UTC", at("2026-11-21T23:05"))

    assert found.closes_at_ms == at("2026-11-22T03:00")
    assert opening([NIGHT, HALF_HOURS], "UTC", at("2026-11-21T12:15")).opens_at_ms == at("2026-11-21T12:30")


def test_without_windows_nothing_is_open_and_nothing_will_be():
    found = opening([], "UTC", at("2026-11-21T12:00"))

    assert (found.is_open, found.opens_at_ms) == (False, None)


@given(
    st.integers(0, 4 * 10**12), st.sampled_from([NIGHT, HALF_HOURS, Window(cron="7 3 29 2 *", lasts="2d")])
)
def test_an_answer_holds_until_the_time_it_names(now_ms, window):
    found = opening([window], "UTC", now_ms)
    changes_at_ms = found.closes_at_ms or found.opens_at_ms

    assert changes_at_ms > now_ms
    assert opening([window], "UTC", changes_at_ms - 1).is_open is found.is_open
    assert opening([window], "UTC", changes_at_ms).is_open is not found.is_open or window is HALF_HOURS


@pytest.mark.parametrize(
    "text", ["", "0 3 * *", "0 33 * * *", "0 0 30 2 *", "* * * * * *", "nightly", "0 0 0 0 0"]
)
def test_what_is_no_cron_expression_is_refused(text):
    with pytest.raises(ValueError, match=r"cron|fields"):
        checked_cron(text)


def test_a_day_that_no_month_has_is_named():
    with pytest.raises(ValueError, match="bad day-of-month; none of its months has such a day"):
        checked_cron("0 0 30 2 *")


def test_spans_are_those_of_the_policy():
    assert (NIGHT.lasts, HALF_HOURS.lasts, DAY) == (4 * HOUR, 10 * MINUTE, 24 * HOUR)


BERLIN = "Europe/Berlin"
ZONES = sorted(available_timezones() - OF_THE_MACHINE)
CHANGING = (
    BERLIN,
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Africa/Casablanca",
    "Asia/Beirut",
)
"""Clocks are changed by an hour at two, by half an hour, at midnight, and every few weeks."""


def in_berlin(text):
    return int(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("cron", "now", "closes", "opens"),
    [
        pytest.param(
            "30 2 * * *", "2026-03-29T01:59+01:00", None, "2026-03-29T03:00+02:00", id="it is skipped"
        ),
        pytest.param(
            "30 2 * * *", "2026-03-29T03:00+02:00", "2026-03-29T03:20+02:00", None, id="at the change"
        ),
        pytest.param("30 2 * * *", "2026-03-29T03:20+02:00", None, "2026-03-30T02:30+02:00", id="and over"),
        pytest.param(
            "*/10 2 * * *", "2026-03-29T01:59+01:00", None, "2026-03-29T03:00+02:00", id="all of an hour"
        ),
        pytest.param(
            "30 2 * * *", "2026-10-25T02:29+02:00", None, "2026-10-25T02:30+02:00", id="it comes twice"
        ),
        pytest.param(
            "30 2 * * *", "2026-10-25T02:49+02:00", "2026-10-25T02:50+02:00", None, id="the first time"
        ),
        pytest.param("30 2 * * *", "2026-10-25T02:29+01:00", None, "2026-10-26T02:30+01:00", id="not again"),
        pytest.param(
            "55 2 * * *", "2026-10-25T02:10+01:00", "2026-10-25T02:15+01:00", None, id="over the change"
        ),
        pytest.param(
            "*/30 * * * *", "2026-10-25T02:55+02:00", None, "2026-10-25T02:00+01:00", id="each half hour"
        ),
        pytest.param("0 22 * * *", "2026-07-01T12:00+02:00", None, "2026-07-01T20:00+00:00", id="summer"),
        pytest.param("0 22 * * *", "2026-12-01T12:00+01:00", None, "2026-12-01T21:00+00:00", id="winter"),
    ],
)
def test_clocks_are_changed_as_cron_does_it(cron, now, closes, opens):
    found = opening([Window(cron=cron, lasts="20m")], BERLIN, in_berlin(now))

    assert (found.closes_at_ms, found.opens_at_ms) == (
        closes and in_berlin(closes),
        opens and in_berlin(opens),
    )


def test_a_window_lasts_its_span_also_when_clocks_are_changed():
    night = Window(cron="0 22 * * *", lasts="8h")
    spring, autumn = in_berlin("2026-03-29T00:00+01:00"), in_berlin("2026-10-25T00:00+02:00")

    assert opening([night], BERLIN, spring).closes_at_ms == in_berlin("2026-03-29T07:00+02:00")
    assert opening([night], BERLIN, autumn).closes_at_ms == in_berlin("2026-10-25T05:00+01:00")


def test_a_whole_day_may_be_skipped():
    """Samoa had no 30 December 2011."""
    noon = Window(cron="0 12 30 12 *", lasts="1h")
    found = opening([noon], "Pacific/Apia", in_berlin("2011-12-29T23:00-10:00"))

    assert found.opens_at_ms == in_berlin("2011-12-31T00:00+14:00")


def walked(minutes, hours, lasts_ms, tz, now_ms):
    """Whether a window is open, by a walk through the minutes before it; None stands for `*`."""
    zone, minute = ZoneInfo(tz), timedelta(minutes=1)
    shown, open_until = None, now_ms
    for at_ms in range((now_ms - lasts_ms - 4 * HOUR) // MINUTE * MINUTE, now_ms + 1, MINUTE):
        wall = datetime.fromtimestamp(at_ms // 1000, zone).replace(tzinfo=None)
        if shown is None or (wall <= shown and None in (minutes, hours)) or hours is None:
            news = [wall]
        else:
            news = [wall - number * minute for number in range(max(wall - shown, 0 * minute) // minute)]
        shown = wall if shown is None else max(shown, wall)
        for time in news:
            if time.minute in (minutes or range(60)) and time.hour in (hours or range(24)):
                open_until = at_ms + lasts_ms
    return now_ms < open_until


MODERN = st.integers(in_berlin("1990-01-01T00:00+00:00"), in_berlin("2036-01-01T00:00+00:00"))
SOME_CHANGES = [
    in_berlin(f"{change}:00+00:00")
    for change in (
        *(
            "2026-03-29T01",
            "2026-10-25T01",
            "2026-03-08T07",
            "2026-11-01T06",
            "2026-04-04T15",
            "2026-10-03T15",
        ),
        *(
            "2018-11-04T03",
            "2018-02-18T02",
            "2026-02-15T02",
            "2026-03-22T02",
            "2026-03-28T22",
            "2026-10-24T21",
        ),
    )
]
CHANGES = st.builds(int.__add__, st.sampled_from(SOME_CHANGES), st.integers(-5 * HOUR, 5 * HOUR))


@given(
    st.none() | st.sets(st.sampled_from([0, 10, 29, 30, 59]), min_size=1),
    st.none() | st.sets(st.sampled_from([0, 1, 2, 3, 22, 23]), min_size=1),
    st.integers(1, 150),
    st.sampled_from(CHANGING),
    MODERN | CHANGES,
)
def test_it_is_open_when_a_walk_through_the_minutes_finds_it_open(minutes, hours, lasts, tz, now_ms):
    minute, hour = ("*" if one is None else ",".join(map(str, sorted(one))) for one in (minutes, hours))
    window = Window(cron=f"{minute} {hour} * * *", lasts=f"{lasts}m")

    assert opening([window], tz, now_ms).is_open is walked(minutes, hours, window.lasts, tz, now_ms)


@pytest.mark.parametrize("tz", CHANGING)
@pytest.mark.parametrize(
    "cron", ["30 2 * * *", "15,45 0-3 * * *", "0 0,23 * * SUN", "*/20 * * * *", "10 * * * *"]
)
def test_around_a_change_the_moments_are_those_of_cronsim(tz, cron):
    """Once it is asked it goes on by itself, so it does not forget which of two equal times it has passed."""
    for change_ms in SOME_CHANGES:
        begins = datetime.fromtimestamp((change_ms - 12 * HOUR) // 1000, ZoneInfo(tz))
        expected, ours, ends_ms = set(), set(), change_ms + 12 * HOUR
        for hit in CronSim(cron, begins):
            expected.add(int(hit.timestamp() * 1000))
            if max(expected) > ends_ms:
                break
        now_ms, window = change_ms - 12 * HOUR, Window.model_construct(cron=cron, lasts=0)
        while now_ms <= ends_ms:
            now_ms = opening([window], tz, now_ms).opens_at_ms
            ours.add(now_ms)

        assert ours == expected


YEAR_1, YEAR_9999 = -62_135_596_800_000, 253_402_300_799_999
CRONS = st.sampled_from(
    [
        "0 22 * * *",
        "30 2 * * *",
        "*/30 * * * *",
        "* 2 * 3 0L",
        "0 0 29 2 *",
        "7 3 L * *",
        "0 0 1 1 *",
        "59 23 31 12 *",
    ]
)
SPANS = st.sampled_from(["1m", "20m", "4h", "2d", "36500d"])


@given(CRONS, SPANS, st.sampled_from(ZONES), st.integers(YEAR_1, YEAR_9999) | MODERN | CHANGES)
@example("0 22 * * *", "4h", "Pacific/Kiritimati", YEAR_9999)
@example("0 22 * * *", "4h", "America/Adak", YEAR_1)
@example("* 2 * 3 0L", "4h", BERLIN, YEAR_9999 - 3 * DAY)
@example("59 23 31 12 *", "1m", "UTC", -1)
@example("0 22 * * *", "4h", BERLIN, 10**18)
@example("0 22 * * *", "4h", BERLIN, -(10**18))
def test_there_is_an_answer_for_every_moment_and_zone_and_it_is_ahead(cron, lasts, tz, now_ms):
    found = opening([Window(cron=cron, lasts=lasts)], tz, now_ms)

    assert all(at_ms is None or at_ms > now_ms for at_ms in (found.closes_at_ms, found.opens_at_ms))
    if YEAR_1 + DAY < now_ms < YEAR_9999 - 100 * 366 * DAY:
        assert found.is_open or found.opens_at_ms is not None


@given(CRONS, SPANS, st.sampled_from(ZONES), MODERN | CHANGES)
def test_in_every_zone_an_answer_holds_until_the_time_it_names(cron, lasts, tz, now_ms):
    window = Window(cron=cron, lasts=lasts)
    found = opening([window], tz, now_ms)
    changes_at_ms = found.closes_at_ms or found.opens_at_ms
    times = [now_ms, (now_ms + changes_at_ms) // 2, changes_at_ms - 1]
    answers = [opening([window], tz, at_ms) for at_ms in times]

    assert {answer.is_open for answer in answers} == {found.is_open}
    if not found.is_open:
        assert {answer.opens_at_ms for answer in answers} == {changes_at_ms}
        assert opening([window], tz, changes_at_ms).is_open


def test_whatever_was_asked_before_an_answer_is_the_same():
    """Moments before, between and after two hits, and a change of the clocks, asked in every order."""
    window = Window(cron="30 2 * * 0", lasts="5h")
    times = [at(f"2026-10-{day}T{hour}:30") for day in (17, 18, 24, 25, 26) for hour in ("00", "01", "05")]
    asked = [opening([window], "Europe/Berlin", now_ms) for now_ms in times]

    for start in range(len(times)):
        order = times[start:] + times[:start][::-1]
        assert {now: opening([window], "Europe/Berlin", now) for now in order} == dict(
            zip(times, asked, strict=True)
        )
    assert {one.is_open for one in asked} == {True, False}


def test_a_rare_window_is_looked_for_once_until_it_has_opened():
    """A fifth Monday in February comes every 28 years: to find it takes thousands of steps."""
    window, now_ms, steps = Window(cron="17 4 * 2 1#5", lasts="1h"), at("2026-11-22T15:40"), []

    def opens(of_ms):
        calls = []
        sys.setprofile(lambda *_: calls.append(1))
        try:
            found = opening([window], "Europe/Berlin", of_ms)
        finally:
            sys.setprofile(None)
        steps.append(len(calls))
        return found.opens_at_ms

    first = opens(now_ms)
    assert {opens(now_ms + hours * HOUR) for hours in range(100)} == {first}
    assert steps[0] > 1000
    assert max(steps[1:]) < 50
    assert opens(first) is None
    assert opens(first + 2 * HOUR) > first
