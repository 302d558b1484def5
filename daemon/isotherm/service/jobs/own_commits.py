"""What follows a commit of our own: its table is found, its snapshot followed and announced, or its fate looked for."""

from dataclasses import dataclass

from isotherm.contract.identity import TableId
from isotherm.core.model.jobs import CompactionJob, Outcome
from isotherm.core.model.outside import Outside
from isotherm.core.observations import TrySoon
from isotherm.service.ports import Catalog, Listener, LoadedTable, Maintainer, TableMissing, Unavailable
from isotherm.service.tables.confirm_heads import Follower
from isotherm.service.tables.loads_in_time import loaded_in_time
from isotherm.service.topics.announcer import Announcer
from isotherm.store.fold import Fold
from isotherm.store.ledger import Operation


@dataclass(frozen=True, slots=True)
class OwnCommits:
    """Looks at tables after our commits."""

    fold: Fold
    catalog: Catalog
    maintainer: Maintainer
    follower: Follower
    announcer: Announcer
    listen: Listener

    def found(self, table: TableId) -> LoadedTable | None:
        """The table with this uuid, or None where it is not found."""
        row = self.fold.table(table.uuid)
        if (loaded := self.follower.loaded(table.uuid)) is not None:
            return loaded
        try:
            return self.catalog.load(table.name if row is None else row.state.table.name)
        except (Unavailable, TableMissing):
            return None

    def follow(self, name: str, snapshot_id: int | None) -> None:
        """Take our own snapshot into the state and announce it."""
        try:
            loaded = self.follower.confirm(name)
            if loaded is not None and snapshot_id is not None:
                self.announcer.announce(loaded.table.uuid, [snapshot_id])
        except (Unavailable, TableMissing) as err:
            self.follower.suspects.add(name)
            self.listen(TrySoon(f"table {name} after our commit", str(err), Outside.TABLE))

    def settled(self, operation: Operation, job: CompactionJob, *, may_land: bool) -> Outcome | None:
        """What came of a job whose end is open, or None where nobody can say yet."""
        row = self.fold.table(operation.table.uuid)
        names = [operation.table.name] if row is None else [row.state.table.name, operation.table.name]
        reading = self.follower.reading_time.of(operation.table)
        with loaded_in_time(self.catalog.load) as load, reading as go_on:
            return self.maintainer.settled(
                load, names, job, operation.asserted_head_id, may_land=may_land, go_on=go_on
            )
