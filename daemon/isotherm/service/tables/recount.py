"""The self-audit: in idle time a sample of the state is counted again from the manifests.

The totals of a summary are compared at every event, for nothing; they say nothing of single partitions. So when there
is nothing else to do, a few partitions of one table after another are counted again, in turn, until all had theirs.
What differs is published, and the table is built again from a full scan.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.observations import PartitionsRecounted, StateDrifted
from isotherm.core.partitions import label
from isotherm.service.ports import Catalog, Listener, TooLong
from isotherm.service.tables.confirm_heads import Follower
from isotherm.service.tables.failing_tables import Barrier
from isotherm.service.tables.reading_time import A_SAMPLE_FOR_S
from isotherm.store.fold import Fold, TableRow

SAMPLE = 5
"""Partitions counted again at a time."""


@dataclass(slots=True, kw_only=True)
class Recount:
    """Whose turn it is, and how the count is made."""

    fold: Fold
    catalog: Catalog
    follower: Follower
    listen: Listener
    owns: Callable[[str], bool]
    monotonic_s: Callable[[], float]
    barrier: Barrier
    every_s: float
    """The time between two samples, or 0 for no samples."""
    _last_s: float = float("-inf")
    _after_table: str = ""
    _after_partition: dict[str, PartitionKey] = field(default_factory=dict)

    def turn(self) -> None:
        """Take a sample, when it is time; the caller has nothing else to do."""
        if not self.every_s or self.monotonic_s() - self._last_s < self.every_s:
            return
        self._last_s = self.monotonic_s()
        table = self.next_table()
        if table is not None and not self.barrier.is_aside(table.name):
            with self.barrier.around(table.name, "counting some of its partitions again"):
                self.sample(table)

    def sample(self, table: TableId) -> None:
        """Count some partitions of a table again.

        Raises:
            Unavailable: the catalog, or the files behind it, do not answer.
            TableMissing: the table was not found.
        """
        uuid = table.uuid
        if self.follower.confirm(table.name) is None:
            return
        row, loaded = self.fold.table(uuid), self.follower.loaded(uuid)
        if row is None or loaded is None or not row.is_trusted or row.state.head is None:
            return
        started_s = self.monotonic_s()
        believed = self.fold.sample(uuid, self._after_partition.get(uuid), SAMPLE)
        # After the end of the table comes its beginning.
        self._after_partition[uuid] = max(believed) if len(believed) == SAMPLE else PartitionKey("")
        go_on = self.follower.reading_time.limited(A_SAMPLE_FOR_S, f"the manifests of {table}")
        try:
            counted = self.catalog.recount(loaded, believed.keys(), go_on)
        except TooLong:
            return
        if counted is None:
            return
        wrong = [key for key, state in believed.items() if (state.data, state.deletes) != counted[key]]
        self.listen(
            PartitionsRecounted(row.state.table, len(believed), len(wrong), self.monotonic_s() - started_s)
        )
        if wrong:
            self._drifted(row, wrong)

    def next_table(self) -> TableId | None:
        """The next table of ours, in turn."""
        names = self.fold.names()
        mine = sorted(uuid for uuid in names if self.owns(uuid))
        following = [uuid for uuid in mine if uuid > self._after_table] or mine
        if not following:
            return None
        self._after_table = following[0]
        return TableId(following[0], names[following[0]])

    def _drifted(self, row: TableRow, wrong: list[PartitionKey]) -> None:
        names = ", ".join(label(key, row.facts.fields) for key in wrong)
        self.listen(StateDrifted(row.state.table, row.state.head or 0, f"counted again: {names}"))
        self.follower.rebuild_later(row.state.table)
