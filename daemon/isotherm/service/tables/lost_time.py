"""What tables that gave no answer, or came slowly, have cost the loop since a planning round began. No clock, no I/O.

Rounds have one share of time for them, and what sources name (`relay`) has another: with one for both, either could use it
up each time, and the other would ask for nothing any more.
"""

from dataclasses import dataclass

MOST_LOST_S = 15.0
"""Of a round, for time-outs of tables. What was not asked for then has its turn in the next round; what needs no answer
is planned all the same."""

SLOW_FROM_S = 2.0
"""What a table takes beyond this, though it comes, is lost as well."""


@dataclass(slots=True)
class LostTime:
    """One share."""

    _lost_s: float = 0.0

    def begin(self) -> None:
        """A round begins."""
        self._lost_s = 0.0

    def add(self, lost_s: float) -> None:
        """A table has cost so much."""
        self._lost_s += lost_s

    def came(self, lasted_s: float) -> None:
        """A table has come, after so long. A thousand that come slowly would make a round of hours."""
        self._lost_s += max(0.0, lasted_s - SLOW_FROM_S)

    @property
    def is_used_up(self) -> bool:
        """Whether no more may be lost before the next round."""
        return self._lost_s >= MOST_LOST_S
