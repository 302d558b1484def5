"""The source for tables without events: what nobody announced is found in the catalog, and announced by us.

New tables are looked for in the catalog's list; a table of which nobody has spoken for long is confirmed in the next
round, which finds its new snapshots. A writer that announces its own is given time to do so.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from isotherm.contract.identity import TableId
from isotherm.core.observations import GapHealed, Outside, TrySoon
from isotherm.service.policy_folder import PolicyFolder
from isotherm.service.ports import Catalog, Listener
from isotherm.store.ledger import Ledger

PATIENCE_S = 86_400.0
"""A namespace for which the catalog has no answer all day is passed over: nobody else can read it either."""
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
    unmatched: Sequence[str] = ()
    """The tables of the last list that no policy matches."""
    _last_s: float = float("-inf")
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

    def tables(self) -> Collection[str] | None:
        """The tables in the catalog that a policy matches; None while it is not time to ask. Raises Unavailable."""
        if self.monotonic_s() - self._last_s < self.every_s:
            return None
        try:
            listing = self.catalog.names()
        finally:
            # From the end, also of a list that failed: the questions of one may take half a minute each.
            self._last_s = self.monotonic_s()
        self._silent_since_s = {one: self._silent_since_s.get(one, self._last_s) for one in listing.silent}
        for namespace in sorted(listing.unlisted.keys() - self._unlisted):
            self.listen(
                TrySoon(f"the tables of namespace {namespace}", listing.unlisted[namespace], Outside.CATALOG)
            )
        self._unlisted = frozenset(listing.unlisted)
        matched = [name for name in listing.names if self.policies.resolve(name, {}) is not None]
        self.unmatched = sorted(set(listing.names) - set(matched))
        return matched

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
