"""Tables of which nobody has spoken for long: the catalog is asked for them, for a part of each round."""

from collections.abc import Callable
from dataclasses import dataclass

from isotherm.service.tables.failing_tables import Barrier
from isotherm.store.fold import Fold

MOST_SILENT_S = 15.0
"""Of a round: work begins at its end, and they may be a thousand, each half a second. The others have their turn first in
the next round."""


@dataclass(slots=True)
class SilentTables:
    """What asking for them has cost in this round."""

    fold: Fold
    barrier: Barrier
    every_ms: Callable[[], int]
    """Of how long a silence is asked for."""
    now_ms: Callable[[], int]
    monotonic_s: Callable[[], float]
    _spent_s: float = 0.0

    def begin(self) -> None:
        """A round begins."""
        self._spent_s = 0.0

    def is_asked_for(self, name: str, uuid: str) -> bool:
        """Whether a table is silent, and this round has the time to ask for it.

        One that is put off is planned all the same: before anything begins it is asked for again. One that was set aside
        for what was found is not put off: to plan it would be taken for its recovery.
        """
        if not self.fold.is_silent(uuid, self.now_ms(), self.every_ms()):
            return False
        is_put_off = self._spent_s >= MOST_SILENT_S and not self.barrier.makes_no_sense(name)
        if is_put_off:
            self.barrier.not_asked.add(name)
        return not is_put_off

    def ask(self, name: str, confirm: Callable[[str], bool]) -> bool:
        """Ask for it; whether it is there, and ours."""
        began_s = self.monotonic_s()
        try:
            return confirm(name)
        finally:
            self._spent_s += self.monotonic_s() - began_s
