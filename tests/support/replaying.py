"""A topic, its table and its dead letters in memory, with the real job of workers: what a replay needs, and no server.

Beside it stands an oracle, in plain Python: the table is a fold of the messages that were good, and of the letters that a
replay has settled, in the order in which they were sent.
"""

import random
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq

from isotherm.parquet.table_description import described
from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.batches.fan_out import Report, done_of, filled_of, truncates_of
from isotherm_ingest.batches.routing import Routing
from isotherm_ingest.decode.debezium_messages import CHANGELOG_COLUMNS, decoder
from isotherm_ingest.decode.statement import Wanted
from isotherm_ingest.plan.cut_backs import Cut
from isotherm_ingest.plan.resume_or_halt import Place
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.replay.choosing import Fate, Stand, choose
from isotherm_ingest.replay.letters import Letter
from isotherm_ingest.replay.looks import Looks
from isotherm_ingest.replay.outcome import Replayed
from isotherm_ingest.replay.settled import settled
from isotherm_ingest.replay.standing import Standing
from isotherm_ingest.replay.writing import Writing
from isotherm_ingest.streams import StreamsConfig
from isotherm_ingest.tables.offset_vector import REPLAYED
from isotherm_ingest.tables.portion import Behind, Portion, Ready, is_at, passed
from isotherm_ingest.workers.decoding import decode_stage
from isotherm_ingest.workers.files import arrow_of
from isotherm_ingest.workers.raw_messages import RAW
from isotherm_ingest.workers.tasks import (
    LETTERS,
    NO_TABLE,
    SAMPLE,
    WAITING,
    TableTask,
    as_arrow,
    lines_of,
    report,
    rows_of,
)
from isotherm_ingest.workers.writing import fill_stage, whole_stage, write_stage
from support.wire import ID, PLACEHOLDER, ZONED, key, message

TOPIC, TABLE = "shop.public.orders", "shop.orders"
FIELDS = [
    ID,
    {"field": "note", "type": "string"},
    {"field": "big", "type": "string"},
    {**ZONED, "field": "at"},
]
COLUMNS = ("pk", "id", "note", "big", "at")
GOOD, MENDED, HOPELESS = "2024-01-01T00:00:00Z", "infinity", "soon"
"""Of a message's time: a good one, one that is a dead letter until it may be null, and one that is no time at all."""
APART_MS = 100_000
"""Between two messages. Six of them are sent within what clocks may differ by."""
STREAMS = """
pipeline: p
catalog: {name: lake, properties: {type: sql, uri: "sqlite:///x"}}
kafka: {properties: {bootstrap.servers: nowhere}}
streams:
  - {topics: "shop.public.orders", table: shop.orders, mode: MODE, out_of_range: "null"}
"""


class CrashError(Exception):
    """The process dies here."""


@dataclass(frozen=True)
class Sent:
    """One message; its place among all is its note."""

    order: int
    partition: int
    offset: int
    id: int
    op: str
    big: str
    at: str
    was: int
    """The key of the row before this change."""

    @property
    def where(self):
        return TOPIC, self.partition, self.offset

    def value(self):
        row = {"pk": 1, "id": self.id, "note": str(self.order), "big": self.big, "at": self.at}
        images = (
            {"before": row, "after": None}
            if self.op == "d"
            else {"before": {**row, "id": self.was}, "after": row}
        )
        if self.op == "t":
            images = {}
        if self.op == "c":
            images = {"after": row}
        return message(FIELDS, op=self.op, **images)


