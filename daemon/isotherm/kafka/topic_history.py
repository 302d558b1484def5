"""A topic's past, read once from its beginning to where it ended when we began.

The reader joins no group and commits nothing, so it disturbs nobody who reads the same topic. It gives up after
`WITHIN_S`, because a topic without an end would keep a person waiting for ever.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from isotherm.runtime.clock import monotonic_s
from isotherm.runtime.kafka_client import kafka_client

WITHIN_S = 60
REQUEST_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Past:
    """How much of the topic was read."""

    is_whole: bool
    """Everything that the topic still had; False: it is not there, does not answer, or was too long."""
    since_ms: int | None = None
    """The time of the oldest message, where older ones are gone. None where it was read from its very beginning."""


def read_past(
    properties: Mapping[str, str | int | bool],
    topic: str,
    group: str,
    hear: Callable[[int, bytes | None], None],
) -> Past:
    """Give `hear` the time and the value of every message, in the order of each partition.

    Raises:
        PropertyError: librdkafka does not take the properties.
    """
    consumer = kafka_client(
        Consumer,
        {
            **properties,
            # Never joined and nothing committed: the daemon's own group is not disturbed.
            "group.id": group,
            "enable.auto.commit": False,
            "allow.auto.create.topics": False,
            # As the daemon reads it: a transaction that hangs must hide nothing.
            "isolation.level": "read_uncommitted",
            "log_level": 0,
        },
    )
    try:
        return _read_all(consumer, topic, hear)
    except KafkaException:
        return Past(is_whole=False)
    finally:
        consumer.close()


def _read_all(consumer: Consumer, topic: str, hear: Callable[[int, bytes | None], None]) -> Past:
    known = consumer.list_topics(topic, REQUEST_TIMEOUT_S).topics.get(topic)
    if known is None or not known.partitions:
        return Past(is_whole=False)
    parts = [TopicPartition(topic, number, OFFSET_BEGINNING) for number in known.partitions]
    marks = {
        part.partition: consumer.get_watermark_offsets(part, timeout=REQUEST_TIMEOUT_S) for part in parts
    }
    left = {number for number, (low, high) in marks.items() if high > low}
    was_cut = any(low > 0 for low, _ in marks.values())
    oldest_ms: int | None = None
    consumer.assign(parts)
    deadline_s = monotonic_s() + WITHIN_S
    while left:
        if monotonic_s() > deadline_s:
            return Past(is_whole=False)
        for message in consumer.consume(500, 0.5):
            if message.error() is not None:
                continue
            at_ms = message.timestamp()[1]
            oldest_ms = at_ms if oldest_ms is None else min(oldest_ms, at_ms)
            hear(at_ms, message.value())
        positions = consumer.position(list(parts))
        left = {part.partition for part in positions if part.offset < marks[part.partition][1]} & left
    return Past(is_whole=True, since_ms=oldest_ms if was_cut else None)
