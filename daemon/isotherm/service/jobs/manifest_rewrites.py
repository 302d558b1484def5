"""Rewrites of tables' manifests, from request to outcome: begun, asked about once more, written down.

No file comes or leaves, so hot partitions are no hindrance. The manifests are read and written beside the loop, by the same
protocol as a swap of files; each request is asked about here. Where the daemon ends meanwhile, the job is found in the
ledger, and looked up in the table.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from isotherm.core.model.decisions import Request
from isotherm.core.model.jobs import (
    NOTHING_WRITTEN,
    Action,
    CompactionJob,
    Outcome,
    OutcomeKind,
    job_on_manifests,
)
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.planner.view import Flight
from isotherm.core.units import MINUTE_MS, span_text
from isotherm.service.clocks import Clocks
from isotherm.service.jobs.compactions import Compactions
from isotherm.service.jobs.deletions import Deletions
from isotherm.service.jobs.last_look import LastLook
from isotherm.service.jobs.operations import LATE_MS, Operations, begun, outcome_of
from isotherm.service.jobs.own_commits import OwnCommits
from isotherm.service.jobs.table_ownership import MOVED, Owned
from isotherm.service.ports import EventSource, LoadedTable, Maintainer, MayCommit
from isotherm.service.rounds.verdicts import Verdicts
from isotherm.service.tables.failing_tables import Barrier
from isotherm.service.topics.holds import Holds
from isotherm.store.fold import Fold
from isotherm.store.ledger import Ledger, Operation

READ_FOR_MS = 30 * MINUTE_MS
"""The manifests of one table are read and written for so long at most: there is one such job at a time, and others wait."""


@dataclass(frozen=True, slots=True)
class _Rewriting:
    operation: Operation
    job: CompactionJob
    tenure: int | None
    """That of its table under which it began."""


@dataclass(slots=True, kw_only=True)
class ManifestRewrites:
    """The rewrites of manifests of this daemon: one at a time."""

    fold: Fold
    ledger: Ledger
    events: EventSource
    maintainer: Maintainer
    last_look: LastLook
    verdicts: Verdicts
    owned: Owned
    holds: Holds
    compactions: Compactions
    own_commits: OwnCommits
    deletions: Deletions
    clocks: Clocks
    operations: Operations
    barrier: Barrier
    now_ms: Callable[[], int]
    _running: _Rewriting | None = None

    def __len__(self) -> int:
        return self._running is not None

    def __contains__(self, job_id: str) -> bool:
        return self._running is not None and self._running.job.job_id == job_id

    @property
    def has_room(self) -> bool:
        """Whether another one may begin."""
        return self._running is None

    def flights(self, uuid: str) -> tuple[Flight, ...]:
        """The rewrite of one table's manifests, where it runs."""
        if self._running is None or self._running.job.table.uuid != uuid:
            return ()
        op = self._running.operation
        return (Flight(op.job_id, op.action, None, op.base_snapshot_id, op.started_at_ms),)

    def begin(self, request: Request) -> bool:
        """Begin to make fewer of a table's manifests; whether that began."""
        uuid = request.table.uuid
        row, loaded = self.fold.table(uuid), self.own_commits.found(request.table)
        resolved = None if row is None else self.verdicts.policy_of(row)
        if row is None or resolved is None or loaded is None or row.state.head is None or not self.has_room:
            return False
        if loaded.head != row.state.head or self.ledger.is_open(uuid, Action.REWRITE_MANIFESTS):
            return False
        operation = begun(request, row, row.state.head, resolved.policy.hash, self.now_ms())
        if self.clocks.check(loaded) is not None:
            return False
        if not self.operations.may_commit(Action.REWRITE_MANIFESTS, operation.job_id):
            return False
        job = job_on_manifests(
            operation.job_id,
            row.state.table,
            row.state.head,
            loaded.seen_through,
            operation.policy_hash,
            operation.why,
        )
        operation = replace(operation, files_before=row.facts.manifests)
        self.ledger.save(operation, job)
        self._running = _Rewriting(operation, job, self.events.tenure(uuid))
        try:
            self.maintainer.start_rewriting_manifests(job)
        except BaseException:
            self._running = None
            self.ledger.forget_operation(job.job_id)
            raise
        self.fold.touch_whole(uuid)
        return True

    def finish(self) -> None:
        """Go on with what is under way, and end it where it is over, or keeps others waiting for too long."""
        if self._running is not None:
            self._go_on(self._may_commit)
        if self._running is not None and self._running.operation.sent_at_ms is None:
            took_ms = self.now_ms() - self._running.operation.started_at_ms
            if took_ms > READ_FOR_MS:
                why = f"its manifests were read and written for {span_text(took_ms)}, and other tables wait"
                self._give_up(self._running, Refusal(Reason.STORAGE, why))

    def cancel_moved(self) -> None:
        """Cancel that of a table that this daemon has not had without a break, or that is held back."""
        running = self._running
        if running is None or running.operation.sent_at_ms is not None:
            return
        uuid = running.operation.table.uuid
        if not self.owned.has_still(uuid, running.tenure):
            self._give_up(running, Refusal(Reason.OWNER, MOVED))
        elif (stopped := self.holds.stops(uuid)) is not None:
            self._give_up(running, stopped)

    def stop(self) -> None:
        """Let nothing more be sent. What was sent is looked for by the next daemon."""
        stopped = Refusal(Reason.STOPPED, "the daemon was stopped")
        if self._running is not None:
            self._go_on(lambda _, jobs: {job.job_id: stopped for job in jobs})
        if self._running is not None and self._running.operation.sent_at_ms is None:
            self._give_up(self._running, stopped)

    def settle(self, operation: Operation, job: CompactionJob | None) -> bool:
        """Look for the fate of one that a crash, or a catalog without an answer, has left open; whether it is known now."""
        if job is None:
            crashed = Refusal(Reason.CRASHED, "the daemon ended before it was known which manifests")
            self.operations.end(operation, Outcome.refused(operation.job_id, crashed))
            return True
        may_land = self.now_ms() - operation.unheard_since_ms < LATE_MS
        outcome = self.own_commits.settled(operation, job, may_land=may_land)
        if outcome is not None:
            self._close(operation, job, outcome)
        return outcome is not None

    def _go_on(self, may_commit: MayCommit) -> None:
        running = self._running
        if running is None:
            return
        table = running.operation.table
        row = self.fold.table(table.uuid)
        name = table.name if row is None else row.state.table.name
        result = self.maintainer.manifests_rewritten(name, may_commit)
        if result is None:
            return
        # As it is by now: the last look has written down which head its request asserts.
        running = self._running or running
        if isinstance(result, TimeoutError) and running.operation.sent_at_ms is None:
            self._give_up(running, Refusal(Reason.STORAGE, f"reading and writing manifests: {result}"))
            return
        operation, self._running = running.operation, None
        job_id = operation.job_id
        with self.barrier.around(name, f"ending job {job_id}", job_id):
            self._close(operation, running.job, outcome_of(operation, result))

    def _give_up(self, running: _Rewriting, refusal: Refusal) -> None:
        """The end of one of which nothing was sent, and that may write one more file."""
        self._running = None
        written, job_id = self.maintainer.give_up_manifests(), running.job.job_id
        with self.barrier.around(running.operation.table.name, f"ending job {job_id}", job_id):
            self.fold.touch_whole(running.operation.table.uuid)
            self.deletions.mark_leftovers(running.job, written)
            self.operations.went_through(Action.REWRITE_MANIFESTS)
            self.operations.end(running.operation, Outcome.refused(job_id, refusal), running.job)

    def _may_commit(self, loaded: LoadedTable, jobs: Sequence[CompactionJob]) -> dict[str, Refusal]:
        """Look at everything once more, and write down that the request goes out."""
        running = self._running
        if running is None:
            raise RuntimeError("no rewrite of manifests is under way")
        tenures = {job.job_id: (job, running.tenure) for job in jobs}
        against = self.last_look.at(loaded, tenures, self.compactions.hear)
        if against:
            return against
        operation = replace(running.operation, asserted_head_id=loaded.head, sent_at_ms=self.now_ms())
        self._running = replace(running, operation=operation)
        self.ledger.save(operation, running.job)
        self.operations.goes_on(Action.REWRITE_MANIFESTS)
        refused = self.owned.act()
        return {} if refused is None else {job.job_id: refused for job in jobs}

    def _close(self, operation: Operation, job: CompactionJob, outcome: Outcome) -> None:
        """The end of one, whatever it was."""
        uuid = operation.table.uuid
        self.fold.touch_whole(uuid)
        if outcome.kind is OutcomeKind.DONE:
            self.deletions.mark_leftovers(job, outcome.leftovers)
            self.own_commits.follow(operation.table.name, outcome.snapshot_id)
            row = self.fold.table(uuid)
            operation = replace(operation, files_after=0 if row is None else row.facts.manifests)
        elif outcome.kind is OutcomeKind.FAILED:
            loaded = self.own_commits.found(operation.table)
            others = (*operation.written, *outcome.leftovers)
            self.deletions.leave(loaded, job, NOTHING_WRITTEN, others=others, was_sent=outcome.was_sent)
        if operation.sent_at_ms is None:
            # However long its manifests were read: nobody waited for that.
            self.operations.went_through(Action.REWRITE_MANIFESTS)
        self.operations.end(operation, outcome, job)
