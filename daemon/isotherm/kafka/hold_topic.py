"""The compacted topic with what holds tables back: read as a whole by everybody, written by whoever holds or lifts.

No consumer group: each reader has all of it, from the beginning, and remembers how far it came. It is small: one
record for each halt, pause and quarantine, and tombstones of those that were lifted.
"""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from isotherm.contract.topics import PARTITIONER
from isotherm.kafka.broker import QUEUED_KB, REQUEST_TIMEOUT_S, Broker, offset_bounds
from isotherm.runtime.clock import monotonic_s
from isotherm.runtime.kafka_client import kafka_client
from isotherm.service.ports import HoldReading, NotAsked, Refused, Unavailable

BATCH = 500
_FOR_ITSELF = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
"""What is said of one record, and of no other."""
TOPIC = {"cleanup.policy": "compact", "delete.retention.ms": str(90 * 86_400_000), "segment.ms": "86400000"}
"""Where we make it ourselves: a daemon that was away for 90 days still learns what was lifted meanwhile."""


class KafkaHolds:
    """The topic behind the port `HoldTopic`."""

    def __init__(
        self,
        properties: Mapping[str, Any],
        topic: str,
        on_trouble: Callable[[str], None] = lambda _: None,
        broker: Broker | None = None,
    ) -> None:
        """Nothing is read yet, and nobody needs to answer.

        Args:
            properties: librdkafka's, with `bootstrap.servers`.
            topic: the topic.
            on_trouble: told when the broker is away.
            broker: shared by all clients of it.
        """
        self._broker = broker or Broker()
        self._topic = topic
        self._on_trouble = on_trouble
        self._topic_id: str | None = None
        self._positions: dict[int, int] = {}
        common = {**properties, "error_cb": lambda error: on_trouble(str(error)), "log_level": 0}
        # A name in a group is asked for, but never joined: partitions are assigned by hand, nothing is committed.
        for name in ("group.instance.id", "session.timeout.ms", "max.poll.interval.ms"):
            common.pop(name, None)
        self._admin = kafka_client(AdminClient, {**properties, "log_level": 0})
        self._consumer = kafka_client(
            Consumer,
            {
                "queued.max.messages.kbytes": QUEUED_KB,
                **common,
                "group.id": f"{topic}.readers",
                # A halt behind an open transaction is a halt; one that is aborted later is a halt too many at worst.
                "isolation.level": "read_uncommitted",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "allow.auto.create.topics": False,
            },
        )
        self._producer = kafka_client(
            Producer,
            {
                **common,
                "acks": "all",
                "enable.idempotence": True,
                "partitioner": PARTITIONER,
                "message.timeout.ms": REQUEST_TIMEOUT_S * 1000,
            },
        )

    def read(self, timeout_s: float) -> HoldReading | None:
        """What came since the last call, up to the topic's present end; None where it was not reached in time."""
        deadline = monotonic_s() + timeout_s
        asked = self._ends(timeout_s)
        if asked is None:
            return None
        is_whole, ends = asked
        if any(self._positions[number] > end for number, end in ends.items()):
            self._topic_id = None  # cut off behind our back: read all of it again
            return self.read(timeout_s)
        records: dict[str, bytes | None] = {}
        while any(self._positions[number] < end for number, end in ends.items()):
            left_s = deadline - monotonic_s()
            if left_s <= 0:
                self._topic_id = None  # what was read is thrown away: start over the next time
                return None
            for message in self._consumer.consume(BATCH, min(left_s, 0.05)):
                error, key = message.error(), message.key()
                if error is not None:
                    if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 (the library's public constant)
                        self._on_trouble(str(error))
                elif isinstance(key, bytes):
                    records[key.decode(errors="replace")] = message.value()
            # Not by the messages: the end of a compacted partition may hold none.
            for part in self._consumer.position([TopicPartition(self._topic, number) for number in ends]):
                self._positions[part.partition] = max(part.offset, self._positions[part.partition])
        return HoldReading(records, is_whole)

    def write(self, key: str, value: bytes | None) -> None:
        """Keep a value under a key, or remove the key where the value is None. Returns when the broker has it."""
        try:
            self._broker.ask(lambda: self._write(key, value))
        except (KafkaException, TimeoutError) as err:
            is_for_itself = isinstance(err, KafkaException) and err.args[0].code() in _FOR_ITSELF
            kind = Refused if is_for_itself else Unavailable
            raise kind(f"topic {self._topic}: {err or 'no answer'}") from err

    def _write(self, key: str, value: bytes | None) -> None:
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Any) -> None:
            if error is not None:
                failures.append(error)

        self._producer.produce(self._topic, key=key.encode(), value=value, on_delivery=delivered)
        left = self._producer.flush(REQUEST_TIMEOUT_S)
        if failures:
            raise KafkaException(failures[0])
        if left:
            raise TimeoutError("no answer")

    def close(self) -> None:
        """Let go of the broker."""
        with contextlib.suppress(KafkaException):
            self._consumer.close()

    def _ends(self, timeout_s: float) -> tuple[bool, dict[int, int]] | None:
        """Whether it is read from its beginning, and where its partitions end now; None where the broker is silent."""

        def ask() -> tuple[bool, dict[int, int]]:
            is_whole = self._begin_where_needed(timeout_s)
            bounds = offset_bounds(self._admin, self._topic, self._positions, timeout_s)
            return is_whole, {number: high for number, (_, high) in bounds.items()}

        try:
            return self._broker.ask(ask)
        except NotAsked:
            return None
        except (KafkaException, TimeoutError) as err:
            self._topic_id = None  # perhaps half-way through: begin again the next time
            self._on_trouble(f"topic {self._topic}: {err or 'no answer'}")
            return None

    def _begin_where_needed(self, timeout_s: float) -> bool:
        """Begin at the beginning the first time, and where the topic is another one by now; whether it does."""
        asked = self._admin.describe_topics(TopicCollection([self._topic]), request_timeout=timeout_s)
        topic = asked[self._topic].result(timeout_s)
        known, self._topic_id = self._topic_id, str(topic.topic_id)
        if known == self._topic_id:
            return False
        parts = [TopicPartition(self._topic, one.id, OFFSET_BEGINNING) for one in topic.partitions]
        self._consumer.assign(parts)
        self._positions = {part.partition: 0 for part in parts}
        bounds = offset_bounds(self._admin, self._topic, self._positions, timeout_s)
        self._positions = {number: low if low == high else 0 for number, (low, high) in bounds.items()}
        return True
