"""A write that loses a race, or whose answer is lost: on a real catalog, with upserts that do as they are told."""

from dataclasses import replace

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from structlog.testing import capture_logs

from isotherm.contract.events import decode
from isotherm.contract.summary import INGEST_PIPELINE, INGEST_TOKEN
from isotherm_ingest.announce.intents import Intents
from isotherm_ingest.decode.debezium_schema import change_schema
from isotherm_ingest.failures import TableRefused
from isotherm_ingest.kafka import BrokerError
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.plan.resume_or_halt import Place
from isotherm_ingest.streams import Stream
from isotherm_ingest.tables.lake import PIPELINE_PROPERTY, Lake, TableNow
from isotherm_ingest.tables.offset_vector import Source, encode
from isotherm_ingest.tables.portion import Behind, Done, Group, Ready
from isotherm_ingest.tables.sessions import Sessions
from isotherm_ingest.tables.tools import Tools
from isotherm_ingest.tables.writer import MAX_ATTEMPTS, TableWriter
from isotherm_ingest.workers.survey import Survey
from support.messages import Broker, Session, envelope, key
from support.writes import (
    FOUND,
    NAME,
    ONE_ROW,
    TOPIC,
    WRITTEN,
    DeadLetters,
    Spark,
    Upserts,
    fails,
    letters,
    portion,
)

UNKNOWN = RuntimeError("org.apache.iceberg.exceptions.CommitStateUnknownException: time out")
CONFLICT = RuntimeError("org.apache.iceberg.exceptions.CommitFailedException: the table moved on")


@pytest.fixture
def properties(tmp_path):
    return {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }


@pytest.fixture
def table(properties):
    """Made by this pipeline, and empty."""
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace("shop")
    schema = Schema(NestedField(1, "id", LongType()))
    return catalog.create_table(NAME, schema, properties={PIPELINE_PROPERTY: "shop"})


@pytest.fixture
def upserts(table):
    return Upserts(table)


@pytest.fixture
def broker():
    return Broker(Session())


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def dead_letters():
    return DeadLetters()


@pytest.fixture
def session():
    return Spark()


@pytest.fixture
def writer(properties, session, upserts, broker, metrics, dead_letters):
    intents = Intents(broker, "control", "shop")
    stream = Stream(topics="shop.*", table="shop.{table}")
    tools = Tools(Lake("lake", properties), intents, dead_letters, metrics, "shop", None)
    yield TableWriter(NAME, stream, Sessions(session), tools, upserts)
    intents.stop()


def test_a_column_that_was_dropped_comes_back_with_a_message_and_not_before(writer, table, session):
    """What the driver remembers of a schema is no reason to alter the table."""
    schema = change_schema(envelope("orders", ("id", "int64"), ("dropped", "string")), key("id"))
    now = portion(0, 5)
    (newer,) = now.groups
    remembered = replace(now, groups=(newer, Group(TOPIC, 8, schema, is_met=False)))
    ready = writer.prepare(remembered)

    assert "ADD COLUMN" not in str(session.statements)
    assert (ready.look.groups, set(ready.task.decoders)) == ((newer,), {(TOPIC, 7)})

    writer.prepare(replace(now, groups=(newer, Group(TOPIC, 8, schema))))
    assert "ADD COLUMNS (`dropped` STRING)" in str(session.statements)


def test_a_large_table_is_written_by_as_many_tasks_as_there_are_cores_now(writer, session):
    """Executors come after the driver has begun, and go."""
    large = portion(0, 20_001)
    found = []
    for cores in (2, 8, 4):
        session.defaultParallelism = cores
        found.append(writer.prepare(large).task.buckets)

    assert found == [2, 8, 4]
    assert writer.prepare(portion(0, 20_000)).task.buckets == 1


def written(writer, portion):
    """How many rows are written, of a portion in which the workers find one."""
    ready = writer.prepare(portion)
    return writer.write(ready, Done(Survey(rows=1))).rows if isinstance(ready, Ready) else 0


