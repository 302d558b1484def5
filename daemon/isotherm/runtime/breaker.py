"""A breaker: whoever asks something outside that did not answer is told so at once, instead of waiting again.

After a failure nothing is asked for a moment, then one more question goes through: if that fails too, the pause is twice
as long, up to a limit; an answer ends it. What counts as no answer says who asks: a refusal is an answer.
"""

from collections.abc import Callable

from isotherm.runtime.clock import monotonic_s

FIRST_PAUSE_S, LONGEST_PAUSE_S = 5.0, 60.0
"""The longest is what a thing that is back again waits for at most."""


class Breaker:
    """Whether one thing outside is worth asking now."""

    def __init__(
        self,
        monotonic_s: Callable[[], float] = monotonic_s,
        first_s: float = FIRST_PAUSE_S,
        longest_s: float = LONGEST_PAUSE_S,
    ) -> None:
        self._monotonic_s = monotonic_s
        self._first_s, self._longest_s = first_s, longest_s
        self._failures = 0
        self._until_s = float("-inf")

    def another(self, first_s: float, longest_s: float) -> "Breaker":
        """One by the same clock, for something else."""
        return Breaker(self._monotonic_s, first_s, longest_s)

    @property
    def now_s(self) -> float:
        """The time by its clock."""
        return self._monotonic_s()

    @property
    def left_s(self) -> float:
        """For how long it is not to be asked; 0 or less: it may be."""
        return self._until_s - self._monotonic_s()

    def failed(self) -> None:
        """It did not answer."""
        if self.left_s > 0:
            return  # asked before it was known that it does not answer
        self._failures += 1
        pause_s = min(self._first_s * 2 ** min(self._failures - 1, 10), self._longest_s)
        self._until_s = self._monotonic_s() + pause_s

    def answered(self) -> None:
        """It did answer."""
        self._failures, self._until_s = 0, float("-inf")
