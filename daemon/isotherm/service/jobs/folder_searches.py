"""Searches of tables' folders for what nothing needs, from request to outcome: old versions of metadata, and orphans.

A search reads beside the loop and changes nothing. What it finds is marked, and goes the way of every deletion
(`deletions`), or is only counted, where the policy says so. A search that a restart has ended is begun again, after a
pause that grows where it is ended so time and again.
"""

import uuid as uuids
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from isotherm.core.deletion import NOT_OURS, Cause, Mark, Seen
from isotherm.core.model.decisions import Request
from isotherm.core.model.jobs import Action, Outcome, OutcomeKind
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.observations import FolderSearched
from isotherm.core.orphan_findings import GRACE_MS, Found, Refused, finding_text, quarantine_text, too_many
from isotherm.core.planner.view import Flight
from isotherm.core.policy.policy import Mode, Policy
from isotherm.core.units import span_text
from isotherm.service.clocks import Clocks
from isotherm.service.jobs.deletions import Deletions, age_ms
from isotherm.service.jobs.expiries import MARKED_AT_ONCE
from isotherm.service.jobs.graces import together_ms
from isotherm.service.jobs.neighbours import neighbours_of
from isotherm.service.jobs.operations import Operations, begun
from isotherm.service.jobs.table_ownership import MOVED, Owned
from isotherm.service.ports import Catalog, EventSource, Listener, LoadedTable, Maintainer, Search
from isotherm.service.rounds.verdicts import Verdicts
from isotherm.service.survey import place
from isotherm.service.tables.failing_tables import Barrier
from isotherm.service.topics.holds import Holds
from isotherm.store.fold import Fold, TableRow
from isotherm.store.ledger import Ledger, Operation

CAUSES = {Action.TRIM_METADATA: Cause.OLD_VERSION, Action.REMOVE_ORPHANS: Cause.ORPHAN}
"""What each of these actions looks for."""
KNOWN_AT_ONCE = 20_000
"""Files in quarantine of which the ledger tells together, in a twentieth of a second."""
REST = 4
"""Times as long as a search took, until the next one begins: a fifth of the time, however many tables there are."""
REST_AT_MOST_S = 600.0


@dataclass(frozen=True, slots=True)
class _Searching:
    operation: Operation
    tenure: int | None
    """That of its table under which it began."""
    policy: Policy
    began_s: float
    seen: Seen | None
    """How far the table had come; None where its format has no sequence numbers, which would show that it went back."""
    is_of_quarantine: bool = False
    """Whether nothing but the table's quarantine is listed: then it is no operation, and nobody is told of its end."""


