"""A driver and many tables, without Spark: what is read, who gets what, who fails for whom, what a new driver knows."""

import random
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.batches.driver import Driver
from isotherm_ingest.failures import CatalogAway, TableRefused
from isotherm_ingest.kafka import BrokerError
from isotherm_ingest.marks import Mark, TakenOver
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.plan.places import Found, place
from isotherm_ingest.streams import StreamsConfig
from isotherm_ingest.tables.offsets import Source, Token, vector_of
from isotherm_ingest.tables.portion import Halted, Ready, wanted_from
from isotherm_ingest.tables.tools import Tools
from isotherm_ingest.tables.writer import Written
from support.messages import SCHEMA, TOMBSTONE, Broker, Marks, Message, Session

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
    is_cut: bool = False
    """Whether snapshots of it have expired."""

    def token(self, _):
        return Token(Source(vector_of(self.has), "", self.ids)) if self.has else None

    def found(self):
        return Found(self.uuid, dict(self.has) or None, self.ids, self.is_cut)


class Lake:
    """The tables that are there."""

    def __init__(self):
        self.tables, self.away, self.made, self.forgotten = {}, False, 0, []

    def ask(self):
        if self.away:
            raise OSError("the catalog is away")

    def load(self, name):
        self.ask()
        return self.tables.get(name)

    def newest(self, name, _says_enough):
        return self.load(name)

    def make(self, name):
        self.made += 1
        self.tables[name] = Table(f"uuid {self.made}")
        return self.tables[name]


@dataclass
class Writer:
    """Writes as the real one does, into a table in memory."""

    name: str
    stream: object
    lake: Lake
    kafka: list
    errors: dict
    dead_letters: object

    def prepare(self, portion):
        if isinstance(self.errors.get(self.name), TableRefused):
            raise self.errors[self.name]
        table = self.lake.load(self.name)
        found = Found() if table is None else table.found()
        at = place(found, portion.known, portion.kafka, portion.topics, self.stream.on_hole)
        if at.halted:
            raise Halted(self.name, at.halted)
        if wanted_from(at, portion) is None:
            return at
        table = table or self.lake.make(self.name)
        return Ready(portion, replace(at, uuid=table.uuid), None)

    def forget(self, ready, done):
        self.lake.forgotten.append((ready, done))

    def write(self, ready, done):
        if self.name in self.errors:
            raise self.errors[self.name]
        portion, at, table = ready.portion, ready.look, self.lake.load(self.name)
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
        assert len(mine) <= done.survey.rows
        table.rows += [(one.topic, one.partition, one.offset) for one in mine]
        if mine:
            ends = {position: end for position, (_, end) in portion.ranges.items()}
            table.has, table.ids = {**at.vector, **ends}, {**table.ids, **portion.kafka.ids}
        return Written(len(mine), replace(at, uuid=table.uuid, vector=dict(table.has)))


class Outbox:
    """Told of each commit."""

    def __init__(self, lake):
        self._lake, self.woken, self.noticed = lake, [], set()

    @property
    def names(self):
        return frozenset(self._lake.tables)

    def wake(self, name, _now):
        self.woken.append(name)

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
        self.driver = Driver(
            self.config,
            self.session,
            self.broker,
            marks,
            Tools(self.lake, None, self.dead_letters, self.metrics, "shop"),
            self.outbox,
            lambda name, stream, _, tools: Writer(
                name, stream, self.lake, self.session.kafka, self.errors, tools.dead_letters
            ),
            self.session.read,
        )
        self.driver.begin(self.now_s)

    def send(self, *messages):
        self.session.kafka += messages

    def turn(self):
        return self.driver.turn(self.now_s)

    def minute(self):
        """A minute later, everything that can be done is done."""
        self.now_s += 60
        for _ in range(50):
            if not self.turn():
                return
        raise AssertionError("it turns for ever")

    def rows(self, table):
        return sorted(offset for *_, offset in self.lake.tables[f"shop.{table}"].rows)

    def sample(self, name, **labels):
        return self.metrics.registry.get_sample_value(f"isotherm_ingest_{name}", labels)

    def is_left_out(self, table):
        return self.sample("table_quarantined", table=f"shop.{table}") == 1


@pytest.fixture
def pipeline():
    made = Pipeline()
    yield made
    made.driver.stop()


def messages(topic, *offsets, **more):
    return [Message(topic, offset, **more) for offset in offsets]


def test_each_table_gets_its_own_topics(pipeline):
    pipeline.send(*messages(ORDERS, 0, 1), *messages(ORDERS, 0, partition=1), *messages(CUSTOMERS, 0))
    pipeline.minute()

    assert pipeline.rows("orders") == [0, 0, 1]
    assert pipeline.rows("customers") == [0]
    assert pipeline.outbox.woken == ["shop.customers", "shop.orders"]


def test_a_batch_takes_a_fair_share_of_each_topic(pipeline):
    pipeline.send(*messages(ORDERS, *range(20)), *messages(CUSTOMERS, 0))
    pipeline.now_s += 60
    pipeline.turn()

    assert (pipeline.rows("orders"), pipeline.rows("customers")) == ([0, 1, 2], [0])


def test_topics_are_read_once_in_a_window(pipeline):
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 1))
    pipeline.now_s += 30
    pipeline.turn()
    assert pipeline.rows("orders") == [0]

    pipeline.now_s += 30
    pipeline.turn()
    assert pipeline.rows("orders") == [0, 1]


