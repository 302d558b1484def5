"""The witness: sees everything by its own means while the run goes on, and keeps what will expire.

It polls the metadata of every table, reads the manifests that each new snapshot added, follows which files are live,
and compares the rows of what the daemon rewrote before and after, while both can still be read. A second thread listens
to the control topic with a consumer of its own. What it knows becomes a `History`, and the audit's rules judge it.
"""

import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from isotherm.audit.evidence import Commit, FilesChecked, RowsCompared, Said, SaidOfWindow
from isotherm.contract.events import CommitEvent, EventError, Intent, decode
from isotherm.contract.identity import PartitionKey
from isotherm.demo import lake
from isotherm.demo.files import GRACE_S
from isotherm.demo.lake import SeenChange, SeenFile
from isotherm.demo.shop import NAMESPACE
from isotherm.runtime.clock import monotonic_s

POLL_S = 1.0
SCAN_EVERY_S = 5.0
"""A spot scan of an older snapshot, as some reader's long query would do it."""
LATENCIES_KEPT = 200_000
LOOKS = 10
"""So often in a row a table is looked at in vain, then what it did meanwhile is given up. A catalog that is locked passes;
files that are gone do not come back."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """One partition that a commit of ours rewrote."""

    snapshot_id: int
    partition: PartitionKey
    files_before: int
    files_after: int


@dataclass(slots=True)
class SeenTable:
    """What is known of one table."""

    name: str
    uuid: str
    transforms: Mapping[int, str]

    metadata_location: str = ""
    head: int | None = None
    commits: dict[int, Commit] = field(default_factory=dict)
    """In the order of the table's history."""
    live: dict[str, SeenFile] = field(default_factory=dict)
    """Files of the head, by path."""
    rewritten: list[Rewritten] = field(default_factory=list)
    rows: list[RowsCompared] = field(default_factory=list)
    in_metadata: frozenset[int] = frozenset()
    failed_scans: list[str] = field(default_factory=list)
    scans: int = 0
    scanned_rows: dict[int, int] = field(default_factory=dict)
    bytes_ingested: int = 0
    bytes_rewritten: int = 0

    @property
    def expired(self) -> int:
        """Snapshots that were there and have left the metadata."""
        return len(set(self.commits) - self.in_metadata)

    def files_by_partition(self) -> dict[PartitionKey, int]:
        """Live data files."""
        counts: dict[PartitionKey, int] = {}
        for file in list(self.live.values()):
            if file.is_data:
                counts[file.partition] = counts.get(file.partition, 0) + 1
        return counts


