"""What other systems announce, announced again as ours on the control topic.

A source's event says where to look, no more. The catalog is asked, the snapshot looked up, and what its metadata and
its manifest list say of it is published under the table's uuid: so the group's division of the tables holds whoever
read the source, and all the rest of the daemon knows one kind of event. What names a table or a snapshot that is not
there is counted and dropped; the looks at silent tables find what was meant, if anything was.

It keeps its own pace: a few tables in each turn of the loop. A batch is acknowledged when all of it has been
announced, so a crash announces some of it twice, which is harmless; a catalog that is away makes it wait.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from isotherm.contract.events import EventError
from isotherm.core.observations import Outside, SourceHeard, TrySoon
from isotherm.service.dead_letters import SetAside
from isotherm.service.ports import (
    Announced,
    Catalog,
    Decoder,
    EventSource,
    Listener,
    LoadedTable,
    NotAsked,
    SourceTopics,
    TableMissing,
    Unavailable,
    Unreadable,
)

TABLES_A_TURN = 10
"""Tables that are looked up in one turn, some 20 ms each: the control topic is read in between."""
MAX_WAITING = 1_000
"""Tables that may wait at most before no more is heard."""
MAX_OF_ONE = 1_000
"""Announcements of one table that may wait; it may be one that cannot be read for long."""
MAX_TRIES = 30
"""A table that could not be read so often, over some five minutes, is let go."""
RETRY_AFTER_S = 10.0
"""When the catalog or the control topic did not answer."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The topics of other systems, and how each is read."""

    topics: SourceTopics
    decoders: Mapping[str, Decoder]
    """By topic."""


@dataclass(slots=True)
class Relay:
    """Re-publishes what the sources announce."""

    sources: Sources
    events: EventSource
    catalog: Catalog
    catalog_name: str
    listen: Listener
    set_aside: SetAside
    monotonic_s: Callable[[], float]
    _waiting: dict[str, list[tuple[str, Announced]]] = field(default_factory=dict)
    """By table, with the topic that each came from."""
    _not_before_s: float = float("-inf")
    _put_off: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Tables that could not be read: until when they are left alone, and how often they were tried."""

    @property
    def is_busy(self) -> bool:
        """Whether there is more to do at once."""
        return bool(self._ready()) and self.monotonic_s() >= self._not_before_s

    def _ready(self) -> list[str]:
        now_s = self.monotonic_s()
        return [name for name in self._waiting if self._put_off.get(name, (now_s, 0))[0] <= now_s]

    def turn(self) -> None:
        """Announce what came, a few tables of it; one that cannot be read keeps none of the others waiting."""
        if self.monotonic_s() < self._not_before_s:
            return
        if not self._ready() and (len(self._waiting) >= MAX_WAITING or not self._hear()):
            return
        for name in self._ready()[:TABLES_A_TURN]:
            try:
                loaded = self.catalog.load(name)
            except TableMissing:
                loaded = None
            except Unavailable as err:
                if not self._catalog_answers():
                    self._pause(err)
                    return
                self._try_later(name, str(err))
                continue
            try:
                self._announce(name, loaded, self._waiting[name])
            except Unreadable as err:
                self._try_later(name, str(err))
                continue
            except Unavailable as err:
                self._pause(err)
                return
            self._forget(name)
        if not self._waiting:
            self.sources.topics.commit()

    def _pause(self, err: Unavailable) -> None:
        """The catalog or the control topic is away as a whole: everything waits, and nothing is let go."""
        self._not_before_s = self.monotonic_s() + RETRY_AFTER_S
        if not isinstance(err, NotAsked):
            self.listen(TrySoon("announcing what a source named", str(err), Outside.SOURCES))

    def _catalog_answers(self) -> bool:
        """Whether it is one table that cannot be read, and not the catalog."""
        try:
            self.catalog.ask()
        except Unavailable:
            return False
        return True

    def _try_later(self, name: str, why: str) -> None:
        """Put a table off; after many tries its announcements are let go, for the poller looks at it anyway."""
        _, tries = self._put_off.get(name, (0.0, 0))
        self._put_off[name] = (self.monotonic_s() + RETRY_AFTER_S, tries + 1)
        self.listen(TrySoon(f"table {name}, which a source named", why, Outside.TABLE))
        if tries + 1 >= MAX_TRIES:
            for topic, _ in self._waiting[name]:
                self.listen(SourceHeard(topic, "unreadable_table", name))
            self._forget(name)

    def _forget(self, name: str) -> None:
        del self._waiting[name]
        self._put_off.pop(name, None)

    def close(self) -> None:
        """Leave the sources; what was not announced yet is read again by whoever comes next."""
        self.sources.topics.close()

    def _hear(self) -> bool:
        """Take the next messages; whether there were any."""
        messages = self.sources.topics.poll(0)
        for message in messages:
            try:
                announced = self.sources.decoders[message.topic](message.value)
            except EventError as err:
                self.listen(SourceHeard(message.topic, "rejected", ""))
                self.set_aside(message, str(err))
                continue
            if announced is None:
                self.listen(SourceHeard(message.topic, "other_type", ""))
                continue
            heard = self._waiting.setdefault(announced.table, [])
            if len(heard) < MAX_OF_ONE:
                heard.append((message.topic, announced))
            else:
                # The look at a silent table finds what is left out here.
                self.listen(SourceHeard(message.topic, "crowded", announced.table))
        self.set_aside.flush()
        return bool(messages)

    def _announce(
        self, name: str, loaded: LoadedTable | None, heard: Sequence[tuple[str, Announced]]
    ) -> None:
        done: set[int] = set()
        for topic, announced in heard:
            outcome, snapshot_id = _looked_up(loaded, announced)
            if loaded is not None and snapshot_id is not None and snapshot_id not in done:
                outcome = self._publish(loaded, snapshot_id, announced.writer)
                done.add(snapshot_id)
            self.listen(SourceHeard(topic, outcome, name))

    def _publish(self, loaded: LoadedTable, snapshot_id: int, writer: str) -> str:
        try:
            event = self.catalog.event(loaded, snapshot_id)
        except TableMissing:
            return "unknown_snapshot"  # its manifest list is gone: it has just expired
        named = {"catalog": self.catalog_name, "writer": writer, "announced_by": "isotherm"}
        self.events.publish(event.model_copy(update=named))
        return "announced"


def _looked_up(loaded: LoadedTable | None, announced: Announced) -> tuple[str, int | None]:
    """What comes of an announcement, and the snapshot to publish, where there is one."""
    if loaded is None or announced.uuid not in (None, loaded.table.uuid):
        return "unknown_table", None
    snapshot_id = loaded.head if announced.snapshot_id is None else announced.snapshot_id
    if snapshot_id is None or snapshot_id not in loaded.snapshots:
        return "unknown_snapshot", None
    if snapshot_id not in loaded.ancestors():
        return "other_ref", None
    return "announced", snapshot_id
