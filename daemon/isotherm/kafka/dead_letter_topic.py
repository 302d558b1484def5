"""Keeps messages that cannot be read: the original bytes, their position, and the reason."""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from isotherm.kafka.broker import REQUEST_TIMEOUT_S
from isotherm.runtime.kafka_client import kafka_client
from isotherm.service.ports import Message, Unavailable

MAX_LETTER_BYTES = 16 * 1024 * 1024
"""The largest message that is kept; a larger one has only its line in the log."""

DEAD_LETTER_TOPIC = {
    "cleanup.policy": "delete",
    "retention.ms": str(14 * 86_400_000),
    "max.message.bytes": str(MAX_LETTER_BYTES),
}
"""Where we make the topic ourselves: two weeks, so that somebody may look at it after a holiday."""


class KafkaDeadLetters:
    """The dead-letter topic behind the port `DeadLetters`: the bytes as they came, headers that say from where."""

    def __init__(self, properties: Mapping[str, Any], topic: str) -> None:
        """`properties` are librdkafka's."""
        self._topic = topic
        self._failures: list[str] = []
        self._producer = kafka_client(
            Producer,
            {
                **properties,
                "acks": "all",
                "enable.idempotence": True,
                "message.max.bytes": MAX_LETTER_BYTES,
                "message.timeout.ms": REQUEST_TIMEOUT_S * 1000,
                "log_level": 0,
            },
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
