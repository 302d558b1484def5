"""Keeps messages that cannot be read: the original bytes, their position, and the reason."""

from collections.abc import Mapping
from typing import Any

from isotherm.kafka.steady_producer import SteadyProducer
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
        self._producer = SteadyProducer({**properties, "message.max.bytes": MAX_LETTER_BYTES})

    def put(self, message: Message, reason: str) -> None:
        """Take the message as it came; returns before it is safe."""
        headers = {
            "isotherm.topic": message.topic,
            "isotherm.partition": str(message.partition),
            "isotherm.offset": str(message.offset),
            "isotherm.reason": reason,
        }
        encoded = [(name, text.encode(errors="replace")) for name, text in headers.items()]
        self._producer.put(self._topic, message.key, message.value, encoded)

    def flush(self) -> None:
        """Return when all that was put is safe. Raises Unavailable; then it is given up."""
        if errors := self._producer.flush():
            raise Unavailable(f"topic {self._topic}: {errors[0].str()}")