def test_a_class_has_a_window_of_its_own():
    slow = CONFIG.replace("table}", 'table}", every: "10m', 1).replace("public\\\\..*", "public\\\\.orders")
    pipeline = Pipeline(slow.replace("}]", '}, {topics: ".*", table: "shop.{table}"}]'))
    pipeline.send(*messages(ORDERS, 0), *messages(CUSTOMERS, 0))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 1), *messages(CUSTOMERS, 1))
    pipeline.minute()
    assert (pipeline.rows("orders"), pipeline.rows("customers")) == ([0], [0, 1])

    for _ in range(10):
        pipeline.minute()
    assert pipeline.rows("orders") == [0, 1]


def test_nothing_of_a_batch_is_left_in_memory(pipeline):
    pipeline.errors["shop.orders"] = RuntimeError("broken")
    pipeline.send(*messages(ORDERS, 0), *messages(CUSTOMERS, 0))
    pipeline.minute()

    assert pipeline.session.closed == pipeline.session.reads > 0


def test_a_table_that_fails_is_left_out_and_brought_up_later(pipeline):
    pipeline.errors["shop.orders"] = RuntimeError("its disk is full")
    pipeline.send(*messages(ORDERS, *range(6)), *messages(CUSTOMERS, 0))
    pipeline.minute()
    assert pipeline.rows("customers") == [0]
    assert pipeline.is_left_out("orders")
    assert not pipeline.is_left_out("customers")

    pipeline.errors.clear()
    pipeline.send(*messages(ORDERS, 6, 7))
    pipeline.minute()
    assert pipeline.rows("orders") == list(range(8))
    assert not pipeline.is_left_out("orders")


def test_a_table_that_fails_alone_in_its_batch_stops_nobody(pipeline):
    pipeline.errors["shop.orders"] = RuntimeError("a poison row")
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.send(*messages(CUSTOMERS, 0))
    pipeline.minute()

    assert pipeline.rows("customers") == [0]


def test_a_table_that_fails_for_weeks_ends_no_driver(pipeline):
    pipeline.errors["shop.orders"] = RuntimeError("its disk is full")
    pipeline.send(*messages(ORDERS, 0))
    for _ in range(1100):
        pipeline.now_s += 120
        pipeline.turn()
    pipeline.errors.clear()
    pipeline.now_s += 120
    pipeline.minute()

    assert pipeline.rows("orders") == [0]


def test_without_a_catalog_nobody_is_to_blame_and_nothing_is_passed_over(pipeline):
    pipeline.send(*messages(ORDERS, 0), *messages(CUSTOMERS, 0))
    pipeline.minute()
    pipeline.lake.away = True
    pipeline.send(*messages(ORDERS, 1), *messages(CUSTOMERS, 1))
    with pytest.raises(CatalogAway):
        pipeline.minute()
    assert not pipeline.is_left_out("orders")

    pipeline.lake.away = False
    pipeline.minute()
    assert (pipeline.rows("orders"), pipeline.rows("customers")) == ([0, 1], [0, 1])


def test_a_broker_that_is_away_is_said(pipeline):
    pipeline.broker.away = True
    with pytest.raises(BrokerError):
        pipeline.minute()


def test_a_quiet_partition_of_a_table_that_failed_is_brought_up_too(pipeline):
    pipeline.errors["shop.orders"] = RuntimeError("broken")
    pipeline.send(*messages(ORDERS, 0), *messages(ORDERS, 0, 1, partition=1))
    pipeline.minute()
    pipeline.errors.clear()
    pipeline.minute()

    assert pipeline.rows("orders") == [0, 0, 1]
    assert not pipeline.is_left_out("orders")


def test_a_table_that_never_worked_is_known_to_the_next_driver(pipeline):
    pipeline.errors["shop.orders"] = RuntimeError("broken")
    pipeline.send(*messages(ORDERS, 0, 1))
    pipeline.minute()
    pipeline.errors.clear()
    pipeline.start()
    pipeline.minute()

    assert pipeline.rows("orders") == [0, 1]


@pytest.mark.parametrize("marks_are_lost", [False, True])
def test_a_new_driver_goes_on_where_the_tables_are(pipeline, marks_are_lost):
    pipeline.send(*messages(ORDERS, 0, 1, 2))
    pipeline.minute()
    if marks_are_lost:
        pipeline.store.clear()
    pipeline.start()
    pipeline.send(*messages(ORDERS, 3))
    pipeline.minute()

    assert pipeline.rows("orders") == [0, 1, 2, 3]


def test_offsets_that_somebody_else_commits_for_the_group_lose_no_row_of_a_table_that_is_there(pipeline):
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 1, 2))
    pipeline.store[ORDERS, 0] = Mark(3)
    pipeline.start()
    pipeline.minute()

    assert pipeline.rows("orders") == [0, 1, 2]


# Holes


def test_what_held_nothing_is_not_missed_when_kafka_has_dropped_it(pipeline):
    """A tombstone in a batch of its own; then retention passes, and a driver begins."""
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 1, schema=0))
    pipeline.minute()
    pipeline.broker.kept_from[ORDERS, 0] = 2
    pipeline.start()
    pipeline.send(*messages(ORDERS, 2))
    pipeline.minute()

    assert pipeline.rows("orders") == [0, 2]
    assert not pipeline.is_left_out("orders")


@pytest.mark.parametrize("restart", [False, True])
def test_a_rollback_halts_the_table_alone(pipeline, restart):
    pipeline.send(*messages(ORDERS, 0, 1, 2), *messages(CUSTOMERS, 0))
    pipeline.minute()
    pipeline.lake.tables["shop.orders"].has = {(ORDERS, 0): 1}
    if restart:
        pipeline.start()
    pipeline.send(*messages(ORDERS, 3), *messages(CUSTOMERS, 1))
    pipeline.minute()

    assert pipeline.rows("orders") == [0, 1, 2]
    assert pipeline.rows("customers") == [0, 1]
    assert pipeline.is_left_out("orders")
    assert pipeline.sample("holes_total", table="shop.orders", why="table_rolled_back") >= 1


