"""Whether rewrites may begin: not while other code than the daemon's lies where it was started from.

Each would be refused (`upgraded`), after a program was started for it, and its partition would wait beyond the restart.
"""

from collections.abc import Callable
from dataclasses import dataclass

from isotherm.core.model.outside import Outside
from isotherm.core.observations import TrySoon
from isotherm.service.ports import Listener

ASKS_EVERY_S = 60.0
"""Reading all code takes some 15 ms."""
WHY = "another version was installed below this daemon, so nothing is compacted: restart it"


@dataclass(slots=True)
class OwnCode:
    """What lies on the disk, as of a minute ago at most."""

    is_other: Callable[[], bool]
    """Whether it is other code now."""
    listen: Listener
    monotonic_s: Callable[[], float]
    _is_there: bool = True
    _asked_s: float = float("-inf")

    def is_there(self) -> bool:
        """Whether it is the daemon's own. That it is not any more is told once."""
        now_s = self.monotonic_s()
        if now_s - self._asked_s >= ASKS_EVERY_S:
            self._asked_s = now_s
            was_there, self._is_there = self._is_there, not self.is_other()
            if was_there and not self._is_there:
                self.listen(TrySoon("the daemon's own code", WHY, Outside.CODE))
        return self._is_there
