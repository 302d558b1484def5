"""Looks at the tables of the catalog that no policy matches: where each lies, and which table it is.

Nothing is done to such a table, but it may share files with one that we maintain: it lies in the same folder, or is a
second entry of the very same table. A name may be given to another table at any time, so one look is not for ever:
a file is deleted only if every name in the catalog's list was looked at after the file was marked. New names are looked
at as they come, all of them again where files wait for it, a few in each round.

A table that refuses, or makes no sense, counts as looked at, because it may never be readable to us. While a table
does not answer, or the catalog does not list its tables, the ledger says so for those who ask why files wait.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from isotherm.core.observations import Outside, TrySoon
from isotherm.service.barrier import FATAL
from isotherm.service.ports import (
    Catalog,
    Listener,
    LoadedTable,
    NotAsked,
    Refused,
    StoreAway,
    Unavailable,
    Unreadable,
)
from isotherm.service.whereabouts import place
from isotherm.store.ledger import SURVEY, Ledger

LOOKS_AT_ONCE = 20
"""Tables that one round looks at, some 30 ms each."""
TRIES = 3
"""A table whose store does not answer is tried so often in one search: it may be a store that is none of ours."""
PATIENCE_S = 86_400.0
"""A table for which the catalog has no answer all day is passed over as well: nobody else can read it either."""


@dataclass(slots=True)
class Survey:
    """Which names were looked at since when; where the tables lie is in the ledger."""

    catalog: Catalog
    ledger: Ledger
    is_another: Callable[[LoadedTable], bool]
    """Whether it is another table than those that we maintain; if it is a second entry of one, that is halted."""
    listen: Listener
    now_ms: Callable[[], int]
    monotonic_s: Callable[[], float]
    _is_wanted: bool = True
    _began_ms: int = 0
    """When the search began."""
    _waiting: list[str] | None = None
    """What is still to be looked at. None: there was no list yet."""
    _looked_at: set[str] = field(default_factory=set)
    """What was looked at since the search began."""
    _failed: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By name: how often it could not be looked at in this search, and when that began."""

    @property
    def seen_since_ms(self) -> int | None:
        """Since when every name in the catalog's list was looked at; None: some were not."""
        return None if self._waiting is None or self._waiting else self._began_ms

    def want(self) -> None:
        """Files wait that were marked after the search began."""
        self._is_wanted = True

    def listed(self, names: Sequence[str]) -> None:
        """Take the newest list of the tables that no policy matches."""
        if self._is_wanted and not self._waiting:
            self._is_wanted, self._began_ms, self._looked_at = False, self.now_ms(), set()
            self._failed.clear()
        self._looked_at &= set(names)
        self._waiting = [name for name in names if name not in self._looked_at]

    def not_listed(self, why: str) -> None:
        """The catalog does not list its tables, so no search can begin or end."""
        if self._is_wanted or self.seen_since_ms is None:
            self.ledger.note_obstacle(SURVEY, f"the catalog does not list its tables: {why}")

    def turn(self) -> None:
        """Look at some of them; where the catalog does not answer at all, the next round goes on."""
        for name in (self._waiting or [])[:LOOKS_AT_ONCE]:
            try:
                loaded = self.catalog.load(name)
                place(self.ledger, loaded)
                is_done = self.is_another(loaded)
            except FATAL:
                raise
            except NotAsked:
                return
            except Exception as err:  # noqa: BLE001 (nobody asked us to read it)
                is_done = self._is_passed_over(name, err)
            self._waiting = [one for one in self._waiting or () if one != name]
            if is_done:
                self._looked_at.add(name)
            else:
                self._waiting.append(name)
        if self.seen_since_ms is not None:
            self.ledger.note_obstacle(SURVEY, None)

    def _is_passed_over(self, name: str, err: Exception) -> bool:
        what = f"looking where table {name} lies, which no policy matches"
        self.listen(TrySoon(what, str(err), Outside.TABLE))
        now_s = self.monotonic_s()
        tries, since_s = self._failed.get(name, (0, now_s))
        self._failed[name] = (tries + 1, since_s)
        if not isinstance(err, Unavailable) or isinstance(err, Refused | Unreadable):
            return True
        if tries + 1 >= TRIES and (isinstance(err, StoreAway) or now_s - since_s >= PATIENCE_S):
            return True
        # Everything else is looked at meanwhile; this name alone keeps the search from its end.
        self.ledger.note_obstacle(SURVEY, f"table {name}, which may share files, does not answer: {err}")
        return False
