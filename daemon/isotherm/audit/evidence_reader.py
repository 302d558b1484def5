"""Reads what the audit judges: the table's own history, the control topic, and the ledger.

A thin edge: it collects values and decides nothing. Rows are compared through PyIceberg's own scan, not through the
executor's readers. That takes an empty list of structs for no list, so the two are not told apart, and it cannot read all
timestamps of 96 bits, so nothing is said of files with some. Only as many rewrites as `ROWS_COMPARED` are read back, the
newest first: it costs reading their partitions twice.
"""

import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import ManifestGroupPlanner, Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record

from isotherm.audit.evidence import (
    ColdRule,
    Commit,
    Evidence,
    FilesChecked,
    RowsCompared,
    Said,
    SaidOfWindow,
    Touch,
)
from isotherm.audit.missing_files import Removed, removed_in_ledger, told_apart
from isotherm.contract.events import CommitEvent, EventError, Intent, decode
from isotherm.contract.identity import UNPARTITIONED, PartitionKey, partition_key, scalar
from isotherm.contract.summary import JOB_ID, POLICY_HASH, WINDOW_ID, committed_at_of, valid_through_of
from isotherm.iceberg.catalog import IcebergCatalog, connect_to_read
from isotherm.kafka.topic_history import read_past
from isotherm.runtime.clock import now_ms
from isotherm.runtime.config import IsothermConfig
from isotherm.service.policies.policy_folder import in_force
from isotherm.store.database import StoreError
from isotherm.store.folder import LEDGER
from isotherm.store.ledger import Ledger

ROWS_COMPARED = 20
LOOKERS = 16
"""Threads that ask whether files exist: on object stores each answer takes some ten milliseconds."""
_BY_AVRO = (TypeError, EOFError, SystemError, MemoryError)
"""What PyIceberg's reader raises at a type that Java names and explains elsewhere, at an empty file, at lengths that are none."""
UNREADABLE = (OSError, ValueError, NotImplementedError, pa.ArrowException, *_BY_AVRO)
"""A file that is gone, a store that does not answer, or what PyIceberg cannot read: the evidence cannot be had now."""


@dataclass(slots=True)
class Heard:
    """What the control topic says of one table."""

    intents: list[Said] = field(default_factory=list)
    windows: list[SaidOfWindow] = field(default_factory=list)
    announced: set[int] = field(default_factory=set)
    since_ms: int | None = None
    """When the oldest message was sent, where older ones are gone. None where the topic is read from its beginning."""
    is_known: bool = True


def read_history(config: IsothermConfig, name: str) -> Evidence:
    """Everything that is still known of a table's past."""
    catalog = IcebergCatalog(connect_to_read(config.catalog))
    table = _load(catalog, name)
    metadata = table.metadata
    commits = tuple(commits_of(table))
    heard = listen(config, str(metadata.table_uuid))
    kept = kept_in_ledger(_ledger_of(config), str(metadata.table_uuid), commits)
    rows: list[RowsCompared] = []
    for commit in [one for one in reversed(commits) if one.is_ours and one.touches][:ROWS_COMPARED]:
        rows += compared(table, commit)
    # Loaded again: what was expired while we read is not missed, it has left.
    return Evidence(
        table=name,
        transforms=_transforms(table),
        commits=commits,
        rules=rules_in_force(config, name, metadata.properties),
        now_ms=now_ms(),
        intents=tuple(heard.intents),
        windows=tuple(heard.windows),
        announced=frozenset(heard.announced),
        announced_since_ms=heard.since_ms,
        topic_is_known=heard.is_known,
        accounted=kept.accounted,
        accounted_since_ms=kept.since_ms,
        heard=kept.heard,
        rows=tuple(rows),
        files=files_checked(
            _load(catalog, name), removed_in_ledger(_ledger_of(config), str(metadata.table_uuid))
        ),
        lost_commits_until_ms=kept.lost,
        intent_cap_ms=int(config.loop.intent_timeout_s * 1000),
    )


def _load(catalog: IcebergCatalog, name: str) -> Table:
    table: Table = catalog.load(name).handle
    return table


# The table


def commits_of(table: Table) -> Iterable[Commit]:
    """The ancestry of `main`, oldest first."""
    ancestry: list[Snapshot] = []
    seen: set[int] = set()
    current = table.current_snapshot()
    while current is not None and current.snapshot_id not in seen:  # damaged metadata may lead in a circle
        ancestry.append(current)
        seen.add(current.snapshot_id)
        parent = current.parent_snapshot_id
        current = None if parent is None else table.metadata.snapshot_by_id(parent)
    for snapshot in reversed(ancestry):
        summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
        yield Commit(
            snapshot_id=snapshot.snapshot_id,
            parent_id=snapshot.parent_snapshot_id,
            committed_at_ms=committed_at_of(summary, snapshot.timestamp_ms),
            operation="" if snapshot.summary is None else snapshot.summary.operation.value,
            job_id=summary.get(JOB_ID),
            policy_hash=summary.get(POLICY_HASH),
            sequence_number=snapshot.sequence_number or 0,
            valid_through_ms=valid_through_of(summary),
            touches=_touches(table, snapshot),
            window_ids=tuple(summary[WINDOW_ID].split(",")) if WINDOW_ID in summary else (),
        )


