"""The topics of other systems on real Kafka, and the topic for what nobody can read.

The sources are read by a group of their own, so that its members divide them as they like: what they announce goes to
the control topic, and there to the daemon that has the table. Only what is committed is read, for Kafka Connect writes
in transactions. Offsets out of range go back to the earliest: old announcements name what is known, or gone.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from isotherm.kafka.control_topic import REQUEST_TIMEOUT_S, SESSION_TIMEOUT_MS, as_messages
from isotherm.service.ports import Message, Unavailable

BATCH = 200
QUEUED_KB = 32_768
"""What librdkafka fetches ahead, all topics together: the events of others may be megabytes."""
MAX_LETTER_BYTES = 16 * 1024 * 1024
"""The largest message that is kept; a larger one has only its line in the log."""
DEAD_LETTER_TOPIC = {
    "cleanup.policy": "delete",
    "retention.ms": str(14 * 86_400_000),
    "max.message.bytes": str(MAX_LETTER_BYTES),
}
"""Where we make the topic ourselves: two weeks, so that somebody may look at it after a holiday."""


class KafkaSources:
    """The topics of other systems behind the port `SourceTopics`."""

    def __init__(
        self,
        properties: Mapping[str, Any],
        topics: Sequence[str],
        group: str,
        on_trouble: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Join the group; `properties` are librdkafka's, `on_trouble` is told when the broker is away."""
        self._on_trouble = on_trouble
        self._positions: dict[tuple[str, int], int] = {}
        self._consumer = Consumer(
            {
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "queued.max.messages.kbytes": QUEUED_KB,
                **properties,
                "group.id": group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 10_000,
                "allow.auto.create.topics": False,
                "error_cb": lambda error: on_trouble(str(error)),
                "log_level": 0,
            }
        )
        self._consumer.subscribe(list(topics), on_revoke=self._revoked, on_lost=self._revoked)

    def poll(self, timeout_s: float) -> Sequence[Message]:
        """New messages, at most some hundreds; empty when none came in time."""
        messages = as_messages(
            self._consumer.consume(BATCH, timeout_s), lambda one: self._on_trouble(str(one.error()))
        )
        for message in messages:
            self._positions[message.topic, message.partition] = message.offset + 1
        return messages

    def commit(self) -> None:
        """Never hand out again what was handed out so far; called after it was announced or set aside."""
        offsets = [TopicPartition(topic, number, at) for (topic, number), at in self._positions.items()]
        self._positions.clear()
        if not offsets:
            return
        try:
            self._consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as err:  # a rebalance took the partition: its next owner reads it again
            self._on_trouble(str(err))

    def close(self) -> None:
        """Leave the group."""
        with contextlib.suppress(KafkaException):
            self._consumer.close()

    def _revoked(self, _: Consumer, parts: list[TopicPartition]) -> None:
        for part in parts:
            self._positions.pop((part.topic, part.partition), None)


class KafkaDeadLetters:
    """The dead-letter topic behind the port `DeadLetters`: the bytes as they came, headers that say from where."""

    def __init__(self, properties: Mapping[str, Any], topic: str) -> None:
        """`properties` are librdkafka's."""
        self._topic = topic
        self._failures: list[str] = []
        self._producer = Producer(
            {
                **properties,
                "acks": "all",
                "enable.idempotence": True,
                "message.max.bytes": MAX_LETTER_BYTES,
                "message.timeout.ms": REQUEST_TIMEOUT_S * 1000,
                "log_level": 0,
            }
        )

    def put(self, message: Message, reason: str) -> None:
        """Take the message as it came; returns before it is safe."""
        headers = {
            "isotherm.topic": message.topic,
            "isotherm.partition": str(message.partition),
            "isotherm.offset": str(message.offset),
            "isotherm.reason": reason,
        }
        try:
            self._producer.produce(
                self._topic,
                key=message.key,
                value=message.value,
                headers=[(name, text.encode(errors="replace")) for name, text in headers.items()],
                on_delivery=self._delivered,
            )
        except (BufferError, KafkaException) as err:  # the queue is full, or the message too large to keep
            self._failures.append(str(err))

    def flush(self) -> None:
        """Return when all that was put is safe. Raises Unavailable; then it is given up."""
        left = self._producer.flush(REQUEST_TIMEOUT_S)
        failures, self._failures = self._failures, []
        if left or failures:
            raise Unavailable(f"topic {self._topic}: {failures[0] if failures else 'no answer'}")

    def _delivered(self, error: KafkaError | None, _: Any) -> None:
        if error is not None:
            self._failures.append(str(error))
