"""Change messages as Debezium makes them, and a reader and a broker that hold them in memory and compute nothing.

Only what a batch asks of both: which messages there are, by topic, partition and schema, and one message of each
schema. Rows are never decoded here, so a writer beside it must be one that needs none.
"""

import json
import math
import re
from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
from confluent_kafka import KafkaError

from isotherm_ingest.batches.fan_out import Report
from isotherm_ingest.first_readable import behind_damage
from isotherm_ingest.kafka import BrokerError, TooLargeError
from isotherm_ingest.mark_text import decoded, encoded
from isotherm_ingest.marks import TakenOver
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.plan.truncates import UNORDERED
from isotherm_ingest.tables.portion import Done
from isotherm_ingest.workers.decoding import UNREADABLE
from isotherm_ingest.workers.reading import trouble
from isotherm_ingest.workers.survey import Survey
from isotherm_ingest.workers.tasks import NO_TABLE

SCHEMA, TOMBSTONE = 7, 0
"""Of every message that names no other; and of those without a value."""


@dataclass(frozen=True)
class Message:
    """One message: where it is, and the hash of its schema."""

    topic: str
    offset: int
    partition: int = 0
    schema: int = SCHEMA
    value: str | None = None
    """The envelope of a change of the table that the topic is named for, where it is not said."""
    timestamp: int = 0
    is_readable: bool = True
    """Whether anything but its schema can be read."""
    is_truncate: bool = False


def envelope(table, *columns):
    """A change with its schema; columns are pairs of a name and a type of Kafka Connect."""
    image = {"field": "after", "fields": [{"field": name, "type": kind} for name, kind in columns]}
    source = {"field": "source", "fields": [{"field": one} for one in ("lsn", "schema", "table")]}
    payload = {"op": "c", "source": {"schema": "public", "table": table}}
    return json.dumps({"schema": {"fields": [image, source, {"field": "op"}]}, "payload": payload})


def key(*columns):
    """A message key with its schema."""
    return json.dumps({"schema": {"fields": [{"field": name} for name in columns]}})


class Session:
    """A Spark session, and the reader beside it; `kafka` has all messages that there are."""

    def __init__(self, kafka=()):
        self.kafka, self.reads, self.closed = list(kafka), 0, 0
        self.kept_from, self.unreadable = {}, set()
        self.damaged = {}
        """By Kafka partition, stretches that no client can unpack: the first offset, and the one after the last."""
        self.at_most = {}
        """By topic, how many messages fit into a worker's memory."""
        self.meanwhile = []
        """What happens before the next read, and after it was planned."""
        self.sparkContext = self

    defaultParallelism = 1  # noqa: N815 (Spark's name)

    def read(self, _spark, _kafka, ranges, task):
        """As the job of a batch: samples of what nobody knows, or what was found for each table."""
        self.reads += 1
        if self.meanwhile:
            self.meanwhile.pop()()
        if self.unreadable & {topic for topic, _ in ranges}:
            raise RuntimeError("a message that no reader takes")
        for (topic, partition), (first, _) in ranges.items():
            if first < self.kept_from.get((topic, partition), 0):
                raise RuntimeError(f"some data may have been lost: {topic}/{partition}")
        self._unpack(ranges)
        here = [
            one
            for one in self.kafka
            if one.schema != TOMBSTONE
            and (span := ranges.get((one.topic, one.partition)))
            and span[0] <= one.offset < span[1]
        ]
        if any(
            count > self.at_most.get(topic, count)
            for topic, count in Counter(one.topic for one in here).items()
        ):
            raise MemoryError("a worker was killed")
        known = task.routes.keys() | task.problems.keys()
        samples = {
            (one.topic, one.schema): (
                one.value or envelope(one.topic.rpartition(".")[2], ("id", "int64")),
                key("id"),
            )
            for one in here
            if (one.topic, one.schema) not in known and one.is_readable
        }
        letters, counts = _told(here, task, samples)
        return Report(
            tuple((route, *told) for route, told in sorted(samples.items())),
            {name: self._done(counts[name], letters.get(name, {})) for name in task.tables},
            lambda: iter([_letters(letters[NO_TABLE])]),
            len(letters[NO_TABLE]),
            self._close,
            *_truncates(here, task),
        )

    def _unpack(self, ranges):
        for position, span in ranges.items():
            if bad := [at for at in range(*span) if not self.can_read(position, at)]:
                damaged = KafkaError(KafkaError._BAD_MSG)  # noqa: SLF001 (a public constant)
                raise RuntimeError(of_worker(trouble(position, bad[0], damaged)))

    def can_read(self, position, offset):
        return not any(first <= offset < end for first, end in self.damaged.get(position, ()))

    def _done(self, rows, letters):
        return Done(Survey(rows), letters=lambda: [_letters(letters)], letter_count=len(letters))

    def _close(self):
        self.closed += 1