def told(broker):
    """What the intents said, one after the other."""
    events = [decode(record.value) for record in broker.sent]
    assert len({event.intent_id for event in events}) == 1
    return list(dict.fromkeys((event.state, event.attempt, event.outcome) for event in events))


def vector(table):
    return TableNow(table.refresh()).token("shop").source.vector


def rows(table):
    return table.refresh().scan().to_arrow().num_rows


def test_rows_and_vector_are_one_snapshot_and_what_comes_again_is_left_out(writer, upserts, table):
    upserts.fates = [upserts.lands]

    assert written(writer, portion(0, 5)) == 1
    assert vector(table) == {TOPIC: {0: 5}}
    assert written(writer, portion(0, 5)) == written(writer, portion(2, 4)) == 0
    assert (upserts.tried, rows(table)) == (1, 1)


def test_only_a_schema_that_came_is_told_to_be_incompatible(writer):
    """The driver remembers all of them."""
    texts = change_schema(envelope("orders", ("id", "string")), key("id"))
    now = portion(0, 5)
    ready = writer.prepare(replace(now, groups=(*now.groups, Group(TOPIC, 8, texts))))
    (refused,) = ready.task.refused.values()
    problems = {"nothing of it": ["undecodable:"], "some": ["undecodable:", refused, refused]}
    told = {}
    for name, some in problems.items():
        done = Done(Survey(), letters=lambda found=some: [letters(*found)], letter_count=1)
        with capture_logs() as logs:
            writer.write(ready, done)
        told[name] = [one["rows"] for one in logs if one["event"] == "incompatible_schema"]

    assert told == {"nothing of it": [], "some": [2]}


def test_dead_letters_are_sent_once_though_the_commit_fails_again_and_again(writer, upserts, dead_letters):
    upserts.fates = [fails(RuntimeError("no space left"))] * 2 + [upserts.lands] * 2
    pieces = [letters("undecodable:", "undecodable:"), letters("undecodable:", first=3)]
    dead_letters.fails_after = 1

    for error in ("not acknowledged", "no space", "no space"):
        with pytest.raises(RuntimeError, match=error):
            writer.write(
                writer.prepare(portion(0, 5)), Done(Survey(rows=1), letters=lambda: pieces, letter_count=3)
            )
    more = [*pieces, letters("undecodable:", first=5)]
    writer.write(writer.prepare(portion(0, 6)), Done(Survey(rows=1), letters=lambda: more, letter_count=4))
    assert dead_letters.sent == [0, 1, 3, 5]

    # What is done is forgotten: another message may have got the place.
    other = [letters("undecodable:", first=5)]
    writer.write(writer.prepare(portion(6, 9)), Done(Survey(rows=1), letters=lambda: other, letter_count=1))
    assert dead_letters.sent == [0, 1, 3, 5, 5]


def test_a_dead_letter_in_the_place_of_one_that_was_sent_is_sent(writer, upserts, dead_letters):
    """Its topic was made again, or has lost its newest messages."""
    upserts.fates = [fails(RuntimeError("no space left"))] * 2
    one = letters("undecodable:")
    for some in (one, one.set_column(2, "timestamp", [[1]])):
        with pytest.raises(RuntimeError, match="no space"):
            writer.write(
                writer.prepare(portion(0, 5)),
                Done(Survey(rows=1), letters=lambda some=some: [some], letter_count=1),
            )

    assert dead_letters.sent == [0, 0]


def test_a_table_that_another_driver_makes_and_fills_first_has_its_rows(writer, table, session):
    """The vector was read where there was no table; rows that came with it are below no vector that was read."""
    catalog, schema = table.catalog, table.schema()
    catalog.drop_table(NAME)

    def made():
        other = catalog.create_table(NAME, schema, properties={PIPELINE_PROPERTY: "shop"})
        token = encode(Source({TOPIC: {0: 5}}, "cluster", {TOPIC: "id"}))
        other.append(ONE_ROW, snapshot_properties={INGEST_PIPELINE: "shop", INGEST_TOKEN: token})

    session.on_create = made
    assert isinstance(writer.prepare(portion(0, 5)), Place)