def test_a_rollback_of_a_table_whose_topics_are_quiet_is_told_once_somebody_has_seen_it(pipeline):
    """The outbox has, which looks at each table every few seconds."""
    pipeline.send(*messages(ORDERS, 0, 1, 2))
    pipeline.minute()
    pipeline.lake.tables["shop.orders"].has = {(ORDERS, 0): 1}
    pipeline.minute()
    assert not pipeline.is_left_out("orders")

    pipeline.outbox.noticed = {"shop.orders", "shop.never_met"}
    pipeline.minute()

    assert pipeline.is_left_out("orders")
    assert pipeline.sample("holes_total", table="shop.orders", why="table_rolled_back") >= 1


def test_what_kafka_lost_of_a_topic_of_which_there_is_no_table_yet_is_told():
    """The mark says that nothing below was a row; what came behind it was never seen."""
    pipeline = Pipeline()
    pipeline.send(Message(ORDERS, 0, schema=TOMBSTONE))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 1, 2, 3, 4, 5))
    pipeline.session.kept_from[ORDERS, 0] = 4
    with capture_logs() as said:
        pipeline.start()
        pipeline.minute()

    assert pipeline.rows("orders") == [4, 5]
    (lost,) = [one for one in said if one["event"] == "changes_missing"]
    assert (lost["topic"], lost["hole"]) == (ORDERS, f"retention ({ORDERS}/0: needs 1, could go on from 4)")
    pipeline.driver.stop()


def test_what_kafka_lost_of_a_partition_that_no_table_has_read_is_told(pipeline):
    """It came while the topic gained it, and ingest did not run until retention had passed."""
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 0, 1, 2, partition=1))
    pipeline.store[ORDERS, 1] = Mark(0, "", {})
    pipeline.session.kept_from[ORDERS, 1] = 2
    with capture_logs() as said:
        pipeline.start()
        pipeline.minute()

    assert [one["hole"] for one in said if one["event"] == "changes_missing"] == [
        f"retention ({ORDERS}/1: needs 0, could go on from 2)"
    ]
    assert pipeline.sample("holes_total", table="shop.orders", why="retention") == 1


def test_a_catalog_that_goes_away_while_a_table_is_looked_at_does_not_make_it_forgotten(pipeline):
    pipeline.send(*messages(ORDERS, 0, 1, 2))
    pipeline.minute()
    pipeline.lake.tables["shop.orders"].has = {(ORDERS, 0): 1}
    pipeline.outbox.noticed = {"shop.orders"}
    pipeline.lake.away = True
    with pytest.raises(CatalogAway):
        pipeline.turn()
    pipeline.lake.away = False
    pipeline.minute()

    assert pipeline.is_left_out("orders")


def test_the_figures_of_a_topic_that_is_gone_go_with_it(pipeline):
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    assert pipeline.sample("unread_messages", topic=ORDERS) == 0
    pipeline.session.kafka.clear()
    pipeline.minute()

    assert pipeline.sample("unread_messages", topic=ORDERS) is None
    assert pipeline.sample("unread_share", topic=ORDERS) is None


@pytest.mark.parametrize(("more", "told"), [(1, [(2, 3)]), (2, [])])
def test_partitions_that_are_not_multiplied_are_told(pipeline, more, told):
    """A key moves from one that was there to another then, and nobody knows which of its changes is the newer one."""
    pipeline.send(*messages(ORDERS, 0), *messages(ORDERS, 0, partition=1))
    pipeline.minute()
    for number in range(more):
        pipeline.send(*messages(ORDERS, 0, partition=2 + number))
    with capture_logs() as said:
        pipeline.minute()

    found = [(one["was"], one["now"]) for one in said if one["event"] == "partitions_not_multiplied"]
    assert found == told
    count = pipeline.sample("holes_total", table="shop.{table}", why="partitions_not_multiplied")
    assert count == (1 if told else None)


def test_a_table_has_recovered_once_it_has_all_that_it_lacked(pipeline):
    pipeline.errors["shop.orders"] = RuntimeError("its disk is full")
    pipeline.send(*messages(ORDERS, *range(20)), *messages(CUSTOMERS, 0))
    pipeline.minute()
    pipeline.errors.clear()
    pipeline.now_s += 120
    with capture_logs() as said:
        pipeline.turn()
        assert 0 < len(pipeline.rows("orders")) < 20
        assert not pipeline.is_left_out("orders")
        assert "table_recovered" not in [one["event"] for one in said]
        assert pipeline.sample("unread_messages", topic=ORDERS) == 20 - len(pipeline.rows("orders"))
        pipeline.minute()

    assert pipeline.rows("orders") == list(range(20))
    assert not pipeline.is_left_out("orders")
    assert [one["event"] for one in said].count("table_recovered") == 1


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(("on_hole", "expected"), [("backfill", [0, 1, 2, 3]), ("accept", [0, 3])])
def test_a_rollback_is_filled_or_accepted_as_the_stream_says(pipeline, restart, on_hole, expected):
    config = CONFIG.replace("table}", f'table}}", on_hole: "{on_hole}')
    pipeline.start(config)
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 1, 2))
    pipeline.minute()
    table = pipeline.lake.tables["shop.orders"]
    table.has, table.rows = {(ORDERS, 0): 1}, table.rows[:1]
    if restart:
        pipeline.start(config)
    pipeline.send(*messages(ORDERS, 3))
    pipeline.minute()
    pipeline.minute()

    assert pipeline.rows("orders") == expected
    assert pipeline.sample("holes_total", table="shop.orders", why="table_rolled_back") == 1


