"""Keeps messages that cannot be read: the original bytes, their position, and the reason.

Nothing waits for this topic for long, and nothing else stops because of it: where it did not take the letters of one batch
in time, those of the next ones are given up at once, for a moment.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaException

from isotherm.kafka.broker import Broker
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

    def __init__(self, properties: Mapping[str, Any], topic: str, broker: Broker | None = None) -> None:
        """`properties` are librdkafka's, `broker` is shared by all clients of it."""
        self._topic = topic
        self._broker = (broker or Broker()).beside()
        self._producer = SteadyProducer({**properties, "message.max.bytes": MAX_LETTER_BYTES})
        self._letters: list[tuple[Message, str]] = []

    def put(self, message: Message, reason: str) -> None:
        """Take the message as it came; returns before it is safe."""
        self._letters.append((message, reason))

    def flush(self) -> None:
        """Return when all that was put is safe. Raises Unavailable; then it is given up."""
        letters, self._letters = self._letters, []
        try:
            self._broker.ask(lambda: self._send(letters))
        except KafkaException as err:
            raise Unavailable(f"topic {self._topic}: {err.args[0].str()}") from err

    def _send(self, letters: Sequence[tuple[Message, str]]) -> None:
        for message, reason in letters:
            headers = {
                "isotherm.topic": message.topic,
                "isotherm.partition": str(message.partition),
                "isotherm.offset": str(message.offset),
                "isotherm.reason": reason,
            }
            encoded = [(name, text.encode(errors="replace")) for name, text in headers.items()]
            self._producer.put(self._topic, message.key, message.value, encoded)
        if errors := self._producer.flush():
            # What is too large is refused at once; that nobody answers is found out after it.
            raise KafkaException(errors[-1])
