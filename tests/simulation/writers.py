"""Those who write the tables, and the people around them: what they do, and what is true afterwards.

They use the store directly, where nothing fails, and PyIceberg's own manifest writers. Each knows the rows that its
snapshot has, because it has put them there.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import HourTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, TimestamptzType

from isotherm.contract.events import AddedManifest, CommitEvent, Intent
from isotherm.contract.identity import partition_key
from isotherm.contract.summary import INGEST_PIPELINE, INGEST_TOKEN, origin_of
from isotherm.iceberg.manifests import writing
from simulation.brokers import Brokers
from simulation.lake import Store
from simulation.world import START_MS, Version, World, grown

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "at", TimestamptzType()))
SPEC = PartitionSpec(PartitionField(2, 1000, HourTransform(), "at_hour"))
UNCOMPRESSED = "null"
LARGE_EVERY, LARGE_BYTES = 2, 70 * 1024**2
"""In every second hour manifests say that data files are large: deletes on them are merged rather than applied."""
KEYS = 3
"""The key of a row, by which equality deletes name it: its number modulo this."""


def create(world: World, name: str, location: str | None = None, **properties: str) -> Version:
    """A table."""
    metadata = new_table_metadata(
        schema=SCHEMA,
        partition_spec=SPEC,
        sort_order=UNSORTED_SORT_ORDER,
        location=location or f"s3://lake/{name.replace('.', '/')}",
        properties={
            "format-version": "2",
            "write.avro.compression-codec": "uncompressed",
            # Commits of ours merge manifests, though stories are short.
            "commit.manifest.min-count-to-merge": "4",
            **properties,
        },
    )
    return world.put(name, metadata.model_copy(update={"last_updated_ms": world.now_ms}))


@dataclass
class Merge:
    """A MERGE that has read and not yet committed."""

    name: str
    uuid: str
    hour: int
    files: frozenset[str]
    intent: Intent
    offset: int | None
    """Where its intent stands on the control topic; None: nowhere, or not any more."""
    expires_at_ms: int


@dataclass
class Writers:
    """Those who write, with what they remember."""

    world: World
    brokers: Brokers
    hour: int = START_MS // 3_600_000
    """The hour that the stream has reached."""
    numbers: int = 0
    merges: list[Merge] = field(default_factory=list)
    unsent: list[CommitEvent] = field(default_factory=list)
    """Announcements that are late."""
    littered: list[str] = field(default_factory=list)
    """Files that were written and never committed."""
    live: dict[int, dict[str, tuple[int, int]]] = field(default_factory=dict)
    """By snapshot: the live data files, each with its hour and its number of rows. Of our own, read when asked for."""
    store: Store = field(init=False)
    _listed: dict[int, list[ManifestFile]] = field(default_factory=dict)
    _entries: dict[str, list[ManifestEntry]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = Store(self.world.files)

    # What can be known

    def head(self, name: str) -> Snapshot | None:
        """The table's current snapshot."""
        return self.world.tables[name].metadata.current_snapshot()

    def files(self, snapshot: Snapshot | None) -> dict[str, tuple[int, int]]:
        """The live data files of a snapshot."""
        if snapshot is None:
            return {}
        if snapshot.snapshot_id not in self.live:
            found = {}
            for manifest in self.listed(snapshot):
                for entry in self.entries(manifest):
                    if entry.data_file.content == DataFileContent.DATA:
                        found[entry.data_file.file_path] = (
                            entry.data_file.partition[0],
                            entry.data_file.record_count,
                        )
            self.live[snapshot.snapshot_id] = found
        return self.live[snapshot.snapshot_id]

    def listed(self, snapshot: Snapshot) -> list[ManifestFile]:
        """The manifests of a snapshot, read once."""
        if snapshot.snapshot_id not in self._listed:
            self._listed[snapshot.snapshot_id] = snapshot.manifests(self.store)
        return self._listed[snapshot.snapshot_id]

    def entries(self, manifest: ManifestFile) -> list[ManifestEntry]:
        """The live entries of a manifest, read once."""
        path = manifest.manifest_path
        if path not in self._entries:
            self._entries[path] = manifest.fetch_manifest_entry(self.store, discard_deleted=True)
        return self._entries[path]

    def _number(self) -> int:
        self.numbers += 1
        return self.numbers

    # Commits

    def append(self, name: str, hours: Iterable[int], *, token: bool = True) -> Snapshot:
        """Some rows in some hours."""
        metadata, head = self.world.tables[name].metadata, self.head(name)
        files, rows = [], set()
        for hour in hours:
            path, ids = self._data_file(metadata, hour, self.world.chance.randint(1, 3))
            files.append((path, hour, len(ids)))
            rows |= ids
        before = frozenset() if head is None else self.world.rows[head.snapshot_id]
        return self._commit(name, Operation.APPEND, before | rows, added=files, token=token)

    def delete_rows(self, name: str) -> Snapshot | None:
        """A position-delete file for some row of one file, and another for the row behind it."""
        head = self.head(name)
        if head is None or not self.files(head):
            return None
        path = self.world.chance.choice(sorted(self.files(head)))
        hour, _ = self.files(head)[path]
        ids = json.loads(self.world.files[path])
        place = self.world.chance.randrange(len(ids))
        places = {place, (place + 1) % len(ids)}
        rows = self.world.rows[head.snapshot_id] - {ids[one] for one in places}
        kind = DataFileContent.POSITION_DELETES
        deletes = [(hour, kind, [[path, one]]) for one in sorted(places)]
        return self._commit(name, Operation.DELETE, rows, deletes=deletes)

    def upsert(self, name: str) -> Snapshot | None:
        """As Flink does it: an equality-delete file takes all rows of a key in an hour, and new rows come beside it."""
        metadata, head = self.world.tables[name].metadata, self.head(name)
        if head is None or not self.files(head):
            return None
        hour, _ = self.files(head)[self.world.chance.choice(sorted(self.files(head)))]
        key = self.world.chance.randrange(KEYS)
        gone = {row for row in self._rows_in(self.files(head), hour) if row % KEYS == key}
        path, ids = self._data_file(metadata, hour, self.world.chance.randint(1, 3))
        return self._commit(
            name,
            Operation.OVERWRITE,
            self.world.rows[head.snapshot_id] - gone | ids,
            added=[(path, hour, len(ids))],
            deletes=[(hour, DataFileContent.EQUALITY_DELETES, [key])],
        )

    def _rows_in(self, files: dict[str, tuple[int, int]], hour: int) -> set[int]:
        """All rows that files of an hour hold, dead ones too."""
        return {
            row for path, (of, _) in files.items() if of == hour for row in json.loads(self.world.files[path])
        }

    def overwrite(self, name: str, hour: int) -> Snapshot | None:
        """All of an hour is replaced by other rows."""
        head = self.head(name)
        going = {path for path, (of, _) in self.files(head).items() if of == hour}
        if head is None or not going:
            return None
        path, ids = self._data_file(self.world.tables[name].metadata, hour, 2)
        rows = (self.world.rows[head.snapshot_id] - self._rows_in(self.files(head), hour)) | ids
        return self._commit(
            name, Operation.OVERWRITE, frozenset(rows), added=[(path, hour, len(ids))], removed=going
        )

    def take_back(self, name: str) -> Snapshot | None:
        """Somebody undoes a deletion: a file that an older snapshot has is added again."""
        metadata, head = self.world.tables[name].metadata, self.head(name)
        if head is None:
            return None
        here = self.files(head)
        older = [
            (path, *what)
            for snapshot in metadata.snapshots
            for path, what in self.files(snapshot).items()
            if path not in here and path in self.world.files
        ]
        if not older:
            return None
        path, hour, count = self.world.chance.choice(sorted(older))
        rows = set(json.loads(self.world.files[path]))
        # Rows that are there already, dead or alive, would be there twice, which a set cannot say.
        if rows & self._rows_in(here, hour):
            return None
        rows |= self.world.rows[head.snapshot_id]
        return self._commit(name, Operation.APPEND, frozenset(rows), added=[(path, hour, count)])

    def litter(self, name: str) -> None:
        """A writer ends between its files and its commit."""
        path, _ = self._data_file(self.world.tables[name].metadata, self.hour, 1)
        self.littered.append(path)

    def _data_file(self, metadata: TableMetadata, hour: int, count: int) -> tuple[str, set[int]]:
        ids = {self._number() for _ in range(count)}
        path = f"{metadata.location}/data/at_hour={hour}/w-{self._number()}.parquet"
        self.world.files[path] = json.dumps(sorted(ids)).encode()
        return path, ids

    def _commit(
        self,
        name: str,
        operation: Operation,
        rows: frozenset[int],
        *,
        added: Iterable[tuple[str, int, int]] = (),
        removed: Iterable[str] = (),
        deletes: Iterable[tuple[int, DataFileContent, list[Any]]] = (),
        token: bool = False,
    ) -> Snapshot:
        version, head = self.world.tables[name], self.head(name)
        metadata = version.metadata
        snapshot_id, number = self.world.chance.getrandbits(60) + 1, metadata.last_sequence_number + 1
        added, removed = list(added), set(removed)
        manifests = [] if head is None else self.listed(head)
        kept = [one for one in manifests if not self._loses(one, removed)]
        new: list[ManifestFile] = []
        if added:
            new.append(self._manifest(metadata, snapshot_id, [(None, self._file(*one)) for one in added]))
        for manifest in manifests:
            if manifest in kept:
                continue
            entries = self.entries(manifest)
            new.append(self._manifest(metadata, snapshot_id, [(entry, removed) for entry in entries]))
        for hour, kind, content in deletes:
            new.append(self._delete_manifest(metadata, snapshot_id, hour, kind, content))
        location = f"{metadata.location}/metadata/snap-{snapshot_id}.avro"
        parent = None if head is None else head.snapshot_id
        with write_manifest_list(
            2, self.store.new_output(location), snapshot_id, parent, number, UNCOMPRESSED
        ) as listing:
            listing.add_manifests(new + kept)
        summary = {INGEST_TOKEN: f"[{self._number()}]", INGEST_PIPELINE: "shop"} if token else {}
        if head is None:
            # As every writer counts: by this a table's first commit is known as such.
            summary |= {"added-data-files": str(len(added)), "total-data-files": str(len(added))}
        snapshot = Snapshot(
            snapshot_id=snapshot_id,
            parent_snapshot_id=parent,
            sequence_number=number,
            timestamp_ms=max(self.world.now_ms, metadata.last_updated_ms),
            manifest_list=location,
            summary=Summary(operation, **summary),
            schema_id=0,
        )
        self.world.rows[snapshot_id] = rows
        main = metadata.refs.get("main")
        ref = SnapshotRef(snapshot_id=snapshot_id, snapshot_ref_type=SnapshotRefType.BRANCH)
        if main is not None:
            ref = main.model_copy(update={"snapshot_id": snapshot_id})
        refs = {**metadata.refs, "main": ref}
        self.world.put(
            name, grown(version, snapshot.timestamp_ms, snapshots=[*metadata.snapshots, snapshot], refs=refs)
        )
        self._announce(name, snapshot, new)
        return snapshot

    def _loses(self, manifest: ManifestFile, removed: set[str]) -> bool:
        if not removed or manifest.content == ManifestContent.DELETES:
            return False
        return any(entry.data_file.file_path in removed for entry in self.entries(manifest))

    def _file(self, path: str, hour: int, count: int) -> DataFile:
        size = len(self.world.files[path]) if hour % LARGE_EVERY else LARGE_BYTES
        return _data_file(path, hour, count, size, DataFileContent.DATA)

    def _manifest(self, metadata: TableMetadata, snapshot_id: int, entries: Iterable[Any]) -> ManifestFile:
        location = f"{metadata.location}/metadata/m-{snapshot_id}-{self._number()}.avro"
        with write_manifest(
            2, SPEC, SCHEMA, self.store.new_output(location), snapshot_id, UNCOMPRESSED
        ) as manifest:
            for entry, what in entries:
                if entry is None:
                    manifest.add_entry(
                        ManifestEntry.from_args(
                            status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, data_file=what
                        )
                    )
                elif entry.data_file.file_path in what:
                    manifest.delete(entry)
                else:
                    manifest.existing(entry)
        return manifest.to_manifest_file()

    def _delete_manifest(
        self,
        metadata: TableMetadata,
        snapshot_id: int,
        hour: int,
        kind: DataFileContent,
        content: list[Any],
    ) -> ManifestFile:
        path = f"{metadata.location}/data/at_hour={hour}/d-{self._number()}.parquet"
        self.world.files[path] = json.dumps(content).encode()
        file = _data_file(path, hour, len(content), len(self.world.files[path]), kind)
        entry = ManifestEntry.from_args(
            3, status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, data_file=file
        )
        location = f"{metadata.location}/metadata/m-{snapshot_id}-{self._number()}.avro"
        # PyIceberg writes no delete manifests.
        return writing.write_manifest(
            self.store, metadata, location, 0, ManifestContent.DELETES, snapshot_id, [entry]
        )

    # Announcements

    def _announce(self, name: str, snapshot: Snapshot, manifests: Iterable[ManifestFile]) -> None:
        metadata = self.world.tables[name].metadata
        assert snapshot.summary is not None
        summary = {k: str(v) for k, v in snapshot.summary.additional_properties.items()}
        event = CommitEvent(
            table_uuid=str(metadata.table_uuid),
            table=name,
            snapshot_id=snapshot.snapshot_id,
            parent_id=snapshot.parent_snapshot_id,
            sequence_number=snapshot.sequence_number or 0,
            timestamp_ms=snapshot.timestamp_ms,
            operation=snapshot.summary.operation.value,
            origin=origin_of(summary).value,
            writer="stream",
            added_manifests=tuple(
                AddedManifest(
                    path=one.manifest_path,
                    length=one.manifest_length,
                    spec_id=0,
                    content="deletes" if one.content else "data",
                    added_files=one.added_files_count or 0,
                    deleted_files=one.deleted_files_count or 0,
                )
                for one in manifests
            ),
            added_manifests_complete=True,
            summary=summary,
        )
        match self.world.chance.randrange(10):
            case 0:
                self.unsent.append(event)
            case 1:
                pass  # nobody announces it
            case 2:
                self.brokers.send(event)
                self.brokers.send(event)
            case _:
                self.brokers.send(event)

    def forget_intents(self) -> None:
        """The topic has lost messages: nobody can know of what stood there."""
        for merge in self.merges:
            merge.offset = None

    def send_late(self) -> None:
        """What was late arrives."""
        self.world.chance.shuffle(self.unsent)
        for event in self.unsent:
            self.brokers.send(event)
        self.unsent.clear()

    # MERGE

    def begin_merge(self, name: str, hour: int, *, announces: bool) -> None:
        """Read an hour, to replace it a while later."""
        files = self.files(self.head(name))
        mine = frozenset(path for path, (of, _) in files.items() if of == hour)
        if not mine:
            return
        metadata = self.world.tables[name].metadata
        intent = Intent(
            table_uuid=str(metadata.table_uuid),
            table=name,
            intent_id=str(self._number()),
            writer="merger",
            state="open",
            at_ms=self.world.now_ms,
            expires_at_ms=self.world.now_ms + 900_000,
            partitions=(partition_key({1000: hour}),),
        )
        offset = None
        if announces:
            self.brokers.send(intent)
            offset = self.brokers.first + len(self.brokers.control) - 1
        self.merges.append(Merge(name, intent.table_uuid, hour, mine, intent, offset, intent.expires_at_ms))

    def end_merge(self) -> None:
        """Commit the oldest MERGE; one of which a file is gone fails, and is nobody's fault but for its intent."""
        merge = self.merges.pop(0)
        version = self.world.tables.get(merge.name)
        if version is None or str(version.metadata.table_uuid) != merge.uuid:
            return
        if merge.files <= set(self.files(self.head(merge.name))):
            self.overwrite(merge.name, merge.hour)
        if merge.offset is not None:
            self.brokers.send(merge.intent.model_copy(update={"state": "closed"}))

    # Refs, properties, names

    def change(self, name: str, **changes: Any) -> None:
        """Another version of a table that is no commit of rows."""
        self.world.put(name, grown(self.world.tables[name], self.world.now_ms, **changes))

    def tag(self, name: str, snapshot_id: int) -> None:
        """A tag on a snapshot."""
        metadata = self.world.tables[name].metadata
        ref = SnapshotRef(snapshot_id=snapshot_id, snapshot_ref_type=SnapshotRefType.TAG)
        self.change(name, refs={**metadata.refs, f"t{self._number()}": ref})

    def branch(self, name: str, snapshot_id: int, keeps: int) -> None:
        """A branch that keeps some snapshots behind its head."""
        metadata = self.world.tables[name].metadata
        ref = SnapshotRef(
            snapshot_id=snapshot_id,
            snapshot_ref_type=SnapshotRefType.BRANCH,
            min_snapshots_to_keep=keeps,
        )
        self.change(name, refs={**metadata.refs, f"b{self._number()}": ref})

    def drop_ref(self, name: str) -> None:
        """A branch or tag goes."""
        refs = dict(self.world.tables[name].metadata.refs)
        others = sorted(set(refs) - {"main"})
        if others:
            del refs[self.world.chance.choice(others)]
            self.change(name, refs=refs)

    def roll_back(self, name: str, snapshot_id: int) -> None:
        """`main` goes back, or forward, to a snapshot."""
        metadata = self.world.tables[name].metadata
        ref = metadata.refs["main"].model_copy(update={"snapshot_id": snapshot_id})
        self.change(name, refs={**metadata.refs, "main": ref})


def _data_file(path: str, hour: int, count: int, size: int, content: DataFileContent) -> DataFile:
    version = 2 if content is DataFileContent.DATA else 3
    return DataFile.from_args(
        version,
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(hour),
        record_count=count,
        file_size_in_bytes=size,
        equality_ids=[1] if content is DataFileContent.EQUALITY_DELETES else None,
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={},
        upper_bounds={},
    )
