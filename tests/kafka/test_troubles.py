"""What Kafka's clients complain of is told once per pause."""

from isotherm.kafka.control_topic import KafkaEvents
from isotherm.kafka.troubles import MOST_KINDS, Troubles
from support.memory_topics import Clock

REFUSED = "localhost:9092/1: Connect to ipv4#127.0.0.1:9092 failed: Connection refused (after {}ms in state CONNECT)"


def test_each_kind_of_trouble_is_told_once_per_pause():
    clock, told = Clock(), []
    troubles = Troubles(told.append, clock.monotonic_s)
    at = []
    for second in range(130):
        for attempt in range(20):
            before = len(told)
            troubles(REFUSED.format(attempt))
            troubles(f"{attempt}/3 brokers are down")
            at += [second] * (len(told) - before)
        clock.advance(1)

    assert at == [one for one in (0, 5, 15, 35, 75) for _ in range(2)]


def test_what_was_over_is_told_at_once_when_it_comes_again():
    clock, told = Clock(), []
    troubles = Troubles(told.append, clock.monotonic_s)
    for pause_s in (0, 5, 10, 300, 5):
        clock.advance(pause_s)
        troubles("away")

    assert len(told) == 5


def test_kinds_have_a_bound():
    clock, told = Clock(), []
    troubles = Troubles(told.append, clock.monotonic_s)
    for number in range(10 * MOST_KINDS):
        troubles("x" * number)

    assert len(told) == 10 * MOST_KINDS
    troubles("x" * 10 * MOST_KINDS)
    troubles("")
    assert len(told) == 10 * MOST_KINDS + 2, "the oldest was forgotten"


def test_a_client_whose_broker_goes_on_refusing_tells_it_through_them_as_one_kind():
    clock, told = Clock(), []
    events = KafkaEvents(
        {"bootstrap.servers": "127.0.0.1:1", "reconnect.backoff.max.ms": 1, "reconnect.backoff.ms": 1},
        "control",
        "g",
        0,
        on_trouble=Troubles(told.append, clock.monotonic_s),
    )
    for _ in range(30):
        events.poll(0.02)
    events.close()

    assert len(told) <= 3, told
    assert any("refused" in one for one in told), told
