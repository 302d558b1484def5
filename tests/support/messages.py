"""Change messages as Debezium makes them, and a Spark and a broker that hold them in memory and compute nothing.

Only what a batch asks of both: which messages there are, by topic, partition and schema, and one message of each
schema. Rows are never decoded here, so a writer beside it must be one that needs none.
"""

import json
import re
from dataclasses import dataclass

from isotherm_ingest.kafka import BrokerError
from isotherm_ingest.marks import TakenOver

SCHEMA = 7
"""Of every message that names no other."""


@dataclass(frozen=True)
class Message:
    """One message: where it is, and the hash of its schema."""

    topic: str
    offset: int
    partition: int = 0
    schema: int = SCHEMA
    value: str | None = None
    """The envelope of a change of the table that the topic is named for, where it is not said."""


def envelope(table, *columns):
    """A change with its schema; columns are pairs of a name and a type of Kafka Connect."""
    image = {"field": "after", "fields": [{"field": name, "type": kind} for name, kind in columns]}
    source = {"field": "source", "fields": [{"field": "lsn"}]}
    payload = {"op": "c", "source": {"schema": "public", "table": table}}
    return json.dumps({"schema": {"fields": [image, source, {"field": "op"}]}, "payload": payload})


def key(*columns):
    """A message key with its schema."""
    return json.dumps({"schema": {"fields": [{"field": name} for name in columns]}})


class Frame:
    """Some messages, as Spark's Kafka source gives them."""

    def __init__(self, session, messages):
        self.sparkSession, self.messages = session, messages

    def selectExpr(self, *_):  # noqa: N802 (Spark's name)
        return self

    def coalesce(self, _):
        return self

    def persist(self, _):
        return self

    def unpersist(self):
        self.sparkSession.unpersisted += 1

    def createOrReplaceGlobalTempView(self, view):  # noqa: N802 (Spark's name)
        self.sparkSession.views[f"global_temp.{view}"] = self.messages


class Session:
    """A Spark session; `kafka` has all messages that there are."""

    def __init__(self, kafka=()):
        self.kafka, self.views, self.dropped, self.unpersisted = list(kafka), {}, [], 0
        self.kept_from, self.unreadable, self.reads = {}, set(), 0
        self.sparkContext = self.catalog = self.read = self

    defaultParallelism = 1  # noqa: N815 (Spark's name)

    def dropGlobalTempView(self, view):  # noqa: N802 (Spark's name)
        del self.views[f"global_temp.{view}"]

    def sql(self, text):
        messages = self.views[re.search(r"FROM (global_temp\.\w+)", text)[1]]
        if "DISTINCT topic, _schema" in text:
            return Rows(
                [
                    {"topic": topic, "_schema": schema}
                    for topic, schema in {(one.topic, one.schema) for one in messages}
                ]
            )
        if "first(struct(" in text:
            return Rows(samples(messages))
        sent = [
            (topic, int(partition), int(below))
            for topic, partition, below in re.findall(
                r"\(topic = '(.*?)' AND partition = (\d+) AND offset < (\d+)\)", text
            )
        ]
        return Rows(
            [
                one
                for one in messages
                if one.schema not in {0, SCHEMA}
                and not any(
                    (one.topic, one.partition) == (t, p) and one.offset < below for t, p, below in sent
                )
            ]
        )

    # Reading a range of Kafka again

    def format(self, _):
        return self

    def options(self, **_):
        self._said = {}
        return self

    def option(self, name, value):
        self._said[name] = value
        return self

    def load(self):
        """As Spark: what Kafka no longer holds is refused."""
        start, end = (json.loads(self._said[name]) for name in ("startingOffsets", "endingOffsets"))
        self.reads += 1
        if self.unreadable & start.keys():
            raise RuntimeError("a message that no reader takes")
        for topic, offsets in start.items():
            for partition, first in offsets.items():
                if first < self.kept_from.get((topic, int(partition)), 0):
                    raise RuntimeError(f"some data may have been lost: {topic}/{partition}")
        wanted = [
            one
            for one in self.kafka
            if start.get(one.topic, {}).get(str(one.partition), one.offset + 1) <= one.offset
            and one.offset < end[one.topic][str(one.partition)]
        ]
        return Frame(self, wanted)


@dataclass(frozen=True)
class Rows:
    """The answer to a query."""

    rows: list

    def collect(self):
        return self.rows


def samples(messages):
    """One message of each topic and schema."""
    first = {}
    for one in messages:
        value = one.value or envelope(one.topic.rpartition(".")[2], ("id", "int64"))
        found = {"topic": one.topic, "_schema": one.schema, "one": {"value": value, "key": key("id")}}
        first.setdefault((one.topic, one.schema), found)
    return list(first.values())


class Broker:
    """The topics of a session's messages; `kept_from` is where Kafka still has them from."""

    def __init__(self, session):
        self._session = session
        self.kept_from, self.ids, self.sent = session.kept_from, {}, []
        self.without_leader = set()
        self.away = False

    def topics(self, pattern):
        if self.away:
            raise BrokerError("no answer from the brokers")
        found = {}
        for one in self._session.kafka:
            if re.fullmatch(pattern, one.topic):
                found.setdefault(one.topic, set()).add(one.partition)
        return found

    def cluster_id(self):
        return "cluster"

    def topic_ids(self, topics):
        return {topic: self.ids.get(topic, f"id of {topic}") for topic in topics}

    def ends(self, topics):
        found = {}
        for one in self._session.kafka:
            if one.topic in topics and (one.topic, one.partition) not in self.without_leader:
                found[one.topic, one.partition] = max(
                    one.offset + 1, found.get((one.topic, one.partition), 0)
                )
        return found

    def starts(self, topics):
        return {place: self.kept_from.get(place, 0) for place in self.ends(topics)}

    def send(self, records):
        self.sent += records


class Marks:
    """The marks of a pipeline, in memory; each driver has one of these, `store` outlives them."""

    def __init__(self, store):
        self._store = store

    def take_over(self):
        self._store["owner"] = self

    def read(self, positions):
        return {one: self._store[one] for one in positions if one in self._store}

    def write(self, marks):
        if marks and self._store["owner"] is not self:
            raise TakenOver("fenced")
        self._store |= marks
        yield marks

    def close(self):
        pass
