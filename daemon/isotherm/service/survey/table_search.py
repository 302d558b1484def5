"""The search for tables whose folders hold files of others back, and that may be gone.

Not found, or another uuid under its name, is no proof: a table may have got a name that no policy matches. It is gone if
two looks at all names, minutes apart, the second with a newer list, have shown it nowhere. A look that could not show
everything says nothing of it.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from isotherm.core.model.outside import Outside
from isotherm.core.observations import TrySoon
from isotherm.service.ports import Listener
from isotherm.store.ledger import SEARCH, Ledger

AGAIN_AFTER_S = 300.0
"""Between two looks for a table that may be gone: what was renamed during the one is found in the other."""
HOLDERS = "whether tables that hold files back are still in the catalog"


@dataclass(slots=True)
class TableSearch:
    """The tables that are looked for."""

    ledger: Ledger
    listen: Listener
    _missed_s: dict[str, float | None] = field(default_factory=dict)
    """By uuid: when a look at all names ended that did not show it, or None where there was none yet."""
    _waiting: set[str] = field(default_factory=set)
    """The tables for whose files that is done: a catalog that does not show one of them is not believed."""

    def __len__(self) -> int:
        return len(self._missed_s)

    def want(self, uuids: Collection[str], waiting: str) -> None:
        """Look for tables, because files of another one wait for them to be gone."""
        for uuid in uuids:
            self._missed_s.setdefault(uuid, None)
            self._waiting.add(waiting)

    def look_through(
        self, uuids: set[str], hidden: str | None, *, listed_s: float, began_s: float, ended_s: float
    ) -> None:
        """Say which tables are gone, by a look at all names that has shown everything.

        Args:
            uuids: the tables that it found.
            hidden: what it does not show, and why. None where it shows everything.
            listed_s: when its list was asked for.
            began_s: when it began.
            ended_s: when it ended.
        """
        if hidden is not None or not uuids & self._waiting:
            why = hidden or "the catalog does not show the tables for which they are looked for, either"
            self.listen(TrySoon(HOLDERS, why, Outside.TABLE))
            self.ledger.note_obstacle(SEARCH, f"{HOLDERS} cannot be found out: {why}")
            if hidden is None:
                # They are looked for again when a table that is there has files that wait.
                self._missed_s.clear()
                self._waiting.clear()
            return
        self.ledger.note_obstacle(SEARCH, None)
        for uuid, missed_s in list(self._missed_s.items()):
            if uuid in uuids:
                del self._missed_s[uuid]
            elif missed_s is None:
                self._missed_s[uuid] = ended_s
            elif listed_s >= missed_s and began_s >= missed_s + AGAIN_AFTER_S:
                self.ledger.left(uuid)
                del self._missed_s[uuid]
        if not self._missed_s:
            self._waiting.clear()
