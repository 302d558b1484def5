"""In which order a round looks at tables.

Those that gave no answer the last time stand behind all others, because each may cost a time-out, and between the two
stand the others of their namespaces. Of each kind comes first what the last round did not ask for, and then what follows
the table at which it stopped.
"""

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import zip_longest

from isotherm.service.tables.failing_tables import Doubt

Entry = tuple[str, str]
"""A name, and the uuid of the row that is meant; empty for a name without a row."""


@dataclass(slots=True)
class LookOrder:
    """The tables that a round has still to look at."""

    _queue: deque[Entry] = field(default_factory=deque)
    _last: str = ""
    """The table that was looked at last."""
    _last_new: str = ""
    """The same of names that we have no row for."""
    _is_new_first: bool = False
    """Whether such a name has the first turn in this round: all others may go unasked behind it."""

    def __len__(self) -> int:
        return len(self._queue)

    def fill(
        self,
        new: Collection[Entry],
        known: Collection[Entry],
        not_asked: Collection[str],
        doubt: Callable[[str], Doubt],
    ) -> None:
        """Put the tables of a round in order.

        Args:
            new: names that we have no row for.
            known: the tables with a row.
            not_asked: those that had their turn in the last round and were not asked for.
            doubt: whether a table, or its like, gave no answer the last time.
        """
        # In turn: new tables that nobody can read must not keep the known ones waiting, nor the other way round.
        self._is_new_first = not self._is_new_first
        self._queue.clear()
        for kind in Doubt:
            fresh, rows = (
                sorted(
                    (entry for entry in entries if doubt(entry[0]) is kind),
                    key=lambda entry: (entry[0] not in not_asked, entry[0] <= last, entry),
                )
                for entries, last in ((new, self._last_new), (known, self._last))
            )
            pairs = zip_longest(*((fresh, rows) if self._is_new_first else (rows, fresh)))
            self._queue.extend(entry for pair in pairs for entry in pair if entry is not None)

    def next(self) -> Entry:
        """Take the next one."""
        name, uuid = self._queue.popleft()
        if uuid:
            self._last = name
        else:
            self._last_new = name
        return name, uuid

    def add(self, name: str, uuid: str) -> None:
        """Look at a table once more, behind all others."""
        self._queue.append((name, uuid))

    def clear(self) -> None:
        """Leave the rest to the next round."""
        self._queue.clear()
