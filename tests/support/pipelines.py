"""A driver of ingest with everything around it in memory: tables, a broker, the outbox, dead letters, the time."""

from dataclasses import dataclass, field, replace

from isotherm.contract.events import decode
from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.batches.driver import Driver
from isotherm_ingest.batches.windows import Windows
from isotherm_ingest.failures import TableRefused
from isotherm_ingest.kafka import BrokerError
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.plan.resume_or_halt import Found, Place
from isotherm_ingest.plan.truncates import Emptied, Origin, emptied
from isotherm_ingest.streams import StreamsConfig
from isotherm_ingest.tables.definition import missing_properties
from isotherm_ingest.tables.looking import judged
from isotherm_ingest.tables.offset_vector import Source, Token, merge, newest, positions_of, vector_of
from isotherm_ingest.tables.portion import Halted, Ready, wanted_from
from isotherm_ingest.tables.tools import Tools
from isotherm_ingest.tables.writer import Written
from support.messages import Broker, Marks, Message, Session
from support.spark_errors import HEAP

ORDERS, CUSTOMERS = "shop.public.orders", "shop.public.customers"
CONFIG = """
pipeline: shop
catalog: {name: lake}
kafka: {properties: {bootstrap.servers: unused}}
batch_messages: 4
every: 1m
streams: [{topics: "shop\\\\.public\\\\..*", table: "shop.{table}"}]
"""


@dataclass
class Table:
    """A table in the catalog; `has` is what it has of each Kafka partition, by its own word, and `rows` what was written."""

    uuid: str
    has: dict = field(default_factory=dict)
    rows: list = field(default_factory=list)
    ids: dict = field(default_factory=dict)
    cuts: dict = field(default_factory=dict)
    is_cut: bool = False
    """Whether snapshots of it have expired."""
    properties: dict = field(default_factory=dict)
    batches: list = field(default_factory=list)
    """Of each write, what was written; also where the table's rows went back since."""
    modes: list = field(default_factory=list)
    """Of each write, the mode of the stream whose settings it was written by."""

    def token(self, _):
        return Token(self.source) if self.has else None

    @property
    def head(self):
        """The number of the last write."""
        return len(self.batches) or None

    @property
    def source(self):
        return Source(vector_of(self.has), "", self.ids, self.cuts)

    def says(self, source):
        """One token more, as `find_token` merges it with those before it."""
        now = newest([source, self.source])
        self.has, self.ids, self.cuts = positions_of(now.vector), dict(now.topic_ids), dict(now.cuts)

    def found(self):
        return Found(self.uuid, dict(self.has) or None, self.ids, self.is_cut, dict(self.cuts))


class Lake:
    """The tables that are there."""

    def __init__(self):
        self.tables, self.away, self.made, self.forgotten = {}, False, 0, []
        self.asked = 0
        self.announced = {}
        """By name, the table whose snapshots were announced last: Kafka keeps it."""
        self.rooms = {}
        """By table, how many rows at once Spark's JVM can hold for it."""
        self.no_room = HEAP
        """What Spark says of more."""
        self.unreadable = set()
        """Tables whose metadata cannot be read."""

    def ask(self):
        self.asked += 1
        if self.away:
            raise OSError("the catalog is away")

    def load(self, name):
        self.ask()
        if name in self.unreadable:
            raise OSError(f"the metadata of {name} cannot be read")
        return self.tables.get(name)

    def newest(self, name, _says_enough):
        return self.load(name)

    def names(self, _namespaces):
        self.ask()
        return sorted(self.tables)

    def make(self, name):
        self.made += 1
        self.tables[name] = Table(f"{self.made:08}-of-a-table")
        return self.tables[name]


@dataclass
class Look:
    """A table that is to be written, as it was found."""

    place: Place
    emptied: Emptied = field(default_factory=Emptied)


