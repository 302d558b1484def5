"""Two drivers of ingest over one store, in memory: whatever one asks or writes is a step, and others' steps come between.

Unlike `pipelines`, tables have snapshots, and a commit is refused where another one came since the table was read.
"""

import threading
from dataclasses import dataclass, field, replace

from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.batches.driver import Driver
from isotherm_ingest.batches.fan_out import Report
from isotherm_ingest.mark_text import decoded, encoded
from isotherm_ingest.marks import TakenOver
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.plan.resume_or_halt import Found, Place
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.plan.truncates import Emptied
from isotherm_ingest.streams import StreamsConfig
from isotherm_ingest.tables.definition import missing_properties
from isotherm_ingest.tables.looking import judged
from isotherm_ingest.tables.offset_vector import Source, encode, find_token, merge, positions_of, vector_of
from isotherm_ingest.tables.portion import Behind, Done, Halted, Ready, wanted_from
from isotherm_ingest.tables.tools import Tools
from isotherm_ingest.tables.writer import Written
from isotherm_ingest.workers.survey import Survey
from support.messages import Message, Session, envelope, key

TOPIC = "shop.public.all"
CONFIG = """
pipeline: shop
catalog: {name: lake}
kafka: {properties: {bootstrap.servers: unused}}
batch_messages: %d
tables_at_once: 1
every: 1m
streams: [{topics: "shop\\\\.public\\\\..*", table: "shop.{table}", on_hole: "%s", mode: changelog}]
"""


class Killed(BaseException):
    """A driver ends where it is."""


@dataclass
class Table:
    """A table, by what each of its snapshots says and has."""

    uuid: str
    properties: dict
    snapshots: list = field(default_factory=list)

    @property
    def rows(self):
        return [row for _, rows in self.snapshots for row in rows]

    def token(self, pipeline):
        said = [{"ingest.pipeline": pipeline, "ingest.source": text} for text, _ in reversed(self.snapshots)]
        return find_token(pipeline, said, None, {}, lambda number: number <= len(said))

    def found(self):
        token = self.token("shop")
        if token is None:
            return Found(self.uuid)
        now = token.source
        return Found(self.uuid, positions_of(now.vector), now.topic_ids, cuts=dict(now.cuts))


class World:
    """What outlives a driver: Kafka's messages with the marks, and the tables. `messages` are numbered by when they were sent."""

    def __init__(self, partitions):
        self.logs = {(TOPIC, number): [] for number in range(partitions)}
        self.tables, self.marks, self.owner, self.now_s, self.sent = {}, {}, None, 0.0, 0

    def send(self, position, schema):
        self.sent += 1
        log = self.logs[position]
        log.append(Message(TOPIC, len(log), position[1], schema, timestamp=self.sent))


@dataclass
class Snapshot:
    """A table as it was read."""

    table: Table | None
    at: int
    place: Place
    from_offsets: dict
    source: Source
    emptied: Emptied = field(default_factory=Emptied)


