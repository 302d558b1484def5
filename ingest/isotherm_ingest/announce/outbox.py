"""The outbox: every snapshot of every table of the pipeline is announced, in order, whoever made it.

A thread of the driver: woken after each commit, and by itself every few seconds for commits of others, or rarer, where
there are so many tables that looking at them takes long. It walks each table's history back to what was last
announced (`pending`), sends, waits for the acknowledgements, and only then writes the watermark to a small compacted
topic, from which it goes on after any crash. So an event may come twice, never not at all. A broker that is away
stops nothing but the announcing, which catches up.
"""

import json
import math
import threading
from collections.abc import Mapping
from operator import itemgetter

from isotherm.contract.events import encode
from isotherm.contract.summary import property_name
from isotherm.runtime import clock, logs
from isotherm_ingest.announce.events import event_of
from isotherm_ingest.announce.pending import Break, Link, Watermark, pending
from isotherm_ingest.announce.watermarks import recalled
from isotherm_ingest.failures import brief
from isotherm_ingest.kafka import Broker, Record
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.tables.lake import PIPELINE_PROPERTY, Lake, TableNow, link_of
from isotherm_ingest.threads import context, whereabouts

REST = 20
"""Times as long as looking at all tables took, until they are looked at again: a twentieth of a core, however many."""
LAST_LOOK_S = 5.0
"""For commits of others, when ingest ends. The next driver announces what is left: to look at a thousand tables takes
longer than a supervisor waits for the end."""
ENDS_WITHIN_S = 60.0
"""Then its end is no longer waited for: a call that never comes back would keep the driver from its own."""
EVENTS_AT_ONCE = 200
"""Events sent before the watermark moves; a crash sends at most these again."""


