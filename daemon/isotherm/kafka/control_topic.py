"""The control topic on real Kafka: read as a member of the group, written as any producer.

Offsets are committed by hand, after what was read is saved. On each assignment the topic is read again from before
the intent time-out, so that no open intent is missed, however far the group had come; reading twice is harmless,
because a change is applied once.

What this client remembers of its place in the group may be old: a process that was stopped for a minute wakes up with
an assignment that somebody else has by now. So before anything is committed to a table the broker itself is asked
(`check_in`), and a job is bound to the `tenure` under which it began.

Messages may be gone before they were read: offsets out of range, or a topic that was deleted and made again, where
old offsets mean other messages. Both are found, told (`losses`) and read again from the beginning; what is lost for
good is found in the tables' own metadata by whoever asks. So is what no client can unpack (`step_over`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from isotherm.contract.events import CommitEvent, Window
from isotherm.kafka.announcer import Announcer
from isotherm.kafka.broker import (
    CLOSE_WITHIN_S,
    QUEUED_KB,
    REQUEST_TIMEOUT_S,
    Broker,
    as_messages,
    close_in_time,
    partition_of,
)
from isotherm.kafka.step_over import UNREADABLE, Lost, StepOver, stuck, unread
from isotherm.kafka.topic_look import TopicLook
from isotherm.runtime.clock import monotonic_s, now_ms
from isotherm.runtime.kafka_client import kafka_client
from isotherm.service.ports import Fenced, Message, NotAsked

BATCH = 500

BATCH_BYTES = 8_000_000
"""A batch with more than this ends early: a flood of large messages is read in turns, each of them small."""

DRAIN_BYTES = 2 * BATCH_BYTES
"""A topic whose end is further away than this is polled first: before a commit there is no time for more."""

CHUNK = 8
"""Messages taken from the client at once; a batch is larger than its limit by at most so many."""

SESSION_TIMEOUT_MS = 15_000
"""A daemon that died is replaced after this long; `group.instance.id` in the configuration makes it at once."""

MAX_POLL_INTERVAL_MS = 900_000
"""A member that does not ask for so long is put out of the group, and all its jobs with it. A turn of the loop may wait for
several slow tables, two and a half minutes each. One that is stuck for five is started again by whoever asks /livez."""

SILENT_S = 60.0
"""A client that got nothing for so long of what is there is replaced by another one. To a broker that came back with an
older copy of its disk a client's idea of who leads seems newer, for ever."""


