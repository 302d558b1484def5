"""The source for tables without events: what nobody announced is found in the catalog, and announced by us.

New tables are looked for in the catalog's list; a table of which nobody has spoken for long is confirmed in the next
round, which finds its new snapshots. A writer that announces its own is given time to do so.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from isotherm.contract.identity import TableId
from isotherm.core.observations import GapHealed, Outside, TrySoon
from isotherm.service.policy_folder import PolicyFolder
from isotherm.service.ports import Catalog, Listener, Listing
from isotherm.store.ledger import Ledger

PATIENCE_S = 86_400.0
"""A namespace for which the catalog has no answer all day is passed over: nobody else can read it either."""
WAIT_S = 1.0
"""A list that is there within this time is taken in the same round; a longer one is made beside the loop."""
GOOD_FOR_S = 600.0
"""After a list, beside the time until three others."""
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
    wait_s: float = WAIT_S
    """How long the loop waits for a list before it turns again."""
    listing: Listing | None = None
    """The newest list."""
    asked_s: float = 0.0
    """When it was asked for."""
    _last_s: float = float("-inf")
    _began_s: float | None = None
    """When the list that is under way was asked for."""
    _silent_since_s: dict[str, float] = field(default_factory=dict)
    """Namespaces for which the catalog had no answer in the last list, and since when."""
    _unlisted: frozenset[str] = frozenset()
    """Namespaces that the catalog did not show the last time: each is reported once, because it may stay so."""

    @property
    def every_ms(self) -> int:
        """A table of which nobody speaks is confirmed so often, one that rests or is announced more rarely."""
        return int(self.every_s * 1000)

    @property
    def has_heard_all(self) -> bool:
        """Whether the last list shows every table that anybody can see: in no namespace something may still turn up."""
        now_s = self.monotonic_s()
        return all(now_s - since_s >= PATIENCE_S for since_s in self._silent_since_s.values())

    @property
    def good_for_s(self) -> float:
        """How long from now the last list is the newest that can be had: some lists may fail, and each takes its time."""
        return GOOD_FOR_S + 3 * self.every_s + 2 * (self._last_s - self.asked_s)

    def tables(self) -> Collection[str] | None:
        """The tables in the catalog that a policy matches; None while there is no new list. Raises Unavailable."""
        if self.monotonic_s() - self._last_s < self.every_s:
            return None
        if self._began_s is None:
            self._began_s = self.monotonic_s()
        began_s = self._began_s
        try:
            listing = self.catalog.list_beside(self.wait_s)
        except BaseException:
            # From the end, also of a list that failed: the questions of one may take half a minute each.
            self._last_s, self._began_s = self.monotonic_s(), None
            raise
        if listing is None:
            return None
        self._last_s, self._began_s = self.monotonic_s(), None
        self.listing, self.asked_s = listing, began_s
        self._silent_since_s = {one: self._silent_since_s.get(one, self._last_s) for one in listing.silent}
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
