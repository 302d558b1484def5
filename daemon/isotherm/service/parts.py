"""The parts of the service: what it is given, and what `wiring` builds of that."""

from collections.abc import Callable
from dataclasses import dataclass, field

from isotherm.runtime.config import IsothermConfig
from isotherm.service.clocks import Clocks
from isotherm.service.health import Health
from isotherm.service.jobs.compactions import Compactions
from isotherm.service.jobs.deletions import Deletions
from isotherm.service.jobs.expiries import Expiries
from isotherm.service.jobs.folder_searches import Searches
from isotherm.service.jobs.granted_windows import GrantedWindows
from isotherm.service.jobs.manifest_rewrites import ManifestRewrites
from isotherm.service.jobs.quarantine_listings import Listings
from isotherm.service.jobs.table_ownership import Owned
from isotherm.service.policies.policy_folder import PolicyFolder
from isotherm.service.ports import Catalog, DeadLetters, EventSource, KeyedTopic, Listener, Maintainer
from isotherm.service.rounds.asking_windows import Windows
from isotherm.service.rounds.pruning import Pruning
from isotherm.service.rounds.round_pace import RoundPace
from isotherm.service.rounds.rounds import Rounds
from isotherm.service.rounds.verdicts import Verdicts
from isotherm.service.survey import Survey
from isotherm.service.tables.catalog_lists import CatalogLists
from isotherm.service.tables.confirm_heads import Follower
from isotherm.service.tables.failing_tables import Barrier
from isotherm.service.tables.recount import Recount
from isotherm.service.tables.scan_reports import ScanCounter, ScanReports
from isotherm.service.tables.seen_names import SeenNames
from isotherm.service.topics.announcer import Announcer
from isotherm.service.topics.catalog_poller import Poller
from isotherm.service.topics.consumer import Consumer
from isotherm.service.topics.dead_letters import SetAside
from isotherm.service.topics.events_to_state import Intake
from isotherm.service.topics.holds import Holds
from isotherm.service.topics.readers import Readers
from isotherm.service.topics.relay import Relay, Sources
from isotherm.store.fold import Fold
from isotherm.store.ledger import Ledger


@dataclass(slots=True)
class Parts:
    """Its stores, clocks and what is outside are given; the others are built."""

    config: IsothermConfig
    fold: Fold
    ledger: Ledger
    events: EventSource
    catalog: Catalog
    maintainer: Maintainer
    hold_topic: KeyedTopic
    reader_topic: KeyedTopic
    policies: PolicyFolder
    listen: Listener
    now_ms: Callable[[], int]
    monotonic_s: Callable[[], float]
    health: Health = field(default_factory=Health)
    sources: Sources | None = None
    letters: DeadLetters | None = None
    scan_reports: ScanReports | None = None
    """None where isotherm.yaml wants none."""
    is_other_code: Callable[[], bool] = lambda: False
    """Whether what would be started from the disk now is other code than this."""
    set_aside: SetAside = field(init=False)
    relay: Relay | None = field(init=False)
    lists: CatalogLists = field(init=False)
    seen_names: SeenNames = field(init=False)
    follower: Follower = field(init=False)
    intake: Intake = field(init=False)
    consumer: Consumer = field(init=False)
    verdicts: Verdicts = field(init=False)
    holds: Holds = field(init=False)
    readers: Readers = field(init=False)
    owned: Owned = field(init=False)
    clocks: Clocks = field(init=False)
    announcer: Announcer = field(init=False)
    deletions: Deletions = field(init=False)
    compactions: Compactions = field(init=False)
    expiries: Expiries = field(init=False)
    manifests: ManifestRewrites = field(init=False)
    searches: Searches = field(init=False)
    listings: Listings = field(init=False)
    poller: Poller = field(init=False)
    survey: Survey = field(init=False)
    recount: Recount = field(init=False)
    barrier: Barrier = field(init=False)
    rounds: Rounds = field(init=False)
    pruning: Pruning = field(init=False)
    scans: ScanCounter = field(init=False)
    pace: RoundPace = field(init=False)
    granted: GrantedWindows = field(init=False)
    windows: Windows = field(init=False)
