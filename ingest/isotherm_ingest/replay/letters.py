"""The dead letters of a pipeline, all that the topic holds: where each came from, and why. Bodies are left where they are."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from isotherm.runtime.clock import monotonic_s
from isotherm_ingest.kafka import TIMEOUT_S, BrokerError
from isotherm_ingest.letter_reader import letter_reader
from isotherm_ingest.workers.late import At

SILENT_S = 30.0
"""After so long without a letter, or an end, the topic is given up."""


@dataclass(frozen=True, slots=True)
class Letter:
    """Where a dead letter's message came from, and why it is one."""

    at: At
    moment_ms: int
    """The time of the message, which tells it from one of another topic of the name."""
    reason: str
    sent_ms: int
    """When the letter was sent."""


def read_letters(
    properties: Mapping[str, Any], topic: str, pipeline: str, wanted: Callable[[str], bool]
) -> tuple[Letter, ...]:
    """All letters of a pipeline, of those topics that are wanted. One that was sent twice is one: the newest.

    Raises:
        BrokerError: Kafka does not answer.
    """
    found: dict[tuple[At, int], Letter] = {}
    with letter_reader(properties, topic) as consumer:
        for message in _messages(consumer, topic):
            letter = letter_of(message, pipeline)
            if letter is not None and wanted(letter.at[0]):
                found[letter.at, letter.moment_ms] = letter
    return tuple(sorted(found.values(), key=lambda one: (one.moment_ms, one.at)))


def _messages(consumer: Consumer, topic: str) -> Any:
    """What is in the topic now."""
    listed = consumer.list_topics(timeout=TIMEOUT_S).topics.get(topic)
    numbers = () if listed is None else listed.partitions
    left = {one: consumer.get_watermark_offsets(TopicPartition(topic, one), TIMEOUT_S) for one in numbers}
    left = {one: (low, high) for one, (low, high) in left.items() if low < high}
    consumer.assign([TopicPartition(topic, one, low) for one, (low, _) in left.items()])
    deadline_s = monotonic_s() + SILENT_S
    while left:
        message = consumer.poll(0.2)
        if message is None:
            if monotonic_s() > deadline_s:
                raise BrokerError(
                    f"topic {topic} could not be read to its end: nothing came in {SILENT_S:g} s"
                )
            continue
        deadline_s = monotonic_s() + SILENT_S
        number, error = message.partition() or 0, message.error()
        if error is None:
            yield message
        elif error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 (the library's public constant)
            raise KafkaException(error)
        if number in left and (error is not None or int(message.offset() or 0) + 1 >= left[number][1]):
            del left[number]


def letter_of(message: Message, pipeline: str) -> Letter | None:
    """What our headers say; None where they are another pipeline's, or somebody else's message."""
    headers: Any = message.headers() or ()
    # Ours come behind the message's own, which may have the same names.
    said = {name: (value or b"").decode(errors="replace") for name, value in headers}
    try:
        if said["isotherm.pipeline"] != pipeline:
            return None
        return Letter(
            (said["isotherm.topic"], int(said["isotherm.partition"]), int(said["isotherm.offset"])),
            moment_ms(said["isotherm.timestamp"]),
            said["isotherm.reason"],
            message.timestamp()[1],
        )
    except (KeyError, ValueError, OverflowError):
        return None


def moment_ms(text: str) -> int:
    """The milliseconds of a moment as letters say it."""
    try:
        return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        return int(text)
