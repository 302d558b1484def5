"""What the service needs of a catalog and of the files behind it, to read tables."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from isotherm.contract.boundary import MAX_AHEAD_MS
from isotherm.contract.events import CommitEvent
from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.appends import NO_APPENDS, Appends
from isotherm.core.model.changes import Change
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.model.tables import Astray, Snapshot, TableFacts
from isotherm.core.partition_state import PartitionState

GoOn = Callable[[], None]
"""Called again and again while manifests are read, by any thread. It raises TooLong where that is to end."""


def without_end() -> None:
    """Go on for as long as it takes."""


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """A table as the catalog has it now."""

    table: TableId
    facts: TableFacts
    head: int | None
    snapshots: Mapping[int, Snapshot]
    """Every snapshot in the metadata, of all branches."""
    parents: Mapping[int, int | None]
    astray: tuple[Astray, ...]
    """Those that no branch or tag reaches, as old as they are."""
    metadata_location: str
    handle: Any
    """The adapter's own; a PyIceberg table in the real one."""
    is_whole: bool = False
    """Whether its history begins with the table's first commit."""
    seen_through: int = 0
    """The highest sequence number that this process ever saw the table have. A version with a lower one is an older one:
    a replica that lags shows it, or the table was restored."""

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
    appends: Appends = NO_APPENDS
    """As far as the snapshots go that are still there."""
    read_slowly: int = 0
    """Large manifests that the fast reader could not read."""

    def boundary_by(self, now_ms: int) -> int | None:
        """The boundary, capped as that of one commit is: a commit may be stamped far in the future."""
        return None if self.boundary_ms is None else min(self.boundary_ms, now_ms + MAX_AHEAD_MS)


Count = tuple[Mapping[int, FileStats], Mapping[FileKind, FileStats]]
"""The live files of a partition, as its state has them: data files by size bucket, delete files by kind."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The tables of a catalog, as far as it shows them."""

    names: Sequence[str]
    """Every table, as `namespace.table` (`identity.name_from`); a namespace may have several levels."""
    unlisted: Mapping[str, str]
    """Namespaces whose tables, or whose namespaces below, the catalog does not tell us, and why."""
    silent: Collection[str] = ()
    """Those of them for which it had no answer at all, or says that they are not there: another list may have them."""

    def hides(self, name: str) -> bool:
        """Whether a table of this name would not be shown."""
        return bool(self.why_hidden(name))

    def why_hidden(self, name: str) -> str:
        """Why it would not be shown, or empty where it would."""
        hidden = (one for one in self.unlisted if name.startswith(f"{one}."))
        return next((f"namespace {one} gives no answer: {self.unlisted[one]}" for one in hidden), "")


@dataclass(frozen=True, slots=True)
class Lies:
    """Which table a name is, and where it lies."""

    uuid: str
    location: str
    properties: Mapping[str, str]
    """The table's; some choose a place."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look at some names of a catalog showed; each is in one of the six."""

    found: Mapping[str, Lies]
    gone: Collection[str] = ()
    """Dropped since they were listed."""
    missing: Collection[str] = ()
    """The catalog lists them, and has no table behind them."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """What is refused to us or makes no sense, and why."""
    silent: Mapping[str, str] = field(default_factory=dict)
    """What the catalog, or the store behind it, gave no answer for, and why."""
    unasked: Collection[str] = ()
    """What was not asked for, because nobody answered, or because the catalog wants a pause."""
    pause_s: float = 0.0
    """For so long the catalog wants no more requests: it has had too many, and said so at the first that is unasked."""


class Catalog(Protocol):
    """The Iceberg catalog and what lies behind it, read only."""

    def ask(self) -> None:
        """One short question. Raises Unavailable: the catalog as a whole does not answer."""
        ...

    def list_beside(self, wait_s: float) -> Listing | None:
        """Every table in every namespace, asked for beside the loop. Returns None where it takes longer: ask again.

        Raises:
            Unavailable: the catalog as a whole does not answer.
        """
        ...

    def load(self, name: str) -> LoadedTable:
        """The table now. Raises TableMissing, Unavailable."""
        ...

    def lies_in_time(self, name: str) -> Lies:
        """Which table a name is, and where it lies, whatever is behind its metadata.

        Raises:
            TableMissing: there is none.
            Unavailable: it does not answer, or takes longer than the loop may wait for one table.
        """
        ...

    def start_looking(self, names: Sequence[str]) -> None:
        """Begin to look which table each name is, and where it lies, beside the loop; one look at a time."""
        ...

    def looked(self) -> Looked | None:
        """What the look came to, once; None while it goes on, or where none was begun."""
        ...

    def hanging(self) -> int:
        """How many questions and other work were given up and have not ended: each keeps a thread."""
        ...

    def changes(
        self, loaded: LoadedTable, snapshot_ids: Sequence[int], go_on: GoOn = without_end
    ) -> Iterator[Change]:
        """What some snapshots did, in their order, from the manifests that their manifest lists say they added.

        A few of them are read at the same time.
        """
        ...

    def event(self, loaded: LoadedTable, snapshot_id: int) -> CommitEvent:
        """The announcement of one snapshot, as its metadata and its manifest list have it."""
        ...

    def changes_of(
        self, asked: Sequence[tuple[LoadedTable, CommitEvent]], go_on: GoOn = without_end
    ) -> Sequence[Change | None]:
        """What the manifests of events say, in their order; they are read at the same time.

        None for one that does not name all of its own, or names files of others, or what cannot be read, also in time.
        """
        ...

    def are_true(
        self, loaded: LoadedTable, changes: Sequence[Change], go_on: GoOn = without_end
    ) -> Sequence[bool]:
        """Of each change that an event brought, whether its snapshot's metadata and manifest list say the same.

        The lists are read at the same time.
        """
        ...

    def clock_skew_ms(self) -> int | None:
        """How far this machine's clock is ahead of the catalog's, by its last answer. None where it does not tell."""
        ...

    def scan(self, loaded: LoadedTable, go_on: GoOn = without_end) -> Scan:
        """Everything, from all manifests of the head."""
        ...

    def recount(
        self, loaded: LoadedTable, keys: Collection[PartitionKey], go_on: GoOn = without_end
    ) -> Mapping[PartitionKey, Count] | None:
        """The live files of some partitions at the head, counted again; None where too many manifests may hold them."""
        ...

    def light(self, loaded: LoadedTable) -> LoadedTable:
        """The same table without what only a confirmation needs, such as its snapshots but for the head."""
        ...

    def kept_bytes(self, light: LoadedTable) -> int:
        """How large what is left of the metadata of such a table is, as JSON."""
        ...
