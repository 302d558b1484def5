"""Compactions from request to outcome: bound, started, committed or thrown away, written down.

A job stands in the ledger before it starts. What a crash leaves is found there at the next start, and looked up in the
table before anything else: the ledger may be older than the table. What a failed job wrote goes the way of `deletions`.

A job belongs to the tenure under which it began (`ownership`).
"""

import uuid as uuids
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.model.decisions import Request
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.model.jobs import CompactionJob, Outcome, OutcomeKind, Rewrite
from isotherm.core.observations import JobStarted, Outside, TableHalted, TrySoon
from isotherm.core.planner.view import Flight
from isotherm.service.announcer import Announcer
from isotherm.service.barrier import Barrier
from isotherm.service.deletions import Deletions
from isotherm.service.follow import Follower, Touched
from isotherm.service.holds import Holds
from isotherm.service.operations import Operations
from isotherm.service.ownership import MOVED, has_still, why_moved
from isotherm.service.planning import Verdicts
from isotherm.service.ports import (
    Catalog,
    EventSource,
    Listener,
    LoadedTable,
    Maintainer,
    Message,
    TableMissing,
    Unavailable,
    Unbound,
)
from isotherm.store.fold import Fold
from isotherm.store.ledger import Ledger, Operation

DRAIN_TIMEOUT_S = 5.0
"""For the last look before a commit; where the end of the topic cannot be reached, nothing is committed."""
RETRY_MS = 60_000
"""The first failure of a partition costs it a minute, each further one in a row twice as long, at most a day."""
MAX_RETRY_MS = 86_400_000
EXCUSED = frozenset(
    {
        "cancelled",
        "conflict",
        "gone",
        "halted",
        "hot",
        "lost",
        "owner",
        "paused",
        "policy",
        "stopped",
        "topic",
    }
)
"""Ends of a job for which its partition is not to blame."""


