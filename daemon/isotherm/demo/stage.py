"""Everything that runs during a demo, started in order, looked after, and stopped in the other order.

The stage decides nothing about how long a run takes or what it proves; it keeps the parts alive and can draw what
they do.
"""

import random
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from pyiceberg.catalog import Catalog, load_catalog

from isotherm.audit.evidence import Judged, Judgement, Promise
from isotherm.contract.identity import PartitionKey, partition_values
from isotherm.core.model.decisions import Verdict as PartitionVerdict
from isotherm.demo.files import CATALOG, CONTROL_TOPIC, DEAD_LETTERS, DemoFolder, write_files
from isotherm.demo.logbook import Logbook, Tail
from isotherm.demo.maintainer import Maintainer
from isotherm.demo.programs import Chaos, Memory, Programs, tree
from isotherm.demo.referee import Referee
from isotherm.demo.shop import SCHEMA, TABLES, TOPIC_PREFIX
from isotherm.demo.stack import Stack, StackError, jar_paths
from isotherm.demo.stack.connect import debezium_config
from isotherm.demo.stack.ports import free_ports
from isotherm.demo.view import Heat, Picture, Strip
from isotherm.demo.witness import SeenTable, Witness
from isotherm.demo.workload import Workload
from isotherm.runtime.clock import monotonic_s, now_ms
from isotherm.store import Fold, Ledger
from isotherm.store.database import StoreError, StoreTrouble
from isotherm.store.folder import FOLD, LEDGER

Say = Callable[[str], None]

MEMORY_EVERY_S = 1.0
JUDGE_EVERY_S = 2.0
SPEED_OVER_S = 15.0
READ_TIMES = 3
"""How often all tables are read; the fastest counts, for neighbours only make it slower."""
SHORT = {
    "partitions_touched": "partitions",
    "hot_partitions_touched": "hot",
    "merges_recomputed": "recomputed",
    "batches_failed": "failed",
}
"""Names of counters that would not fit into a line."""
CONTROL_TOPIC_CONFIG = {"retention.ms": str(7 * 86_400_000), "cleanup.policy": "delete"}
TOPIC_PARTITIONS = {"order_lines": 2}
"""Kafka partitions of a table's topic, where not one: lines of an order need not arrive with it."""


