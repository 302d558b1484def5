"""Looks for the fate of operations that a crash, or a catalog without an answer, has left open."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from isotherm.core.model.jobs import Action, CompactionJob, Outcome
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.service.jobs.compactions import Compactions
from isotherm.service.jobs.operations import Operations
from isotherm.service.jobs.table_work import TableWork
from isotherm.service.ports import TooLong
from isotherm.service.tables.failing_tables import Barrier
from isotherm.store.fold import Fold
from isotherm.store.ledger import Ledger, Operation

GIVEN_UP_AFTER_MS = 7 * 86_400_000
"""An operation of unknown end, whose table is gone, is looked for so long. Nothing is deleted when it is given up."""
UNFINISHED_AT_ONCE = 20
"""Operations of unknown end that one round looks for."""


@dataclass(slots=True)
class UnfinishedOperations:
    """Ends what is open in the ledger and not under way."""

    fold: Fold
    ledger: Ledger
    compactions: Compactions
    table_work: TableWork
    operations: Operations
    barrier: Barrier
    now_ms: Callable[[], int]
    monotonic_s: Callable[[], float]

    def turn(self, budget_s: float, *, knows_all: bool) -> None:
        """Look for some of them, for so long; what was not found is left alone for a while, so the others follow.

        Args:
            budget_s: no further one is looked for after it; each may wait for a store that does not answer.
            knows_all: every table was looked for. Until then one without a row may be there all the same, because the
                fold may be new.
        """
        deadline_s = self.monotonic_s() + budget_s
        open_ones = [
            (job_id, name)
            for job_id, name in self.ledger.open_jobs().items()
            if job_id not in self.compactions
            and job_id not in self.table_work
            and not self.barrier.is_aside(job_id)
            and not self.barrier.is_aside(name)
        ]
        for job_id, name in open_ones[:UNFINISHED_AT_ONCE]:
            if self.barrier.is_away or self.monotonic_s() >= deadline_s:
                return
            with self.barrier.around(name, f"looking for the fate of job {job_id}", job_id):
                # Within the barrier: a row that cannot be read is the trouble of its job alone.
                self._look_for(name, job_id, knows_all=knows_all)

    def _look_for(self, name: str, job_id: str, *, knows_all: bool) -> None:
        """Look for the fate of one, and leave it alone for a while where it is not known."""
        found = self.ledger.begun(job_id)
        try:
            is_over = found is None or self._is_over(*found, knows_all=knows_all)
        except TooLong:
            # Whatever else asks for its table would wait as long, by whichever name it has.
            row = None if found is None else self.fold.table(found[0].table.uuid)
            for one in {name, name if row is None else row.state.table.name}:
                self.barrier.put_aside(one)
            raise
        if is_over:
            self.barrier.forget(job_id)
        else:
            self.barrier.put_aside(job_id)

    def _is_over(self, operation: Operation, job: CompactionJob | None, *, knows_all: bool) -> bool:
        """Find out what became of an operation. Returns whether it is known now."""
        return self._is_given_up(operation, knows_all=knows_all) or self._settle(operation, job)

    def _is_given_up(self, operation: Operation, *, knows_all: bool) -> bool:
        """End an operation whose table was not found for so long. Returns whether it is such a one."""
        is_gone = knows_all and self.fold.table(operation.table.uuid) is None
        if not is_gone or self.now_ms() - operation.started_at_ms <= GIVEN_UP_AFTER_MS:
            return False
        why = "its table was not found for a week; what it left is for orphan removal"
        outcome = Outcome.refused(operation.job_id, Refusal(Reason.GONE, why))
        self.operations.end(
            operation, outcome, settle_marks=partial(self.ledger.drop_marks, operation.job_id)
        )
        return True

    def _settle(self, operation: Operation, job: CompactionJob | None) -> bool:
        """Look for the fate of an operation. Returns whether it is known now."""
        if operation.action is Action.COMPACT:
            return self.compactions.settle(operation, job)
        return self.table_work.settle(operation, job)
