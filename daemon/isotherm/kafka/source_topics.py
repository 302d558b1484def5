"""Topics of other systems, read beside our own, in a group of their own.

Offsets out of range go back to the earliest: old announcements name what is known, or gone.

A member that does not ask for messages is put out of the group after `max.poll.interval.ms`, and what it has read is given
to the next one. So it asks in every turn of the loop, with its partitions paused where it wants none.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from isotherm.kafka.broker import as_messages, close_in_time
from isotherm.kafka.control_topic import MAX_POLL_INTERVAL_MS, SESSION_TIMEOUT_MS
from isotherm.kafka.step_over import StepOver, stuck
from isotherm.runtime.kafka_client import kafka_client
from isotherm.service.ports import Message

BATCH = 200

QUEUED_MESSAGES = 5 * BATCH
"""What librdkafka fetches ahead of each Kafka partition: it drops that when the partition is paused, and fetches it again."""

QUEUED_KB = 32_768
"""What librdkafka fetches ahead, all topics together: the events of others may be megabytes."""


class KafkaSources:
    """The topics of other systems behind the port `SourceTopics`."""

    def __init__(
        self,
        properties: Mapping[str, Any],
        topics: Sequence[str],
        group: str,
        on_trouble: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Join the group; `properties` are librdkafka's, `on_trouble` is told when the broker is away."""
        self._on_trouble = on_trouble
        self._group_at: dict[tuple[str, int], int] = {}
        """Up to where the group was told, of each Kafka partition that we have read from since it became ours."""
        self._paused: set[tuple[str, int]] = set()
        """Also of partitions that were taken from us: they may come back as they left."""
        self._consumer = kafka_client(
            Consumer,
            {
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "max.poll.interval.ms": MAX_POLL_INTERVAL_MS,
                "queued.max.messages.kbytes": QUEUED_KB,
                "queued.min.messages": QUEUED_MESSAGES,
                **properties,
                "group.id": group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 10_000,
                "allow.auto.create.topics": False,
                "error_cb": lambda error: on_trouble(str(error)),
                "on_commit": self._answered,
                "log_level": 0,
            },
        )
        self._step_over = StepOver()
        self._consumer.subscribe(list(topics), on_revoke=self._revoked, on_lost=self._revoked)

    def poll(self, timeout_s: float, *, wanted: bool = True) -> Sequence[Message]:
        """New messages, at most some hundreds; empty when none came in time, or none are wanted."""
        self._pause_or_resume(is_paused=not wanted)
        raw = self._consumer.consume(BATCH, timeout_s)
        messages = as_messages(raw, lambda one: self._on_trouble(str(one.error())))
        for message in messages:
            self._step_over.came(message.topic, message.partition)
            part = message.topic, message.partition
            # It may go back: offsets that are out of range, and a topic that was made again, begin at the earliest.
            self._group_at[part] = min(self._group_at.get(part, message.offset), message.offset)
        for (topic, number), one in stuck(raw).items():
            (at,) = self._consumer.position([TopicPartition(topic, number)])
            self._step_over.beyond(self._consumer, topic, number, max(at.offset, one.offset() or 0))
        return messages

    def _pause_or_resume(self, *, is_paused: bool) -> None:
        if not is_paused and not self._paused:
            return
        parts = [
            part
            for part in self._consumer.assignment()
            if ((part.topic, part.partition) in self._paused) != is_paused
        ]
        if not parts:
            return
        names = {(part.topic, part.partition) for part in parts}
        if is_paused:
            self._consumer.pause(parts)
            self._paused |= names
        else:
            self._consumer.resume(parts)
            self._paused -= names

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Never hand out again what lies before these offsets; sends what the group was not told yet."""
        due = {part: at for part, at in offsets.items() if at > self._group_at.get(part, at)}
        if not due:
            return
        parts = [TopicPartition(topic, number, at) for (topic, number), at in due.items()]
        try:
            self._consumer.commit(offsets=parts, asynchronous=True)
        except KafkaException as err:  # a rebalance took the partition: its next owner reads it again
            self._on_trouble(str(err))
            return
        self._group_at.update(due)

    def _answered(self, error: KafkaError | None, parts: list[TopicPartition]) -> None:
        """What came of a commit, told while we ask for messages. What failed is sent again."""
        for part in parts:
            why = part.error or error
            if why is not None and (part.topic, part.partition) in self._group_at:
                self._group_at[part.topic, part.partition] = 0
                self._on_trouble(f"{part.topic}, partition {part.partition}, is not acknowledged: {why}")

    def close(self) -> None:
        """Leave the group, where the broker answers."""
        close_in_time(self._consumer)

    def _revoked(self, _: Consumer, parts: list[TopicPartition]) -> None:
        for part in parts:
            self._group_at.pop((part.topic, part.partition), None)