@dataclass
class Writer:
    """Writes as the real one does, into a table in memory."""

    name: str
    stream: object
    lake: Lake
    kafka: list
    errors: dict
    dead_letters: object
    ask: object

    def prepare(self, portion):
        if isinstance(self.errors.get(self.name), TableRefused):
            raise self.errors[self.name]
        table = self.lake.load(self.name)
        found = Found() if table is None else table.found()
        at = judged(found, portion, self.stream.on_hole, self.ask)
        if at.halted:
            raise Halted(self.name, at)
        if wanted_from(at, portion) is None:
            return at
        table = table or self.lake.make(self.name)
        key = ("id",) if self.stream.mode == "mirror" else ()
        had = {topic for topic, _ in at.vector}
        table.properties |= missing_properties(
            self.name, self.stream, key, table.properties, portion.groups, had
        )
        # Groups of the topic are of the table that it is named for.
        sources = {group.topic: {("public", group.schema.source_table)} for group in portion.groups}
        found = emptied(portion.truncates, at.next, Origin(at.vector, sources, doubt=""))
        if self.stream.mode == "changelog":
            assert not portion.truncates.newest
        return Ready(portion, Look(replace(at, uuid=table.uuid), found), found)

    def forget(self, ready, done):
        self.lake.forgotten.append((ready, done))

    def write(self, ready, done):
        if self.name in self.errors:
            raise self.errors[self.name]
        portion, at, table = ready.portion, ready.look.place, self.lake.load(self.name)
        self.dead_letters.send(done.letters())
        schemas = {(group.topic, group.number) for group in portion.groups}
        mine = [
            one
            for one in self.kafka
            if (one.topic, one.schema) in schemas
            and one.is_readable
            and (span := portion.ranges.get((one.topic, one.partition)))
            and max(span[0], at.next[one.topic, one.partition]) <= one.offset < span[1]
        ]
        assert len(mine) <= done.survey.rows + done.letter_count
        below = ready.look.emptied.below
        if below:  # all that it has, and what stands before it
            mine = [one for one in mine if one.offset >= below.get((one.topic, one.partition), 0)]
            table.rows.clear()
        if len(mine) > self.lake.rooms.get(self.name, len(mine)):
            raise RuntimeError(self.lake.no_room)
        rows = [(one.topic, one.partition, one.offset) for one in mine if not one.is_truncate]
        table.rows += rows
        vector = vector_of(at.vector)
        if mine:
            table.batches.append(rows)
            table.modes.append(self.stream.mode)
            ends = {position: end for position, (_, end) in portion.ranges.items()}
            vector = merge(vector, vector_of(ends))
            table.says(Source(vector, "", {**table.ids, **portion.kafka.ids}, at.cuts))
        return Written(len(mine), replace(at, uuid=table.uuid, vector=positions_of(vector)))


class Outbox:
    """Told of each commit."""

    def __init__(self, lake):
        self._lake, self.woken, self.noticed = lake, [], set()

    @property
    def names(self):
        return frozenset(self._lake.tables)

    def wake(self, name, _now):
        self.woken.append(name)
        self._lake.announced[name] = self._lake.tables[name].uuid

    def announced(self, name):
        return self._lake.announced.get(name)

    def changed(self):
        taken, self.noticed = frozenset(self.noticed), set()
        return taken


class DeadLetters:
    """Keeps what is sent there."""

    def __init__(self):
        self.sent, self.is_full = [], False

    def send(self, messages):
        if self.is_full:
            raise RuntimeError("the topic takes no more")
        rows = [row for some in messages for row in some.to_pylist()]
        self.sent += [Message(row["topic"], row["offset"], row["partition"]) for row in rows]
        return len(rows)


class Tail:
    """What was said on the control topic since the last look."""

    def __init__(self):
        self.waiting, self.sent, self.is_away = [], [], False

    def read(self):
        found, self.waiting = self.waiting, []
        return found

    def close(self):
        self.waiting.clear()

    def send(self, records):
        if self.is_away:
            raise BrokerError("away")
        self.sent += [decode(one.value) for one in records]


class Pipeline:
    """A driver with everything around it in memory, and a minute that can be waited for."""

    def __init__(self, config=CONFIG):
        self.config = parse_yaml(config, "streams.yaml", StreamsConfig)
        self.session = Session()
        self.broker, self.lake, self.errors = Broker(self.session), Lake(), {}
        self.dead_letters, self.store, self.now_s = DeadLetters(), {}, 0.0
        self.start()

    def start(self, config=None):
        """A driver that begins, and knows nothing but what is written down."""
        if config is not None:
            self.config = parse_yaml(config, "streams.yaml", StreamsConfig)
        self.metrics, self.outbox = Metrics(), Outbox(self.lake)
        self.marks = marks = Marks(self.store)
        self.control = Tail()
        windows = Windows(
            self.control,
            self.control,
            self.lake,
            self.metrics,
            topic="control",
            pipeline="shop",
            longest_s=60,
            monotonic_s=lambda: self.now_s,
        )
        self.driver = Driver(
            self.config,
            self.session,
            self.broker,
            marks,
            Tools(self.lake, None, self.dead_letters, self.metrics, "shop", self.broker.now),
            self.outbox,
            lambda name, stream, _, tools: Writer(
                name, stream, self.lake, self.session.kafka, self.errors, tools.dead_letters, tools.ask
            ),
            self.session.read,
            windows,
        )
        self.driver.begin(self.now_s)

    def send(self, *messages):
        self.session.kafka += messages

    def turn(self):
        return self.driver.turn(self.now_s)

    def minute(self):
        """A minute later, everything that can be done is done."""
        self.now_s += 60
        for _ in range(500):
            if not self.turn():
                return
        raise AssertionError("it turns for ever")

    def recovers(self):
        """Nothing fails any more, and what was left out is tried again until all is done."""
        self.errors.clear()
        for _ in range(4):
            self.now_s += 100
            self.minute()

    def rows(self, table):
        return sorted(offset for *_, offset in self.lake.tables[f"shop.{table}"].rows)

    def sample(self, name, **labels):
        return self.metrics.registry.get_sample_value(f"isotherm_ingest_{name}", labels)

    def is_left_out(self, table):
        return self.sample("table_quarantined", table=f"shop.{table}") == 1


def messages(topic, *offsets, **more):
    return [Message(topic, offset, **more) for offset in offsets]
