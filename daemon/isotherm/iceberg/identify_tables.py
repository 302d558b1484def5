"""Looks which table each of some names is, and where it lies: beside the loop, one name after another.

One name that is slow keeps the others waiting in this look alone: nothing that is found here says of the catalog as a
whole whether it answers. A question that never ends holds its thread, so the look goes on without that name in another.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from isotherm.iceberg.errors import wanted_pause_s
from isotherm.iceberg.stopping import IsStopped
from isotherm.runtime.breaker import Breaker
from isotherm.service.ports import Lies, Looked, Refused, StoreAway, TableMissing, Unavailable, Unreadable

TRIES = 3
"""A name that is not answered for is asked for so often, the last times behind all others."""
MOST_HANGING = 8
"""Names whose question has not ended though it was given up. With so many, none is asked for."""
AGAIN_S, LONGEST_AGAIN_S = 3 * 3600.0, 24 * 3600.0
"""After which such a name is asked for again, and does not count meanwhile: a connection that died without a word may keep its
question for ever, and each question a thread."""
SILENT_AT_ONCE = 5
"""So many in a row without an answer, and nobody answers: the others are not asked for."""


class Unended:
    """The names whose question has not ended, those of earlier looks too: they are left alone, for longer each time."""

    def __init__(self, breaker: Breaker) -> None:
        self._breaker = breaker
        self._pauses: dict[str, Breaker] = {}

    def begin(self, name: str) -> None:
        """Note that a name is asked for."""
        self._pauses.setdefault(name, self._breaker.another(AGAIN_S, LONGEST_AGAIN_S)).failed()

    def end(self, name: str) -> None:
        """Note that its question has ended."""
        self._pauses.pop(name, None)

    def has(self, name: str) -> bool:
        """Whether a name is left alone now."""
        pause = self._pauses.get(name)
        return pause is not None and pause.left_s > 0

    def count(self) -> int:
        """How many are left alone now."""
        return sum(pause.left_s > 0 for pause in tuple(self._pauses.values()))


@dataclass(slots=True)
class Look:
    """What some names are, as far as they were asked for."""

    lies: Callable[[str], Lies]
    """Asks for one name. Raises TableMissing, Unavailable."""
    is_listed: Callable[[str], bool]
    """Whether the catalog still lists a name that it has no table for. Raises TableMissing, Unavailable."""
    waiting: deque[str]
    """The names to ask for. The first is the one that is being asked for."""
    unended: Unended = field(default_factory=lambda: Unended(Breaker()))
    tries: Counter[str] = field(default_factory=Counter)
    in_a_row: int = 0
    """Names without an answer since the last one with an answer."""
    found: dict[str, Lies] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)

    def go_on(self, is_stopped: IsStopped) -> Looked:
        """Ask for the names that wait. Returns what all of them are.

        Args:
            is_stopped: asked before each.
        """
        pause_s = 0.0
        for name in [one for one in self.waiting if self.unended.has(one)]:
            self.waiting.remove(name)
            self.silent[name] = "its last question has not ended yet"
        while self._goes_on(is_stopped) and not pause_s:
            pause_s = self._asked_for(self.waiting[0])
        # Those that were asked for, and have tries left, were silent too.
        behind = {name: "the catalog did not answer" for name in self.waiting if self.tries[name]}
        unasked = [name for name in self.waiting if not self.tries[name]]
        return Looked(
            self.found, self.gone, self.missing, self.unread, {**self.silent, **behind}, unasked, pause_s
        )

    def _goes_on(self, is_stopped: IsStopped) -> bool:
        may_ask = self.in_a_row < SILENT_AT_ONCE and self.unended.count() < MOST_HANGING
        return bool(self.waiting) and may_ask and not is_stopped()

    def _asked_for(self, name: str) -> float:
        self.unended.begin(name)
        try:
            return self._ask(name)
        finally:
            self.unended.end(name)

    def _ask(self, name: str) -> float:
        """Ask for a name, the first that waits. Returns the pause that the catalog wants, with the name still first."""
        try:
            self.found[name] = self.lies(name)
        except TableMissing:
            (self.gone if _is_gone(self.is_listed, name) else self.missing).append(name)
        except Unavailable as err:
            if pause_s := wanted_pause_s(err):
                return pause_s
            if not isinstance(err, Refused | Unreadable):
                self._not_answered(name, err)
                return 0.0
            self.unread[name] = str(err)
        except Exception as err:  # noqa: BLE001 (a mistake of ours, about a table that nobody asked us to read)
            self.unread[name] = f"{type(err).__name__}: {err}"
        self.waiting.popleft()
        self.in_a_row = 0
        return 0.0

    def _not_answered(self, name: str, err: Unavailable) -> None:
        self.tries[name] += 1
        self.in_a_row += not isinstance(err, StoreAway)
        if self.tries[name] < TRIES:
            self.waiting.append(name)
        else:
            self.silent[name] = str(err)
        self.waiting.popleft()

    def without_first(self, why: str) -> "Look":
        """The same look, where the name that is being asked for is silent.

        The thread that asks for it may get an answer at any time, and still write to this look: it has no part in the
        other. What is written last, where a name waits, is read first.
        """
        waiting = list(self.waiting)
        answered = {*self.found, *self.missing, *self.gone, *self.unread, *self.silent}
        hanging = [name for name in waiting[:1] if name not in answered]
        return Look(
            self.lies,
            self.is_listed,
            deque(name for name in waiting[1:] if name not in answered),
            self.unended,
            Counter(self.tries),
            self.in_a_row + len(hanging),
            dict(self.found),
            list(self.missing),
            list(self.gone),
            dict(self.unread),
            {**self.silent, **dict.fromkeys(hanging, why)},
        )


def _is_gone(is_listed: Callable[[str], bool], name: str) -> bool:
    try:
        return not is_listed(name)
    except TableMissing:  # with its namespace
        return True
    except Unavailable:
        return False
