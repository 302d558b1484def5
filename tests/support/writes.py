"""A writer's surroundings: a session that runs no SQL, dead letters, and upserts that do as they are told."""

import pyarrow as pa

from isotherm.contract.identity import PartitionKey
from isotherm_ingest.decode.debezium_schema import change_schema
from isotherm_ingest.kafka import BrokerError
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.tables.java_table import Committed
from isotherm_ingest.tables.portion import Group, Portion
from isotherm_ingest.tables.upsert import Located
from support.messages import envelope, key

NAME, TOPIC = "shop.orders", "shop.public.orders"
ONE_ROW = pa.table({"id": [1]})
FOUND, WRITTEN = PartitionKey('{"1000":1}'), PartitionKey('{"1000":2}')


class Spark:
    """Runs no SQL."""

    defaultParallelism = 2  # noqa: N815 (Spark's name)

    def __init__(self):
        self.conf, self.sparkContext, self.statements = Conf(), self, []
        self.on_create = None

    def newSession(self):  # noqa: N802 (Spark's name)
        return self

    def sql(self, statement):
        self.statements.append(statement)
        if statement.startswith("CREATE TABLE"):
            self.on_create()


class Conf(dict):
    """The session's settings."""

    set = dict.__setitem__


class DeadLetters:
    """Takes them all, but for one time where it is told to fail after so many pieces."""

    def __init__(self):
        self.sent, self.fails_after = [], None

    def send(self, messages):
        count = 0
        for number, some in enumerate(messages):
            if number == self.fails_after:
                self.fails_after = None
                raise BrokerError("not acknowledged")
            self.sent += some.column("offset").to_pylist()
            count += some.num_rows
        return count


def letters(*problems, first=0):
    columns = ([TOPIC], [0], [0])
    told = dict(
        zip(("topic", "partition", "timestamp"), (one * len(problems) for one in columns), strict=True)
    )
    return pa.table({**told, "offset": range(first, first + len(problems)), "problem": problems})


class Upserts:
    """Each upsert does what comes next in `fates`: it lands, fails, or both."""

    def __init__(self, table):
        self._table, self.fates, self.tried, self.made = table, [], 0, 0
        self.row_partitions = frozenset([WRITTEN])
        self.overtaken = lambda: False

    def __call__(self, *_):
        self.made += 1
        return self

    def is_overtaken(self):
        return self.overtaken()

    def locate(self):
        return Located((), frozenset([FOUND]))

    def write(self, located, summary, say):
        self.tried += 1
        say(located.partitions | {WRITTEN})
        return self.fates.pop(0)(summary)

    def close(self):
        pass

    def lands(self, summary):
        """As Iceberg does: the rows, with the summary in the snapshot."""
        self._table.refresh().append(ONE_ROW, snapshot_properties=dict(summary))
        return Committed(self._table.refresh().current_snapshot().snapshot_id)


def fails(error, *first):
    """A write that fails after what happens first."""

    def fate(summary):
        for step in first:
            step(summary)
        raise error

    return fate


def portion(first, end):
    group = Group(TOPIC, 7, change_schema(envelope("orders", ("id", "int64")), key("id")))
    places = {(TOPIC, 0): (first, end)}
    broker = Kafka({(TOPIC, 0): 0}, {(TOPIC, 0): 9}, {TOPIC: "id"})
    return Portion(1, (group,), places, broker, "cluster")
