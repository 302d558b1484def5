"""Names that lists do not show: whether one of our tables still has such a name, only the name itself says.

A table that was renamed out of a namespace that nobody may list would else keep its files for ever. It is asked in the loop, so
one name at a time, and for a twentieth of the time at most, however long answers take.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from isotherm.contract.identity import TableId
from isotherm.service.ports import Catalog, TableMissing, Unavailable
from isotherm.service.tables.catalog_lists import CatalogLists
from isotherm.service.tables.reading_time import ReadingTime
from isotherm.service.tables.seen_names import TWICE_S, SeenNames

LONGEST_PAUSE_S = 3600.0
"""A name that gives no answer is asked ever more rarely, down to this."""
LONGEST_BETWEEN_S = 6 * 3600.0
"""Two answers that a name is not there count as two in a row up to this. A table that nothing happens to, or whose writer
announces each commit, is confirmed once an hour, and its names are asked then."""
REST = 20
"""So many times as long as an answer took, no other name is asked."""

_Name = tuple[str, str]
"""A name, and the uuid of the table that it was."""


@dataclass(slots=True)
class HiddenNames:
    """Asks for the other names of a table, now and then."""

    seen_names: SeenNames
    lists: CatalogLists
    catalog: Catalog
    reading_time: ReadingTime
    monotonic_s: Callable[[], float]
    _again_s: dict[_Name, float] = field(default_factory=dict)
    """When it may be asked again."""
    _pause_s: dict[_Name, float] = field(default_factory=dict)
    """How long it is left alone, where it gave no answer."""
    _due: dict[_Name, None] = field(default_factory=dict)
    """Names that are to be asked, in turn."""
    _rests_until_s: float = float("-inf")

    def ask(self, table: TableId) -> None:
        """End the other names of a table under which the catalog has none, twice, so long apart that no replica lags."""
        newest, now_s = self.lists.newest, self.monotonic_s()
        if newest is None:
            return
        for name in self.seen_names.of(table.uuid):
            key = name, table.uuid
            if name == table.name or not newest.hides(name):
                self._forget(key)
            elif now_s >= self._again_s.get(key, float("-inf")):
                self._due.setdefault(key)
        if now_s < self._rests_until_s or not self._due:
            return
        # Whichever table this is: another one may always be confirmed just before its own.
        key = next(iter(self._due))
        del self._due[key]
        if key[0] in self.seen_names.of(key[1]) and newest.hides(key[0]):
            self.reading_time.tick()  # another table was loaded just before
            self._ask(key)
            self._rests_until_s = self.monotonic_s() + REST * (self.monotonic_s() - now_s)

    def _ask(self, key: _Name) -> None:
        name, uuid = key
        is_over, now_s = False, self.monotonic_s()
        before_s = self.seen_names.missing_s.pop(key, None)
        pause_s = self._pause_s.pop(key, TWICE_S)
        self._again_s[key] = now_s + TWICE_S
        try:
            is_over = self.catalog.lies_in_time(name).uuid != uuid
        except TableMissing:
            is_over = before_s is not None and now_s - before_s <= LONGEST_BETWEEN_S
            self.seen_names.missing_s[key] = now_s
        except Unavailable:  # then nobody knows
            self._pause_s[key] = min(2 * pause_s, LONGEST_PAUSE_S)
            self._again_s[key] = now_s + pause_s
        if is_over:
            self.seen_names.end_of(uuid, [name])
            self._forget(key)

    def _forget(self, key: _Name) -> None:
        self._due.pop(key, None)
        for times in (self._again_s, self._pause_s, self.seen_names.missing_s):
            times.pop(key, None)
