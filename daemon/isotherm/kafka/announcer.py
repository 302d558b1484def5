"""Announcements on the control topic: each is written when the broker has said so."""

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from isotherm.contract.events import MAX_ANNOUNCEMENT_BYTES, CommitEvent, Window, encode, shortened
from isotherm.contract.topics import PARTITIONER
from isotherm.kafka.broker import Broker
from isotherm.kafka.steady_producer import SteadyProducer
from isotherm.service.ports import NotAnnounced, NotAsked

SHRINK = 4

SMALLEST_LIMIT_BYTES = 1000
"""Where a topic takes less than our own limit, an announcement is cut further; what is left fits into this."""


class Announcer:
    """Writes commit events, and what is said of windows."""

    def __init__(
        self,
        properties: Mapping[str, Any],
        topic: str,
        broker: Broker,
        on_error: Callable[[KafkaError], None],
    ) -> None:
        """Connect when there is something to write.

        Args:
            properties: librdkafka's, with `bootstrap.servers`.
            topic: the control topic.
            broker: shared by all clients of it.
            on_error: told when the broker is away; librdkafka reconnects by itself.
        """
        self._topic = topic
        self._broker = broker
        self._producer = SteadyProducer({**properties, "partitioner": PARTITIONER, "error_cb": on_error})

    def publish(self, event: CommitEvent | Window) -> None:
        """Announce a snapshot, or say something of a window; returns when the broker has it. What is too large for the topic is cut.

        Raises:
            NotAnnounced: it has not, perhaps.
        """
        limit = MAX_ANNOUNCEMENT_BYTES
        while error := self._written(shortened(event, limit) if isinstance(event, CommitEvent) else event):
            limit //= SHRINK
            if (
                not isinstance(event, CommitEvent)
                or error.code() != KafkaError.MSG_SIZE_TOO_LARGE
                or limit < SMALLEST_LIMIT_BYTES
            ):
                raise NotAnnounced(f"control topic {self._topic}: {error.str()}")

    def _written(self, event: CommitEvent | Window) -> KafkaError | None:
        """Write one message; gives why it is not there."""
        try:
            self._broker.ask(lambda: self._send(event))
        except NotAsked as err:
            raise NotAnnounced(str(err)) from err
        except KafkaException as err:
            error: KafkaError = err.args[0]
            return error
        return None

    def _send(self, event: CommitEvent | Window) -> None:
        key, value, headers = encode(event)
        self._producer.write(self._topic, key, value, list(headers.items()))

    def close(self) -> None:
        """Wait for what is under way."""
        self._producer.flush()
