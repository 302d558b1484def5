"""Which compactions are under way, and how far each is. Questions only: what begins and ends them is `compactions`."""

from collections import Counter
from dataclasses import dataclass, field

from isotherm.core.model.jobs import CompactionJob, Rewrite
from isotherm.core.planner.view import Flight
from isotherm.service.jobs.ended_rewrites import MOST_WAITING, Ended
from isotherm.service.ports import LoadedTable
from isotherm.store.ledger import Operation


@dataclass(slots=True, kw_only=True)
class RunningCompactions:
    """The compactions that were begun and are not over."""

    _binding: dict[str, tuple[Operation, LoadedTable]] = field(default_factory=dict)
    """By job id: what is being bound to its files."""
    _running: dict[str, tuple[Operation, CompactionJob]] = field(default_factory=dict)
    _tenures: dict[str, int | None] = field(default_factory=dict)
    """By job id: the tenure of its table under which it began."""
    _beside: set[str] = field(default_factory=set)
    """The ids of jobs that appends do not disturb."""
    _rewrites: dict[str, Rewrite] = field(default_factory=dict)
    """By job id: what was written, once that is over."""
    _ended: Ended = field(default_factory=Ended)
    """Rewrites that are over: they are committed in turn, those of a table together."""
    _committing: tuple[str, ...] = ()
    """The ids of the jobs whose commit is under way."""

    def __len__(self) -> int:
        return len(self._binding) + len(self._running)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._binding or job_id in self._running

    def _operations(self) -> list[Operation]:
        """Everything that was begun and is not over."""
        return [op for op, _ in (*self._binding.values(), *self._running.values())]

    def flights(self, uuid: str) -> tuple[Flight, ...]:
        """The jobs of one table that run."""
        return tuple(
            Flight(
                op.job_id, op.action, op.partition, op.base_snapshot_id, op.started_at_ms, op.bytes_planned
            )
            for op in self._operations()
            if op.table.uuid == uuid
        )

    @property
    def slots_taken(self) -> int:
        """How many keep others from beginning. What is rewritten waits for its commit beside them, up to a limit."""
        return len(self) - min(len(self._ended) + len(self._committing), MOST_WAITING)

    def running(self) -> dict[str, int]:
        """How many jobs are bound or rewritten for each table, by uuid."""
        waiting = {*self._ended, *self._committing}
        return dict(Counter(one.table.uuid for one in self._operations() if one.job_id not in waiting))
