"""The topics of other systems, and the dead-letter topic, on a real broker."""

import uuid

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from isotherm.kafka.broker import ensure_topic
from isotherm.kafka.dead_letter_topic import DEAD_LETTER_TOPIC, MAX_LETTER_BYTES, KafkaDeadLetters
from isotherm.kafka.source_topics import KafkaSources
from isotherm.service.ports import Message, Unavailable
from support.contracts.sources import SourceTopicsContract
from support.daemon_process import Daemon
from support.kafka_connect import COMMIT, commit_to_table
from support.lab import EAGER, Lab

pytestmark = pytest.mark.stack


@pytest.fixture
def properties(kafka):
    return {"bootstrap.servers": kafka.bootstrap_servers, "session.timeout.ms": 6000}


@pytest.fixture
def topic(properties):
    name = f"source-{uuid.uuid4()}"
    ensure_topic(properties, name)
    return name


@pytest.fixture
def open_source(properties, topic):
    return lambda: KafkaSources(properties, [topic], f"g-{topic}.sources")


def sent(properties, topic, *values, **more):
    producer = Producer({**properties, "message.max.bytes": 4_000_000, **more})
    if more:
        producer.init_transactions()
        producer.begin_transaction()
    for value in values:
        producer.produce(topic, key=b"a key", value=value)
    return producer


class TestKafkaSources(SourceTopicsContract):
    @pytest.fixture
    def put(self, properties, topic):
        def put(*values):
            assert sent(properties, topic, *values).flush(10) == 0

        return put


def test_what_a_transaction_took_back_is_not_read(properties, topic, open_source):
    """Kafka Connect writes in transactions: an aborted commit never happened."""
    aborted = sent(properties, topic, b"never", **{"transactional.id": topic})
    aborted.flush(10)
    aborted.abort_transaction(10)
    assert sent(properties, topic, b"truly").flush(10) == 0
    source = open_source()

    assert [message.value for message in TestKafkaSources().read(source, 1)] == [b"truly"]
    source.close()


def letters_on(properties, topic, count):
    consumer = Consumer({**properties, "group.id": f"look-{topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = []
    for _ in range(60):
        found += consumer.consume(10, 0.5)
        if len(found) >= count:
            break
    consumer.close()
    return found


def test_a_dead_letter_is_the_message_as_it_came_with_its_place_and_the_reason(properties):
    topic = f"dead-{uuid.uuid4()}"
    ensure_topic(properties, topic, config=DEAD_LETTER_TOPIC)
    letters = KafkaDeadLetters(properties, topic)
    values = [b"\xff\x00", None, b"x" * 2_000_000]
    for offset, value in enumerate(values):
        letters.put(Message("control", 3, offset, 0, value, b"a key"), "not JSON: ü")
    letters.flush()
    found = letters_on(properties, topic, 3)

    assert [(one.key(), one.value()) for one in found] == [(b"a key", value) for value in values]
    assert dict(found[1].headers()) == {
        "isotherm.topic": b"control",
        "isotherm.partition": b"3",
        "isotherm.offset": b"1",
        "isotherm.reason": "not JSON: ü".encode(),
    }


def test_what_is_too_large_to_keep_is_said_once_and_the_next_letters_go_through(properties):
    topic = f"dead-{uuid.uuid4()}"
    ensure_topic(properties, topic, config=DEAD_LETTER_TOPIC)
    letters = KafkaDeadLetters(properties, topic)
    letters.put(Message("control", 0, 1, 0, bytes(MAX_LETTER_BYTES + 1)), "vast")
    with pytest.raises(Unavailable, match=topic):
        letters.flush()
    letters.put(Message("control", 0, 2, 0, b"small"), "small")
    letters.flush()

    assert [one.value() for one in letters_on(properties, topic, 1)] == [b"small"]


@pytest.fixture
def daemon(tmp_path, kafka, properties):
    lab = Lab(tmp_path, policy=EAGER)
    name = uuid.uuid4()
    topics = {"control": f"control-{name}", "source": f"source-{name}", "dead": f"dead-{name}"}
    ensure_topic(properties, topics["control"])
    ensure_topic(properties, topics["source"])
    daemon = Daemon(
        lab,
        kafka.bootstrap_servers,
        topics["control"],
        kafka={
            "sources": [{"topic": topics["source"], "format": "iceberg-kafka-connect"}],
            "dead_letter_topic": topics["dead"],
        },
    )
    yield daemon, topics
    daemon.end()


def test_the_daemon_goes_on_through_garbage_on_every_topic_and_keeps_it(daemon, properties):
    daemon, topics = daemon
    garbage = {"control": [b"\xff", None, b"[" * 100_000], "source": [COMMIT[:-3], b"", b"\xc2\x01" * 50_000]}
    for name, values in garbage.items():
        assert sent(properties, topics[name], *values).flush(10) == 0
    event = daemon.lab.append(daemon.lab.create(), 1, announce=False)
    message = commit_to_table("shop.orders", event.snapshot_id, event.table_uuid)
    assert sent(properties, topics["source"], message).flush(10) == 0
    for _ in range(6):
        daemon.until("event_rejected")
    found = letters_on(properties, topics["dead"], 6)

    assert sorted(
        (dict(one.headers())["isotherm.topic"].decode(), one.value() or b"") for one in found
    ) == sorted((topics[name], value or b"") for name, values in garbage.items() for value in values)
    announced = letters_on(properties, topics["control"], 4)[3]
    assert announced.key() == event.table_uuid.encode()
    assert daemon.stop() == 0


def test_a_member_that_wants_nothing_for_long_stays_in_its_group(properties, topic):
    """A batch may take longer than `max.poll.interval.ms`: it is the member's until then, and is acknowledged."""
    group, patience_s = f"g-{topic}.sources", 6
    impatient = {**properties, "max.poll.interval.ms": patience_s * 1000}
    assert sent(properties, topic, b"one").flush(10) == 0
    source = KafkaSources(impatient, [topic], group)
    contract = TestKafkaSources()
    contract.read(source, 1)
    ensure_topic(properties, f"{topic}-quiet")
    other = KafkaSources(properties, [f"{topic}-quiet"], f"{group}.other")
    for _ in range(patience_s + 3):
        assert list(source.poll(0, wanted=False)) == []
        other.poll(1)  # what waits keeps the daemon busy
    other.close()
    source.commit({(topic, 0): 1})
    source.close()
    assert sent(properties, topic, b"two").flush(10) == 0
    again = KafkaSources(impatient, [topic], group)

    assert [message.value for message in contract.read(again, 1)] == [b"two"]
    again.close()


def test_a_commit_that_comes_to_nothing_is_told(properties, topic):
    told = []
    assert sent(properties, topic, b"one").flush(10) == 0
    source = KafkaSources(properties, [topic], f"g-{topic}.sources", told.append)
    TestKafkaSources().read(source, 1)
    admin = AdminClient(properties)
    admin.delete_topics([topic])[topic].result(10)
    for _ in range(20):
        source.commit({(topic, 0): 1})
        source.poll(0.1)
        if any("is not acknowledged" in line for line in told):
            break

    assert any(line.startswith(f"{topic}, partition 0, is not acknowledged") for line in told)
    source.close()
