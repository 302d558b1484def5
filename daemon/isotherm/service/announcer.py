"""Announces snapshots on the control topic: our own, and those that nobody else has announced."""

from dataclasses import dataclass

from isotherm.contract.announcement import DAEMON, announcement
from isotherm.contract.events import CommitEvent, EventError, PartitionChange
from isotherm.contract.identity import TableId
from isotherm.contract.summary import Origin
from isotherm.core.model.changes import Change
from isotherm.service.ports import Catalog, EventSource, Unreadable
from isotherm.store.fold import Fold
from isotherm.store.ledger import Ledger


def announcement_of(table: TableId, catalog: str, change: Change, announced_by: str) -> CommitEvent:
    """The event of a snapshot that is known as a change; its manifests are left to be found by who wants them."""
    return announcement(
        table,
        catalog=catalog,
        snapshot_id=change.snapshot_id,
        parent_id=change.parent_id,
        sequence_number=change.sequence_number,
        timestamp_ms=change.committed_at_ms,
        operation=change.operation,
        origin=change.origin,
        writer=announced_by if change.origin is Origin.MAINTENANCE else "",
        partitions={
            key: PartitionChange(
                partition=key,
                added_files=delta.added.files,
                removed_files=delta.removed.files,
                added_rows=delta.added.rows,
                removed_rows=delta.removed.rows,
            )
            for key, delta in change.partitions.items()
        },
        valid_through_ms=change.valid_through_ms,
        announced_by=announced_by,
    )


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
        """A snapshot's announcement: from the journal, else from the table itself, or None where it has expired."""
        if change is not None:
            try:
                return announcement_of(table, self.catalog_name, change, DAEMON)
            except EventError as err:
                remedy = "expire that snapshot or roll back behind it"
                why = f"snapshot {snapshot_id} of {table} cannot be announced: {err}; {remedy}"
                raise Unreadable(why) from err
        loaded = self.catalog.load(table.name)
        if loaded.table.uuid != table.uuid or snapshot_id not in loaded.snapshots:
            return None
        named = {"catalog": self.catalog_name, "announced_by": DAEMON}
        return self.catalog.event(loaded, snapshot_id).model_copy(update=named)