class Stage:
    """The parts of a run."""

    def __init__(
        self, folder: DemoFolder, seed: int, say: Say, maintainer: Maintainer = Maintainer.ISOTHERM
    ) -> None:
        self.folder = folder
        self.seed = seed
        self.maintainer = maintainer
        self.say = say
        self.began_s = monotonic_s()
        self.memory = Memory()
        ingest, daemon, timer = (
            Tail(folder.logs / f"{name}.log") for name in ("ingest", "isotherm", "timer")
        )
        self.logbook = Logbook(ingest, daemon, timer)
        self.chaos: Chaos | None = None
        self._on_exit = ExitStack()
        self._next_memory_s = 0.0
        self._next_judge_s = 0.0
        self._judged: dict[str, tuple[bool, str]] = {}
        self._speed: list[tuple[float, int]] = []
        self.read_s = 0.0
        """What a full read of all tables took when the stream had ended."""
        self.files_read: dict[str, tuple[int, int]] = {}
        """Data files and delete files of each table by then."""
        self._rested_at_ms: int | None = None
        """When the stream stood still, as far as anybody has asked."""
        self.stack: Stack
        self.programs: Programs
        self.witness: Witness
        self.workload: Workload
        self.referee: Referee
        self.catalog: Catalog

    @property
    def elapsed_s(self) -> float:
        """Since the run began."""
        return monotonic_s() - self.began_s

    # Start and stop

    def start(self) -> None:
        """Start everything, and say what is being waited for.

        Raises:
            StackError: something does not start.
        """
        self._tell("starting PostgreSQL, Kafka and Kafka Connect …")
        self.stack = self._on_exit.enter_context(Stack(self.folder.stack, say=self._tell))
        self._tell("setting up the shop, ingest and what maintains the tables …")
        for name in (CONTROL_TOPIC, DEAD_LETTERS):
            self.stack.kafka.create_topic(name, 1, CONTROL_TOPIC_CONFIG)
        for table in TABLES:
            if table.is_later:
                continue  # Connect makes its topic, with its first message
            topic = f"{TOPIC_PREFIX}.{SCHEMA}.{table.name}"
            self.stack.kafka.create_topic(topic, TOPIC_PARTITIONS.get(table.name, 1))
        jars = jar_paths("spark", self.folder.stack / "spark", self._tell)
        isotherm_port, ingest_port = free_ports(2)
        write_files(self.folder, self.stack.bootstrap_servers, jars, isotherm_port, ingest_port)
        self.catalog = load_catalog(CATALOG, **self.folder.catalog_properties)
        self.programs = Programs(self.folder, self.maintainer)
        self._on_exit.callback(self.programs.stop)
        self.programs.start()
        self.workload = Workload(self.stack.postgres_dsn, self.seed)
        self._on_exit.callback(self.workload.stop)
        self.workload.set_up()
        self.witness = Witness(
            self.folder.catalog_properties,
            self.stack.bootstrap_servers,
            CONTROL_TOPIC,
            self.seed,
            None if self._by_daemon else str(self.maintainer),
        )
        self._on_exit.callback(self.witness.stop)
        self.witness.start()
        self.referee = Referee(
            self.stack.postgres_dsn,
            self.catalog,
            self.witness,
            self.folder.policies,
            by_daemon=self._by_daemon,
        )
        self.stack.connect.start_connector("shop", self._connector())
        self._tell("waiting for the first row in Iceberg (Spark takes a while to start) …")

    def _connector(self) -> dict[str, object]:
        return debezium_config(
            self.stack.postgres,
            TOPIC_PREFIX,
            table__include__list=rf"{SCHEMA}\..*",
            publication__autocreate__mode="all_tables",  # also those that come later
            decimal__handling__mode="precise",
            tombstones__on__delete=True,
            skipped__operations="none",  # by default it leaves truncates out
            poll__interval__ms=100,
        )

    def begin_chaos(self) -> None:
        """Start to kill."""
        self.chaos = Chaos(self.programs, self.seed)
        self._on_exit.callback(self.chaos.stop)
        self.chaos.start()

    def stop(self) -> None:
        """Stop whatever was started, last first."""
        self._on_exit.close()

    def _tell(self, text: str) -> None:
        self.say(f"[{self.elapsed_s:4.0f} s] {text}")

    # Meanwhile

    def look_after(self) -> None:
        """See that everything lives, start again what chaos killed, take notes.

        Raises:
            StackError: something died that nobody killed.
        """
        self.stack.check()
        self.programs.check()
        if self.workload.error is not None:
            raise StackError(f"the workload ended: {self.workload.error}")
        self.logbook.read()
        if monotonic_s() >= self._next_memory_s:
            self._next_memory_s = monotonic_s() + MEMORY_EVERY_S
            self.memory.sample(
                {
                    "postgres": tree(self.stack.postgres.process.pid),
                    "kafka": tree(self.stack.kafka.process.pid),
                    "connect": tree(self.stack.connect.process.pid),
                },
                self.programs,
            )

    def ledger(self) -> Ledger | None:
        """The daemon's ledger, to be read and closed, or None where it is not there yet."""
        try:
            return Ledger(self.folder.state / LEDGER, read_only=True)
        except StoreError:
            return None

    @property
    def _by_daemon(self) -> bool:
        return self.maintainer is Maintainer.ISOTHERM

    def accounted(self, uuid: str) -> frozenset[int] | None:
        """The snapshots of a table that the daemon accounted for, or None where there is no daemon."""
        if not self._by_daemon:
            return None
        ledger = self.ledger()
        if ledger is None:
            return frozenset()
        try:
            return frozenset(account.snapshot_id for account in ledger.accounts(uuid))
        finally:
            ledger.close()

    def has_one_driver(self) -> bool:
        """Whether a second driver of ingest was never started, or one of the two has ended."""
        return self.programs.second is None

    def read_everything(self) -> None:
        """Note how long a reader takes now for all rows of all tables, and which files it meets."""
        self.read_s = min(self.referee.read_everything_s() for _ in range(READ_TIMES))
        self.files_read = self.referee.files()

    def is_settled(self) -> bool:
        """Whether the daemon has nothing more to do that is due now, and everything is announced and accounted for.

        A timer has had its say once it has gone round all tables since the stream stood still.
        """
        if self._rested_at_ms is None:
            self._rested_at_ms = now_ms()
        if self.maintainer is Maintainer.TIMER:
            return self.logbook.round_began_ms >= self._rested_at_ms
        due = any(
            verdict in (PartitionVerdict.DUE, PartitionVerdict.RUNNING)
            for verdicts in self._verdicts().values()
            for verdict in verdicts.values()
        )
        return not due and not self.logbook.jobs_running and self.is_told()

    def is_told(self) -> bool:
        """Whether every snapshot seen is announced and accounted for; nobody has to, without a daemon."""
        if not self._by_daemon:
            return True
        seen = list(self.witness.tables.values())
        return self.witness.unannounced() == 0 and all(
            set(table.commits) <= (self.accounted(table.uuid) or frozenset()) for table in seen
        )

    def _verdicts(self) -> dict[str, dict[PartitionKey, str]]:
        """The daemon's verdicts by table, from its fold; empty while it cannot be read."""
        with suppress(StoreError, StoreTrouble):  # between two lives of the daemon it may be half there
            fold = Fold(self.folder.state / FOLD, read_only=True)
            try:
                return {
                    row.state.table.name: {
                        one.key: "" if one.verdict is None else str(one.verdict)
                        for one in fold.partitions(uuid)
                    }
                    for uuid, row in fold.tables().items()
                }
            finally:
                fold.close()
        return {}

    # For the view

    def picture(self, phase: str, left_s: float | None) -> Picture:
        """How things stand."""
        now_s = monotonic_s()
        self._speed = [(at_s, rows) for at_s, rows in self._speed if now_s - at_s < SPEED_OVER_S]
        self._speed.append((now_s, self.workload.rows))
        first_s, first_rows = self._speed[0]
        span_s = now_s - first_s
        verdicts = self._verdicts()
        news = [
            f"killed {kill.target} at {kill.at_s:.0f} s" for kill in (self.chaos.kills if self.chaos else ())
        ]
        return Picture(
            phase=phase,
            elapsed_s=self.elapsed_s,
            left_s=left_s,
            rows=self.workload.rows,
            rows_per_s=(self.workload.rows - first_rows) / span_s if span_s > 0 else 0.0,
            lag_s=self.witness.latest_latency_ms / 1000 if self.witness.latest_latency_ms else None,
            strips=[
                _strip(seen, verdicts.get(seen.name, {}))
                for seen in sorted(self.witness.tables.values(), key=_name)
            ],
            jobs=list(self.logbook.jobs_running.values()),
            last_job=self.logbook.last_job,
            promises=self._promises(),
            news=news,
            unseen=f"the witness has not seen everything: {missed}" if (missed := self.witness.error) else "",
        )

    def _promises(self) -> dict[str, tuple[bool, str]]:
        """The promises so far; judged again every other second."""
        if monotonic_s() < self._next_judge_s:
            return self._judged
        self._next_judge_s = monotonic_s() + JUDGE_EVERY_S
        judged: dict[Promise, list[Judgement]] = {promise: [] for promise in Promise}
        for seen in list(self.witness.tables.values()):
            for judgement in self.referee.so_far(seen, self.logbook):
                judged[judgement.promise].append(judgement)
        self._judged = {
            promise.value: (all(one.verdict is not Judged.BROKEN for one in found), _counters(found))
            for promise, found in judged.items()
        }
        return self._judged