@dataclass(slots=True, kw_only=True)
class Searches:
    """The searches of this daemon: one at a time."""

    fold: Fold
    ledger: Ledger
    events: EventSource
    catalog: Catalog
    maintainer: Maintainer
    verdicts: Verdicts
    holds: Holds
    owned: Owned
    deletions: Deletions
    clocks: Clocks
    operations: Operations
    barrier: Barrier
    listen: Listener
    now_ms: Callable[[], int]
    monotonic_s: Callable[[], float]
    _running: dict[str, _Searching] = field(default_factory=dict)
    """By job id; one at most."""
    _preparing: tuple[str, LoadedTable, Search, list[str]] | None = None
    """The search that begins when the ledger has told what is in quarantine, and what it has told so far."""
    _marking: tuple[str, Found, int] | None = None
    """The search whose findings are marked, and how many of them are."""
    _comparing: tuple[str, Iterator[None], Found | Refusal] | None = None
    """The search whose quarantine is held against the ledger, what is left of that, and how the search ends."""
    _next_s: float = float("-inf")

    def __len__(self) -> int:
        return len(self._running)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._running

    @property
    def has_room(self) -> bool:
        """Whether another one may begin."""
        return not self._running and self.monotonic_s() >= self._next_s

    def flights(self, uuid: str) -> tuple[Flight, ...]:
        """The searches of one table that run."""
        return tuple(
            Flight(one.job_id, one.action, None, one.base_snapshot_id, one.started_at_ms)
            for searching in self._running.values()
            if (one := searching.operation).table.uuid == uuid and not searching.is_of_quarantine
        )

    def begin(self, request: Request) -> bool:
        """Begin to search; whether it began.

        Raises:
            Unavailable: the catalog, or the store, does not answer.
            TableMissing: there is no such table now.
        """
        return self._begin(
            request.table.uuid,
            request.decision.action,
            lambda row, head, policy: begun(request, row, head, policy.hash, self.now_ms()),
        )

    def list_quarantine(self, uuid: str) -> bool:
        """Begin to list a table's quarantine, and nothing else; whether it began. Raises as `begin`.

        It is held against what the ledger knows, as by a search that is refused.
        """

        def listing(row: TableRow, head: int, policy: Policy) -> Operation:
            job_id, table, why = str(uuids.uuid4()), row.state.table, "to list its quarantine"
            return Operation(
                job_id, table, Action.REMOVE_ORPHANS, None, "", why, policy.hash, head, self.now_ms()
            )

        return self._begin(uuid, Action.REMOVE_ORPHANS, listing, is_of_quarantine=True)

    def _begin(
        self,
        uuid: str,
        action: Action,
        begun_on: Callable[[TableRow, int, Policy], Operation],
        *,
        is_of_quarantine: bool = False,
    ) -> bool:
        row = self.fold.table(uuid)
        resolved = None if row is None else self.verdicts.policy_of(row)
        if row is None or resolved is None or row.state.head is None or not self.has_room:
            return False
        loaded = self.catalog.load(row.state.table.name)
        if loaded.table.uuid != uuid or self.clocks.check(loaded) is not None:
            return False
        place(self.ledger, loaded)
        self.ledger.see(uuid, loaded.seen_through, self.now_ms())
        search = search_of(
            self.ledger, loaded, action, resolved.policy, self.deletions.also_under, self.now_ms()
        )
        if search is None:
            return False
        operation = begun_on(row, row.state.head, resolved.policy)
        if is_of_quarantine:
            search = replace(search, cause=Cause.QUARANTINED)
        else:
            self.ledger.save(operation)
        seen = Seen(row.state.head, loaded.seen_through) if loaded.seen_through else None
        self._running[operation.job_id] = _Searching(
            operation, self.events.tenure(uuid), resolved.policy, self.monotonic_s(), seen, is_of_quarantine
        )
        self._preparing = operation.job_id, loaded, search, []
        self._prepare()
        return True

    def _prepare(self) -> None:
        """Have the ledger tell what is in quarantine, a slice at a time, and begin the search."""
        if self._preparing is None:
            return
        job_id, loaded, search, places = self._preparing
        if search.cause is not Cause.OLD_VERSION:
            last = places[-1] if places else ""
            known = self.ledger.files_in_quarantine(search.uuid, last, KNOWN_AT_ONCE)
            places.extend(one.place for one in known)
            if len(known) == KNOWN_AT_ONCE:
                return
        self._preparing = None
        self.maintainer.start_search(loaded, job_id, replace(search, quarantined=frozenset(places)))

    def finish(self) -> None:
        """Take over what was found, and mark some of it."""
        if self._preparing is not None:
            with self._ending(self._preparing[0]):
                self._prepare()
        for job_id, result in self.maintainer.searched():
            if job_id in self._running:
                with self._ending(job_id):
                    self._take_found(job_id, result)
        if self._marking is not None:
            with self._ending(self._marking[0]):
                self._mark()
        elif self._comparing is not None:
            with self._ending(self._comparing[0]):
                self._compare()

    @contextmanager
    def _ending(self, job_id: str) -> Iterator[None]:
        """The barrier around the end of a search.

        Where that goes wrong it is let go, else no other would ever begin: the next round finds it in the ledger.
        """
        operation, went_well = self._running[job_id].operation, False
        with self.barrier.around(operation.table.name, f"ending job {job_id}", job_id):
            yield
            went_well = True
        if not went_well:
            self._running.pop(job_id, None)
            self._preparing = self._marking = self._comparing = None

    def _take_found(self, job_id: str, result: Found | Refused) -> None:
        """Take over what was found; where nothing comes of it, that is the end."""
        searching = self._running[job_id]
        took_s = self.monotonic_s() - searching.began_s
        self._next_s = self.monotonic_s() + min(REST * took_s, REST_AT_MOST_S)
        self.fold.touch_whole(searching.operation.table.uuid)
        if isinstance(result, Refused) and result.strangers:
            self.deletions.survey.want_holders(result.strangers, searching.operation.table.uuid)
        against = self._unbelieved(searching, result)
        if against is not None:
            self._look_into_quarantine(job_id, result, against)
        elif isinstance(result, Found):
            self._marking = job_id, result, 0

    def cancel_moved(self) -> None:
        """Cancel the search of a table that this daemon has not had without a break, or that is held back."""
        for job_id, searching in list(self._running.items()):
            uuid = searching.operation.table.uuid
            if not self.owned.has_still(uuid, searching.tenure):
                self._cancel(job_id, Refusal(Reason.OWNER, MOVED))
            elif (stopped := self.holds.stops(uuid)) is not None:
                self._cancel(job_id, stopped)

    def stop(self) -> None:
        """Cancel what runs."""
        for job_id in list(self._running):
            self._cancel(job_id, Refusal(Reason.STOPPED, "the daemon was stopped"))

    def settle(self, operation: Operation) -> bool:
        """A search that a restart has ended is over: what it marked by then waits for its proof. Returns True.

        The daemon may have died of it. So it counts as a failure, and the next one waits, each time longer; else the daemon
        would die of it again as soon as it is back. One that the daemon has stopped itself is over already.
        """
        crashed = Refusal(Reason.CRASHED, "the daemon ended while it ran, or its end went wrong")
        self.operations.end(operation, Outcome.refused(operation.job_id, crashed))
        return True

    def _unbelieved(self, searching: _Searching, found: Found | Refused) -> Refusal | None:
        """Why nothing comes of what was found, or None."""
        if not isinstance(found, Found):
            return found.refusal
        policy = searching.policy
        if searching.operation.action is not Action.REMOVE_ORPHANS or not policy.orphans.mode.takes_away:
            return None
        why = too_many(found, policy.orphans.max_share)
        if why is not None:
            # What expired waits there too, and is no surprise. So many are counted only where it matters.
            uuid = searching.operation.table.uuid
            waiting = self.ledger.waiting_among(uuid, (one.path for one in found.orphans))
            why = too_many(replace(found, files=found.files - waiting), policy.orphans.max_share)
        return None if why is None else Refusal(Reason.ORPHANS, why)

    def _mark(self) -> None:
        """Mark some of what was found; where all of it is marked, or nothing is to be, the search is done."""
        if self._marking is None:
            return
        job_id, found, marked = self._marking
        operation = self._running[job_id].operation
        uuid, cause = operation.table.uuid, CAUSES[operation.action]
        may_go = self.deletions.why_not(uuid, cause) is None and self._running[job_id].seen is not None
        some = found.orphans[marked : marked + MARKED_AT_ONCE] if may_go else ()
        if some:
            now_ms = self.now_ms()
            marks = [Mark(one.path, job_id, cause, self._running[job_id].seen) for one in some]
            due_at_ms = together_ms(uuid, now_ms, GRACE_MS)
            count = self.ledger.mark_found(uuid, job_id, marks, now_ms, due_at_ms)
            self._running[job_id] = replace(
                self._running[job_id],
                operation=replace(operation, files_marked=operation.files_marked + count),
            )
            self._marking = job_id, found, marked + len(some)
            return
        self._marking = None
        self._look_into_quarantine(job_id, found, found)

    def _look_into_quarantine(self, job_id: str, result: Found | Refused, end: Found | Refusal) -> None:
        """Hold what is in quarantine against the ledger, whatever becomes of what was found, and end the search so."""
        searching = self._running[job_id]
        operation = searching.operation
        steps: Iterator[None] = iter(())
        is_of_orphans = CAUSES[operation.action] is Cause.ORPHAN
        if is_of_orphans and self.deletions.why_not(operation.table.uuid, Cause.QUARANTINED) is None:
            steps = self.deletions.quarantine.compare(
                operation, result, searching.seen, searching.policy, self.now_ms()
            )
        self._comparing = job_id, steps, end
        self._compare()

    def _compare(self) -> None:
        """Go on with that, a little."""
        if self._comparing is None:
            return
        job_id, steps, end = self._comparing
        with suppress(StopIteration):
            next(steps)
            return
        self._comparing = None
        self._end(job_id, end)

    def _end(self, job_id: str, result: Found | Refusal) -> None:
        searching = self._running.pop(job_id)
        operation = searching.operation
        if searching.is_of_quarantine:
            return
        if isinstance(result, Refusal):
            self.operations.end(operation, Outcome.refused(job_id, result))
            return
        self.deletions.look_for_holders(operation.table.uuid, result.held)
        operation = replace(operation, files_before=result.listed)
        self.listen(
            FolderSearched(
                operation.table,
                operation.action,
                result.listed,
                result.files,
                result.bytes,
                operation.files_marked,
                result.orphans[0].path if result.orphans else "",
            )
        )
        why = _outcome_text(operation, result, searching.policy, searching.seen)
        self.operations.end(operation, Outcome(job_id, OutcomeKind.DONE, Reason.COMMITTED, why))

    def _cancel(self, job_id: str, refusal: Refusal) -> None:
        if self._marking is not None and self._marking[0] == job_id:
            self._marking = None
        self._preparing = self._comparing = None
        self.maintainer.cancel(job_id)
        self._end(job_id, refusal)


