"""Looks for the fate of operations that a crash, or a catalog without an answer, has left open."""

from collections.abc import Callable
from dataclasses import dataclass

from isotherm.core.model.jobs import Action, Outcome
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.service.barrier import Barrier
from isotherm.service.compactions import Compactions
from isotherm.service.operations import Operations
from isotherm.service.table_work import TableWork
from isotherm.store.fold import Fold
from isotherm.store.ledger import Ledger

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
            (operation, job)
            for operation, job in self.ledger.unfinished()
            if operation.job_id not in self.compactions
            and operation.job_id not in self.table_work
            and not self.barrier.is_aside(operation.job_id)
        ]
        for operation, job in open_ones[:UNFINISHED_AT_ONCE]:
            name, job_id = operation.table.name, operation.job_id
            if self.barrier.is_away or self.monotonic_s() >= deadline_s:
                return
            is_gone = knows_all and self.fold.table(operation.table.uuid) is None
            if is_gone and self.now_ms() - operation.started_at_ms > GIVEN_UP_AFTER_MS:
                why = "its table was not found for a week; what it left is for orphan removal"
                self.ledger.drop_marks(job_id)
                self.operations.end(operation, Outcome.refused(job_id, Refusal(Reason.GONE, why)))
                self.barrier.forget(job_id)
                continue
            with self.barrier.around(name, f"looking for the fate of job {job_id}", job_id):
                is_known = (
                    self.compactions.settle(operation, job)
                    if operation.action is Action.COMPACT
                    else self.table_work.settle(operation)
                )
                if is_known:
                    self.barrier.forget(job_id)
                else:
                    self.barrier.put_aside(job_id)
