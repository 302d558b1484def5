"""A producer that begins again: what has ended one for ever does not end what we write.

A broker that lost its newest messages (it came back with an older disk, or an elder replica leads) ends each idempotent
producer that has sent them. librdkafka refuses whatever is given to it from then on. A new one starts over.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from isotherm.kafka.broker import REQUEST_TIMEOUT_S
from isotherm.runtime.kafka_client import kafka_client

Headers = Sequence[tuple[str, bytes]]


class SteadyProducer:
    """Writes messages that are not lost once the broker has said so. Of one thread."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        """Connect when there is something to write; `properties` are librdkafka's."""
        self._properties: dict[str, Any] = {
            **properties,
            "acks": "all",
            "enable.idempotence": True,
            "message.timeout.ms": REQUEST_TIMEOUT_S * 1000,
            "log_level": 0,
        }
        self._producer = self._new()
        self._errors: list[KafkaError] = []
        """Of what was put since the last flush."""

    def _new(self) -> Producer:
        return kafka_client(Producer, self._properties)

    def write(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers = ()) -> None:
        """Write one message, and return when the broker has it. Raises KafkaException: perhaps it has it not."""
        self.put(topic, key, value, headers)
        if errors := self.flush():
            raise KafkaException(errors[0])

    def put(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers = ()) -> None:
        """Take a message; what became of it is told by `flush`."""
        # What comes late of messages that were given up belongs to the flush that gave them up.
        delivered = partial(_note, self._errors)
        try:
            self._producer.produce(topic, key=key, value=value, headers=list(headers), on_delivery=delivered)
        except BufferError:
            self._errors.append(KafkaError(KafkaError._QUEUE_FULL))  # noqa: SLF001 (the library's public constant)
        except KafkaException as err:
            self._errors.append(err.args[0])

    def flush(self) -> list[KafkaError]:
        """Return when the broker has all that was put, or with the errors of what it has not, perhaps."""
        left = 0
        try:
            left = self._producer.flush(REQUEST_TIMEOUT_S)
        except (KafkaException, SystemError) as err:
            # Its end is raised from whatever waits for it, and once more from the callbacks of what it had to deliver.
            self._errors.append(KafkaError(KafkaError._FATAL, str(err)))  # noqa: SLF001 (as above)
        errors, self._errors = self._errors, []
        if left and not errors:
            errors = [KafkaError(KafkaError._TIMED_OUT)]
        if any(one.fatal() or one.code() == KafkaError._FATAL for one in errors):  # noqa: SLF001 (as above)
            self._producer = self._new()
        return errors


def _note(errors: list[KafkaError], error: KafkaError | None, _: Any) -> None:
    if error is not None:
        errors.append(error)
