"""What the service needs of the world: small Protocols, so that the loop can be tried without it.

Each has a real adapter at the edge, and a fake in the tests that passes the same contract tests.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from isotherm.contract.events import CommitEvent
from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.deletion import Mark, Neighbours, Seen, Verdict
from isotherm.core.model.changes import Change
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.model.jobs import CompactionJob, Outcome, Rewrite
from isotherm.core.model.tables import Snapshot, TableFacts
from isotherm.core.observations import Observation
from isotherm.core.state import PartitionState

Listener = Callable[[Observation], None]
"""Somebody who wants to know; it must not raise."""


class Unavailable(Exception):  # noqa: N818 (it says what is)
    """Something outside does not answer now; try later, nothing is lost."""


class NotAsked(Unavailable):
    """It did not answer lately, so it was not asked again: nothing new, and nothing to tell."""


class StoreAway(Unavailable):
    """The store with a table's files does not answer, or not as it should."""


class Unreadable(Unavailable):
    """The catalog has the table and nothing can be made of it: a damaged file, or a format of a later version.

    It is not gone: nothing that is known of it is thrown away.
    """


class Refused(Unavailable):
    """What was asked for was refused, and other things may not be: a right is missing for one table."""


class Fenced(Exception):  # noqa: N818 (it says what is)
    """Another process has taken this daemon's place in the group: there is nothing left to do but to end."""


class TableMissing(Exception):  # noqa: N818 (it says what is)
    """The catalog says that it has no such table; or the table that it has no such snapshot."""


class UnknownTable(Exception):  # noqa: N818 (said to a person, as the two above)
    """The daemon knows no such table, or partition; the text names the nearest."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the control topic, or of a source's."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    value: bytes | None
    key: bytes | None = None


@dataclass(frozen=True, slots=True)
class Announced:
    """What another system's event says: where to look."""

    table: str
    """`namespace.table`."""
    snapshot_id: int | None
    """None: the table's newest."""
    uuid: str | None = None
    """The table's, where the event names it: another table under the same name is not meant."""
    writer: str = ""
    """Who committed, as that system calls it."""


Decoder = Callable[[bytes | None], Announced | None]
"""Reads another system's events: None where a message announces no commit. Raises EventError."""


class EventSource(Protocol):
    """The control topic, as this daemon may read it."""

    def poll(self, timeout_s: float) -> Sequence[Message]:
        """New messages, at most some hundreds; empty when none came in time."""
        ...

    def drain(self, timeout_s: float) -> Sequence[Message] | None:
        """Every message up to the topic's present end; None where the end was not reached in time, or is far away."""
        ...

    def undo(self, messages: Sequence[Message]) -> None:
        """Hand these out again: they could not be saved."""
        ...

    def commit(self) -> None:
        """Never hand out again what was handed out so far; called after it was saved."""
        ...

    def publish(self, event: CommitEvent) -> None:
        """Announce a snapshot; returns when the broker has it. Raises Unavailable."""
        ...

    def owns(self, table_uuid: str) -> bool:
        """Whether this daemon maintains the table, as the group divides them now."""
        ...

    def tenure(self, table_uuid: str) -> int | None:
        """Since which assignment this daemon has the table without a break; None: it has it not."""
        ...

    def check_in(self) -> str | None:
        """Ask the broker, not our memory: why we are no member of the group that has what we think we have.

        None: we are. Called after what was read is saved.
        """
        ...

    def losses(self) -> Sequence[str]:
        """Why messages may have gone by unread since the last call, one sentence each."""
        ...

    def is_assigned(self) -> bool:
        """Whether the group has given this daemon its part of the topic."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...


class SourceTopics(Protocol):
    """The topics of other systems, as this daemon may read them."""

    def poll(self, timeout_s: float) -> Sequence[Message]:
        """New messages, at most some hundreds; empty when none came in time."""
        ...

    def commit(self) -> None:
        """Never hand out again what was handed out so far; called after it was announced or set aside."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...


class DeadLetters(Protocol):
    """Where messages go that nobody can read."""

    def put(self, message: Message, reason: str) -> None:
        """Take the message as it came; returns before it is safe."""
        ...

    def flush(self) -> None:
        """Return when all that was put is safe. Raises Unavailable; then it is given up."""
        ...


@dataclass(frozen=True, slots=True)
class HoldReading:
    """What was read of the topic with what holds tables back: the newest of each key; None: lifted."""

    records: Mapping[str, bytes | None]
    is_whole: bool
    """It was read from the beginning: what is not in it is not on the topic."""


