"""Windows of time that open by a cron expression and stay open for a span, in UTC.

The question is always asked of a moment: is the window open, when does it close, when does it open next? Nothing is
kept between two questions, so that a plan for any time in the past or the future is the same as a plan for now.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from cronsim import CronSim, CronSimError


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
        raise ValueError(f"no cron expression: {str(err).lower()}") from err
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


def opening(windows: Iterable[Window], now_ms: int) -> Opening:
    """How the windows stand at a moment; with none at all, nothing is open and nothing will be."""
    closes: list[int] = []
    opens: list[int] = []
    for window in windows:
        opened_ms = _hit(window.cron, now_ms, backwards=True)
        if opened_ms is not None and now_ms < opened_ms + window.lasts:
            closes.append(opened_ms + window.lasts)
        else:
            next_ms = _hit(window.cron, now_ms, backwards=False)
            opens.extend([] if next_ms is None else [next_ms])
    return Opening(max(closes, default=None), min(opens, default=None))


def _hit(cron: str, now_ms: int, *, backwards: bool) -> int | None:
    """The last time that the expression came to pass, up to and including now; or the next time after now."""
    # Backwards it finds only what lies before: the next whole second makes that "up to and including now".
    now = datetime.fromtimestamp(now_ms // 1000 + backwards, UTC)
    found = next(CronSim(cron, now, reverse=backwards), None)
    return None if found is None else int(found.timestamp() * 1000)