def _name(seen: SeenTable) -> str:
    return seen.name


def _counters(found: list[Judgement]) -> str:
    sums: dict[str, int] = {}
    for one in found:
        for name, count in one.counts.items():
            sums[name] = sums.get(name, 0) + count
    return ", ".join(f"{count:,} {SHORT.get(name, name.replace('_', ' '))}" for name, count in sums.items())


def _strip(seen: SeenTable, verdicts: dict[PartitionKey, str]) -> Strip:
    compacted = {one.partition for one in list(seen.rewritten)}
    files = seen.files_by_partition()
    ordered = sorted(
        files, key=lambda key: [str(value).zfill(20) for value in partition_values(key).values()]
    )
    return Strip(
        name=seen.name.split(".")[-1],
        partitions=[_heat(verdicts.get(key, ""), key in compacted) for key in ordered],
        files=sum(files.values()),
        files_before=sum(one.files_before for one in list(seen.rewritten)),
        files_after=sum(one.files_after for one in list(seen.rewritten)),
    )


def _heat(verdict: str, is_compacted: bool) -> Heat:
    match verdict:
        case PartitionVerdict.DUE:
            return Heat.DUE
        case PartitionVerdict.RUNNING:
            return Heat.COMPACTING
        case PartitionVerdict.HOT | "":
            return Heat.HOT
        case _:
            return Heat.COMPACTED if is_compacted else Heat.COLD


def new_seed() -> int:
    """A seed that can be typed."""
    return random.SystemRandom().randrange(1, 1_000_000)


def relative(path: Path) -> Path:
    """As a person at this terminal would type it."""
    with suppress(ValueError):
        return path.relative_to(Path.cwd())
    return path