def search_of(
    ledger: Ledger,
    loaded: LoadedTable,
    action: Action,
    policy: Policy,
    also_under: Sequence[str],
    now_ms: int,
) -> Search | None:
    """What an action looks for in a table's folders, but for what is in quarantine. None where no daemon has seen yet where the
    table lies.
    """
    uuid = loaded.table.uuid
    home = ledger.home(uuid)
    if home is None:
        return None
    cause, neighbours = CAUSES[action], neighbours_of(ledger, loaded, also_under)
    seen_through = max(loaded.seen_through, ledger.seen_through(uuid))
    before_ms = now_ms - age_ms(cause, policy)
    return Search(
        uuid,
        cause,
        home,
        neighbours,
        before_ms,
        policy.metadata.keep_last,
        seen_through,
        ledger.gone(),
        ledger.kept_because(uuid, cause, NOT_OURS),
    )


def _outcome_text(operation: Operation, found: Found, policy: Policy, seen: Seen | None) -> str:
    age = span_text(age_ms(CAUSES[operation.action], policy))
    if operation.action is Action.TRIM_METADATA:
        said = finding_text(found, f"are versions that the table does not name any more, older than {age}")
    else:
        said = finding_text(found, f"are reached by nothing and older than {age}") + quarantine_text(found)
    if operation.action is Action.REMOVE_ORPHANS and not policy.orphans.mode.takes_away:
        return f"{said}; nothing is deleted (orphans.mode: {policy.orphans.mode})"
    if seen is None:
        return (
            f"{said}; nothing is deleted: with format 1 nothing would show that the table's history went back"
        )
    goes = "go"
    if operation.action is Action.REMOVE_ORPHANS and policy.orphans.mode is Mode.QUARANTINE:
        goes = "are moved into quarantine"
    return f"{said}; {operation.files_marked} are marked, and {goes} after {span_text(GRACE_MS)} if they are still so"
