"""Who knows of whom: each part of the service is built from those it asks.

Where two ask each other, one gets a function that asks later.
"""

from dataclasses import dataclass

from isotherm.core.model.holds import Hold
from isotherm.service.clocks import Clocks
from isotherm.service.jobs.compactions import Compactions
from isotherm.service.jobs.deletions import Deletions
from isotherm.service.jobs.expiries import Expiries
from isotherm.service.jobs.folder_searches import Searches
from isotherm.service.jobs.granted_windows import GrantedWindows
from isotherm.service.jobs.last_look import LastLook
from isotherm.service.jobs.manifest_rewrites import ManifestRewrites
from isotherm.service.jobs.operations import Operations
from isotherm.service.jobs.own_commits import OwnCommits
from isotherm.service.jobs.quarantine_listings import Listings
from isotherm.service.jobs.table_ownership import Owned
from isotherm.service.jobs.table_work import TableWork
from isotherm.service.jobs.unfinished_operations import UnfinishedOperations
from isotherm.service.parts import Parts
from isotherm.service.policies.policy_reload import reload_policies
from isotherm.service.rounds.admission import Admission
from isotherm.service.rounds.asking_windows import Windows
from isotherm.service.rounds.due_work import DueWork
from isotherm.service.rounds.own_code import OwnCode
from isotherm.service.rounds.pruning import Pruning
from isotherm.service.rounds.round_pace import RoundPace
from isotherm.service.rounds.rounds import Rounds
from isotherm.service.rounds.verdicts import Verdicts
from isotherm.service.survey import SecondEntries, Survey
from isotherm.service.tables.catalog_lists import CatalogLists
from isotherm.service.tables.confirm_heads import Follower
from isotherm.service.tables.failing_tables import Barrier
from isotherm.service.tables.moved_tables import MovedTables
from isotherm.service.tables.reading_time import ReadingTime
from isotherm.service.tables.recount import Recount
from isotherm.service.tables.scan_reports import ScanCounter
from isotherm.service.tables.seen_names import SeenNames
from isotherm.service.tables.silent_tables import SilentTables
from isotherm.service.tables.tables_elsewhere import TablesElsewhere
from isotherm.service.topics.announcer import Announcer
from isotherm.service.topics.catalog_poller import Poller
from isotherm.service.topics.consumer import Consumer
from isotherm.service.topics.dead_letters import SetAside
from isotherm.service.topics.events_to_state import Intake
from isotherm.service.topics.holds import Holds
from isotherm.service.topics.readers import Readers
from isotherm.service.topics.relay import Relay


