"""One micro-batch and many tables, without Spark: who gets what, who fails for whom, and what is read again."""

from dataclasses import dataclass, field

import pytest

from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.batches.batches import Batches
from isotherm_ingest.failures import Stopping, TableRefused
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.streams import StreamsConfig
from isotherm_ingest.tables.tools import Tools
from support.messages import SCHEMA, Broker, Message, Session

ORDERS, CUSTOMERS = "shop.public.orders", "shop.public.customers"
CONFIG = """
pipeline: shop
catalog: {name: lake}
kafka: {properties: {bootstrap.servers: unused}}
max_offsets_per_trigger: 4
streams: [{topics: "shop\\\\.public\\\\..*", table: "shop.{table}"}]
"""


@dataclass
class Writer:
    """Keeps what it is given; `has` is what the table has of each topic, by its own word."""

    name: str
    has: dict = field(default_factory=dict)
    error: Exception | None = None
    written: list = field(default_factory=list)
    asked: int = 0

    def vector(self):
        self.asked += 1
        return self.has

    def write(self, portion):
        if self.error is not None:
            raise self.error
        self.written.append(portion)
        return sum(end - first for first, end in portion.ranges.values())

    @property
    def ranges(self):
        """Of each write, the offsets by topic and partition."""
        return [dict(portion.ranges) for portion in self.written]


class Outbox:
    """Told of each commit."""

    def __init__(self):
        self.woken = []

    def wake(self, name):
        self.woken.append(name)


class DeadLetters:
    """Keeps what is sent there."""

    def __init__(self):
        self.sent = []

    def send(self, messages):
        self.sent += messages.collect()
        return len(self.sent)


class Pipeline:
    """Batches with everything around them in memory; writers are made when they are asked for."""

    def __init__(self):
        self.session = Session()
        self.broker = Broker(self.session)
        self.metrics, self.dead_letters, self.outbox = Metrics(), DeadLetters(), Outbox()
        self.writers = {name: Writer(name) for name in ("shop.orders", "shop.customers")}
        tools = Tools(None, None, self.dead_letters, self.metrics, "shop")
        self.batches = Batches(
            parse_yaml(CONFIG, "streams.yaml", StreamsConfig),
            self.session,
            self.broker,
            tools,
            self.outbox,
            lambda name, *_: self.writers[name],
        )

    @property
    def orders(self):
        return self.writers["shop.orders"]

    @property
    def customers(self):
        return self.writers["shop.customers"]

    def play(self, *messages):
        self.batches(self.session.batch(*messages), 1)

    def is_left_out(self, name):
        return self.metrics.registry.get_sample_value("isotherm_ingest_table_quarantined", {"table": name})


@pytest.fixture
def pipeline():
    made = Pipeline()
    yield made
    made.batches.stop()


def messages(topic, *offsets, **more):
    return [Message(topic, offset, **more) for offset in offsets]


def test_each_table_gets_its_own_topics_with_where_they_end(pipeline):
    pipeline.session.kafka += messages(ORDERS, 3)
    pipeline.play(*messages(ORDERS, 0, 1, 2), *messages(ORDERS, 5, partition=1), *messages(CUSTOMERS, 0))

    (portion,) = pipeline.orders.written[-1:]
    assert dict(portion.ranges) == {(ORDERS, 0): (0, 3), (ORDERS, 1): (5, 6)}
    assert dict(portion.ends) == {(ORDERS, 0): 4, (ORDERS, 1): 6, (CUSTOMERS, 0): 1}
    assert dict(portion.topic_ids) == {ORDERS: f"id of {ORDERS}"}
    assert [(group.topic, group.schema_hash) for group in portion.groups] == [(ORDERS, SCHEMA)]
    assert pipeline.customers.ranges == [{(CUSTOMERS, 0): (0, 1)}]


def test_nothing_of_a_batch_is_left_in_memory(pipeline):
    pipeline.orders.has = {ORDERS: {0: 2}}
    pipeline.session.kafka += messages(ORDERS, 2, 3)
    pipeline.play(*messages(ORDERS, 4))
    pipeline.orders.error = RuntimeError("broken")
    with pytest.raises(RuntimeError, match="broken"):
        pipeline.play(*messages(ORDERS, 5))

    assert pipeline.session.views == {}
    assert pipeline.session.unpersisted == 3


