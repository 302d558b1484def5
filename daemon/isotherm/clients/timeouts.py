"""Requests that PyArrow cannot be told to end: each has a limit as a whole, and what takes longer is left to itself.

A store's own time-out begins again with each byte, so an answer that trickles in has none. PyArrow cannot be interrupted
while it reads, nor asked for pieces so small that each comes soon. So a request runs in a thread of its own. One that was
given up keeps that thread until the answer is over, or the process ends. Nobody waits for it.
"""

import errno
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")

TIMEOUTS = 4
"""So many time-outs of a request for an answer as a whole, as for those of a catalog."""
LEAST_BYTES_PER_S = 16 * 1024
"""An answer has more time for its size: so much comes on a slow line that many requests share."""
MOST_LEFT = 16
"""Requests to one store that were given up and have not ended. With so many, no other is begun; those that were begun before
may join them."""

_left_of_all: list[Future[Any]] = []
"""Those of every store."""


def hanging() -> int:
    """How many requests of this process were given up and have not ended: each has a thread."""
    _left_of_all[:] = [end for end in _left_of_all if not end.done()]
    return len(_left_of_all)


class StoreSilentError(TimeoutError):
    """A store did not answer. It is no word on the catalog, whose clients raise other errors."""


class TricklesError(StoreSilentError):
    """No whole answer came in time. It is not asked for again at once: each attempt may cost a thread."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.ETIMEDOUT, why)


class Patience:
    """For how long a store's requests are waited for, and those that were given up."""

    def __init__(self, name: str, timeout_s: float) -> None:
        self._name = name
        self._timeout_s = timeout_s
        self._left: list[Future[Any]] = []

    def within(self, action: Callable[[], T], size_bytes: int = 0) -> T:
        """The result of a request for so many bytes, which must be safe at any time.

        Raises:
            TricklesError: it took too long, or was not begun: so many others hang, or the system gives no thread.
        """
        self._left = [end for end in self._left if not end.done()]
        if len(self._left) >= MOST_LEFT:
            raise TricklesError(
                f"{self._name} timed out: {len(self._left)} answers trickle in; nothing is asked until one is over"
            )
        end: Future[T] = Future()

        def run() -> None:
            try:
                end.set_result(action())
            except BaseException as err:  # noqa: BLE001 (it is given to whoever waits)
                end.set_exception(err)

        try:
            Thread(target=run, name="isotherm-request", daemon=True).start()
        except RuntimeError as err:
            raise TricklesError(f"{self._name} is not asked: the system gives no thread ({err})") from err
        limit_s = TIMEOUTS * self._timeout_s + size_bytes / LEAST_BYTES_PER_S
        try:
            return end.result(limit_s)
        except TimeoutError as err:
            if end.done():
                raise  # its own
            self._left.append(end)
            _left_of_all.append(end)
            raise TricklesError(f"{self._name} timed out: no whole answer came in {limit_s:.0f} s") from err
