"""A broker that does not answer is asked once, and not by each of our clients in turn."""

from threading import Event

import pytest
from confluent_kafka import KafkaError, KafkaException

from isotherm.kafka.broker import Broker, close_in_time
from isotherm.kafka.control_topic import KafkaEvents
from isotherm.kafka.dead_letter_topic import KafkaDeadLetters
from isotherm.kafka.keyed_topic import KafkaKeyedTopic
from isotherm.runtime.breaker import Breaker
from isotherm.service.ports import Message, NotAnnounced, NotAsked, Unavailable
from support.contracts.events import event
from support.memory_topics import Clock

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "group.instance.id": "one"}


def failing(error):
    def ask():
        raise error

    return ask


@pytest.mark.parametrize(
    ("error", "is_silent"),
    [
        (TimeoutError(), True),
        (KafkaException(KafkaError(KafkaError._TRANSPORT)), True),
        (KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN)), True),
        (KafkaException(KafkaError(KafkaError._TIMED_OUT)), True),
        (KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)), False),
        (KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION)), False),
        (KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)), False),
    ],
)
def test_silence_opens_it_and_a_refusal_does_not(error, is_silent):
    clock = Clock()
    broker = Broker(Breaker(clock.monotonic_s))
    with pytest.raises(type(error)):
        broker.ask(failing(error))
    if not is_silent:
        assert broker.ask(lambda: 7) == 7
        return
    with pytest.raises(NotAsked, match="asked again in 5 s"):
        broker.ask(lambda: 7)
    clock.advance(5)
    assert broker.ask(lambda: 7) == 7


def test_what_one_client_found_out_no_other_waits_for():
    clock, told = Clock(), []
    broker = Broker(Breaker(clock.monotonic_s))
    holds = KafkaKeyedTopic(NOWHERE, "state", told.append, broker)
    events = KafkaEvents(NOWHERE, "control", "g", 0, broker=broker)

    assert holds.read(0.2) is None
    assert any("topic state" in line for line in told)
    told.clear()
    with pytest.raises(NotAnnounced, match="asked again"):
        events.publish(event(1))
    with pytest.raises(NotAsked):
        holds.write("t/halt", b"{}")
    assert holds.read(0.2) is None
    assert events.drain(0.2) is None
    assert not [line for line in told if "topic" in line], "what was not asked is not told"
    clock.advance(5)
    assert holds.read(0.2) is None
    assert any("topic state" in line for line in told), "it is asked again"
    holds.close()
    events.close()


def test_a_consumer_that_cannot_take_its_leave_is_not_waited_for():
    class Hangs:
        def close(self):
            silence.wait(60)

    silence = Event()

    assert not close_in_time(Hangs(), 0.01)
    silence.set()
    assert close_in_time(Hangs(), 60)


LETTER = Message("control", 0, 1, 0, b"garbage")


def put_and_flush(letters):
    letters.put(LETTER, "garbage")
    letters.flush()


def test_dead_letters_are_not_waited_for_where_the_broker_was_silent_or_their_topic_was():
    clock = Clock()
    broker = Broker(Breaker(clock.monotonic_s))
    letters = KafkaDeadLetters(NOWHERE, "dead", broker)
    with pytest.raises(TimeoutError):
        broker.ask(failing(TimeoutError()))
    with pytest.raises(NotAsked, match="asked again in 5 s"):
        put_and_flush(letters)
    clock.advance(5)
    with pytest.raises(Unavailable, match="topic dead") as waited:
        put_and_flush(letters)
    assert waited.type is Unavailable
    with pytest.raises(NotAsked):
        put_and_flush(letters)
    assert broker.ask(lambda: 7) == 7, "nothing else waits because their topic is away"
    with pytest.raises(NotAsked):
        put_and_flush(letters)
