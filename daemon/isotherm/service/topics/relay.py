"""Publishes the announcements of other systems again as commit events on the control topic.

A source's event says only where to look. The relay asks the catalog for the table, and finds the snapshot in its
metadata and manifest list. What these say is published under the table's uuid. So it does not matter which daemon read
the source, and the rest of the daemon knows one kind of event. An event of a table or a snapshot that is not there is
counted and dropped. If it stood for a real commit, the looks at silent tables find that commit.

The relay keeps its own pace: a few tables in each turn of the loop. It asks for messages in each turn, also where it
wants none: the group takes the topics from a member that does not ask, and gives the same messages to the next one.

Each turn acknowledges what is done, up to the oldest message of each Kafka partition for which something is still owed. A
crash may publish some of it twice, which is harmless. If the catalog does not answer, all that waits stays open. One table
that cannot be read is put off, and then nothing is owed for it: the looks at silent tables come to it too.

A table that gives no answer costs the loop a time-out. So its announcements are let go at once, and it is set aside: rounds
ask for it, with growing pauses, and find what was committed. So are those of a table that was set aside for anything else.
Between two rounds the relay loses one share of time to such tables, and to those that come slowly, as a round does; others
of their namespaces, which may be as silent, stand behind all that are well.
"""

import traceback
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from isotherm.contract.announcement import DAEMON
from isotherm.contract.events import EventError
from isotherm.core.model.outside import Outside
from isotherm.core.observations import Heard, SourceHeard, TrySoon
from isotherm.service.ports import (
    Announced,
    Catalog,
    Decoder,
    EventSource,
    Listener,
    LoadedTable,
    Message,
    NotAsked,
    SourceTopics,
    StoreAway,
    TableMissing,
    TableSilent,
    TooLong,
    Unavailable,
    Unreadable,
)
from isotherm.service.tables.failing_tables import FATAL, Barrier
from isotherm.service.tables.lost_time import LostTime
from isotherm.service.topics.dead_letters import SetAside
from isotherm.service.topics.relay_progress import Place, Progress

TABLES_A_TURN = 10
"""Tables that are looked up in one turn, some 20 ms each: the control topic is read in between."""
TURN_BUDGET_S = 2.0
"""No further table is looked up, and no further snapshot announced, after so long: each look may wait half a minute for a
store that does not answer, and of one table a thousand snapshots may wait."""
MAX_WAITING = 1_000
"""Tables that may wait at most before no more is heard."""
MAX_OF_ONE = 1_000
"""Announcements of one table that may wait; it may be one that cannot be read for long."""
MAX_TRIES = 6
"""A table that could not be read so often, over some five minutes, is let go: the pauses between are each twice as long."""
RETRY_AFTER_S = 10.0
"""When the catalog or the control topic did not answer; of one table, after its first try."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The topics of other systems, and how each is read."""

    topics: SourceTopics
    decoders: Mapping[str, Decoder]
    """By topic."""


