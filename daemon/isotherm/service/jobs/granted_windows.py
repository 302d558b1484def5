"""The windows of this daemon: asked for, granted by each writer, open, over. Kept in memory alone.

No time that another machine says counts. The daemon's part of a window begins when its request is sent, by its own
monotonic clock, and a writer's begins when it sends its grant, which is later. So the writer's part never ends first. What
a restart forgets ends by itself: the writer goes on when its time is up.

Here is what was said and when; what is done about it is in `rounds/asking_windows`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from isotherm.contract.events import Window, WindowClosed, WindowGranted
from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.model.windows import Grant
from isotherm.core.observations import WindowEnd
from isotherm.core.planner.granted import MARGIN_MS

MOST_VOID = 10_000
"""Requests that are remembered once they are void, some two MB: a writer whose batches are long grants one late."""


@dataclass(slots=True)
class GrantedWindow:
    """A window of one table."""

    window_id: str
    table: TableId
    partitions: frozenset[PartitionKey] | None
    writers: frozenset[str]
    """Each of them must grant it."""
    length_s: float
    sent_s: float
    """When it was asked for, by the monotonic clock."""
    tries: int = 1
    """How often the table's writers were asked in a row."""
    granted: dict[str, WindowGranted] = field(default_factory=dict)
    """By writer."""
    granted_s: float | None = None
    """When the first of them granted it, as far as we know."""
    foreign_commits: int | None = None
    """The table's count when the window was opened. None before."""
    end: WindowEnd | None = None
    """Why it is over, though its time is not up."""
    jobs: int = 0
    """That began in it."""
    running: int = 0
    """That ran when something was last begun."""
    pending: set[PartitionKey] = field(default_factory=set)
    """Partitions in which something may still be due."""
    tried_s: float = float("-inf")
    """When something was last begun in it, or might have been."""

    @property
    def is_granted(self) -> bool:
        """Whether every writer has granted it."""
        return self.writers <= self.granted.keys()

    @property
    def is_open(self) -> bool:
        """Whether it was opened. It may be over by now."""
        return self.foreign_commits is not None

    @property
    def lasts_s(self) -> float:
        """Its length for us, from its request on: nothing is sent for a job afterwards."""
        granted_s = [one.length_ms / 1000 for one in self.granted.values()]
        return min([self.length_s, *granted_s]) - MARGIN_MS / 1000

    @property
    def ends_s(self) -> float:
        """When its time is up for us."""
        return self.sent_s + self.lasts_s

    def is_late(self, now_s: float) -> bool:
        """Whether half of it is over, or more."""
        return 2 * (self.ends_s - now_s) < self.lasts_s


@dataclass(slots=True, kw_only=True)
class GrantedWindows:
    """The windows that this daemon has asked for, one for each table at most."""

    now_ms: Callable[[], int]
    monotonic_s: Callable[[], float]
    _windows: dict[str, GrantedWindow] = field(default_factory=dict)
    """By uuid of the table."""
    _void: dict[str, None] = field(default_factory=dict)
    """Ids of windows that ended, or were asked for anew, before anybody granted them; the newest last. Whoever grants one late is
    told once."""
    _granted_in_vain: list[WindowGranted] = field(default_factory=list)

    def of(self, uuid: str) -> GrantedWindow | None:
        """The window of a table, or None."""
        return self._windows.get(uuid)

    def __iter__(self) -> Iterator[GrantedWindow]:
        return iter(tuple(self._windows.values()))

    def ask(self, window: GrantedWindow) -> None:
        """Keep a window that is being asked for, in place of what was asked for before."""
        if (before := self._windows.get(window.table.uuid)) is not None:
            self.forget(before)
        self._windows[window.table.uuid] = window

    def forget(self, window: GrantedWindow) -> None:
        """A window is over."""
        if not window.granted:  # else it was closed, and who grants it later finds that on the topic
            self._void[window.window_id] = None
            if len(self._void) > MOST_VOID:
                del self._void[next(iter(self._void))]
        if self._windows.get(window.table.uuid) is window:
            del self._windows[window.table.uuid]

    def grants(self, uuid: str) -> tuple[Grant, ...]:
        """The open windows of a table, as the planner knows them."""
        window = self._windows.get(uuid)
        if window is None or window.foreign_commits is None or window.end is not None:
            return ()
        left_ms = int((window.ends_s - self.monotonic_s()) * 1000)
        writers = tuple(sorted(window.writers))
        until_ms = self.now_ms() + left_ms
        if left_ms <= 0:
            return ()
        return (Grant(window.window_id, writers, until_ms, window.foreign_commits, window.partitions),)

    def hear(self, said: Iterable[Window]) -> None:
        """Take in what writers say of our windows. Those of before a restart end by themselves."""
        for one in said:
            window = self._windows.get(one.table_uuid)
            if isinstance(one, WindowGranted) and one.window_id in self._void:
                del self._void[one.window_id]
                self._granted_in_vain.append(one)
            if window is None or window.window_id != one.window_id:
                continue
            match one:
                case WindowGranted() if one.writer in window.writers:
                    window.granted.setdefault(one.writer, one)
                    window.granted_s = window.granted_s or self.monotonic_s()
                case WindowClosed(by="writer"):
                    window.end = window.end or WindowEnd.TAKEN_BACK
                case _:
                    pass

    def began(self, uuid: str) -> None:
        """A job has begun in the window of a table."""
        if (window := self._windows.get(uuid)) is not None:
            window.jobs += 1

    def granted_in_vain(self, at_most: int) -> list[WindowGranted]:
        """Some of what was granted, and is needed no more; each is given once."""
        found, self._granted_in_vain = self._granted_in_vain[:at_most], self._granted_in_vain[at_most:]
        return found

    def disturb(self, uuids: Iterable[str]) -> None:
        """Somebody writes to these tables, rolls them back, or means to write: a window that was granted is not kept to.

        Before it is opened that is no news: what was written before the grant may be announced after it.
        """
        for uuid in uuids:
            window = self._windows.get(uuid)
            if window is not None and window.is_open:
                window.end = window.end or WindowEnd.DISTURBED
