"""The loop: events in, verdicts made, jobs started, looked after and finished.

It does things at its own pace: an event changes the state and the verdicts, work begins in planning rounds. Every
round confirms the head of a table with the catalog before anything is done to it, and a commit asks once more, last
of all: the control topic is read to its end, the newest metadata is held against the state, and only then the files
are swapped.

Save, then acknowledge: what an event changed is saved before its offset is committed.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from isotherm.admission import admit
from isotherm.announcer import Announcer
from isotherm.compactions import DRAIN_TIMEOUT_S, Compactions
from isotherm.config import IsothermConfig
from isotherm.deletions import Deletions
from isotherm.expiries import Expiries
from isotherm.follow import AppliedEvent, Follower, Touched
from isotherm.holds import Holds
from isotherm.model import Action, TableId
from isotherm.observations import (
    EventApplied,
    EventsLost,
    RoundPlanned,
    TableMoved,
    TrySoon,
)
from isotherm.operations import Operations
from isotherm.partitions import HOUR_MS
from isotherm.planner import Flight, Plan, Request
from isotherm.policy_files import PolicyFolder
from isotherm.poller import Poller
from isotherm.ports import (
    Catalog,
    DeadLetters,
    EventSource,
    HoldTopic,
    Listener,
    Maintainer,
    Message,
    TableMissing,
    Unavailable,
)
from isotherm.recount import Recount
from isotherm.relay import Relay, Sources
from isotherm.reload import recall_policies, reload_policies
from isotherm.set_aside import SetAside
from isotherm.store.fold import Fold, TableRow
from isotherm.store.ledger import Ledger
from isotherm.verdicts import Verdicts

TICK_LIMIT_S = 300
"""A loop that has not turned for this long is stuck: /livez says so."""


@dataclass(slots=True)
class Health:
    """What /livez and /readyz answer from; written by the loop, read by the HTTP threads."""

    ticked_at_s: float = 0
    has_policies: bool = False
    is_assigned: bool = False
    catalog_answers: bool = False

    def is_alive(self, now_s: float) -> bool:
        """Whether the loop has turned lately; Kafka or a catalog that is away is no reason for a restart."""
        return now_s - self.ticked_at_s < TICK_LIMIT_S

    def missing(self) -> list[str]:
        """What is not ready yet, in words."""
        states = {
            "no policy is loaded": self.has_policies,
            "the control topic is not assigned": self.is_assigned,
            "the catalog does not answer": self.catalog_answers,
        }
        return [what for what, fine in states.items() if not fine]


@dataclass(slots=True)
class Service:
    """The daemon, but for its process: call `start`, then `step` until it is over, then `stop`."""

    config: IsothermConfig
    fold: Fold
    ledger: Ledger
    events: EventSource
    catalog: Catalog
    maintainer: Maintainer
    hold_topic: HoldTopic
    policies: PolicyFolder
    listen: Listener
    now_ms: Callable[[], int]
    monotonic_s: Callable[[], float]
    health: Health = field(default_factory=Health)
    sources: Sources | None = None
    letters: DeadLetters | None = None
    set_aside: SetAside = field(init=False)
    relay: Relay | None = field(init=False)
    follower: Follower = field(init=False)
    verdicts: Verdicts = field(init=False)
    holds: Holds = field(init=False)
    announcer: Announcer = field(init=False)
    deletions: Deletions = field(init=False)
    compactions: Compactions = field(init=False)
    expiries: Expiries = field(init=False)
    poller: Poller = field(init=False)
    recount: Recount = field(init=False)
    _planned: dict[str, TableId] = field(default_factory=dict)
    """The tables that the last round reported: whoever moves away is told once."""
    _has_found_all: bool = False
    """Whether every table in the catalog that a policy matches was looked at, at the last search."""
    _last_round_s: float = float("-inf")
    _last_recount_s: float = float("-inf")

    def __post_init__(self) -> None:
        self.set_aside = SetAside(self.listen, self.letters)
        self.relay = None if self.sources is None else self._relay(self.sources)
        self.follower = Follower(
            self.fold,
            self.ledger,
            self.catalog,
            self.listen,
            self.now_ms,
            self.monotonic_s,
            int(self.config.loop.intent_timeout_s * 1000),
            self._epochs_of,
            self.set_aside,
        )
        budget = self.config.budgets.bytes_per_hour
        self.verdicts = Verdicts(
            self.fold, self.ledger, self.policies, self.now_ms, budget, self._deletions_held
        )
        self.holds = Holds(
            self.hold_topic, self.ledger, self.listen, self.now_ms, lambda uuid: self.fold.touch(uuid, None)
        )
        self.announcer = Announcer(
            self.config.catalog.name, self.fold, self.ledger, self.events, self.catalog
        )
        self.deletions = Deletions(
            self.fold,
            self.ledger,
            self.events,
            self.catalog,
            self.maintainer,
            self.verdicts,
            self.holds,
            self.listen,
            self.now_ms,
            self.monotonic_s,
            self.config.deletions.also_under,
        )
        operations = Operations(self.ledger, self.listen, self.now_ms)
        self.compactions = Compactions(
            self.fold,
            self.ledger,
            self.events,
            self.catalog,
            self.maintainer,
            self.follower,
            self.verdicts,
            self.holds,
            self.announcer,
            self.deletions,
            operations,
            self.listen,
            self.now_ms,
        )
        self.expiries = Expiries(
            self.fold,
            self.ledger,
            self.events,
            self.catalog,
            self.maintainer,
            self.follower,
            self.verdicts,
            self.holds,
            self.deletions,
            operations,
            self.listen,
            self.now_ms,
        )
        self.poller = Poller(
            self.config.loop.poll_tables_every_s,
            self.catalog,
            self.policies,
            self.ledger,
            self.announcer.announce,
            self.listen,
            self.now_ms,
            self.monotonic_s,
        )
        self.recount = Recount(
            self.fold, self.catalog, self.follower, self.listen, self.events.owns, self.monotonic_s
        )

    def _relay(self, sources: Sources) -> Relay:
        name = self.config.catalog.name
        return Relay(sources, self.events, self.catalog, name, self.listen, self.set_aside, self.monotonic_s)

    def start(self) -> None:
        """Load the policies, so that the first verdicts are the right ones."""
        recall_policies(self.policies, self.ledger)
        self._reload_policies()
        self.ledger.prune(self.now_ms())
        if self.ledger.is_new and self.fold.names():
            self._hold_deletions("the fold beside it is not")
            for uuid in self.fold.names():
                self.fold.distrust(uuid)  # the scan accounts for the snapshots that were there
        self.health.ticked_at_s = self.monotonic_s()

    def step(self, timeout_s: float = 0.2) -> None:
        """One turn: events, ended rewrites, and a planning round when it is time."""
        if self.relay is not None:
            self.relay.turn()
        is_busy = self.relay is not None and self.relay.is_busy
        messages = self.events.poll(0 if is_busy else timeout_s)
        self._consume(messages)
        self.health.is_assigned = self.events.is_assigned()
        self.compactions.cancel_moved()
        self.expiries.cancel_moved()
        self.compactions.finish()
        self.expiries.finish()
        self.deletions.turn()
        if self.monotonic_s() - self._last_round_s >= self.config.loop.plan_every_s:
            self.round()
            self._last_round_s = self.monotonic_s()
        elif not messages and not len(self.compactions):
            self._recount()
        self.health.ticked_at_s = self.monotonic_s()

    def stop(self) -> None:
        """Stop at once: running jobs are cancelled, what they wrote is deleted, everything is saved."""
        self.compactions.stop()
        self.expiries.stop()
        self.deletions.stop()
        self.maintainer.stop()
        if self.relay is not None:
            self.relay.close()
        self.events.commit()
        self.events.close()
        self.hold_topic.close()

    def _consume(self, messages: Sequence[Message]) -> None:
        if not messages:
            return
        applied: list[AppliedEvent] = []
        touched: list[Touched] = []
        with self.fold.transaction(), self.ledger.transaction():
            for message in messages:
                whom, event = self.follower.take(message)
                applied.extend([event] if event else [])
                touched.extend([whom] if whom else [])
        self.set_aside.flush()
        self.events.commit()
        self.compactions.cancel_touched(touched)
        for uuid in {one.event.table_uuid for one in applied} | {one.uuid for one in touched}:
            row = self.fold.table(uuid)
            if row is not None and row.is_trusted:
                self.verdicts.decide(row, self._flights(uuid), with_due=False)
        for one in applied:
            self._tell_applied(one)

    def _tell_applied(self, one: AppliedEvent) -> None:
        self.listen(
            EventApplied(
                table=TableId(one.event.table_uuid, one.event.table),
                snapshot_id=one.event.snapshot_id,
                origin=one.event.origin,
                partitions=one.partitions,
                committed_at_ms=one.event.timestamp_ms,
                received_at_ms=one.received_at_ms,
                decided_at_ms=self.now_ms(),
                seconds=one.seconds,
            )
        )

    def round(self) -> None:
        """Look at every table that was touched, has come due, or was silent for long; begin what is admitted."""
        started_s = self.monotonic_s()
        self._reload_policies()
        self._heal_losses()
        may_begin = self.holds.refresh(DRAIN_TIMEOUT_S)
        self.compactions.cancel_held()
        self._settle()
        self._find_tables()
        self._look_for_a_lost_ledger()
        agenda = set(self.fold.agenda(self.now_ms(), self.poller.silent_since_ms))
        agenda.update(uuid for name in self.follower.suspects for uuid in self.fold.named(name))
        plans = [planned for uuid in sorted(agenda) if (planned := self._look(uuid)) is not None]
        self._tell_moved(plans)
        started = sum(self._begin(request) for request in self._admitted(plans)) if may_begin else 0
        if may_begin:
            self.deletions.sweep()
        requests = sum(len(planned.requests) for planned in plans)
        held = self.deletions.everywhere() is not None
        self.listen(RoundPlanned(len(plans), requests, started, self.monotonic_s() - started_s, held))

    def _deletions_held(self) -> str | None:
        return self.deletions.everywhere()

    def _flights(self, uuid: str) -> tuple[Flight, ...]:
        return self.compactions.flights(uuid) + self.expiries.flights(uuid)

    def _begin(self, request: Request) -> bool:
        if request.decision.action is Action.EXPIRE:
            return self.expiries.begin(request)
        return self.compactions.begin(request)

    def _settle(self) -> None:
        """Look for the fate of what a crash, or a catalog without an answer, has left open."""
        for operation, job in self.ledger.unfinished():
            if operation.job_id in self.compactions or operation.job_id in self.expiries:
                continue
            try:
                if job is None:
                    self.expiries.settle(operation)
                else:
                    self.compactions.settle(operation, job)
            except (Unavailable, TableMissing) as err:
                self.listen(TrySoon(f"the fate of job {operation.job_id}", str(err)))

    def _heal_losses(self) -> None:
        """Where messages went by unread, every table is reconciled with its own metadata, in this round."""
        for why in self.events.losses():
            self.listen(EventsLost(why))
            self.follower.suspects |= set(self.fold.names().values())

    def _tell_moved(self, plans: Sequence[Plan]) -> None:
        """Tables that another daemon maintains by now: what was said of them here is not true any more."""
        for uuid, table in self._planned.items():
            if not self.events.owns(uuid):
                self.listen(TableMoved(table))
        ours = {uuid: table for uuid, table in self._planned.items() if self.events.owns(uuid)}
        self._planned = ours | {planned.table.uuid: planned.table for planned in plans}

    def _look_for_a_lost_ledger(self) -> None:
        """A new ledger beside tables that have snapshots of ours: it took the place of one that was lost.

        (Or a daemon was added to others. It cannot know, and a person can.)
        """
        if not self.ledger.is_new or not self._has_found_all:
            return
        tables = self.fold.names()
        for uuid, name in tables.items():
            row = self.fold.table(uuid)
            if row is not None and row.facts.has_ours:
                self._hold_deletions(f"{name} has snapshots of ours")
                return
        if tables:
            self.ledger.settle_in()

    def _hold_deletions(self, evidence: str) -> None:
        self.holds.doubt_ledger(f"the ledger of this daemon is new, but {evidence}")
        self.ledger.settle_in()

    def _find_tables(self) -> None:
        """New tables: those that events speak of, and those in the catalog that a policy matches."""
        wanted = set(self.follower.suspects)
        known = set(self.fold.names().values())
        found: Collection[str] | None = None
        try:
            found = self.poller.tables()
        except Unavailable as err:
            self.health.catalog_answers = False
            self.listen(TrySoon("the catalog", str(err)))
        if found is not None:
            self.health.catalog_answers = True
            wanted.update(found)
        failed = False
        for name in sorted(wanted - known):
            # One that cannot be read keeps none of the others from being found.
            try:
                self.follower.confirm(name)
            except Unavailable as err:
                failed = True
                self.follower.suspects.add(name)
                self.listen(TrySoon(f"table {name}", str(err)))
        self._has_found_all = not failed and (found is not None or self._has_found_all)

    def _look(self, uuid: str) -> Plan | None:
        """Confirm a table where there may be something to do, and plan it; None: it is not ours, or gone."""
        row = self.fold.table(uuid)
        if row is None or not self.events.owns(uuid):
            return None
        name = row.state.table.name
        try:
            if self._wants_confirmation(row):
                if self.follower.confirm(name) is None:
                    return None
                self.health.catalog_answers = True
            current = self.fold.table(uuid)
            if current is None or not current.is_trusted:
                return None
            whole = self.verdicts.wants_whole(current)
            view, policy, planned = self.verdicts.decide(current, self._flights(uuid), whole=whole)
            if not self.poller.announce_found(current.state.table):
                self.fold.looked_at(uuid)
        except (Unavailable, TableMissing) as err:
            self.health.catalog_answers = not isinstance(err, Unavailable)
            self.listen(TrySoon(f"table {name}", str(err)))
            return None
        self.listen(self.verdicts.report(current, view, policy, planned))
        return planned

    def _wants_confirmation(self, row: TableRow) -> bool:
        """Whether something may have to be done to the table, or nobody has spoken of it for long."""
        if row.state.table.name in self.follower.suspects or not row.is_trusted:
            return True
        if row.facts.confirmed_at_ms <= self.poller.silent_since_ms:
            return True
        whole = self.verdicts.wants_whole(row)
        _, _, planned = self.verdicts.decide(row, self._flights(row.state.table.uuid), whole=whole)
        return bool(planned.requests)

    def _recount(self) -> None:
        """A sample of the self-audit, when it is time; there is nothing else to do."""
        every_s = self.config.loop.recount_every_s
        if not every_s or self.monotonic_s() - self._last_recount_s < every_s:
            return
        self._last_recount_s = self.monotonic_s()
        try:
            self.recount.sample()
        except Unavailable as err:
            self.listen(TrySoon("the self-audit", str(err)))

    def _is_blind(self) -> bool:
        """Whether the control topic cannot be read to its end: then no compaction is worth its work."""
        if self.compactions.is_blind:
            messages = self.events.drain(DRAIN_TIMEOUT_S)
            self.compactions.is_blind = messages is None
            self._consume(messages or ())
        return self.compactions.is_blind

    def _admitted(self, plans: Sequence[Plan]) -> tuple[Request, ...]:
        budget = self.config.budgets.bytes_per_hour
        left = None if budget is None else budget - self.ledger.bytes_read_since(self.now_ms() - HOUR_MS)
        at_once = 0 if self._is_blind() else self.config.executors.local.jobs_at_once
        rooms = self.verdicts.rooms(plans, self.compactions.running())
        return admit(plans, len(self.compactions), at_once, left, rooms)

    def _epochs_of(self, table: str, properties: Mapping[str, str]) -> Mapping[str, str]:
        resolved = self.policies.resolve(table, properties)
        return {} if resolved is None else resolved.policy.cold.epochs

    def _reload_policies(self) -> None:
        loaded = reload_policies(self.policies, self.fold, self.ledger, self.follower.suspects, self.now_ms())
        if loaded is not None:
            self.health.has_policies = bool(loaded.files)
            self.listen(loaded)
