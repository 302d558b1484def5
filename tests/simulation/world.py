"""The world in which a simulated daemon lives: files, a catalog, brokers and time, all in memory and in one thread.

Everything that a daemon asks of the world goes through `touch`: there the world may move on, fail, or end the daemon.
What is true stands here, and is known from what writers did, never from what the daemon says: which rows each snapshot
has, which snapshots were taken away when, who committed what.
"""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef
from pyiceberg.table.snapshots import MetadataLogEntry

from isotherm.contract.summary import JOB_ID

START_MS = 1_800_000_000_000
"""Later than every clock of a machine that runs this: PyIceberg stamps some things with its own."""
TOLD = 50
"""Steps that are shown of a seed that fails."""


class Killed(BaseException):
    """The daemon's process ended here."""


class Broken(BaseException):
    """A promise was broken. No `except Exception` of the daemon keeps it in."""


@dataclass(slots=True)
class Version:
    """One version of a table in the catalog."""

    metadata: TableMetadata
    location: str


@dataclass(slots=True)
class Faults:
    """What may go wrong, each with its chance at every touch; all are off when faults have ended."""

    moves: float = 0.0
    """Something else happens in the world just then."""
    kill: float = 0.0
    catalog_away: float = 0.0
    not_found: float = 0.0
    stale: float = 0.0
    answer_lost: float = 0.0
    lands_late: float = 0.0
    sent_twice: float = 0.0
    forbidden: float = 0.0
    store_fails: float = 0.0
    torn: float = 0.0
    broker_away: float = 0.0
    rewrite_fails: float = 0.0


class Files(dict[str, bytes]):
    """The files of the store, which knows when each was written."""

    def __init__(self, world: "World") -> None:
        super().__init__()
        self._world, self.written_ms = world, dict[str, int]()

    def __setitem__(self, location: str, data: bytes) -> None:
        super().__setitem__(location, data)
        self.written_ms[location] = self._world.now_ms


@dataclass
class World:
    """Everything outside of the daemon."""

    seed: int
    is_rest: bool
    """The catalog applies requests itself, as a REST server; else PyIceberg does, with the metadata that it loads."""
    chance: random.Random = field(init=False)
    now_ms: int = START_MS
    files: "Files" = field(init=False)
    tables: dict[str, Version] = field(default_factory=dict)
    """What the catalog has, by `namespace.table`."""
    before: dict[str, list[Version]] = field(default_factory=dict)
    """Some versions before, which a replica may still answer with."""
    versions: dict[str, TableMetadata] = field(default_factory=dict)
    """Every metadata file, by location."""
    rows: dict[int, frozenset[int]] = field(default_factory=dict)
    """By snapshot: the rows that it has."""
    left_at_ms: dict[str, int] = field(default_factory=dict)
    """By file: when the last snapshot that reaches it left the table."""
    late: list[Callable[[], None]] = field(default_factory=list)
    """Requests that are on their way."""
    faults: Faults = field(default_factory=Faults)
    move: Callable[[], None] = lambda: None
    """What others do when the world moves on."""
    watch: Callable[[str, TableMetadata, TableMetadata], None] = lambda *_: None
    """Judges every change of a table: name, before, after."""
    on_delete: Callable[[str], None] = lambda _: None
    """Judges every deletion by the daemon."""
    log: deque[str] = field(default_factory=lambda: deque(maxlen=TOLD))
    _is_moving: bool = False
    looked_to: int = 0
    """The offset of the control topic to which the daemon has read before its last request."""
    refs_seen: frozenset[str] = frozenset()
    """The refs of the table that the request at hand is based on: of a REST catalog no others can be asked for."""
    versions_named: int = 100
    """Old versions of its metadata that a table names."""
    is_late: bool = False
    """A request lands long after it was sent."""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.files = Files(self)

    def tell(self, what: str) -> None:
        """Write a line into the log of steps."""
        self.log.append(f"{(self.now_ms - START_MS) / 1000:9.1f}s  {what}")

    def may(self, probability: float) -> bool:
        """Whether chance lets something happen. Draws nothing where it cannot."""
        return probability > 0 and self.chance.random() < probability

    def touch(self, what: str) -> None:
        """The daemon asks something of the world: it takes time, others may act first, the daemon may end here."""
        self.now_ms += 3
        if self._is_moving:
            return
        if self.may(self.faults.kill):
            self.tell(f"the daemon is killed at: {what}")
            raise Killed(what)
        if self.may(self.faults.moves):
            self._is_moving = True
            try:
                self.move()
            finally:
                self._is_moving = False

    def put(self, name: str, metadata: TableMetadata) -> Version:
        """A new version of a table, or a new table."""
        known = self.tables.get(name)
        location = (
            f"{metadata.location}/metadata/{len(self.versions):05d}-{metadata.table_uuid}.metadata.json"
        )
        metadata = metadata.model_copy(update={"metadata_log": metadata.metadata_log[-self.versions_named :]})
        version = Version(metadata, location)
        self.versions[location] = metadata
        self.files[location] = b""
        if known is not None:
            self.before.setdefault(name, []).append(known)
            del self.before[name][:-4]
        self.tables[name] = version
        for snapshot in metadata.snapshots:
            if snapshot.snapshot_id not in self.rows:
                # Ours: a replace, so it has the rows of its parent.
                assert snapshot.summary is not None
                if JOB_ID not in snapshot.summary.additional_properties:
                    raise Broken(f"nobody made snapshot {snapshot.snapshot_id}")
                self.rows[snapshot.snapshot_id] = self.rows[snapshot.parent_snapshot_id or 0]
        if known is not None and known.metadata.table_uuid == metadata.table_uuid:
            self.watch(name, known.metadata, metadata)
        return version

    def apply(self, name: str, requirements: Any, updates: Any, uuid: Any = None) -> Version:
        """A commit, as whoever keeps the catalog does it. Raises CommitFailedException."""
        version = self.tables[name]
        if uuid is not None and version.metadata.table_uuid != uuid:
            raise Broken("a request reached another table")
        for requirement in requirements:
            requirement.validate(version.metadata)
        return self.put(name, applied(version, updates, self.now_ms))


