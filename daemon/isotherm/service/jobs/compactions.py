"""Compactions from request to outcome: begun (`beginning_compactions`), committed or thrown away, written down.

What a crash leaves is found there at the next start, and looked up in the table before
anything else: the ledger may be older than the table. What a failed job wrote goes the way of `deletions`. A job belongs to
the tenure under which it began (`table_ownership`). What may stand against its swap: `last_look`. What goes in one commit:
`ended_rewrites`.
"""

from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.jobs import (
    Action,
    CompactionJob,
    Outcome,
    OutcomeKind,
    Swap,
)
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.service.jobs.beginning_compactions import BeginningCompactions
from isotherm.service.jobs.cancelled_by_writers import disturbance
from isotherm.service.jobs.job_progress import JobProgress
from isotherm.service.jobs.operations import LATE_MS, outcome_of
from isotherm.service.jobs.table_ownership import MOVED
from isotherm.service.ports import (
    LoadedTable,
    MayCommit,
)
from isotherm.service.topics.events_to_state import Taken, Touched
from isotherm.store.ledger import Operation


@dataclass(slots=True, kw_only=True)
class Compactions(BeginningCompactions):
    """The compactions of this daemon."""

    _progress: JobProgress = field(default_factory=JobProgress)

    def tell_progress(self) -> None:
        """Tell how far rewrites are, where it is time to."""
        now_s = self.operations.monotonic_s()
        for what in self._progress.turn(self._running.values(), self.maintainer.progress, now_s):
            self.listen(what)

    def finish(self) -> None:
        """Commit what was rewritten, or clean up after what failed.

        A commit is made beside the loop. The loop waits for it for a moment in each turn, to answer what it asks.
        """
        self._ended.extend(self.maintainer.finished(), self.operations.monotonic_s())
        while self._committing or self._begin_commit():
            if not self._go_on(self._last_look, others_run=self.is_writing):
                return

    def _begin_commit(self) -> bool:
        """Begin the commit of the rewrite that ended first, and of what goes with it. Returns whether one is under way."""
        now_s = self.operations.monotonic_s()
        while job_id := self._ended.ready(self._running, self.soon, now_s):
            if not self.operations.may_commit(Action.COMPACT, job_id):
                return False
            result = self._ended.pop(job_id)
            if job_id not in self._running:
                continue
            operation, job = self._running[job_id]
            swaps: list[Swap] = []
            with self._ending(operation):
                if isinstance(result, Refusal):
                    self._close(operation, job, Outcome.refused(job_id, result))
                    continue
                swaps = [Swap(job, result), *self._ended.pop_beside(job, self._running)]
                self._rewrites |= {swap.job.job_id: swap.rewrite for swap in swaps}
                ids = tuple(swap.job.job_id for swap in swaps)
                self.maintainer.start_commit(swaps)
                self._committing = ids
                return True
            self._ended.extend(((swap.job.job_id, swap.rewrite) for swap in swaps[1:]), now_s)
            self._let_go(job_id)
        return False

    def _go_on(self, may_commit: MayCommit, *, others_run: bool) -> bool:
        """Go on with the commit that is under way. Returns whether it is over."""
        name = self._running[self._committing[0]][0].table.name
        result = self.maintainer.committed(name, may_commit, others_run=others_run)
        if result is None:
            return False
        ids, self._committing = self._committing, ()
        is_followed = False
        if isinstance(result, Sequence) and any(one.kind is OutcomeKind.DONE for one in result):
            self.operations.went_through(Action.COMPACT)
        for place, job_id in enumerate(ids):
            operation, job = self._running[job_id]
            with self._ending(operation):
                operation = operation.with_rewrite(self._rewrites[job_id])
                came_to = result if isinstance(result, BaseException) else result[place]
                outcome = outcome_of(operation, came_to)
                self._close(operation, job, outcome, is_followed=is_followed)
                is_followed = is_followed or outcome.kind is OutcomeKind.DONE
                continue
            # What came of it the table knows; it is looked for in the next round.
            self._let_go(job_id)
        return True

    def _ending(self, operation: Operation) -> AbstractContextManager[None]:
        """The barrier around the end of a job."""
        job_id = operation.job_id
        return self.barrier.around(operation.table.name, f"ending job {job_id}", job_id)

    def _last_look(self, loaded: LoadedTable, jobs: Sequence[CompactionJob]) -> dict[str, Refusal]:
        """Look at everything once more, and write down that the request goes out. Returns which must not, and why."""
        tenures = {job.job_id: (job, self._tenures.get(job.job_id)) for job in jobs}
        against = self.last_look.at(loaded, tenures, self.hear)
        if against:
            return against  # the request is made anew without them, and asked about again
        # Written down before the request goes out, so that whoever finds the jobs open knows to look for them.
        with self.ledger.transaction():
            for job in jobs:
                operation = replace(
                    self._running[job.job_id][0], asserted_head_id=loaded.head, sent_at_ms=self.now_ms()
                )
                self._running[job.job_id] = (operation, job)
                self.ledger.save(operation, job)
        refused = self.owned.act()
        return {} if refused is None else {job.job_id: refused for job in jobs}

    def _close(
        self, operation: Operation, job: CompactionJob, outcome: Outcome, *, is_followed: bool = False
    ) -> None:
        """The end of a compaction, whatever it was. `is_followed`: the table is known as its commit has left it."""
        rewrite = self._let_go(job.job_id)
        uuid, name = operation.table.uuid, operation.table.name
        self.fold.touch(uuid, job.touched)
        if outcome.kind is OutcomeKind.DONE:
            self.holds.went_well(uuid, job.partition)
            self.deletions.mark_leftovers(job, outcome.leftovers)
            if not is_followed:
                self.own_commits.follow(name, outcome.snapshot_id)
            state = self.fold.states(uuid, [job.partition]).get(job.partition)
            operation = replace(operation, files_after=0 if state is None else state.data_total.files)
        elif outcome.kind is OutcomeKind.FAILED:
            others = (*operation.written, *outcome.leftovers)
            loaded = self.own_commits.found(operation.table)
            self.deletions.leave(loaded, job, rewrite, others=others, was_sent=outcome.was_sent)
            refusal = Refusal(outcome.reason, outcome.why)
            if refusal.reason is Reason.MISMATCH:
                self.holds.halt(operation.table, refusal)
            else:
                self._set_back(operation, refusal, job.read)
        else:
            # Begun again at once, it would write the same files for ever where no commit comes through.
            self._set_back(operation, Refusal(outcome.reason, outcome.why))
        self.operations.end(operation, outcome, job, still_running=len(self._running))

    # Cancelling

    def hear(self, taken: Taken) -> None:
        """Take in what new messages say: of windows, and of partitions that somebody else touches."""
        self.windows.hear(taken.windows)
        self.windows.disturb(one.uuid for one in taken.touched)
        self.cancel_touched(taken.touched)

    def cancel_touched(self, touched: Iterable[Touched]) -> None:
        """A foreign event or intent that touches a running job's partition cancels that job, and only that job."""
        for one in touched:
            for operation in [other for other in self._operations() if other.table.uuid == one.uuid]:
                is_beside = operation.job_id in self._beside
                mine = self._touched(operation)
                if (ended := disturbance(one, mine, operation.partition, is_beside=is_beside)) is not None:
                    self._cancel(operation, ended)

    def _touched(self, operation: Operation) -> Collection[PartitionKey | None]:
        """The partitions that a job may touch; where it is not bound yet, as far as that is known."""
        running = self._running.get(operation.job_id)
        return (operation.partition,) if running is None else running[1].touched

    def cancel_moved(self) -> None:
        """Cancel the jobs of tables that this daemon has not had without a break since they began."""
        for operation in self._operations():
            if not self.owned.has_still(operation.table.uuid, self._tenures.get(operation.job_id)):
                self._cancel(operation, Refusal(Reason.OWNER, MOVED))

    def cancel_window(self, window_id: str, refusal: Refusal) -> None:
        """Cancel the jobs of a window that is over."""
        for operation in self._operations():
            if self._windowed.get(operation.job_id) == window_id:
                self._cancel(operation, refusal)

    def cancel_held(self) -> None:
        """Cancel the jobs of tables that are halted or paused by now."""
        for operation in self._operations():
            if (stopped := self.holds.stops(operation.table.uuid)) is not None:
                self._cancel(operation, stopped)

    def cancel_hot(self) -> None:
        """Cancel the jobs whose partition is hot by now: a commit that nobody announced is found by looking at its table."""
        for operation, job in tuple(self._running.values()):
            if (stopped := self.last_look.hot(job)) is not None:
                self._cancel(operation, stopped)

    def stop(self) -> None:
        """Cancel everything that runs, and delete what it wrote; but for a commit that does not end now."""
        stopped = Refusal(Reason.STOPPED, "the daemon was stopped")
        if self._committing:
            self._go_on(lambda _, jobs: {job.job_id: stopped for job in jobs}, others_run=False)
        for operation in self._operations():
            self._cancel(operation, stopped)

    def _cancel(self, operation: Operation, refusal: Refusal) -> None:
        job_id = operation.job_id
        if job_id in self._committing:
            return  # its request may be on its way; before the next one the last look finds the same
        with self.barrier.around(operation.table.name, f"cancelling job {job_id}", job_id):
            self.maintainer.cancel(job_id)
            if job_id in self._running:
                operation, job = self._running[job_id]
                self._close(operation, job, Outcome.refused(job_id, refusal))
            else:
                self.ledger.forget_operation(job_id)  # it has left nothing anywhere
                self._touch(operation)
        self._let_go(job_id)

    def settle(self, operation: Operation, job: CompactionJob | None) -> bool:
        """Look for the fate of a job that a crash, or a catalog without an answer, has left open.

        Gives whether it is known now. Without a job it was not bound yet, and has written nothing.
        """
        if job is None:
            crashed = Refusal(Reason.CRASHED, "the daemon ended while it read the manifests of the partition")
            unread = replace(operation, bytes_planned=0)
            self.operations.end(unread, Outcome.refused(operation.job_id, crashed))
            self._set_back(operation, crashed)
            self._touch(operation)
            return True
        if operation.sent_at_ms is None:
            self.maintainer.cancel_abandoned(job)
        may_land = self.now_ms() - operation.unheard_since_ms < LATE_MS
        outcome = self.own_commits.settled(operation, job, may_land=may_land)
        if outcome is not None:
            self._close(operation, job, outcome)
        return outcome is not None
