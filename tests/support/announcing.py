"""A writer's announcements on a real broker."""

from confluent_kafka import Producer

from isotherm.contract.events import encode


class ControlTopic:
    """Announces commits on one control topic, each on the partition of its table."""

    def __init__(self, servers, topic):
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": servers, "partitioner": "murmur2_random", "log_level": 0}
        )

    def announce(self, *events):
        """Returns when the broker has them."""
        for event in events:
            key, value, _ = encode(event)
            self._producer.produce(self._topic, value, key)
        assert self._producer.flush(30) == 0
