"""A broker that comes back with an older copy of its disk: what the daemon writes and reads goes on."""

import shutil

import pytest

from isotherm.contract.events import CommitEvent
from isotherm.demo.stack.kafka import Kafka
from isotherm.demo.stack.ports import free_ports
from isotherm.kafka import control_topic
from isotherm.kafka.broker import Broker, ensure_topic
from isotherm.kafka.control_topic import KafkaEvents
from isotherm.kafka.dead_letter_topic import KafkaDeadLetters
from isotherm.kafka.keyed_topic import TOPIC, KafkaKeyedTopic
from isotherm.service.ports import Message, Unavailable
from support.daemon_process import eventually

pytestmark = pytest.mark.stack

EVENT = CommitEvent(
    table_uuid="u",
    table="shop.orders",
    snapshot_id=1,
    parent_id=None,
    sequence_number=1,
    timestamp_ms=1,
    operation="append",
    origin="ingest",
    writer="w",
)


def goes_well(action):
    """Whether it did; a broker that has just come back needs a moment."""
    try:
        action()
    except Unavailable:
        return False
    return True


def test_a_broker_that_comes_back_with_an_older_disk_ends_nothing_for_ever(tmp_path, monkeypatch):
    """librdkafka's producers end when the broker has lost what they sent; nothing was committed until a restart."""
    monkeypatch.setattr(control_topic, "SILENT_S", 3.0)
    (tmp_path / "broker").mkdir()
    kafka = Kafka(tmp_path / "broker", heap_mb=200, say=lambda *_: None)
    kafka.start()
    try:
        properties = {"bootstrap.servers": kafka.bootstrap_servers}
        port = int(kafka.bootstrap_servers.rpartition(":")[2])
        for topic in ("state", "control", "dead"):
            ensure_topic(properties, topic, config=TOPIC if topic == "state" else {})
        broker = Broker()
        holds = KafkaKeyedTopic(properties, "state", broker=broker)
        events = KafkaEvents(properties, "control", "daemons", 600_000, broker=broker)
        letters = KafkaDeadLetters(properties, "dead")

        def put_letter():
            letters.put(Message("control", 0, 0, 0, b"odd", None), "it is odd")
            letters.flush()

        writers = (lambda: holds.write("a/halt", b"1"), lambda: events.publish(EVENT), put_letter)
        for write in writers:
            write()
        assert holds.read(20) is not None
        assert eventually(lambda: events.drain(5))
        kafka.stop()
        shutil.copytree(tmp_path / "broker" / "data", tmp_path / "copy")
        kafka.start([port, *free_ports(1)])
        for write in writers * 5:
            eventually(lambda write=write: goes_well(write))
        kafka.stop()
        shutil.rmtree(tmp_path / "broker" / "data")
        shutil.copytree(tmp_path / "copy", tmp_path / "broker" / "data")
        kafka.start([port, *free_ports(1)])

        for write in writers:
            eventually(lambda write=write: goes_well(write))
        holds.write("b/halt", b"2")
        records = {}

        def reads_what_came():
            reading = holds.read(5)
            records.update({} if reading is None else reading.records)
            return "b/halt" in records

        assert eventually(reads_what_came)
        events.publish(EVENT)
        assert eventually(lambda: events.drain(5))
        assert events.check_in() is None
    finally:
        kafka.stop()
        holds.close()
        events.close()
