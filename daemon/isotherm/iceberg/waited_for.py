"""What the loop asks of a store itself: it waits some seconds for it, and asks a store that was silent no more for a while.

What takes longer is left to itself, and whatever comes of it is not known.
"""

from collections.abc import Callable
from typing import TypeVar

from isotherm.clients.retries import store_name
from isotherm.iceberg.stopping import IsStopped
from isotherm.iceberg.threads import Threads
from isotherm.runtime.breaker import Breaker
from isotherm.service.ports import StoreAway

WAIT_S = 10.0
"""Files that a job has written are deleted some thousands a second, or looked for in some milliseconds each."""
LEFT_ALONE_S = 60.0
"""Many jobs may end at once, and each would be waited for."""

Result = TypeVar("Result")


class WaitedFor:
    """Work with a store for which the loop waits."""

    def __init__(self, threads: Threads, clock_s: Callable[[], float], wait_s: float) -> None:
        self._threads = threads
        self._clock_s = clock_s
        self._wait_s = wait_s
        self._silent: dict[str, Breaker] = {}
        """By store, as `s3://lake`."""

    def ask(self, location: str, work: Callable[[IsStopped], Result]) -> Result:
        """What some work gives, which must be safe at any time.

        Args:
            location: a place in the store.
            work: asks before each step whether it is still waited for.

        Raises:
            StoreAway: it took too long, or lately something else did.
        """
        store = store_name(location)
        silent = self._silent.setdefault(store, Breaker(self._clock_s, LEFT_ALONE_S, LEFT_ALONE_S))
        if (left_s := silent.left_s) > 0:
            raise StoreAway(f"{store} did not answer in time; the loop asks it again in {left_s:.0f} s")
        given_up: list[bool] = []
        try:
            result = self._threads.within(self._wait_s, store, lambda: work(lambda: bool(given_up)))
        except TimeoutError as err:
            given_up.append(True)
            silent.failed()
            raise StoreAway(f"{store}: {err}") from err
        silent.answered()
        return result
