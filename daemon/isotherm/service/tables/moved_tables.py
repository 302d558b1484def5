"""Which tables another daemon maintains by now, or have another name: whoever shows them is told once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from isotherm.contract.identity import TableId
from isotherm.core.observations import TableMoved
from isotherm.service.ports import EventSource, Listener
from isotherm.service.tables.failing_tables import Barrier


@dataclass(slots=True)
class MovedTables:
    """Remembers the tables that rounds have reported."""

    events: EventSource
    barrier: Barrier
    listen: Listener
    _reported: dict[str, TableId] = field(default_factory=dict)
    """By uuid."""

    def tell(self, names: Mapping[str, str], reported: Iterable[TableId]) -> None:
        """Tell of those that moved since the last round: nothing is known of them.

        Args:
            names: of all tables that are known, by uuid.
            reported: the tables of this round.
        """
        taken = set(names.values())
        for uuid, table in self._reported.items():
            # Under a name that another table has taken, what is said is said of that one.
            is_renamed = names.get(uuid, table.name) != table.name and table.name not in taken
            if is_renamed or not self.events.owns(uuid):
                self.listen(TableMoved(table))
                self.barrier.forget(table.name)
        seen = self._reported.keys() | {table.uuid for table in reported}
        if (
            failing := self.barrier.failing
        ):  # of these it is said that they fail, though no round may have planned them yet
            seen |= {uuid for uuid, name in names.items() if name in failing}
        self._reported = {
            uuid: TableId(uuid, names[uuid]) for uuid in seen if uuid in names and self.events.owns(uuid)
        }
