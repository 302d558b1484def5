"""Jobs from request to outcome: bound, started, committed or thrown away, cleaned up, written down.

A job stands in the ledger before it starts, a file before it is deleted; what a crash leaves is found there at the
next start, and looked up in the table before anything of it is touched.

A job belongs to the tenure under which it began: the time for which the group has given the table to this daemon
without a break. Where that has ended the job is cancelled and what it wrote is deleted, also where the table has come
back since. A commit would still be safe then, as far as rows go (it replaces exactly the files that were read), but
another daemon has begun where we left off, perhaps with the very same files, or has halted the table for what it
found; one of two rewrites is thrown away in any case, and the younger one knows more.
"""

import uuid as uuids
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from isotherm.commit_event import CommitEvent, announcement
from isotherm.config import IsothermConfig
from isotherm.follow import Follower, Touched
from isotherm.holds import Holds
from isotherm.model import (
    Action,
    Change,
    CompactionJob,
    Hold,
    HoldKind,
    Outcome,
    OutcomeKind,
    PartitionKey,
    Rewrite,
    TableId,
)
from isotherm.observations import FilesDeleted, JobEnded, JobStarted, SnapshotsExpired, TableHalted, TrySoon
from isotherm.planner import Flight, Request
from isotherm.policy import Policy
from isotherm.ports import (
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
from isotherm.store.fold import Fold, TableRow
from isotherm.store.ledger import Ledger, Operation
from isotherm.verdicts import Verdicts

DRAIN_TIMEOUT_S = 5.0
"""For the last look before a commit; where the end of the topic cannot be reached, nothing is committed."""
RETRY_MS = 60_000
"""The first failure of a partition costs it a minute, each further one in a row twice as long, at most a day."""
MAX_RETRY_MS = 86_400_000
DELETE_BATCH = 200
"""Files deleted in one round, so that events never wait long."""
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
MOVED = "the group gave the table to another daemon after the job began"


@dataclass(slots=True)
class Jobs:
    """The jobs of this daemon."""

    config: IsothermConfig
    fold: Fold
    ledger: Ledger
    events: EventSource
    catalog: Catalog
    maintainer: Maintainer
    follower: Follower
    verdicts: Verdicts
    holds: Holds
    listen: Listener
    now_ms: Callable[[], int]
    is_blind: bool = False
    """The control topic could not be read to its end at the last look: what is rewritten now would be thrown away."""
    _running: dict[str, tuple[Operation, CompactionJob]] = field(default_factory=dict)
    _tenures: dict[str, int | None] = field(default_factory=dict)
    """By job id: the tenure of its table under which it began."""

    def __len__(self) -> int:
        return len(self._running)

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
        """Begin what was admitted; whether a job began."""
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
        try:
            if decision.action is Action.EXPIRE:
                return self._expire(row, operation, request.snapshots, resolved.policy)
            return self._compact(row, operation, resolved.policy)
        except (Unavailable, TableMissing) as err:
            self.listen(TrySoon(f"{decision.action} of {request.table}", str(err)))
            return False

    def _compact(self, row: TableRow, operation: Operation, policy: Policy) -> bool:
        loaded, key = self.follower.loaded(row.state.table.uuid), operation.partition
        if loaded is None or key is None or loaded.head != row.state.head:
            return False
        target = int(policy.compact.target_file_size)
        job = self.maintainer.bind(
            loaded, key, operation.job_id, operation.label, target, policy.hash, operation.why
        )
        if isinstance(job, Unbound):
            self._ended(operation, Outcome(operation.job_id, OutcomeKind.FAILED, job.reason, job.why))
            self._quarantine(operation, job.reason, job.why)
            return False
        operation = replace(operation, files_before=self.catalog.live_files(loaded, key))
        self._tenures[job.job_id] = self.events.tenure(job.table.uuid)
        self.ledger.save(operation, job)
        self.maintainer.start(loaded, job)
        self._running[job.job_id] = (operation, job)
        self.fold.touch(row.state.table.uuid, [key])
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
            if isinstance(result, Unbound):
                outcome = Outcome(job_id, OutcomeKind.FAILED, result.reason, result.why)
            else:
                outcome = self._commit(operation, job, result)
                operation = self._running[job_id][0].with_rewrite(result)
            self._close(operation, job, outcome)

    def _commit(self, operation: Operation, job: CompactionJob, rewrite: Rewrite) -> Outcome:
        try:
            return self.maintainer.commit(
                operation.table.name, job, rewrite, lambda loaded: self._refusal(loaded, job)
            )
        except (Unavailable, TableMissing) as err:
            return Outcome(job.job_id, OutcomeKind.FAILED, "catalog", str(err))

    def _refusal(self, loaded: LoadedTable, job: CompactionJob) -> str | None:
        """The last look before the swap: why it must not be, a word and a sentence; None: go ahead."""
        uuid = job.table.uuid
        messages = self.events.drain(DRAIN_TIMEOUT_S)
        self.is_blind = messages is None
        # Saved before anything is judged: whatever comes of this job, nobody hands these messages out again.
        self._save(messages or (), but=job.job_id)
        if not self._has_still(uuid, self._tenures.get(job.job_id)):
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
        moved = self._moved(uuid, self._tenures.get(job.job_id))
        if moved is not None:
            return f"owner: {moved}"
        # Written down before the request goes out: what a crash leaves is then known to have been sent, or not.
        operation = replace(self._running[job.job_id][0], asserted_head_id=loaded.head)
        self._running[job.job_id] = (operation, job)
        self.ledger.save(operation, job)
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

    def _moved(self, uuid: str, tenure: int | None) -> str | None:
        """Why this daemon may not commit to a table on which it began to work under that tenure; None: it may.

        The broker is asked, for what this process remembers may be a minute old and not know it. A pause after the
        answer does no harm: the commit replaces exactly the files that were read, or fails.
        """
        stranger = self.events.check_in()
        if stranger is not None:
            return stranger
        return None if self._has_still(uuid, tenure) else MOVED

    def _has_still(self, uuid: str, tenure: int | None) -> bool:
        """Whether this daemon has had the table without a break, as far as it knows."""
        return tenure is not None and self.events.tenure(uuid) == tenure

    def _close(self, operation: Operation, job: CompactionJob, outcome: Outcome) -> None:
        """The end of a compaction, whatever it was."""
        self._running.pop(job.job_id, None)
        self._tenures.pop(job.job_id, None)
        uuid, name = operation.table.uuid, operation.table.name
        self.fold.touch(uuid, [job.partition])
        if outcome.kind is OutcomeKind.DONE:
            self.holds.lift(uuid, HoldKind.QUARANTINE, job.partition)
            operation = replace(
                operation, files_after=self._after_commit(name, job.partition, outcome.snapshot_id)
            )
        elif outcome.kind is OutcomeKind.FAILED:
            self._clean_up(name, job)
            if outcome.reason == "mismatch":
                self._halt(operation.table, "mismatch", outcome.why)
            elif outcome.reason not in EXCUSED:
                self._quarantine(operation, outcome.reason, outcome.why)
        self.ledger.save(operation.ended(outcome, self.now_ms()), job)
        self._tell_end(operation, outcome)

    def _after_commit(self, name: str, partition: PartitionKey, snapshot_id: int | None) -> int:
        """Take our own snapshot into the state and announce it; gives the partition's live data files."""
        try:
            loaded = self.follower.confirm(name)
            if loaded is None:
                return 0
            if snapshot_id is not None:
                self.announce(loaded.table.uuid, snapshot_id)
            return self.catalog.live_files(loaded, partition)
        except (Unavailable, TableMissing) as err:
            self.follower.suspects.add(name)
            self.listen(TrySoon(f"table {name} after our commit", str(err)))
            return 0

    def announce(self, uuid: str, snapshot_id: int) -> None:
        """Announce a snapshot on the control topic; one that has expired by now is told to nobody any more.

        Raises:
            Unavailable: the broker, or the catalog, does not answer.
            TableMissing: the table is gone.
        """
        recorded = self.fold.recorded(uuid, snapshot_id)
        row = self.fold.table(uuid)
        if row is not None:
            event = self._event(row.state.table, snapshot_id, None if recorded is None else recorded[0])
            if event is not None:
                self.events.publish(event)
        self.ledger.announced(uuid, snapshot_id)

    def _event(self, table: TableId, snapshot_id: int, change: Change | None) -> CommitEvent | None:
        """The announcement of a snapshot: from the journal, else from the table itself; None: it has expired."""
        if change is not None:
            return announcement(table, self.config.catalog.name, change, "isotherm")
        loaded = self.catalog.load(table.name)
        if loaded.table.uuid != table.uuid or snapshot_id not in loaded.snapshots:
            return None
        named = {"catalog": self.config.catalog.name, "announced_by": "isotherm"}
        return self.catalog.event(loaded, snapshot_id).model_copy(update=named)

    def _ended(self, operation: Operation, outcome: Outcome) -> None:
        self.ledger.save(operation.ended(outcome, self.now_ms()))
        self._tell_end(operation, outcome)

    def _tell_end(self, operation: Operation, outcome: Outcome) -> None:
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
                still_running=len(self._running),
            )
        )

    def _clean_up(self, name: str, job: CompactionJob) -> None:
        """Delete what a job wrote; its outcome says that nothing of it is in the table."""
        try:
            self.maintainer.clean_up(self.follower.loaded(job.table.uuid) or self.catalog.load(name), job)
        except (Unavailable, TableMissing, OSError) as err:
            # What stays is an orphan under a name that follows from the job id, nothing worse.
            self.listen(TrySoon(f"deleting what job {job.job_id} wrote", str(err)))

    def _quarantine(self, operation: Operation, reason: str, why: str) -> None:
        if operation.partition is None:
            return
        uuid = operation.table.uuid
        known = self.ledger.quarantined(uuid).get(operation.partition)
        failures, now_ms = (known.failures if known else 0) + 1, self.now_ms()
        span_ms = min(RETRY_MS << min(failures - 1, 20), MAX_RETRY_MS)
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
            if not self._has_still(operation.table.uuid, self._tenures.get(job_id)):
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
        self.maintainer.stop()

    def _cancel(self, job_id: str, reason: str, why: str) -> None:
        operation, job = self._running[job_id]
        self.maintainer.cancel(job_id)
        self._close(operation, job, Outcome(job_id, OutcomeKind.FAILED, reason, why))

    # What nobody knows yet

    def settle(self) -> None:
        """Look for the fate of operations that a crash, or a catalog without an answer, has left open."""
        for operation, job in self.ledger.unfinished():
            if operation.job_id in self._running:
                continue
            try:
                if job is None:
                    self._settle_expiry(operation)
                else:
                    self._settle_compaction(operation, job)
            except (Unavailable, TableMissing) as err:
                self.listen(TrySoon(f"the fate of job {operation.job_id}", str(err)))

    def _settle_compaction(self, operation: Operation, job: CompactionJob) -> None:
        if operation.asserted_head_id is None:
            why = "the daemon died before it asked for the swap"
            outcome: Outcome | None = Outcome(job.job_id, OutcomeKind.FAILED, "cancelled", why)
        else:
            outcome = self.maintainer.settled(operation.table.name, job, operation.asserted_head_id)
        if outcome is not None:
            self._close(operation, job, outcome)

    def _settle_expiry(self, operation: Operation) -> None:
        """Were the snapshots really taken? Then their files may go, else the marks are dropped."""
        wanted = set(self.ledger.expired_by(operation.job_id))
        loaded = self.catalog.load(operation.table.name)
        if wanted and not wanted & set(loaded.snapshots):
            row = self.fold.table(operation.table.uuid)
            resolved = None if row is None else self.verdicts.policy_of(row)
            grace_ms = (Policy() if resolved is None else resolved.policy).expire.delete_after
            self.ledger.confirm_marks(operation.job_id, self.now_ms() + grace_ms)
            outcome = Outcome(
                operation.job_id, OutcomeKind.DONE, "committed", "found in the table afterwards"
            )
            self._ended(replace(operation, expired=len(wanted)), outcome)
            return
        self.ledger.drop_marks(operation.job_id)
        self._ended(
            operation,
            Outcome(operation.job_id, OutcomeKind.FAILED, "cancelled", "it never reached the table"),
        )

    # Expiry and deletion

    def _expire(self, row: TableRow, operation: Operation, snapshots: Sequence[int], policy: Policy) -> bool:
        operation = replace(operation, files_before=row.facts.snapshots)
        self.ledger.save(operation)
        uuid, job_id = operation.table.uuid, operation.job_id
        tenure = self.events.tenure(uuid)

        def mark(files: Sequence[str]) -> None:
            refused = self._moved(uuid, tenure) or self.holds.stops(uuid)
            if refused is not None:
                # The operation stays open, and is found never to have reached the table.
                raise Unavailable(refused)
            with self.ledger.transaction():
                self.ledger.drop_marks(job_id)
                self.ledger.mark(uuid, job_id, files, snapshots, self.now_ms())

        expired = self.maintainer.expire(operation.table.name, snapshots, job_id, mark)
        outcome = expired.outcome
        if outcome.kind is OutcomeKind.DONE:
            self.ledger.confirm_marks(job_id, self.now_ms() + policy.expire.delete_after)
            left = operation.files_before - len(snapshots)
            operation = replace(
                operation, files_after=left, expired=len(snapshots), files_marked=len(expired.files)
            )
            self.listen(SnapshotsExpired(operation.table, len(snapshots), len(expired.files)))
            self.follower.suspects.add(operation.table.name)
        elif outcome.kind is OutcomeKind.FAILED:
            self.ledger.drop_marks(job_id)
        self._ended(operation, outcome)
        return True

    def sweep(self) -> None:
        """Delete files whose grace is over, a batch at a time.

        Those of tables that moved away wait for their return, those of halted and paused ones for a person.
        """
        if self.ledger.deletions_held() is not None:
            return
        for uuid, paths in self.ledger.due_deletions(self.now_ms(), DELETE_BATCH).items():
            row, tenure = self.fold.table(uuid), self.events.tenure(uuid)
            if row is None or tenure is None or self.holds.stops(uuid) is not None:
                continue
            if self._moved(uuid, tenure) is not None:
                continue
            try:
                loaded = self.catalog.load(row.state.table.name)
                if loaded.table.uuid != uuid:
                    continue
                gone, kept = self.maintainer.delete(loaded, paths, self.ledger.expired(uuid))
            except (Unavailable, TableMissing, OSError) as err:
                self.listen(TrySoon(f"deleting files of {row.state.table}", str(err)))
                continue
            with self.ledger.transaction():
                self.ledger.deleted(uuid, gone, "deleted", self.now_ms())
                self.ledger.deleted(uuid, kept, "kept", self.now_ms())
            self.listen(FilesDeleted(row.state.table, len(gone), len(kept)))
