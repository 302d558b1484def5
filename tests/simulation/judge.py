"""Judges the world after every step, with a reader of its own (fastavro): the promises, as a stranger would check them.

Nothing here asks the daemon, but for the last judgement: what it believes is held against what is.
"""

import io
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import fastavro
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from isotherm.contract.summary import INGEST_TOKEN, JOB_ID, property_name
from simulation.world import Broken, World
from simulation.writers import KEYS, Writers

AFTER, QUIET_COMMITS, QUIET_AT_MOST_MS = 1, 2, 86_400_000
PAUSE_MS, ENOUGH_PAUSES = 300_000, 3
KEEP_FOR_MS, KEEP_LAST, GRACE_MS, PLACE_FOR_MS = 600_000, 3, 1_800_000, 13 * 86_400_000
KEEP_VERSIONS, FOUND_AGE_MS = 5, 2 * 86_400_000
POLICY = f"""
tables: "shop.*"
cold: {{after: {AFTER}, quiet_for: 0s, quiet_commits: {QUIET_COMMITS}, quiet_at_most: 1d, silent_for: 30d}}
compact: {{min_files: 3, rest: 4m, max_position_deletes: 2, max_delete_ratio: 9}}
expire: {{keep_for: 10m, keep_last: {KEEP_LAST}, at_once: 2, every: 0s, delete_after: 30m}}
metadata: {{enabled: false}}
orphans: {{mode: off}}
override: [expire.keep_last]
"""
"""What the daemon is told, and the numbers above are what it is held to."""
FOR_UPSERTS = POLICY.replace("max_position_deletes: 2", "max_position_deletes: 3, max_equality_deletes: 1")
"""The same where there are equality deletes: they become one file of position deletes, which must not be due again."""
TIDY = POLICY.replace(
    "{enabled: false}", f"{{keep_last: {KEEP_VERSIONS}, at_once: 3, older_than: 1d}}"
).replace("{mode: off}", "{mode: apply, older_than: 1d, every: 2d, max_share: 1}")
"""The same where old versions of the metadata, and files that nothing reaches, are looked for too. However many: what a
table leaves that is made again is most of what lies there."""
LOG, ONLY_APPENDS_MS, YOUNG_MS, ENOUGH_APPENDS = "shop.log", 300_000, 120_000, 20
MINOR = f"""
tables: {LOG}
cold: {{quiet_for: 2m}}
compact: {{minor_after: 5m}}
"""
"""Of one table old files may be merged in hot hours too, while its writers only append."""


@dataclass
class Read:
    """What one snapshot reaches, and the rows that a reader of it finds."""

    paths: set[str]
    live: dict[str, int]
    """Live data files, by hour."""
    deletes: dict[str, int]
    """Live delete files, by hour."""
    rows: frozenset[int]