class HoldTopic(Protocol):
    """The compacted topic with what holds tables back."""

    def read(self, timeout_s: float) -> HoldReading | None:
        """What came since the last call, up to the topic's present end; None where it was not reached in time.

        The first call, and the first one after the topic was made again, gives all of it.
        """
        ...

    def write(self, key: str, value: bytes | None) -> None:
        """Keep a value under a key; None: there is none any more. Raises Unavailable."""
        ...

    def close(self) -> None:
        """Let go of the broker."""
        ...


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """A table as the catalog has it now."""

    table: TableId
    facts: TableFacts
    head: int | None
    snapshots: Mapping[int, Snapshot]
    """Every snapshot in the metadata, of all branches."""
    parents: Mapping[int, int | None]
    metadata_location: str
    handle: Any
    """The adapter's own; a PyIceberg table in the real one."""

    def log(self) -> tuple[Snapshot, ...]:
        """The ancestors of the head that the metadata still has, oldest first."""
        return tuple(self.snapshots[snapshot_id] for snapshot_id in reversed(self.ancestors()))

    def ancestors(self) -> tuple[int, ...]:
        """The ancestors of the head that the metadata still has, newest first."""
        # In the order of insertion; damaged metadata may lead in a circle.
        found: dict[int, None] = {}
        current = self.head
        while current is not None and current in self.parents and current not in found:
            found[current] = None
            current = self.parents[current]
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Scan:
    """A full scan of a table's head."""

    partitions: Mapping[PartitionKey, PartitionState]
    head: Change | None
    """The head's own change, without its partitions: who, when, totals."""
    boundary_ms: int | None
    foreign_commits: int
    files: int
    read_slowly: int = 0
    """Large manifests that the fast reader could not read."""


Count = tuple[Mapping[int, FileStats], Mapping[FileKind, FileStats]]
"""The live files of a partition, as its state has them: data files by size bucket, delete files by kind."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The tables of a catalog, as far as it shows them."""

    names: Sequence[str]
    """Every table, as `namespace.table`; a namespace may have dots in it."""
    unlisted: Mapping[str, str]
    """Namespaces whose tables, or whose namespaces below, the catalog does not tell us, and why."""


class Catalog(Protocol):
    """The Iceberg catalog and what lies behind it, read only."""

    def names(self) -> Listing:
        """Every table in every namespace. Raises Unavailable where the catalog as a whole does not answer."""
        ...

    def load(self, name: str) -> LoadedTable:
        """The table now. Raises TableMissing, Unavailable."""
        ...

    def change(self, loaded: LoadedTable, snapshot_id: int) -> Change:
        """What one snapshot did, from the manifests that its manifest list says it added."""
        ...

    def event(self, loaded: LoadedTable, snapshot_id: int) -> CommitEvent:
        """The announcement of one snapshot, as its metadata and its manifest list have it."""
        ...

    def change_of(self, loaded: LoadedTable, event: CommitEvent) -> Change | None:
        """What the event's manifests say; None where it does not name them all, or what it names cannot be read."""
        ...

    def changes_of(self, asked: Sequence[tuple[LoadedTable, CommitEvent]]) -> Sequence[Change | None]:
        """The same of several events, in their order; their manifests are read at the same time."""
        ...

    def is_true(self, loaded: LoadedTable, change: Change) -> bool:
        """Whether what an event said of a snapshot is what its metadata and its manifest list say."""
        ...

    def clock_skew_ms(self) -> int | None:
        """How far this machine's clock is ahead of the catalog's, by its last answer; None: it does not tell."""
        ...

    def scan(self, loaded: LoadedTable) -> Scan:
        """Everything, from all manifests of the head."""
        ...

    def recount(
        self, loaded: LoadedTable, keys: Collection[PartitionKey]
    ) -> Mapping[PartitionKey, Count] | None:
        """The live files of some partitions at the head, counted anew; None where too many manifests may hold them."""
        ...

    def light(self, loaded: LoadedTable) -> LoadedTable:
        """The same table without what only a confirmation needs: its snapshots but for the head."""
        ...

    def live_files(self, loaded: LoadedTable, partition: PartitionKey) -> int:
        """Data files of one partition at the head, counted anew."""
        ...


@dataclass(frozen=True, slots=True)
class Unbound:
    """Why a request found nothing to do, or cannot be done."""

    reason: str
    why: str


@dataclass(frozen=True, slots=True)
class Bound:
    """A job that is bound to its files."""

    job: CompactionJob
    live_data_files: int
    """Of the whole partition, with those that the job leaves alone."""


