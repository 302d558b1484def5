"""The newest messages of the control topic, as a driver reads them between two batches: from now on, and never for long.

It is a member of no group, and marks nothing: what was said before a driver began, or while it could not read, is for
nobody any more. A topic that cannot be read has nothing to say.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from isotherm.runtime import clock, logs
from isotherm.runtime.kafka_client import kafka_client

TIMEOUT_S = 2.0
"""For the list of the topic's partitions, which is asked for when nothing is read yet."""
AGAIN_AFTER_S = 30.0
"""Where the topic could not be read, it is tried again after this."""
READ_FOR_S = 1.0
"""In which batches wait. What has not been read by then is read in the next turn."""
FROM_THE_END_S = 600.0
"""After this it begins anew at the end: the topic may have more partitions, and what is far behind helps nobody."""
AT_ONCE = 500
QUEUED_KB = 4096
"""Of what comes between two turns, so much waits here; a flood of more is read late."""


class ControlTail:
    """What is new on the control topic."""

    def __init__(
        self,
        properties: Mapping[str, Any],
        topic: str,
        monotonic_s: Callable[[], float] = clock.monotonic_s,
    ) -> None:
        """Nothing is connected before the first `read`."""
        self._properties = properties
        self._topic = topic
        self._monotonic_s = monotonic_s
        self._consumer: Consumer | None = None
        self._not_before_s = float("-inf")
        self._begun_s = 0.0

    def read(self) -> list[bytes]:
        """What is here by now, without waiting for more; nothing where the topic cannot be read, and at the first call."""
        if self._consumer is not None and self._monotonic_s() - self._begun_s >= FROM_THE_END_S:
            self._not_before_s = float("-inf")
            self.close()
        if self._consumer is None:
            self._begin()
        found: list[bytes] = []
        consumer, until_s = self._consumer, self._monotonic_s() + READ_FOR_S
        while consumer is not None and self._monotonic_s() < until_s:
            try:
                some = consumer.consume(AT_ONCE, 0)
            except KafkaException as err:
                self._tell(err)
                self.close()
                break
            found += [value for one in some if one.error() is None and (value := one.value()) is not None]
            if not some:
                break
        return found

    def _begin(self) -> None:
        now_s = self._monotonic_s()
        if now_s < self._not_before_s:
            return
        self._not_before_s = now_s + AGAIN_AFTER_S
        consumer = kafka_client(
            Consumer,
            {
                "queued.max.messages.kbytes": QUEUED_KB,
                **self._properties,
                "group.id": f"{self._topic}.windows",  # never committed; the protocol wants a name
                "enable.auto.commit": False,
                "auto.offset.reset": "latest",
                "allow.auto.create.topics": False,
                "error_cb": lambda _: None,
                "log_level": 0,
            },
        )
        try:
            numbers = self._partitions(consumer)
            consumer.assign([TopicPartition(self._topic, number, OFFSET_END) for number in numbers])
        except KafkaException as err:
            self._tell(err)
            consumer.close()
            return
        self._consumer, self._begun_s = consumer, now_s

    def _partitions(self, consumer: Consumer) -> list[int]:
        """The topic's partitions; raises KafkaException where it has none: it is being made, or nobody may see it."""
        known = consumer.list_topics(self._topic, timeout=TIMEOUT_S).topics[self._topic]
        if known.error is not None or not known.partitions:
            raise KafkaException(known.error or KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        return list(known.partitions)

    def _tell(self, err: KafkaException) -> None:
        logs.get().warning("control_topic_unread", topic=self._topic, error=err.args[0].str())

    def close(self) -> None:
        """Let go of the broker."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with suppress(KafkaException):
                consumer.close()
