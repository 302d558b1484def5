"""Calls that were given up and have not ended: each keeps a thread until the library in which it waits returns.

No thread can be ended from outside, and a library that waits at a dead connection may never return. So with `MOST` such
calls of one kind no other begins, except one now and then that tries. When that one ends in time, with whatever result,
calls end again: those that hang do not count any more, and the others begin as before. While the trials hang too, the
pauses between them double. So a store that comes back is used again after about as long as it was away, at most after
six hours, and a day away costs a dozen threads more.

What it does not do: have more than `MOST_EVER` threads hang. Then a restart of the process helps, and nothing else.
"""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock
from typing import Any

from isotherm.runtime.breaker import Breaker
from isotherm.runtime.clock import monotonic_s

MOST = 16
"""Calls of one kind that hang and count. Those that were begun before may join them: 48 requests at once, say."""
MOST_EVER = 128
"""Of one kind, those that do not count any more too. A thread that waits takes some 20 KiB, and the buffer of its answer."""
FIRST_TRIAL_S, LONGEST_TRIAL_S = 60.0, 6 * 3600.0
"""The pauses before a trial: what hung for a moment is used again soon, and what hangs for four days is still tried."""

_everywhere: list[Future[Any]] = []


def hanging() -> int:
    """How many calls of this process, of every kind, were given up and have not ended: each has a thread."""
    _everywhere[:] = _unended(_everywhere)
    return len(_everywhere)


def _unended(ends: list[Future[Any]]) -> list[Future[Any]]:
    return [end for end in ends if not end.done()]


class NotBegunError(TimeoutError):
    """A call was not begun, because too many of its kind hang, or the system gives no thread."""


class Hanging:
    """The calls of one kind that were given up and have not ended."""

    def __init__(self, clock_s: Callable[[], float] = monotonic_s) -> None:
        self._lock = Lock()
        self._trials = Breaker(clock_s, FIRST_TRIAL_S, LONGEST_TRIAL_S)
        self._counted: list[Future[Any]] = []
        self._left_alone: list[Future[Any]] = []
        """Those that do not count any more, because a later call ended."""

    def begin(self, end: Future[Any]) -> None:
        """Note that a call begins, which sets this future when it ends.

        Raises:
            NotBegunError: too many hang.
        """
        with self._lock:
            self._counted, self._left_alone = _unended(self._counted), _unended(self._left_alone)
            if len(self._counted) < MOST:
                self._trials.answered()
                return
            hang = f"{len(self._counted)} threads hang in what was given up before"
            if len(self._counted) + len(self._left_alone) >= MOST_EVER:
                raise NotBegunError(
                    f"{hang}, and {len(self._left_alone)} from earlier times; only a restart of this process ends them"
                )
            if (left_s := self._trials.left_s) > 0:
                raise NotBegunError(
                    f"{hang}; no other is begun until one of them ends, or {left_s:.0f} s are over"
                )
            self._trials.failed()  # until this one ends: no other is begun beside it
        end.add_done_callback(self._trial_ended)

    def give_up(self, end: Future[Any]) -> None:
        """Note that nobody waits any more for the call that sets this future."""
        with self._lock:
            self._counted.append(end)
            _everywhere.append(end)
            if len(self._counted) >= MOST:
                self._trials.failed()

    def is_empty(self) -> bool:
        """Whether nothing hangs here."""
        with self._lock:
            return not _unended([*self._counted, *self._left_alone])

    def _trial_ended(self, end: Future[Any]) -> None:
        with self._lock:
            if end in self._counted or isinstance(end.exception(), NotBegunError):
                return  # it took too long itself, or got no thread
            self._left_alone += self._counted
            self._counted = []
            self._trials.answered()
