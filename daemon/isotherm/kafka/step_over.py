"""How a reader gets past messages that no client can unpack.

A batch that is damaged on the broker's disk, or that unpacks to more than a client takes, comes again and again: nothing
behind it would ever be read. How many messages are in it nobody can tell. So the first steps are of one message each, and
the others grow: what they pass by is lost, as what is in the batch is. Who reads is told of it twice at most: at once, and when
the stretch is over. What each loss asks for is work for every table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

UNREADABLE = frozenset({KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG})  # noqa: SLF001 (the library's public constants)
"""Errors that a second try does not mend."""


Lost = tuple[int, int]
"""The first and the last offset of messages that were passed by."""

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


@dataclass(slots=True)
class _Stretch:
    """Messages that were passed by, one step after another."""

    first: int
    beyond: int
    steps: int = 0
    told_to: int = -1
    """Before which offset the reader knows of it."""

    def untold(self) -> Lost | None:
        """The whole of it, unless that is known."""
        if self.told_to == self.beyond:
            return None
        self.told_to = self.beyond
        return self.first, self.beyond - 1


def unread(consumer: Consumer, topic: str, positions: Mapping[int, int]) -> int:
    """How many messages lie behind these positions, by the ends that the client has seen in its last fetches."""
    ends = {
        number: consumer.get_watermark_offsets(TopicPartition(topic, number), cached=True)
        for number in positions
    }
    return sum(max(int(ends[number][1]) - at, 0) for number, at in positions.items() if ends[number])


class StepOver:
    """Where each Kafka partition goes on behind what cannot be unpacked."""

    def __init__(self) -> None:
        self._stretches: dict[tuple[str, int], _Stretch] = {}

    def beyond(self, consumer: Consumer, topic: str, number: int, offset: int) -> tuple[int, Lost | None]:
        """Have the consumer go on behind an offset at which it gets nothing. Returns where that is, and what to tell now."""
        stretch = self._stretches.setdefault((topic, number), _Stretch(offset, offset))
        offset, step = max(offset, stretch.beyond), 2 ** max(stretch.steps - SINGLE_STEPS, 0)
        known = consumer.get_watermark_offsets(TopicPartition(topic, number), cached=True)
        high = int(known[1]) if known else 0
        # Behind the end no offset is in range: everything would be read again.
        beyond = max(min(offset + step, high), offset + 1)
        stretch.beyond, stretch.steps = beyond, stretch.steps + 1
        consumer.seek(TopicPartition(topic, number, beyond))
        # At the end no message may come for long.
        if stretch.steps == 1 or beyond >= high > 0:
            return beyond, stretch.untold()
        return beyond, None

    def came(self, topic: str, number: int) -> Lost | None:
        """A message came: what follows is not in that batch. Returns what to tell now."""
        stretch = self._stretches.pop((topic, number), None)
        return None if stretch is None else stretch.untold()
