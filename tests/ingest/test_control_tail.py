"""The newest messages of the control topic, on a real broker: what comes is read, nothing is waited for."""

import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from isotherm.runtime.clock import monotonic_s
from isotherm_ingest.control_tail import AGAIN_AFTER_S, FROM_THE_END_S, ControlTail
from support.memory_topics import Clock

pytestmark = pytest.mark.stack


@pytest.fixture
def topic(kafka):
    name = f"control-{uuid.uuid4()}"
    kafka.create_topic(name)
    return name


class Sender:
    def __init__(self, kafka, topic):
        self.producer, self.topic = Producer({"bootstrap.servers": kafka.bootstrap_servers}), topic
        self.sent = 0

    def send(self, count):
        for _ in range(count):
            self.producer.produce(self.topic, str(self.sent).encode())
            self.sent += 1
        self.producer.flush(30)


def begun(tail, sender):
    """A tail that has read what was sent last: it begins at the end, at its own pace."""
    tail.read()
    until_s = monotonic_s() + 30
    while monotonic_s() < until_s:
        sender.send(1)
        if found := read_some(tail):
            return found
    raise AssertionError("nothing is read")


def read_some(tail):
    until_s = monotonic_s() + 1
    while monotonic_s() < until_s:
        if found := tail.read():
            return found
    return []


def test_of_a_busy_topic_every_message_is_read_once_and_in_order(kafka, topic):
    tail, sender = ControlTail({"bootstrap.servers": kafka.bootstrap_servers}, topic), Sender(kafka, topic)
    begun(tail, sender)
    first = sender.sent
    for _ in range(20):
        sender.send(100)
        read_some(tail)  # a part of them, as they come

    sender.send(1)
    last: list[int] = []
    until_s = monotonic_s() + 30
    while (not last or last[-1] != sender.sent - 1) and monotonic_s() < until_s:
        last += [int(one) for one in tail.read()]
    tail.close()

    assert last[-1] == sender.sent - 1
    assert last == sorted(set(last))
    assert first <= last[0]


def test_a_topic_that_is_made_later_is_read_then(kafka):
    clock, name = Clock(), f"control-{uuid.uuid4()}"
    tail = ControlTail({"bootstrap.servers": kafka.bootstrap_servers}, name, clock.monotonic_s)
    assert tail.read() == []

    kafka.create_topic(name)
    sender = Sender(kafka, name)
    clock.advance(AGAIN_AFTER_S + 1)

    assert begun(tail, sender)
    tail.close()


def test_partitions_that_a_topic_gets_later_are_read_after_a_while(kafka, topic):
    clock = Clock()
    tail = ControlTail({"bootstrap.servers": kafka.bootstrap_servers}, topic, clock.monotonic_s)
    sender = Sender(kafka, topic)
    begun(tail, sender)
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    client.create_partitions([NewPartitions(topic, 4)])[topic].result(30)
    clock.advance(FROM_THE_END_S)
    sender, seen = Sender(kafka, topic), set()
    until_s = monotonic_s() + 30
    while len(seen) < 4 and monotonic_s() < until_s:
        for number in range(len(sender.producer.list_topics(topic, 30).topics[topic].partitions)):
            sender.producer.produce(topic, str(number).encode(), partition=number)
        sender.producer.flush(30)
        seen.update(read_some(tail))

    assert seen == {b"0", b"1", b"2", b"3"}
    tail.close()