class World:
    """All that there is."""

    def __init__(self, catalog, mode, dice=None):
        self.dice = dice or random.Random(0)
        self.mode, self.config = mode, parse_yaml(STREAMS.replace("MODE", mode), "s", StreamsConfig)
        self.stream = self.config.streams[0]
        self.metadata = catalog.load_table(f"shop.{mode}").metadata
        self.sent: list[Sent] = []
        self.ends, self.starts = {0: 0}, {0: 0}
        self.letters: list[Letter] = []
        self.rows: dict[int, tuple] = {}
        self.log: list[tuple[int, int]] = []
        self.summaries: list[dict[str, str]] = []
        self.vector: dict[tuple[str, int], int] = {}
        self.cuts: dict[tuple[str, int], tuple[Cut, ...]] = {}
        self.settled_later: set[tuple[str, int, int]] = set()
        self.crash, self.meanwhile = "", []
        self.files_left: set[str] = set()

    # What happens to a pipeline

    def send(self, number, op="u", big="", at=GOOD, reason="a", was=None):
        """A message, read by a driver at once: it is applied, or a dead letter."""
        partition = number % len(self.ends)
        before = number if was is None else was
        one = Sent(len(self.sent), partition, self.ends[partition], number, op, big, at, before)
        self.ends[partition] += 1
        self.sent.append(one)
        if op == "t" and at == GOOD:
            self.rows.clear()
            self.vector[TOPIC, partition] = self.ends[partition]
        elif op != "t" and (op == "d" or at == GOOD):
            self.apply(one)
            self.vector[TOPIC, partition] = self.ends[partition]
        else:
            if self.mode == "mirror" and op != "t":
                fold(self.rows, one, is_row=False)
            moment = one.order * APART_MS
            self.letters.append(Letter(one.where, moment, reason, moment))
        return one

    def apply(self, one):
        if self.mode == "changelog":
            self.log.append((one.partition, one.offset))
        else:
            fold(self.rows, one)

    def expire(self):
        """Snapshots go, and what they say of replays. The oracle has seen it."""
        self.settled_later |= settled(self.summaries)
        self.summaries.clear()

    # What a replay asks

    def kafka(self):
        return Kafka(
            {(TOPIC, one): start for one, start in self.starts.items()},
            {(TOPIC, one): end for one, end in self.ends.items()},
            cuts=self.cuts,
        )

    def standing(self):
        kafka = self.kafka()
        stand = Stand(self.mode == "mirror", dict(kafka.ends), kafka, settled(self.summaries))
        portion = Portion(0, (), {}, kafka, "")
        return Standing(TABLE, self.stream, None, frozenset({TOPIC}), stand, portion, {}, self.standing)

    def first_since(self, _topics, at_ms):
        found = {(TOPIC, one): -1 for one in self.ends}
        for one in reversed(self.sent):
            position = TOPIC, one.partition
            if one.order * APART_MS >= at_ms and one.offset >= self.starts[one.partition]:
                found[position] = one.offset
        return found

    def replay(self, takes=lambda _: True, at_once=5_000, check_alone=lambda _: None):
        """As `replay.replay`, without its servers."""
        standing, letters = self.standing(), tuple(self.letters)
        mine = {one.at: one for one in letters if takes(one)}
        choice = choose(mine.values(), standing.stand)
        found = Replayed(TABLE, self.mode == "mirror", mine, dict(choice.told), len(choice.tried))
        routing = Routing(self.config, None, lambda _, stream: stream)
        looks = Looks(TABLE, None, {}, routing, Writer(self), self.read, self)
        Writing(standing, looks, Writer(self), check_alone, self.first_since, at_once).write(
            choice, letters, found
        )
        assert found.told.keys() == found.letters.keys()
        self.settled_later |= {
            at for at, (fate, _) in found.told.items() if fate in {Fate.WRITTEN, Fate.SUPERSEDED, Fate.THERE}
        }
        return {at: fate for at, (fate, _) in sorted(found.told.items())}

    def of(self, _now, letters):
        """As `RowsThere.of`."""
        return frozenset((TOPIC, *one) for one in self.log if one[1] in letters.get((TOPIC, one[0]), ()))

    def read(self, _spark, _kafka, ranges, task, parts=()):
        """As `fan_out`: by one task, or by several."""
        batches = [self.batch(some) for some in parts or [ranges]]
        if self.dice.random() < 0.5:
            lines = list(lines_of(whole_stage(task)(batches)))
        else:
            found = [line for batch in batches for line in lines_of(decode_stage(task)([batch]))]
            found.sort(key=lambda line: (line.table, line.bucket))
            lines = list(lines_of(write_stage(task)(report(found))))
        waiting = [one for one in lines if one.kind == WAITING]

        def fill(old, kept):
            return filled_of(list(lines_of(fill_stage(task.tables[TABLE], old, kept)(report(waiting)))))

        def letters(table):
            return lambda: [rows_of(one.body) for one in lines if (one.table, one.kind) == (table, LETTERS)]

        none = [one for one in lines if one.table == NO_TABLE]
        samples = tuple(
            ((topic, number), value, sample)
            for topic, number, value, sample in (one.data() for one in none if one.kind == SAMPLE)
        )
        mine = [one for one in lines if one.table == TABLE]
        done = {name: done_of(mine, letters(name), fill) for name in task.tables}
        self.files_left |= {file["file-path"] for one in done.values() for file in one.files}
        truncates = {TABLE: found} if TABLE in task.tables and (found := truncates_of(mine)) else {}
        return Report(samples, done, letters(NO_TABLE), len(none), lambda: None, truncates)

    def batch(self, ranges):
        here = [one for one in self.sent if one.offset in range(*ranges.get((TOPIC, one.partition), (0, 0)))]
        assert all(one.offset >= self.starts[one.partition] for one in here), "Kafka has dropped it"
        rows = [
            (key(pk=1), one.value(), None, one.order * APART_MS, TOPIC, one.partition, one.offset)
            for one in here
        ]
        columns = list(zip(*rows, strict=True)) or [()] * len(RAW)
        return pa.RecordBatch.from_arrays(
            [pa.array(values, one.type) for values, one in zip(columns, RAW, strict=True)], schema=RAW
        )

    def settled(self):
        """All letters that are told to be settled."""
        return self.settled_later | settled(self.summaries)


