"""Deletions as the service does them: what is marked, when it is looked at again, and what came of it.

`core.deletion` decides whether a file may go; the maintainer proves it and deletes, beside the loop. This module knows
what the daemon knows (its ledger, clocks, group, halts, policies). Tables take turns: one that waits for a person, or
whose files cannot be deleted, is passed over.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from isotherm.contract.identity import TableId
from isotherm.contract.paths import folder, in_all_spellings
from isotherm.core.deletion import (
    FOUND,
    LEFTOVER_GRACE_MS,
    Cause,
    Mark,
    Neighbours,
    Seen,
    held_by,
    is_gc_enabled,
    may_go_at_once,
)
from isotherm.core.deletion_obstacles import Standing, obstacle
from isotherm.core.model.jobs import CompactionJob, Rewrite
from isotherm.core.model.outside import Outside
from isotherm.core.observations import FilesDeleted, FilesRestored, TrySoon
from isotherm.core.policy.kept_longer import keeps_longer
from isotherm.core.policy.policy import Policy
from isotherm.service.clocks import Clocks
from isotherm.service.jobs.late_files import LateFiles
from isotherm.service.jobs.neighbours import neighbours_of
from isotherm.service.jobs.quarantine import Quarantine
from isotherm.service.jobs.table_ownership import Owned
from isotherm.service.ports import (
    Catalog,
    EventSource,
    Listener,
    LoadedTable,
    Maintainer,
    Sweep,
    Swept,
    TableMissing,
    Unavailable,
)
from isotherm.service.rounds.verdicts import Verdicts
from isotherm.service.survey import Survey, place
from isotherm.service.tables.failing_tables import Barrier
from isotherm.service.topics.holds import Holds
from isotherm.store.fold import Fold, TableRow
from isotherm.store.ledger import CLOCK, Ledger

FILES_AT_ONCE = 10_000
"""Files of one table that are proved and deleted together: a minute at 30 ms a file, so that no table keeps the others
waiting for long. The proof reads the whole table, so there should be few."""
TABLES_AT_ONCE = 50
"""Tables that one round looks at in search of one whose files may go."""
SEARCH_FOR_S = 2.0
"""For so long at most: each of them may come slowly, and be another table by now."""
BY_AGE = FOUND - {Cause.QUARANTINED}
"""What was found must be so old by the store. When a file came into quarantine the ledger knows."""
GIVEN_UP_AFTER_MS = 28 * 86_400_000
"""Files of a table that was dropped, or moved to another daemon, wait so long for its return."""


@dataclass(frozen=True, slots=True)
class _Sweeping:
    """A table whose files are being deleted."""

    tenure: int | None
    """That under which it began."""
    causes: frozenset[Cause]
    """Why the files are wanted gone."""
    policy: Policy | None
    """By which they go."""
    began_ms: int
    """When it began, by a clock that was believed: it may jump while the sweep is under way."""
    began_s: float


@dataclass(slots=True, kw_only=True)
class Deletions:
    """The deletions of this daemon."""

    fold: Fold
    ledger: Ledger
    events: EventSource
    catalog: Catalog
    maintainer: Maintainer
    verdicts: Verdicts
    holds: Holds
    owned: Owned
    barrier: Barrier
    survey: Survey
    clocks: Clocks
    listen: Listener
    now_ms: Callable[[], int]
    monotonic_s: Callable[[], float]
    also_under: Sequence[str] = ()
    """Folders outside of tables' locations in which the operator lets us delete."""
    may_sweep: bool = False
    """Whether the last round could read what is held back: until the next one, a table follows on another."""
    _sweeping: dict[str, _Sweeping] = field(default_factory=dict)
    """By uuid of the table."""
    _last: str = ""
    """The table whose turn was last."""
    _late: LateFiles = field(init=False)
    quarantine: Quarantine = field(init=False)

    def __post_init__(self) -> None:
        self._late = LateFiles(self.ledger, self.survey, self.listen, self.now_ms)
        self.quarantine = Quarantine(self.ledger, self.listen, self.monotonic_s)
        # Those of the daemon before: this one has looked at nothing yet.
        for name in self.ledger.obstacles():
            self.ledger.note_obstacle(name, None)

    def turn(self) -> None:
        """Look at this machine's clocks, and save what sweeps came to."""
        self.ledger.settle_marks()
        self.clocks.turn()
        self.ledger.note_obstacle(CLOCK, self.clocks.trouble())
        for uuid, sweeping in self._sweeping.items():
            is_ours = self.owned.has_still(uuid, sweeping.tenure)
            may_go = all(self.why_not(uuid, cause) is None for cause in sweeping.causes)
            if not (is_ours and may_go) or self._keeps_longer(uuid, sweeping):
                self.maintainer.stop_sweep(uuid)
        swept_now = self.maintainer.swept()
        for swept in swept_now:
            sweeping_before = self._sweeping.pop(swept.uuid, None)
            self._save(swept, self.now_ms() if sweeping_before is None else self._time_of(sweeping_before))
        if (self.survey.turn() or swept_now) and self.may_sweep:
            self.sweep()

    def _time_of(self, sweeping: _Sweeping) -> int:
        """The time, by the clock that was believed when a sweep began."""
        return sweeping.began_ms + int((self.monotonic_s() - sweeping.began_s) * 1000)

    def _keeps_longer(self, uuid: str, sweeping: _Sweeping) -> bool:
        """Whether the policy keeps files longer by now than the one by which a sweep judges them."""
        row = self.fold.table(uuid)
        resolved = None if row is None else self.verdicts.policy_of(row)
        if resolved is None or sweeping.policy is None or resolved.policy is sweeping.policy:
            return False
        return keeps_longer(resolved.policy, sweeping.policy, sweeping.causes)

    def _save(self, swept: Swept, now_ms: int) -> None:
        """Write down what a sweep came to, and report it."""
        uuid, row = swept.uuid, self.fold.table(swept.uuid)
        purged = self.quarantine.save(swept, None if row is None else self.verdicts.policy_of(row), now_ms)
        with self.ledger.transaction():
            self.ledger.deleted(uuid, swept.gone, now_ms)
            whys = {path: f"{verdict.reason}: {verdict.why}" for path, verdict in swept.kept.items()}
            self.ledger.kept(uuid, whys, now_ms)
            self.ledger.postponed(uuid, swept.postponed, now_ms)
        if row is not None and swept.restored:
            self.listen(FilesRestored(row.state.table, len(swept.restored), swept.restored[0]))
        if row is None or not (swept.gone or swept.kept or swept.postponed or swept.moved):
            return
        self.listen(
            FilesDeleted(
                row.state.table,
                files=len(swept.gone),
                kept=len(swept.kept),
                postponed=len(swept.postponed),
                why=next(iter((*whys.values(), *swept.postponed.values())), ""),
                moved=len(swept.moved),
                purged=purged,
            )
        )

    def sweep(self) -> None:
        """Begin to delete files of the next table whose grace is over."""
        names = {uuid: name for uuid, name in self.fold.names().items() if self.events.owns(uuid)}
        self.quarantine.tell(names)
        if self.everywhere() is not None or self._sweeping:
            return
        due = self.ledger.tables_to_sweep(self.now_ms())
        waiting = [uuid for uuid in due if uuid in names and not self.barrier.is_aside(_key(uuid))]
        if not waiting or self.events.check_in() is not None:
            return
        in_turn = sorted(waiting, key=lambda one: (one <= self._last, one))
        seen_ms = (
            self.survey.seen_since_ms()
        )  # once for all of them: the catalog may have a hundred thousand names
        self._late.begin()
        until_s = self.monotonic_s() + SEARCH_FOR_S
        for uuid in in_turn[:TABLES_AT_ONCE]:
            self._last = uuid
            began = None
            with self.barrier.around(names[uuid], "deleting its files", _key(uuid)):
                began = self._sweep(uuid, seen_ms)
                self.barrier.forget(_key(uuid))
            if began is not False or self.monotonic_s() >= until_s:
                return  # the next round goes on behind it

    def give_up(self) -> bool:
        """Keep for good what was due weeks ago and is no longer ours to delete, a little; whether there was any."""
        if self.everywhere() is not None:
            return False
        now_ms, owned = self.now_ms(), self.fold.names()
        old = self.ledger.tables_to_sweep(now_ms - GIVEN_UP_AFTER_MS)
        theirs = [uuid for uuid in old if uuid not in owned or not self.events.owns(uuid)]
        why = "not_ours: its table was dropped, or another daemon's, for weeks; orphan removal finds it"
        for uuid in theirs[:TABLES_AT_ONCE]:
            kept = self.ledger.given_up(uuid, now_ms - GIVEN_UP_AFTER_MS, why, now_ms, FILES_AT_ONCE)
            name = owned.get(uuid) or self.ledger.name_of(uuid) or uuid
            self.listen(FilesDeleted(TableId(uuid, name), 0, kept, 0, why))
        return bool(theirs)

    def everywhere(self) -> str | None:
        """Why nothing of any table may be deleted now, or None."""
        return self.ledger.deletions_held() or self.clocks.trouble()

    def overdue_s(self) -> float:
        """For how long the file that waits longest might have gone; 0 where each one still has its grace."""
        due_at_ms = self.ledger.oldest_due_ms()
        return 0.0 if due_at_ms is None else max(self.now_ms() - due_at_ms, 0) / 1000

    def why_not(self, uuid: str, cause: Cause) -> str | None:
        """Why nothing of a table may be deleted now, or None. The broker is not asked."""
        row = self.fold.table(uuid)
        resolved = None if row is None else self.verdicts.policy_of(row)
        stopped = self.holds.stops(uuid)
        standing = Standing(
            ledger=self.ledger.deletions_held(),
            clock=self.clocks.trouble(),
            owner=None if self.events.owns(uuid) else "another daemon maintains the table",
            held=None if stopped is None else str(stopped),
            has_policy=resolved is not None,
            may_expire=resolved is not None and resolved.policy.expire.enabled,
            may_trim=resolved is not None and resolved.policy.metadata.enabled,
            may_remove_orphans=resolved is not None and resolved.policy.orphans.mode.takes_away,
            may_look_for_orphans=resolved is not None and resolved.looks_for_orphans,
        )
        return obstacle(standing, cause)

    def is_searched(self, uuid: str) -> bool:
        """Whether a search may look into a table's folders: of one with gc.enabled=false none does."""
        row = self.fold.table(uuid)
        return row is None or is_gc_enabled(row.facts.properties)

    def neighbours(self, loaded: LoadedTable) -> Neighbours:
        """Where files of a table may be deleted, and where all others lie."""
        return neighbours_of(self.ledger, loaded, self.also_under, self.survey.names())

    def look_for_holders(self, uuid: str, folders: Collection[str | None]) -> None:
        """Have the tables looked for whose folders these are: they hold back files of this one, and may be gone."""
        places = self.ledger.places({in_all_spellings(one) for one in folders if one}) if folders else ()
        self.survey.want_holders(
            {one.uuid for one in places if one.uuid != uuid and folder(one.location) in folders}, uuid
        )

    def leave(
        self, loaded: LoadedTable | None, job: CompactionJob, rewrite: Rewrite | None, *,
        others: Iterable[str], was_sent: bool,
    ) -> None:  # fmt: skip
        """What a failed job wrote: it goes at once where nothing ever named it, else it is marked.

        Args:
            loaded: the job's table, or None where it is not found: then everything stays where it is.
            job: the job.
            rewrite: what its executor wrote, or None where it did not get so far: then its files are looked for.
            others: manifests and manifest lists that were written for its commit.
            was_sent: whether a request of the job may have left this process, or one of its name before.
        """
        if loaded is None or loaded.table.uuid != job.table.uuid:
            return
        try:
            found = self.maintainer.leftovers(loaded, job) if rewrite is None else _paths(rewrite)
            paths = (*found, *others)
            # Noted before: whoever finds some of them gone knows of the others.
            self.mark_leftovers(job, paths)
            at_once = [path for path in paths if may_go_at_once(path, job.job_id, was_sent=was_sent)]
            failed = self.maintainer.delete_at_once(loaded, at_once[::-1]) if at_once else {}
        except (Unavailable, TableMissing) as err:
            # What stays is an orphan under a name that follows from the job id, nothing worse.
            self.listen(TrySoon(f"deleting what job {job.job_id} wrote", str(err), Outside.STORAGE))
            return
        gone = [path for path in at_once if path not in failed]
        self.ledger.deleted(job.table.uuid, gone, self.now_ms())

    def mark_leftovers(self, job: CompactionJob, paths: Sequence[str]) -> None:
        """Mark files that a job wrote and that, as far as is known, nothing needs."""
        if not paths:
            return
        # Its files did not exist before its base was the head.
        seen = Seen(job.base_snapshot_id, job.base_sequence_number) if job.base_sequence_number else None
        marks = [Mark(path, job.job_id, Cause.LEFTOVER, seen) for path in paths]
        now_ms = self.now_ms()
        self.ledger.mark(job.table.uuid, job.job_id, marks, now_ms, due_at_ms=now_ms + LEFTOVER_GRACE_MS)

    def stop(self) -> None:
        """Stop deleting; what was not saved is looked at again by the next daemon."""
        for uuid in self._sweeping:
            self.maintainer.stop_sweep(uuid)

    def _sweep(self, uuid: str, seen_ms: int | None) -> bool:
        """Begin with one table; whether it has begun."""
        row, tenure = self.fold.table(uuid), self.events.tenure(uuid)
        if row is None or tenure is None:
            return False
        causes = [cause for cause in Cause if self.why_not(uuid, cause) is None]
        marks = self._due(row, causes, seen_ms)
        if not marks:
            return False
        loaded = self.catalog.load(row.state.table.name)
        if loaded.table.uuid != uuid or self.clocks.check(loaded) is not None:
            return False
        self.holds.act()
        place(self.ledger, loaded)
        neighbours = self.neighbours(loaded)
        self.look_for_holders(uuid, _holders(marks, neighbours))
        expired = {job: tuple(self.ledger.expired_by(job)) for job in {mark.job_id for mark in marks}}
        resolved = self.verdicts.policy_of(row)
        now_ms, began_s = self.now_ms(), self.monotonic_s()
        if self.clocks.trouble() is not None:
            return False
        ages_ms = {} if resolved is None else {cause: age_ms(cause, resolved.policy) for cause in BY_AGE}
        found_before = {cause: now_ms - one_ms for cause, one_ms in ages_ms.items()}
        self.ledger.see(uuid, loaded.seen_through, now_ms)
        through, home = self.ledger.seen_through(uuid), self.ledger.home(uuid)
        sweep = Sweep(
            uuid, tuple(marks), expired, neighbours, found_before, through, home, self.ledger.gone()
        )
        if resolved is not None:
            sweep = self.quarantine.ruled(sweep, resolved.policy, now_ms)
        self.maintainer.start_sweep(loaded, sweep)
        causes_now = frozenset(mark.cause for mark in marks)
        policy = None if resolved is None else resolved.policy
        self._sweeping[uuid] = _Sweeping(tenure, causes_now, policy, now_ms, began_s)
        return True

    def _due(self, row: TableRow, causes: Collection[Cause], seen_ms: int | None) -> list[Mark]:
        """Files whose grace is over, and since whose marking every table of the catalog was looked at: at `seen_ms`."""
        uuid, now_ms, name, marks = row.state.table.uuid, self.now_ms(), row.state.table.name, list[Mark]()
        if not causes:
            return []
        if seen_ms is not None and name in self.survey.names():
            marks = self.ledger.due_deletions(uuid, now_ms, FILES_AT_ONCE, causes, seen_ms)
        if marks and not self.survey.compare_names(name, uuid):
            marks = []
        if not marks and self.ledger.due_deletions(uuid, now_ms, 1, causes):
            self.survey.want()
            self._late.tell(row.state.table, causes)
        return marks


def age_ms(cause: Cause, policy: Policy) -> int:
    """How old a file that was found by listing must be to count."""
    return int((policy.metadata if cause is Cause.OLD_VERSION else policy.orphans).older_than)


def _holders(marks: Iterable[Mark], neighbours: Neighbours) -> set[str | None]:
    return {held_by(one.path, neighbours, is_found=one.cause in FOUND) for one in marks} - {None}


def _key(uuid: str) -> str:
    """Under which the deletions of a table are set aside: its other work goes on."""
    return f"{uuid}/deletions"


def _paths(rewrite: Rewrite) -> tuple[str, ...]:
    return tuple(file.path for file in rewrite.all_files)