class Witness:
    """Looks on, in threads of its own."""

    def __init__(
        self,
        catalog_properties: Mapping[str, str],
        bootstrap_servers: str,
        topic: str,
        seed: int,
        maintainer: str | None = None,
    ) -> None:
        """`maintainer` is whose rewrites are that name no job of ours, or None where they are some writer's."""
        self.tables: dict[str, SeenTable] = {}
        self.announced: dict[str, dict[int, int]] = {}
        """Table uuid → snapshot → the broker's time of its first announcement."""
        self.intents: dict[str, list[Said]] = {}
        self.windows: dict[str, list[SaidOfWindow]] = {}
        self.unreadable_messages = 0
        self.latencies_ms: list[float] = []
        """From the change in PostgreSQL to the snapshot that holds it, row by row."""
        self.first_readable_ms: int | None = None
        """When the first row was readable in Iceberg."""
        self._missed: list[str] = []
        self._troubles: dict[str, tuple[int, str]] = {}
        """Table → how often in a row it could not be looked at, and why; `""` for the catalog."""
        self.latest_latency_ms = 0.0
        self._properties = dict(catalog_properties)
        self._servers = bootstrap_servers
        self._topic = topic
        self._maintainer = maintainer
        self._random = random.Random(seed)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._guarded, args=(run,), name=run.__name__, daemon=True)
            for run in (self._watch_tables, self._listen)
        ]

    @property
    def error(self) -> str | None:
        """What it has missed, or cannot see now; a witness that missed something cannot clear anybody."""
        now = [text for _, text in list(self._troubles.values())]
        return next(iter([*self._missed, *now]), None)

    def start(self) -> None:
        """Begin to look on."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Look once more, then stop."""
        self._stopping.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=30)

    def look(self, catalog: Catalog, rows: lake.Rows) -> None:
        """Take in whatever is new in the tables. What cannot be read is tried again at the next look."""
        with self._lock, self._troubled(""):
            for identifier in catalog.list_tables(NAMESPACE) if catalog.namespace_exists(NAMESPACE) else ():
                name = ".".join(identifier)
                with self._troubled(name), suppress(NoSuchTableError):
                    self._look_at(catalog.load_table(identifier), name, rows)

    @contextmanager
    def _troubled(self, name: str) -> Iterator[None]:
        """Note why a table cannot be looked at, until it can."""
        try:
            yield
        except Exception as err:  # noqa: BLE001 (whatever it is, it must be told, and the other tables go on)
            times, _ = self._troubles.get(name, (0, ""))
            self._troubles[name] = times + 1, f"{name or 'the catalog'}: {type(err).__name__}: {err}"
        else:
            self._troubles.pop(name, None)

    def _guarded(self, run: Any) -> None:
        try:
            run()
        except Exception as err:  # noqa: BLE001 (whatever it is, the report must say that the witness went blind)
            self._missed.append(f"{run.__name__.strip('_')} ended: {type(err).__name__}: {err}")

    # The tables

    def _watch_tables(self) -> None:
        catalog = load_catalog("lake", **self._properties)
        rows = lake.Rows()
        next_scan_s = monotonic_s() + SCAN_EVERY_S
        while not self._stopping.is_set():
            self.look(catalog, rows)
            if monotonic_s() >= next_scan_s and self.tables:
                with self._troubled("a scan"):
                    self._scan_some(catalog, rows)
                next_scan_s = monotonic_s() + SCAN_EVERY_S
            self._stopping.wait(POLL_S)
        self.look(catalog, rows)
        rows.close()

    def _look_at(self, table: Table, name: str, rows: lake.Rows) -> None:
        metadata = table.metadata
        seen = self.tables.get(name)
        if seen is None or seen.uuid != str(metadata.table_uuid):
            seen = SeenTable(name, str(metadata.table_uuid), lake.transforms(metadata))
            self.tables[name] = seen
        if table.metadata_location == seen.metadata_location:
            return
        new: list[Snapshot] = []
        current = table.current_snapshot()
        while current is not None and current.snapshot_id not in seen.commits:
            new.append(current)
            parent = current.parent_snapshot_id
            current = None if parent is None else metadata.snapshot_by_id(parent)
        if (new and _is_after_a_gap(seen, new[-1])) or self._troubles.get(name, (0, ""))[0] >= LOOKS:
            self._begin_anew(table, seen)
        else:
            for snapshot in reversed(new):
                self._take(table, seen, snapshot, rows)
        seen.head = metadata.current_snapshot_id
        seen.in_metadata = frozenset(snapshot.snapshot_id for snapshot in metadata.snapshots)
        seen.metadata_location = table.metadata_location

    def _begin_anew(self, table: Table, seen: SeenTable) -> None:
        """Follow a table from its head on: what it did before has expired unseen, or cannot be read."""
        head = table.current_snapshot()
        if head is None:
            return
        live = lake.live(table, head)
        commit = lake.commit_of(head, lake.change(table, head), self._maintainer)
        self._missed.append(f"{seen.name}: what came shortly before snapshot {head.snapshot_id} was not seen")
        seen.live, seen.commits[head.snapshot_id] = live, commit

    def _take(self, table: Table, seen: SeenTable, snapshot: Snapshot, rows: lake.Rows) -> None:
        change = lake.change(table, snapshot)
        commit = lake.commit_of(snapshot, change, self._maintainer)
        touched = {touch.partition for touch in commit.touches or ()}
        before = [file for file in seen.live.values() if file.partition in touched]
        live = dict(seen.live)
        for file in change.removed:
            live.pop(file.path, None)
        live.update({file.path: file for file in change.added})
        if commit.is_ours and touched:
            after = [file for file in live.values() if file.partition in touched]
            schema = table.schema()
            sums = rows.count_and_sum(before, schema), rows.count_and_sum(after, schema)
            seen.rows.append(RowsCompared(snapshot.snapshot_id, *sums))
            seen.rewritten += [
                Rewritten(snapshot.snapshot_id, key, _data_files(before, key), _data_files(after, key))
                for key in sorted(touched)
            ]
        written_bytes = sum(file.size_bytes for file in change.added)
        if commit.is_ours:
            seen.bytes_rewritten += written_bytes
        else:
            seen.bytes_ingested += written_bytes
            self._time_rows(snapshot, change)
        seen.live = live
        seen.commits[snapshot.snapshot_id] = commit

    def _time_rows(self, snapshot: Snapshot, change: SeenChange) -> None:
        """How long the rows of a writer's snapshot took, from the time of change that they carry."""
        added = [file for file in change.added if file.is_data]
        if not added:
            return
        if self.first_readable_ms is None:
            self.first_readable_ms = snapshot.timestamp_ms
        for file in added:
            columns = set(pq.read_schema(file.local_path).names)
            wanted = [name for name in ("changed_at", "_op") if name in columns]
            if "changed_at" not in wanted:
                continue
            table = pq.ParquetFile(file.local_path).read(columns=wanted)
            changed = table.column("changed_at").cast("int64").to_pylist()
            operations = table.column("_op").to_pylist() if "_op" in wanted else [None] * len(changed)
            # A deleted row carries the time of the change before; nobody knows when it was deleted.
            fresh = [
                snapshot.timestamp_ms - at_us / 1000
                for at_us, operation in zip(changed, operations, strict=True)
                if operation != "d" and at_us is not None and at_us / 1000 >= self.first_readable_ms
            ]
            if fresh:
                self.latencies_ms += fresh[: LATENCIES_KEPT - len(self.latencies_ms)]
                self.latest_latency_ms = max(fresh)

    def _scan_some(self, catalog: Catalog, rows: lake.Rows) -> None:
        """Read some older snapshot in full; where it breaks although the metadata still has it, say so."""
        seen = self._random.choice(list(self.tables.values()))
        table = catalog.load_table(seen.name)
        if not table.metadata.snapshots:
            return
        snapshot = self._random.choice(table.metadata.snapshots)
        began_s = monotonic_s()
        try:
            count, _ = rows.count_and_sum(lake.live(table, snapshot).values(), table.schema())
        except Exception as err:  # noqa: BLE001 (DuckDB, PyArrow and the file system have an error each for this)
            took_s = monotonic_s() - began_s
            if took_s < GRACE_S:
                seen.failed_scans.append(
                    f"snapshot {snapshot.snapshot_id}, {took_s:.1f} s after it was readable: {err}"
                )
            return
        seen.scans += 1
        if seen.scanned_rows.setdefault(snapshot.snapshot_id, count) != count:
            known = seen.scanned_rows[snapshot.snapshot_id]
            seen.failed_scans.append(f"snapshot {snapshot.snapshot_id} had {known} rows and now has {count}")

    # The control topic

    def _listen(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "witness",  # librdkafka wants one; it is never joined, nothing is committed
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        try:
            partitions = consumer.list_topics(self._topic, 30).topics[self._topic].partitions
            consumer.assign([TopicPartition(self._topic, number, 0) for number in partitions])
            quiet = False
            while not (self._stopping.is_set() and quiet):
                messages = consumer.consume(500, 0.5)
                quiet = not messages
                for message in messages:
                    if message.error() is None:
                        self.hear(message.timestamp()[1], message.value())
        finally:
            consumer.close()

    def hear(self, at_ms: int, value: bytes | None) -> None:
        """Take in one message of the control topic."""
        try:
            event = decode(value)
        except EventError:
            self.unreadable_messages += 1
            return
        match event:
            case CommitEvent():
                self.announced.setdefault(event.table_uuid, {}).setdefault(event.snapshot_id, at_ms)
            case Intent():
                self.intents.setdefault(event.table_uuid, []).append(Said(at_ms, event))
            case None:
                pass
            case _:
                self.windows.setdefault(event.table_uuid, []).append(SaidOfWindow(at_ms, event))

    # At the end

    def check_files(self, catalog: Catalog) -> dict[str, FilesChecked]:
        """Whether every file that any snapshot in the metadata reaches is there; by table."""
        import os

        checked = {}
        for name, seen in self.tables.items():
            table = catalog.load_table(name)
            known: dict[str, tuple[str, ...]] = {}
            needed: dict[str, int] = {}
            missing: list[str] = []
            for snapshot in table.metadata.snapshots:
                try:
                    reached = lake.reachable(table, snapshot, known)
                except OSError as err:
                    missing.append(f"{err} (needed by snapshot {snapshot.snapshot_id})")
                    continue
                for path in reached:
                    needed.setdefault(path, snapshot.snapshot_id)
            metadata_files = [
                table.metadata_location,
                *(entry.metadata_file for entry in table.metadata.metadata_log),
            ]
            missing += [
                f"{path} (needed by snapshot {snapshot_id})"
                for path, snapshot_id in needed.items()
                if not os.path.exists(lake.local_path(path))  # noqa: PTH110 (a thousand strings, no need for paths)
            ]
            missing += [
                f"{path} (named by the metadata log)"
                for path in metadata_files
                if not os.path.exists(lake.local_path(path))  # noqa: PTH110
            ]
            checked[name] = FilesChecked(
                snapshots=len(table.metadata.snapshots),
                files=len(needed) + len(metadata_files),
                missing=tuple(missing),
                failed_scans=tuple(seen.failed_scans),
                scans=seen.scans,
            )
        return checked

    def unannounced(self) -> int:
        """Snapshots that were seen and not announced yet."""
        return sum(
            len(set(seen.commits) - set(self.announced.get(seen.uuid, {})))
            for seen in list(self.tables.values())
        )


def _is_after_a_gap(seen: SeenTable, snapshot: Snapshot) -> bool:
    """Whether a table did something between what was seen of it and a snapshot."""
    if snapshot.parent_snapshot_id in seen.commits:
        return False
    # PyIceberg takes an expired parent out of its child, so the numbers must tell: each commit has the next one.
    newest = max((commit.sequence_number for commit in seen.commits.values()), default=0)
    return snapshot.sequence_number != newest + 1


def _data_files(files: list[SeenFile], key: PartitionKey) -> int:
    return sum(file.is_data and file.partition == key for file in files)
