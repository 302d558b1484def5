"""Requests that PyArrow cannot be told to end: each has a limit as a whole, and what takes longer is left to itself.

A store's own time-out begins again with each byte, so an answer that trickles in has none. PyArrow cannot be interrupted
while it reads, nor asked for pieces so small that each comes soon. So a request runs in a thread of its own. One that was
given up keeps that thread until the answer is over, or the process ends. Nobody waits for it, and how many there may be says
`runtime/hanging.py`.
"""

import errno
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

from isotherm.runtime.clock import monotonic_s
from isotherm.runtime.hanging import Hanging, NotBegunError

T = TypeVar("T")

TIMEOUTS = 4
"""So many time-outs of a request for an answer as a whole, as for those of a catalog."""
LEAST_BYTES_PER_S = 16 * 1024
"""An answer, or an upload, has more time for its size: so much comes on a slow line that many requests share."""
UPLOAD_TIMEOUTS = 12
"""An upload is some requests, each of which the store's own client sends three times."""
LISTING_TIMEOUTS = 27
"""For all that lies in a folder, whose number nobody knows: nine minutes, in which S3 lists two million files."""
LONGEST_LISTING_S = 540.0
"""Also where a request may be silent for longer: a step of a search has ten minutes, and then goes on in the folder's own
folders."""


class StoreSilentError(TimeoutError):
    """A store did not answer. It is no word on the catalog, whose clients raise other errors."""


class TricklesError(StoreSilentError):
    """No whole answer came in time. It is not asked for again at once: each attempt may cost a thread."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.ETIMEDOUT, why)


class NotWholeError(TricklesError):
    """It was asked, and what came by then was not all."""


class Patience:
    """For how long a store's requests are waited for, and those that were given up."""

    def __init__(self, name: str, timeout_s: float, clock_s: Callable[[], float] = monotonic_s) -> None:
        self._name = name
        self._timeout_s = timeout_s
        self._hanging = Hanging(clock_s)

    def within(self, action: Callable[[], T], size_bytes: int = 0) -> T:
        """The result of a request that takes or gives so many bytes, and must be safe at any time.

        Raises:
            TricklesError: it took too long, or was not begun: so many others hang, or the system gives no thread.
        """
        return self._within(action, TIMEOUTS * self._timeout_s + size_bytes / LEAST_BYTES_PER_S)

    def sent(self, action: Callable[[], T], size_bytes: int) -> T:
        """The result of an upload of so many bytes. Raises TricklesError: as above."""
        return self._within(action, UPLOAD_TIMEOUTS * self._timeout_s + size_bytes / LEAST_BYTES_PER_S)

    def listed(self, action: Callable[[], T]) -> T | None:
        """The result of a request whose answer may be very large, or None where it takes too long to come whole.

        Raises:
            TricklesError: it was not begun.
        """
        try:
            return self._within(action, min(LISTING_TIMEOUTS * self._timeout_s, LONGEST_LISTING_S))
        except NotWholeError:
            return None

    def _within(self, action: Callable[[], T], limit_s: float) -> T:
        end: Future[T] = Future()
        try:
            self._hanging.begin(end)
        except NotBegunError as err:
            raise TricklesError(f"{self._name} timed out: {err}") from err

        def run() -> None:
            try:
                end.set_result(action())
            except BaseException as err:  # noqa: BLE001 (it is given to whoever waits)
                end.set_exception(err)

        try:
            Thread(target=run, name="isotherm-request", daemon=True).start()
        except RuntimeError as err:
            raise TricklesError(f"{self._name} is not asked: the system gives no thread ({err})") from err
        try:
            return end.result(limit_s)
        except TimeoutError as err:
            if end.done():
                raise  # its own
            self._hanging.give_up(end)
            raise NotWholeError(f"{self._name} timed out: no whole answer came in {limit_s:.0f} s") from err
