"""What happens to one table, and how it stands."""

from dataclasses import dataclass

from isotherm.contract.identity import TableId
from isotherm.core.model.holds import HoldKind
from isotherm.core.model.readers import ReaderLag
from isotherm.core.model.refusals import Reason


@dataclass(frozen=True, slots=True)
class GapHealed:
    """Snapshots that nobody had announced, found in the table's metadata; the daemon announced them itself."""

    table: TableId
    snapshots: int
    ok: bool = False
    """Whether that is usual, because no writer of the table has ever announced anything."""


@dataclass(frozen=True, slots=True)
class TableScanned:
    """A table's state was built by a full scan, and why."""

    table: TableId
    why: str
    files: int
    seconds: float
    read_slowly: int = 0
    """Large manifests that the fast reader could not read: exact, but a third of the speed."""


@dataclass(frozen=True, slots=True)
class StateDrifted:
    """The state's totals moved away from the summary's: rebuilt."""

    table: TableId
    snapshot_id: int
    gap: str


@dataclass(frozen=True, slots=True)
class PartitionsRecounted:
    """Some partitions were counted again in idle time."""

    table: TableId
    partitions: int
    wrong: int
    """Of these, how many the state had wrong; the table is then built again."""
    seconds: float


@dataclass(frozen=True, slots=True)
class TableGone:
    """The catalog does not have the table any more, or has another one under its name."""

    table: TableId
    why: str


@dataclass(frozen=True, slots=True)
class TableFailed:
    """Something went wrong with one table: it is set aside for a while, and the others go on."""

    name: str
    doing: str
    """What was done to it."""
    error: str
    traceback: str = ""
    """Where it happened, if the mistake is ours."""
    remedy: str = ""
    """What a person can do."""


@dataclass(frozen=True, slots=True)
class TableRecovered:
    """A table that had failed was looked at from end to end."""

    name: str


@dataclass(frozen=True, slots=True)
class TablePlanned:
    """The outcome of a planning round for one table: how things stand."""

    table: TableId
    snapshots: int
    metadata_bytes: int
    partitions: int
    hot: int
    due: int
    unsupported: int
    waiting: int
    quarantined: int
    score: float
    """The highest of the cold partitions and the table."""
    files_per_partition: int
    """The most data files in any one partition."""
    backlog_files: int
    backlog_bytes: int
    expire_score: float
    """Snapshots that may go, over what makes an expiry due; 0 where the policy wants none."""
    metadata_file_bytes: int
    oldest_due_at_ms: int | None
    """Since when the partition that has waited longest has a debt of 1 or more, whatever it waits for."""
    halted: bool
    paused: bool
    last_event_at_ms: int
    reads_per_day: float | None = None
    """How often it is read, or None where nobody has reported a scan of it."""
    rests: bool = False
    """Nobody has written to it for a day, nothing is owed to it, and nothing holds it back."""
    readers: tuple[ReaderLag, ...] | None = None
    """Who reads it bit by bit, or None where nobody looked this time."""
    hot_score: float = 0.0
    """The highest of the hot partitions."""
    due_actions: tuple[str, ...] = ()
    """What is due for the table as a whole."""


@dataclass(frozen=True, slots=True)
class TableHalted:
    """A person must look at this table; the others go on."""

    table: TableId
    reason: Reason
    why: str


@dataclass(frozen=True, slots=True)
class HoldChanged:
    """A halt, pause or quarantine came or was lifted, here or by another daemon or a person."""

    table: TableId
    kind: HoldKind
    partition: str
    is_held: bool
    why: str
    until_ms: int | None


@dataclass(frozen=True, slots=True)
class TableMoved:
    """The group gave a table to another daemon, or it was renamed: this is its old name."""

    table: TableId


@dataclass(frozen=True, slots=True)
class TableRefused:
    """The catalog has refused to show a table for an hour, and lists it: what was last seen of it says nothing now."""

    table: TableId
    """Its uuid is empty: nobody knows which table it is by now."""
    why: str


OfTables = (
    GapHealed
    | TableScanned
    | StateDrifted
    | PartitionsRecounted
    | TableGone
    | TableFailed
    | TableRecovered
    | TablePlanned
    | TableHalted
    | HoldChanged
    | TableMoved
    | TableRefused
)