@pytest.mark.parametrize("restart", [False, True])
def test_a_table_that_is_dropped_is_not_begun_again_with_the_newest_rows(pipeline, restart):
    pipeline.send(*messages(ORDERS, 0, 1))
    pipeline.minute()
    del pipeline.lake.tables["shop.orders"]
    if restart:
        pipeline.start()
    pipeline.send(*messages(ORDERS, 2))
    pipeline.minute()
    assert "shop.orders" not in pipeline.lake.tables
    assert pipeline.is_left_out("orders")

    pipeline.start(CONFIG.replace("table}", 'table}", on_hole: "backfill'))
    pipeline.minute()
    assert pipeline.rows("orders") == [0, 1, 2]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("count", [1, 9])
def test_a_topic_that_is_made_again_is_told_and_read_from_its_start(pipeline, restart, count):
    config = CONFIG.replace("table}", 'table}", on_hole: "accept')
    pipeline.start(config)
    pipeline.send(*messages(ORDERS, 0, 1, 2), *messages(CUSTOMERS, 0))
    pipeline.minute()
    pipeline.session.kafka[:] = [*messages(ORDERS, *range(count)), *messages(CUSTOMERS, 0, 1)]
    pipeline.broker.ids[ORDERS] = "another id"
    if restart:
        pipeline.start(config)
    pipeline.minute()

    assert pipeline.rows("customers") == [0, 1]
    assert pipeline.rows("orders") == sorted([0, 1, 2, *range(count)])


def test_a_topic_that_was_away_for_a_while_is_read_from_its_start_at_once(pipeline):
    pipeline.start(CONFIG.replace("table}", 'table}", on_hole: "accept'))
    pipeline.send(*messages(ORDERS, 0, 1, 2), *messages(CUSTOMERS, 0))
    pipeline.minute()
    pipeline.session.kafka[:] = messages(CUSTOMERS, 0)
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 0))
    pipeline.broker.ids[ORDERS] = "another id"
    pipeline.minute()

    assert pipeline.rows("orders") == [0, 0, 1, 2]


def test_what_was_read_of_a_topic_that_was_made_again_meanwhile_is_of_nobody(pipeline):
    def made_again():
        pipeline.session.kafka[:] = [*messages(ORDERS, 0, 1, 2), *messages(CUSTOMERS, 0)]
        pipeline.broker.ids[ORDERS] = "another id"

    pipeline.send(*messages(ORDERS, 0, 1), *messages(CUSTOMERS, 0))
    pipeline.session.meanwhile = [made_again]
    pipeline.now_s += 60
    pipeline.turn()
    assert (pipeline.rows("orders"), pipeline.rows("customers")) == ([], [0])

    pipeline.minute()
    assert (pipeline.rows("orders"), pipeline.rows("customers")) == ([0, 1, 2], [0])
    assert not pipeline.is_left_out("orders")


def test_a_topic_that_was_made_again_halts_for_as_long_as_nobody_has_decided(pipeline):
    """Kafka drops the marks of a topic that goes, so a driver that begins knows nothing but what the table says."""
    pipeline.send(*messages(ORDERS, 0, 1, 2), *messages(CUSTOMERS, 0))
    pipeline.minute()
    pipeline.session.kafka[:] = [*messages(ORDERS, 0, 1, 2, 3, 4), *messages(CUSTOMERS, 0, 1)]
    pipeline.broker.ids[ORDERS] = "another id"
    for position in [one for one in pipeline.store if one != "owner" and one[0] == ORDERS]:
        del pipeline.store[position]
    pipeline.start()
    for _ in range(5):
        pipeline.minute()

    assert pipeline.rows("orders") == [0, 1, 2]
    assert pipeline.rows("customers") == [0, 1]
    assert pipeline.is_left_out("orders")
    assert pipeline.sample("holes_total", table="shop.orders", why="topic_made_again") >= 1


def test_a_table_that_was_halted_before_its_topics_had_leaders_is_looked_at_again(pipeline):
    pipeline.send(*messages(ORDERS, 0, 1, 2), *messages(CUSTOMERS, 0))
    pipeline.minute()
    del pipeline.lake.tables["shop.orders"]
    pipeline.send(*messages(ORDERS, 3))
    pipeline.minute()
    pipeline.minute()
    pipeline.broker.without_leader = {(ORDERS, 0)}
    pipeline.start(CONFIG.replace("table}", 'table}", on_hole: "backfill'))
    pipeline.minute()
    pipeline.broker.without_leader = set()
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 4))
    for _ in range(3):
        pipeline.minute()

    assert pipeline.rows("orders") == [0, 1, 2, 3, 4]


def test_retention_that_passed_halts_the_table_alone(pipeline):
    pipeline.send(*messages(ORDERS, 0), *messages(CUSTOMERS, 0))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, *range(1, 6)), *messages(CUSTOMERS, 1))
    pipeline.broker.kept_from[ORDERS, 0] = 3
    pipeline.minute()

    assert (pipeline.rows("orders"), pipeline.rows("customers")) == ([0], [0, 1])
    assert pipeline.sample("holes_total", table="shop.orders", why="retention") >= 1


def test_retention_that_passes_a_table_that_is_behind_is_told_and_holds_up_nobody(pipeline):
    pipeline.errors |= {"shop.orders": RuntimeError("broken"), "shop.customers": RuntimeError("broken too")}
    pipeline.send(*messages(ORDERS, *range(6)), *messages(CUSTOMERS, 0))
    pipeline.minute()
    pipeline.broker.kept_from[ORDERS, 0] = 4
    pipeline.errors.clear()
    pipeline.minute()
    pipeline.minute()

    assert pipeline.rows("customers") == [0]
    assert pipeline.sample("holes_total", table="shop.orders", why="retention") >= 1


