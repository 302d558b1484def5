"""A table's history for `simulate`: what the ledger recorded, what the table's own snapshots still say.

Reads beside a running daemon and changes nothing. The present state, less all changes that led to it, is where the
history begins; so nothing has to be scanned. Where neither the ledger nor the table knows a snapshot any more, the
history begins after it, and says so.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from isotherm.commands.stored_table import stored_table
from isotherm.contract.identity import PartitionKey
from isotherm.contract.summary import Origin
from isotherm.core.model.tables import Snapshot
from isotherm.core.partition_state import PartitionState, StateError
from isotherm.core.replay.history import History, Recorded, as_remembered, counted_back, traced_back
from isotherm.iceberg.catalog import IcebergCatalog
from isotherm.service.ports import LoadedTable, TableMissing, Unreadable
from isotherm.store.fold import Fold, TableRow
from isotherm.store.ledger import Ledger

AWAY_MS = 600_000
"""A change that was heard of so long after its commit was missed while the daemon was away; a replay assumes one that
is there, and takes the time of the commit."""


def read_history(
    fold: Fold,
    ledger: Ledger,
    catalog: IcebergCatalog,
    row: TableRow,
    *,
    since_ms: int,
    now_ms: int,
    tell: Callable[[int], None] = lambda _: None,
) -> History:
    """The history of a table that the daemon knows, as far back as anything is known of it.

    Args:
        fold: the daemon's.
        ledger: the daemon's.
        catalog: for what the ledger does not have.
        row: the table.
        since_ms: the history begins no earlier.
        now_ms: where it ends.
        tell: is told how many snapshots were read from the table.

    Raises:
        Unavailable: the catalog does not answer, or the daemon goes on faster than its state can be read.
        TableMissing: the catalog does not have the table any more.
    """
    stored = stored_table(fold, row)
    row, partitions = stored.row, {one.key: one.state for one in stored.partitions}
    table = row.state.table
    loaded = catalog.load(table.name)
    if loaded.table.uuid != table.uuid:
        raise TableMissing(f"{table} was dropped and made again; the daemon does not know it yet")
    reader = _Reader(catalog, loaded, tell)
    remembered = _changes(ledger, table.uuid)
    # What an event said may have been found wrong later; what the table itself says still is asked instead.
    gone = {number: one for number, one in remembered.items() if number not in loaded.parents}
    for known in (remembered, gone):
        found, before = traced_back(row.state.head, known, reader.read, since_ms)
        changes = _until(found, now_ms)
        try:
            beginning = _beginning(partitions, changes, now_ms)
            older, _ = traced_back(before, known, lambda _: None, since_ms=0)
            break
        except StateError as err:
            trouble = err
    else:
        raise TableMissing(f"the known changes of {table} do not lead to its state: {trouble}")
    starts_at_ms = changes[0].received_at_ms if changes else now_ms
    return History(
        table=table,
        facts=row.facts,
        partitions=_as_known(beginning, older, starts_at_ms, ledger, row),
        snapshots=_retained(loaded, before),
        pinned=frozenset(one.snapshot_id for one in loaded.snapshots.values() if one.is_pinned),
        recorded=tuple(changes),
        starts_at_ms=starts_at_ms,
        ends_at_ms=max(now_ms, starts_at_ms),
        remarks=_remarks(changes, beginning, reader.reads),
    )


def _changes(ledger: Ledger, uuid: str) -> dict[int, Recorded]:
    """What the ledger recorded, by snapshot id."""
    return {
        change.snapshot_id: Recorded(change, _heard_at(change.committed_at_ms, at_ms))
        for change, at_ms in ledger.changes(uuid)
    }


def _until(changes: Sequence[Recorded], now_ms: int) -> list[Recorded]:
    """The changes with the time of the next one where their own has not come yet: a clock that was ahead stamped them."""
    believed: list[Recorded] = []
    at_ms = now_ms
    for one in reversed(changes):
        at_ms = at_ms if one.received_at_ms > now_ms else one.received_at_ms
        believed.append(replace(one, received_at_ms=at_ms))
    return believed[::-1]


class _Reader:
    """Reads what the ledger does not have from the table's own snapshots."""

    def __init__(self, catalog: IcebergCatalog, loaded: LoadedTable, tell: Callable[[int], None]) -> None:
        self.reads = 0
        self._catalog = catalog
        self._loaded = loaded
        self._tell = tell

    def read(self, snapshot_id: int) -> Recorded | None:
        """What one snapshot did, or None where it has expired."""
        if snapshot_id not in self._loaded.parents:
            return None
        try:
            (change,) = self._catalog.changes(self._loaded, [snapshot_id])
        except (TableMissing, Unreadable):  # it has expired, or its manifests are damaged
            return None
        self.reads += 1
        self._tell(self.reads)
        return Recorded(change, change.committed_at_ms)


def _beginning(
    partitions: Mapping[PartitionKey, PartitionState], changes: Sequence[Recorded], now_ms: int
) -> dict[PartitionKey, PartitionState]:
    at_ms = changes[0].received_at_ms if changes else now_ms
    return counted_back(partitions, (one.change for one in changes), at_ms)


def _as_known(
    beginning: dict[PartitionKey, PartitionState],
    older: Sequence[Recorded],
    starts_at_ms: int,
    ledger: Ledger,
    row: TableRow,
) -> dict[PartitionKey, PartitionState]:
    """The beginning as the daemon knew it; as it is where what was recorded before does not lead to it."""
    table = row.state.table
    done_ms = ledger.compacted(table.uuid, older[0].received_at_ms if older else starts_at_ms)
    with suppress(StateError):
        return as_remembered(beginning, older, done_ms, table, row.facts.fields)
    return beginning


def _remarks(
    changes: Sequence[Recorded], beginning: Mapping[PartitionKey, PartitionState], reads: int
) -> tuple[str, ...]:
    """What a person should know of the history."""
    remarks = [f"{len(changes) - reads} changes are from the ledger, {reads} from the table's own snapshots"]
    ours = sum(one.change.origin is Origin.MAINTENANCE for one in changes)
    if ours:
        remarks.append(f"{ours} of them, our own maintenance, are left out")
    if beginning:
        # Not told by the first parent: an expiry may cut it.
        files = sum(one.data_total.files for one in beginning.values())
        remarks.append(
            f"{files} data files in {len(beginning)} partitions were there before; how they came is not known"
        )
    return tuple(remarks)


def _heard_at(committed_at_ms: int, received_at_ms: int) -> int:
    return received_at_ms if received_at_ms - committed_at_ms < AWAY_MS else committed_at_ms


def _retained(loaded: LoadedTable, head: int | None) -> tuple[Snapshot, ...]:
    """The snapshots up to one, as far as they are still there; their times never go back."""
    if head not in loaded.parents:
        return ()
    at_ms, log = 0, []
    for snapshot in replace(loaded, head=head).log():
        at_ms = max(at_ms, snapshot.committed_at_ms)
        log.append(replace(snapshot, committed_at_ms=at_ms))
    return tuple(log)