def _told(here, task, samples):
    """By table, the problem of each message that it does not get, and the number of those that it gets."""
    letters, counts = {NO_TABLE: {}}, Counter()
    for one in here:
        route = one.topic, one.schema
        tables = task.routes.get(route, () if route in task.problems else (NO_TABLE,))
        if route in task.problems:
            letters[NO_TABLE][one] = task.problems[route]
        if not one.is_readable and tables and route not in samples:
            letters.setdefault(tables[0], {})[one] = UNREADABLE
            continue
        for table in tables:
            if one.is_truncate and table and task.tables[table] and task.tables[table].why_not:
                letters.setdefault(table, {})[one] = f"{UNORDERED}:{task.tables[table].why_not}"
            else:
                counts[table] += 1
    return letters, counts


def _truncates(here, task):
    """By table, the last truncates that it does not know yet, and the tables whose own was not met."""
    found, met = {}, set()
    for one in here:
        position = one.topic, one.partition
        met.add((*position, one.offset)) if one.is_truncate else None
        for name in task.routes.get((one.topic, one.schema), ()):
            table = task.tables[name]
            is_new = one.is_truncate and table is not None and one.offset > table.below.get(position, -1)
            if is_new and not table.why_not:
                found.setdefault(name, {})[position] = one.offset
    lost = {
        name
        for name, table in task.tables.items()
        if table is not None
        and any((*position, offset) not in met for position, offset in table.below.items())
    }
    return found, lost


def of_worker(text):
    """An error of a worker, as Spark tells it."""
    return (
        "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n"
        "Traceback (most recent call last):\n"
        '  File "reading.py", line 1, in _messages\n'
        "    raise ReadError(\n"
        f"isotherm_ingest.workers.reading.ReadError: {text}\n\n"
        "JVM stacktrace:\norg.apache.spark.SparkException: Job aborted"
    )


def _letters(problems):
    columns = ("topic", "partition", "offset", "timestamp")
    told = {name: [getattr(one, name) for one in problems] for name in columns}
    return pa.table({**told, "problem": pa.array(problems.values(), pa.string())})


class Broker:
    """The topics of a session's messages; `kept_from` is where Kafka still has them from."""

    def __init__(self, session):
        self._session = session
        self.kept_from, self.ids, self.sent = session.kept_from, {}, []
        self.without_leader, self.compacted_topics = set(), set()
        self.empty = set()
        """Partitions that are there, whether they have had a message or not."""
        self.unlisted = set()
        """Topics of which it does not say that they are there, as while a right is missing."""
        self.away = self.unsendable = False
        self.is_silent = False
        """Whether it does not say from where on a partition can be read."""
        self.max_bytes = math.inf
        """Of a message."""

    def topics(self, pattern):
        if self.away:
            raise BrokerError("no answer from the brokers")
        found = {}
        for one in self._session.kafka:
            if re.fullmatch(pattern, one.topic):
                found.setdefault(one.topic, set()).add(one.partition)
        for topic, partition in self.empty:
            found.setdefault(topic, set()).add(partition)
        return {topic: partitions for topic, partitions in found.items() if topic not in self.unlisted}

    def partition_count(self, topic):
        return len(self.topics(re.escape(topic)).get(topic, ()))

    def cluster_id(self):
        return "cluster"

    def compacted(self, topics):
        return self.compacted_topics & set(topics)

    def topic_ids(self, topics):
        return {topic: self.ids.get(topic, f"id of {topic}") for topic in topics}

    def ends(self, topics):
        found = dict.fromkeys([one for one in self.empty - self.without_leader if one[0] in topics], 0)
        for one in self._session.kafka:
            if one.topic in topics and (one.topic, one.partition) not in self.without_leader:
                found[one.topic, one.partition] = max(
                    one.offset + 1, found.get((one.topic, one.partition), 0)
                )
        return found

    def now(self, topics):
        return Kafka(ends=self.ends(topics), ids=self.topic_ids(topics))

    def starts(self, topics):
        return {place: self.kept_from.get(place, 0) for place in self.ends(topics)}

    def first_readable(self, position, offset, end):
        if self.is_silent:
            return None
        return behind_damage(lambda at: self._session.can_read(position, at), offset, end)

    def send(self, records):
        if self.unsendable:
            raise BrokerError("not acknowledged")
        large = [one for one in records if _bytes(one) > self.max_bytes]
        self.sent += [one for one in records if one not in large]
        if large:
            raise TooLargeError(large)

    def newest_by_key(self, topic):
        found = {}
        for one in self.sent:
            if one.topic == topic:
                found.pop(one.key, None)
                found[one.key] = one.value
        return found


def _bytes(record):
    texts = (record.key, record.value, *(text for header in record.headers for text in header))
    return sum(len(text or b"") for text in texts)


class Marks:
    """The marks of a pipeline, in memory, as Kafka has them; each driver has one of these, `store` outlives them."""

    def __init__(self, store):
        self._store = store
        self.written = set()

    def take_over(self):
        self._store["owner"] = self

    def read(self, positions):
        return {one: self._store[one] for one in positions if one in self._store}

    def write(self, marks):
        if marks and self._store["owner"] is not self:
            raise TakenOver("fenced")
        self._store |= {one: decoded(mark.through, encoded(mark)) for one, mark in marks.items()}
        self.written |= marks.keys()
        yield marks

    def close(self):
        pass