@dataclass
class Judge:
    """The promises."""

    world: World
    writers: Writers
    snapshots: dict[int, Read] = field(default_factory=dict)
    manifests: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    writes: dict[int, tuple[int, frozenset[int]]] = field(default_factory=dict)
    """By foreign snapshot: when it came, and the hours that it touched."""
    written_ms: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    """When foreign commits touched an hour of a table, by its uuid, also those that were undone."""
    appended: dict[int, frozenset[str]] = field(default_factory=dict)
    """By foreign snapshot that did nothing but add data files: these."""
    replaced_hot: int = 0
    ghosts: set[str] = field(default_factory=set)
    """Files of what a REST catalog dropped though a ref had just named it: a person can bring it back from them."""
    replaced: int = 0
    merged: int = 0
    """Of these, those that wrote delete files."""
    converted: int = 0
    """Of those, the ones that took equality deletes out and left their data."""
    expired: int = 0
    deleted: int = 0
    trimmed: int = 0
    """Of these, old versions of the metadata."""
    orphans: int = 0
    """And files that no snapshot ever had."""

    def __post_init__(self) -> None:
        self.world.watch = self.changed
        self.world.on_delete = self.deletes_file

    # Safety

    def step(self) -> None:
        """Every retained snapshot of every table reads the rows that were written."""
        for name, version in self.world.tables.items():
            for snapshot in version.metadata.snapshots:
                read = self.read(snapshot)
                if not read.paths <= self.world.files.keys():
                    gone = sorted(read.paths - self.world.files.keys())
                    raise Broken(f"{name}: snapshot {snapshot.snapshot_id} needs {gone[0]}, which is gone")

    def read(self, snapshot: Snapshot) -> Read:
        """What a reader finds. What a snapshot reaches never changes, so it is read once."""
        if snapshot.snapshot_id not in self.snapshots:
            found = self._read(snapshot)
            expected = self.world.rows[snapshot.snapshot_id]
            if found.rows != expected:
                raise Broken(
                    f"snapshot {snapshot.snapshot_id} has other rows: lost {sorted(expected - found.rows)}, "
                    f"came {sorted(found.rows - expected)}"
                )
            self.snapshots[snapshot.snapshot_id] = found
        return self.snapshots[snapshot.snapshot_id]

    def _read(self, snapshot: Snapshot) -> Read:
        found = Read({snapshot.manifest_list}, {}, {}, frozenset())
        numbers: dict[str, int] = {}
        for manifest in self._records(snapshot.manifest_list):
            found.paths.add(manifest["manifest_path"])
            for entry in self._entries(manifest["manifest_path"]):
                path, hour = entry["data_file"]["file_path"], entry["data_file"]["partition"]["at_hour"]
                if path in found.paths:
                    raise Broken(f"{path} is twice in snapshot {snapshot.snapshot_id}")
                found.paths.add(path)
                number = entry["sequence_number"]
                numbers[path] = manifest["sequence_number"] if number is None else number
                (found.deletes if entry["data_file"]["content"] else found.live)[path] = hour
        here = self._rows(found, numbers, self._by_key(snapshot))
        if len(here) != len(set(here)):
            raise Broken(f"snapshot {snapshot.snapshot_id} has rows twice")
        found.rows = frozenset(here)
        return found

    def _rows(self, found: Read, numbers: Mapping[str, int], by_key: Collection[str]) -> list[int]:
        """The rows that no delete file removes, by the sequence numbers of all files."""
        rows = {path: dict(enumerate(self._content(path))) for path in found.live}
        for path in found.deletes.keys() - by_key:
            for target, place in self._content(path):
                if target in rows and numbers[target] <= numbers[path]:
                    rows[target].pop(place, None)
        for path in by_key:
            keys = self._content(path)
            for target, hour in found.live.items():
                if hour == found.deletes[path] and numbers[target] < numbers[path]:
                    rows[target] = {at: row for at, row in rows[target].items() if row % KEYS not in keys}
        return [one for left in rows.values() for one in left.values()]

    def _by_key(self, snapshot: Snapshot) -> set[str]:
        """Its equality-delete files."""
        return {
            entry["data_file"]["file_path"]
            for manifest in self._records(snapshot.manifest_list)
            for entry in self._entries(manifest["manifest_path"])
            if entry["data_file"]["content"] == 2
        }

    def _entries(self, path: str) -> list[dict[str, Any]]:
        """The live entries of a manifest."""
        if path not in self.manifests:
            self.manifests[path] = [entry for entry in self._records(path) if entry["status"] != 2]
        return self.manifests[path]

    def _records(self, path: str) -> Iterable[dict[str, Any]]:
        return fastavro.reader(io.BytesIO(self._bytes(path)))  # type: ignore[return-value]

    def _content(self, path: str) -> Any:
        return json.loads(self._bytes(path))

    def _bytes(self, path: str) -> bytes:
        if path not in self.world.files:
            raise Broken(f"{path} is gone")
        return self.world.files[path]

    # Changes

    def changed(self, name: str, before: TableMetadata, after: TableMetadata) -> None:
        """A table has another version: by whom is told by what is new in it."""
        known = {snapshot.snapshot_id: snapshot for snapshot in before.snapshots}
        left = {one.snapshot_id: one for one in after.snapshots}
        for snapshot in after.snapshots:
            if snapshot.snapshot_id not in known:
                self._came(name, before, snapshot)
        gone = known.keys() - left.keys()
        if gone:
            self._went(before, after, gone)

    def _came(self, name: str, before: TableMetadata, snapshot: Snapshot) -> None:
        assert snapshot.summary is not None
        read = self.read(snapshot)
        parent = before.snapshot_by_id(snapshot.parent_snapshot_id or 0)
        was = {} if parent is None else self.read(parent).live | self.read(parent).deletes
        now = read.live | read.deletes
        hours = frozenset({was.get(path, now.get(path, 0)) for path in was.keys() ^ now.keys()})
        if JOB_ID not in snapshot.summary.additional_properties:
            self._written(before, snapshot.snapshot_id, hours)
            if was.keys() <= now.keys() and not read.deletes.keys() - was.keys():
                self.appended[snapshot.snapshot_id] = frozenset(now.keys() - was.keys())
            return
        self.replaced += 1
        self.merged += bool(read.deletes.keys() - was.keys())
        self.converted += bool(
            read.deletes.keys() - was.keys() and parent and self._by_key(parent) - read.paths
        )
        self.world.tell(f"replaced in {name}: hours {sorted(hours)}")
        if before.current_snapshot_id != snapshot.parent_snapshot_id:
            raise Broken(f"{name}: a replace on {snapshot.parent_snapshot_id}, which is not the head")
        line = [self.writes[one] for one in _ancestors(before) if one in self.writes]
        recent = [
            touched for at_ms, touched in line[:QUIET_COMMITS] if self.world.now_ms - at_ms < QUIET_AT_MOST_MS
        ]
        # What wrote the newest hour may have expired; its rows are there.
        written = [hour for _, touched in line for hour in touched]
        newest = max([*written, *read.live.values()], default=0)
        for hour in hours:
            hot = ""
            if any(hour in touched for touched in recent) and not self._is_in_a_pause(before, hour):
                hot = f"one of the last {QUIET_COMMITS} commits wrote it"
            elif newest and hour + 1 + AFTER > newest + 1:
                hot = f"the stream is in {newest}"
            if hot and (name != LOG or (hot := self._disturbs(before, was.keys() - now.keys()))):
                raise Broken(f"{name}: hour {hour} was hot: {hot}")
            self.replaced_hot += name == LOG and newest - hour <= AFTER
            for merge in self.writers.merges:
                told = merge.offset is not None and merge.offset < self.world.looked_to
                is_open = told and self.world.now_ms < merge.expires_at_ms and not self.world.is_late
                if merge.uuid == str(before.table_uuid) and merge.hour == hour and is_open:
                    raise Broken(f"{name}: hour {hour} was hot: an open intent names it")

    def _written(self, table: TableMetadata, snapshot_id: int, hours: frozenset[int]) -> None:
        self.writes[snapshot_id] = (self.world.now_ms, hours)
        for hour in hours:
            self.written_ms.setdefault((str(table.table_uuid), hour), []).append(self.world.now_ms)

    def _is_in_a_pause(self, table: TableMetadata, hour: int) -> bool:
        """Whether an hour's writers make pauses, and it is one of them: then commits need not pass it by."""
        written_ms = self.written_ms.get((str(table.table_uuid), hour), [])
        return len(written_ms) > ENOUGH_PAUSES and self.world.now_ms - written_ms[-1] >= PAUSE_MS

    def _disturbs(self, before: TableMetadata, gone: Collection[str]) -> str:
        """Why a hot hour may not be touched though the policy allows it: its writers do not only append, or a file is
        young. Empty where it may.
        """
        line = [one for one in _ancestors(before) if one in self.writes]
        ages = [self.world.now_ms - self.writes[one][0] for one in line]
        for place, (snapshot_id, age_ms) in enumerate(zip(line, ages, strict=True)):
            if (age_ms < ONLY_APPENDS_MS or place < ENOUGH_APPENDS) and snapshot_id not in self.appended:
                return f"a commit {age_ms} ms ago was no append"
            if age_ms < YOUNG_MS and self.appended.get(snapshot_id, frozenset()) & set(gone):
                return f"a file that came {age_ms} ms ago is gone"
        return ""

    def _went(self, before: TableMetadata, after: TableMetadata, gone: Collection[int]) -> None:
        self.expired += len(gone)
        line = _ancestors(before)
        for snapshot_id in gone:
            snapshot = before.snapshot_by_id(snapshot_id)
            assert snapshot is not None
            if self.world.now_ms - snapshot.timestamp_ms < KEEP_FOR_MS:
                raise Broken(f"snapshot {snapshot_id} is gone and was young")
            if snapshot_id in line[:KEEP_LAST]:
                raise Broken(f"snapshot {snapshot_id} is gone: one of the newest")
            if snapshot_id not in line and snapshot_id in _reached(before):
                raise Broken(f"snapshot {snapshot_id} is gone: a branch or tag reaches it, and not main")
        self._refs_stay(before, after, gone)
        self._places_stay(before, after)
        staying: set[str] = set()
        for version in self.world.tables.values():
            for snapshot in version.metadata.snapshots:
                if snapshot.snapshot_id not in gone:
                    staying |= self.read(snapshot).paths
        for snapshot_id in gone:
            for path in self.snapshots[snapshot_id].paths - staying:
                self.world.left_at_ms[path] = self.world.now_ms

    def _places_stay(self, before: TableMetadata, after: TableMetadata) -> None:
        """Each writer finds its place: ingest in a property too, a sink in snapshots alone."""
        if _token(before) is not None and _token(after) != _token(before):
            raise Broken("ingest's place is gone with a snapshot")
        place = _place(before)
        if place is None or self.world.now_ms - place.timestamp_ms >= PLACE_FOR_MS:
            return
        if place.snapshot_id not in _ancestors(after):
            raise Broken(f"no sink finds its place in snapshot {place.snapshot_id} from the head any more")

    def _refs_stay(self, before: TableMetadata, after: TableMetadata, gone: Collection[int]) -> None:
        """No ref, and nothing that a branch keeps, goes with expired snapshots."""
        for name, ref in before.refs.items():
            kept = _ancestors(before, ref.snapshot_id)[: ref.min_snapshots_to_keep or 1]
            if name in after.refs and not set(kept) & set(gone):
                continue
            if not self.world.is_rest or name in self.world.refs_seen:
                raise Broken(f"ref {name} keeps {len(kept)} snapshots, and one of them is gone")
            self.world.tell(f"the catalog drops what {name} names or keeps, which came after the request")
            for snapshot_id in set(kept) & set(gone):
                self.ghosts |= self.snapshots[snapshot_id].paths

    def deletes_file(self, path: str) -> None:
        """The daemon deletes a file."""
        self.deleted += 1
        for name, version in self.world.tables.items():
            for snapshot in version.metadata.snapshots:
                if path in self.read(snapshot).paths:
                    raise Broken(f"deletes {path}, which snapshot {snapshot.snapshot_id} of {name} needs")
        if path in self.ghosts:
            raise Broken(f"deletes {path}, with which a ref that was lost can be had again")
        age_ms = self.world.now_ms - self.world.files.written_ms[path]
        if path in self.world.versions:
            self._trims(path, age_ms)
        elif path in self.world.left_at_ms:
            if self.world.now_ms - self.world.left_at_ms[path] < GRACE_MS:
                raise Broken(f"deletes {path} before its grace is over")
        elif "isotherm" not in path.rpartition("/")[2]:
            self.orphans += 1
            if age_ms < FOUND_AGE_MS:
                raise Broken(f"deletes {path}, which is not its own and no snapshot left behind")

    def litter(self, littered: Iterable[str]) -> list[tuple[str, str]]:
        """Files that writers have left behind and that are still there, in the folders of tables that let them go, and have a head."""
        homes = {
            f"{version.metadata.location}/": name
            for name, version in self.world.tables.items()
            if version.metadata.properties.get("gc.enabled") != "false" and version.metadata.snapshots
        }
        there = [path for path in littered if path in self.world.files]
        return [(name, path) for home, name in homes.items() for path in there if path.startswith(home)]

    def _trims(self, path: str, age_ms: int) -> None:
        """A version of a table's metadata goes: an old one, which the newest version does not name."""
        self.trimmed += 1
        if age_ms < FOUND_AGE_MS:
            raise Broken(f"deletes {path}, the metadata of a table, after {age_ms} ms")
        for name, version in self.world.tables.items():
            named = [entry.metadata_file for entry in version.metadata.metadata_log]
            if path in {version.location, *named}:
                raise Broken(f"deletes {path}, which is a version that {name} needs")


