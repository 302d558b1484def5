"""The newest dead letters, as `status` counts them. A bounded look: the topic may hold weeks of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from isotherm.runtime.clock import monotonic_s
from isotherm_ingest.kafka import TIMEOUT_S
from isotherm_ingest.letter_reader import letter_reader

MOST = 10_000
"""Letters that are looked at."""
MOST_BYTES = 64 * 1024 * 1024
"""Of them. A letter has its whole message."""
ABOUT_HEADERS = 500
"""Bytes of a letter beside its message's value."""
MOST_REASON = 40
"""Letters of a reason; ours are words, and whoever may write the topic may say anything."""
LONGEST_S = 5.0
"""The rest of a status takes less."""


@dataclass(frozen=True, slots=True)
class Letter:
    """Where a dead letter's message came from, and why it is one."""

    topic: str
    partition: int
    offset: int
    said_at: str
    """The time of the message, which tells it from one of another topic of the name."""
    reason: str
    sent_ms: int = field(compare=False)
    """When the letter was sent. One that was sent twice is one."""


@dataclass(frozen=True, slots=True)
class Letters:
    """What a look found."""

    letters: tuple[Letter, ...]
    looked_at: int
    there: int
    """How many the topic holds, of every pipeline; more than were looked at where it holds too many."""


def newest_letters(
    properties: Mapping[str, Any],
    topic: str,
    pipeline: str,
    *,
    most: int = MOST,
    most_bytes: int = MOST_BYTES,
) -> Letters:
    """The newest dead letters of a pipeline. Nothing is committed, and no group is joined.

    Raises:
        BrokerError: Kafka does not answer.
    """
    with letter_reader(properties, topic) as consumer:
        return _read(consumer, topic, pipeline, most, most_bytes)


def _read(consumer: Consumer, topic: str, pipeline: str, most: int, most_bytes: int) -> Letters:
    listed = consumer.list_topics(timeout=TIMEOUT_S).topics.get(topic)
    spans = {
        number: consumer.get_watermark_offsets(TopicPartition(topic, number), TIMEOUT_S)
        for number in (listed.partitions if listed is not None else ())
    }
    spans = {number: span for number, span in spans.items() if span[0] < span[1]}
    each = most // max(len(spans), 1)
    consumer.assign(
        [TopicPartition(topic, number, max(low, high - each)) for number, (low, high) in spans.items()]
    )
    found: dict[Letter, None] = {}
    looked_at = size = 0
    left, deadline_s = set(spans), monotonic_s() + LONGEST_S
    while left and size < most_bytes and monotonic_s() < deadline_s:
        message = consumer.poll(0.2)
        if message is None:
            continue
        if (error := message.error()) is not None:
            if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 (the library's public constant)
                left.discard(message.partition() or 0)
            continue
        looked_at += 1
        size += len(message) + ABOUT_HEADERS
        if (letter := _letter_of(message, pipeline)) is not None:
            found[letter] = None
    return Letters(tuple(found), looked_at, sum(high - low for low, high in spans.values()))


def _letter_of(message: Message, pipeline: str) -> Letter | None:
    """What our headers say; None where they are another pipeline's, or somebody else's message."""
    headers: Any = message.headers() or ()
    # Ours come behind the message's own, which may have the same names.
    said = {name: (value or b"").decode(errors="replace") for name, value in headers}
    try:
        if said["isotherm.pipeline"] != pipeline:
            return None
        return Letter(
            said["isotherm.topic"],
            int(said["isotherm.partition"]),
            int(said["isotherm.offset"]),
            said["isotherm.timestamp"],
            said["isotherm.reason"][:MOST_REASON],
            message.timestamp()[1],
        )
    except (KeyError, ValueError):
        return None