@dataclass(frozen=True, slots=True)
class ExpiryReading:
    """What an expiry would leave without a reader, as the table was at one moment."""

    snapshots: tuple[int, ...]
    """The snapshots that may go, oldest first."""
    files: tuple[str, ...]
    """What only they reach."""
    seen: Seen | None
    """How far the table's history went; None: its format does not tell."""
    damage: str = ""
    """Why files stay that would go if everything could be read."""


@dataclass(frozen=True, slots=True)
class Expired:
    """What an expiry came to."""

    outcome: Outcome
    lost_refs: tuple[str, ...] | None = ()
    """Branches and tags that were made at the last moment and that the catalog dropped with their snapshots. None:
    nobody can say."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """Files of one table whose grace is over, and what must be known to judge them."""

    uuid: str
    marks: tuple[Mark, ...]
    expired: Mapping[str, tuple[int, ...]]
    """By job: the snapshots that an expiry took."""
    neighbours: Neighbours


@dataclass(frozen=True, slots=True)
class Swept:
    """What became of marked files; each is in one of the three. By path, why."""

    uuid: str
    gone: tuple[str, ...] = ()
    kept: Mapping[str, Verdict] = field(default_factory=dict)
    postponed: Mapping[str, str] = field(default_factory=dict)


class Maintainer(Protocol):
    """What changes tables: bind, rewrite, commit, expire, delete."""

    def start_binding(
        self,
        loaded: LoadedTable,
        partition: PartitionKey,
        job_id: str,
        label: str,
        target_bytes: int,
        policy_hash: str,
        why: str,
    ) -> None:
        """Begin to find the files of a partition for a job, beside the loop."""
        ...

    def bound(self) -> Sequence[tuple[str, Bound | Unbound | Unavailable]]:
        """Bindings that ended since the last call, by job id; Unavailable where the files cannot be read now."""
        ...

    def start(self, loaded: LoadedTable, job: CompactionJob) -> None:
        """Begin to rewrite, elsewhere."""
        ...

    def finished(self) -> Sequence[tuple[str, Rewrite | Unbound]]:
        """Rewrites that ended since the last call, by job id; Unbound says why there is none."""
        ...

    def cancel(self, job_id: str) -> None:
        """Stop a binding, a rewrite or the reading for an expiry; it is not reported any more."""
        ...

    def commit(
        self, name: str, job: CompactionJob, rewrite: Rewrite, may_commit: Callable[[LoadedTable], str | None]
    ) -> Outcome:
        """Swap the files in; `may_commit` is asked last and may give a reason to refuse."""
        ...

    def settled(
        self, names: Sequence[str], job: CompactionJob, asserted_head_id: int | None
    ) -> Outcome | None:
        """What came of a job, by a look at its table under one of these names; None: nobody can say yet."""
        ...

    def leftovers(self, loaded: LoadedTable, job: CompactionJob) -> Sequence[str]:
        """The data files that a job has written so far. Raises Unavailable."""
        ...

    def delete_at_once(self, loaded: LoadedTable, paths: Sequence[str]) -> Mapping[str, str]:
        """Delete files of which it was decided that they may go at once; gives those that stay, and why."""
        ...

    def start_reading(self, loaded: LoadedTable, job_id: str, snapshots: Sequence[int]) -> None:
        """Begin to find out what an expiry would leave without a reader, beside the loop."""
        ...

    def read(self) -> Sequence[tuple[str, ExpiryReading | Unbound]]:
        """Readings that ended since the last call, by job id."""
        ...

    def expire(
        self,
        table: TableId,
        reading: ExpiryReading,
        job_id: str,
        may_send: Callable[[LoadedTable], str | None],
    ) -> Expired:
        """Expire snapshots; `may_send` is asked before each request, with the table that it is based on."""
        ...

    def lost_refs(self, loaded: LoadedTable, base: str, taken: Sequence[int]) -> Sequence[str] | None:
        """Branches and tags that a catalog dropped with the snapshots that an expiry took, since that metadata."""
        ...

    def start_sweep(self, loaded: LoadedTable, sweep: Sweep) -> None:
        """Begin to prove and delete, beside the loop; one sweep of a table at a time."""
        ...

    def swept(self) -> Sequence[Swept]:
        """Sweeps that ended since the last call."""
        ...

    def stop_sweep(self, uuid: str) -> None:
        """End the sweep of a table before its next file; what it did until then is reported by `swept`."""
        ...

    def clock_skew_ms(self, loaded: LoadedTable) -> int | None:
        """How far this machine's clock is ahead of the store's, as a file written now shows; None: it does not tell."""
        ...

    def stop(self) -> None:
        """End everything that runs; nothing is reported any more."""
        ...
