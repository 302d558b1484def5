"""The source for tables without events: what nobody announced is found in the catalog, and announced by us.

New tables are looked for in the catalog's list; a table of which nobody has spoken for long is confirmed in the next
round, which finds its new snapshots. A writer that announces its own is given time to do so.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from isotherm.contract.identity import TableId
from isotherm.core.observations import GapHealed, Outside, TrySoon
from isotherm.service.policy_folder import PolicyFolder
from isotherm.service.ports import Catalog, Listener, Listing
from isotherm.store.ledger import Ledger

REPUBLISH_AFTER_MS = 30_000
"""A snapshot found in the catalog, that no event has brought after this long, is announced by us."""


@dataclass(slots=True)
class Poller:
    """Looks where nobody speaks."""

    every_s: float
    catalog: Catalog
    policies: PolicyFolder
    ledger: Ledger
    announce: Callable[[str, int], None]
    listen: Listener
    now_ms: Callable[[], int]
    monotonic_s: Callable[[], float]
    listing: Listing | None = None
    """The newest list."""
    asked_s: float = 0.0
    """When it was asked for."""
    _last_s: float = float("-inf")
    _unlisted: frozenset[str] = frozenset()
    """Namespaces that the catalog did not show the last time: each is reported once, because it may stay so."""

    @property
    def every_ms(self) -> int:
        """A table of which nobody speaks is confirmed so often, one that rests or is announced more rarely."""
        return int(self.every_s * 1000)

    def tables(self) -> Collection[str] | None:
        """The tables in the catalog that a policy matches; None while it is not time to ask. Raises Unavailable."""
        if self.monotonic_s() - self._last_s < self.every_s:
            return None
        asked_s = self.monotonic_s()
        listing = self.catalog.names()
        self.listing, self.asked_s, self._last_s = listing, asked_s, self.monotonic_s()
        for namespace in sorted(listing.unlisted.keys() - self._unlisted):
            self.listen(
                TrySoon(f"the tables of namespace {namespace}", listing.unlisted[namespace], Outside.CATALOG)
            )
        self._unlisted = frozenset(listing.unlisted)
        return [name for name in listing.names if self.policies.resolve(name, {}) is not None]

    def announce_found(self, table: TableId, *, is_silent: bool) -> bool:
        """Announce what nobody else announced: a writer without events, or one that crashed before its own.

        With `is_silent` no writer of the table has announced anything, ever: then that is its way, and no mishap.
        Whether there is still something whose own announcement may be under way.
        """
        found = self.ledger.unannounced(table.uuid, self.now_ms() - REPUBLISH_AFTER_MS)
        for snapshot_id in found:
            self.announce(table.uuid, snapshot_id)
        if found:
            self.listen(GapHealed(table, len(found), ok=is_silent))
        return bool(self.ledger.unannounced(table.uuid, self.now_ms()))
