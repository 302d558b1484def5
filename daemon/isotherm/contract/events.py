"""The contract between ingest and daemon, and for any other writer that takes part.

CloudEvents (1.0, structured JSON) on the control topic, keyed by the table's uuid. A *commit* announces one snapshot. An
*intent* says which partitions an upsert may touch, before it commits (of other writers: before a MERGE plans). A
*window* is asked for by the daemon, granted by a writer, and closed by either. Events say where to look; what is true,
the catalog and its manifests say. So decoding is strict about form and believes nothing about content.

A change of meaning is a new type (`…v2`); new optional fields may be added to a type at any time, and readers
ignore what they do not know.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from isotherm.contract.first_fault import AtFirstFault, first_fault
from isotherm.contract.identity import PartitionKey, partition_key, partition_values
from isotherm.contract.summary import Origin

COMMIT_TYPE = "io.isotherm.commit.v1"

INTENT_TYPE = "io.isotherm.intent.v1"

WINDOW_REQUESTED_TYPE = "io.isotherm.window.requested.v1"

WINDOW_GRANTED_TYPE = "io.isotherm.window.granted.v1"

WINDOW_CLOSED_TYPE = "io.isotherm.window.closed.v1"

CONTENT_TYPE = "application/cloudevents+json; charset=UTF-8"

MAX_MANIFESTS = 200
"""Manifests named in one event; above it the list is cut and flagged, the daemon reads the manifest list."""

MAX_PARTITIONS = 500
"""Partitions named in one event: some 60 bytes each, but for those with long texts as values (`shortened`)."""

MAX_ANNOUNCEMENT_BYTES = 900_000
"""What we send ourselves stays below Kafka's default limit of a megabyte, with room for key, headers and framing."""

MAX_EVENT_BYTES = 1_000_000
"""A larger message is nobody's event."""


class EventError(ValueError):
    """A message that is none of the events expected on its topic; its text says what is wrong."""


def _canonical(key: str) -> str:
    """The partition key as we write it, so that a writer's blanks do not hide a partition."""
    try:
        return partition_key(partition_values(PartitionKey(key)))
    except (ValueError, AttributeError, RecursionError) as err:
        raise ValueError("not a JSON object of partition field ids and values") from err


# What SQLite and Iceberg hold, and what a calendar has: no number of an event is ever larger.
Long = Annotated[int, Field(ge=-(2**63), lt=2**63)]

Count = Annotated[int, Field(ge=0, lt=2**63)]

END_MS = 253_402_300_800_000
"""The end of the year 9999: no calendar goes on."""

TimeMs = Annotated[int, Field(ge=0, lt=END_MS)]

MAX_WINDOW_MS = 3_600_000
"""No writer waits for longer than an hour."""

WindowMs = Annotated[int, Field(ge=1, le=MAX_WINDOW_MS)]

Key = Annotated[str, AfterValidator(_canonical)]

# An event has room for half a million things. Those that are wrong are not all noted.
Keys = Annotated[tuple[Key, ...], AtFirstFault()]

Texts = Annotated[Mapping[str, str], BeforeValidator(first_fault(str, strict=True))]

Offsets = Annotated[Mapping[str, int], BeforeValidator(first_fault(int, strict=True))]

Name = Annotated[str, Field(min_length=1, max_length=1000)]

Writer = Annotated[str, Field(max_length=1000)]