@dataclass(slots=True, kw_only=True)
class Relay:
    """Re-publishes what the sources announce."""

    sources: Sources
    events: EventSource
    catalog: Catalog
    catalog_name: str
    listen: Listener
    set_aside: SetAside
    barrier: Barrier
    ask_again: Callable[[str], None]
    """Has a round ask for a table."""
    monotonic_s: Callable[[], float]
    _waiting: dict[str, list[tuple[Place, Announced]]] = field(default_factory=dict)
    """By table, with the place that each came from."""
    _progress: Progress = field(default_factory=Progress)
    _not_before_s: float = float("-inf")
    _put_off: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Tables that could not be read: until when they are left alone, and how often they were tried."""
    _lost: LostTime = field(default_factory=LostTime)

    @property
    def is_busy(self) -> bool:
        """Whether there is more to do at once."""
        return self._may_ask() and bool(self._ready())

    def round_begins(self) -> None:
        """A planning round begins: time may be lost again."""
        self._lost.begin()

    def _may_ask(self) -> bool:
        return not self._lost.is_used_up and self.monotonic_s() >= self._not_before_s

    def _ready(self) -> list[str]:
        """Tables to look up now: what may cost no time-out first, and of that what was tried longest ago, or never."""
        now_s = self.monotonic_s()
        since = {name: self._put_off.get(name, (float("-inf"), 0))[0] for name in self._waiting}
        ready = (name for name in since if since[name] <= now_s)
        return sorted(ready, key=lambda name: (self.barrier.doubt(name), since[name]))

    def turn(self) -> None:
        """Announce what came, a few tables of it; one that cannot be read keeps none of the others waiting."""
        is_away = self.monotonic_s() < self._not_before_s
        self._hear(wanted=not is_away and self._has_room())
        self._leave_what_is_aside()
        if self._may_ask():
            self._announce_some()
        self.sources.topics.commit(self._progress.offsets())

    def _leave_what_is_aside(self) -> None:
        """Let go of tables that are set aside: a round looks at them when their pause is over, which may take an hour."""
        for name in [name for name in self._waiting if self.barrier.is_aside(name)]:
            self._let_go(name)

    def _has_room(self) -> bool:
        """Whether nothing waits but tables that were put off, or may cost a time-out, and not too many of those."""
        behind = (name in self._put_off or self.barrier.doubt(name) for name in self._waiting)
        return len(self._waiting) < MAX_WAITING and all(behind)

    def _announce_some(self) -> None:
        deadline_s = self.monotonic_s() + TURN_BUDGET_S
        for name in self._ready()[:TABLES_A_TURN]:
            began_s, came = self.monotonic_s(), False
            try:
                came = self._look_up(name, deadline_s)
            except FATAL:
                raise
            except Unavailable as err:
                self._pause(err)
                return
            except Exception as err:  # noqa: BLE001 (a mistake of ours at one table keeps no other waiting)
                trace = "".join(traceback.format_exception(err))
                self._try_later(name, f"{type(err).__name__}: {err}\n{trace}")
            now_s = self.monotonic_s()
            (self._lost.came if came else self._lost.add)(now_s - began_s)
            if now_s >= deadline_s or not self._may_ask():
                break

    def _look_up(self, name: str, deadline_s: float) -> bool:
        """Announce what was heard of a table, as much as there is time for. Returns whether it could be read.

        Raises:
            Unavailable: the catalog or the control topic is away.
        """
        try:
            loaded = self.catalog.load(name)
        except TableMissing:
            loaded = None
        except Unavailable as err:
            if not self._catalog_answers():
                raise
            if isinstance(err, StoreAway | TableSilent | TooLong):
                self._set_aside(name, err)
            else:
                self._try_later(name, str(err))
            return False
        try:
            self._announce(name, loaded, self._waiting[name], deadline_s)
        except Unreadable as err:
            if not self._catalog_answers():
                raise
            self._try_later(name, str(err))
            return False
        self.barrier.answered(name)
        if rest := self._waiting[name]:
            del self._waiting[name]
            self._waiting[name] = rest  # behind all others
        else:
            self._forget(name)
        return True

    def _pause(self, err: Unavailable) -> None:
        """The catalog or the control topic is away as a whole: everything waits, and nothing is let go."""
        self._not_before_s = self.monotonic_s() + RETRY_AFTER_S
        if not isinstance(err, NotAsked) and not isinstance(err.__cause__, NotAsked):
            self.listen(TrySoon("announcing what a source named", str(err), Outside.SOURCES))

    def _catalog_answers(self) -> bool:
        """Whether it is one table that cannot be read, and not the catalog."""
        try:
            self.catalog.ask()
        except Unavailable:
            return False
        return True

    def _try_later(self, name: str, why: str) -> None:
        """Put a table off; after many tries its announcements are let go.

        Nothing is owed for them from now on, because the poller looks at the table anyway. Else one such table after the
        other would keep the whole group from being acknowledged.
        """
        _, tries = self._put_off.get(name, (0.0, 0))
        self._put_off[name] = (self.monotonic_s() + RETRY_AFTER_S * 2**tries, tries + 1)
        self._progress.done(place for place, _ in self._waiting[name])
        self.listen(TrySoon(f"table {name}, which a source named", why, Outside.TABLE))
        if tries + 1 >= MAX_TRIES:
            self._let_go(name)

    def _set_aside(self, name: str, err: Unavailable) -> None:
        """A table for which the loop has waited in vain: whoever asks for it next would wait as long."""
        with self.barrier.around(name, "looking up what a source named"):
            raise err
        self._let_go(name)

    def _let_go(self, name: str) -> None:
        """Announce nothing of what was heard of a table. A round finds what it stood for."""
        places = [place for place, _ in self._waiting[name]]
        if name not in self._put_off:
            self._progress.done(places)
        for place in places:
            self.listen(SourceHeard(place.topic, Heard.UNREADABLE_TABLE, name))
        self._forget(name)
        self.ask_again(name)

    def _forget(self, name: str) -> None:
        del self._waiting[name]
        self._put_off.pop(name, None)

    def close(self) -> None:
        """Leave the sources; what was not announced yet is read again by whoever comes next."""
        self.sources.topics.close()

    def _hear(self, *, wanted: bool) -> None:
        """Take the next messages, and what comes where none are wanted."""
        messages = self.sources.topics.poll(0, wanted=wanted)
        places = [Place(message.topic, message.partition, message.offset) for message in messages]
        self._progress.heard(places)
        waits = {place for place, message in zip(places, messages, strict=True) if self._take(place, message)}
        self.set_aside.flush()
        self._progress.done(place for place in places if place not in waits)

    def _take(self, place: Place, message: Message) -> bool:
        """Take one message in. Returns whether something is owed for it."""
        try:
            announced = self.sources.decoders[message.topic](message.value)
        except Exception as err:  # noqa: BLE001 (a mistake of ours at one message loses no other)
            self.listen(SourceHeard(message.topic, Heard.REJECTED, ""))
            mistake = f"it could not be taken in: {type(err).__name__}: {err}"
            self.set_aside(message, str(err) if isinstance(err, EventError) else mistake)
            return False
        if announced is None:
            self.listen(SourceHeard(message.topic, Heard.OTHER_TYPE, ""))
            return False
        heard = self._waiting.setdefault(announced.table, [])
        if len(heard) >= MAX_OF_ONE:
            # The look at a silent table finds what is left out here.
            self.listen(SourceHeard(message.topic, Heard.CROWDED, announced.table))
            return False
        heard.append((place, announced))
        return announced.table not in self._put_off

    def _announce(
        self, name: str, loaded: LoadedTable | None, heard: list[tuple[Place, Announced]], deadline_s: float
    ) -> None:
        """Announce what was heard, and take it from the list; the rest stays there, after an error or the deadline.

        Raises:
            Unreadable: the files of one snapshot cannot be read, for whatever reason.
            Unavailable: the control topic does not answer.
        """
        done: set[int] = set()
        ancestors = frozenset(() if loaded is None else loaded.ancestors())
        while heard:
            place, announced = heard[0]
            outcome, snapshot_id = _looked_up(loaded, ancestors, announced)
            if loaded is not None and snapshot_id is not None and snapshot_id not in done:
                outcome = self._publish(loaded, snapshot_id, announced.writer)
                done.add(snapshot_id)
            self.listen(SourceHeard(place.topic, outcome, name))
            del heard[0]
            self._progress.done([place])
            if self.monotonic_s() >= deadline_s:
                return

    def _publish(self, loaded: LoadedTable, snapshot_id: int, writer: str) -> Heard:
        try:
            event = self.catalog.event(loaded, snapshot_id)
        except TableMissing:
            return Heard.UNKNOWN_SNAPSHOT  # its manifest list is gone: it has just expired
        except Unavailable as err:
            # The catalog was asked before: this is the table's store, which may refuse one bucket or one key.
            raise Unreadable(str(err)) from err
        named = {"catalog": self.catalog_name, "writer": writer, "announced_by": DAEMON}
        self.events.publish(event.model_copy(update=named))
        return Heard.ANNOUNCED


def _looked_up(
    loaded: LoadedTable | None, ancestors: Collection[int], announced: Announced
) -> tuple[Heard, int | None]:
    """What comes of an announcement, and the snapshot to publish, where there is one."""
    if loaded is None or announced.uuid not in (None, loaded.table.uuid):
        return Heard.UNKNOWN_TABLE, None
    snapshot_id = loaded.head if announced.snapshot_id is None else announced.snapshot_id
    if snapshot_id is None or snapshot_id not in loaded.snapshots:
        return Heard.UNKNOWN_SNAPSHOT, None
    if snapshot_id not in ancestors:
        return Heard.OTHER_REF, None
    return Heard.ANNOUNCED, snapshot_id
