"""Windows of time that open by a cron expression in a time zone, and stay open for a span.

The question is always asked of a moment: is the window open, when does it close, when does it open next? A plan for any
time in the past or the future is the same as a plan for now. What is remembered of an expression is only where it came
to pass last and comes to pass next: between the two, the answer is the same for every moment.

Clocks are changed as cron does it. A time that they skip comes to pass at the moment of the change. A time that they
show twice comes to pass once, the first time. Where minute or hour begin with `*` it does so both times, and where the
hour does, a skipped time is left out, because the next is near. (Cron leaves it out for such a minute too. Then a window
could be lost for a night, or never open.)

cronsim finds the times on the wall, and knows no zone here: asked within an hour that comes twice, it forgets which of
the two it is.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Protocol

from cronsim import CronSim, CronSimError

from isotherm.core.policy.zone_names import moment, zone

_SECOND = timedelta(seconds=1)
MOST_KNOWN = 10_000
"""Expressions whose times are remembered; rare ones (`0 0 * 2 1#5`) are dear to find."""
_known: dict[tuple[str, str], tuple[int, int]] = {}
"""By expression and zone: when it came to pass last and comes to pass next, around the moment that was asked of."""


class Window(Protocol):
    """What opens by cron."""

    @property
    def cron(self) -> str:
        """A cron expression of five fields: minute, hour, day of month, month, day of week."""
        ...

    @property
    def lasts(self) -> int:
        """How long it stays open, in milliseconds."""
        ...


def checked_cron(expression: str) -> str:
    """A cron expression of five fields that comes to pass.

    Raises:
        ValueError: it is none, or names a day that never comes (30 February).
    """
    if len(expression.split()) != 5:
        raise ValueError(
            "expected five fields: minute hour day-of-month month day-of-week, such as `0 3 * * *`"
        )
    try:
        next(CronSim(expression, datetime(2000, 1, 1, tzinfo=UTC)))
    except CronSimError as err:
        # cronsim says the same of 30 February and of a 32nd.
        day = "; none of its months has such a day" if str(err) == "Bad day-of-month" else ""
        raise ValueError(f"no cron expression: {str(err).lower()}{day}") from err
    except StopIteration as err:
        raise ValueError("this cron expression never comes to pass") from err
    return expression


@dataclass(frozen=True, slots=True)
class Opening:
    """How a set of windows stands at one moment."""

    closes_at_ms: int | None
    """When the last of those that are open closes, or None where none is open."""
    opens_at_ms: int | None
    """When the next of those that are not open opens, or None where there is none."""

    @property
    def is_open(self) -> bool:
        """Whether any window is open."""
        return self.closes_at_ms is not None


def opening(windows: Iterable[Window], tz: str, now_ms: int) -> Opening:
    """How the windows stand at a moment, in a time zone; with none at all, nothing is open and nothing will be.

    Nothing is open before the year 1 or after 9999 either, because the calendar ends there.
    """
    closes: list[int] = []
    opens: list[int] = []
    for window in windows:
        opened_ms, opens_ms = _around(window.cron, tz, now_ms)
        if opened_ms is not None and now_ms < opened_ms + window.lasts:
            closes.append(opened_ms + window.lasts)
        elif opens_ms is not None:
            opens.append(opens_ms)
    return Opening(max(closes, default=None), min(opens, default=None))


def _around(cron: str, tz: str, now_ms: int) -> tuple[int | None, int | None]:
    """When an expression came to pass last, and when it comes to pass next."""
    known = _known.get((cron, tz))
    if known is not None and known[0] <= now_ms < known[1]:
        return known
    last_ms, next_ms = _answer(_last, cron, tz, now_ms), _answer(_next, cron, tz, now_ms)
    if last_ms is not None and next_ms is not None:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        _known[cron, tz] = last_ms, next_ms
    return last_ms, next_ms


def _answer(
    ask: Callable[[str, tzinfo, datetime], datetime | None], cron: str, tz: str, now_ms: int
) -> int | None:
    try:
        at = ask(cron, zone(tz), moment(now_ms))
    except OverflowError:
        return None
    return None if at is None else int(at.timestamp()) * 1000


def _last(cron: str, tz: tzinfo, now: datetime) -> datetime | None:
    """When the expression last came to pass, up to and including now."""
    wall = _wall(now, tz)
    found = None
    # After the clocks were put back, later times than now have been before.
    for time in CronSim(cron, wall + _put_back(wall, tz) + _SECOND, reverse=True):
        found = max(
            (at for at in (found, *_moments(time, cron, tz)) if at is not None and at <= now), default=None
        )
        if found is not None and time <= wall:
            break
    return found


def _next(cron: str, tz: tzinfo, now: datetime) -> datetime | None:
    """When the expression comes to pass next, after now."""
    wall = _wall(now, tz)
    found = None
    # Before the clocks are put back, times that have been will come again.
    for time in CronSim(cron, wall - _put_back(wall, tz)):
        found = min(
            (at for at in (found, *_moments(time, cron, tz)) if at is not None and at > now), default=None
        )
        if found is not None and time > wall:
            break
    return found


def _wall(at: datetime, tz: tzinfo) -> datetime:
    """What a clock in the zone shows."""
    return at.astimezone(tz).replace(tzinfo=None)


def _both(time: datetime, tz: tzinfo) -> tuple[datetime, datetime]:
    """The moments of a time on the wall, by the clocks before and after a change."""
    before, after = (time.replace(tzinfo=tz, fold=fold).astimezone(UTC) for fold in (0, 1))
    return before, after


def _put_back(time: datetime, tz: tzinfo) -> timedelta:
    """By how much the clocks are put back where they show this time twice; else nothing."""
    first, second = _both(time, tz)
    return max(second - first, timedelta())


def _moments(time: datetime, cron: str, tz: tzinfo) -> tuple[datetime, ...]:
    """The moments at which a time on the wall comes to pass."""
    first, second = _both(time, tz)
    minute, hour, *_ = cron.split()
    if first == second:
        return (first,)
    if first < second:
        return (first, second) if minute.startswith("*") or hour.startswith("*") else (first,)
    if hour.startswith("*"):
        return ()
    # The clocks show an earlier time at `second`, and a later one at `first`: the change is between.
    seconds = range(int((first - second).total_seconds()))
    place = bisect_left(seconds, time, key=lambda past: _wall(second + past * _SECOND, tz))
    return (second + place * _SECOND,)
