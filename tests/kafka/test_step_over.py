"""Which Kafka partitions get no further, of what a client gave at once."""

from confluent_kafka import KafkaError

from isotherm.kafka.step_over import UNREADABLE, stuck


class Given:
    """What librdkafka gives: a message, or an error in its place."""

    def __init__(self, number, code=None):
        self.number, self.code = number, code

    def topic(self):
        return "control"

    def partition(self):
        return self.number

    def error(self):
        return None if self.code is None else KafkaError(self.code)


BAD, AWAY = min(UNREADABLE), KafkaError.LEADER_NOT_AVAILABLE


def test_what_is_said_many_times_is_said_once():
    """A client that was not asked for a while says it twice a second, and each was a step over good messages."""
    raw = [Given(1, BAD), Given(2, BAD), Given(1, BAD), Given(1, BAD), Given(3, AWAY), Given(4)]

    assert stuck(raw) == {("control", 1): raw[3], ("control", 2): raw[1]}


def test_who_got_on_since_an_error_is_not_stuck():
    raw = [Given(1, BAD), Given(1), Given(2), Given(2, BAD)]

    assert stuck(raw) == {("control", 2): raw[3]}
