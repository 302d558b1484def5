"""The end of an operation: written into the ledger, and told."""

from collections.abc import Callable
from dataclasses import dataclass

from isotherm.core.model.jobs import CompactionJob, Outcome
from isotherm.core.observations import JobEnded
from isotherm.service.ports import Listener
from isotherm.store.ledger import Ledger, Operation

LATE_MS = 86_400_000
"""A request of which nobody knows may land for so long; no proxy keeps one longer."""


@dataclass(frozen=True, slots=True)
class Operations:
    """Ends operations."""

    ledger: Ledger
    listen: Listener
    now_ms: Callable[[], int]

    def end(
        self, operation: Operation, outcome: Outcome, job: CompactionJob | None = None, still_running: int = 0
    ) -> None:
        """Write down and tell what came of an operation.

        Args:
            operation: what was begun.
            outcome: what came of it.
            job: kept with it while its outcome is unknown.
            still_running: other jobs that run on.
        """
        self.ledger.save(operation.ended(outcome, self.now_ms()), job)
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