def _touches(table: Table, snapshot: Snapshot) -> tuple[Touch, ...] | None:
    counts: dict[PartitionKey, list[int]] = {}
    newest: dict[PartitionKey, int] = {}
    try:
        for manifest in snapshot.manifests(table.io):
            if manifest.added_snapshot_id != snapshot.snapshot_id:
                continue
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                if entry.status == ManifestEntryStatus.EXISTING or entry.snapshot_id != snapshot.snapshot_id:
                    continue
                key = _key(table, manifest.partition_spec_id, entry.data_file.partition)
                is_gone = entry.status == ManifestEntryStatus.DELETED
                counts.setdefault(key, [0, 0])[is_gone] += 1
                if is_gone:
                    newest[key] = max(newest.get(key, 0), entry.sequence_number or 0)
    except UNREADABLE:
        return None
    return tuple(Touch(key, added, removed, newest.get(key)) for key, (added, removed) in counts.items())


def _key(table: Table, spec_id: int, partition: Record) -> PartitionKey:
    spec: PartitionSpec = table.metadata.specs()[spec_id]
    return partition_key({part.field_id: scalar(partition[place]) for place, part in enumerate(spec.fields)})


def _transforms(table: Table) -> dict[int, str]:
    found = {}
    for spec in table.metadata.partition_specs:
        for part in spec.fields:
            name = str(part.transform)
            is_date = name == "identity" and _source_type(table, part.source_id) == "date"
            found[part.field_id] = "date" if is_date else name
    return found


def _source_type(table: Table, source_id: int) -> str:
    for schema in reversed(table.metadata.schemas):
        try:
            return str(schema.find_type(source_id))
        except ValueError:
            continue
    return ""


# Rows


def compared(table: Table, commit: Commit) -> Iterable[RowsCompared]:
    """The rows of what a commit touched, in its parent and in itself; nothing where they cannot be read.

    PyIceberg applies no equality deletes, so nothing is said of partitions that have some.
    """
    after = table.metadata.snapshot_by_id(commit.snapshot_id)
    before = None if commit.parent_id is None else table.metadata.snapshot_by_id(commit.parent_id)
    if before is None or after is None:
        return
    partitions = {touch.partition for touch in commit.touches or ()}
    try:
        yield RowsCompared(
            commit.snapshot_id, _rows(table, before, partitions), _rows(table, after, partitions)
        )
    except UNREADABLE:
        return


def _rows(table: Table, snapshot: Snapshot, partitions: set[PartitionKey]) -> tuple[int, int]:
    """How many rows some partitions hold, and a sum of their hashes: equal multisets have equal sums."""
    # Deletes without a partition apply to every one.
    wanted = {*partitions, UNPARTITIONED}

    def is_wanted(entry: ManifestEntry) -> bool:
        file = entry.data_file
        return _key(table, file.spec_id, file.partition) in wanted

    planner = ManifestGroupPlanner(table.metadata, table.io)
    tasks = [
        task
        for task in planner.plan_files(snapshot.manifests(table.io), is_wanted)
        if _key(table, task.file.spec_id, task.file.partition) in partitions
    ]
    if any(_has_int96(table, task.file.file_path) for task in tasks):
        raise NotImplementedError("PyIceberg reads timestamps of 96 bits only between 1677 and 2262")
    # Both sides in the schema of today, as a reader of either snapshot by column would see them.
    scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
    # File by file: a partition may be larger than this machine's memory.
    return sum_of_rows(batch for task in tasks for batch in scan.to_record_batches([task]))


def _has_int96(table: Table, path: str) -> bool:
    """Whether a file has timestamps of 96 bits, which old versions of Spark and Hive write."""
    kinds = {str(field.field_type) for field in table.schema().fields}
    if not any(kind.startswith(("timestamp", "struct", "list", "map")) for kind in kinds):
        return False
    with table.io.new_input(path).open() as stream:
        columns = pq.read_metadata(stream).schema
    return any(columns.column(place).physical_type == "INT96" for place in range(len(columns)))


def sum_of_rows(batches: Iterable[pa.RecordBatch]) -> tuple[int, int]:
    """A count, and a sum of hashes that does not depend on the order."""
    count = total = 0
    with duckdb.connect() as connection:
        for batch in batches:
            if not batch.num_rows:
                continue
            names = sorted(batch.schema.names)
            packed = ", ".join(f"c{place} := {_quoted(name)}" for place, name in enumerate(names))
            connection.register("incoming", pa.Table.from_batches([batch]))
            ((rows, hashes),) = connection.execute(
                f"SELECT count(*), sum(md5_number_lower(struct_pack({packed})::VARCHAR)::HUGEINT) FROM incoming"  # noqa: S608 (our own quoting)
            ).fetchall()
            count, total = count + int(rows), total + int(hashes)
    return count, total


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# Files