class Actor:
    """A driver in a thread of its own, which goes one step when it is told to. It is the broker, the lake and all else, too."""

    def __init__(self, world, config):
        self.world, self.config = world, parse_yaml(config, "streams.yaml", StreamsConfig)
        self._go, self._stands = threading.Event(), threading.Event()
        self.is_done = self.is_killed = self.is_idle = False
        self.error, self.turns, self._heads = None, 0, {}
        threading.Thread(target=self._run, daemon=True).start()

    def step(self):
        self._stands.clear()
        self._go.set()
        assert self._stands.wait(60)

    def kill(self):
        self.is_killed = True
        while not self.is_done:
            self.step()

    def _wait(self):
        """What comes next is a step."""
        if not self.is_killed:
            self._go.clear()
            self._stands.set()
            self._go.wait()
        if self.is_killed:
            raise Killed

    def _run(self):
        self._go.wait()
        try:
            self._drive()
        except (Killed, TakenOver):
            pass
        except BaseException as err:  # noqa: BLE001 (the test says it)
            self.error = err
        self.is_done = True
        self._stands.set()

    def _drive(self):
        tools = Tools(self, None, self, Metrics(), "shop", self.now)
        driver = Driver(self.config, Session(), self, self, tools, self, self._writer, self._read_messages)
        driver.begin(self.world.now_s)
        while True:
            self.is_idle = not driver.turn(self.world.now_s)
            self.turns += 1
            if self.is_idle:
                self._wait()

    # The broker

    def topics(self, _):
        return {TOPIC: [number for _, number in self.world.logs]}

    def partition_count(self, topic):
        return len(self.topics(None)[topic])

    def cluster_id(self):
        return "cluster"

    def compacted(self, _):
        return frozenset()

    def topic_ids(self, topics):
        return dict.fromkeys(topics, "id")

    def ends(self, topics):
        self._wait()
        return {one: len(log) for one, log in self.world.logs.items() if one[0] in topics}

    def starts(self, topics):
        return {one: 0 for one in self.world.logs if one[0] in topics}

    def now(self, topics):
        return Kafka(ends=self.ends(topics), ids=self.topic_ids(topics))

    def first_readable(self, *_):
        return None

    # The marks

    def take_over(self):
        self._wait()
        self.world.owner = self

    def read(self, positions):
        self._wait()
        return {one: self.world.marks[one] for one in positions if one in self.world.marks}

    def write(self, marks):
        if marks:
            self._wait()
            if self.world.owner is not self:
                raise TakenOver("fenced")
            self.world.marks |= {one: decoded(mark.through, encoded(mark)) for one, mark in marks.items()}
        yield marks

    # The lake, the outbox and the dead letters

    def ask(self):
        pass

    def newest(self, name, _):
        return self.world.tables.get(name)

    @property
    def names(self):
        return frozenset(self.world.tables)

    def wake(self, *_):
        pass

    def announced(self, _):
        return None

    def changed(self):
        """As the outbox, which sees the snapshots of whoever has written a table."""
        now = {name: len(table.snapshots) for name, table in self.world.tables.items()}
        was, self._heads = self._heads, now
        return frozenset(name for name, head in now.items() if head != was.get(name))

    def send(self, letters):
        return len(list(letters))

    # The workers

    def _read_messages(self, _spark, _kafka, ranges, task):
        self._wait()
        here = [one for place, span in ranges.items() for one in self.world.logs[place][slice(*span)]]
        if any(end > len(self.world.logs[place]) for place, (_, end) in ranges.items()):
            raise RuntimeError("the partition ends before")
        unknown = {one.schema for one in here if (TOPIC, one.schema) not in task.routes}
        mine = {name: [] for name in task.tables}
        for one in here:
            for name in task.routes.get((TOPIC, one.schema), ()):
                mine[name].append(one)
        return Report(
            tuple(
                ((TOPIC, one), envelope(f"of_{one}", ("id", "int64")), key("id")) for one in sorted(unknown)
            ),
            {name: Done(Survey(len(rows)), files=tuple(rows)) for name, rows in mine.items()},
            tuple,
            0,
            lambda: None,
        )

    def _writer(self, name, stream, _sessions, _tools):
        return Writer(name, stream, self)

    def look(self, name, portion, stream):
        """Where a table goes on, by one read of it."""
        self._wait()
        table = self.world.tables.get(name)
        found = Found() if table is None else table.found()
        read_at = 0 if table is None else len(table.snapshots)
        at = judged(found, portion, stream.on_hole, self.now)
        if at.halted:
            raise Halted(name, at)
        ends = vector_of({one: end for one, (_, end) in portion.ranges.items()})
        source = Source(merge(vector_of(at.vector), ends), "", portion.kafka.ids, at.cuts)
        return Snapshot(table, read_at, at, wanted_from(at, portion), source)


@dataclass
class Writer:
    """Writes as the real one does: what was read is committed only to the table that it was read for."""

    name: str
    stream: object
    actor: Actor

    def prepare(self, portion):
        look = self.actor.look(self.name, portion, self.stream)
        if look.from_offsets is None:
            return look.place
        if look.table is None:
            tables = self.actor.world.tables
            said = missing_properties(self.name, self.stream, (), {}, portion.groups, set())
            tables.setdefault(self.name, Table(f"{len(tables):08}-of-a-table", said))
            return self.prepare(portion)
        return Ready(portion, look, None)

    def forget(self, ready, done):
        pass

    def write(self, ready, done):
        look = ready.look
        self.actor._wait()  # noqa: SLF001 (the commit is a step)
        while done.files:
            table = look.table
            if len(table.snapshots) == look.at:
                rows = [
                    one
                    for one in done.files
                    if one.offset >= look.from_offsets.get((TOPIC, one.partition), 0)
                ]
                table.snapshots.append((encode(ready.look.source), rows))
                vector = positions_of(ready.look.source.vector)
                return Written(len(rows), replace(look.place, vector=vector))
            again = self.actor.look(self.name, ready.portion, self.stream)
            if again.from_offsets is None:
                return Written(0, again.place)
            if again.from_offsets != look.from_offsets:
                raise Behind(again.place)
            look = again
        return Written(0, look.place)
