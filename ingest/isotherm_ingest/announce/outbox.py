"""The outbox: every snapshot of every table of the pipeline is announced, in order, whoever made it.

A thread of the driver: woken after each commit, and by itself every few seconds for commits of others. It walks each
table's history back to what was last announced (`pending`), sends, waits for the acknowledgements, and only
then writes the watermark to a small compacted topic, from which it goes on after any crash. So an event may come
twice, never not at all. A broker that is away stops nothing but the announcing, which catches up.
"""

import json
import threading
from collections.abc import Collection, Mapping

from pyiceberg.manifest import ManifestContent, ManifestEntryStatus, ManifestFile
from pyiceberg.table.snapshots import Snapshot

from isotherm.contract.events import (
    MAX_MANIFESTS,
    MAX_PARTITIONS,
    AddedManifest,
    CommitEvent,
    PartitionChange,
    encode,
)
from isotherm.contract.identity import PartitionKey, partition_key, scalar
from isotherm.contract.summary import (
    INGEST_PIPELINE,
    INGEST_TOKEN,
    INGEST_VALID_THROUGH,
    Origin,
    origin_of,
    property_name,
)
from isotherm.runtime import logs
from isotherm_ingest.announce.pending import Break, Link, Watermark, pending
from isotherm_ingest.failures import brief
from isotherm_ingest.kafka import Broker, Record
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.tables import offsets
from isotherm_ingest.tables.lake import PIPELINE_PROPERTY, Lake, TableNow, summary_of
from isotherm_ingest.threads import context

MAX_ENTRIES = 5_000
"""Manifest entries that are read for one event, some 0.2 s; above it the change by partition is left out."""

EVENTS_AT_ONCE = 200
"""Events sent before the watermark moves; a crash sends at most these again."""

EXCERPT = 2_000
"""Characters of one value of a summary in an event; the token has a field of its own."""


