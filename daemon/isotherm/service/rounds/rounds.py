"""Planning rounds: every table that was touched, has come due or was silent for long is looked at, and work begins.

A round is a queue with a budget: each turn of the loop looks at some tables and goes on with the next ones in the
turn after, so that events, intents and a wish to stop never wait for a long list. Where the catalog does not answer,
the round ends, and the next one begins where it stopped. Tables whose store does not answer have a bounded share.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from isotherm.contract.identity import TableId
from isotherm.core.model.decisions import Plan
from isotherm.core.model.outside import Outside
from isotherm.core.observations import EventsLost, RoundPlanned, TrySoon
from isotherm.service.health import Health
from isotherm.service.jobs.compactions import Compactions
from isotherm.service.jobs.deletions import Deletions
from isotherm.service.jobs.folder_searches import CAUSES
from isotherm.service.jobs.last_look import DRAIN_TIMEOUT_S
from isotherm.service.jobs.table_ownership import Owned
from isotherm.service.jobs.unfinished_operations import UnfinishedOperations
from isotherm.service.ports import EventSource, Listener, NotAsked, Unavailable
from isotherm.service.rounds.due_work import DueWork
from isotherm.service.rounds.look_order import LookOrder
from isotherm.service.rounds.round_pace import RoundPace
from isotherm.service.rounds.verdicts import DECIDED_AT_ONCE, Verdicts
from isotherm.service.survey import Survey
from isotherm.service.tables.confirm_heads import Follower
from isotherm.service.tables.failing_tables import Barrier, Doubt
from isotherm.service.tables.lost_time import LostTime
from isotherm.service.tables.moved_tables import MovedTables
from isotherm.service.tables.silent_tables import SilentTables
from isotherm.service.tables.tables_elsewhere import TablesElsewhere
from isotherm.service.topics.catalog_poller import Poller
from isotherm.service.topics.holds import Holds
from isotherm.service.topics.ledger_age import look_for_a_lost_ledger
from isotherm.service.topics.readers import Readers
from isotherm.store.database import StoreError
from isotherm.store.fold import Fold, TableRow, Trouble
from isotherm.store.ledger import Ledger

ENOUGH_SLICES = 3
"""Beyond those that a table's partitions make: new ones come due while it is decided, and a round must end."""
STRANGERS_AT_ONCE = 20
"""Names that only events speak of, of which one round asks the catalog."""