class Value(BaseModel):
    """What all values of the contract have in common."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, use_attribute_docstrings=True)


class AddedManifest(Value):
    """A manifest that the snapshot added, as its manifest list has it."""

    path: str
    length: Count
    spec_id: Count
    content: Literal["data", "deletes"]
    added_files: Count
    deleted_files: Count


class PartitionChange(Value):
    """What the snapshot did to one partition: files and rows of every kind, added and removed."""

    partition: Key
    """A `PartitionKey`."""
    added_files: Count
    removed_files: Count
    added_rows: Count
    removed_rows: Count

    @property
    def key(self) -> PartitionKey:
        """The partition."""
        return PartitionKey(self.partition)


class OpenWindow(Value):
    """What the writer may still write after this snapshot, as far as it knows."""

    from_ms: Long | None = None
    """Lower bound of the event time of what is in flight, or None where the writer cannot tell."""
    partitions: Keys = ()
    """Partitions in flight, by key."""


class CommitEvent(Value):
    """The announcement of one snapshot. Optional fields may be missing from other writers' events."""

    table_uuid: Name
    table: Name
    """`namespace.table`; a dot within a level of it is written `%2E`."""
    catalog: str = ""
    ref: str = "main"
    snapshot_id: Long
    parent_id: Long | None = None
    sequence_number: Count
    timestamp_ms: TimeMs
    """When it was committed: of ours, what its summary says, which its snapshot's own time may lie before."""
    operation: str
    origin: Literal["ingest", "maintenance", "foreign"]
    writer: Writer = ""
    """A stable id of who commits: the pipeline, or `isotherm`."""
    schema_id: int | None = None
    spec_ids: Annotated[tuple[int, ...], AtFirstFault()] = ()
    manifest_list: str = ""
    added_manifests: Annotated[tuple[AddedManifest, ...], AtFirstFault()] = Field(
        (), max_length=MAX_MANIFESTS
    )
    added_manifests_complete: bool = False
    partitions: Annotated[tuple[PartitionChange, ...], AtFirstFault()] = Field((), max_length=MAX_PARTITIONS)
    partitions_complete: bool = False
    summary: Texts = Field(default_factory=dict)
    source_offsets: Annotated[Mapping[str, Offsets], BeforeValidator(first_fault(Offsets, strict=True))] = (
        Field(default_factory=dict)
    )
    """Topic → Kafka partition → next offset, after this snapshot."""
    valid_through_ms: Long | None = None
    open_window: OpenWindow | None = None
    announced_by: str = ""
    """Who sent this announcement, which need not be who committed."""
    grants: bool = False
    """Whether its writer reads requests for windows, and grants them between two of its commits."""

    @property
    def origin_kind(self) -> Origin:
        """Who made the snapshot, as the announcer believes."""
        return Origin(self.origin)


class Intent(Value):
    """What an upsert or a MERGE may touch. Sent before it, renewed while it runs, and closed whatever came of it."""

    table_uuid: Name
    table: Name
    intent_id: Name
    """The same for the opening, each renewal and the closing; one that is computed again keeps its id."""
    writer: Writer
    state: Literal["open", "closed"]
    at_ms: TimeMs
    expires_at_ms: Count
    """A daemon lets go then at the latest; it caps the span by itself."""
    partitions: Keys | None = None
    """Partition keys, or None for any partition of the table."""
    attempt: int = Field(1, ge=1)
    outcome: str = ""
    """With `closed`: `committed`, `failed`, …"""
    since_ms: TimeMs | None = None
    """When the write began, the same in each renewal: what was the head then is needed until it ends. Without it, that is
    `at_ms` of the first renewal that the daemon has heard without a break."""


class WindowRequested(Value):
    """The daemon asks the writers of a table to leave it alone for a while, so that it can compact what never cools."""

    table_uuid: Name
    table: Name
    window_id: Name
    """Of this request. Who asks again, because nobody has answered, takes another id, and the older request is void."""
    asked_by: Writer
    at_ms: TimeMs
    """For people: no reader counts from it."""
    length_ms: WindowMs
    """The longest that it is asked for. The daemon's window begins when it has sent this, by its own clock."""
    partitions: Keys | None = None
    """Those that are to be compacted, or None for any. A writer may leave the whole table alone in any case."""


class WindowGranted(Value):
    """A writer has begun to leave a table alone: it commits nothing to it until the window is closed, or is over."""

    table_uuid: Name
    table: Name
    window_id: Name
    """The request's."""
    writer: Writer
    """As in its commit events."""
    at_ms: TimeMs
    """For people, as in the request."""
    length_ms: WindowMs
    """At most what was asked for. The writer's window begins when it sends this, by its own clock, and so ends later."""
    snapshot_id: Long | None = None
    """The table's head as the writer knows it. Where the catalog has another one, the window is closed at once."""


class WindowClosed(Value):
    """A window is over before its time: the daemon needs it no more, or the writer takes it back."""

    table_uuid: Name
    table: Name
    window_id: Name
    by: Literal["daemon", "writer"]
    at_ms: TimeMs
    writer: Writer = ""
    """Who takes it back."""
    why: Annotated[str, Field(max_length=1000)] = ""


Window = WindowRequested | WindowGranted | WindowClosed

Event = CommitEvent | Intent | Window
"""What is on the control topic."""

_TYPES: Mapping[str, type[Event]] = {
    COMMIT_TYPE: CommitEvent,
    INTENT_TYPE: Intent,
    WINDOW_REQUESTED_TYPE: WindowRequested,
    WINDOW_GRANTED_TYPE: WindowGranted,
    WINDOW_CLOSED_TYPE: WindowClosed,
}