def test_a_write_whose_answer_is_lost_is_looked_for_and_not_repeated(writer, upserts, broker, table):
    upserts.fates = [fails(UNKNOWN, upserts.lands)]

    assert written(writer, portion(0, 5)) == 1
    assert (upserts.tried, rows(table)) == (1, 1)
    assert told(broker) == [("open", 1, ""), ("closed", 1, "committed")]


def test_a_write_whose_answer_is_lost_and_that_did_not_land_is_repeated(writer, upserts, table):
    upserts.fates = [fails(UNKNOWN), upserts.lands]

    assert written(writer, portion(0, 5)) == 1
    assert (upserts.tried, rows(table)) == (2, 1)


def test_a_lost_race_is_computed_again_under_the_same_intent(writer, upserts, broker, table):
    other = table.catalog.load_table(NAME)
    lost = fails(CONFLICT, lambda _: other.refresh().append(ONE_ROW))
    upserts.fates = [upserts.lands, lost, upserts.lands]
    written(writer, portion(0, 3))  # what is written for an empty table is read again after a race
    broker.sent.clear()

    assert written(writer, portion(0, 5)) == 1
    assert (upserts.tried, rows(table)) == (3, 3)
    assert vector(table) == {TOPIC: {0: 5}}
    assert told(broker) == [("open", 1, ""), ("open", 2, ""), ("closed", 2, "committed")]


def test_a_rollback_that_wins_the_race_is_not_hidden_by_what_is_said_of_another_topic(writer, upserts, table):
    """The batch is of one of its topics. What the vector said of the other one was of what is gone."""
    other = "shop.public.customers"

    def says(of_other):
        vector = {TOPIC: {0: 3}, other: {0: of_other}}
        token = encode(Source(vector, "cluster", {TOPIC: "id", other: "other id"}))
        return {INGEST_PIPELINE: "shop", INGEST_TOKEN: token}

    table.append(ONE_ROW, snapshot_properties=says(2))
    back_to = table.current_snapshot().snapshot_id
    table.append(ONE_ROW, snapshot_properties=says(5))

    def roll_back(_):
        table.refresh().manage_snapshots().rollback_to_snapshot(back_to).commit()

    upserts.fates = [fails(CONFLICT, roll_back), upserts.lands]
    with pytest.raises(Behind):
        written(writer, portion(3, 7))
    assert (upserts.tried, table.refresh().current_snapshot().snapshot_id) == (1, back_to)
    assert written(writer, portion(3, 7)) == 1
    assert vector(table) == {TOPIC: {0: 7}, other: {0: 2}}


def test_an_intent_names_what_was_written_before_anything_is_located_and_then_what_was_found(
    writer, upserts, broker
):
    """What names the partitions of its rows so early loses no race for them while it locates, however long that takes."""
    located = []
    locate = upserts.locate
    upserts.locate = lambda: located.extend(broker.sent) or locate()
    upserts.fates = [upserts.lands]
    written(writer, portion(0, 5))

    events = [decode(record.value) for record in broker.sent]
    assert [event.partitions for event in events] == [(WRITTEN,), (FOUND, WRITTEN), (FOUND, WRITTEN)]
    assert [decode(record.value).partitions for record in located] == [(WRITTEN,)]
    assert [event.state for event in events] == ["open", "open", "closed"]


def test_a_write_that_is_computed_again_names_all_that_it_named_before(writer, upserts, broker):
    upserts.fates = [fails(CONFLICT), upserts.lands]
    written(writer, portion(0, 5))

    events = [decode(record.value) for record in broker.sent]
    again = [event.partitions for event in events if (event.state, event.attempt) == ("open", 2)]
    assert again == [(FOUND, WRITTEN)]