@dataclass(slots=True, kw_only=True)
class Rounds:
    """The round that is open, and what the last ones found."""

    fold: Fold
    ledger: Ledger
    events: EventSource
    follower: Follower
    verdicts: Verdicts
    holds: Holds
    readers: Readers
    owned: Owned
    compactions: Compactions
    due: DueWork
    deletions: Deletions
    poller: Poller
    survey: Survey
    pace: RoundPace
    unfinished: UnfinishedOperations
    moved: MovedTables
    elsewhere: TablesElsewhere
    silent: SilentTables
    barrier: Barrier
    health: Health
    ask: Callable[[Sequence[TableId]], None]
    """Asks writers to leave some of these tables alone for a while, where something is due in them that is hot."""
    reload_policies: Callable[[], bool]
    """Gives whether work may begin under what is in force."""
    listen: Listener
    now_ms: Callable[[], int]
    monotonic_s: Callable[[], float]
    is_open: bool = False
    """Whether a round has begun and not ended."""
    _agenda: LookOrder = field(default_factory=LookOrder)
    _lost: LostTime = field(default_factory=LostTime)
    _plans: list[Plan] = field(default_factory=list)
    _slices: Counter[str] = field(default_factory=Counter)
    """Slices of each table that were decided in this round."""
    _new_to_find: int = 0
    _began_s: float = 0.0
    _began_at_ms: int = 0
    _may_begin: bool = False
    _is_ruled: bool = False
    """Whether the policies are known: not yet where the folder was changed over a restart."""
    _may_search: bool = False
    """Whether a search of folders that is due is still to be planned: one a round, as a plan may read ten thousand snapshots."""
    _searched: str = ""
    """The table for which one was planned last: by name, all others have their turn before it."""
    has_found_all: bool = False
    """Whether every table in the catalog that a policy matches was looked at, at the last search."""
    _is_listed: bool = False
    _listed: Collection[str] = field(default_factory=tuple)
    """The names that the catalog has just listed."""

    def begin(self, budget_s: float) -> None:
        """Take in what holds for all tables, and list those that are to be looked at.

        For so long it looks for open operations: each look may wait for a dead store.
        """
        knows_all = bool(self.health.is_assigned) and self.has_found_all
        self._began_s, self._began_at_ms = self.monotonic_s(), self.now_ms()
        self._plans, self._slices = [], Counter()
        self._lost.begin()
        self.silent.begin()
        self._may_search = self.due.table_work.searches.has_room
        not_asked = frozenset(self.barrier.not_asked)
        self.barrier.try_again()
        self._may_begin = False
        for what, part in (
            ("reading the policies", self._read_policies),
            ("looking again where messages were lost", self._heal_losses),
            ("reading what is held back", self._refresh_holds),
            # Where they are not known expiry waits, and nothing else.
            ("reading who reads what", lambda: self.readers.refresh(DRAIN_TIMEOUT_S)),
            ("cancelling what is held back", self.compactions.cancel_held),
            ("cancelling what is hot by now", self.compactions.cancel_hot),
            (
                "looking for the fate of open operations",
                lambda: self.unfinished.turn(budget_s, knows_all=knows_all),
            ),
        ):
            self.barrier.guard(what, part)
            self.health.ticked_at_s = self.monotonic_s()
        self.due.clear()
        if not self._may_begin:
            why = "the topic could not be read to its end, so nothing begins and nothing is committed"
            self.listen(TrySoon("what is held back", why, Outside.HOLDS))
        self._list_agenda(not_asked)

    def _read_policies(self) -> None:
        self._is_ruled = self.reload_policies()

    def _refresh_holds(self) -> None:
        self._may_begin = self.holds.refresh(DRAIN_TIMEOUT_S)
        if self._may_begin:
            self.holds.lift_old(self.events.owns)

    def _list_agenda(self, not_asked: Collection[str]) -> None:
        """List what is to be looked at."""
        new = self._new_tables()
        agenda = set(self.fold.agenda(self.now_ms(), self.poller.every_ms))
        agenda.update(uuid for name in self.follower.suspects for uuid in self.fold.named(name))
        names = self.fold.names()
        known = [(names[uuid], uuid) for uuid in agenda if uuid in names and self.events.owns(uuid)]
        self._new_to_find = len(new)
        self._agenda.fill([(name, "") for name in new], known, not_asked, self.barrier.doubt)
        self.is_open = True

    def give_up(self) -> None:
        """End the round as it is; the next one takes up what was left."""
        self._agenda.clear()
        self.is_open, self._plans = False, []

    def go_on(self, budget_s: float) -> None:
        """Look at tables for so long; the round ends when there is none left."""
        deadline_s = self.monotonic_s() + budget_s
        while self._agenda and not self.barrier.is_away:
            name, uuid = self._agenda.next()
            began_s, was_aside = self.monotonic_s(), self.barrier.is_aside(name)
            if not uuid:
                self._find(name)
            elif not was_aside:
                self._look(name, uuid)
            if not was_aside and self.barrier.is_aside(name):
                self._lost.add(self.monotonic_s() - began_s)
            self.health.ticked_at_s = self.monotonic_s()  # it may have waited for as long as the loop may
            if self.monotonic_s() >= deadline_s:
                return  # events come between the last look and what begins, too
        self._end()

    def _end(self) -> None:
        if self._agenda:
            # The catalog does not answer: what was not looked at has its turn first the next time.
            self.health.catalog_answers = False
            self._agenda.clear()
        elif self._new_to_find == 0 and self._is_listed:
            self.has_found_all = True
        self.barrier.guard(
            "looking for a lost ledger",
            lambda: look_for_a_lost_ledger(
                self.fold, self.ledger, self.holds.doubt_ledger, knows_all=self.has_found_all
            ),
        )
        planned = [one.table for one in self._plans]
        self.barrier.guard("telling which tables moved", lambda: self.moved.tell(self.fold.names(), planned))
        if self._may_search:
            self._searched = ""  # the last name was passed: the first one has its turn
        started = 0
        self.deletions.may_sweep = self._may_begin and self._is_ruled
        if self._may_begin and self._is_ruled and self.owned.ask_again():
            started = self.due.begin(self._plans, self._began_at_ms)
            self.barrier.guard("beginning to delete files", self.deletions.sweep)
            if self.due.own_code.is_there():  # else a writer would wait for nothing
                self.barrier.guard("asking for windows", lambda: self.ask(planned))
        self.barrier.guard("keeping what fails", self._keep_troubles)
        self.health.behind = self.events.behind()
        requests = sum(len(one.requests) for one in self._plans)
        held, seconds = self.deletions.everywhere() is not None, self.monotonic_s() - self._began_s
        hanging, overdue_s = self.survey.catalog.hanging(), self.deletions.overdue_s()
        jobs, away, plans = len(self.compactions.unwritten), self._away(), len(self._plans)
        self.pace.round_ended(self.monotonic_s(), seconds, jobs, leaves_work=requests > started)
        self.listen(RoundPlanned(plans, requests, started, seconds, held, away, hanging, overdue_s))
        self.give_up()

    def _keep_troubles(self) -> None:
        found = {name: Trouble(*said) for name, said in self.barrier.troubles().items()}
        self.fold.keep_troubles(found, self.now_ms())

    def _away(self) -> tuple[Outside, ...]:
        stands = {
            Outside.CATALOG: self.health.catalog_answers is not False,
            Outside.CODE: self.due.own_code.is_there(),
            Outside.CONSENT: not self.owned.is_withheld,
            Outside.CONTROL_END: not self.compactions.last_look.is_blind,
            Outside.HOLDS: self._may_begin,
        }
        return tuple(what for what, answers in stands.items() if not answers)

    # One table

    def _find(self, name: str) -> None:
        """A name that we have no row for: there may be a table of ours behind it."""
        is_stranger = name in self.follower.strangers
        if self._is_put_off(name):
            if not is_stranger:
                self.follower.ask_again(name)  # the list that named it is not taken again for a while
            return
        if not self.barrier.is_aside(name):
            self.follower.strangers.discard(name)
            with self.barrier.around(name, "looking at it for the first time"):
                self.confirm(name)
                self._new_to_find -= 1
                self.barrier.went_well(name)
                return
            if is_stranger:
                # Perhaps somebody made the name up. If there is such a table, the catalog's list has it.
                self._new_to_find -= 1
                self.barrier.forget(name)
                return
            self.follower.ask_again(name)
        # It may stay damaged, or silent, for ever: then there is no more to be found.
        self._new_to_find -= self.barrier.is_settled(name)

    def _is_put_off(self, name: str) -> bool:
        """Whether a table is not asked for in this round, because others have cost too many time-outs in it."""
        if not self._lost.is_used_up or self.barrier.is_aside(name):
            return False
        self.barrier.not_asked.add(name)
        return True

    def refill(self) -> None:
        """Begin what the last round has left in free slots. Whether anything may begin at all is asked again before."""
        if self._may_go_on():
            self.due.refill()
        self.pace.refilled(len(self.compactions.unwritten))

    def begin_in_window(self, planned: Plan) -> int:
        """Begin what is due in a window, where anything may begin. Returns how much."""
        return self.due.begin_in_window(planned) if self._may_go_on() else 0

    def _may_go_on(self) -> bool:
        """Whether anything may begin between two rounds."""
        return (
            self._may_begin
            and self._is_ruled
            and self.owned.ask_again()
            and self.holds.refresh(DRAIN_TIMEOUT_S)
        )

    def confirm(self, name: str) -> bool:
        """Bring our row to what the catalog has; whether there is a table of ours under the name."""
        began_s = self.monotonic_s()
        loaded = self.follower.confirm(name)
        self._lost.came(self.monotonic_s() - began_s)
        self.health.catalog_answers = True
        self.health.ticked_at_s = self.monotonic_s()  # what comes next may load the table again
        self.barrier.answered(name)
        if loaded is None:
            self.barrier.forget(name)
        there = self.fold.named(name) if loaded is None else [loaded.table.uuid]
        if is_theirs := bool(there) and not any(map(self.events.owns, there)):
            self.elsewhere.add(name, there[0])
        return loaded is not None and not is_theirs

    def _look(self, name: str, uuid: str) -> None:
        """Plan a table. One of which a row cannot be read is made again."""
        with self.barrier.around(name, "looking at it"):
            try:
                self._plan(name, uuid)
            except StoreError:
                self.follower.make_again(TableId(uuid, name))
                raise

    def _plan(self, name: str, uuid: str) -> None:
        """Plan a table; its head is confirmed where something points to it, and again before anything begins."""
        row = self.fold.table(uuid)
        if row is None and (damage := self.fold.damage(uuid)) is not None:
            raise StoreError(damage)
        if row is None or not self.events.owns(uuid):
            self.barrier.forget(name)
            return
        if self._wants_confirmation(row) and (self._is_put_off(name) or not self.confirm(name)):
            return
        if self.silent.is_asked_for(name, uuid) and (
            self._is_put_off(name) or not self.silent.ask(name, self.confirm)
        ):
            return
        current = self.fold.table(uuid)
        if current is None or not current.is_trusted:
            return
        may_search = self._may_search and name > self._searched
        whole = self.verdicts.wants_whole(current, may_search=may_search)
        decided = self.verdicts.decide(current, self.due.flights(uuid), whole=whole)
        if may_search and any(one.decision.action in CAUSES for one in decided.plan.requests):
            self._may_search, self._searched = False, name
        self._slices[uuid] += 1
        is_endless = self._slices[uuid] > current.state.partitions // DECIDED_AT_ONCE + ENOUGH_SLICES
        if decided.has_more and not is_endless:
            self._agenda.add(name, uuid)  # a slice was decided: the others have their turn first
            return
        if not self.poller.announce_found(current):
            self.fold.looked_at(uuid)
        self.listen(self.verdicts.report(current, decided))
        # What stays until the end of the round is what could begin, and no more.
        self._plans.append(replace(decided.plan, of_partitions=(), of_table=()))
        self.barrier.went_well(name)

    def _wants_confirmation(self, row: TableRow) -> bool:
        """Whether something does not add up; not where only its neighbours are silent, which they may be for long."""
        is_silent = self.barrier.doubt(row.state.table.name) is Doubt.ITSELF
        return row.state.table.name in self.follower.suspects or not row.is_trusted or is_silent

    # All tables

    def _heal_losses(self) -> None:
        """Where messages went by unread, every table is reconciled with its own metadata, in this round."""
        for why in self.events.losses():
            self.listen(EventsLost(why))
            self.follower.suspects |= set(self.fold.names().values())

    def _new_tables(self) -> list[str]:
        """Names without a row of ours: those that events speak of, and those in the catalog that a policy matches."""
        self._is_listed = False
        self._listed = []
        self.barrier.guard("listing the tables", self._list)
        strangers = sorted(self.follower.strangers)[:STRANGERS_AT_ONCE]
        wanted = {*self.follower.suspects, *self._listed, *strangers}
        names = self.fold.names()
        known = {name for uuid, name in names.items() if self.events.owns(uuid)}
        self.health.tables = frozenset(known)
        self.health.elsewhere = frozenset({*names.values(), *self.elsewhere.names} - known)
        return sorted(wanted - known)

    def _list(self) -> None:
        try:
            found = self.poller.tables()
        except Unavailable as err:
            self.health.catalog_answers = False
            if not isinstance(err, NotAsked):
                self.listen(TrySoon("the catalog", str(err), Outside.CATALOG))
                self.survey.not_listed(str(err))
            return
        self._is_listed = (found is not None and self.poller.lists.has_heard_all) or self.has_found_all
        if found is not None:
            self.health.catalog_answers = True
            self.elsewhere.forget_old()
            self._listed = [name for name in found if name not in self.elsewhere]
            self.follower.strangers -= set(self._listed)
            lists = self.poller.lists
            if lists.newest is not None:
                self.survey.listed(
                    lists.newest, lists.asked_s, lists.good_for_s, is_whole=lists.has_heard_all
                )
