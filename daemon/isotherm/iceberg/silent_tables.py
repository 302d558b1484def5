"""Tables about which a catalog is silent though it answers otherwise: a few of them, or every one?

A server reads each table from a store. Where that store of a few is dead, the others are asked for all the same. Where it
gives none at all any more, it is as good as silent, whatever else it answers.
"""

from isotherm.runtime.breaker import Breaker

MANY = 3
LONG_S = 300.0
"""So many tables, for so long without one that came: the catalog itself is away."""


class SilentTables:
    """Those since a table last came."""

    def __init__(self, breaker: Breaker) -> None:
        """Nothing is known yet. The breaker has the clock."""
        self._breaker = breaker
        self._names: set[str] = set()
        self._since_s = 0.0

    def are_few(self, name: str | None) -> bool:
        """Whether it was a table that did not come, and one of a few."""
        if name is None:
            return False
        if not self._names:
            self._since_s = self._breaker.now_s
        self._names.add(name)
        return len(self._names) < MANY or self._breaker.now_s - self._since_s < LONG_S

    def came(self, name: str | None) -> None:
        """A table did, if it was one that was asked for."""
        if name is not None:
            self._names.clear()
