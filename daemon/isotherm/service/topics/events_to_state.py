"""What is announced becomes part of the state: messages of the control topic, a batch at a time.

An event that follows the state's head is applied from the manifests that it names, without asking the catalog; that
may make a partition hot. Every other one only says where to look: the table becomes a suspect, and the next round asks
the catalog. Events, intents and words count one by one, in the order of the topic; what they touch is written once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from isotherm.contract.announcement import DAEMON
from isotherm.contract.events import (
    CommitEvent,
    Event,
    EventError,
    Intent,
    OpenWindow,
    Window,
    WindowClosed,
    WindowGranted,
    WindowRequested,
    decode,
)
from isotherm.contract.identity import PartitionKey, TableId
from isotherm.contract.summary import Origin
from isotherm.core.appends import is_append
from isotherm.core.model.changes import Change
from isotherm.core.model.writers import Word
from isotherm.core.observations import EventApplied, EventSeen, Heard
from isotherm.core.partition_state import StateError
from isotherm.core.state import Applied
from isotherm.service.ports import Catalog, Listener, LoadedTable, Message
from isotherm.service.tables.confirm_heads import Follower
from isotherm.service.tables.failing_tables import FATAL
from isotherm.service.tables.reading_time import EVENTS_FOR_S
from isotherm.service.topics.batch import Batch
from isotherm.service.topics.dead_letters import SetAside
from isotherm.service.topics.heard_early import HeardEarly
from isotherm.store.fold import BYTES_OF_PARTITION, JOURNAL_BYTES, JOURNAL_LENGTH, Fold, TableRow
from isotherm.store.ledger import Ledger

MAX_STRANGERS = 1_000
"""Names of unknown tables that events spoke of and that wait for a look. The catalog's list has all that there are."""
PIECE = 200
PIECE_BYTES = 1_000_000
"""Messages are taken in so many at a time: a second's work at most, even where each of them names all that it may."""


@dataclass(frozen=True, slots=True)
class Touched:
    """Partitions that somebody else writes, or means to write. They are None where it may be any of the table."""

    uuid: str
    partitions: frozenset[PartitionKey] | None
    is_append: bool = False
    """It only added data files, as far as is said: what is committed beside it is held against the table itself."""


@dataclass(slots=True)
class Taken:
    """What came of some messages."""

    applied: list[EventApplied] = field(default_factory=list)
    touched: list[Touched] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)

    def __iadd__(self, more: "Taken") -> Self:
        self.applied += more.applied
        self.touched += more.touched
        self.windows += more.windows
        return self


def in_pieces(messages: Sequence[Message]) -> Iterator[Sequence[Message]]:
    """The messages in their order, in pieces that are taken in one after another; a large one is a piece alone."""
    piece: list[Message] = []
    size = 0
    for message in messages:
        length = len(message.value or b"")
        if piece and (len(piece) >= PIECE or size + length > PIECE_BYTES):
            yield piece
            piece, size = [], 0
        piece.append(message)
        size += length
    if piece:
        yield piece


