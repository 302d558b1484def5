"""The begin and the end of an operation: written into the ledger, and told."""

import uuid as uuids
from collections.abc import Callable
from dataclasses import dataclass, field

from isotherm.core.model.decisions import Request
from isotherm.core.model.jobs import Action, CompactionJob, Outcome, OutcomeKind
from isotherm.core.model.refusals import Reason
from isotherm.core.observations import JobEnded
from isotherm.service.ports import Listener, TableMissing, Unavailable
from isotherm.store.fold import TableRow
from isotherm.store.ledger import Ledger, Operation

LATE_MS = 86_400_000
"""A request of which nobody knows may land for so long after it was sent; no proxy keeps one longer. What came before it
counts for nothing: a job may take hours."""


LOOP_SHARE = 5
"""Commits that come to nothing have such a part of the time at most: the loop waits for each for some seconds, and one
that hangs for a time-out is no better a moment later."""
HOLDS_S = 5.0
"""A commit that took less holds nobody up."""
HOLDS_AT_MOST_S = 30.0
"""What takes longer goes on beside the loop, which waits for five seconds of it, and for its last looks. A table whose
commits hang for ten minutes must not keep those of others waiting for forty more."""


def begun(request: Request, row: TableRow, head: int, policy_hash: str, now_ms: int) -> Operation:
    """What a request has become, as it begins on this head."""
    decision = request.decision
    return Operation(
        job_id=str(uuids.uuid4()),
        table=row.state.table,
        action=decision.action,
        partition=decision.partition,
        label=decision.label,
        why=decision.why,
        policy_hash=policy_hash,
        base_snapshot_id=head,
        started_at_ms=now_ms,
        bytes_planned=decision.bytes,
        files_planned=decision.files,
        executor=request.executor,
    )


def outcome_of(operation: Operation, result: Outcome | BaseException) -> Outcome:
    """What a commit came to. Raises what is a mistake of ours."""
    if isinstance(result, Outcome):
        return result
    if not isinstance(result, Unavailable | TableMissing | TimeoutError):
        raise result
    # Nobody knows how far it came.
    return Outcome(
        operation.job_id,
        OutcomeKind.UNKNOWN,
        Reason.UNKNOWN,
        str(result),
        asserted_head_id=operation.asserted_head_id,
        was_sent=True,
    )


@dataclass(slots=True)
class Operations:
    """Ends operations, and says when the next commit may be sent."""

    ledger: Ledger
    listen: Listener
    now_ms: Callable[[], int]
    monotonic_s: Callable[[], float]
    _committing: dict[Action, tuple[str, float]] = field(default_factory=dict)
    """By action: the job whose commit began last, and when. There is one at a time."""
    _next_s: float = float("-inf")
    """When the next one may begin."""

    def may_commit(self, action: Action, job_id: str) -> bool:
        """Whether the commit of a job may begin now; it is counted as begun."""
        now_s = self.monotonic_s()
        if now_s < self._next_s:
            return False
        self._committing[action] = job_id, now_s
        return True

    def goes_on(self, action: Action) -> None:
        """The request of the commit that began last is sent now: what came before held nobody up."""
        if (began := self._committing.get(action)) is not None:
            self._committing[action] = began[0], self.monotonic_s()

    def went_through(self, action: Action) -> None:
        """The commit that began last did something, whatever became of some jobs in it: it holds up no other."""
        self._committing.pop(action, None)

    def end(
        self,
        operation: Operation,
        outcome: Outcome,
        job: CompactionJob | None = None,
        still_running: int | None = None,
        settle_marks: Callable[[], None] | None = None,
    ) -> None:
        """Write down and tell what came of an operation.

        Marks are settled with its end, or neither is: an open expiry without them would look as if it had taken nothing.

        Args:
            operation: what was begun.
            outcome: what came of it.
            job: kept with it while its outcome is unknown.
            still_running: compactions that run on, where it was one of them.
            settle_marks: confirms or drops what an expiry has marked.
        """
        with self.ledger.transaction():
            if settle_marks is not None:
                settle_marks()
            self.ledger.save(operation.ended(outcome, self.now_ms()), job)
        committing, began_s = self._committing.get(operation.action, ("", 0.0))
        if outcome.kind is not OutcomeKind.DONE and operation.job_id == committing:
            now_s = self.monotonic_s()
            if now_s - began_s >= HOLDS_S:
                self._next_s = now_s + (LOOP_SHARE - 1) * min(now_s - began_s, HOLDS_AT_MOST_S)
            del self._committing[operation.action]
        self.listen(
            JobEnded(
                table=operation.table,
                action=operation.action,
                job_id=operation.job_id,
                label=operation.label,
                outcome=outcome.kind,
                reason=outcome.reason,
                why=outcome.why,
                snapshot_id=outcome.snapshot_id,
                files_before=operation.files_before,
                files_after=operation.files_after,
                bytes_read=operation.bytes_read,
                bytes_written=operation.bytes_written,
                seconds=operation.seconds,
                peak_memory_bytes=operation.peak_memory_bytes,
                still_running=still_running,
            )
        )
