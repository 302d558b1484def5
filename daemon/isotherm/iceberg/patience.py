"""How long work beside the loop may take that gets on all the time, because others of its kind wait for it.

What is broken off begins from its start the next time, so with one limit for ever the largest tables' work would never
end. It has twice the time then, and others have their turns in between. In all it takes three times what it
needs at most. What was broken off is remembered by this process alone.
"""

from isotherm.core.units import span_text

MOST_S = 3 * 3600.0
"""What a piece of work may take the first time: the proof for a hundred million files."""
MOST_EVER_S = 16 * MOST_S
"""Two days: work that never ends, whatever it has, must leave something to the others."""
REMEMBERED = 1000
"""Of so many it is known that they need longer; of more, the newest."""


class Patience:
    """What was broken off before, of one kind of work, and how long it may take the next time."""

    def __init__(self) -> None:
        self._allowed_s: dict[str, float] = {}

    def allowed_s(self, whose: str) -> float:
        """How long the work may take."""
        return self._allowed_s.get(whose, MOST_S)

    def broken_off(self, whose: str) -> TimeoutError:
        """Note that it took longer. Returns what is said of it."""
        took_s = self._allowed_s.pop(whose, MOST_S)
        self._allowed_s[whose] = next_s = min(2 * took_s, MOST_EVER_S)
        if len(self._allowed_s) > REMEMBERED:
            del self._allowed_s[next(iter(self._allowed_s))]
        took, then = (span_text(int(1000 * seconds)) for seconds in (took_s, next_s))
        return TimeoutError(
            f"not done after {took}, though it got on; it begins again, and may take {then} then"
        )
