"""Work on tables as a whole: what is asked of all its kinds alike. A table's partitions are compacted by `compactions`."""

from dataclasses import dataclass

from isotherm.core.model.decisions import Request
from isotherm.core.model.jobs import Action, CompactionJob
from isotherm.core.planner.view import Flight
from isotherm.service.jobs.expiries import Expiries
from isotherm.service.jobs.folder_searches import Searches
from isotherm.service.jobs.manifest_rewrites import ManifestRewrites
from isotherm.store.ledger import Operation


@dataclass(slots=True)
class TableWork:
    """Expiries, rewrites of manifests, and searches for files that nothing needs."""

    expiries: Expiries
    manifests: ManifestRewrites
    searches: Searches

    def __contains__(self, job_id: str) -> bool:
        return job_id in self.expiries or job_id in self.manifests or job_id in self.searches

    def flights(self, uuid: str) -> tuple[Flight, ...]:
        """What runs for a table as a whole."""
        return self.expiries.flights(uuid) + self.manifests.flights(uuid) + self.searches.flights(uuid)

    def has_room(self, action: Action) -> bool:
        """Whether one more may begin."""
        return self._of(action).has_room

    def begin(self, request: Request) -> bool:
        """Begin it; whether it began. Raises Unavailable, TableMissing."""
        return self._of(request.decision.action).begin(request)

    def settle(self, operation: Operation, job: CompactionJob | None) -> bool:
        """Find out what came of one that a restart has left open; whether that is known now. Raises as `begin`."""
        if operation.action is Action.REWRITE_MANIFESTS:
            return self.manifests.settle(operation, job)
        return (self.expiries if operation.action is Action.EXPIRE else self.searches).settle(operation)

    def _of(self, action: Action) -> Expiries | ManifestRewrites | Searches:
        if action is Action.REWRITE_MANIFESTS:
            return self.manifests
        return self.expiries if action is Action.EXPIRE else self.searches