class Outbox:
    """Announces what happened to the tables of one pipeline."""

    def __init__(
        self,
        lake: Lake,
        broker: Broker,
        pipeline: str,
        control_topic: str,
        announced_topic: str,
        metrics: Metrics,
        every_s: float,
        last_look_s: float = LAST_LOOK_S,
        ends_within_s: float = ENDS_WITHIN_S,
        *,
        grants: bool = False,
    ) -> None:
        """Nothing is read or sent before `begin`."""
        self.turned_s = math.inf
        """When it last had an answer for a table, or will look again, by its own clock; never before `begin`."""
        self._last_look_s, self._ends_within_s = last_look_s, ends_within_s
        self._lake, self._grants = lake, grants
        self._broker = broker
        self._pipeline = pipeline
        self._control_topic = control_topic
        self._announced_topic = announced_topic
        self._metrics = metrics
        self._every_s = every_s
        self._sweep_at_s = 0.0
        """When all tables are looked at next, by its own clock: our own commits never put it off."""
        self._sweep_begun_s: float | None = None
        self._sweep: list[str] = []
        """Of the sweep that has begun, the tables that are still to be looked at."""
        self._watermarks: dict[str, Watermark] = {}
        self._names: set[str] = set()
        self._uuids: dict[str, str | None] = {}
        """By name: which table was seen last; None where there was none."""
        self._announced: dict[str, str] = {}
        """By name: the table of which a snapshot was announced last, by this driver or one before it."""
        self._changed: set[str] = set()
        """Tables that were rolled back, dropped or made again, as far as it was seen and not taken yet."""
        self._due: dict[str, TableNow | None] = {}
        """Tables that we committed to; as the commit left them, where that is known."""
        self._lock = threading.Lock()
        self._announcing = threading.Lock()
        self._wake = threading.Event()
        self._done = threading.Event()
        self._context = context()
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)

    def begin(self, namespaces: frozenset[str] | None) -> None:
        """Read what was last announced, find the pipeline's tables, and go on from there.

        Raises:
            BrokerError: the watermarks cannot be read.
        """
        self.recall(namespaces)
        self._thread.start()

    def recall(self, namespaces: frozenset[str] | None) -> None:
        """Read what was last announced, and find the pipeline's tables."""
        newest = self._broker.newest_by_key(self._announced_topic)
        for uuid, (name, watermark) in recalled(newest, self._announced_topic, self._pipeline).items():
            self._watermarks[uuid] = watermark
            self._announced[name] = uuid
        for name in self._lake.names(namespaces):
            try:
                table = self._lake.newest(name, lambda _: True)
            except Exception as err:  # noqa: BLE001 (one table that cannot be read holds up no other; the sweep tells of it)
                logs.get().warning("table_unreadable", table=name, error=brief(err))
                self._names.add(name)
                continue
            if table is not None and (
                table.properties.get(PIPELINE_PROPERTY) == self._pipeline
                or table.uuid in self._watermarks
                or property_name(self._pipeline) in table.properties
            ):
                self._names.add(name)

    def wake(self, name: str, now: TableNow | None = None) -> None:
        """Something was committed to this table, which is `now` as that left it; without it, it is loaded."""
        with self._lock:
            self._names.add(name)
            self._due[name] = now
        self._wake.set()

    @property
    def names(self) -> frozenset[str]:
        """The tables that are watched."""
        with self._lock:
            return frozenset(self._names)

    def announced(self, name: str) -> str | None:
        """The uuid of the table whose snapshots were announced last under a name, whether it is there or not."""
        return self._announced.get(name)

    def changed(self) -> frozenset[str]:
        """Take the names of tables that are not what they were: rolled back, dropped, or made again."""
        with self._lock:
            taken, self._changed = frozenset(self._changed), set()
        return taken

    def _notice(self, name: str) -> None:
        with self._lock:
            self._changed.add(name)

    def stop(self) -> None:
        """Announce what is left of our own commits, look for those of others for a while, and end.

        Where that does not come to an end, the next driver announces what is left.
        """
        self._done.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(self._ends_within_s)
        if self._thread.is_alive():
            logs.get().error(
                "outbox_hangs",
                for_s=round(self._ends_within_s),
                threads=whereabouts(),
                hint="the driver ends without it; the next one announces what is left",
            )

    def _run(self) -> None:
        self._context()
        while not self._done.is_set():
            if self._sweep_begun_s is None:
                now_s = clock.monotonic_s()
                self.turned_s = max(self.next_sweep_s, now_s)
                self._wake.wait(self.turned_s - now_s)
            self._wake.clear()
            self._announce_each(self.due(clock.monotonic_s()))
        with self._lock:
            ours, self._due = self._due, {}
        self._announce_each(ours)
        self._announce_each(
            dict.fromkeys(self.names - ours.keys()), until_s=clock.monotonic_s() + self._last_look_s
        )

    @property
    def next_sweep_s(self) -> float:
        """When all tables are looked at next, where no sweep goes on."""
        return self._sweep_at_s

    def due(self, now_s: float) -> dict[str, TableNow | None]:
        """Take the tables to look at now, those that we committed to as that left them, where it is known.

        While a sweep goes on, the next of all tables is among them, for commits of others.
        """
        with self._lock:
            due, self._due = self._due, {}
            if self._sweep_begun_s is not None and not self._sweep:
                took_s = now_s - self._sweep_begun_s
                self._sweep_at_s = max(self._sweep_begun_s + self._every_s, now_s + REST * took_s)
                self._sweep_begun_s = None
            if self._sweep_begun_s is None and now_s >= self._sweep_at_s:
                self._sweep_at_s = now_s + self._every_s
                self._sweep = sorted(self._names)
                self._sweep_begun_s = now_s if self._sweep else None
            if self._sweep:
                due.setdefault(self._sweep.pop(), None)
        return due

    def _announce_each(self, tables: Mapping[str, TableNow | None], until_s: float = float("inf")) -> None:
        for name, now in sorted(tables.items(), key=itemgetter(0)):
            self.turned_s = clock.monotonic_s()
            if self.turned_s >= until_s:
                return
            try:
                self.announce(name, now)
            except Exception as err:  # noqa: BLE001 (any failure of catalog, storage or broker: the next round tries again)
                logs.get().warning("announce_failed", table=name, error=brief(err))

    def announce(self, name: str, now: TableNow | None = None) -> int:
        """Announce what is new in a table, which is loaded if it is not given; gives the number of events.

        Raises:
            BrokerError: not acknowledged; the watermark stays where it was.
        """
        with self._announcing:
            table, links = now, None if now is None else self._since_last(now)
            if links is None:
                table = self._lake.newest(name, lambda now: self._since_last(now) is not None)
                links = None if table is None else self._since_last(table)
            if self._uuids.setdefault(name, found := None if table is None else table.uuid) != found:
                self._notice(name)
                self._uuids[name] = found
            if table is None:  # it may be renamed, or restored, and come back
                return 0
            last = self._watermarks.get(table.uuid)
            due = pending(table.links() if links is None else links, table.head, last)
            self._metrics.expect(name)
            self._metrics.unannounced.labels(name).set(len(due.links))
            if due.broken is not Break.NONE and last is not None:
                self._tell_break(table, due.broken, last, due.links[0])
                self._notice(name)
            for start in range(0, len(due.links), EVENTS_AT_ONCE):
                self._send(table, due.links[start : start + EVENTS_AT_ONCE])
                self._metrics.unannounced.labels(name).set(max(len(due.links) - start - EVENTS_AT_ONCE, 0))
            return len(due.links)

    def _since_last(self, now: TableNow) -> dict[int, Link] | None:
        """The snapshots back to what was last announced; None where that is not among them."""
        last = self._watermarks.get(now.uuid)
        found: dict[int, Link] = {}
        for one in now.ancestry() if last is not None else ():
            found[one.snapshot_id] = link_of(one)
            if last is not None and one.snapshot_id == last.snapshot_id:
                return found
        return None

    def _send(self, table: TableNow, links: tuple[Link, ...]) -> None:
        events = [
            event_of(
                table,
                table.snapshots[link.snapshot_id],
                self._lake.name,
                self._pipeline,
                grants=self._grants,
            )
            for link in links
        ]
        records = []
        for event in events:
            key, value, headers = encode(event)
            records.append(Record(self._control_topic, key, value, tuple(headers.items())))
        self._broker.send(records)
        self.turned_s = clock.monotonic_s()
        for event in events:
            self._metrics.announced.labels(table.name, event.origin).inc()
        last = links[-1]
        watermark = {
            "pipeline": self._pipeline,
            "table": table.name,
            "snapshot_id": last.snapshot_id,
            "sequence_number": last.sequence_number,
        }
        self._broker.send(
            [Record(self._announced_topic, table.uuid.encode(), json.dumps(watermark).encode())]
        )
        self._watermarks[table.uuid] = Watermark(last.snapshot_id, last.sequence_number)
        self._announced[table.name] = table.uuid

    def _tell_break(self, table: TableNow, broken: Break, last: Watermark, first: Link) -> None:
        self._metrics.breaks.labels(table.name, broken.value).inc()
        logs.get().warning(
            "history_gap" if broken is Break.GAP else "history_rollback",
            table=table.name,
            announced_snapshot_id=last.snapshot_id,
            announced_sequence_number=last.sequence_number,
            next_snapshot_id=first.snapshot_id,
            next_sequence_number=first.sequence_number,
        )
