"""Writers that come in visits: a batch of one or several commits, and then nobody for much longer. Values only, no clock.

Times are those of the commits themselves. When they were heard of may be hours later: where the daemon was down, its own
absence would be taken for that of the writers.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from isotherm.contract.boundary import MAX_AHEAD_MS

PAUSE_FROM_MS = 5 * 60_000
"""A shorter pause is no pause: a stream commits every minute or so."""
ABSENCE_FROM_MS = 60 * 60_000
"""A shorter pause lies within a visit."""
LONGER = 12
"""A pause lies within a visit, too, where the next one is so many times as long."""
MOST = 8
"""So many absences are remembered."""
ENOUGH = 3
"""Fewer show no rhythm."""


class Absence(NamedTuple):
    """A time in which nobody wrote, and the visit after it."""

    came_ms: int
    """When they came back."""
    away_ms: int
    within_ms: int
    """The longest pause within the visit, so far."""


@dataclass(frozen=True, slots=True)
class Visits:
    """The latest absences of a partition's writers, the newest last."""

    last_ms: int | None = None
    """The time of the last commit."""
    absences: tuple[Absence, ...] = ()

    def after(self, committed_ms: int, last_ms: int | None = None) -> Self:
        """The same after one more commit.

        Args:
            committed_ms: its own time.
            last_ms: when the last one came, where nothing is known of its own time.
        """
        last_ms = self.last_ms if self.last_ms is not None else last_ms
        if last_ms is None or last_ms > committed_ms + MAX_AHEAD_MS:  # that clock ran ahead
            return replace(self, last_ms=committed_ms)
        pause_ms = committed_ms - last_ms
        return replace(self, last_ms=max(last_ms, committed_ms), absences=self._after(pause_ms, committed_ms))

    def _after(self, pause_ms: int, committed_ms: int) -> tuple[Absence, ...]:
        if pause_ms < PAUSE_FROM_MS:
            return self.absences
        known = list(self.absences)
        if pause_ms < ABSENCE_FROM_MS:
            if known:
                known[-1] = _with(known[-1], pause_ms)
            return tuple(known)
        while known and known[-1].away_ms * LONGER <= pause_ms:
            _join(known, len(known) - 1)
        known.append(Absence(committed_ms, pause_ms, 0))
        if len(known) > MOST:
            least = min(known, key=lambda one: one.away_ms)
            is_within = least.away_ms * LONGER <= max(one.away_ms for one in known)
            _join(known, known.index(least) if is_within else 0)
        return tuple(known)

    def longest_within_ms(self, long_ms: int) -> int | None:
        """The longest pause within a visit, where the writers come in visits; 0 where each is a single commit.

        They do where they were away for longer than `long_ms` three times and more, and no visit since the first of the
        latest three was longer than twice the absence before it: a stream that was down three times comes in no visits.

        Returns None where they do not, or not enough is known.
        """
        long = [one for one in self.absences if one.away_ms > long_ms][-ENOUGH:]
        if len(long) < ENOUGH or self.last_ms is None:
            return None
        ends = [*(one.came_ms - one.away_ms for one in long[1:]), self.last_ms]
        if any(end - one.came_ms > 2 * one.away_ms for one, end in zip(long, ends, strict=True)):
            return None
        shorter = (one.away_ms for one in self.absences if one.away_ms <= long_ms)
        return max([*shorter, *(one.within_ms for one in self.absences)])


NO_VISITS = Visits()


def _with(absence: Absence, pause_ms: int) -> Absence:
    return absence._replace(within_ms=max(absence.within_ms, pause_ms))


def _join(known: list[Absence], index: int) -> None:
    """Take an absence, and what was within the visit after it, for a part of the visit before; of the first, forget it."""
    one = known.pop(index)
    if index:
        known[index - 1] = _with(known[index - 1], max(one.away_ms, one.within_ms))
