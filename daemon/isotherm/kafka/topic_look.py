"""What a topic is now: who it is, and where its partitions begin and end."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from isotherm.runtime.kafka_client import kafka_client

Answer = TypeVar("Answer")

_OF_ANOTHER_TIME = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
"""What is answered to a client that remembers other leaders than there are. It may do so for minutes, and where a broker
came back with an older copy of its disk, for ever."""


class TopicLook:
    """Looks at one topic."""

    def __init__(self, properties: Mapping[str, Any], topic: str) -> None:
        """Connect when somebody asks; `properties` are librdkafka's."""
        self._properties = {**properties, "log_level": 0}
        self._topic = topic
        self._admin = self._new()

    def _new(self) -> AdminClient:
        return kafka_client(AdminClient, self._properties)

    def description(self, timeout_s: float) -> Any:
        """The topic's id and partitions. Raises KafkaException: the broker refuses; TimeoutError: it does not answer."""
        asked = self._admin.describe_topics(TopicCollection([self._topic]), request_timeout=timeout_s)
        return asked[self._topic].result(timeout_s)

    def bounds(self, partitions: Iterable[int], timeout_s: float) -> dict[int, tuple[int, int]]:
        """Where each of its partitions begins and ends, in two requests for all of them.

        A consumer can ask as well, but for one partition after another, each time behind what it waits for already.

        Raises:
            KafkaException: the broker refuses.
            TimeoutError: it does not answer in time.
        """
        parts = [TopicPartition(self._topic, number) for number in partitions]
        return self._asked_again(lambda: self._bounds(parts, timeout_s)) if parts else {}

    def _bounds(self, parts: list[TopicPartition], timeout_s: float) -> dict[int, tuple[int, int]]:
        lows, highs = (
            self._admin.list_offsets(
                dict.fromkeys(parts, spec),
                # As the consumers read: not up to the oldest open transaction.
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
                request_timeout=timeout_s,
            )
            for spec in (OffsetSpec.earliest(), OffsetSpec.latest())  # type: ignore[no-untyped-call]
        )
        return {
            part.partition: (lows[part].result(timeout_s).offset, highs[part].result(timeout_s).offset)
            for part in parts
        }

    def _asked_again(self, question: Callable[[], Answer]) -> Answer:
        """The answer; once more by a client that remembers nothing, where this one remembers other leaders."""
        try:
            return question()
        except KafkaException as err:
            if err.args[0].code() not in _OF_ANOTHER_TIME:
                raise
        self._admin = self._new()
        return question()