class KafkaEvents:
    """The control topic behind the port `EventSource`."""

    def __init__(
        self,
        properties: Mapping[str, Any],
        topic: str,
        group: str,
        replay_ms: int,
        on_trouble: Callable[[str], None] = lambda _: None,
        broker: Broker | None = None,
    ) -> None:
        """Join the group.

        Args:
            properties: librdkafka's, with `bootstrap.servers`.
            topic: the control topic.
            group: the daemons' consumer group.
            replay_ms: how far back an assignment begins, in milliseconds: more than the intent time-out.
            on_trouble: told when the broker is away; librdkafka reconnects by itself.
            broker: shared by all clients of it.
        """
        self._broker = broker or Broker()
        self._topic = topic
        self._replay_ms = replay_ms
        self._on_trouble = on_trouble
        self._positions: dict[int, int] = {}
        self._tenures: dict[int, int] = {}
        """The generation in which each Kafka partition that we have came to us."""
        self.generation = 0
        """Grows with each assignment and revocation."""
        self._partition_count: int | None = None
        self._topic_id: str | None = None
        self._losses: list[str] = []
        self._fenced: str | None = None
        self._silent_since_s: float | None = None
        """Since when nothing came of what is there, or None where something did."""
        self._common = dict(properties)
        self._group = group
        self._consumer = self._joined()
        self._announcer = Announcer(self._common, topic, self._broker, self._error)
        self._look = TopicLook(properties, topic)
        self._step_over = StepOver()

    def _joined(self) -> Consumer:
        """A member of the group, of which we commit the offsets ourselves."""
        consumer = kafka_client(
            Consumer,
            {
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "max.poll.interval.ms": MAX_POLL_INTERVAL_MS,
                "queued.max.messages.kbytes": QUEUED_KB,
                **self._common,
                "group.id": self._group,
                # Behind an open transaction a committed reader sees neither the messages nor where the topic ends. Events
                # are hints, so one that is aborted later does no harm; an intent that nobody sees does.
                "isolation.level": "read_uncommitted",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                # Not silently: `_reset` says it, and begins at the earliest.
                "auto.offset.reset": "error",
                # Only what moves is taken away: jobs on the other tables go on through a rebalance.
                "partition.assignment.strategy": "cooperative-sticky",
                "topic.metadata.refresh.interval.ms": 10_000,
                "allow.auto.create.topics": False,
                "error_cb": self._error,
                "log_level": 0,
            },
        )
        revoked = {"on_revoke": self._revoked, "on_lost": self._revoked}
        consumer.subscribe([self._topic], on_assign=self._assigned, **revoked)
        return consumer

    def poll(self, timeout_s: float) -> Sequence[Message]:
        """New messages, at most some hundreds, and some megabytes; empty when none came in time."""
        if self._fenced is not None:
            raise Fenced(self._fenced)
        messages: list[Message] = []
        size = 0
        while size < BATCH_BYTES and len(messages) < BATCH:
            raw = self._consumer.consume(CHUNK, 0 if messages else timeout_s)
            new = self._messages(raw)
            messages.extend(new)
            size += sum(len(message.value or b"") for message in new)
            if len(raw) < CHUNK:
                break
        return messages

    def drain(self, timeout_s: float) -> Sequence[Message] | None:
        """Every message up to the topic's present end; None where the end was not reached in time, or is far away."""
        deadline = monotonic_s() + timeout_s
        # Rebalances that wait to be told come first, and with them what happened while this process was stopped.
        drained = list(self.poll(0))
        generation = self.generation
        ends = self._ends(timeout_s)
        if ends is None or not self._compare_topic():
            self.undo(drained)
            return None
        while any(self._positions.get(number, 0) < end for number, end in ends.items()):
            left_s = deadline - monotonic_s()
            if left_s <= 0 or sum(len(message.value or b"") for message in drained) > DRAIN_BYTES:
                self._note_silence(is_silent=not drained)
                self.undo(drained)
                return None
            drained.extend(self.poll(min(left_s, 0.05)))
            self._skip_to_position(ends)
        self._note_silence(is_silent=False)
        if generation != self.generation or not ends:
            self.undo(drained)
            return None
        return drained

    def _note_silence(self, *, is_silent: bool) -> None:
        """Note whether nothing came of what is there; join the group anew where that lasts."""
        now_s = monotonic_s()
        since_s = now_s if self._silent_since_s is None else self._silent_since_s
        self._silent_since_s = since_s if is_silent else None
        if is_silent and now_s - since_s >= SILENT_S:
            self._on_trouble(
                f"topic {self._topic}: nothing came for {SILENT_S:.0f} s; it is read by another client"
            )
            self._silent_since_s = None
            close_in_time(self._consumer)
            self._revoked(self._consumer, self._offsets())
            self._consumer = self._joined()

    def commit(self) -> None:
        """Never hand out again what was handed out so far; called after it was saved."""
        offsets = self._offsets()
        if not offsets:
            return
        try:
            self._consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as err:  # a rebalance took the partition: its next owner reads it again
            self._on_trouble(str(err))

    def check_in(self) -> str | None:
        """Ask the broker whether we are still a live member that owns its partitions. Returns the reason if not, else None.

        It commits offsets and waits for the answer, because the broker accepts that only from a member of the present
        generation, whatever this client believes. So what was read must be saved before this is called.
        """
        offsets = self._offsets()
        if not offsets:
            return "nothing is assigned to this daemon"
        try:
            self._broker.ask(lambda: self._consumer.commit(offsets=offsets, asynchronous=False))
        except NotAsked as err:
            return str(err)
        except KafkaException as err:
            return f"the broker does not confirm our place in the group: {err.args[0].str()}"
        # A client that left the group has no member id, and to an empty group the broker accepts any offset.
        return None if self._consumer.memberid() else "this daemon has left the group"

    def losses(self) -> Sequence[str]:
        """Why messages may have gone by unread since the last call; the tables' own metadata says what they were."""
        self._compare_topic()
        found, self._losses = self._losses, []
        return found

    def _offsets(self) -> list[TopicPartition]:
        return [TopicPartition(self._topic, number, offset) for number, offset in self._positions.items()]

    def publish(self, event: CommitEvent | Window) -> None:
        """Announce a snapshot, or say something of a window; returns when the broker has it. A large event is cut."""
        self._announcer.publish(event)

    def owns(self, table_uuid: str) -> bool:
        """Whether this daemon maintains the table, as the group divides them now."""
        return self.tenure(table_uuid) is not None

    def tenure(self, table_uuid: str) -> int | None:
        """Since which assignment this daemon has the table without a break. Returns None where it does not have it."""
        if self._partition_count is None:
            self._compare_topic()
        if not self._partition_count:
            return None
        return self._tenures.get(partition_of(table_uuid, self._partition_count))

    def is_assigned(self) -> bool:
        """Whether the group has given this daemon its part of the topic."""
        return bool(self._positions)

    def behind(self) -> int:
        """How many messages were not handed out yet, as far as this client knows. Asks nobody."""
        return unread(self._consumer, self._topic, self._positions)

    def close(self) -> None:
        """Leave the group, where the broker answers."""
        self._announcer.close()
        if not close_in_time(self._consumer):
            self._on_trouble(
                f"group {self._group} was not left in {CLOSE_WITHIN_S:.0f} s: the broker does so after the session time-out"
            )

    def _messages(self, raw: Sequence[Any]) -> list[Message]:
        messages = as_messages(raw, self._trouble)
        if messages:
            self._silent_since_s = None
        for message in messages:
            self._positions[message.partition] = message.offset + 1
            self._note_lost(message.partition, self._step_over.came(message.topic, message.partition))
        for (_, number), one in stuck(raw).items():
            self._go_beyond(number, str(one.error()))
        return messages

    def _trouble(self, message: Any) -> None:
        """What stands among the messages and is none."""
        error: KafkaError = message.error()
        code = error.code()
        if code in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID):  # noqa: SLF001 (the library's public constants)
            self._fenced = error.str()
            raise Fenced(self._fenced)
        if code == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
            if message.partition() in self._positions:
                self._reset(f"partition {message.partition()}, offset {message.offset()}: {error.str()}")
        elif code not in UNREADABLE:
            self._on_trouble(str(error))

    def _go_beyond(self, number: int, why: str) -> None:
        """Messages are there that nobody can read: say it, and go on behind them."""
        if number in self._positions:
            at = self._positions[number]
            self._positions[number], lost = self._step_over.beyond(self._consumer, self._topic, number, at)
            self._note_lost(number, lost, why)

    def _note_lost(self, number: int, lost: Lost | None, why: str = "no client can unpack them") -> None:
        if lost is not None:
            self._losses.append(f"partition {number}, offsets {lost[0]} to {lost[1]}: {why}")

    def _reset(self, why: str) -> None:
        """Messages are gone that nobody read: say it, and read everything that there is."""
        self._losses.append(why)
        parts = [TopicPartition(self._topic, number, OFFSET_BEGINNING) for number in self._positions]
        self._positions = dict.fromkeys(self._positions, 0)
        # Not `seek`: librdkafka does not look for a partition any more whose offset was out of range.
        self._consumer.incremental_unassign(parts)
        self._consumer.incremental_assign(parts)

    def _compare_topic(self) -> bool:
        """Begin again where the topic was made again, because offsets mean nothing in it. Returns whether it is the same."""
        try:
            topic = self._broker.ask(lambda: self._look.description(REQUEST_TIMEOUT_S))
        except NotAsked:
            return False
        except (KafkaException, TimeoutError) as err:
            self._on_trouble(f"topic {self._topic}: {err}")
            return False
        self._partition_count = len(topic.partitions)
        known, self._topic_id = self._topic_id, str(topic.topic_id)
        if known in (None, self._topic_id):
            return True
        self._reset(f"topic {self._topic} was deleted and made again")
        return False

    def _ends(self, timeout_s: float) -> dict[int, int] | None:
        """Where each of our partitions ends now. Returns None where nobody can tell, or what we knew is gone."""
        try:
            bounds = self._broker.ask(lambda: self._look.bounds(self._positions, timeout_s))
        except NotAsked:
            return None
        except (KafkaException, TimeoutError) as err:
            self._on_trouble(f"the ends of topic {self._topic}: {err}")
            return None
        for number, (low, high) in bounds.items():
            if self._positions[number] > high:
                self._reset(
                    f"partition {number} ends at {high}, and we had read up to {self._positions[number]}"
                )
                return None
            # Nothing is there to be read: where it begins is where we are.
            self._positions[number] = max(self._positions[number], low)
        return {number: high for number, (_, high) in bounds.items()}

    def _skip_to_position(self, ends: Mapping[int, int]) -> None:
        """Where the end of a partition holds no message (aborted, compacted away), go by the consumer's position."""
        for part in self._consumer.position([TopicPartition(self._topic, number) for number in ends]):
            if part.offset >= 0:
                self._positions[part.partition] = max(self._positions.get(part.partition, 0), part.offset)

    def undo(self, messages: Sequence[Message]) -> None:
        """Hand these out again: they could not be saved, or a drain failed after it had taken them."""
        first: dict[int, int] = {}
        for message in messages:
            first.setdefault(message.partition, message.offset)
        for number, offset in first.items():
            if offset < self._positions.get(number, 0):
                self._consumer.seek(TopicPartition(self._topic, number, offset))
                self._positions[number] = offset

    def _assigned(self, consumer: Consumer, parts: list[TopicPartition]) -> None:
        self.generation += 1
        try:
            starts = self._starts(consumer, parts) if parts else []
        except KafkaException as err:
            # The broker does not say where we were, or we are leaving: reading everything again is harmless.
            self._on_trouble(str(err))
            starts = [TopicPartition(part.topic, part.partition, OFFSET_BEGINNING) for part in parts]
        for part in starts:
            self._positions[part.partition] = max(part.offset, 0)
            self._tenures[part.partition] = self.generation
        consumer.incremental_assign(starts)

    def _starts(self, consumer: Consumer, parts: list[TopicPartition]) -> list[TopicPartition]:
        """Where to begin: at what was committed, or before the intent time-out, whichever is earlier."""
        since_ms = now_ms() - self._replay_ms
        committed = consumer.committed(parts, timeout=REQUEST_TIMEOUT_S)
        timed = consumer.offsets_for_times(
            [TopicPartition(part.topic, part.partition, since_ms) for part in parts],
            timeout=REQUEST_TIMEOUT_S,
        )
        starts = []
        for saved, replayed in zip(committed, timed, strict=True):
            start = OFFSET_BEGINNING
            if saved.offset != OFFSET_INVALID:
                # No message since then: only what comes is new.
                is_quiet = replayed.offset in (OFFSET_END, OFFSET_INVALID)
                start = saved.offset if is_quiet else min(saved.offset, replayed.offset)
            starts.append(TopicPartition(saved.topic, saved.partition, start))
        return starts

    def _revoked(self, consumer: Consumer, parts: list[TopicPartition]) -> None:
        if consumer is not self._consumer:
            return  # one that was replaced, and hung when it was closed
        self.generation += 1
        for part in parts:
            self._positions.pop(part.partition, None)
            self._tenures.pop(part.partition, None)

    def _error(self, error: KafkaError) -> None:
        self._on_trouble(str(error))
