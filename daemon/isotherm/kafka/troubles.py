"""What Kafka's clients complain of, told now and then: a client whose broker is away complains at each attempt to connect.

That is some twenty times a second for all clients of a daemon, and hundreds of times in the moment in which they end. Each
kind of trouble is told when it comes, and then after growing pauses, as whatever does not answer is asked.
"""

import re
from collections.abc import Callable

from isotherm.runtime.breaker import LONGEST_PAUSE_S, Breaker
from isotherm.runtime.clock import monotonic_s

MOST_KINDS = 50
"""Kinds that are remembered; a broker with more to say has the oldest told again."""


class Troubles:
    """A listener that passes on each kind of trouble once per pause. Texts that differ in their numbers only are one kind."""

    def __init__(self, tell: Callable[[str], None], clock_s: Callable[[], float] = monotonic_s) -> None:
        self._tell = tell
        self._clock_s = clock_s
        self._pauses: dict[str, Breaker] = {}

    def __call__(self, text: str) -> None:
        """Tell of it, unless it was told lately."""
        # Ports, milliseconds, how often it was left out: `… Connection refused (after 0ms in state CONNECT)`.
        kind = re.sub(r"\d+", "0", text)
        pause = self._pauses.pop(kind, None) or Breaker(self._clock_s)
        self._pauses[kind] = pause
        if len(self._pauses) > MOST_KINDS:
            del self._pauses[next(iter(self._pauses))]
        if pause.left_s > 0:
            return
        if pause.left_s < -LONGEST_PAUSE_S:
            pause.answered()  # it was over, and begins again
        pause.failed()
        self._tell(text)
