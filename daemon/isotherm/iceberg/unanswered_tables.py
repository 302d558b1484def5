"""Tables about which a catalog is silent though it answers otherwise: a few of them, or every one?

A server reads each table from a store. Where that store of a few is dead, the others are asked for all the same. Where it
gives none at all any more, it is as good as silent, whatever else it answers.

That none came says nothing where no other one was asked for: tables that their writers announce are not asked for, for
hours. So before the catalog counts as away it is asked for one that came before.
"""

from collections.abc import Callable

from isotherm.runtime.breaker import Breaker

MANY = 3
LONG_S = 300.0
"""So many tables, for so long without one that came: the catalog itself may be away."""
REMEMBERED = 1000
"""Tables of which it is known that they came; of more, the newest."""


class SilentTables:
    """Those since a table last came."""

    def __init__(self, breaker: Breaker) -> None:
        """Nothing is known yet. The breaker has the clock."""
        self._breaker = breaker
        self._names: set[str] = set()
        self._since_s = 0.0
        self._came: dict[str, None] = {}
        """Tables that came, the newest last. Looks beside the loop add to them."""

    def are_few(self, name: str, comes: Callable[[str], bool]) -> bool:
        """Whether a table that did not come is one of a few.

        Args:
            name: the table.
            comes: asks the catalog for another table. Returns whether it says anything about that one.
        """
        if not self._names:
            self._since_s = self._breaker.now_s
        self._names.add(name)
        if len(self._names) < MANY or self._breaker.now_s - self._since_s < LONG_S:
            return True
        witness = self._witness()
        if witness is None:
            return False
        if comes(witness):
            self.came(witness)
            return True
        self._names.add(witness)
        return False

    def came(self, name: str) -> None:
        """The catalog has said something about a table, if only that there is none."""
        self._names.clear()
        self._came.pop(name, None)
        self._came[name] = None
        for oldest in list(self._came)[:-REMEMBERED]:
            self._came.pop(oldest, None)

    def _witness(self) -> str | None:
        """A table that came before and was not silent since, or None: the newest, of another namespace if possible."""
        others = [name for name in reversed(list(self._came)) if name not in self._names]
        silent = {_namespace(name) for name in self._names}
        elsewhere = (name for name in others if _namespace(name) not in silent)
        return next(elsewhere, others[0] if others else None)


def _namespace(name: str) -> str:
    return name.rpartition(".")[0]
