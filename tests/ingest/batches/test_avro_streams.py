"""Where the messages of an Avro stream go: the registry is asked by the driver, and the workers are told."""

import json

import pyarrow as pa
import pytest

from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.batches import schemas as module
from isotherm_ingest.batches.routing import Routing
from isotherm_ingest.decode.kinds import SchemaError
from isotherm_ingest.plan.shares import count_of
from isotherm_ingest.registry import NotKnownYetError, RegistryAwayError, StillUnknownError, TooSlowError
from isotherm_ingest.streams import StreamsConfig
from isotherm_ingest.workers.decoding import Decoding
from isotherm_ingest.workers.tasks import SAMPLE, BatchTask
from support.avro import ENVELOPE, KEY, change, confluent, written
from support.declared import CONFIG
from support.messages import Message
from support.pipelines import Pipeline
from support.wire import from_kafka

ROW = {"id": 1, "name": None, "amount": None, "at": None, "tags": None, "paid": None}
ORDERS, SENSORS = "shop.public.orders", "events.sensors"
STREAMS = CONFIG.replace(
    "streams:",
    "registry: {url: 'http://registry'}\nstreams:\n  - {topics: 'shop.*', table: 'shop.{table}', format: avro}",
)


class FakeClient:
    """Of the registry."""

    def __init__(self, *schemas):
        self.schemas, self.error, self.asked = dict(enumerate(map(json.dumps, schemas), 1)), None, []
        self.unknown, self.unknown_for_long = set(), set()
        self.left = 1_000
        """So often it may be asked."""

    def schema(self, number):
        if not self.left:
            raise TooSlowError
        self.left -= 1
        self.asked.append(number)
        if self.error is not None:
            raise self.error
        if number in self.unknown:
            raise NotKnownYetError(number)
        if number in self.unknown_for_long:
            raise StillUnknownError(number)
        if number not in self.schemas:
            raise SchemaError(f"{number} is none")
        return self.schemas[number]


def routing(client, streams=STREAMS):
    return Routing(parse_yaml(streams, "streams.yaml", StreamsConfig), None, lambda _, stream: stream, client)


def sample(*ids, source=None):
    return json.dumps({"ids": ids} if source is None else {"ids": ids, "source": source})


def known(found):
    return found.formats([ORDERS])[ORDERS].schemas


def test_what_the_workers_ask_for_is_fetched_and_told_and_then_a_message_says_its_source():
    client = FakeClient(ENVELOPE, KEY)
    found = routing(client)
    assert known(found) == {}

    found.learn([((ORDERS, 5), sample(1, 2), None)], set())
    assert known(found) == client.schemas
    assert found.told({ORDERS}, {"shop.orders"}) == ({}, {})

    found.learn([((ORDERS, 5), sample(1, 2, source={"schema": "public", "table": "orders"}), None)], set())
    ((group, table, _),) = found.of({ORDERS}, set())
    assert (table, group.schema.key, len(group.schema.columns)) == ("shop.orders", ("id",), 6)
    assert client.asked == [1, 2]
    assert found.formats([SENSORS])[SENSORS].has_envelope is False


def test_two_kinds_of_messages_that_ask_for_one_schema_have_it_fetched_for_both():
    """With keys and without, in one batch: what the second asks for is known by then, and it is no sample all the same."""
    client = FakeClient(ENVELOPE, KEY)
    found = routing(client)
    found.learn([((ORDERS, 5), sample(1, 2), None), ((ORDERS, 6), sample(1), None)], set())

    assert set(client.asked) == {1, 2}
    assert found.told({ORDERS}, {"shop.orders"}) == ({}, {})


def test_while_the_registry_is_away_nothing_is_learned_of_its_messages_and_nothing_is_refused():
    client = FakeClient(ENVELOPE)
    client.error = RegistryAwayError("away")
    found = routing(client)
    with pytest.raises(RegistryAwayError):
        found.learn([((ORDERS, 5), sample(1), None)], set())
    assert found.told({ORDERS}, set()) == ({}, {})

    client.error = None
    found.learn([((ORDERS, 5), sample(1), None)], set())
    assert known(found) == client.schemas