SHARED = CONFIG.replace("shop.{table}", 'shop.all", on_hole: "HOLE')
"""Two topics, one table."""


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("is_kept", [True, False], ids=["Kafka has it all", "retention has passed"])
@pytest.mark.parametrize(("on_hole", "filled"), [("halt", False), ("backfill", True), ("accept", False)])
def test_a_dropped_table_is_not_begun_again_by_a_topic_that_it_never_had(on_hole, filled, is_kept, restart):
    """What it had of its other topic is missing, whoever speaks first."""
    config = SHARED.replace("HOLE", on_hole)
    pipeline = Pipeline(config)
    pipeline.send(*messages(ORDERS, 0, 1, 2))
    pipeline.minute()
    del pipeline.lake.tables["shop.all"]
    if not is_kept:
        pipeline.session.kafka[:] = messages(ORDERS, 2)
        pipeline.broker.kept_from[ORDERS, 0] = 2
    pipeline.send(*messages(CUSTOMERS, 0))
    if restart:
        pipeline.start(config)
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 3))
    pipeline.minute()
    pipeline.minute()

    assert pipeline.sample("holes_total", table="shop.all", why="table_made_again") >= 1
    if on_hole == "halt":
        assert "shop.all" not in pipeline.lake.tables
        assert pipeline.is_left_out("all")
        return
    old = [0, 1, 2] if is_kept else [2]
    assert pipeline.rows("all") == sorted([*(old if filled else []), 0, 3])


@pytest.mark.parametrize("restart", [False, True])
def test_what_one_topic_of_a_table_lacks_is_not_lifted_by_another(restart):
    pipeline = Pipeline(SHARED.replace("HOLE", "halt"))
    pipeline.send(*messages(ORDERS, 0, 1, 2), *messages(CUSTOMERS, 0))
    pipeline.minute()
    pipeline.session.kafka[:] = [*messages(ORDERS, 0, 1), *messages(CUSTOMERS, 0)]
    pipeline.broker.ids[ORDERS] = "another id"
    pipeline.minute()
    assert pipeline.is_left_out("all")
    if restart:
        pipeline.start()
    for offset in range(1, 6):
        pipeline.send(*messages(CUSTOMERS, offset))
        for _ in range(10):
            pipeline.minute()
            assert pipeline.is_left_out("all")

    assert pipeline.rows("all") == [0, 0, 1, 2]
    pipeline.start(SHARED.replace("HOLE", "backfill"))
    pipeline.minute()
    pipeline.minute()
    assert not pipeline.is_left_out("all")
    assert pipeline.rows("all") == sorted([0, 0, 1, 2, 0, 1, 1, 2, 3, 4, 5])


@pytest.mark.parametrize("restart", [False, True])
def test_a_rollback_that_was_told_stands_though_the_token_has_expired_since(pipeline, restart):
    """Without a token, and with a history that is cut, the table seems to have what was last known of it."""
    pipeline.send(*messages(ORDERS, 0, 1, 2), *messages(CUSTOMERS, 0))
    pipeline.minute()
    table = pipeline.lake.tables["shop.orders"]
    table.has, table.rows = {(ORDERS, 0): 1}, table.rows[:1]
    pipeline.send(*messages(ORDERS, 3), *messages(CUSTOMERS, 1))
    pipeline.minute()
    assert pipeline.is_left_out("orders")
    table.has, table.is_cut = {}, True
    if restart:
        pipeline.start()
    for offset in range(4, 8):
        pipeline.send(*messages(ORDERS, offset))
        pipeline.minute()

    assert pipeline.is_left_out("orders")
    assert pipeline.rows("orders") == [0]
    pipeline.start(CONFIG.replace("table}", 'table}", on_hole: "accept'))
    pipeline.minute()
    pipeline.minute()
    assert pipeline.rows("orders") == [0, 3, 4, 5, 6, 7]


def test_a_table_whose_token_has_expired_goes_on_where_it_was(pipeline):
    pipeline.send(*messages(ORDERS, 0, 1, 2))
    pipeline.minute()
    table = pipeline.lake.tables["shop.orders"]
    table.has, table.is_cut = {}, True
    pipeline.send(*messages(ORDERS, 3))
    pipeline.minute()

    assert not pipeline.is_left_out("orders")
    assert pipeline.rows("orders") == [0, 1, 2, 3]


def test_a_rollback_is_filled_for_all_topics_of_the_table():
    pipeline = Pipeline(CONFIG.replace("shop.{table}", 'shop.all", on_hole: "backfill'))
    pipeline.send(*messages(ORDERS, 0), *messages(CUSTOMERS, 0))
    pipeline.minute()
    table = pipeline.lake.tables["shop.all"]
    table.has, table.rows = {}, []
    pipeline.send(*messages(ORDERS, 1))
    pipeline.minute()
    pipeline.minute()

    assert sorted(table.rows) == [(CUSTOMERS, 0, 0), (ORDERS, 0, 0), (ORDERS, 0, 1)]


