"""Announces snapshots on the control topic: our own, and those that nobody else has announced."""

from dataclasses import dataclass

from isotherm.contract.events import CommitEvent, announcement
from isotherm.core.model import Change, TableId
from isotherm.service.ports import Catalog, EventSource
from isotherm.store.fold import Fold
from isotherm.store.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Announcer:
    """Makes an event of a snapshot, and sends it."""

    catalog_name: str
    fold: Fold
    ledger: Ledger
    events: EventSource
    catalog: Catalog

    def announce(self, uuid: str, snapshot_id: int) -> None:
        """Announce a snapshot on the control topic; one that has expired by now is told to nobody any more.

        Raises:
            Unavailable: the broker, or the catalog, does not answer.
            TableMissing: the table is gone.
        """
        recorded = self.fold.recorded(uuid, snapshot_id)
        row = self.fold.table(uuid)
        if row is not None:
            event = self._event(row.state.table, snapshot_id, None if recorded is None else recorded[0])
            if event is not None:
                self.events.publish(event)
        self.ledger.announced(uuid, snapshot_id)

    def _event(self, table: TableId, snapshot_id: int, change: Change | None) -> CommitEvent | None:
        """The announcement of a snapshot: from the journal, else from the table itself; None: it has expired."""
        if change is not None:
            return announcement(table, self.catalog_name, change, "isotherm")
        loaded = self.catalog.load(table.name)
        if loaded.table.uuid != table.uuid or snapshot_id not in loaded.snapshots:
            return None
        named = {"catalog": self.catalog_name, "announced_by": "isotherm"}
        return self.catalog.event(loaded, snapshot_id).model_copy(update=named)
