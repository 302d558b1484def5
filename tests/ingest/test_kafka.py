"""The driver's Kafka client on a real broker."""

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource

from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.job import prepare_topics
from isotherm_ingest.kafka import Broker, BrokerError, Record
from isotherm_ingest.streams import StreamsConfig
from support.pipelines import CONFIG

pytestmark = pytest.mark.stack


class Ended(Producer):
    """A producer that has ended, as one does whose newest messages its broker has lost; those after it live."""

    made = 0

    def __init__(self, properties):
        super().__init__(properties)
        Ended.made += 1
        self.has_ended = Ended.made == 1

    def produce(self, *args, **more):
        if self.has_ended:
            raise KafkaException(KafkaError(KafkaError._FATAL, "ended"))  # noqa: SLF001 (a public constant)
        super().produce(*args, **more)


def test_a_producer_that_has_ended_is_followed_by_another(kafka):
    """It took no message any more: no intent, no dead letter and no event, until ingest was started again."""
    kafka.create_topic("broker.ended")
    broker = Broker({"bootstrap.servers": kafka.bootstrap_servers}, Ended)
    with pytest.raises(BrokerError):
        broker.send([Record("broker.ended", b"1", b"lost")])

    broker.send([Record("broker.ended", b"1", b"sent")])
    assert broker.newest_by_key("broker.ended") == {b"1": b"sent"}
    assert Ended.made == 2


def test_of_a_topic_that_is_to_be_compacted_the_newest_of_each_key_is_kept_in_the_order_of_writing(kafka):
    broker = Broker({"bootstrap.servers": kafka.bootstrap_servers})
    broker.ensure_topic("broker.newest", {"cleanup.policy": "compact"})
    assert broker.newest_by_key("broker.newest") == {}

    for key, value in ((b"1", b"a"), (b"2", b"b"), (b"3", b"c"), (b"1", b"e"), (b"2", None)):
        broker.send([Record("broker.newest", key, value)])
    found = broker.newest_by_key("broker.newest")
    assert list(found.items()) == [(b"3", b"c"), (b"1", b"e"), (b"2", None)]


def test_the_topic_of_watermarks_is_compacted_after_a_day(kafka):
    """Until then Kafka holds all of them, and a driver that begins reads them."""
    properties = {"bootstrap.servers": kafka.bootstrap_servers}
    ours = "kafka: {control_topic: days, dead_letter_topic: days.dead, properties"
    config = parse_yaml(CONFIG.replace("kafka: {properties", ours), "streams.yaml", StreamsConfig)
    prepare_topics(Broker(properties), config)
    asked = ConfigResource(ConfigResource.Type.TOPIC, "days.announced")
    admin = AdminClient(properties)
    said = admin.describe_configs([asked])[asked].result(15)

    assert (said["cleanup.policy"].value, said["segment.ms"].value) == ("compact", "86400000")


def test_compacted_topics_are_known(kafka):
    for name, policy in (("policy.a", "compact"), ("policy.b", "compact,delete"), ("policy.c", "delete")):
        kafka.create_topic(name, config={"cleanup.policy": policy})
    broker = Broker({"bootstrap.servers": kafka.bootstrap_servers})

    assert broker.compacted(["policy.a", "policy.b", "policy.c", "policy.none"]) == {"policy.a", "policy.b"}
    assert broker.compacted([]) == frozenset()