def test_ids_that_nobody_knows_wait_together_and_what_is_known_is_learned_meanwhile():
    """One after the other, a hundred of them would keep a topic for a day."""
    client = FakeClient("int", "int", ENVELOPE)
    client.unknown = {1, 2}
    found = routing(client)
    with pytest.raises(NotKnownYetError):
        found.learn([((ORDERS, number), sample(number), None) for number in (1, 2, 3)], set())

    assert client.asked == [1, 2, 3]
    assert list(known(found)) == [3]


def test_a_slow_registry_is_asked_for_all_ids_in_turn():
    """Else those at the end would never be asked for, and wait for ever behind some that nobody knows."""
    client = FakeClient()
    client.unknown = set(range(1, 8))
    found = routing(client)
    samples = [((ORDERS, number), sample(number), None) for number in range(1, 8)]
    for _ in range(4):
        client.left = 2
        with pytest.raises(RegistryAwayError):
            found.learn(samples, set())

    assert client.asked == [1, 2, 3, 4, 5, 6, 7, 1]


KEYED = STREAMS.replace("format: avro", "format: avro, key: [id]")


def asked_and_learned(found, *messages, keys):
    """As the workers and the driver do in a batch: what the last reading sent, and met."""
    batch = from_kafka(*messages)
    batch = batch.set_column(0, "key", pa.array(keys, pa.binary()))
    for _ in range(5):
        routes, problems = found.told({ORDERS}, {})
        task = BatchTask({}, routes, problems, found.formats([ORDERS]))
        lines = list(Decoding(task).lines([batch]))
        samples = [one.data() for one in lines if one.kind == SAMPLE]
        if not samples:
            return {one.kind for one in lines}
        found.learn([((topic, number), value, key) for topic, number, value, key in samples], set())
    raise AssertionError("the workers ask again and again")


@pytest.mark.parametrize(
    "streams", [KEYED, KEYED.replace("key: [id]", "mode: changelog")], ids=["key", "log"]
)
@pytest.mark.parametrize(
    "key",
    [(5).to_bytes(8), confluent(3, b"x"), confluent(4, b"x"), confluent(5, b"x"), b"abc", None],
    ids=["a long", "no Avro", "a schema nobody should decode by", "unknown", "no id", "none"],
)
def test_a_key_that_is_none_of_avro_counts_as_no_key_at_once(streams, key):
    """LongSerializer's keys have the id 0, and each may be some other schema's, or nobody's."""
    client = FakeClient(ENVELOPE, KEY)
    client.schemas[4] = "[]"
    client.unknown = {0, 5}
    found = routing(client, streams)
    message = confluent(1, written(ENVELOPE, change(after=ROW)))

    assert asked_and_learned(found, message, keys=[key]) == set()
    ((group, table, _),) = found.of({ORDERS}, set())
    assert (table, group.schema.key) == ("shop.orders", ())


def test_a_key_that_is_known_a_batch_later_is_one_from_then_on():
    client = FakeClient(ENVELOPE, KEY)
    client.unknown = {2}
    found = routing(client, KEYED)
    message, key = confluent(1, written(ENVELOPE, change(after=ROW))), confluent(2, written(KEY, {"id": 1}))
    asked_and_learned(found, message, keys=[key])
    client.unknown = set()
    found.forget_old({ORDERS})
    asked_and_learned(found, message, keys=[key])

    assert [group.schema.key for group, _, _ in found.of({ORDERS}, set())] == [(), ("id",)]


INSERT, WHOLE = change(after=ROW), change("d", ROW)
BY_KEY = change("d")