@dataclass(slots=True)
class Wiring(Parts):
    """Builds the parts that are not given."""

    def __post_init__(self) -> None:
        clocks = (self.now_ms, self.monotonic_s)
        self.barrier = Barrier(self.listen, self.monotonic_s, self.policies.has_policy)
        self.set_aside = SetAside(self.listen, self.letters)
        holding = (self.hold_topic, self.ledger, self.listen, self.now_ms, self._touch, self.monotonic_s)
        self.holds = Holds(*holding)
        self.readers = Readers(self.reader_topic, self.ledger, self.listen, self.fold.touch_whole)
        self.owned = Owned(self.events, self.holds, self.listen)
        self.clocks = Clocks(
            fold=self.fold,
            events=self.events,
            catalog=self.catalog,
            maintainer=self.maintainer,
            barrier=self.barrier,
            now_ms=self.now_ms,
            monotonic_s=self.monotonic_s,
        )
        self.granted = GrantedWindows(now_ms=self.now_ms, monotonic_s=self.monotonic_s)
        self._build_what_hears()
        self.verdicts = Verdicts(
            self.fold,
            self.ledger,
            self.policies,
            self.now_ms,
            self.config.budgets.bytes_per_hour,
            lambda: self.deletions.everywhere(),  # noqa: PLW0108 (there are none yet)
            self.config.executors.cluster_from_bytes,
            self.granted.grants,
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
            clocks=self.clocks,
            listen=self.listen,
            now_ms=self.now_ms,
            monotonic_s=self.monotonic_s,
            also_under=self.config.deletions.also_under,
        )
        operations = Operations(self.ledger, self.listen, self.now_ms, self.monotonic_s)
        self._build_what_works(operations)
        self._build_rounds(operations)
        self.pruning = Pruning(
            self.fold, self.ledger, self.deletions, self.clocks, self.rounds, self.health, *clocks
        )
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
        self.seen_names = SeenNames(self.ledger)
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
            seen_names=self.seen_names,
            disturb=self.granted.disturb,
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
            self.seen_names,
            self.clocks.trouble,
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

    def _build_what_works(self, operations: Operations) -> None:
        """Build what changes tables."""
        last_look = LastLook(
            fold=self.fold,
            events=self.events,
            follower=self.follower,
            intake=self.intake,
            verdicts=self.verdicts,
            holds=self.holds,
            clocks=self.clocks,
            owned=self.owned,
        )
        own_commits = OwnCommits(
            self.fold, self.catalog, self.maintainer, self.follower, self.announcer, self.listen
        )
        self.compactions = Compactions(
            fold=self.fold,
            ledger=self.ledger,
            events=self.events,
            maintainer=self.maintainer,
            follower=self.follower,
            last_look=last_look,
            verdicts=self.verdicts,
            holds=self.holds,
            owned=self.owned,
            own_commits=own_commits,
            deletions=self.deletions,
            clocks=self.clocks,
            operations=operations,
            windows=self.granted,
            barrier=self.barrier,
            listen=self.listen,
            now_ms=self.now_ms,
        )
        self.manifests = ManifestRewrites(
            fold=self.fold,
            ledger=self.ledger,
            events=self.events,
            maintainer=self.maintainer,
            last_look=last_look,
            verdicts=self.verdicts,
            owned=self.owned,
            holds=self.holds,
            compactions=self.compactions,
            own_commits=own_commits,
            deletions=self.deletions,
            clocks=self.clocks,
            operations=operations,
            barrier=self.barrier,
            now_ms=self.now_ms,
        )
        self._build_table_work(operations)

    def _build_table_work(self, operations: Operations) -> None:
        """Build what is of a whole table."""
        self.expiries = Expiries(
            fold=self.fold,
            ledger=self.ledger,
            events=self.events,
            catalog=self.catalog,
            maintainer=self.maintainer,
            follower=self.follower,
            verdicts=self.verdicts,
            holds=self.holds,
            readers=self.readers,
            owned=self.owned,
            deletions=self.deletions,
            clocks=self.clocks,
            operations=operations,
            barrier=self.barrier,
            listen=self.listen,
            now_ms=self.now_ms,
        )
        self.searches = Searches(
            fold=self.fold,
            ledger=self.ledger,
            events=self.events,
            catalog=self.catalog,
            maintainer=self.maintainer,
            verdicts=self.verdicts,
            holds=self.holds,
            owned=self.owned,
            deletions=self.deletions,
            clocks=self.clocks,
            operations=operations,
            barrier=self.barrier,
            listen=self.listen,
            now_ms=self.now_ms,
            monotonic_s=self.monotonic_s,
        )
        self.listings = Listings(self.searches)

    def _build_rounds(self, operations: Operations) -> None:
        """Build what begins work, by events and in rounds."""
        table_work = TableWork(self.expiries, self.manifests, self.searches)
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
            flights=lambda uuid: self.compactions.flights(uuid) + table_work.flights(uuid),
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
            readers=self.readers,
            owned=self.owned,
            compactions=self.compactions,
            due=self._build_due_work(table_work),
            deletions=self.deletions,
            poller=self.poller,
            survey=self.survey,
            pace=self.pace,
            unfinished=unfinished,
            moved=MovedTables(self.events, self.barrier, self.listen),
            elsewhere=TablesElsewhere(self.events.owns, self.monotonic_s),
            silent=SilentTables(
                self.fold, self.barrier, lambda: self.poller.every_ms, self.now_ms, self.monotonic_s
            ),
            barrier=self.barrier,
            health=self.health,
            ask=lambda tables: self.windows.ask(tables),  # noqa: PLW0108 (there are none yet)
            reload_policies=self.reload_policies,
            listen=self.listen,
            now_ms=self.now_ms,
            monotonic_s=self.monotonic_s,
        )
        self.windows = self._build_windows()

    def _build_windows(self) -> Windows:
        return Windows(
            fold=self.fold,
            events=self.events,
            book=self.granted,
            verdicts=self.verdicts,
            compactions=self.compactions,
            flights=self.rounds.due.flights,
            confirm=self.rounds.confirm,
            begin=self.rounds.begin_in_window,
            bytes_left=self.rounds.due.admission.bytes_left,
            jobs_at_once=self.config.executors.local.jobs_at_once,
            barrier=self.barrier,
            listen=self.listen,
            now_ms=self.now_ms,
            monotonic_s=self.monotonic_s,
        )

    def _build_due_work(self, table_work: TableWork) -> DueWork:
        executors, hourly = self.config.executors, self.config.budgets.bytes_per_hour
        known = (self.ledger, self.verdicts, self.compactions, self.barrier.is_aside, self.now_ms)
        admission = Admission(*known, executors.local.jobs_at_once, hourly, executors.cluster_jobs_at_once)
        return DueWork(
            fold=self.fold,
            follower=self.follower,
            verdicts=self.verdicts,
            compactions=self.compactions,
            table_work=table_work,
            admission=admission,
            own_code=OwnCode(self.is_other_code, self.listen, self.monotonic_s),
            barrier=self.barrier,
            health=self.health,
            owns=self.events.owns,
            confirm=lambda name: self.rounds.confirm(name),  # noqa: PLW0108 (there are none yet)
            slots_left=lambda: self.windows.slots_left(),  # noqa: PLW0108 (there are none yet)
            read_to_the_end=self.consumer.read_to_the_end,
            now_ms=self.now_ms,
            monotonic_s=self.monotonic_s,
        )

    def reload_policies(self) -> bool:
        """Read the folder of policies again; whether work may begin under what is in force."""
        loaded = reload_policies(self.policies, self.fold, self.ledger, self.follower.suspects, self.now_ms())
        self.health.has_policies = bool(self.policies.files())
        if loaded is not None:
            self.listen(loaded)
        return not self.policies.is_awaited

    def _touch(self, hold: Hold) -> None:
        """What was held back, or is no more, is decided again."""
        self.fold.touch(hold.uuid, None if hold.partition is None else [hold.partition])