@dataclass(slots=True)
class Compactions:
    """The compactions of this daemon."""

    fold: Fold
    ledger: Ledger
    events: EventSource
    catalog: Catalog
    maintainer: Maintainer
    follower: Follower
    verdicts: Verdicts
    holds: Holds
    announcer: Announcer
    deletions: Deletions
    operations: Operations
    barrier: Barrier
    listen: Listener
    now_ms: Callable[[], int]
    is_blind: bool = False
    """The control topic could not be read to its end at the last look: what is rewritten now would be thrown away."""
    _running: dict[str, tuple[Operation, CompactionJob]] = field(default_factory=dict)
    _tenures: dict[str, int | None] = field(default_factory=dict)
    """By job id: the tenure of its table under which it began."""
    _rewrites: dict[str, Rewrite] = field(default_factory=dict)
    """By job id: what was written, once that is over."""

    def __len__(self) -> int:
        return len(self._running)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._running

    def flights(self, uuid: str) -> tuple[Flight, ...]:
        """The jobs of one table that run."""
        return tuple(
            Flight(
                op.job_id, op.action, op.partition, op.base_snapshot_id, op.started_at_ms, op.bytes_planned
            )
            for op, _ in self._running.values()
            if op.table.uuid == uuid
        )

    def running(self) -> dict[str, int]:
        """How many jobs run for each table, by uuid."""
        return dict(Counter(operation.table.uuid for operation, _ in self._running.values()))

    # Beginning

    def begin(self, request: Request) -> bool:
        """Begin what was admitted; whether a job began.

        Raises:
            Unavailable: the table's files cannot be read now.
        """
        row = self.fold.table(request.table.uuid)
        resolved = None if row is None else self.verdicts.policy_of(row)
        if row is None or resolved is None or row.state.head is None:
            return False
        decision = request.decision
        operation = Operation(
            job_id=str(uuids.uuid4()),
            table=row.state.table,
            action=decision.action,
            partition=decision.partition,
            label=decision.label,
            why=decision.why,
            policy_hash=resolved.policy.hash,
            base_snapshot_id=row.state.head,
            started_at_ms=self.now_ms(),
            bytes_planned=decision.bytes,
        )
        return self._begin(operation, int(resolved.policy.compact.target_file_size))

    def _begin(self, operation: Operation, target: int) -> bool:
        uuid, key = operation.table.uuid, operation.partition
        loaded = self.follower.loaded(uuid)
        if loaded is None or key is None or loaded.head != operation.base_snapshot_id:
            return False
        job = self.maintainer.bind(
            loaded, key, operation.job_id, operation.label, target, operation.policy_hash, operation.why
        )
        if isinstance(job, Unbound):
            self.operations.end(operation, Outcome(operation.job_id, OutcomeKind.FAILED, job.reason, job.why))
            self._quarantine(operation, job.reason, job.why)
            return False
        operation = replace(operation, files_before=self.catalog.live_files(loaded, key))
        self._tenures[job.job_id] = self.events.tenure(job.table.uuid)
        self.ledger.save(operation, job)
        self.maintainer.start(loaded, job)
        self._running[job.job_id] = (operation, job)
        self.fold.touch(uuid, [key])
        files = len(job.data_files) + len(job.delete_files)
        self.listen(
            JobStarted(
                operation.table,
                operation.action,
                job.job_id,
                operation.label,
                files,
                operation.bytes_planned,
                job.why,
            )
        )
        return True

    # Ending

    def finish(self) -> None:
        """Commit what was rewritten, or clean up after what failed."""
        for job_id, result in self.maintainer.finished():
            if job_id not in self._running:
                continue
            operation, job = self._running[job_id]
            with self.barrier.around(operation.table.name, f"ending job {job_id}", job_id):
                self._finish(operation, job, result)
                continue
            # What came of it the table knows; it is looked for in the next round.
            self._running.pop(job_id, None)
            self._tenures.pop(job_id, None)
            self._rewrites.pop(job_id, None)

    def _finish(self, operation: Operation, job: CompactionJob, result: Rewrite | Unbound) -> None:
        if isinstance(result, Unbound):
            outcome = Outcome(job.job_id, OutcomeKind.FAILED, result.reason, result.why)
        else:
            self._rewrites[job.job_id] = result
            outcome = self._commit(operation, job, result)
            operation = self._running[job.job_id][0].with_rewrite(result)
        self._close(operation, job, outcome)

    def _commit(self, operation: Operation, job: CompactionJob, rewrite: Rewrite) -> Outcome:
        try:
            return self.maintainer.commit(
                operation.table.name, job, rewrite, lambda loaded: self._refusal(loaded, job)
            )
        except (Unavailable, TableMissing) as err:
            # Nobody knows how far it came.
            head_id = self._running[job.job_id][0].asserted_head_id
            return Outcome(
                job.job_id, OutcomeKind.UNKNOWN, "unknown", str(err), asserted_head_id=head_id, was_sent=True
            )

    def _refusal(self, loaded: LoadedTable, job: CompactionJob) -> str | None:
        """The last look before the swap: why it must not be, a word and a sentence; None: go ahead."""
        uuid = job.table.uuid
        messages = self.events.drain(DRAIN_TIMEOUT_S)
        self.is_blind = messages is None
        # Saved before anything is judged: whatever comes of this job, nobody hands these messages out again.
        self._save(messages or (), but=job.job_id)
        if not has_still(self.events, uuid, self._tenures.get(job.job_id)):
            return f"owner: {MOVED}"
        if messages is None:
            return f"topic: it could not be read to its end within {DRAIN_TIMEOUT_S:.0f}s"
        if not self.holds.refresh(DRAIN_TIMEOUT_S):
            return f"topic: what is held back could not be read within {DRAIN_TIMEOUT_S:.0f}s"
        self.follower.confirm_loaded(loaded)
        row = self.fold.table(uuid)
        resolved = None if row is None else self.verdicts.policy_of(row)
        if row is None or resolved is None or not row.is_trusted:
            return "policy: the table is not maintained any more"
        if not resolved.policy.compact.enabled:
            return "policy: it does not compact this table any more"
        stopped = self.holds.stops(uuid)
        if stopped is not None:
            return stopped
        hot = self.verdicts.why_hot(row, job.partition, resolved.policy)
        if hot is not None:
            return f"hot: {hot}"
        moved = why_moved(self.events, uuid, self._tenures.get(job.job_id))
        if moved is not None:
            return f"owner: {moved}"
        # Written down before the request goes out, so that whoever finds the job open knows to look for it.
        operation = replace(self._running[job.job_id][0], asserted_head_id=loaded.head)
        self._running[job.job_id] = (operation, job)
        self.ledger.save(operation, job)
        try:
            self.holds.act()
        except Unavailable as err:
            return f"topic: {err}"
        return None

    def _save(self, messages: Sequence[Message], but: str) -> None:
        """Take messages into the state; where that fails, they are to be handed out again."""
        try:
            with self.fold.transaction(), self.ledger.transaction():
                touched = [whom for whom, _ in map(self.follower.take, messages) if whom is not None]
        except BaseException:
            self.events.undo(messages)
            raise
        self.cancel_touched(touched, but=but)

    def _close(self, operation: Operation, job: CompactionJob, outcome: Outcome) -> None:
        """The end of a compaction, whatever it was."""
        self._running.pop(job.job_id, None)
        self._tenures.pop(job.job_id, None)
        rewrite = self._rewrites.pop(job.job_id, None)
        uuid, name = operation.table.uuid, operation.table.name
        self.fold.touch(uuid, [job.partition])
        if outcome.kind is OutcomeKind.DONE:
            self.holds.lift(uuid, HoldKind.QUARANTINE, job.partition)
            self.deletions.mark_leftovers(job, outcome.leftovers)
            operation = replace(
                operation, files_after=self._after_commit(name, job.partition, outcome.snapshot_id)
            )
        elif outcome.kind is OutcomeKind.FAILED:
            others = (*operation.written, *outcome.leftovers)
            loaded = self._found(operation.table)
            self.deletions.leave(loaded, job, rewrite, others=others, was_sent=outcome.was_sent)
            if outcome.reason == "mismatch":
                self._halt(operation.table, "mismatch", outcome.why)
            elif outcome.reason not in EXCUSED:
                self._quarantine(operation, outcome.reason, outcome.why)
        self.operations.end(operation, outcome, job, still_running=len(self._running))

    def _found(self, table: TableId) -> LoadedTable | None:
        """The table with this uuid, or None where it is not found."""
        row = self.fold.table(table.uuid)
        loaded = self.follower.loaded(table.uuid)
        if loaded is not None:
            return loaded
        try:
            return self.catalog.load(table.name if row is None else row.state.table.name)
        except (Unavailable, TableMissing):
            return None

    def _after_commit(self, name: str, partition: PartitionKey, snapshot_id: int | None) -> int:
        """Take our own snapshot into the state and announce it; gives the partition's live data files."""
        try:
            loaded = self.follower.confirm(name)
            if loaded is None:
                return 0
            if snapshot_id is not None:
                self.announcer.announce(loaded.table.uuid, snapshot_id)
            return self.catalog.live_files(loaded, partition)
        except (Unavailable, TableMissing) as err:
            self.follower.suspects.add(name)
            self.listen(TrySoon(f"table {name} after our commit", str(err), Outside.TABLE))
            return 0

    def _quarantine(self, operation: Operation, reason: str, why: str) -> None:
        if operation.partition is None:
            return
        uuid = operation.table.uuid
        known = self.ledger.quarantined(uuid).get(operation.partition)
        failures, now_ms = (known.failures if known else 0) + 1, self.now_ms()
        span_ms = min(RETRY_MS << min(failures - 1, 20), MAX_RETRY_MS)
        if reason == "crashed" and failures == 1:
            span_ms = 0  # most daemons that die do not die of their job
        hold = Hold(
            HoldKind.QUARANTINE,
            uuid,
            operation.table.name,
            f"{reason}: {why}",
            now_ms,
            partition=operation.partition,
            until_ms=now_ms + span_ms,
            failures=failures,
        )
        self.holds.put(hold)

    def _halt(self, table: TableId, reason: str, why: str) -> None:
        self.holds.put(Hold(HoldKind.HALT, table.uuid, table.name, f"{reason}: {why}", self.now_ms()))
        self.listen(TableHalted(table, reason, why))

    # Cancelling

    def cancel_touched(self, touched: Iterable[Touched], but: str | None = None) -> None:
        """A foreign event or intent that touches a running job's partition cancels that job, and only that job.

        `but` is the job that is being committed: it is judged by the last look itself.
        """
        for one in touched:
            for job_id, (operation, job) in list(self._running.items()):
                hit = one.partitions is None or job.partition in one.partitions
                if job_id != but and operation.table.uuid == one.uuid and hit:
                    self._cancel(job_id, "cancelled", "the stream came back to its partition while it ran")

    def cancel_moved(self) -> None:
        """Cancel the jobs of tables that this daemon has not had without a break since they began."""
        for job_id, (operation, _) in list(self._running.items()):
            if not has_still(self.events, operation.table.uuid, self._tenures.get(job_id)):
                self._cancel(job_id, "owner", MOVED)

    def cancel_held(self) -> None:
        """Cancel the jobs of tables that are halted or paused by now."""
        for job_id, (operation, _) in list(self._running.items()):
            stopped = self.holds.stops(operation.table.uuid)
            if stopped is not None:
                reason, _, why = stopped.partition(": ")
                self._cancel(job_id, reason, why)

    def stop(self) -> None:
        """Cancel everything that runs, and delete what it wrote."""
        for job_id in list(self._running):
            self._cancel(job_id, "stopped", "the daemon was stopped")

    def _cancel(self, job_id: str, reason: str, why: str) -> None:
        operation, job = self._running[job_id]
        self.maintainer.cancel(job_id)
        self._close(operation, job, Outcome(job_id, OutcomeKind.FAILED, reason, why))

    # What nobody knows yet

    def settle(self, operation: Operation, job: CompactionJob) -> bool:
        """Look for the fate of a job that a crash, or a catalog without an answer, has left open.

        Gives whether it is known now.
        """
        row = self.fold.table(operation.table.uuid)
        names = [operation.table.name] if row is None else [row.state.table.name, operation.table.name]
        outcome = self.maintainer.settled(names, job, operation.asserted_head_id)
        if outcome is not None:
            self._close(operation, job, outcome)
        return outcome is not None