@pytest.mark.parametrize(
    ("values", "waits"),
    [
        ([BY_KEY], True),
        ([INSERT, BY_KEY], True),
        ([*[INSERT] * 300, BY_KEY], True),
        ([INSERT, WHOLE], False),
        ([INSERT], False),
    ],
    ids=["alone", "behind", "behind many", "with its old row", "none"],
)
@pytest.mark.parametrize(
    "streams", [KEYED, KEYED.replace("key: [id]", "mode: changelog")], ids=["key", "log"]
)
def test_a_delete_that_has_nothing_but_its_key_waits_for_the_schema_of_it(streams, values, waits):
    """It was a dead letter while a replica was a second behind, and the row stayed."""
    client = FakeClient(ENVELOPE, KEY)
    client.unknown = {2}
    found = routing(client, streams)
    key = confluent(2, written(KEY, {"id": 1}))
    given = [confluent(1, written(ENVELOPE, one)) for one in values], [key] * len(values)
    if waits:
        with pytest.raises(NotKnownYetError):
            asked_and_learned(found, *given[0], keys=given[1])
        client.unknown = set()
        found.forget_old({ORDERS})
    asked_and_learned(found, *given[0], keys=given[1])

    assert [group.schema.key for group, _, _ in found.of({ORDERS}, set())] == [("id",) if waits else ()]


def test_a_delete_waits_also_where_it_comes_in_a_later_group_or_another_task():
    client = FakeClient(ENVELOPE, KEY)
    client.unknown = {2}
    found = routing(client, KEYED)
    found.learn([((ORDERS, 5), sample(1, 2), None)], set())
    asks = [json.dumps({"ids": [1, 2], "deletes": deletes}) for deletes in (False, True)]
    with pytest.raises(NotKnownYetError):
        found.learn([((ORDERS, 5), one, None) for one in asks], set())

    batches = [from_kafka(confluent(1, written(ENVELOPE, one))) for one in (INSERT, BY_KEY)]
    keys = pa.array([confluent(2, written(KEY, {"id": 1}))], pa.binary())
    task = BatchTask({}, {}, {}, found.formats([ORDERS]))
    lines = [*Decoding(task).lines([one.set_column(0, "key", keys) for one in batches])]
    assert [json.loads(one.data()[2]) for one in lines if one.kind == SAMPLE] == [*map(json.loads, asks)]


def test_an_id_of_keys_that_was_unknown_for_long_is_one_as_soon_as_the_registry_knows_it():
    """Until then it costs a question a batch, and no second reading."""
    client = FakeClient(ENVELOPE, KEY)
    client.unknown_for_long = {2}
    found = routing(client, KEYED)
    message, key = confluent(1, written(ENVELOPE, BY_KEY)), confluent(2, written(KEY, {"id": 1}))
    asked_and_learned(found, message, keys=[key])
    for _ in range(3):
        found.forget_old({ORDERS})
        assert found.formats([ORDERS])[ORDERS].no_keys == {b"2"}
    assert client.asked == [1, 2, 2, 2, 2]

    client.error = RegistryAwayError("away")
    found.forget_old({ORDERS})
    client.error, client.unknown_for_long = None, set()
    assert found.formats([ORDERS])[ORDERS].no_keys == {b"2"}
    found.forget_old({ORDERS})
    asked_and_learned(found, message, keys=[key])
    assert [group.schema.key for group, _, _ in found.of({ORDERS}, set())] == [(), ("id",)]


def test_what_will_never_be_a_key_is_asked_for_once():
    client = FakeClient(ENVELOPE)
    found = routing(client, KEYED)
    for _ in range(3):
        asked_and_learned(found, confluent(1, written(ENVELOPE, change(after=ROW))), keys=[bytes(8)])
        found.forget_old({ORDERS})

    assert client.asked == [1, 0]


def test_a_mirror_that_has_its_key_from_the_messages_waits_for_the_schema_of_their_keys():
    client = FakeClient(ENVELOPE)
    client.unknown = {2}
    with pytest.raises(NotKnownYetError):
        routing(client).learn([((ORDERS, 5), sample(1, 2), None)], set())


OWN = "io.debezium.connector"


