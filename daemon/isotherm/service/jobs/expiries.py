"""Expiries from request to outcome: read beside the loop, marked, committed, written down.

An expiry stands in the ledger before it begins. What it leaves without a reader is found out beside the loop, which may
take minutes; so is the commit itself, which asks before each request. The files are marked before that, and wait for
their grace after it (`deletions`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from isotherm.core.deletion import Cause, Mark
from isotherm.core.model.decisions import Request
from isotherm.core.model.jobs import Action, Outcome, OutcomeKind
from isotherm.core.model.outside import Outside
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.observations import SnapshotsExpired, TrySoon
from isotherm.core.planner.view import Flight
from isotherm.core.policy.policy import Policy
from isotherm.service.clocks import Clocks
from isotherm.service.jobs.deletions import Deletions
from isotherm.service.jobs.graces import together_ms
from isotherm.service.jobs.last_look import DRAIN_TIMEOUT_S
from isotherm.service.jobs.operations import LATE_MS, Operations, begun
from isotherm.service.jobs.outdated_expiries import may_not_clean, outdated
from isotherm.service.jobs.table_ownership import MOVED, Owned
from isotherm.service.ports import (
    Catalog,
    EventSource,
    Expired,
    ExpiryReading,
    Listener,
    LoadedTable,
    Maintainer,
)
from isotherm.service.rounds.verdicts import Verdicts
from isotherm.service.tables.confirm_heads import Follower
from isotherm.service.tables.failing_tables import Barrier
from isotherm.service.topics.holds import Holds
from isotherm.service.topics.readers import Readers
from isotherm.store.fold import Fold
from isotherm.store.ledger import Ledger, Operation

AT_ONCE = 4
"""Expiries that are read for, or wait for it: each holds its table's whole metadata."""
MARKED_AT_ONCE = 5000
"""Files that are marked together, in some fifty milliseconds; an expiry may have a million."""
UNSEEN_VERSIONS = (
    "its files stay for orphan removal (`orphans.mode: apply`), because the catalog names no versions of before "
    "(metadata-log), or they cannot be read: so nobody can say whether a tag came meanwhile and was dropped"
)
"""Some servers of REST keep no metadata-log. Then this is so after each expiry."""


