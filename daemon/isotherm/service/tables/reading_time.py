"""For how long the manifests of one table may keep the loop.

A table is counted in the loop, so that what is true of it does not change meanwhile, and all others wait. Who writes its
manifests decides how long that takes: a few kilobytes may hold as much to count as a lake, and a list may name one
manifest thousands of times. So the loop counts as alive as long as reading gets on, and reading ends after some time,
whatever it has come to. Then the table rests, and is told as one that cannot be read. That is forgotten with the process.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto

from isotherm.contract.identity import TableId
from isotherm.service.health import TICK_LIMIT_S, Health
from isotherm.service.ports import GoOn, TooLong, Unreadable

LONGEST_S = float(TICK_LIMIT_S)
"""Of one table. Forty million files on a local disk; a daemon that has not turned for so long used to be started again."""
EVENTS_FOR_S = 60.0
"""Of the events that are taken in together. What is not read by then is read in the round, for each table alone."""
A_SAMPLE_FOR_S = 10.0
"""Of one that is counted again in idle time. What takes longer is not worth it."""
SHARE = 0.1
"""What forces one table to be read again and again gets so much of the time at most."""
REST = 1 / SHARE - 1
"""How many times as long a table is left alone afterwards."""
CHEAP_S = 1.0
"""A scan that takes less is never put off."""
SLOW_S = 60.0
"""Catching up with new commits is not put off before it has taken so long."""


class Work(Enum):
    """What a table is read for."""

    SCAN = auto()
    CATCHING_UP = auto()


@dataclass(slots=True)
class ReadingTime:
    """How long each table was read, and until when it rests."""

    health: Health
    monotonic_s: Callable[[], float]
    _not_before_s: dict[tuple[Work, str], float] = field(default_factory=dict)
    _rests: dict[str, tuple[float, str]] = field(default_factory=dict)
    """Tables of which nothing could be made for long, until when they rest, and why."""

    def tick(self) -> None:
        """The loop gets on: what comes next may take as long as one table may (`TICK_LIMIT_S`)."""
        self.health.ticked_at_s = self.monotonic_s()

    def limited(self, longest_s: float, what: str) -> GoOn:
        """What is called while something is read."""
        until_s = self.monotonic_s() + longest_s

        def go_on() -> None:
            now_s = self.monotonic_s()
            if now_s >= until_s:
                raise TooLong(f"{what} hold so much that they were not counted within {longest_s:.0f} s")
            self.health.ticked_at_s = now_s

        return go_on

    @contextmanager
    def of(self, table: TableId) -> Iterator[GoOn]:
        """Read a table's manifests, with what is called meanwhile.

        Raises:
            Unreadable: nothing could be made of them, now, or when a long look was in vain not long ago.
        """
        began_s = self.monotonic_s()
        until_s, why = self._rests.get(table.uuid, (began_s, ""))
        if began_s < until_s:
            raise Unreadable(f"{why} (that took long; it is read again in {until_s - began_s:.0f} s)")
        try:
            yield self.limited(LONGEST_S, f"the manifests of {table}")
        except Unreadable as err:
            now_s = self.monotonic_s()
            if now_s - began_s > CHEAP_S:
                self._rests = {uuid: rest for uuid, rest in self._rests.items() if rest[0] > now_s}
                self._rests[table.uuid] = now_s + (now_s - began_s) * REST, str(err)
            raise

    def may_begin(self, work: Work, uuid: str) -> bool:
        """Whether some work for a table may be done again."""
        return self.monotonic_s() >= self._not_before_s.get((work, uuid), 0.0)

    def done(self, work: Work, uuid: str, began_s: float) -> float:
        """Note that some work for a table was done, from then until now. Returns how many seconds that took."""
        now_s = self.monotonic_s()
        seconds = now_s - began_s
        if seconds > (CHEAP_S if work is Work.SCAN else SLOW_S):
            self._not_before_s[work, uuid] = now_s + seconds * REST
        return seconds

    def forget(self, uuid: str) -> None:
        """The table is gone."""
        for work in Work:
            self._not_before_s.pop((work, uuid), None)
        self._rests.pop(uuid, None)
