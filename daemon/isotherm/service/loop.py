"""The loop: takes events in, makes verdicts, and starts, watches and finishes jobs.

It keeps its own pace: an event changes the state and the verdicts, and work begins in planning rounds. Each round
confirms the head of a table with the catalog before it does anything to the table. A commit checks once more, last of
all. It reads the control topic to its end, and compares the newest metadata with the state. Only then are the files
swapped.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from isotherm.core.model.holds import Hold
from isotherm.core.planner.plan import RULES
from isotherm.core.planner.view import Flight
from isotherm.core.policy.policy import Policy
from isotherm.runtime.config import IsothermConfig
from isotherm.service.health import Health
from isotherm.service.jobs.compactions import Compactions
from isotherm.service.jobs.deletions import Deletions
from isotherm.service.jobs.expiries import Expiries
from isotherm.service.jobs.last_look import LastLook
from isotherm.service.jobs.operations import Operations
from isotherm.service.jobs.searches import Searches
from isotherm.service.jobs.table_ownership import Owned
from isotherm.service.jobs.table_work import TableWork
from isotherm.service.jobs.unfinished_operations import UnfinishedOperations
from isotherm.service.policies.policy_folder import PolicyFolder
from isotherm.service.policies.policy_reload import recall_policies, reload_policies
from isotherm.service.ports import Catalog, DeadLetters, EventSource, HoldTopic, Listener, Maintainer, Message
from isotherm.service.rounds.admission import Admission
from isotherm.service.rounds.planning import Verdicts
from isotherm.service.rounds.pruning import Pruning
from isotherm.service.rounds.round_pace import RoundPace
from isotherm.service.rounds.rounds import Rounds
from isotherm.service.survey import SecondEntries, Survey
from isotherm.service.tables.catalog_lists import CatalogLists
from isotherm.service.tables.failing_tables import Barrier
from isotherm.service.tables.follow import Follower
from isotherm.service.tables.moved_tables import MovedTables
from isotherm.service.tables.reading_time import ReadingTime
from isotherm.service.tables.scan_reports import ScanCounter, ScanReports
from isotherm.service.tables.silent_tables import SilentTables
from isotherm.service.tables.spot_check import Recount
from isotherm.service.tables.tables_elsewhere import TablesElsewhere
from isotherm.service.topics.announcer import Announcer
from isotherm.service.topics.catalog_poller import Poller
from isotherm.service.topics.consumer import Consumer
from isotherm.service.topics.dead_letters import SetAside
from isotherm.service.topics.holds import Holds
from isotherm.service.topics.intake import Intake
from isotherm.service.topics.ledger_age import doubt_another_ledger, scan_what_the_ledger_lacks
from isotherm.service.topics.relay import Relay, Sources
from isotherm.store.fold import Fold
from isotherm.store.ledger import Ledger

STEP_BUDGET_S = 2.0
"""A turn of the loop looks at tables for so long, then at events again."""


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
    scan_reports: ScanReports | None = None
    """None where isotherm.yaml wants none."""
    set_aside: SetAside = field(init=False)
    relay: Relay | None = field(init=False)
    lists: CatalogLists = field(init=False)
    follower: Follower = field(init=False)
    intake: Intake = field(init=False)
    consumer: Consumer = field(init=False)
    verdicts: Verdicts = field(init=False)
    holds: Holds = field(init=False)
    owned: Owned = field(init=False)
    announcer: Announcer = field(init=False)
    deletions: Deletions = field(init=False)
    compactions: Compactions = field(init=False)
    expiries: Expiries = field(init=False)
    searches: Searches = field(init=False)
    poller: Poller = field(init=False)
    survey: Survey = field(init=False)
    recount: Recount = field(init=False)
    barrier: Barrier = field(init=False)
    rounds: Rounds = field(init=False)
    pruning: Pruning = field(init=False)
    scans: ScanCounter = field(init=False)
    pace: RoundPace = field(init=False)

    def __post_init__(self) -> None:
        clocks = (self.now_ms, self.monotonic_s)
        self.barrier = Barrier(self.listen, self.monotonic_s, self.policies.has_policy)
        self.set_aside = SetAside(self.listen, self.letters)
        holding = (self.hold_topic, self.ledger, self.listen, self.now_ms, self._touch, self.monotonic_s)
        self.holds = Holds(*holding)
        self.owned = Owned(self.events, self.holds, self.listen)
        self._build_what_hears()
        self.verdicts = Verdicts(
            self.fold,
            self.ledger,
            self.policies,
            self.now_ms,
            self.config.budgets.bytes_per_hour,
            self._deletions_held,
        )
        self.announcer = Announcer(
            self.config.catalog.name, self.fold, self.ledger, self.events, self.catalog, self.monotonic_s
        )
        self._build_what_looks_around()
        self.deletions = Deletions(
            fold=self.fold,
            ledger=self.ledger,
            events=self.events,
            catalog=self.catalog,
            maintainer=self.maintainer,
            verdicts=self.verdicts,
            holds=self.holds,
            owned=self.owned,
            barrier=self.barrier,
            survey=self.survey,
            listen=self.listen,
            now_ms=self.now_ms,
            monotonic_s=self.monotonic_s,
            also_under=self.config.deletions.also_under,
        )
        operations = Operations(self.ledger, self.listen, self.now_ms, self.monotonic_s)
        self._build_what_works(operations)
        self._build_rounds(operations)
        self.pruning = Pruning(self.fold, self.ledger, self.deletions, self.rounds, self.health, *clocks)
        self.scans = ScanCounter(self.scan_reports, self.fold, self.ledger, self.listen, *clocks)

    def _build_what_hears(self) -> None:
        """Build what takes messages in."""
        self.relay = None
        if self.sources is not None:
            self.relay = Relay(
                sources=self.sources,
                events=self.events,
                catalog=self.catalog,
                catalog_name=self.config.catalog.name,
                listen=self.listen,
                set_aside=self.set_aside,
                barrier=self.barrier,
                ask_again=lambda name: self.follower.look_again(name),  # noqa: PLW0108 (there is none yet)
                monotonic_s=self.monotonic_s,
            )
        every_s = self.config.loop.poll_tables_every_s
        self.lists = CatalogLists(
            every_s, self.catalog, self.ledger, self.listen, self.now_ms, self.monotonic_s
        )
        self.follower = Follower(
            fold=self.fold,
            ledger=self.ledger,
            catalog=self.catalog,
            lists=self.lists,
            listen=self.listen,
            now_ms=self.now_ms,
            monotonic_s=self.monotonic_s,
            epochs_of=self.policies.epochs_of,
            owns=self.events.owns,
            halt=self.holds.halt,
            reading_time=ReadingTime(self.health, self.monotonic_s),
        )
        self.intake = Intake(
            fold=self.fold,
            ledger=self.ledger,
            catalog=self.catalog,
            follower=self.follower,
            set_aside=self.set_aside,
            listen=self.listen,
            now_ms=self.now_ms,
            monotonic_s=self.monotonic_s,
            intent_timeout_ms=int(self.config.loop.intent_timeout_s * 1000),
        )

    def _build_what_looks_around(self) -> None:
        """Build what looks at tables of which nobody has spoken."""
        self.survey = Survey(
            self.catalog,
            self.ledger,
            SecondEntries(
                self.ledger, self.barrier, self.follower.tell_apart, self.fold.names, self.monotonic_s
            ),
            self._clock_trouble,
            self.listen,
            self.now_ms,
            self.monotonic_s,
        )
        self.poller = Poller(
            self.config.loop.poll_tables_every_s,
            self.lists,
            self.policies,
            self.ledger,
            self.intake.early,
            self.barrier,
            self.announcer.announce,
            self.listen,
            self.now_ms,
        )
        self.recount = Recount(
            fold=self.fold,
            catalog=self.catalog,
            follower=self.follower,
            listen=self.listen,
            owns=self.events.owns,
            monotonic_s=self.monotonic_s,
            barrier=self.barrier,
            every_s=self.config.loop.recount_every_s,
        )

    def _clock_trouble(self) -> str | None:
        return self.deletions.clock_trouble()

    def _build_what_works(self, operations: Operations) -> None:
        """Build what changes tables."""
        last_look = LastLook(
            self.fold,
            self.events,
            self.follower,
            self.intake,
            self.verdicts,
            self.holds,
            self.deletions,
            self.owned,
        )
        stores = (self.fold, self.ledger, self.events, self.catalog, self.maintainer)
        ends = (self.deletions, operations, self.barrier, self.listen, self.now_ms)
        self.compactions = Compactions(
            *stores, self.follower, last_look, self.verdicts, self.holds, self.owned, self.announcer, *ends
        )
        self.expiries = Expiries(*stores, self.follower, self.verdicts, self.holds, self.owned, *ends)
        self.searches = Searches(*stores, self.verdicts, self.holds, self.owned, *ends, self.monotonic_s)

    def _build_rounds(self, operations: Operations) -> None:
        """Build what begins work, by events and in rounds."""
        table_work = TableWork(self.expiries, self.searches)
        work = (self.compactions, table_work, operations)
        unfinished = UnfinishedOperations(
            self.fold, self.ledger, *work, self.barrier, self.now_ms, self.monotonic_s
        )
        self.consumer = Consumer(
            fold=self.fold,
            ledger=self.ledger,
            events=self.events,
            intake=self.intake,
            verdicts=self.verdicts,
            compactions=self.compactions,
            flights=self._flights,
            barrier=self.barrier,
            set_aside=self.set_aside,
            health=self.health,
            listen=self.listen,
            now_ms=self.now_ms,
            monotonic_s=self.monotonic_s,
        )
        self.pace = RoundPace(self.config.loop.plan_every_s)
        self.rounds = Rounds(
            fold=self.fold,
            ledger=self.ledger,
            events=self.events,
            follower=self.follower,
            verdicts=self.verdicts,
            holds=self.holds,
            owned=self.owned,
            compactions=self.compactions,
            table_work=table_work,
            deletions=self.deletions,
            poller=self.poller,
            survey=self.survey,
            admission=Admission(
                self.ledger,
                self.verdicts,
                self.compactions,
                self.barrier.is_aside,
                self.now_ms,
                self.config.executors.local.jobs_at_once,
                self.config.budgets.bytes_per_hour,
            ),
            pace=self.pace,
            unfinished=unfinished,
            moved=MovedTables(self.events, self.barrier, self.listen),
            elsewhere=TablesElsewhere(self.events.owns, self.monotonic_s),
            silent=SilentTables(
                self.fold, self.barrier, lambda: self.poller.every_ms, self.now_ms, self.monotonic_s
            ),
            barrier=self.barrier,
            health=self.health,
            read_to_the_end=self.consumer.read_to_the_end,
            reload_policies=self.reload_policies,
            listen=self.listen,
            now_ms=self.now_ms,
            monotonic_s=self.monotonic_s,
        )

    def start(self) -> None:
        """Load the policies, so that the first verdicts are the right ones."""
        recall_policies(self.policies, self.ledger)
        self.barrier.guard("reading the policies", self.reload_policies)
        doubt_another_ledger(self.fold, self.ledger, self.holds.doubt_ledger)
        scan_what_the_ledger_lacks(self.fold, self.ledger)
        self.fold.grow_beside(self.ledger.id)
        self.scans.start()
        self.fold.decide_by(f"{RULES} {Policy().hash}")  # a new version may judge the same facts otherwise
        self.health.ticked_at_s = self.monotonic_s()

    def step(self, timeout_s: float = 0.2) -> None:
        """One turn: events, ended rewrites, and a planning round when it is time."""
        is_busy = False
        if self.relay is not None:
            is_busy = self.barrier.guard("hearing other sources", self.relay.turn) and self.relay.is_busy
        messages = self.events.poll(0 if is_busy else timeout_s)
        self.consume(messages)
        self.health.is_assigned = self.events.is_assigned()
        for what, turn in (
            ("cancelling rewrites of tables that moved", self.compactions.cancel_moved),
            ("cancelling expiries of tables that moved", self.expiries.cancel_moved),
            ("cancelling searches of tables that moved", self.searches.cancel_moved),
            ("starting rewrites", self.compactions.start_bound),
            ("ending rewrites", self.compactions.finish),
            ("ending expiries", self.expiries.finish),
            ("ending searches", self.searches.finish),
            ("deleting files", self.deletions.turn),
        ):
            self.barrier.guard(what, turn)
            self.health.ticked_at_s = self.monotonic_s()  # several parts may each wait for a dead store
        self.pace.jobs_run(len(self.compactions))
        if self.rounds.is_open or self.pace.is_time(self.monotonic_s()):
            self.barrier.guard("planning", self._plan)
        elif not messages and not len(self.compactions):
            self.barrier.guard("counting again", self.recount.turn)
        self.barrier.guard("counting scans", self.scans.turn)
        self.barrier.guard("forgetting what is long over", self.pruning.turn)
        self.health.ticked_at_s = self.monotonic_s()

    def stop(self) -> None:
        """Stop at once: running jobs are cancelled, what they wrote is deleted, everything is saved."""
        self.compactions.stop()
        self.expiries.stop()
        self.searches.stop()
        for what, stop in (("deleting files", self.deletions.stop), ("all work", self.maintainer.stop)):
            self.barrier.guard(f"stopping {what}", stop)
        if self.relay is not None:
            self.relay.close()
        self.events.commit()
        self.events.close()
        self.hold_topic.close()

    def consume(self, messages: Sequence[Message]) -> None:
        """Take messages of the control topic into the state, then acknowledge them."""
        self.consumer.consume(messages)

    def round(self, budget_s: float = float("inf")) -> None:
        """Begin a planning round, or go on with the open one, for so long."""
        if not self.rounds.is_open:
            began_s = self.monotonic_s()
            if self.relay is not None:
                self.relay.round_begins()
            self.rounds.begin(budget_s)
            if self.monotonic_s() - began_s >= budget_s:
                return  # the group puts out a daemon that does not ask for events: so they come first
        self.rounds.go_on(budget_s)

    def _plan(self) -> None:
        """A turn's share of a round; one that goes wrong as a whole is given up, because it would do so again."""
        try:
            self.round(STEP_BUDGET_S)
        except BaseException:
            self.rounds.give_up()
            raise

    def _deletions_held(self) -> str | None:
        return self.deletions.everywhere()

    def _flights(self, uuid: str) -> tuple[Flight, ...]:
        return self.rounds.flights(uuid)

    def _touch(self, hold: Hold) -> None:
        """What was held back, or is no more, is decided again."""
        self.fold.touch(hold.uuid, None if hold.partition is None else [hold.partition])

    def reload_policies(self) -> bool:
        """Read the folder of policies again; whether work may begin under what is in force."""
        loaded = reload_policies(self.policies, self.fold, self.ledger, self.follower.suspects, self.now_ms())
        self.health.has_policies = bool(self.policies.files())
        if loaded is not None:
            self.listen(loaded)
        return not self.policies.is_awaited