def files_checked(table: Table, removed: Removed) -> FilesChecked:
    """Whether every file is there that a snapshot in the metadata reaches, and which of those the daemon removed."""
    needed: dict[str, int] = {}
    manifests: dict[str, ManifestFile] = {}
    unread: dict[str, str] = {}
    for snapshot in table.metadata.snapshots:
        needed.setdefault(snapshot.manifest_list, snapshot.snapshot_id)
        try:
            for manifest in snapshot.manifests(table.io):
                needed.setdefault(manifest.manifest_path, snapshot.snapshot_id)
                manifests[manifest.manifest_path] = manifest
        except UNREADABLE as err:
            unread[snapshot.manifest_list] = str(err)
    for path, manifest in manifests.items():
        try:
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                needed.setdefault(entry.data_file.file_path, needed[path])
        except UNREADABLE as err:
            unread[path] = str(err)

    def is_there(path: str) -> bool:
        try:
            return table.io.new_input(path).exists()
        except UNREADABLE as err:
            unread[path] = str(err)
            return True  # it is not known to be missing

    with ThreadPoolExecutor(LOOKERS) as pool:
        there = dict(zip(needed, pool.map(is_there, needed), strict=True))
    ours, others = told_apart([one for one in needed.items() if not there[one[0]]], removed)
    return FilesChecked(
        len(table.metadata.snapshots),
        len(needed),
        ours,
        unread=tuple(f"{path}: {why}" for path, why in unread.items() if there[path]),
        missing_by_others=others,
    )


# The policy and the ledger


def rules_in_force(config: IsothermConfig, table: str, properties: Mapping[str, str]) -> dict[str, ColdRule]:
    """The rule of the policy in force now; what was done under another one cannot be judged any more."""
    resolved = in_force(config.policies, _known_policies(_ledger_of(config))).resolve(table, dict(properties))
    if resolved is None:
        return {}
    cold, minor_after_ms = resolved.policy.cold, resolved.policy.compact.minor_after
    rule = ColdRule(cold.least_after_ms, cold.quiet_for, cold.silent_for, minor_after_ms)
    return {resolved.policy.hash: rule}


def _known_policies(path: Path) -> dict[str, str]:
    try:
        ledger = Ledger(path, read_only=True)
    except StoreError:
        return {}
    try:
        return ledger.policies()
    finally:
        ledger.close()


def _ledger_of(config: IsothermConfig) -> Path:
    return config.state.path / LEDGER


@dataclass(frozen=True, slots=True)
class Kept:
    """What the ledger says of one table. Nothing where there is no ledger, or none that knows the table."""

    accounted: frozenset[int] | None = None
    heard: frozenset[int] = frozenset()
    since_ms: int | None = None
    """When the daemon first looked at the table."""
    lost: tuple[int, ...] = ()
    """When our commits were made that have expired."""


def kept_in_ledger(path: Path, table_uuid: str, commits: Iterable[Commit]) -> Kept:
    """Snapshots accounted for and heard of, since when, and our expired commits."""
    try:
        ledger = Ledger(path, read_only=True)
    except StoreError:
        return Kept()
    try:
        accounts = ledger.accounts(table_uuid)
        known = {commit.snapshot_id for commit in commits}
        lost = tuple(
            operation.ended_at_ms
            for operation in ledger.operations(table_uuid, limit=100_000)
            if operation.snapshot_id is not None
            and operation.snapshot_id not in known
            and operation.ended_at_ms is not None
        )
        return Kept(
            accounted=frozenset(account.snapshot_id for account in accounts) if accounts else None,
            heard=frozenset(account.snapshot_id for account in accounts if account.announced),
            since_ms=min((account.received_at_ms for account in accounts), default=None),
            lost=lost,
        )
    finally:
        ledger.close()


# The control topic


def listen(config: IsothermConfig, table_uuid: str) -> Heard:
    """Every event and intent of a table that the control topic still has."""
    heard = Heard()
    past = read_past(
        config.kafka.properties,
        config.kafka.control_topic,
        f"{config.kafka.group}-audit-{uuid.uuid4()}",
        lambda at_ms, value: _hear(heard, table_uuid, at_ms, value),
    )
    heard.is_known, heard.since_ms = past.is_whole, past.since_ms
    return heard


def _hear(heard: Heard, table_uuid: str, at_ms: int, value: bytes | None) -> None:
    try:
        event = decode(value)
    except EventError:
        return
    match event:
        case CommitEvent() if event.table_uuid == table_uuid:
            heard.announced.add(event.snapshot_id)
        case Intent() if event.table_uuid == table_uuid:
            heard.intents.append(Said(at_ms, event))
        case CommitEvent() | Intent() | None:
            pass  # of another table, or of a type that is not ours
        case _ if event.table_uuid == table_uuid:
            heard.windows.append(SaidOfWindow(at_ms, event))
