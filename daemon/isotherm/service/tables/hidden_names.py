"""Names that lists do not show: whether one of our tables still has such a name, only the name itself says.

A table that was renamed out of a namespace that nobody may list would else keep its files for ever.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from isotherm.contract.identity import TableId
from isotherm.service.ports import Catalog, TableMissing, Unavailable
from isotherm.service.tables.catalog_lists import CatalogLists
from isotherm.service.tables.missing_tables import GONE_AFTER_S
from isotherm.service.tables.seen_names import SeenNames


@dataclass(slots=True)
class HiddenNames:
    """Asks for the other names of a table, now and then."""

    seen_names: SeenNames
    lists: CatalogLists
    catalog: Catalog
    monotonic_s: Callable[[], float]
    _asked_s: dict[str, float] = field(default_factory=dict)
    """By name: when it was asked for last."""
    _missing: set[str] = field(default_factory=set)
    """Those that were not there then: a replica that lags says so once."""

    def ask(self, table: TableId) -> None:
        """End the other names of a table under which the catalog has none, twice, so long apart that no replica lags."""
        newest, now_s = self.lists.newest, self.monotonic_s()
        for name in self.seen_names.of(table.uuid):
            if name == table.name or newest is None or not newest.hides(name):
                continue
            if now_s < self._asked_s.get(name, float("-inf")) + GONE_AFTER_S:
                continue
            self._asked_s[name] = now_s
            self._ask(name, table.uuid)

    def _ask(self, name: str, uuid: str) -> None:
        is_over, was_missing = False, name in self._missing
        self._missing.discard(name)
        try:
            with suppress(Unavailable):  # then nobody knows
                is_over = self.catalog.load(name).table.uuid != uuid
        except TableMissing:
            is_over = was_missing
            self._missing.add(name)
        if is_over:
            self.seen_names.end_of(uuid, [name])
            self._missing.discard(name)
            del self._asked_s[name]
