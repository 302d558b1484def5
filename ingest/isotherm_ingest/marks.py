"""How far each topic was seen through, kept in Kafka as the committed offsets of the pipeline's own consumer group.

The tables say what they have; this says what was looked at and held nothing for them: tombstones, dead letters, markers
of transactions. Tools that show the lag of groups show ours. Beside each offset stands what was known of the topic's
tables at that moment (`Known`), so that a driver that begins can tell a table that has less from one that needs no more.

The offsets are committed by a transactional producer. A driver that begins takes the pipeline over: the one before is
fenced, and learns it with its next commit. Each mark names the driver that wrote it, so that one whose producer has ended
sees whether another driver has begun meanwhile, and does not fence it.
"""

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from isotherm.runtime import logs
from isotherm.runtime.kafka_client import kafka_client
from isotherm_ingest.kafka import TIMEOUT_S, BrokerError
from isotherm_ingest.mark_text import Mark, decoded, encoded, unmarked
from isotherm_ingest.plan.topic_partition import Position

PIECE_BYTES = 300_000
"""Of one commit; a broker refuses one that is larger than a message may be (a megabyte by default)."""
TRANSACTION_MS = 600_000
"""A driver that is paused for less within a commit is not taken for dead. Brokers allow 15 minutes by default."""
TOO_MANY_TABLES = "after a restart they may be halted once retention has passed their last rows; give them a topic of their own"
HANGS_AFTER_S = TIMEOUT_S + 5
"""librdkafka looks at no time-out while it waits for the group's coordinator. After a restart of the broker it has waited
for ten minutes (confluentinc/librdkafka#5456, #5511)."""

COORDINATOR_EVERY_S = 0.2
"""How often a group without a coordinator is asked for: the first one of a new Kafka gets it in a second or two."""
_NO_COORDINATOR = {
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
}
_FENCED = {
    KafkaError._FENCED,  # noqa: SLF001 (the library's public constant)
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
}
"""Of what ends a producer, what says that there is a newer one."""


def _waits_for_coordinator(err: BaseException) -> bool:
    return isinstance(err, KafkaException) and err.args[0].code() in _NO_COORDINATOR


class TakenOver(RuntimeError):  # noqa: N818 (nobody's mistake)
    """Another driver of the pipeline has begun after this one."""


def group_of(pipeline: str) -> str:
    """The consumer group, and the transactional id, of a pipeline."""
    return f"isotherm-ingest-{pipeline}"