def encode(event: Event) -> tuple[bytes, bytes, dict[str, bytes]]:
    """The event as a Kafka message: key, value and headers."""
    at_ms = event.timestamp_ms if isinstance(event, CommitEvent) else event.at_ms
    match event:
        case CommitEvent():
            kind, event_id = COMMIT_TYPE, f"{event.table_uuid}/{event.snapshot_id}"
            source = event.announced_by or event.writer
        case Intent():
            kind, source = INTENT_TYPE, event.writer
            event_id = f"{event.intent_id}/{event.state}/{event.at_ms}"
        case WindowRequested():
            kind, source, event_id = WINDOW_REQUESTED_TYPE, event.asked_by, f"{event.window_id}/requested"
        case WindowGranted():
            kind, source = WINDOW_GRANTED_TYPE, event.writer
            event_id = f"{event.window_id}/granted/{event.writer}"
        case WindowClosed():
            kind, source = WINDOW_CLOSED_TYPE, event.writer or event.by
            event_id = f"{event.window_id}/closed/{source}"
    envelope = {
        "specversion": "1.0",
        "id": event_id,
        "source": f"/isotherm/{source or 'unknown'}",
        "type": kind,
        "subject": event.table,
        "time": datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        "datacontenttype": "application/json",
        "data": event.model_dump(mode="json", exclude_defaults=True),
    }
    value = json.dumps(envelope, separators=(",", ":"), sort_keys=True).encode()
    return event.table_uuid.encode(), value, {"content-type": CONTENT_TYPE.encode()}


def shortened(event: CommitEvent, max_bytes: int = MAX_ANNOUNCEMENT_BYTES) -> CommitEvent:
    """The event in a message of at most so many bytes, if that can be: with fewer partitions and manifests.

    A list that was cut is flagged as not complete: readers find the rest in the snapshot itself. Where that is not
    enough, the largest entries of the summary go.
    """
    while len(encode(event)[1]) > max_bytes and (event.partitions or event.added_manifests or event.summary):
        if not event.partitions and not event.added_manifests:
            by_size = sorted(event.summary.items(), key=lambda item: len(item[0]) + len(item[1]))
            event = event.model_copy(update={"summary": dict(by_size[: len(by_size) // 2])})
            continue
        partitions = event.partitions[: len(event.partitions) // 2]
        manifests = event.added_manifests[: len(event.added_manifests) // 2]
        event = event.model_copy(
            update={
                "partitions": partitions,
                "partitions_complete": event.partitions_complete and len(partitions) == len(event.partitions),
                "added_manifests": manifests,
                "added_manifests_complete": event.added_manifests_complete
                and len(manifests) == len(event.added_manifests),
            }
        )
    return event


@contextmanager
def checked() -> Iterator[None]:
    """Turn what a model says of an event that is made inside into an EventError, in words for a person."""
    try:
        yield
    except ValidationError as err:
        raise EventError(complaint(err)) from err


def complaint(err: ValidationError) -> str:
    """What a model says is wrong, in words for a person."""
    first = err.errors()[0]
    place = ".".join(str(step) for step in first["loc"])
    said = first["input"]
    if place == "timestamp_ms" and isinstance(said, int) and said >= END_MS:
        return f"timestamp_ms is {said}, no time in milliseconds before the year 10000; its writer may count microseconds"
    return f"{place}: {first['msg']}"


def decode(value: bytes | None) -> Event | None:
    """The event in a Kafka message; None where the message is a CloudEvent of a type that is not ours.

    Raises:
        EventError: the message is not an event that we can read.
    """
    if not value:
        raise EventError("empty message")
    if len(value) > MAX_EVENT_BYTES:
        raise EventError(f"message of {len(value)} bytes, more than {MAX_EVENT_BYTES}")
    try:
        envelope = json.loads(value)
    except (ValueError, RecursionError) as err:
        raise EventError(f"not JSON: {err}") from err
    if not isinstance(envelope, dict) or envelope.get("specversion") != "1.0":
        raise EventError("not a CloudEvent 1.0 in structured JSON")
    kind = envelope.get("type")
    model = _TYPES.get(kind) if isinstance(kind, str) else None
    if model is None:
        return None
    try:
        return model.model_validate_json(json.dumps(envelope.get("data")))
    except RecursionError as err:
        raise EventError("nested too deeply") from err
    except ValidationError as err:
        raise EventError(f"data.{complaint(err)}") from err