@pytest.mark.parametrize("restart", ["", "after the marks", "before the marks"])
@pytest.mark.parametrize("topic", [ORDERS, CUSTOMERS])
def test_a_replacement_that_is_accepted_gets_no_old_row_of_any_topic_of_the_table(topic, restart):
    """Somebody made the table again, with its rows, and a message of one topic comes first."""
    config = CONFIG.replace("shop.{table}", 'shop.all", on_hole: "accept')
    pipeline = Pipeline(config)
    pipeline.send(*messages(ORDERS, 0, 1), *messages(CUSTOMERS, 0, 1))
    pipeline.minute()
    rows = pipeline.lake.tables["shop.all"].rows
    pipeline.lake.make("shop.all").rows = list(rows)
    pipeline.send(*messages(topic, 2))
    pipeline.now_s += 60
    marked = dict(pipeline.store)
    pipeline.turn()
    assert pipeline.sample("holes_total", table="shop.all", why="table_made_again") == 1
    if restart == "before the marks":
        pipeline.store = marked
    if restart:
        pipeline.start(config)
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 3), *messages(CUSTOMERS, 3))
    pipeline.minute()

    expected = [(one, 0, offset) for one in (ORDERS, CUSTOMERS) for offset in (0, 1, 3)]
    assert sorted(pipeline.lake.tables["shop.all"].rows) == sorted([*expected, (topic, 0, 2)])


def test_a_partition_without_a_leader_at_the_start_goes_on_at_its_mark(pipeline):
    nameless = {"schema": 8, "value": '{"schema": {}, "payload": {"op": "c"}}'}
    pipeline.send(*messages(ORDERS, 0), *messages(ORDERS, 0, partition=1, **nameless))
    pipeline.minute()
    pipeline.broker.without_leader = {(ORDERS, 1)}
    pipeline.start()
    pipeline.minute()
    pipeline.broker.without_leader = set()
    pipeline.send(*messages(ORDERS, 1), *messages(ORDERS, 1, partition=1))
    pipeline.minute()

    assert pipeline.rows("orders") == [0, 1, 1]
    assert len(pipeline.dead_letters.sent) == 1


@pytest.mark.parametrize("marks_are_lost", [False, True])
def test_partitions_that_came_while_no_driver_ran_wait_for_the_old_ones(pipeline, marks_are_lost):
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, *range(1, 20)), *messages(ORDERS, 0, partition=1))
    if marks_are_lost:
        pipeline.store.clear()
    pipeline.start()
    pipeline.now_s += 60
    pipeline.turn()
    assert (ORDERS, 1, 0) not in pipeline.lake.tables["shop.orders"].rows

    pipeline.minute()
    pipeline.minute()
    assert pipeline.lake.tables["shop.orders"].rows[-1] == (ORDERS, 1, 0)


@pytest.mark.parametrize("was_written", [True, False])
def test_a_table_that_is_behind_reads_old_partitions_before_those_that_came_later(pipeline, was_written):
    """A key may have moved to a new one, and its older changes must not come after that."""
    if was_written:
        pipeline.send(*messages(ORDERS, 0))
        pipeline.minute()
    pipeline.errors["shop.orders"] = RuntimeError("broken")
    old = messages(ORDERS, *range(was_written, 9))
    pipeline.send(*old)
    pipeline.minute()
    new = [replace(one, partition=1) for one in messages(ORDERS, *range(9))]
    for one in new[:6]:
        pipeline.send(one)
        pipeline.minute()
    pipeline.errors.clear()
    for one in new[6:]:
        pipeline.now_s += 300
        pipeline.send(one)
        pipeline.minute()

    rows = pipeline.lake.tables["shop.orders"].rows
    assert sorted(rows) == sorted((ORDERS, number, offset) for number in (0, 1) for offset in range(9))
    assert rows == sorted(rows)


def test_a_table_that_is_behind_is_given_no_new_partition_by_the_batches_of_the_others(pipeline):
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.errors["shop.orders"] = RuntimeError("broken")
    pipeline.send(*messages(ORDERS, 1, 2))
    pipeline.minute()
    pipeline.errors.clear()
    pipeline.now_s += 300
    pipeline.send(*messages(ORDERS, 0, partition=1))
    pipeline.minute()

    assert pipeline.lake.tables["shop.orders"].rows == [
        (ORDERS, 0, 0),
        (ORDERS, 0, 1),
        (ORDERS, 0, 2),
        (ORDERS, 1, 0),
    ]


def test_offsets_of_the_topic_before_say_nothing_of_a_partition_that_gets_its_leader_later(pipeline):
    pipeline.start(CONFIG.replace("table}", 'table}", on_hole: "backfill'))
    pipeline.send(*messages(ORDERS, 0), *messages(ORDERS, 0, 1, 2, partition=1, schema=0))
    pipeline.minute()
    pipeline.broker.ids[ORDERS] = "another id"
    pipeline.session.kafka[:] = [*messages(ORDERS, 0, 1), *messages(ORDERS, 0, 1, 2, partition=1)]
    pipeline.broker.without_leader = {(ORDERS, 1)}
    pipeline.minute()
    pipeline.broker.without_leader = set()
    pipeline.send(*messages(ORDERS, 3, partition=1))
    pipeline.minute()
    pipeline.minute()

    rows = pipeline.lake.tables["shop.orders"].rows
    assert [offset for _, partition, offset in rows if partition == 1] == [0, 1, 2, 3]


def test_a_table_that_is_behind_goes_on_where_there_are_leaders(pipeline):
    pipeline.errors["shop.orders"] = RuntimeError("broken")
    pipeline.send(*messages(ORDERS, 0), *messages(ORDERS, 0, partition=1))
    pipeline.minute()
    pipeline.errors.clear()
    pipeline.broker.without_leader = {(ORDERS, 1)}
    pipeline.send(*messages(CUSTOMERS, 0))
    pipeline.minute()

    assert pipeline.lake.tables["shop.orders"].rows == [(ORDERS, 0, 0)]