def _ancestors(metadata: TableMetadata, snapshot_id: int | None = None) -> list[int]:
    """A snapshot (else the head) and what lies behind it, newest first."""
    parents = {one.snapshot_id: one.parent_snapshot_id for one in metadata.snapshots}
    current = metadata.current_snapshot_id if snapshot_id is None else snapshot_id
    found = []
    while current is not None and current in parents:
        found.append(current)
        current = parents[current]
    return found


def _reached(metadata: TableMetadata) -> set[int]:
    """What any branch has in its history, or a tag names."""
    found = set(_ancestors(metadata))
    for ref in metadata.refs.values():
        is_tag = ref.snapshot_ref_type is SnapshotRefType.TAG
        found |= {ref.snapshot_id} if is_tag else set(_ancestors(metadata, ref.snapshot_id))
    return found


def _token(metadata: TableMetadata) -> str | None:
    """Ingest's newest place, where ingest looks for it."""
    place = _place(metadata)
    if place is not None and place.summary is not None:
        return str(place.summary.additional_properties[INGEST_TOKEN])
    return metadata.properties.get(property_name("shop"))


def _place(metadata: TableMetadata) -> Snapshot | None:
    """The newest snapshot in which a writer keeps its place, as sinks look for it: from the head on."""
    for snapshot_id in _ancestors(metadata):
        snapshot = metadata.snapshot_by_id(snapshot_id)
        if snapshot and snapshot.summary and INGEST_TOKEN in snapshot.summary.additional_properties:
            return snapshot
    return None