@pytest.mark.parametrize(
    ("name", "fields", "value"),
    [
        (f"{OWN}.common.Heartbeat", {"ts_ms": "long"}, {"ts_ms": 5}),
        (f"{OWN}.common.TransactionMetadataValue", {"status": "string"}, {"status": "BEGIN"}),
        (
            f"{OWN}.mysql.SchemaChangeValue",
            {
                "source": {"type": "record", "name": "S", "fields": [{"name": "db", "type": "string"}]},
                "ddl": "string",
            },
            {"source": {"db": "shop"}, "ddl": "ALTER"},
        ),
    ],
    ids=["heartbeat", "transaction", "schema change"],
)
def test_what_debezium_says_of_itself_is_no_dead_letter(name, fields, value):
    schema = {
        "type": "record",
        "name": "own",
        "fields": [{"name": field, "type": kind} for field, kind in fields.items()],
        "connect.name": name,
    }
    found = routing(FakeClient(schema))

    assert asked_and_learned(found, confluent(1, written(schema, value)), keys=[None]) == set()
    assert found.told({ORDERS}, set()) == ({}, {})


def test_a_schema_that_there_is_not_refuses_messages_until_the_next_batch():
    """It may be there by then."""
    client = FakeClient(ENVELOPE)
    client.error = SchemaError("unknown")
    found = routing(client)
    found.learn([((ORDERS, 5), sample(1), None)], set())
    assert found.told({ORDERS}, set()) == ({}, {(ORDERS, 5): "no_schema:unknown"})

    found.forget_old({SENSORS})
    assert found.told({ORDERS}, set())[1]
    found.forget_old({ORDERS})
    assert found.told({ORDERS}, set()) == ({}, {})


def test_a_schema_by_which_nobody_should_decode_refuses_its_messages():
    found = routing(FakeClient({**ENVELOPE, "fields": [{"name": "op", "type": "unknown"}]}))
    found.learn([((ORDERS, 5), sample(1), None)], set())
    found.learn([((ORDERS, 5), sample(1, source={}), None)], set())
    ((_, why),) = found.told({ORDERS}, set())[1].items()

    assert why.startswith("no_schema:'unknown' is no type")


def test_of_a_topic_with_very_many_schemas_those_that_were_met_last_are_told(monkeypatch):
    """A schema of keys is met with each of a value, and never the one that goes."""
    monkeypatch.setattr(module, "KEPT", 3)
    found = routing(FakeClient(KEY, "int", "long", "string", "bytes"))
    for number in (2, 3, 4, 5):
        found.learn([((ORDERS, number), sample(number, 1), None)], set())

    assert sorted(known(found)) == [1, 4, 5]


def test_a_topic_whose_schemas_cannot_be_asked_for_waits_alone():
    """The registry does not answer; the other topic is read in the same turn, and nothing is a dead letter."""
    pipeline = Pipeline(STREAMS.replace("http://registry", "http://127.0.0.1:1"))
    pipeline.send(
        Message(ORDERS, 0, value=sample(1)),
        *(Message(SENSORS, offset, value='{"sensor":"a"}') for offset in range(3)),
    )
    for _ in range(3):
        pipeline.minute()
    pipeline.driver.stop()

    assert [offset for _, _, offset in pipeline.lake.tables["lake.sensors"].rows] == [0, 1, 2]
    assert list(pipeline.lake.tables) == ["lake.sensors"]
    assert pipeline.dead_letters.sent == []
    assert pipeline.sample("batches_failed_total") >= 2


def test_a_topic_that_waits_for_the_registry_is_read_in_no_smaller_pieces():
    """Or of its unknown ids each would wait by itself, for five minutes: a hundred of them for eight hours."""
    pipeline, sizes = Pipeline(STREAMS.replace("http://registry", "http://127.0.0.1:1")), []
    read = pipeline.session.read

    def noted(spark, kafka, ranges, task):
        sizes.append(count_of(ranges))
        return read(spark, kafka, ranges, task)

    pipeline.session.read = noted
    pipeline.start()
    pipeline.send(*(Message(ORDERS, offset, value=sample(1)) for offset in range(100)))
    for _ in range(5):
        pipeline.minute()
    pipeline.driver.stop()

    assert len(sizes) >= 4
    assert set(sizes) == {100}
