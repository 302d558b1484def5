"""What the daemon believes of one table: its head and its partitions, of one and the same moment."""

from dataclasses import dataclass

from isotherm.service.ports import Unavailable
from isotherm.store.fold import Fold, PartitionRow, TableRow

ATTEMPTS = 10
"""Reading a table's partitions takes a moment, in which the daemon may have gone on."""


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table and its partitions at one head."""

    row: TableRow
    partitions: tuple[PartitionRow, ...]


def stored_table(fold: Fold, row: TableRow) -> StoredTable:
    """Read a table and its partitions beside a daemon that may be at work.

    Raises:
        Unavailable: the daemon goes on faster than its state can be read.
    """
    uuid = row.state.table.uuid
    for _ in range(ATTEMPTS):
        before = fold.table(uuid)
        partitions = tuple(fold.partitions(uuid))
        after = fold.table(uuid)
        if before is not None and after is not None and before.state == after.state:
            return StoredTable(after, partitions)
    raise Unavailable(f"the state of {row.state.table} changes faster than it can be read; try again")
