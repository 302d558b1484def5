"""One look at each table of the catalog that no policy matches: where it lies, and which table it is.

Nothing is done to such a table, but it may share files with one that we maintain: it lies in the same folder, or is a
second entry of the very same table. So nothing is deleted before each name in the catalog was looked at once since
the daemon started. A table that cannot be read counts as looked at, because it may never be readable to us.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from isotherm.core.observations import Outside, TrySoon
from isotherm.service.barrier import FATAL
from isotherm.service.ports import Catalog, Listener, LoadedTable, NotAsked, Refused, Unavailable, Unreadable
from isotherm.service.whereabouts import place
from isotherm.store.ledger import Ledger

LOOKS_AT_ONCE = 20
"""Tables that one round looks at, some 30 ms each."""


@dataclass(slots=True)
class Survey:
    """Which of the tables that are not ours to maintain were looked at; where they lie is in the ledger."""

    catalog: Catalog
    ledger: Ledger
    is_another: Callable[[LoadedTable], bool]
    """Whether it is another table than those that we maintain; a second entry of one is looked at again and again."""
    listen: Listener
    _waiting: list[str] | None = None
    """Names that were not looked at yet; None: there was no list of them."""
    _looked_at: set[str] = field(default_factory=set)
    """Names that were looked at."""

    @property
    def is_done(self) -> bool:
        """Whether every table in the catalog's list was looked at."""
        return self._waiting is not None and not self._waiting

    def listed(self, names: Sequence[str]) -> None:
        """Take the newest list of the tables that no policy matches."""
        self._looked_at &= set(names)
        self._waiting = [name for name in names if name not in self._looked_at]

    def turn(self) -> None:
        """Look at some of them; where the catalog does not answer at all, the next round goes on."""
        for name in (self._waiting or [])[:LOOKS_AT_ONCE]:
            try:
                loaded = self.catalog.load(name)
                place(self.ledger, loaded)
                is_another = self.is_another(loaded)
            except FATAL:
                raise
            except NotAsked:
                return
            except Exception as err:  # noqa: BLE001 (nobody asked us to read it)
                what = f"looking where table {name} lies, which no policy matches"
                self.listen(TrySoon(what, str(err), Outside.TABLE))
                if isinstance(err, Unavailable) and not isinstance(err, Refused | Unreadable):
                    return
                is_another = True
            if is_another:
                self._looked_at.add(name)
            self._waiting = (self._waiting or [name])[1:]
