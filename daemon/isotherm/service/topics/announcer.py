"""Announces snapshots on the control topic: our own, and those that nobody else has announced."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from isotherm.contract.announcement import DAEMON, announcement
from isotherm.contract.events import CommitEvent, EventError, PartitionChange
from isotherm.contract.identity import TableId
from isotherm.contract.summary import Origin
from isotherm.core.model.changes import Change
from isotherm.service.ports import Catalog, EventSource, LoadedTable, Unreadable
from isotherm.store.fold import Fold
from isotherm.store.ledger import Ledger

ANNOUNCED_AT_ONCE = 50
"""Snapshots of one table that are announced together. After an outage there may be ten thousand, and each may cost the
reading of a manifest list."""
ANNOUNCE_FOR_S = 2.0
"""No further one is announced after so long: a store may take seconds for each list."""


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
    monotonic_s: Callable[[], float]

    def announce(self, uuid: str, snapshot_ids: Sequence[int]) -> int:
        """Announce the first of some snapshots of a table; one that has expired by now is told to nobody any more.

        Returns how many. The caller comes again for the others.

        Raises:
            Unavailable: the broker, or the catalog, does not answer.
            TableMissing: the table is gone.
        """
        row, loaded = self.fold.table(uuid), None
        deadline_s = self.monotonic_s() + ANNOUNCE_FOR_S
        some = snapshot_ids[:ANNOUNCED_AT_ONCE]
        for number, snapshot_id in enumerate(some, start=1):
            recorded = self.fold.recorded(uuid, snapshot_id)
            if row is not None and recorded is not None:
                self.events.publish(self._recorded_event(row.state.table, recorded[0]))
            elif row is not None:
                # Once for all of them: the metadata may have ten thousand snapshots.
                loaded = loaded or self.catalog.load(row.state.table.name)
                self._announce_found(loaded, uuid, snapshot_id)
            self.ledger.announced(uuid, snapshot_id)
            if self.monotonic_s() >= deadline_s:
                return number
        return len(some)

    def _recorded_event(self, table: TableId, change: Change) -> CommitEvent:
        """The announcement of a snapshot that is in the journal."""
        try:
            return announcement_of(table, self.catalog_name, change, DAEMON)
        except EventError as err:
            remedy = "expire that snapshot or roll back behind it"
            why = f"snapshot {change.snapshot_id} of {table} cannot be announced: {err}; {remedy}"
            raise Unreadable(why) from err

    def _announce_found(self, loaded: LoadedTable, uuid: str, snapshot_id: int) -> None:
        """Announce a snapshot from the table itself, where it has not expired."""
        if loaded.table.uuid == uuid and snapshot_id in loaded.snapshots:
            named = {"catalog": self.catalog_name, "announced_by": DAEMON}
            self.events.publish(self.catalog.event(loaded, snapshot_id).model_copy(update=named))