def test_a_write_that_always_loses_is_given_up_and_its_intent_is_closed(
    writer, upserts, broker, metrics, table
):
    upserts.fates = [fails(CONFLICT)] * MAX_ATTEMPTS

    with pytest.raises(RuntimeError, match="moved on"):
        written(writer, portion(0, 5))
    assert told(broker)[-1] == ("closed", MAX_ATTEMPTS, "failed")
    recomputed = metrics.registry.get_sample_value("isotherm_ingest_merges_recomputed_total", {"table": NAME})
    assert recomputed == MAX_ATTEMPTS - 1
    assert rows(table) == 0


def test_where_somebody_commits_while_rows_are_read_the_table_is_looked_at_once_more(
    writer, upserts, broker, metrics
):
    """Nothing is located in a table of before, and nothing counts as computed again. It looks twice more, not for ever."""
    said = []

    def is_overtaken():
        said.append([decode(record.value).partitions for record in broker.sent])
        return True

    upserts.overtaken, upserts.fates = is_overtaken, [upserts.lands]

    assert written(writer, portion(0, 5)) == 1

    assert (upserts.made, upserts.tried) == (3, 1)
    # Asked once the intent says which partitions are to be left alone, and once more where it says more.
    assert [one[-1] for one in said] == [(WRITTEN,), (FOUND, WRITTEN)]
    assert told(broker)[-1] == ("closed", 1, "committed")
    assert not metrics.registry.get_sample_value("isotherm_ingest_merges_recomputed_total", {"table": NAME})


def test_files_are_deleted_where_no_commit_was_ever_asked_for(writer, upserts, broker, tmp_path):
    """The workers wrote them, and then the broker did not take the intent; or nothing is left to be written."""
    one = tmp_path / "one.parquet"
    done = Done(Survey(rows=1), ({"file-path": f"file://{one}"},))
    one.touch()
    broker.unsendable = True
    with pytest.raises(BrokerError):
        writer.write(writer.prepare(portion(0, 5)), done)
    assert not one.exists()

    broker.unsendable = False
    one.touch()
    upserts.fates = [fails(UNKNOWN)] * MAX_ATTEMPTS
    with pytest.raises(RuntimeError, match="time out"):
        writer.write(writer.prepare(portion(0, 5)), done)
    assert one.exists()  # whatever was answered, it may be the table's


def test_any_other_failure_is_not_repeated(writer, upserts, broker):
    upserts.fates = [fails(RuntimeError("no space left on device"))]

    with pytest.raises(RuntimeError, match="no space left"):
        written(writer, portion(0, 5))
    assert told(broker) == [("open", 1, ""), ("closed", 1, "failed")]


def test_another_driver_that_was_faster_has_written_it_for_us(writer, upserts, table):
    """A driver that was thought dead commits the same offsets between our look and our commit."""
    upserts.fates = [fails(CONFLICT, upserts.lands)]

    assert written(writer, portion(0, 5)) == 0
    assert (upserts.tried, rows(table)) == (1, 1)


def test_a_table_with_rows_of_somebody_else_is_not_written(writer, upserts, table):
    table.transaction().remove_properties(PIPELINE_PROPERTY).commit_transaction()
    table.append(ONE_ROW)

    with pytest.raises(TableRefused, match="has snapshots and no token"):
        written(writer, portion(0, 5))
    assert upserts.tried == 0


def test_a_table_that_lost_the_snapshots_with_its_token_is_not_written(writer, upserts, table):
    """Its first snapshot is gone too, so nobody knows any more whether something of ours was in it."""
    upserts.fates = [upserts.lands]
    written(writer, portion(0, 5))
    (ours,) = table.refresh().snapshots()
    table.append(ONE_ROW)
    table.maintenance.expire_snapshots().by_id(ours.snapshot_id).commit()

    with pytest.raises(TableRefused, match="has snapshots and no token"):
        written(writer, portion(0, 5))
    assert upserts.tried == 1
