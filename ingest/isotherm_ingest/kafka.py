"""The driver's Kafka client: events, intents, dead letters, watermarks, and where topics end. Workers read the streams.

What is sent here is acknowledged by all replicas before a call returns; what
cannot be sent raises, for an event that is lost would be a promise broken.
"""

import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from isotherm.contract.topics import PARTITIONER
from isotherm.runtime import logs
from isotherm.runtime.clock import monotonic_s
from isotherm.runtime.kafka_client import kafka_client
from isotherm_ingest.first_readable import first_readable
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.plan.topic_partition import Position

TIMEOUT_S = 15.0
"""For one request. Longer than a leader election; the batch is retried after that."""


_GONE = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,  # that topic's own trouble, which the next list shows
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 (the library's public constant)
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 (as above)
}


class BrokerError(RuntimeError):
    """Kafka does not answer, or refuses; worth another try."""


class TooLargeError(BrokerError):
    """Some messages are larger than their topic takes; the others were acknowledged."""

    def __init__(self, records: Sequence["Record"]) -> None:
        """Those that are too large, or that shared a request with one that is."""
        super().__init__(f"topic {records[0].topic}: {len(records)} messages are larger than it takes")
        self.records = tuple(records)


@dataclass(frozen=True, slots=True)
class Record:
    """A message to send."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


class Broker:
    """One producer and one admin client, for every thread of the driver."""

    def __init__(
        self, properties: Mapping[str, Any], make_producer: Callable[[dict[str, Any]], Producer] = Producer
    ) -> None:
        """Connect lazily; the first call says whether anybody is there.

        Raises:
            PropertyError: librdkafka does not take the properties.
        """
        self._properties = {**properties, "log_level": 0}
        self._make_producer = make_producer
        self._producer = self._connected()
        self._replacing = threading.Lock()
        self._admin = kafka_client(AdminClient, self._properties)

    def _connected(self) -> Producer:
        return kafka_client(
            self._make_producer,
            {
                **self._properties,
                "acks": "all",
                "enable.idempotence": True,
                "partitioner": PARTITIONER,
                "linger.ms": 0,
                "message.timeout.ms": int(TIMEOUT_S * 1000),
                "message.max.bytes": 50_000_000,  # the broker decides what is too large, not we
                "compression.type": "lz4",
            },
        )

    def _replace(self, ended: Producer, error: KafkaError) -> None:
        """Begin again with another producer, where this one has ended and no other thread has seen it before us.

        A broker that has lost its newest messages ends each producer that has sent them.
        """
        with self._replacing:
            if self._producer is ended:
                logs.get().warning("producer_ended", error=error.str(), hint="a new one begins")
                self._producer = self._connected()

    def send(self, records: Sequence[Record]) -> None:
        """Send, and wait until every replica has them all.

        Raises:
            TooLargeError: only those that it names were not acknowledged.
            BrokerError: one of them was not acknowledged; any of them may have arrived.
        """
        producer = self._producer
        try:
            self._send(producer, records)
        except (KafkaException, SystemError) as err:
            # A producer's end is raised once more from the callbacks of what it had to deliver.
            ended = KafkaError(KafkaError._FATAL, str(err))  # noqa: SLF001 (the library's public constant)
            error = ended if isinstance(err, SystemError) else err.args[0]
            if error.fatal() or error.code() == KafkaError._FATAL:  # noqa: SLF001 (the library's public constant)
                self._replace(producer, error)
            raise BrokerError(f"topic {records[0].topic}: {error.str()}") from err

    def _send(self, producer: Producer, records: Sequence[Record]) -> None:
        failures: list[KafkaError] = []
        too_large: list[Record] = []
        acknowledged = threading.Semaphore(0)

        def delivered(record: Record, error: KafkaError | None, _: Any) -> None:
            if error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                too_large.append(record)
            elif error is not None:
                failures.append(error)
            acknowledged.release()

        for record in records:
            _produce(producer, record, partial(delivered, record))
        deadline = monotonic_s() + TIMEOUT_S + 1
        for _ in records:
            while not acknowledged.acquire(blocking=False):
                producer.poll(0.05)
                if monotonic_s() > deadline:
                    raise BrokerError(f"topic {records[0].topic}: no answer in {TIMEOUT_S:g} s")
        if failures:
            raise KafkaException(failures[0])
        if too_large:
            raise TooLargeError(too_large)

    def ensure_topic(self, topic: str, config: Mapping[str, str], partitions: int = 1) -> None:
        """Make a topic, where there is none."""
        try:
            if topic in self._admin.list_topics(timeout=TIMEOUT_S).topics:
                return
            self._admin.create_topics([NewTopic(topic, num_partitions=partitions, config=dict(config))])[
                topic
            ].result(TIMEOUT_S)
        except KafkaException as err:
            if err.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise BrokerError(f"topic {topic}: {err.args[0].str()}") from err

    def topics(self, pattern: str) -> dict[str, list[int]]:
        """All topics that match, with their partitions, also those that have no leader now. Raises BrokerError."""
        matches = re.compile(pattern).fullmatch
        try:
            topics = self._admin.list_topics(timeout=TIMEOUT_S).topics
        except KafkaException as err:
            raise BrokerError(f"no answer from the brokers: {err.args[0].str()}") from err
        # One of which the brokers do not know the partitions now is not there yet, or any more.
        return {
            name: sorted(one.partitions) for name, one in topics.items() if one.partitions and matches(name)
        }

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has, with those that have no leader now; 0 where it is gone. Raises BrokerError."""
        return len(self.topics(re.escape(topic)).get(topic, ()))

    def cluster_id(self) -> str:
        """The cluster's own id."""
        try:
            return str(self._admin.list_topics(timeout=TIMEOUT_S).cluster_id or "")
        except KafkaException as err:
            raise BrokerError(f"no answer from the brokers: {err.args[0].str()}") from err

    def compacted(self, topics: Collection[str]) -> frozenset[str]:
        """Those of the topics of which Kafka keeps the newest message of each key alone. Who may not ask knows of none."""
        if not topics:
            return frozenset()
        asked = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in sorted(topics)]
        try:
            answers = _answers(
                self._admin.describe_configs(asked, request_timeout=TIMEOUT_S), "configurations"
            )
        except BrokerError as err:
            # It only warns: who may read topics need not be allowed to look at how they are kept.
            logs.get().warning(
                "cleanup_policy_unknown", topics=sorted(topics)[:5], of=len(topics), error=str(err)
            )
            return frozenset()
        return frozenset(
            resource.name
            for resource, found in answers.items()
            if "cleanup.policy" in found and "compact" in str(found["cleanup.policy"].value)
        )

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """The ids of the topics that are there: another id under the same name is another topic."""
        if not topics:
            return {}
        futures = self._admin.describe_topics(TopicCollection(list(topics)), request_timeout=TIMEOUT_S)
        ids = _answers(futures, "topics")
        return {topic: str(one.topic_id) for topic, one in ids.items()}

    def ends(self, topics: Collection[str]) -> dict[Position, int]:
        """The end of each partition of some topics."""
        return self._offsets(topics, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def starts(self, topics: Collection[str]) -> dict[Position, int]:
        """The lowest offset that each partition still holds."""
        return self._offsets(topics, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def first_since(self, topics: Collection[str], at_ms: int) -> dict[Position, int]:
        """The first offset of each partition whose message is from this time or later; -1 where none is."""
        return self._offsets(topics, OffsetSpec.for_timestamp(at_ms))

    def now(self, topics: Collection[str]) -> Kafka:
        """Where some topics end, and which they are."""
        return Kafka(ends=self.ends(topics), ids=self.topic_ids(topics))

    def first_readable(self, position: Position, offset: int, end: int) -> int | None:
        """From where on a partition can be read, of which no worker could unpack what is at an offset. None: it is not known."""
        return first_readable(self._properties, position, offset, end)

    def _offsets(self, topics: Collection[str], which: OffsetSpec) -> dict[Position, int]:
        if not topics:
            return {}
        try:
            known = self._admin.list_topics(timeout=TIMEOUT_S).topics
            wanted = {
                TopicPartition(topic, number): which
                for topic in topics
                if topic in known
                for number in known[topic].partitions
            }
            futures = self._admin.list_offsets(
                wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=TIMEOUT_S
            )
        except KafkaException as err:
            raise BrokerError(f"offsets of {len(topics)} topics: {err}") from err
        answers = _answers(futures, "offsets")
        return {(part.topic, part.partition): int(one.offset) for part, one in answers.items()}

    def newest_by_key(self, topic: str) -> dict[bytes | None, bytes | None]:
        """The newest value of each key of a topic, up to its present end; the key that was written last comes last.

        No more is kept while it is read: of a topic that is compacted Kafka holds each value of the last day, at least.
        """
        consumer = kafka_client(
            Consumer,
            {
                **self._properties,
                "group.id": f"{topic}.readers",  # never committed; the protocol wants a name
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            },
        )
        try:
            ends = {position: end for position, end in self.ends([topic]).items() if end > 0}
            consumer.assign([TopicPartition(name, number, 0) for name, number in ends])
            found: dict[bytes | None, bytes | None] = {}
            left = {number for _, number in ends}
            deadline = monotonic_s() + 4 * TIMEOUT_S
            while left:
                message = consumer.poll(1.0)
                if message is None:
                    if monotonic_s() > deadline:
                        raise BrokerError(
                            f"topic {topic} could not be read to its end in {4 * TIMEOUT_S:g} s"
                        )
                    continue
                error = message.error()
                if error is None:
                    key = _bytes(message.key())
                    found.pop(key, None)
                    found[key] = _bytes(message.value())
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 (the library's public constant)
                    left.discard(message.partition() or 0)
                elif not error.retriable() and error.fatal():
                    raise BrokerError(f"topic {topic}: {error}")
        except KafkaException as err:
            raise BrokerError(f"topic {topic}: {err}") from err
        else:
            return found
        finally:
            consumer.close()

    def flush(self) -> None:
        """Wait for what is still under way."""
        with suppress(KafkaException):  # of a producer that has ended, nothing is
            self._producer.flush(TIMEOUT_S)


def _produce(producer: Producer, record: Record, delivered: Any) -> None:
    while True:
        try:
            producer.produce(
                record.topic,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                on_delivery=delivered,
            )
        except BufferError:  # the local queue is full; delivery makes room
            producer.poll(0.1)
        except KafkaException as err:
            if err.args[0].code() != KafkaError.MSG_SIZE_TOO_LARGE:
                raise
            delivered(err.args[0], None)
            return
        else:
            return


def _answers(futures: Mapping[Any, Any], what: str) -> dict[Any, Any]:
    """What was answered. One that fails (a topic that was just deleted, no leader) is left out; all failing is Kafka's trouble."""
    answers = {}
    error: KafkaException | None = None
    for one, future in futures.items():
        try:
            answers[one] = future.result(TIMEOUT_S)
        except KafkaException as err:
            error = err
        except TimeoutError as err:
            raise BrokerError(f"{what}: no answer in {TIMEOUT_S:g} s") from err
    if error is not None and not answers and error.args[0].code() not in _GONE:
        raise BrokerError(f"{what}: {error.args[0].str()}") from error
    return answers


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
