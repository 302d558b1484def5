"""Everything that happens which somebody may want to know: one frozen value each.

The service emits them; `logs.py` and `metrics.py` translate. The name of the class is the stable name of the event.
"""

from dataclasses import dataclass
from enum import StrEnum

from isotherm.contract.identity import TableId
from isotherm.core.model.holds import HoldKind
from isotherm.core.model.outside import Outside
from isotherm.core.model.readers import ReaderLag
from isotherm.core.model.refusals import Reason
from isotherm.core.observations_of_work import (
    FilesDeleted,
    FolderSearched,
    JobEnded,
    JobStarted,
    OfWork,
    SnapshotsExpired,
    WindowAsked,
    WindowEnd,
    WindowEnded,
)


@dataclass(frozen=True, slots=True)
class EventApplied:
    """A commit event became part of the state."""

    table: TableId
    snapshot_id: int
    origin: str
    partitions: int
    committed_at_ms: int
    received_at_ms: int
    decided_at_ms: int | None
    """When the verdicts of the touched partitions were made; None until they are."""
    seconds: float
    """What applying it cost."""


class Heard(StrEnum):
    """What came of a message; a metric's label."""

    APPLIED = "applied"
    """It became part of the state."""
    ANNOUNCED = "announced"
    """Another system's, announced again as ours."""
    CROWDED = "crowded"
    """More was said than is kept: a table is held as a whole for a while, or a name is not looked up."""
    DEFERRED = "deferred"
    """The catalog is asked at the next round."""
    DUPLICATE = "duplicate"
    INTENT = "intent"
    WINDOW = "window"
    """Something was said of a window in which writers leave a table alone."""
    OTHER_REF = "other_ref"
    OTHER_TYPE = "other_type"
    REJECTED = "rejected"
    UNKNOWN_SNAPSHOT = "unknown_snapshot"
    UNKNOWN_TABLE = "unknown_table"
    UNREADABLE_TABLE = "unreadable_table"


@dataclass(frozen=True, slots=True)
class EventSeen:
    """A message on the control topic that changed nothing in the state, and why."""

    outcome: Heard
    table: str


@dataclass(frozen=True, slots=True)
class EventRejected:
    """A message that is no event at all, or not of the kind that its topic holds; it is set aside."""

    reason: str
    topic: str
    kafka_partition: int
    offset: int
    size_bytes: int
    messages: int = 1
    """More than one: the rest of a batch with many, told at once; the place is the last one's."""


@dataclass(frozen=True, slots=True)
class SourceHeard:
    """A message of another system's topic, and what came of it."""

    topic: str
    outcome: Heard
    table: str


class Reported(StrEnum):
    """What came of a report of an engine; a metric's label."""

    COUNTED = "counted"
    """It was a scan by a reader."""
    CROWDED = "crowded"
    """More were sent than are read."""
    NO_SCAN = "no_scan"
    """Of a commit, of rows that a writer looks for, or of no file at all."""
    REFUSED = "refused"
    """No report that makes sense."""
    UNKNOWN_TABLE = "unknown_table"


@dataclass(frozen=True, slots=True)
class ScansReported:
    """Reports of engines in the last minute, and what came of them."""

    outcome: Reported
    reports: int


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


@dataclass(frozen=True, slots=True)
class RoundPlanned:
    """A planning round is over."""

    tables: int
    requests: int
    started: int
    seconds: float
    deletions_held: bool
    """Its ledger or its clock is not to be believed: this daemon only tells what it would delete."""
    away: tuple[Outside, ...] = ()
    """What the round could not do without, and had to."""
    hanging: int = 0
    """Threads in which something hangs that was given up."""
    overdue_s: float = 0.0
    """For how long the marked file that waits longest might have gone."""


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
class HoldRejected:
    """A record among them that is none of ours; it is left alone."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class ReaderRejected:
    """A record on the topic of readers that is none of ours; it is left alone."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class LedgerLost:
    """The ledger is new, and should not be: this daemon deletes nothing until a person says that it may."""

    why: str


@dataclass(frozen=True, slots=True)
class EventsLost:
    """Messages of the control topic may have gone by unread; every table is reconciled with its metadata."""

    why: str


@dataclass(frozen=True, slots=True)
class TableRefused:
    """The catalog has refused to show a table for an hour, and lists it: what was last seen of it says nothing now."""

    table: TableId
    """Its uuid is empty: nobody knows which table it is by now."""
    why: str


@dataclass(frozen=True, slots=True)
class TableMoved:
    """The group gave a table to another daemon, or it was renamed: this is its old name."""

    table: TableId


@dataclass(frozen=True, slots=True)
class TrySoon:
    """Something outside did not answer; it is tried again."""

    what: str
    error: str
    kind: Outside


@dataclass(frozen=True, slots=True)
class PoliciesLoaded:
    """The folder of policies was read, and something was different from before; kept in the ledger too."""

    ok: bool
    files: int
    """Files in force, in their last good version."""
    complaints: str
    changes: str = ""
    """What became different: files that came and went, fields from → to."""
    tables: str = ""
    """Tables that have another policy now."""
    decisions_dropped: int = 0
    """Partitions of these tables; each is decided again."""


Observation = (
    EventApplied
    | EventSeen
    | EventRejected
    | SourceHeard
    | ScansReported
    | GapHealed
    | TableScanned
    | StateDrifted
    | PartitionsRecounted
    | TableGone
    | TableFailed
    | TableRecovered
    | TablePlanned
    | RoundPlanned
    | OfWork
    | TableHalted
    | HoldChanged
    | HoldRejected
    | ReaderRejected
    | LedgerLost
    | EventsLost
    | TableMoved
    | TableRefused
    | TrySoon
    | PoliciesLoaded
)

__all__ = [
    "EventApplied",
    "EventRejected",
    "EventSeen",
    "EventsLost",
    "FilesDeleted",
    "FolderSearched",
    "GapHealed",
    "Heard",
    "HoldChanged",
    "HoldRejected",
    "JobEnded",
    "JobStarted",
    "LedgerLost",
    "Observation",
    "PartitionsRecounted",
    "PoliciesLoaded",
    "ReaderRejected",
    "Reported",
    "RoundPlanned",
    "ScansReported",
    "SnapshotsExpired",
    "SourceHeard",
    "StateDrifted",
    "TableFailed",
    "TableGone",
    "TableHalted",
    "TableMoved",
    "TablePlanned",
    "TableRecovered",
    "TableRefused",
    "TableScanned",
    "TrySoon",
    "WindowAsked",
    "WindowEnd",
    "WindowEnded",
]
