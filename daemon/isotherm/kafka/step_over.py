"""How a reader gets past messages that no client can unpack.

A batch that is damaged on the broker's disk, or that unpacks to more than a client takes, comes again and again: nothing
behind it would ever be read. How many messages are in it nobody can tell. So the first steps are of one message each, and
the others grow: what they pass by is lost, as what is in the batch is.
"""

from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

UNREADABLE = frozenset({KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG})  # noqa: SLF001 (the library's public constants)
"""Errors that a second try does not mend."""


SINGLE_STEPS = 20
"""Each takes half a second: so long a client waits after an error."""


def stuck(raw: Sequence[Message]) -> dict[tuple[str, int], Message]:
    """Of what a client gave at once, the Kafka partitions that go no further, with the last that was said of each.

    A client that was not asked for a while says the same many times, and may have got on since.
    """
    found: dict[tuple[str, int], Message] = {}
    for one in raw:
        error, part = one.error(), (str(one.topic()), int(one.partition() or 0))
        if error is None:
            found.pop(part, None)
        elif error.code() in UNREADABLE:
            found[part] = one
    return found


class StepOver:
    """Where each Kafka partition goes on behind what cannot be unpacked."""

    def __init__(self) -> None:
        self._behind: dict[tuple[str, int], tuple[int, int]] = {}
        """Where we went on the last time, and after how many steps."""

    def beyond(self, consumer: Consumer, topic: str, number: int, offset: int) -> int:
        """Have the consumer go on behind an offset at which it gets nothing. Returns where that is."""
        last, steps = self._behind.get((topic, number), (0, 0))
        offset, step = max(offset, last), 2 ** max(steps - SINGLE_STEPS, 0)
        known = consumer.get_watermark_offsets(TopicPartition(topic, number), cached=True)
        high = int(known[1]) if known else 0
        # Behind the end no offset is in range: everything would be read again.
        beyond: int = max(min(offset + step, high), offset + 1)
        self._behind[topic, number] = beyond, steps + 1
        consumer.seek(TopicPartition(topic, number, beyond))
        return beyond

    def came(self, topic: str, number: int) -> None:
        """A message came: what follows is not in that batch."""
        self._behind.pop((topic, number), None)