@dataclass(slots=True, kw_only=True)
class Intake:
    """Takes messages into the fold and the ledger."""

    fold: Fold
    ledger: Ledger
    catalog: Catalog
    follower: Follower
    set_aside: SetAside
    listen: Listener
    now_ms: Callable[[], int]
    monotonic_s: Callable[[], float]
    intent_timeout_ms: int
    early: HeardEarly = field(default_factory=HeardEarly)

    def take(self, messages: Sequence[Message]) -> Taken:
        """Take messages in, all of them or none; what came of them is told when it is saved."""
        taken = Taken()
        batch = Batch(self.fold, self.ledger)
        events: list[tuple[Event | None, int]] = []
        rejected: list[tuple[Message, str]] = []
        for message in messages:
            try:
                events.append((_keyed(decode(message.value), message.key), message.timestamp_ms))
            except EventError as err:
                rejected.append((message, str(err)))
        with self.fold.transaction(), self.ledger.transaction():
            self._read([event for event, _ in events], batch)
            for event, said_at_ms in events:
                self._take(event, said_at_ms, batch, taken)
            for uuid in batch.write():
                self._hold_all(uuid, batch)
        for observation in batch.told:
            self.listen(observation)
        for message, why in rejected:
            self.set_aside(message, why)
        return taken

    def take_or_set_aside(self, messages: Sequence[Message]) -> Taken:
        """Take messages in; one at which we fail is set aside, and its table is looked up in the catalog."""
        try:
            return self.take(messages)
        except FATAL:
            raise
        except Exception as err:  # noqa: BLE001 (a mistake of ours keeps no other message back)
            if len(messages) > 1:
                # One of them makes us fail: it is in the one half or in the other.
                half = len(messages) // 2
                taken = self.take_or_set_aside(messages[:half])
                taken += self.take_or_set_aside(messages[half:])
                return taken
            (message,) = messages
            name = self.fold.names().get((message.key or b"").decode(errors="replace"))
            if name is not None:
                self.follower.suspects.add(name)
            self.set_aside(message, f"it could not be taken in: {type(err).__name__}: {err}")
            return Taken()

    def _read(self, events: Sequence[Event | None], batch: Batch) -> None:
        """Read the manifests of those that follow a head, or one another, at the same time."""
        heads: dict[str, int | None] = {}
        asked: list[tuple[LoadedTable, CommitEvent]] = []
        for event in events:
            if not isinstance(event, CommitEvent) or event.ref != "main":
                continue
            uuid = event.table_uuid
            row, loaded = batch.row(uuid), self.follower.loaded(uuid)
            if row is not None and loaded is not None and event.parent_id == heads.get(uuid, row.state.head):
                heads[uuid] = event.snapshot_id
                asked.append((loaded, event))
        go_on = self.follower.reading_time.limited(EVENTS_FOR_S, "the manifests of some events")
        changes = self.catalog.changes_of(asked, go_on)
        for (_, event), change in zip(asked, changes, strict=True):
            batch.read[id(event)] = change

    def _take(self, event: Event | None, said_at_ms: int, batch: Batch, taken: Taken) -> None:
        match event:
            case None:
                batch.told.append(EventSeen(Heard.OTHER_TYPE, ""))
            case Intent():
                batch.told.append(EventSeen(Heard.INTENT, event.table))
                self._take_intent(event, batch, taken)
            case WindowRequested() | WindowGranted() | WindowClosed():
                batch.told.append(EventSeen(Heard.WINDOW, event.table))
                taken.windows.append(event)
            case CommitEvent():
                outcome = self._take_commit(event, said_at_ms, batch, taken)
                if outcome is not None:
                    batch.told.append(EventSeen(outcome, event.table))

    def _take_intent(self, intent: Intent, batch: Batch, taken: Taken) -> None:
        uuid, now_ms, keys = intent.table_uuid, self.now_ms(), _keys(intent)
        is_known = batch.row(uuid) is not None
        if is_known:
            self.fold.note_announcer(uuid, intent.writer, now_ms)
        if intent.state == "closed":
            closed = self.fold.close_intent(uuid, intent.intent_id)
            if closed is not None:
                self.fold.touch(uuid, _keys(closed))
            return
        is_held = self.fold.holds_all(uuid, now_ms)
        expires_at_ms = min(intent.expires_at_ms, now_ms + self.intent_timeout_ms)
        capped = intent.model_copy(update={"expires_at_ms": expires_at_ms})
        if not self.fold.open_intent(capped, now_ms, is_known=is_known):
            batch.told.append(EventSeen(Heard.CROWDED, intent.table))
            keys = None
        if not is_held:
            # Where all of the table is held already, one more intent changes no verdict.
            self.fold.touch(uuid, keys)
        taken.touched.append(Touched(uuid, None if keys is None else frozenset(keys)))

    def _hold_all(self, uuid: str, batch: Batch) -> None:
        """More writers spoke of a table than are kept: all of it is held, for as long as an intent lasts."""
        row, now_ms = batch.row(uuid), self.now_ms()
        name = uuid if row is None else row.state.table.name
        if not self.fold.holds_all(uuid, now_ms):
            self.fold.touch(uuid, None)
        self.fold.hold_all(uuid, name, now_ms, now_ms + self.intent_timeout_ms)
        batch.told.append(EventSeen(Heard.CROWDED, name))

    def _wonder(self, name: str, batch: Batch) -> None:
        """Have the catalog asked about a name that an event brought with an unknown uuid."""
        if self.fold.named(name):
            self.follower.suspects.add(name)
        elif len(self.follower.strangers) < MAX_STRANGERS:
            self.follower.strangers.add(name)
        else:
            batch.told.append(EventSeen(Heard.CROWDED, name))

    def _take_commit(self, event: CommitEvent, said_at_ms: int, batch: Batch, taken: Taken) -> Heard | None:
        """Take a commit event in; Returns what it was, or None where it became part of the state."""
        started_s, received_at_ms = self.monotonic_s(), self.now_ms()
        row = batch.row(event.table_uuid)
        if row is None:
            # The catalog decides whether there is such a table; what the event says of it is not believed.
            self._wonder(event.table, batch)
            return Heard.DEFERRED if event.ref == "main" else Heard.OTHER_REF
        if event.ref != "main":
            # By the name that the catalog uses: a writer may spell it in another case.
            self.follower.suspects.add(row.state.table.name)
            return Heard.OTHER_REF
        if self._heard_before(event, said_at_ms or received_at_ms, row, batch):
            self.ledger.announced(event.table_uuid, event.snapshot_id)
            if event.sequence_number > row.state.sequence_number:
                # The ledger was saved and the fold was not: a crash in between. The catalog has the rest.
                self.follower.suspects.add(row.state.table.name)
            return Heard.DUPLICATE
        change = self._change_of(event, row, batch)
        applied = None if change is None else self._on_faith(row, change, received_at_ms, batch)
        if change is None or applied is None:
            self.follower.suspects.add(row.state.table.name)
            self.early.note(row.state.table.uuid, event.snapshot_id)
            if event.origin_kind is not Origin.MAINTENANCE:
                keys = frozenset(change.key for change in event.partitions)
                named = keys if event.partitions_complete else None
                taken.touched.append(Touched(event.table_uuid, named, event.operation == "append"))
            return Heard.DEFERRED
        if change.is_foreign_write:
            touched = Touched(event.table_uuid, frozenset(change.partitions), is_append(change))
            taken.touched.append(touched)
        taken.applied.append(
            EventApplied(
                table=TableId(event.table_uuid, event.table),
                snapshot_id=event.snapshot_id,
                origin=event.origin,
                partitions=len(change.partitions),
                committed_at_ms=event.timestamp_ms,
                received_at_ms=received_at_ms,
                decided_at_ms=None,
                seconds=self.monotonic_s() - started_s,
            )
        )
        return None

    def _is_replayed(self, event: CommitEvent, row: TableRow, now_ms: int) -> bool:
        """Whether a rebalance or a restart hands a known event out again: it was said when it was written, not now."""
        if event.sequence_number > row.state.sequence_number:
            return False
        return not self.ledger.is_unannounced(event.table_uuid, event.snapshot_id, now_ms)

    def _heard_before(self, event: CommitEvent, said_at_ms: int, row: TableRow, batch: Batch) -> bool:
        """Note that its table and its writer were heard; whether its snapshot is accounted for already."""
        now_ms = self.now_ms()
        is_known = batch.is_known(event.table_uuid, event.snapshot_id)
        is_replayed = is_known and self._is_replayed(event, row, now_ms)
        heard_at_ms = min(now_ms, said_at_ms) if is_replayed else now_ms
        word = self._word(event, heard_at_ms)
        # What we announce because nobody else did is no event of the table's writer, unless a source named it.
        if event.announced_by != DAEMON or word is not None:
            batch.heard(event.table_uuid, heard_at_ms, word, now_ms)
        return is_known

    @staticmethod
    def _on_faith(row: TableRow, change: Change, received_at_ms: int, batch: Batch) -> Applied | None:
        """What an event's change makes of the state; None where it does not fit: then the catalog says what is true."""
        try:
            applied = batch.apply(row, change, received_at_ms, announced=True)
        except StateError:
            return None
        return None if applied.drifted else applied

    def _change_of(self, event: CommitEvent, row: TableRow, batch: Batch) -> Change | None:
        """The event's change, where it follows the head and names all that it added."""
        if event.parent_id != row.state.head:
            return None
        # Tables of version 1 have no sequence numbers: theirs are 0.
        if row.state.head is not None and 0 < event.sequence_number <= row.state.sequence_number:
            return None
        change = batch.read.get(id(event))
        if row.state.on_faith >= JOURNAL_LENGTH or (change is not None and _is_too_much(row, change)):
            # What the journal does not hold any more could not be held against the catalog.
            return None
        return change

    def _word(self, event: CommitEvent, heard_at_ms: int) -> Word | None:
        """What the event says of its writer's next commits; None where it says nothing, or is ours."""
        if not event.writer or event.origin_kind is Origin.MAINTENANCE:
            return None
        window = event.open_window or OpenWindow()
        announces = self.fold.announces(event.table_uuid, event.writer)
        if window.partitions:
            self.fold.touch(event.table_uuid, [PartitionKey(key) for key in window.partitions])
        return Word(event.writer, heard_at_ms, window, announces, event.grants)


def _is_too_much(row: TableRow, change: Change) -> bool:
    """Whether the changes that are believed without a look at the catalog would be too large, were all like this one."""
    believed_bytes = (row.state.on_faith + 1) * len(change.partitions) * BYTES_OF_PARTITION
    return believed_bytes > JOURNAL_BYTES


def _keys(intent: Intent) -> list[PartitionKey] | None:
    """The partitions that an intent names, or None where it may be any."""
    return None if intent.partitions is None else [PartitionKey(key) for key in intent.partitions]


def _keyed(event: Event | None, key: bytes | None) -> Event | None:
    """The event, where it stands under its table's key: another key leads it to another daemon.

    Raises:
        EventError: it has another key, or none.
    """
    if event is not None and key != event.table_uuid.encode():
        raise EventError("its key is not the uuid of its table")
    return event
