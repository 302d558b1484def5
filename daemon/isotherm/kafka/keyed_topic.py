"""A compacted topic: the newest value of each key, read as a whole by everybody, and written by whoever knows it.

There are two: of what holds tables back, and of up to where readers have read. No consumer group: each client has all of it,
from the beginning, and remembers how far it came. It is small: one record for each halt, pause and quarantine, or for each
reader, and tombstones of those that are over.
"""

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from isotherm.contract.topics import PARTITIONER
from isotherm.kafka.broker import QUEUED_KB, Broker, close_in_time
from isotherm.kafka.steady_producer import SteadyProducer
from isotherm.kafka.topic_look import TopicLook
from isotherm.runtime.clock import monotonic_s
from isotherm.runtime.kafka_client import kafka_client
from isotherm.service.ports import KeyedReading, NotAsked, Refused, Unavailable

BATCH = 500
_FOR_ITSELF = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
"""What is said of one record, and of no other."""
TOPIC = {
    "cleanup.policy": "compact",
    "delete.retention.ms": str(90 * 86_400_000),
    "segment.ms": "86400000",
    "compression.type": "uncompressed",
}
"""Where we make it ourselves: a daemon that was away for 90 days still learns what was lifted meanwhile. Not packed, so
that the broker itself refuses what unpacks to more than a message may have: no hold behind it would be read."""


class KafkaKeyedTopic:
    """One of them, behind the port `KeyedTopic`."""

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
        self._known: tuple[str, int] | None = None
        """The topic's id and how many partitions it has, or None where it must be read from its beginning."""
        self._positions: dict[int, int] = {}
        self._records: dict[str, bytes | None] = {}
        """What was read and not handed out yet, because the end was not reached in time."""
        self._is_whole = False
        """Whether that is from the beginning on."""
        common = {**properties, "error_cb": lambda error: on_trouble(str(error)), "log_level": 0}
        # A name in a group is asked for, but never joined: partitions are assigned by hand, nothing is committed.
        for name in ("group.instance.id", "session.timeout.ms", "max.poll.interval.ms"):
            common.pop(name, None)
        self._look = TopicLook(properties, topic)
        self._reading = {
            "queued.max.messages.kbytes": QUEUED_KB,
            **common,
            "group.id": f"{topic}.readers",
            # A halt behind an open transaction is a halt; one that is aborted later is a halt too many at worst.
            "isolation.level": "read_uncommitted",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "allow.auto.create.topics": False,
        }
        self._consumer = kafka_client(Consumer, self._reading)
        self._producer = SteadyProducer({**common, "partitioner": PARTITIONER})

    def read(self, timeout_s: float) -> KeyedReading | None:
        """What came since the last call, up to the topic's present end; None where it was not reached in time."""
        deadline = monotonic_s() + timeout_s
        ends = self._ends(timeout_s)
        if ends is None:
            return None
        if any(self._positions[number] > end for number, end in ends.items()):
            self._known = None  # cut off behind our back: read all of it again
            return self.read(timeout_s)
        before = dict(self._positions)
        while any(self._positions[number] < end for number, end in ends.items()):
            left_s = deadline - monotonic_s()
            if left_s <= 0:
                if self._positions == before:
                    self._begin_again()
                return None
            self._read_some(min(left_s, 0.05))
        reading = KeyedReading(self._records, self._is_whole)
        self._records, self._is_whole = {}, False
        return reading

    def _read_some(self, timeout_s: float) -> None:
        for message in self._consumer.consume(BATCH, timeout_s):
            error, key = message.error(), message.key()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 (the library's public constant)
                    self._on_trouble(str(error))
            elif isinstance(key, bytes):
                self._records[key.decode(errors="replace")] = message.value()
        # Not by the messages: the end of a compacted partition may hold none.
        for part in self._consumer.position(
            [TopicPartition(self._topic, number) for number in self._positions]
        ):
            self._positions[part.partition] = max(part.offset, self._positions[part.partition])

    def _begin_again(self) -> None:
        """Read all of it with another client: one that gets nothing may never get anything any more.

        To a broker that came back with an older copy of its disk a client's idea of who leads seems newer, for ever.
        """
        self.close()
        self._consumer = kafka_client(Consumer, self._reading)
        self._known = None

    def write(self, key: str, value: bytes | None) -> None:
        """Keep a value under a key, or remove the key where the value is None. Returns when the broker has it."""
        try:
            self._broker.ask(lambda: self._producer.write(self._topic, key.encode(), value))
        except KafkaException as err:
            kind = Refused if err.args[0].code() in _FOR_ITSELF else Unavailable
            raise kind(f"topic {self._topic}: {err}") from err

    def close(self) -> None:
        """Let go of the broker."""
        close_in_time(self._consumer)

    def _ends(self, timeout_s: float) -> dict[int, int] | None:
        """Where its partitions end now; None where the broker is silent."""

        def ask() -> dict[int, int]:
            self._begin_where_needed(timeout_s)
            bounds = self._look.bounds(self._positions, timeout_s)
            return {number: high for number, (_, high) in bounds.items()}

        try:
            return self._broker.ask(ask)
        except NotAsked:
            return None
        except (KafkaException, TimeoutError) as err:
            self._known = None  # perhaps half-way through: begin again the next time
            self._on_trouble(f"topic {self._topic}: {err or 'no answer'}")
            return None

    def _begin_where_needed(self, timeout_s: float) -> None:
        """Begin at the beginning the first time, and where the topic is another one by now, or has more partitions."""
        topic = self._look.description(timeout_s)
        before, self._known = self._known, (str(topic.topic_id), len(topic.partitions))
        if before == self._known:
            return
        parts = [TopicPartition(self._topic, one.id, OFFSET_BEGINNING) for one in topic.partitions]
        self._consumer.assign(parts)
        self._records, self._is_whole = {}, True
        self._positions = {part.partition: 0 for part in parts}
        bounds = self._look.bounds(self._positions, timeout_s)
        self._positions = {number: low if low == high else 0 for number, (low, high) in bounds.items()}
