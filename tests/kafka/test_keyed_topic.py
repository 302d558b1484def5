"""The topic with what holds tables back on a real broker: the contract, compaction, a topic that is made again."""

import uuid

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions

from isotherm.kafka.broker import ensure_topic
from isotherm.kafka.keyed_topic import TOPIC, KafkaKeyedTopic
from isotherm.service.ports import Unavailable
from support.contracts.keyed_topic import KeyedTopicContract
from support.daemon_process import eventually

pytestmark = pytest.mark.stack


@pytest.fixture
def properties(kafka):
    return {"bootstrap.servers": kafka.bootstrap_servers, "group.instance.id": "of the control topic"}


@pytest.fixture
def admin(kafka):
    return AdminClient({"bootstrap.servers": kafka.bootstrap_servers})


@pytest.fixture
def topic(properties):
    name = f"state-{uuid.uuid4()}"
    ensure_topic(properties, name, config=TOPIC)
    return name


@pytest.fixture
def open_topic(properties, topic):
    opened = []

    def open_one(name=topic):
        opened.append(KafkaKeyedTopic(properties, name))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


class TestKafkaKeyedTopic(KeyedTopicContract):
    pass


def test_the_topic_is_compacted(admin, topic):
    resource = ConfigResource("topic", topic)
    described = admin.describe_configs([resource])[resource].result(20)

    assert described["cleanup.policy"].value == "compact"
    assert int(described["delete.retention.ms"].value) == 90 * 86_400_000


def test_a_topic_whose_records_are_all_gone_is_read_to_its_end(admin, properties, open_topic):
    name = f"by-time-{uuid.uuid4()}"
    ensure_topic(properties, name)
    open_topic(name).write("a/halt", b"1")
    (deleted,) = admin.delete_records([TopicPartition(name, 0, 1)]).values()
    deleted.result(20)
    reading = open_topic(name).read(20)

    assert (dict(reading.records), reading.is_whole) == ({}, True)


def test_a_topic_that_was_made_again_is_read_from_its_beginning(admin, topic, properties, open_topic):
    one, other = open_topic(), open_topic()
    for number in range(3):
        one.write(f"{number}/halt", b"old")
    one.read(20)
    admin.delete_topics([topic])[topic].result(20)
    eventually(lambda: topic not in admin.list_topics(timeout=10).topics)
    ensure_topic(properties, topic, config=TOPIC)
    for number in range(5):
        eventually(lambda number=number: wrote(other, f"{number}/halt"))
    reading = eventually(lambda: one.read(20))

    assert reading.is_whole
    assert dict(reading.records) == {f"{number}/halt": b"new" for number in range(5)}


def test_partitions_that_come_later_are_read_too(admin, topic, open_topic):
    reader = open_topic()
    reader.read(20)
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(20)
    writer, keys = open_topic(), {f"{number}/halt" for number in range(8)}
    eventually(lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 4)
    for key in sorted(keys):
        eventually(lambda key=key: wrote(writer, key))
    reading = eventually(lambda: reader.read(20))

    assert reading.is_whole
    assert reading.records.keys() == keys


def wrote(topic, key):
    """A producer needs a moment to learn of a topic that was made again."""
    try:
        topic.write(key, b"new")
    except Unavailable:
        return False
    return True


def test_an_open_transaction_hides_no_halt_behind_it(kafka, topic, open_topic):
    reader, writer = open_topic(), open_topic()
    reader.read(20)
    hanging = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": str(uuid.uuid4())})
    hanging.init_transactions(20)
    hanging.begin_transaction()
    hanging.produce(topic, b"1", key="a/halt")
    hanging.flush(20)
    writer.write("b/halt", b"2")
    reading, whole = reader.read(20), open_topic().read(20)
    hanging.abort_transaction(20)

    assert dict(reading.records) == dict(whole.records) == {"a/halt": b"1", "b/halt": b"2"}
    assert dict(reader.read(20).records) == {}


def test_a_topic_that_is_not_there_is_not_an_empty_one(open_topic):
    assert open_topic(f"nowhere-{uuid.uuid4()}").read(5) is None