@dataclass(slots=True, kw_only=True)
class Expiries:
    """The expiries of this daemon."""

    fold: Fold
    ledger: Ledger
    events: EventSource
    catalog: Catalog
    maintainer: Maintainer
    follower: Follower
    verdicts: Verdicts
    holds: Holds
    readers: Readers
    owned: Owned
    deletions: Deletions
    clocks: Clocks
    operations: Operations
    barrier: Barrier
    listen: Listener
    now_ms: Callable[[], int]
    _running: dict[str, tuple[Operation, int | None]] = field(default_factory=dict)
    """By job id: the expiry that is read or marked for, and the tenure of its table under which that began."""
    _marking: dict[str, tuple[ExpiryReading, int]] = field(default_factory=dict)
    """By job id: what was read for an expiry, and how many of its files are marked; one after another."""
    _sent: tuple[str, ExpiryReading] | None = None
    """The id of the job whose request is under way, and what was read for it."""

    def __len__(self) -> int:
        return len(self._running)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._running

    @property
    def has_room(self) -> bool:
        """Whether another one may begin."""
        return len(self._running) < AT_ONCE

    def flights(self, uuid: str) -> tuple[Flight, ...]:
        """The expiries of one table that run."""
        return tuple(
            Flight(op.job_id, op.action, None, op.base_snapshot_id, op.started_at_ms)
            for op, _ in self._running.values()
            if op.table.uuid == uuid
        )

    def begin(self, request: Request) -> bool:
        """Begin to read what an expiry would leave without a reader; whether it began.

        Raises:
            Unavailable: the catalog does not answer.
            TableMissing: there is no such table now.
        """
        uuid = request.table.uuid
        if not self.has_room or self.ledger.is_open(uuid, Action.EXPIRE) or self.ledger.is_settling(uuid):
            # One whose end nobody knows may land yet, and has marked the same files.
            return False
        row = self.fold.table(uuid)
        resolved = None if row is None else self.verdicts.policy_of(row)
        if row is None or resolved is None or row.state.head is None:
            return False
        operation = begun(request, row, row.state.head, resolved.policy.hash, self.now_ms())
        operation = replace(operation, files_before=row.facts.snapshots)
        loaded = self.catalog.load(row.state.table.name)
        if loaded.table.uuid != operation.table.uuid or self.clocks.check(loaded) is not None:
            return False
        self.ledger.save(operation)
        self._running[operation.job_id] = (operation, self.events.tenure(operation.table.uuid))
        cleans = resolved.policy.expire.clean_expired_metadata
        self.maintainer.start_reading(loaded, operation.job_id, request.snapshots, cleans=cleans)
        return True

    def finish(self) -> None:
        """Mark some files of the expiries for which everything is read; commit where all are marked.

        A commit is made beside the loop. The loop waits for it for a moment in each turn, to answer what it asks.
        """
        for job_id, reading in self.maintainer.read():
            if job_id in self._running:
                with self._ending(self._running[job_id][0]):
                    self._take_read(job_id, reading)
        if self._sent is not None and not self._go_on(self._last_look):
            return
        if self._marking:
            job_id = next(iter(self._marking))
            with self._ending(self._running[job_id][0]):
                self._mark(job_id)

    @contextmanager
    def _ending(self, operation: Operation) -> Iterator[None]:
        """The barrier around the end of an expiry.

        Where that goes wrong it is let go, else all others would wait behind it: the next round finds it in the ledger.
        One whose request may be under way goes on.
        """
        job_id, went_well = operation.job_id, False
        with self.barrier.around(operation.table.name, f"ending job {job_id}", job_id):
            yield
            went_well = True
        if not went_well and (self._sent is None or self._sent[0] != job_id):
            self._running.pop(job_id, None)
            self._marking.pop(job_id, None)

    def _take_read(self, job_id: str, reading: ExpiryReading | Refusal) -> None:
        """Take over what was read; where there is nothing to expire, that is the end."""
        operation, _ = self._running[job_id]
        # Whatever it came to: the table's verdict is made again.
        self.fold.touch_whole(operation.table.uuid)
        if isinstance(reading, Refusal):
            del self._running[job_id]
            self._failed(operation, reading)
        elif not reading.snapshots and not reading.refs:
            del self._running[job_id]
            self._failed(operation, Refusal(Reason.STALE, "nothing of the plan may go any more"))
        else:
            self._marking[job_id] = (reading, 0)

    def _mark(self, job_id: str) -> None:
        """Mark some files of an expiry; where all are marked, begin its commit."""
        if not self.operations.may_commit(Action.EXPIRE, job_id):
            return
        reading, marked = self._marking[job_id]
        operation, _ = self._running[job_id]
        end = marked + MARKED_AT_ONCE
        marks = [Mark(path, job_id, Cause.EXPIRED, reading.seen) for path in reading.files[marked:end]]
        snapshots = () if marked else reading.snapshots
        self.ledger.mark(operation.table.uuid, job_id, marks, self.now_ms(), snapshots=snapshots)
        if end < len(reading.files):
            self._marking[job_id] = (reading, end)
            return
        del self._marking[job_id]
        if self._send(job_id, reading):
            self._go_on(self._last_look)

    def cancel_moved(self) -> None:
        """Cancel the expiries of tables that this daemon has not had without a break, or that are held back."""
        for job_id, (operation, tenure) in list(self._running.items()):
            uuid = operation.table.uuid
            if not self.owned.has_still(uuid, tenure):
                self._cancel(job_id, Refusal(Reason.OWNER, MOVED))
            elif (stopped := self.holds.stops(uuid)) is not None:
                self._cancel(job_id, stopped)

    def stop(self) -> None:
        """Cancel everything that is read, and send nothing more."""
        stopped = Refusal(Reason.STOPPED, "the daemon was stopped")
        self._go_on(lambda *_: stopped)
        for job_id in list(self._running):
            self._cancel(job_id, stopped)

    def settle(self, operation: Operation) -> bool:
        """Were the snapshots of an expiry that was left open really taken? Then their files may go after the grace.

        Gives whether that is known now.

        Raises:
            Unavailable: the catalog does not answer.
            TableMissing: there is no such table now, which says nothing.
        """
        wanted = self.ledger.expired_by(operation.job_id)
        row = self.fold.table(operation.table.uuid)
        loaded = self.catalog.load(operation.table.name if row is None else row.state.table.name)
        if loaded.table.uuid != operation.table.uuid:
            return False
        if wanted and not set(wanted) & set(loaded.snapshots):
            if row is None:
                return False  # the grace of its files is the policy's, which is not known before the table is
            lost = self.maintainer.lost_refs(operation.job_id, loaded, operation.base_metadata, wanted)
            operation = replace(operation, files_marked=self.ledger.marked_by(operation.job_id))
            why = "found in the table afterwards"
            self._landed(
                operation, wanted, lost, Outcome(operation.job_id, OutcomeKind.DONE, Reason.COMMITTED, why)
            )
            return True
        # The request asserts the head that it saw. If the table has gone on from there, it is refused, however late it
        # comes; should somebody roll back to that very head before, it leaves orphans. A head from before says nothing:
        # a replica that lags shows it. Where the catalog is only a pointer, our own thread looks at the table again.
        has_gone_on = operation.asserted_head_id in loaded.ancestors()[1:]
        may_land = not has_gone_on or self.maintainer.is_expiring(operation.job_id)
        is_young = self.now_ms() - operation.unheard_since_ms < LATE_MS
        if wanted and operation.base_metadata and may_land and is_young:
            return False  # it may be on its way yet
        why = f"the daemon ended while it ran, or got no answer ({operation.outcome_why or 'none'})"
        # Where branches and tags alone were to go, nothing waits for it: no file is deleted for that, however late it lands.
        why += (
            ", and the table has the snapshots"
            if wanted
            else ": what is past its age goes later, if it has not"
        )
        self._failed(operation, Refusal(Reason.CANCELLED, why))
        return True

    def _send(self, job_id: str, reading: ExpiryReading) -> bool:
        """Begin to expire. Returns whether it began."""
        operation, tenure = self._running[job_id]
        if (against := self._against(operation.table.uuid, tenure)) is not None:
            del self._running[job_id]
            self._failed(operation, against)
            return False
        row = self.fold.table(operation.table.uuid)
        self.maintainer.start_expiring(operation.table if row is None else row.state.table, reading, job_id)
        self._sent = job_id, reading
        return True

    def _go_on(self, may_send: Callable[[LoadedTable, bool], Refusal | None]) -> bool:
        """Go on with the expiry whose request is under way. Returns whether it is over."""
        if self._sent is None:
            return True
        job_id, reading = self._sent
        operation, _ = self._running[job_id]
        row = self.fold.table(operation.table.uuid)
        name = operation.table.name if row is None else row.state.table.name
        result = self.maintainer.expired(name, may_send)
        if result is None:
            return False
        operation, _ = self._running.pop(job_id)
        self._sent = None
        with self._ending(operation):
            self._ended(operation, reading, name, result)
        return True

    def _last_look(self, loaded: LoadedTable, is_done: bool) -> Refusal | None:
        """Look at everything once more, and write down that the request goes out. Returns why it must not, or None.

        `is_done`: the snapshots are gone, and what follows takes schemas and specs alone. That is not written down: what is
        there says which version of the table the snapshots left.
        """
        if self._sent is None:
            raise RuntimeError("no expiry is under way")
        job_id, reading = self._sent
        operation, tenure = self._running[job_id]
        # While it was read for, which takes minutes, somebody may have paused the table, or rolled it back.
        if not (self.holds.refresh(DRAIN_TIMEOUT_S) and self.readers.refresh(DRAIN_TIMEOUT_S)):
            why = f"what is held back, or who reads what, could not be read within {DRAIN_TIMEOUT_S:.0f}s"
            return Refusal(Reason.TOPIC, why)
        self.follower.confirm_loaded(loaded)
        row = self.fold.table(operation.table.uuid)
        against = self._against(operation.table.uuid, tenure)
        if is_done:
            return against or may_not_clean(row, self.verdicts) or self.owned.act()
        against = against or outdated(reading.snapshots, row, self.verdicts, self.now_ms())
        if against is not None:
            return against
        operation = replace(
            operation,
            base_metadata=loaded.metadata_location,
            asserted_head_id=loaded.head,
            sent_at_ms=self.now_ms(),
        )
        self._running[job_id] = operation, tenure
        self.ledger.save(operation)
        return self.owned.act()

    def _ended(
        self, operation: Operation, reading: ExpiryReading, name: str, result: Expired | BaseException
    ) -> None:
        """What an expiry came to. Where nobody knows, its files stay marked until somebody does."""
        if isinstance(result, TimeoutError):
            why = f"the catalog did not answer: {result}"
            unknown = Outcome(operation.job_id, OutcomeKind.UNKNOWN, Reason.NO_ANSWER, why, was_sent=True)
            result = Expired(unknown)
        if isinstance(result, BaseException):
            raise result
        outcome = result.outcome
        if outcome.kind is OutcomeKind.DONE:
            operation = replace(operation, files_marked=len(reading.files))
            cleaned = result.schemas, result.specs
            self._landed(operation, reading.snapshots, result.lost_refs, outcome, *cleaned)
            self.follower.suspects.add(name)
            return
        # Where it failed, and a request lands after all, its files stay as orphans.
        is_failed = outcome.kind is OutcomeKind.FAILED
        self.operations.end(operation, outcome, settle_marks=self._dropped(operation) if is_failed else None)

    def _against(self, uuid: str, tenure: int | None) -> Refusal | None:
        """Why nothing may be expired now, or None."""
        if (moved := self.owned.moved(uuid, tenure)) is not None:
            return moved
        if (stopped := self.holds.stops(uuid)) is not None:
            return stopped
        if (against := self.deletions.why_not(uuid, Cause.EXPIRED)) is not None:
            return Refusal(Reason.POLICY, against)
        return None

    def _landed(
        self,
        operation: Operation,
        taken: Sequence[int],
        lost: Sequence[str] | None,
        outcome: Outcome,
        schemas: int = 0,
        specs: int = 0,
    ) -> None:
        """The snapshots are gone: their files may go after the grace, unless somebody had just named one of them."""
        if lost is None:
            # A tag may have been dropped, and probably none was: the files stay for orphan removal.
            settle_marks = self._dropped(operation)
            outcome = replace(outcome, why=f"{outcome.why}; {UNSEEN_VERSIONS}")
            self.listen(TrySoon(f"tags of {operation.table}", UNSEEN_VERSIONS, Outside.TABLE))
        elif lost:
            # First the halt: what a crash leaves then is marks that nobody confirms.
            self._halt_for(operation, lost)
            settle_marks = self._dropped(operation)
        else:
            due_at_ms = together_ms(operation.table.uuid, self.now_ms(), self._grace_ms(operation))
            settle_marks = partial(self.ledger.confirm_marks, operation.job_id, due_at_ms)
        count = len(taken)
        operation = replace(operation, files_after=max(operation.files_before - count, 0), expired=count)
        self.listen(SnapshotsExpired(operation.table, count, operation.files_marked, schemas, specs))
        self.operations.end(operation, outcome, settle_marks=settle_marks)

    def _halt_for(self, operation: Operation, lost: Sequence[str]) -> None:
        why = (
            f"made while snapshots expired, and dropped with them by the catalog: {', '.join(lost)}; no file was "
            "deleted: make them again from the named metadata, then resume"
        )
        self.holds.halt(operation.table, Refusal(Reason.LOST_REFS, why))

    def _grace_ms(self, operation: Operation) -> int:
        return int((self._policy(operation.table.uuid) or Policy()).expire.delete_after)

    def _policy(self, uuid: str) -> Policy | None:
        row = self.fold.table(uuid)
        resolved = None if row is None else self.verdicts.policy_of(row)
        return None if resolved is None else resolved.policy

    def _cancel(self, job_id: str, refusal: Refusal) -> None:
        if self._sent is not None and self._sent[0] == job_id:
            return  # its request may be on its way; before the next one the last look finds the same
        operation, _ = self._running.pop(job_id)
        self._marking.pop(job_id, None)
        with self.barrier.around(operation.table.name, f"cancelling job {job_id}", job_id):
            self.maintainer.cancel(job_id)
            self._failed(operation, refusal)

    def _failed(self, operation: Operation, refusal: Refusal) -> None:
        outcome = Outcome.refused(operation.job_id, refusal)
        self.operations.end(operation, outcome, settle_marks=self._dropped(operation))

    def _dropped(self, operation: Operation) -> Callable[[], None]:
        """Give back what an expiry has marked, once it is known that it comes to nothing, or must not count."""
        return partial(self.ledger.drop_marks, operation.job_id)
