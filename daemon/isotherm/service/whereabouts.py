"""Where other tables are: whether one whose folder holds files back is still in the catalog, under whatever name.

A table that is not found, or another uuid under its name, is no proof: it may have got a name that no policy matches.
So what counts is a search of the whole catalog: every name that it lists is loaded, and the table is none of them; and
once more, minutes later. Until then it holds back what lies in its folders. One namespace that refuses to be listed,
or one name that cannot be loaded, and the search has shown nothing.

A search costs a load for each table of the catalog. It begins only where files really wait for its end, and does a few
loads in each round.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from isotherm.core.observations import Outside, TrySoon
from isotherm.core.paths import written_under
from isotherm.service.ports import Catalog, Listener, LoadedTable, NotAsked, TableMissing, Unavailable
from isotherm.store.ledger import SEARCH, Ledger

AGAIN_AFTER_S = 300.0
"""Between two searches: what was renamed during the one is found in the other."""
LOADS_AT_ONCE = 5
"""In each round, because the loop waits for them."""


def place(ledger: Ledger, loaded: LoadedTable) -> None:
    """Remember where a table that was just loaded lies."""
    folders = written_under(loaded.facts.location, loaded.facts.properties)
    location = folders.pop("location")
    ledger.place(loaded.table.uuid, location, folders.values())


@dataclass(slots=True)
class Whereabouts:
    """The search for tables that hold files of others back."""

    catalog: Catalog
    ledger: Ledger
    listen: Listener
    monotonic_s: Callable[[], float]
    _wanted: set[str] = field(default_factory=set)
    """The uuids that are looked for."""
    _waiting: set[str] = field(default_factory=set)
    """The tables for whose files that is done: a catalog that does not show one of them is not believed."""
    _names: list[str] | None = None
    """What is still to be loaded, last first. None: no search is under way."""
    _found: set[str] = field(default_factory=set)
    _missed: set[str] = field(default_factory=set)
    """What the search before did not find."""
    _next_s: float = float("-inf")
    _first: str = ""
    """The name at which the last search has failed: the next one begins with it."""

    def want(self, uuids: Collection[str], waiting: str) -> None:
        """Look for tables, because files of another one wait."""
        if uuids:
            self._wanted.update(uuids)
            self._waiting.add(waiting)

    def turn(self) -> None:
        """Go on with the search for a little."""
        if not self._wanted or self.monotonic_s() < self._next_s:
            return
        try:
            self._go_on()
        except (Unavailable, TableMissing) as err:
            self._names = None
            self._next_s = self.monotonic_s() + AGAIN_AFTER_S
            what = "whether tables that hold files back are still in the catalog"
            self.listen(TrySoon(what, str(err), Outside.TABLE))
            if not isinstance(err, NotAsked):
                self.ledger.note_obstacle(SEARCH, f"{what} cannot be found out: {err}")

    def _go_on(self) -> None:
        if self._names is None:
            listing = self.catalog.names()
            if listing.unlisted:
                raise Unavailable(f"not every namespace can be listed: {', '.join(sorted(listing.unlisted))}")
            self._names = sorted(listing.names, key=lambda name: (name == self._first, name))
            self._found = set()
        for _ in range(min(LOADS_AT_ONCE, len(self._names))):
            self._first = self._names.pop()
            loaded = self.catalog.load(self._first)
            place(self.ledger, loaded)
            self._found.add(loaded.table.uuid)
        if not self._names:
            self._end()

    def _end(self) -> None:
        self._names, self._next_s = None, self.monotonic_s() + AGAIN_AFTER_S
        if not self._found & self._waiting:
            # They are looked for again when a table that is there has files that wait.
            self._wanted.clear()
            self._waiting.clear()
            self._missed.clear()
            raise Unavailable("the catalog does not show the tables for which they are looked for, either")
        missed = self._wanted - self._found
        for uuid in missed & self._missed:
            self.ledger.left(uuid)
        self._wanted = missed - self._missed
        self._missed = set(self._wanted)
        self.ledger.note_obstacle(SEARCH, None)
        if not self._wanted:
            self._waiting.clear()
