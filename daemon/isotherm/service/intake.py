"""What is announced becomes part of the state: messages of the control topic, a batch at a time.

An event that follows the state's head is applied from the manifests that it names, without asking the catalog; that
may make a partition hot. Every other one only says where to look: the table becomes a suspect, and the next round asks
the catalog. Events, intents and words count one by one, in the order of the topic; what they touch is written once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

from isotherm.contract.events import CommitEvent, EventError, Intent, OpenWindow, decode
from isotherm.contract.identity import PartitionKey
from isotherm.contract.summary import Origin
from isotherm.core.model.changes import Change
from isotherm.core.model.writers import Word
from isotherm.core.observations import EventSeen, StateDrifted
from isotherm.core.state import StateError
from isotherm.service.batch import Batch
from isotherm.service.dead_letters import SetAside
from isotherm.service.follow import Follower, gap_text
from isotherm.service.ports import Catalog, Listener, LoadedTable, Message
from isotherm.store.fold import JOURNAL_LENGTH, Fold, TableRow
from isotherm.store.ledger import Ledger

ANNOUNCER = "isotherm"
"""By this name the daemon announces: its own commits, what it found, and (with the writer's name) what it relays."""


@dataclass(frozen=True, slots=True)
class Touched:
    """Partitions that somebody else writes, or means to write; None: any of the table."""

    uuid: str
    partitions: frozenset[PartitionKey] | None


@dataclass(frozen=True, slots=True)
class AppliedEvent:
    """A commit event that became part of the state."""

    event: CommitEvent
    partitions: int
    received_at_ms: int
    seconds: float


@dataclass(slots=True)
class Taken:
    """What came of some messages."""

    applied: list[AppliedEvent] = field(default_factory=list)
    touched: list[Touched] = field(default_factory=list)
    rows: dict[str, TableRow] = field(default_factory=dict)
    """The tables that were looked at, as they are now."""

    def __iadd__(self, more: "Taken") -> Self:
        self.applied += more.applied
        self.touched += more.touched
        self.rows |= more.rows
        return self


@dataclass(slots=True)
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

    def take(self, messages: Sequence[Message]) -> Taken:
        """Take messages in, all of them or none; what came of them is told when it is saved."""
        taken = Taken()
        batch = Batch(self.fold, self.ledger)
        events: list[CommitEvent | Intent | None] = []
        rejected: list[tuple[Message, str]] = []
        for message in messages:
            try:
                events.append(_keyed(decode(message.value), message.key))
            except EventError as err:
                rejected.append((message, str(err)))
        with self.fold.transaction(), self.ledger.transaction():
            self._read(events, batch)
            for event in events:
                self._take(event, batch, taken)
            batch.write()
        taken.rows = batch.rows()
        for observation in batch.told:
            self.listen(observation)
        for message, why in rejected:
            self.set_aside(message, why)
        return taken

    def _read(self, events: Sequence[CommitEvent | Intent | None], batch: Batch) -> None:
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
        changes = self.catalog.changes_of(asked)
        for (_, event), change in zip(asked, changes, strict=True):
            batch.read[id(event)] = change

    def _take(self, event: CommitEvent | Intent | None, batch: Batch, taken: Taken) -> None:
        match event:
            case None:
                batch.told.append(EventSeen("other_type", ""))
            case Intent():
                batch.told.append(EventSeen("intent", event.table))
                self._take_intent(event, taken)
            case CommitEvent():
                outcome = self._take_commit(event, batch, taken)
                if outcome:
                    batch.told.append(EventSeen(outcome, event.table))

    def _take_intent(self, intent: Intent, taken: Taken) -> None:
        expires_at_ms = min(intent.expires_at_ms, self.now_ms() + self.intent_timeout_ms)
        self.fold.save_intent(intent.model_copy(update={"expires_at_ms": expires_at_ms}))
        self.fold.note_intent(intent.table_uuid, intent.writer)
        keys = None if intent.partitions is None else [PartitionKey(key) for key in intent.partitions]
        self.fold.touch(intent.table_uuid, keys)
        if intent.state != "closed":
            taken.touched.append(Touched(intent.table_uuid, None if keys is None else frozenset(keys)))

    def _take_commit(self, event: CommitEvent, batch: Batch, taken: Taken) -> str:
        """Take a commit event in; gives what it was where it did not become part of the state."""
        started_s, received_at_ms = self.monotonic_s(), self.now_ms()
        if event.ref != "main":
            self.follower.suspects.add(event.table)
            return "other_ref"
        row = batch.row(event.table_uuid)
        if row is None:
            # The catalog decides whether there is such a table; what the event says of it is not believed.
            self.follower.suspects.add(event.table)
            return "deferred"
        self._hear(event, received_at_ms, batch)
        if batch.is_known(event.table_uuid, event.snapshot_id):
            self.ledger.announced(event.table_uuid, event.snapshot_id)
            if event.sequence_number > row.state.sequence_number:
                # The ledger was saved and the fold was not: a crash in between. The catalog has the rest.
                self.follower.suspects.add(row.state.table.name)
            return "duplicate"
        change = self._change_of(event, row, batch)
        if change is None:
            self.follower.suspects.add(row.state.table.name)
            if event.origin_kind is not Origin.MAINTENANCE:
                keys = frozenset(change.key for change in event.partitions)
                taken.touched.append(Touched(event.table_uuid, keys if event.partitions_complete else None))
            return "deferred"
        try:
            applied = batch.apply(row, change, received_at_ms, announced=True)
        except StateError as err:
            self._drifted(row, event.snapshot_id, str(err), batch)
            return ""
        if applied.drifted:
            self._drifted(row, event.snapshot_id, gap_text(applied.state), batch)
        if change.is_foreign_write:
            taken.touched.append(Touched(event.table_uuid, frozenset(change.partitions)))
        seconds = self.monotonic_s() - started_s
        taken.applied.append(AppliedEvent(event, len(change.partitions), received_at_ms, seconds))
        return ""

    def _drifted(self, row: TableRow, snapshot_id: int, what: str, batch: Batch) -> None:
        batch.told.append(StateDrifted(row.state.table, snapshot_id, what))
        self.follower.rebuild_later(row.state.table)
        batch.distrust(row.state.table.uuid)

    def _change_of(self, event: CommitEvent, row: TableRow, batch: Batch) -> Change | None:
        """The event's change, where it follows the head and names all that it added."""
        if event.parent_id != row.state.head:
            return None
        # Tables of version 1 have no sequence numbers: theirs are 0.
        if row.state.head is not None and 0 < event.sequence_number <= row.state.sequence_number:
            return None
        if row.state.on_faith >= JOURNAL_LENGTH:
            # What the journal does not hold any more could not be held against the catalog.
            return None
        return batch.read.get(id(event))

    def _hear(self, event: CommitEvent, received_at_ms: int, batch: Batch) -> None:
        """Note that somebody speaks of the table; what this daemon found by itself and announced does not count."""
        if event.announced_by != ANNOUNCER or (event.writer and event.origin_kind is not Origin.MAINTENANCE):
            batch.heard(event.table_uuid, received_at_ms, self._word(event, received_at_ms))

    def _word(self, event: CommitEvent, received_at_ms: int) -> Word | None:
        """What the event says of its writer's next commits; None where it says nothing, or is ours."""
        if not event.writer or event.origin_kind is Origin.MAINTENANCE:
            return None
        window = event.open_window or OpenWindow()
        announces = self.fold.announces(event.table_uuid, event.writer)
        if window.partitions:
            self.fold.touch(event.table_uuid, [PartitionKey(key) for key in window.partitions])
        return Word(event.writer, received_at_ms, window, announces)


def _keyed(event: CommitEvent | Intent | None, key: bytes | None) -> CommitEvent | Intent | None:
    """The event, where it stands under its table's key: another key leads it to another daemon.

    Raises:
        EventError: it has another key, or none.
    """
    if event is not None and key != event.table_uuid.encode():
        raise EventError("its key is not the uuid of its table")
    return event
