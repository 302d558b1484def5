"""The source for tables without events: what nobody announced is found in the catalog, and announced by us.

New tables are looked for in the catalog's list; a table of which nobody has spoken for long is confirmed in the next
round, which finds its new snapshots. A writer that announces its own is given time to do so.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from isotherm.contract.identity import TableId
from isotherm.core.model.outside import Outside
from isotherm.core.observations import GapHealed, TrySoon
from isotherm.service.policies.policy_folder import PolicyFolder
from isotherm.service.ports import Listener, NotAnnounced
from isotherm.service.tables.catalog_lists import CatalogLists
from isotherm.service.tables.failing_tables import Barrier
from isotherm.service.topics.heard_early import HeardEarly
from isotherm.store.fold import TableRow
from isotherm.store.ledger import Ledger

REPUBLISH_AFTER_MS = 30_000
"""A snapshot found in the catalog, that no event has brought after this long, is announced by us."""


@dataclass(slots=True)
class Poller:
    """Looks where nobody speaks."""

    every_s: float
    lists: CatalogLists
    policies: PolicyFolder
    ledger: Ledger
    early: HeardEarly
    barrier: Barrier
    announce: Callable[[str, Sequence[int]], int]
    """Announces the first of some snapshots of a table, by its uuid. Returns how many."""
    listen: Listener
    now_ms: Callable[[], int]

    @property
    def every_ms(self) -> int:
        """A table of which nobody speaks is confirmed so often, one that rests or is announced more rarely."""
        return int(self.every_s * 1000)

    def tables(self) -> Collection[str] | None:
        """The tables in the catalog that a policy matches; None while there is no new list. Raises Unavailable."""
        listing = self.lists.take()
        if listing is None:
            return None
        return [name for name in listing.names if self.policies.has_policy(name)]

    def announce_found(self, row: TableRow) -> bool:
        """Announce some of what nobody else announced: a writer without events, or one that crashed before its own.

        Where the topic does not take it, it is left alone for a while, and the table is maintained all the same. Returns
        whether there is more: left for the next round, or something whose own announcement may be under way.
        """
        table, key = row.state.table, f"{row.state.table.uuid}/announcing"
        if not self.barrier.is_aside(key):
            try:
                # Where no writer of the table has announced anything, ever, that is its way, and no mishap.
                self._announce_found(table, is_silent=not row.last_event_at_ms)
                self.barrier.forget(key)
            except NotAnnounced as err:
                self.listen(TrySoon(f"announcing {table}", str(err), Outside.BROKER))
                self.barrier.put_aside(key, is_away=True)
        return bool(self.ledger.unannounced(table.uuid, self.now_ms()))

    def _announce_found(self, table: TableId, *, is_silent: bool) -> None:
        found = self.ledger.unannounced(table.uuid, self.now_ms())
        with self.ledger.transaction():
            for snapshot_id in self.early.take(table.uuid, found):
                self.ledger.announced(table.uuid, snapshot_id)
        found = self.ledger.unannounced(table.uuid, self.now_ms() - REPUBLISH_AFTER_MS)
        if found:
            self.listen(GapHealed(table, self.announce(table.uuid, found), ok=is_silent))