def test_a_table_that_fails_is_left_out_and_the_others_are_written(pipeline):
    pipeline.orders.error = RuntimeError("its disk is full")
    pipeline.play(*messages(ORDERS, 0), *messages(CUSTOMERS, 0))

    assert pipeline.customers.ranges == [{(CUSTOMERS, 0): (0, 1)}]
    assert [pipeline.is_left_out(name) for name in pipeline.writers] == [1, 0]
    assert pipeline.outbox.woken == ["shop.customers"]


def test_when_every_table_fails_the_batch_does_and_none_is_left_out(pipeline):
    for writer in pipeline.writers.values():
        writer.error = RuntimeError("the catalog is away")
    with pytest.raises(RuntimeError, match="the catalog is away"):
        pipeline.play(*messages(ORDERS, 0), *messages(CUSTOMERS, 0))
    assert [pipeline.is_left_out(name) for name in pipeline.writers] == [0, 0]

    for writer in pipeline.writers.values():
        writer.error = None
    pipeline.play(*messages(ORDERS, 0), *messages(CUSTOMERS, 0))

    assert [len(writer.written) for writer in pipeline.writers.values()] == [1, 1]


def test_tables_that_wait_for_a_person_do_not_stop_the_stream(pipeline):
    pipeline.orders.error = TableRefused("a person must look")
    pipeline.play(*messages(ORDERS, 0))

    assert pipeline.is_left_out("shop.orders") == 1
    assert pipeline.outbox.woken == []


def test_what_a_table_lacks_from_before_is_written_first_in_portions(pipeline):
    pipeline.session.kafka += messages(ORDERS, *range(10))
    pipeline.orders.has = {ORDERS: {0: 3}}
    pipeline.play(*messages(ORDERS, 10, 11))

    assert [ranges[ORDERS, 0] for ranges in pipeline.orders.ranges] == [(3, 7), (7, 10), (10, 12)]


def test_a_new_table_gets_all_that_kafka_holds(pipeline):
    pipeline.session.kafka += messages(ORDERS, *range(4, 8))
    pipeline.broker.kept_from = {(ORDERS, 0): 4}
    pipeline.play(*messages(ORDERS, 8))

    assert [ranges[ORDERS, 0] for ranges in pipeline.orders.ranges] == [(4, 8), (8, 9)]


def test_what_was_seen_through_is_not_read_again(pipeline):
    pipeline.play(*messages(ORDERS, 0, 1))
    pipeline.play(*messages(ORDERS, 2))

    assert [ranges[ORDERS, 0] for ranges in pipeline.orders.ranges] == [(0, 2), (2, 3)]
    assert pipeline.orders.asked == 1


def test_a_table_whose_changes_are_gone_from_kafka_is_refused(pipeline):
    pipeline.session.kafka += messages(ORDERS, *range(5, 9))
    pipeline.broker.kept_from = {(ORDERS, 0): 5}
    pipeline.orders.has = {ORDERS: {0: 3}}
    pipeline.play(*messages(ORDERS, 9), *messages(CUSTOMERS, 0))

    assert pipeline.orders.written == []
    assert pipeline.is_left_out("shop.orders") == 1
    assert pipeline.customers.ranges == [{(CUSTOMERS, 0): (0, 1)}]


def test_messages_that_belong_nowhere_are_dead_letters_and_nobody_elses_trouble(pipeline):
    nameless = messages(ORDERS, 1, schema=8, value='{"schema": {}, "payload": {"op": "c"}}')
    pipeline.play(*messages(ORDERS, 0), *nameless)

    assert pipeline.dead_letters.sent == nameless
    assert [len(portion.groups) for portion in pipeline.orders.written] == [1]


def test_no_batch_begins_after_a_stop(pipeline):
    pipeline.batches.stop()

    with pytest.raises(Stopping):
        pipeline.play(*messages(ORDERS, 0))
    assert pipeline.orders.written == []
