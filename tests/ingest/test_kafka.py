"""The driver's Kafka client on a real broker."""

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from isotherm_ingest.kafka import Broker, BrokerError, Record

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
    assert broker.read_all("broker.ended") == [(b"1", b"sent")]
    assert Ended.made == 2


def test_compacted_topics_are_known(kafka):
    for name, policy in (("policy.a", "compact"), ("policy.b", "compact,delete"), ("policy.c", "delete")):
        kafka.create_topic(name, config={"cleanup.policy": policy})
    broker = Broker({"bootstrap.servers": kafka.bootstrap_servers})

    assert broker.compacted(["policy.a", "policy.b", "policy.c", "policy.none"]) == {"policy.a", "policy.b"}
    assert broker.compacted([]) == frozenset()