def test_dead_letters_are_sent_once_while_the_catalog_is_away(pipeline):
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.lake.away = True
    pipeline.send(
        *messages(ORDERS, 1, schema=8, value='{"schema": {}, "payload": {"op": "c"}}'), *messages(ORDERS, 2)
    )
    for _ in range(5):
        with pytest.raises(CatalogAway):
            pipeline.minute()
    pipeline.lake.away = False
    pipeline.minute()

    assert pipeline.rows("orders") == [0, 2]
    assert len(pipeline.dead_letters.sent) == 1


def test_a_message_that_nobody_can_read_and_a_table_that_is_behind_are_no_reason_to_lose_it(pipeline):
    """The driver before knew the schema, and left it to the table. This one does not, and the slice has no other message."""
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.errors["shop.orders"] = RuntimeError("its disk is full")
    pipeline.send(*messages(ORDERS, 1, is_readable=False))
    pipeline.minute()
    assert pipeline.dead_letters.sent == []

    pipeline.errors.clear()
    pipeline.start()
    pipeline.send(*messages(ORDERS, 2, is_readable=False))
    pipeline.minute()
    pipeline.start()
    pipeline.minute()

    # The second one was sent on when the front passed it, as one that belongs to no table.
    assert sorted(one.offset for one in pipeline.dead_letters.sent) == [1, 2]
    assert not pipeline.is_left_out("orders")


def test_files_of_a_batch_whose_dead_letters_cannot_be_sent_are_deleted(pipeline):
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.dead_letters.is_full = True
    pipeline.send(
        *messages(ORDERS, 1), *messages(ORDERS, 2, schema=8, value='{"schema": {}, "payload": {"op": "c"}}')
    )
    forgotten = len(pipeline.lake.forgotten)
    pipeline.now_s += 60
    pipeline.turn()

    # Once where the new schema comes back as a sample, and once where its message cannot be sent.
    assert (pipeline.rows("orders"), len(pipeline.lake.forgotten)) == ([0], forgotten + 2)
    pipeline.dead_letters.is_full = False
    pipeline.minute()
    assert (pipeline.rows("orders"), len(pipeline.lake.forgotten)) == ([0, 1], forgotten + 2)


def test_dead_letters_of_a_topic_that_was_made_again_are_sent_though_their_offsets_were(pipeline):
    nameless = {"schema": 8, "value": '{"schema": {}, "payload": {"op": "c"}}'}
    pipeline.send(*messages(ORDERS, 0, 1, **nameless))
    pipeline.minute()
    pipeline.session.kafka[:] = messages(ORDERS, 0, **nameless)
    pipeline.broker.ids[ORDERS] = "another id"
    pipeline.minute()

    assert [one.offset for one in pipeline.dead_letters.sent] == [0, 1, 0]


def test_a_topic_that_cannot_be_read_is_left_out_of_the_batches_of_the_others():
    pipeline = Pipeline(CONFIG.replace("messages: 4", "messages: 100"))
    names = [f"shop.public.t{number}" for number in range(16)]
    pipeline.send(*(Message(name, 0) for name in names))
    pipeline.minute()
    pipeline.session.unreadable = {names[3]}
    for offset in (1, 2):
        pipeline.send(*(Message(name, offset) for name in names))
        reads = pipeline.session.reads
        pipeline.minute()

        assert all(pipeline.rows(f"t{number}")[-1] == offset for number in range(16) if number != 3)
    assert pipeline.session.reads - reads <= 5

    pipeline.session.unreadable = set()
    pipeline.now_s += 300
    pipeline.minute()
    assert pipeline.rows("t3") == [0, 1, 2]


def test_rows_that_are_too_large_together_pass_in_smaller_pieces():
    pipeline = Pipeline(CONFIG.replace("messages: 4", "messages: 100"))
    pipeline.send(*messages(ORDERS, *range(90)), *messages(CUSTOMERS, 0))
    pipeline.session.at_most = {ORDERS: 7}
    pipeline.minute()
    assert pipeline.rows("customers") == [0]

    for _ in range(30):
        pipeline.minute()
    assert pipeline.rows("orders") == list(range(90))


def test_a_table_that_is_behind_catches_up_in_pieces_that_its_workers_can_hold():
    pipeline = Pipeline(CONFIG.replace("messages: 4", "messages: 100"))
    pipeline.errors["shop.orders"] = RuntimeError("it cannot be written")
    pipeline.send(*messages(ORDERS, *range(90)))
    pipeline.minute()
    del pipeline.errors["shop.orders"]
    pipeline.session.at_most = {ORDERS: 7}

    for _ in range(30):
        pipeline.minute()
    assert pipeline.rows("orders") == list(range(90))


def test_what_holds_nothing_for_a_table_is_not_passed_in_pieces_as_small_as_its_rows_are_large():
    """Tombstones, or messages of another table of the topic, by the million."""
    pipeline = Pipeline(CONFIG.replace("messages: 4", "messages: 100"))
    pipeline.errors["shop.orders"] = RuntimeError("it cannot be written")
    pipeline.send(*messages(ORDERS, 0, 1), *messages(ORDERS, *range(2, 2_000), schema=TOMBSTONE))
    pipeline.minute()
    del pipeline.errors["shop.orders"]
    pipeline.session.at_most = {ORDERS: 1}
    for _ in range(20):
        pipeline.minute()
    assert pipeline.rows("orders") == [0, 1]

    pipeline.send(*messages(ORDERS, 2_000))
    pipeline.minute()
    assert pipeline.rows("orders") == [0, 1, 2_000]


# Shared topics, unknown messages, two drivers