class Outbox:
    """Announces what happened to the tables of one pipeline."""

    def __init__(
        self,
        lake: Lake,
        broker: Broker,
        pipeline: str,
        control_topic: str,
        announced_topic: str,
        metrics: Metrics,
        every_s: float,
    ) -> None:
        """Nothing is read or sent before `begin`."""
        self._lake = lake
        self._broker = broker
        self._pipeline = pipeline
        self._control_topic = control_topic
        self._announced_topic = announced_topic
        self._metrics = metrics
        self._every_s = every_s
        self._watermarks: dict[str, Watermark] = {}
        self._names: set[str] = set()
        self._due: set[str] = set()
        self._lock = threading.Lock()
        self._announcing = threading.Lock()
        self._wake = threading.Event()
        self._done = threading.Event()
        self._context = context()
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)

    def begin(self, namespaces: frozenset[str] | None) -> None:
        """Read what was last announced, find the pipeline's tables, and go on from there.

        Raises:
            BrokerError: the watermarks cannot be read.
        """
        self.recall(namespaces)
        self._thread.start()

    def recall(self, namespaces: frozenset[str] | None) -> None:
        """Read what was last announced, and find the pipeline's tables."""
        for key, value in self._broker.read_all(self._announced_topic):
            self._recall_one(key, value)
        for name in self._lake.names(namespaces):
            table = self._lake.load(name)
            if table is not None and (
                table.properties.get(PIPELINE_PROPERTY) == self._pipeline
                or table.uuid in self._watermarks
                or property_name(self._pipeline) in table.properties
            ):
                self._names.add(name)

    def _recall_one(self, key: bytes | None, value: bytes | None) -> None:
        if key is None:
            return
        uuid = key.decode(errors="replace")
        if value is None:
            self._watermarks.pop(uuid, None)
            return
        try:
            data = json.loads(value)
            watermark = Watermark(int(data["snapshot_id"]), int(data["sequence_number"]))
            pipeline = str(data["pipeline"])
        except (ValueError, KeyError, TypeError) as err:
            logs.get().warning(
                "watermark_unreadable", topic=self._announced_topic, table_uuid=uuid, error=str(err)
            )
            return
        if pipeline == self._pipeline:
            self._watermarks[uuid] = watermark

    def wake(self, name: str) -> None:
        """Something was committed to this table."""
        with self._lock:
            self._names.add(name)
            self._due.add(name)
        self._wake.set()

    @property
    def names(self) -> frozenset[str]:
        """The tables that are watched."""
        with self._lock:
            return frozenset(self._names)

    def stop(self) -> None:
        """Announce what is left, and end."""
        self._done.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        self._context()
        while not self._done.is_set():
            woken = self._wake.wait(self._every_s)
            self._wake.clear()
            with self._lock:
                names = set(self._due) if woken and self._due else set(self._names)
                self._due.clear()
            self._announce_each(names)
        self._announce_each(self.names)

    def _announce_each(self, names: Collection[str]) -> None:
        for name in sorted(names):
            try:
                self.announce(name)
            except Exception as err:  # noqa: BLE001 (any failure of catalog, storage or broker: the next round tries again)
                logs.get().warning("announce_failed", table=name, error=brief(err))

    def announce(self, name: str) -> int:
        """Announce what is new in a table; gives the number of events.

        Raises:
            BrokerError: not acknowledged; the watermark stays where it was.
        """
        with self._announcing:
            table = self._lake.load(name)
            if table is None:
                with self._lock:
                    self._names.discard(name)
                return 0
            last = self._watermarks.get(table.uuid)
            due = pending(table.links(), table.head, last)
            self._metrics.expect(name)
            self._metrics.unannounced.labels(name).set(len(due.links))
            if due.broken is not Break.NONE and last is not None:
                self._tell_break(table, due.broken, last, due.links[0])
            for start in range(0, len(due.links), EVENTS_AT_ONCE):
                self._send(table, due.links[start : start + EVENTS_AT_ONCE])
                self._metrics.unannounced.labels(name).set(max(len(due.links) - start - EVENTS_AT_ONCE, 0))
            return len(due.links)

    def _send(self, table: TableNow, links: tuple[Link, ...]) -> None:
        events = [self.event(table, table.snapshots[link.snapshot_id]) for link in links]
        records = []
        for event in events:
            key, value, headers = encode(event)
            records.append(Record(self._control_topic, key, value, tuple(headers.items())))
        self._broker.send(records)
        for event in events:
            self._metrics.announced.labels(table.name, event.origin).inc()
        last = links[-1]
        watermark = {
            "pipeline": self._pipeline,
            "table": table.name,
            "snapshot_id": last.snapshot_id,
            "sequence_number": last.sequence_number,
        }
        self._broker.send(
            [Record(self._announced_topic, table.uuid.encode(), json.dumps(watermark).encode())]
        )
        self._watermarks[table.uuid] = Watermark(last.snapshot_id, last.sequence_number)

    def _tell_break(self, table: TableNow, broken: Break, last: Watermark, first: Link) -> None:
        self._metrics.breaks.labels(table.name, broken.value).inc()
        logs.get().warning(
            f"history_{broken.value}",
            table=table.name,
            announced_snapshot_id=last.snapshot_id,
            announced_sequence_number=last.sequence_number,
            next_snapshot_id=first.snapshot_id,
            next_sequence_number=first.sequence_number,
        )

    def event(self, table: TableNow, snapshot: Snapshot) -> CommitEvent:
        """The announcement of one snapshot."""
        summary = summary_of(snapshot)
        origin = origin_of(summary)
        manifests = _added_manifests(table, snapshot)
        changes = _changes(table, snapshot, manifests)
        named = None if changes is None else sorted(changes.items())[:MAX_PARTITIONS]
        valid_through = summary.get(INGEST_VALID_THROUGH, "")
        return CommitEvent(
            table_uuid=table.uuid,
            table=table.name,
            catalog=self._lake.name,
            snapshot_id=snapshot.snapshot_id,
            parent_id=snapshot.parent_snapshot_id,
            sequence_number=snapshot.sequence_number or 0,
            timestamp_ms=snapshot.timestamp_ms,
            operation=snapshot.summary.operation.value if snapshot.summary is not None else "",
            origin=origin.value,
            writer=summary.get(INGEST_PIPELINE, "") if origin is Origin.INGEST else _WRITERS.get(origin, ""),
            schema_id=snapshot.schema_id,
            spec_ids=tuple(sorted({one.partition_spec_id for one in manifests or ()})),
            manifest_list=snapshot.manifest_list or "",
            added_manifests=tuple(_added(one) for one in (manifests or ())[:MAX_MANIFESTS]),
            added_manifests_complete=manifests is not None and len(manifests) <= MAX_MANIFESTS,
            partitions=tuple(change for _, change in named or ()),
            partitions_complete=changes is not None and named is not None and len(named) == len(changes),
            summary={name: value[:EXCERPT] for name, value in summary.items() if name != INGEST_TOKEN},
            source_offsets=_source_offsets(summary),
            valid_through_ms=int(valid_through) if valid_through.lstrip("-").isdigit() else None,
            announced_by=self._pipeline,
        )


