"""Which Kafka partitions get no further, of what a client gave at once."""

from confluent_kafka import KafkaError

from isotherm.kafka.step_over import SINGLE_STEPS, UNREADABLE, StepOver, stuck


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


class Client:
    """A consumer that is told where to go on, and knows where the partition ends."""

    def __init__(self, high):
        self.high, self.at = high, None

    def get_watermark_offsets(self, _, cached):
        assert cached
        return 0, self.high

    def seek(self, part):
        self.at = part.offset


def passed(over, client, offset, steps):
    """What is told in so many steps."""
    told = []
    for _ in range(steps):
        offset, lost = over.beyond(client, "control", 0, offset)
        assert client.at == offset
        told += [lost] if lost else []
    return told


def test_a_stretch_is_told_when_it_begins_and_when_it_is_over():
    """Each loss has every table reconciled with the catalog, and a stretch of a few steps did it as often."""
    over, client = StepOver(), Client(high=10_000)

    assert passed(over, client, 7, SINGLE_STEPS + 3) == [(7, 7)]
    assert over.came("control", 0) == (7, 7 + SINGLE_STEPS + 1 + 2 + 4 - 1)
    assert over.came("control", 0) is None


def test_a_stretch_of_one_step_is_told_once():
    over = StepOver()

    assert passed(over, Client(high=10_000), 7, 1) == [(7, 7)]
    assert over.came("control", 0) is None


def test_a_stretch_up_to_the_end_is_told_without_a_message_behind_it():
    over, client = StepOver(), Client(high=9)

    assert passed(over, client, 7, 2) == [(7, 7), (7, 8)]
    assert over.came("control", 0) is None
