"""A daemon on real tables without a JVM: SQLite catalog, local files; rewrites in this process, and the
control topic in memory.

Tables are written with PyIceberg, announced as a writer would announce them (or not), and judged by full scans.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import HourTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from isotherm.clients.manifests.reading import read_manifest_list
from isotherm.contract.events import AddedManifest, CommitEvent, encode
from isotherm.contract.summary import origin_of
from isotherm.iceberg.catalog import IcebergCatalog, connect
from isotherm.iceberg.maintainer import IcebergMaintainer
from isotherm.iceberg.threads import THREADS, Threads
from isotherm.iceberg.values import loaded_table
from isotherm.runtime.breaker import Breaker
from isotherm.runtime.clock import monotonic_s, now_ms
from isotherm.runtime.config import CatalogConfig, IsothermConfig, KafkaConfig, LoopConfig, StateConfig
from isotherm.service.loop import Service
from isotherm.service.policies.policy_folder import PolicyFolder
from isotherm.store import Fold, Ledger
from support.faults import FaultyCatalog
from support.in_process import AtOnce, InProcess
from support.memory_topics import MemoryEvents, MemoryKeyedTopic, Topic

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "at", TimestamptzType()),
    NestedField(3, "what", StringType()),
)
HOURS = PartitionSpec(PartitionField(2, 1000, HourTransform(), "at_hour"))
START = datetime(2026, 1, 1, tzinfo=UTC)
EAGER = """
tables: "*"
cold: {after: 1, quiet_for: 0s, quiet_commits: 2}
compact: {min_files: 3}
expire: {enabled: false}
"""
NEVER_DUE = """
tables: "*"
compact: {min_files: 1000000, fill_files: 1000000}
expire: {enabled: false}
"""
EXPIRING = EAGER.replace(
    "expire: {enabled: false}",
    "expire: {keep_for: 0s, keep_last: 2, at_once: 2, every: 0s, delete_after: 0s}\n"
    "override: [expire.keep_for, expire.keep_last, expire.delete_after]",
)


@dataclass
class Lab:
    """Everything that a test needs around one daemon."""

    root: Path
    policy: str = EAGER
    properties: dict[str, str] | None = None
    seen: list = field(default_factory=list)
    topic: Topic = field(default_factory=Topic)
    held: list = field(default_factory=list)
    readers: list = field(default_factory=list)
    rows: int = 0
    commit_wait_s: float = 60
    """For which the loop waits for a commit."""
    threads: Threads = THREADS
    """How the maintainer works beside the loop."""
    catalog_name: str = "lake"
    ahead_ms: int = 0
    """How far the daemon's time has been moved on: both of its clocks, so that nobody takes it for a jump."""

    def now_ms(self):
        return now_ms() + self.ahead_ms

    def monotonic_s(self):
        return monotonic_s() + self.ahead_ms / 1000

    def __post_init__(self):
        if self.properties is None:
            self.properties = {
                "type": "sql",
                "uri": f"sqlite:///{self.root}/catalog.db",
                "warehouse": f"file://{self.root}/warehouse",
            }
        (self.root / "policies").mkdir(parents=True, exist_ok=True)
        (self.root / "policies" / "all.yaml").write_text(self.policy)
        self.config = IsothermConfig(
            catalog=CatalogConfig(name=self.catalog_name, properties=self.properties),
            kafka=KafkaConfig(properties={"bootstrap.servers": "unused"}),
            state=StateConfig(path=self.root / "state"),
            policies=self.root / "policies",
            loop=LoopConfig(plan_every_s=1e-9, poll_tables_every_s=1e-9),
        )
        self.catalog = connect(self.config.catalog)
        self.executor = InProcess()

    def create(self, name="shop.orders", spec=HOURS, **properties):
        self.catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        return self.catalog.create_table(name, SCHEMA, partition_spec=spec, properties=properties)

    def append(self, table, *hours, rows=2, announce=True, snapshot_properties=None):
        """One commit with some rows in each of the hours."""
        ids = range(self.rows, self.rows + rows * len(hours))
        self.rows += len(ids)
        at = [START + timedelta(hours=hour, minutes=5) for hour in hours for _ in range(rows)]
        data = pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "at": pa.array(at, pa.timestamp("us", "UTC")),
                "what": pa.array(
                    [None if number % 5 == 0 else f"row {number}" for number in ids], pa.string()
                ),
            }
        )
        table.refresh()
        table.append(data, snapshot_properties=snapshot_properties or {})
        event = event_of(table.refresh())
        if announce:
            self.announce(event)
        return event

    def announce(self, event):
        self.topic.messages.append(encode(event)[1])

    def service(self, executor=None, listen=None, ledger=None, hold_topic=None, **more):
        """A daemon on the stores of this lab: a new one is a restart."""
        return Service(
            config=self.config,
            fold=Fold.open_or_rebuild(self.root / "state" / "fold.db")[0],
            ledger=ledger or Ledger(self.root / "state" / "ledger.db"),
            events=MemoryEvents(self.topic),
            catalog=IcebergCatalog(self.catalog, breaker=Breaker(self.monotonic_s), threads=AtOnce()),
            maintainer=self.maintainer(executor or self.executor),
            hold_topic=hold_topic or MemoryKeyedTopic(self.held),
            reader_topic=MemoryKeyedTopic(self.readers),
            policies=PolicyFolder(self.config.policies),
            listen=listen or self.seen.append,
            now_ms=self.now_ms,
            monotonic_s=self.monotonic_s,
            **more,
        )

    def maintainer(self, executor):
        """What changes the tables."""
        return Beside(self.catalog, executor, self.now_ms, self)

    def settled(self):
        """A daemon that has done all that there is to do."""
        service = self.service()
        service.start()
        settle(service)
        return service

    def scan(self, name="shop.orders"):
        """The table's partitions, counted again from all manifests of its head."""
        return IcebergCatalog(self.catalog).scan(loaded_table(self.catalog.load_table(name), name)).partitions