def test_messages_that_belong_nowhere_are_dead_letters_once(pipeline):
    nameless = messages(ORDERS, 1, schema=8, value='{"schema": {}, "payload": {"op": "c"}}')
    pipeline.send(*messages(ORDERS, 0), *nameless)
    pipeline.minute()
    pipeline.start()
    pipeline.minute()

    assert [(one.topic, one.offset) for one in pipeline.dead_letters.sent] == [(ORDERS, 1)]
    assert pipeline.rows("orders") == [0]


def test_a_table_that_comes_later_gets_what_its_topic_holds(pipeline):
    """Another table of a topic that was read before: the streams say so now."""
    pipeline.send(*messages(ORDERS, 0, 1))
    pipeline.minute()
    pipeline.start(CONFIG.replace("shop.{table}", "lake.{table}"))
    pipeline.send(*messages(ORDERS, 2))
    pipeline.minute()

    assert sorted(offset for *_, offset in pipeline.lake.tables["lake.orders"].rows) == [0, 1, 2]


@pytest.mark.parametrize("restart", [False, True])
def test_a_table_that_the_streams_name_now_is_built_though_its_topic_is_quiet(pipeline, restart):
    pipeline.send(*messages(ORDERS, *range(6)), *messages(CUSTOMERS, 0))
    pipeline.minute()
    config = CONFIG.replace("streams: [", 'streams: [{topics: ".*orders", table: "lake.orders"}, ')
    pipeline.start(config)
    pipeline.now_s += 60
    pipeline.turn()
    if restart:
        pipeline.start(config)
    pipeline.minute()

    assert sorted(offset for *_, offset in pipeline.lake.tables["lake.orders"].rows) == list(range(6))
    assert (pipeline.rows("orders"), pipeline.rows("customers")) == (list(range(6)), [0])

    pipeline.start(config)
    reads = pipeline.session.reads
    pipeline.minute()
    assert pipeline.session.reads == reads


def test_a_driver_that_begins_takes_the_pipeline_over(pipeline):
    first = pipeline.driver
    pipeline.start()
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 1))
    with pytest.raises(TakenOver):
        first.turn(pipeline.now_s + 60)
    pipeline.minute()

    assert pipeline.rows("orders") == [0, 1]


def test_a_driver_that_begins_puts_its_name_on_the_marks_at_once(pipeline):
    """One before it, whose producer has ended, must see it before its first batch is over."""
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    before = pipeline.marks.written
    pipeline.start()

    assert pipeline.marks.written == before == {(ORDERS, 0)}


@pytest.mark.parametrize(("mode", "told"), [("mirror", [ORDERS]), ("changelog", [])])
def test_a_compacted_topic_of_a_mirror_is_told_once(pipeline, mode, told):
    """What was deleted while it was behind is not there any more."""
    pipeline.broker.compacted_topics = {ORDERS}
    pipeline.send(*messages(ORDERS, 0), *messages(CUSTOMERS, 0))
    with capture_logs() as said:
        pipeline.start(CONFIG.replace('table}"', f'table}}", mode: {mode}'))
        pipeline.minute()
        pipeline.minute()

    assert [one["topic"] for one in said if one["event"] == "topic_compacted"] == told


def test_what_waits_is_told_by_topic(pipeline):
    pipeline.errors["shop.orders"] = TableRefused("a person must look")
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 1, 2))
    pipeline.now_s += 1
    pipeline.turn()

    # The table that failed waits for the message that the others have passed.
    assert pipeline.sample("unread_messages", topic=ORDERS) == 3
    assert pipeline.sample("last_turn_timestamp_seconds") > 0


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9))
def test_whatever_happens_each_table_ends_with_each_message_once(seed):
    play(seed)


def play(seed):
    """Failures, restarts, lost marks, two drivers, new partitions: then all is well again."""
    dice, pipeline = random.Random(seed), Pipeline(CONFIG.replace("messages: 4", f"messages: {1 + seed % 7}"))
    sent = {}
    for _ in range(dice.randrange(3, 12)):
        for _ in range(dice.randrange(4)):
            topic, partition = dice.choice([ORDERS, CUSTOMERS]), dice.randrange(3)
            offset = sent.get((topic, partition), 0)
            sent[topic, partition] = offset + 1
            schema, is_readable = dice.choice([SCHEMA, SCHEMA, 0]), dice.random() < 0.7
            pipeline.send(Message(topic, offset, partition, schema=schema, is_readable=is_readable))
        match dice.randrange(8):
            case 0:
                pipeline.errors["shop.orders"] = RuntimeError("broken")
            case 1:
                pipeline.errors.clear()
            case 2:
                pipeline.start()
            case 3:
                pipeline.store.clear()
                pipeline.start()
            case 4:
                pipeline.lake.away = True
                with pytest.raises((CatalogAway, OSError)):
                    pipeline.start()
                pipeline.lake.away = False
                pipeline.start()
            case _:
                pipeline.now_s += dice.choice([1, 30, 200])
                pipeline.turn()
    pipeline.errors.clear()
    for _ in range(4):
        pipeline.now_s += 100
        pipeline.minute()

    for topic in (ORDERS, CUSTOMERS):
        table = pipeline.lake.tables.get("shop." + topic.rpartition(".")[2])
        expected = [
            (one.topic, one.partition, one.offset)
            for one in pipeline.session.kafka
            if one.topic == topic and one.schema == SCHEMA and one.is_readable
        ]
        assert sorted(table.rows if table is not None else []) == sorted(expected)
    unreadable = [one for one in pipeline.session.kafka if one.schema == SCHEMA and not one.is_readable]
    sent = {(one.topic, one.partition, one.offset) for one in pipeline.dead_letters.sent}
    assert sent == {(one.topic, one.partition, one.offset) for one in unreadable}
    pipeline.driver.stop()