class Marks:
    """The marks of one pipeline."""

    def __init__(
        self,
        properties: Mapping[str, Any],
        pipeline: str,
        make_producer: Callable[[dict[str, Any]], Producer] = Producer,
        hangs_after_s: float = HANGS_AFTER_S,
        make_consumer: Callable[[dict[str, Any]], Consumer] = Consumer,
    ) -> None:
        """Connect lazily."""
        self._make_producer = make_producer
        self._hangs_after_s = hangs_after_s
        self._id = uuid.uuid4().hex[:12]
        self._written: set[Position] = set()
        """What bears our id, unless another driver has written it since."""
        self._common = {**properties, "log_level": 0}
        self._group = group_of(pipeline)
        self._producer: Producer | None = None
        self._is_committing = False
        """A commit was asked for, and its answer is not known: librdkafka takes nothing but the same call again."""
        self._topics_told: set[str] = set()
        """Topics of which it was told that they have too many tables."""
        self._consumer = kafka_client(
            make_consumer, {**self._common, "group.id": self._group, "enable.auto.commit": False}
        )

    def take_over(self) -> None:
        """Fence whoever wrote the marks before, once; asked again, it does nothing.

        Raises:
            TakenOver: our own producer has ended, and another driver has begun meanwhile.
            BrokerError: Kafka does not answer.
        """
        if self._producer is not None:
            return
        for position, mark in self.read(sorted(self._written)).items():
            if mark.by not in {"", self._id}:
                raise TakenOver(f"another driver has marked {position[0]}/{position[1]}")
        producer = kafka_client(
            self._make_producer,
            {**self._common, "transactional.id": self._group, "transaction.timeout.ms": TRANSACTION_MS},
        )
        try:
            producer.init_transactions(TIMEOUT_S)
        except KafkaException as err:
            raise BrokerError(f"the transactions of ingest's producer: {err.args[0].str()}") from err
        self._producer = producer

    def read(self, positions: list[Position]) -> dict[Position, Mark]:
        """The marks of these partitions, where there are any. Raises BrokerError."""
        wanted = [TopicPartition(topic, partition) for topic, partition in positions]
        patiently = Retrying(
            retry=retry_if_exception(_waits_for_coordinator),
            wait=wait_fixed(COORDINATOR_EVERY_S),
            stop=stop_after_delay(TIMEOUT_S),
            reraise=True,
        )
        try:
            found = patiently(self._consumer.committed, wanted, TIMEOUT_S) if wanted else []
        except KafkaException as err:
            raise BrokerError(f"committed offsets: {err.args[0].str()}") from err
        return {
            (one.topic, one.partition): decoded(one.offset, one.metadata or "")
            for one in found
            if one.error is None and one.offset >= 0
        }

    def write(self, marks: Mapping[Position, Mark]) -> Iterator[dict[Position, Mark]]:
        """Commit, in pieces that a broker takes; gives each piece once it is committed.

        Raises:
            TakenOver: another driver has begun.
            BrokerError: Kafka does not answer; nothing is lost, the next commit says it again.
        """
        self.take_over()
        self._end_commit()
        for piece in _pieces({position: replace(mark, by=self._id) for position, mark in marks.items()}):
            offsets = [
                TopicPartition(topic, partition, mark.through, metadata=text)
                for (topic, partition), (mark, text) in piece.items()
            ]
            self._commit(offsets)
            self._tell_unmarked(piece)
            self._written |= piece.keys()
            yield {position: mark for position, (mark, _) in piece.items()}

    def _tell_unmarked(self, piece: Mapping[Position, tuple[Mark, str]]) -> None:
        """Tell once of each topic which quiet tables found no room beside its offsets."""
        for (topic, _), (mark, text) in piece.items():
            if topic not in self._topics_told and (names := unmarked(mark, text)):
                self._topics_told.add(topic)
                logs.get().warning(
                    "tables_not_marked", topic=topic, tables=names[:5], of=len(names), hint=TOO_MANY_TABLES
                )

    def _commit(self, offsets: list[TopicPartition]) -> None:
        assert self._producer is not None  # noqa: S101 (a driver takes over before it writes)
        try:
            self._producer.begin_transaction()
            self._send(self._producer, offsets)
        except KafkaException as err:
            self._give_up(err.args[0])
            raise BrokerError(f"committed offsets: {err.args[0].str()}") from err
        self._is_committing = True
        self._end_commit()

    def _send(self, producer: Producer, offsets: list[TopicPartition]) -> None:
        """Add offsets to the transaction. A producer that does not come back from it is left to itself.

        Whatever it does later is refused, because the next one fences it.
        """
        answer = Future[None]()

        def send() -> None:
            try:
                group = self._consumer.consumer_group_metadata()
                producer.send_offsets_to_transaction(offsets, group, TIMEOUT_S)
                answer.set_result(None)
            except BaseException as err:  # noqa: BLE001 (raised where the answer is waited for)
                answer.set_exception(err)

        threading.Thread(target=send, name="marks", daemon=True).start()
        try:
            answer.result(self._hangs_after_s)
        except TimeoutError as err:
            self._producer = None
            why = f"no answer in {self._hangs_after_s:g} s"
            logs.get().warning("producer_ended", error=why, hint="a new one begins")
            raise BrokerError(f"committed offsets: {why}") from err

    def _end_commit(self) -> None:
        """Ask for the commit until it is answered, also where an earlier call gave up."""
        if not self._is_committing or self._producer is None:
            return
        try:
            self._producer.commit_transaction(TIMEOUT_S)
        except KafkaException as err:
            if not err.args[0].retriable():
                self._is_committing = False
                self._give_up(err.args[0])
            raise BrokerError(f"committed offsets: {err.args[0].str()}") from err
        self._is_committing = False

    def _give_up(self, error: KafkaError) -> None:
        """Abort, so that the next commit can begin. Raises TakenOver.

        A broker that restarts in the middle of a commit may end a producer that nobody has fenced; then a new one begins.
        """
        assert self._producer is not None  # noqa: S101 (as above)
        if not error.fatal():
            try:
                self._producer.abort_transaction(TIMEOUT_S)
            except KafkaException as err:
                error = err.args[0]
        if error.fatal() and error.code() in _FENCED:
            raise TakenOver(error.str())
        if error.fatal():
            logs.get().warning("producer_ended", error=error.str(), hint="a new one begins")
            self._producer = None

    def close(self) -> None:
        """Leave."""
        self._consumer.close()


def _pieces(marks: Mapping[Position, Mark]) -> Iterator[dict[Position, tuple[Mark, str]]]:
    """The marks with their texts, so many at a time as one commit takes."""
    piece: dict[Position, tuple[Mark, str]] = {}
    size = 0
    for position, mark in sorted(marks.items()):
        text = encoded(mark)
        if piece and size + len(text.encode()) + 100 > PIECE_BYTES:
            yield piece
            piece, size = {}, 0
        piece[position] = (mark, text)
        size += len(text.encode()) + 100
    if piece:
        yield piece
