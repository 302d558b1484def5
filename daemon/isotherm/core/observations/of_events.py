"""What became of messages on topics."""

from dataclasses import dataclass
from enum import StrEnum

from isotherm.contract.identity import TableId


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
class EventsLost:
    """Messages of the control topic may have gone by unread; every table is reconciled with its metadata."""

    why: str


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


OfEvents = (
    EventApplied
    | EventSeen
    | EventRejected
    | SourceHeard
    | ScansReported
    | EventsLost
    | HoldRejected
    | ReaderRejected
)
