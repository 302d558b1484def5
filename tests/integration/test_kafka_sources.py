"""The topics of other systems, and the dead-letter topic, on a real broker."""

import uuid

import pytest
from confluent_kafka import Consumer, Producer

from isotherm.kafka import ensure_topic
from isotherm.kafka_sources import DEAD_LETTER_TOPIC, MAX_LETTER_BYTES, KafkaDeadLetters, KafkaSources
from isotherm.ports import Message, Unavailable
from source_contract import SourceTopicsContract

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
        def put(value):
            assert sent(properties, topic, value).flush(10) == 0

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
