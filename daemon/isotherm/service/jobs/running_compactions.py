"""Which compactions are under way, and how far each is. Questions only: what begins and ends them is `compactions`."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice

from isotherm.core.model.jobs import CompactionJob, ExecutorName, Rewrite, Take
from isotherm.core.planner.view import Flight
from isotherm.service.jobs.ended_rewrites import MOST_WAITING, Ended, is_small
from isotherm.service.ports import LoadedTable
from isotherm.store.ledger import Operation

SMALL_IN_A_SLOT = 4
"""So many small jobs share a slot. Each is bound in one thread and rewritten in another process: while one is at that, the
next ones are got ready."""


@dataclass(slots=True, kw_only=True)
class RunningCompactions:
    """The compactions that were begun and are not over."""

    _binding: dict[str, tuple[Operation, LoadedTable, Take]] = field(default_factory=dict)
    """By job id: what is being bound to its files, and what it is to take."""
    _bound_again: dict[str, int] = field(default_factory=dict)
    """By job id: how often it was bound once more."""
    _running: dict[str, tuple[Operation, CompactionJob]] = field(default_factory=dict)
    _tenures: dict[str, int | None] = field(default_factory=dict)
    """By job id: the tenure of its table under which it began."""
    _beside: set[str] = field(default_factory=set)
    """The ids of jobs that appends do not disturb."""
    _windowed: dict[str, str] = field(default_factory=dict)
    """By job id: the window in which its partition's writers leave it alone."""
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
        return [*(one for one, *_ in self._binding.values()), *(one for one, _ in self._running.values())]

    def flights(self, uuid: str) -> tuple[Flight, ...]:
        """The jobs of one table that run."""
        return tuple(
            Flight(
                op.job_id, op.action, op.partition, op.base_snapshot_id, op.started_at_ms, op.bytes_planned
            )
            for op in self._operations()
            if op.table.uuid == uuid
        )

    def in_window(self, window_id: str) -> int:
        """How many jobs run in a window."""
        return sum(one == window_id for one in self._windowed.values())

    @property
    def unwritten(self) -> list[Operation]:
        """Those that are bound or rewritten. Small ones that were rewritten wait for their commit beside them, up to a limit."""
        waiting = {*islice((*self._committing, *self._ended), MOST_WAITING)}
        return [one for one in self._operations() if one.job_id not in waiting or not is_small(one)]

    @property
    def is_writing(self) -> bool:
        """Whether anything is bound or rewritten beside what waits for its commit."""
        return len(self) > len(self._committing) + len(self._ended)

    @property
    def soon(self) -> set[str]:
        """The tables, by uuid, of which a small job is bound or rewritten."""
        waiting = {*self._committing, *self._ended}
        return {one.table.uuid for one in self._operations() if is_small(one) and one.job_id not in waiting}

    def slots_taken(self, executor: ExecutorName) -> int:
        """How many slots of an executor are taken; others begin in those that are left."""
        unwritten = [one for one in self.unwritten if one.executor is executor]
        small = sum(map(is_small, unwritten)) if executor is ExecutorName.LOCAL else 0
        return len(unwritten) - small + small // SMALL_IN_A_SLOT

    def by_table(self) -> dict[str, int]:
        """How many jobs of each table are bound or rewritten, by uuid; there a small one counts as any other."""
        return dict(Counter(one.table.uuid for one in self.unwritten))