class Writer:
    """As `TableWriter`, of a table in memory. Files are real."""

    def __init__(self, world):
        self.world = world

    def prepare(self, portion):
        world = self.world
        if world.meanwhile:
            world.meanwhile.pop()()
        ends = {(TOPIC, one): end for one, end in world.ends.items()}
        place = Place("", world.vector, ends)
        if not is_at(place, portion):
            raise Behind(place)
        if not portion.groups:
            return place
        is_log = world.mode == "changelog"
        in_row = COLUMNS
        columns = (*in_row, *CHANGELOG_COLUMNS) if is_log else in_row
        keys = () if is_log else ("id",)
        task = TableTask(TABLE, described(world.metadata), {}, columns, {}, key=keys, late=portion.late)
        kinds = [arrow_of(task).field(name) for name in in_row]
        wanted = Wanted(in_row, ("id",), keeps=not is_log, out_of_range="null")
        decoders = {
            (one.topic, one.number): decoder(one.schema, pa.schema(kinds), wanted) for one in portion.groups
        }
        return Ready(portion, SimpleNamespace(now=None, place=place), replace(task, decoders=decoders))

    def forget(self, _ready, done):
        self.world.files_left -= {one["file-path"] for one in done.files}

    def write(self, ready, done):
        world = self.world
        assert done.error is None, done.error
        if world.crash == "before":
            raise CrashError
        files = list(done.files)
        if world.mode == "mirror":
            keys = set(done.keys.column("id").to_pylist())
            if done.fill is not None:
                old = {number: row for number, row in world.rows.items() if number in keys}
                kept = tuple(name for name in COLUMNS if name in done.survey.kept)
                given = {"k0": pa.array(list(old), pa.int64())} | {
                    f"o{place}": pa.array(
                        [row[COLUMNS.index(name)] for row in old.values()],
                        pa.int64() if name in ("pk", "id") else pa.string(),
                    )
                    for place, name in enumerate(kept)
                }
                filled = done.fill(as_arrow(pa.table(given)), kept)
                filled.check()
                files += filled.files
            for number in keys:
                world.rows.pop(number, None)
        for file in files:
            for row in pq.read_table(file["file-path"].removeprefix("file://")).to_pylist():
                if world.mode == "mirror":
                    assert row["id"] not in world.rows
                    world.rows[row["id"]] = (1, row["id"], row["note"], row["big"])
                else:
                    world.log.append((row["_topic_partition"], row["_offset"]))
        world.files_left -= {one["file-path"] for one in files}
        world.vector |= {
            one: end
            for one, end in passed(ready.look.place, ready.portion).items()
            if end > world.vector.get(one, -1)
        }
        world.summaries.append({REPLAYED: ready.portion.replayed})
        if world.crash == "after":
            raise CrashError


def fold(rows, one, *, is_row=True):
    """What a change does to rows. One that takes its row to another key takes it away, also where it is no row itself."""
    if one.op == "d" or one.was != one.id:
        rows.pop(one.was, None)
    if one.op != "d" and is_row:
        before = rows.get(one.id, (1, one.id, None, None))
        rows[one.id] = (1, one.id, str(one.order), before[3] if one.big == PLACEHOLDER else one.big)