def applied(version: Version, updates: Any, now_ms: int) -> TableMetadata:
    """A table's metadata after the updates that a maintainer sends, as Iceberg's Java library makes it."""
    metadata = version.metadata
    snapshots, refs, properties = list(metadata.snapshots), dict(metadata.refs), dict(metadata.properties)
    for update in updates:
        if update.action == "add-snapshot":
            snapshots.append(update.snapshot)
        elif update.action == "set-snapshot-ref":
            refs[update.ref_name] = SnapshotRef(
                snapshot_id=update.snapshot_id,
                snapshot_ref_type=update.type,
                max_ref_age_ms=update.max_ref_age_ms,
                max_snapshot_age_ms=update.max_snapshot_age_ms,
                min_snapshots_to_keep=update.min_snapshots_to_keep,
            )
        elif update.action == "remove-snapshots":
            going = set(update.snapshot_ids)
            snapshots = [one for one in snapshots if one.snapshot_id not in going]
            refs = {name: ref for name, ref in refs.items() if ref.snapshot_id not in going}
        else:
            assert update.action == "set-properties", update.action
            properties |= update.updates
    return grown(version, now_ms, snapshots=snapshots, refs=refs, properties=properties)


def grown(version: Version, now_ms: int, **changes: Any) -> TableMetadata:
    """The next version of a table's metadata."""
    metadata = version.metadata
    snapshots = changes.get("snapshots", metadata.snapshots)
    refs = changes.get("refs", metadata.refs)
    entry = MetadataLogEntry(metadata_file=version.location, timestamp_ms=metadata.last_updated_ms)
    numbers = [one.sequence_number or 0 for one in snapshots]
    update = {
        "current_snapshot_id": refs["main"].snapshot_id if "main" in refs else None,
        "last_sequence_number": max(metadata.last_sequence_number, *numbers, 0),
        "last_updated_ms": now_ms,
        "metadata_log": [*metadata.metadata_log, entry][-100:],
        **changes,
    }
    return metadata.model_copy(update=update)
