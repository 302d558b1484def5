"""Topics of other systems, read beside our own, in a group of their own.

Offsets out of range go back to the earliest: old announcements name what is known, or gone.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from isotherm.kafka.broker import as_messages
from isotherm.kafka.control_topic import SESSION_TIMEOUT_MS
from isotherm.runtime.kafka_client import kafka_client
from isotherm.service.ports import Message

BATCH = 200

QUEUED_KB = 32_768
"""What librdkafka fetches ahead, all topics together: the events of others may be megabytes."""


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
        self._consumer = kafka_client(
            Consumer,
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
            },
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