_WRITERS = {Origin.MAINTENANCE: "isotherm"}


def _source_offsets(summary: Mapping[str, str]) -> dict[str, dict[str, int]]:
    try:
        vector = offsets.decode(summary[INGEST_TOKEN]).vector
    except (KeyError, offsets.TokenError):
        return {}
    return {topic: {str(number): offset for number, offset in one.items()} for topic, one in vector.items()}


def _added_manifests(table: TableNow, snapshot: Snapshot) -> list[ManifestFile] | None:
    """The manifests that a snapshot added; None: its manifest list is gone."""
    try:
        manifests = snapshot.manifests(table.table.io)
    except OSError:
        return None
    return [one for one in manifests if one.added_snapshot_id == snapshot.snapshot_id]


def _added(manifest: ManifestFile) -> AddedManifest:
    return AddedManifest(
        path=manifest.manifest_path,
        length=manifest.manifest_length,
        spec_id=manifest.partition_spec_id,
        content="data" if manifest.content is ManifestContent.DATA else "deletes",
        added_files=manifest.added_files_count or 0,
        deleted_files=manifest.deleted_files_count or 0,
    )


def _changes(
    table: TableNow, snapshot: Snapshot, manifests: list[ManifestFile] | None
) -> dict[PartitionKey, PartitionChange] | None:
    """What the snapshot did to each partition; None: too much to read, or gone."""
    if manifests is None:
        return None
    entries = sum(
        (one.added_files_count or 0) + (one.existing_files_count or 0) + (one.deleted_files_count or 0)
        for one in manifests
    )
    if entries > MAX_ENTRIES:
        return None
    counts: dict[PartitionKey, list[int]] = {}
    try:
        for manifest in manifests:
            fields = table.table.metadata.specs()[manifest.partition_spec_id].fields
            for entry in manifest.fetch_manifest_entry(table.table.io, discard_deleted=False):
                if entry.status is ManifestEntryStatus.EXISTING or entry.snapshot_id != snapshot.snapshot_id:
                    continue
                values = entry.data_file.partition
                key = partition_key({field.field_id: scalar(values[at]) for at, field in enumerate(fields)})
                count = counts.setdefault(key, [0, 0, 0, 0])
                removed = entry.status is ManifestEntryStatus.DELETED
                count[1 if removed else 0] += 1
                count[3 if removed else 2] += entry.data_file.record_count
    except (OSError, TypeError, KeyError):
        return None
    return {
        key: PartitionChange(
            partition=key, added_files=new, removed_files=old, added_rows=came, removed_rows=left
        )
        for key, (new, old, came, left) in counts.items()
    }