class Beside(IcebergMaintainer):
    """The real maintainer on a store whose clock is the lab's, and on a catalog that can fail."""

    def __init__(self, catalog, executor, now_ms, lab):
        self.requests = FaultyCatalog(catalog)
        """What a test may put before the maintainer's requests: hooks."""
        clock_s, wait_s = lab.monotonic_s, lab.commit_wait_s
        super().__init__(self.requests, executor, now_ms, clock_s, threads=lab.threads, commit_wait_s=wait_s)
        self.lab = lab

    def clock_skew_ms(self, loaded):
        skew_ms = super().clock_skew_ms(loaded)
        return None if skew_ms is None else skew_ms - self.lab.ahead_ms


def uuid_of(table):
    """A table's uuid, as text."""
    return str(table.metadata.table_uuid)


def of(lab, kind):
    """What was told so far, of one kind."""
    return [one for one in lab.seen if isinstance(one, kind)]


def started(lab):
    """A daemon that has just begun."""
    service = lab.service()
    service.start()
    return service


def with_a_job(lab):
    """A table, and a daemon with a rewrite of hour 1 that is over and about to be committed."""
    table = lab.create()
    for hour in (1, 1, 1, 1, 9, 9, 9, 9):
        lab.append(table, hour)
    service = started(lab)
    until_a_job_runs(service)
    wait_for_children(service)
    return table, service


def until_a_job_runs(service):
    """Turn the loop until a job is bound and its rewrite has begun."""

    def running():
        return {
            operation.job_id
            for operation, job in service.ledger.unfinished()
            if job or not operation.partition
        }

    before = running()
    # Sixty turns pass in no time, while a thread beside the loop is kept waiting.
    until_s = monotonic_s() + 60
    while monotonic_s() < until_s:
        service.step(0)
        if running() - before:  # the turn itself has begun it
            return
        if len(service.compactions):
            service.maintainer.wait(30)
            if service.compactions.start_bound():
                return
    raise AssertionError("no job began")


def settle(service, rounds=400):
    """Turn the loop until there is nothing to do any more; fails where that does not come."""
    quiet = 0
    for _ in range(rounds):
        service.step(0)
        sweeping = service.ledger.tables_to_sweep(service.now_ms()) and not service.deletions.everywhere()
        busy = len(service.compactions) or service.ledger.unfinished() or sweeping
        due = any(
            service.fold.tally(uuid).verdicts.get("due") and not service.ledger.halted(uuid)
            for uuid in service.fold.tables()
        )
        quiet = 0 if busy or due else quiet + 1
        if (service.ledger.unfinished() or sweeping) and not len(service.compactions):
            # What nobody knows yet is looked for with growing pauses, and other tables are looked at rarely.
            service.maintainer.lab.ahead_ms += 5_000 if service.ledger.unfinished() else 30_000
        if quiet >= 3:
            return
        if busy:
            wait_for_children(service)
    raise AssertionError("the daemon does not come to rest")


def wait_for_children(service):
    """Until something that runs beside the loop has ended: no sleeping on a guess."""
    service.maintainer.wait(30)
    if service.compactions.start_bound():
        service.maintainer.wait(30)


def believed(service, uuid):
    """What the daemon believes of the live files, to be held against `Lab.scan`."""
    return {one.key: (dict(one.state.data), dict(one.state.deletes)) for one in service.fold.partitions(uuid)}


def counted(scan):
    """A scan in the same form."""
    return {key: (dict(one.data), dict(one.deletes)) for key, one in scan.items()}


def event_of(table, snapshot=None, **changes):
    """The commit event that a writer would send of a snapshot."""
    snapshot = snapshot or table.current_snapshot()
    summary = dict(snapshot.summary.additional_properties)
    manifests = [
        AddedManifest(
            path=m.manifest_path,
            length=m.manifest_length,
            spec_id=m.partition_spec_id,
            content="deletes" if m.content else "data",
            added_files=m.added_files_count or 0,
            deleted_files=m.deleted_files_count or 0,
        )
        for m in read_manifest_list(table.io, snapshot.manifest_list)
        if m.added_snapshot_id == snapshot.snapshot_id
    ]
    event = CommitEvent(
        table_uuid=str(table.metadata.table_uuid),
        table=".".join(table.name()[-2:]),
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number or 0,
        timestamp_ms=snapshot.timestamp_ms,
        operation=snapshot.summary.operation.value,
        origin=origin_of(summary).value,
        writer="pyiceberg",
        added_manifests=tuple(manifests),
        added_manifests_complete=True,
        summary=summary,
    )
    return event.model_copy(update=changes)


def three_tables(lab):
    tables = [lab.create(f"shop.{name}") for name in ("aaa", "bbb", "ccc")]
    for table in tables:
        lab.append(table, 1)
    return tables
