"""Work on tables as a whole: what is asked of all its kinds alike. A table's partitions are compacted by `compactions`."""

from dataclasses import dataclass

from isotherm.core.model.decisions import Request
from isotherm.core.model.jobs import Action
from isotherm.core.planner.view import Flight
from isotherm.service.jobs.expiries import Expiries
from isotherm.service.jobs.searches import Searches
from isotherm.store.ledger import Operation


@dataclass(slots=True)
class TableWork:
    """Expiries, and searches for files that nothing needs."""

    expiries: Expiries
    searches: Searches

    def __contains__(self, job_id: str) -> bool:
        return job_id in self.expiries or job_id in self.searches

    def flights(self, uuid: str) -> tuple[Flight, ...]:
        """What runs for a table as a whole."""
        return self.expiries.flights(uuid) + self.searches.flights(uuid)

    def has_room(self, action: Action) -> bool:
        """Whether one more may begin."""
        return self._of(action).has_room

    def begin(self, request: Request) -> bool:
        """Begin it; whether it began. Raises Unavailable, TableMissing."""
        return self._of(request.decision.action).begin(request)

    def settle(self, operation: Operation) -> bool:
        """Find out what came of one that a restart has left open; whether that is known now. Raises as `begin`."""
        return self._of(operation.action).settle(operation)

    def _of(self, action: Action) -> Expiries | Searches:
        return self.expiries if action is Action.EXPIRE else self.searches
