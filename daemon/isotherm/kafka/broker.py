"""The broker, as every client of ours needs it: topics are made, messages taken apart, keys find their partition."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from threading import Thread
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from isotherm.runtime.breaker import FIRST_PAUSE_S, LONGEST_PAUSE_S, Breaker
from isotherm.runtime.kafka_client import kafka_client
from isotherm.service.ports import Message, NotAsked, Unavailable

QUEUED_KB = 16_384
"""What librdkafka fetches ahead; its default, 64 MB for each Kafka partition, is for who reads all day."""

REQUEST_TIMEOUT_S = 5

CLOSE_WITHIN_S = 3.0
"""For what takes milliseconds where the broker answers. The daemon has three consumers, and 18 seconds to stop."""

Answer = TypeVar("Answer")

_NO_ANSWER = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._WAIT_COORD,  # noqa: SLF001
        KafkaError.REQUEST_TIMED_OUT,
    }
)


class Broker:
    """The brokers, as all our clients know them: one that did not answer is not waited for by the next.

    Without it a round would wait for each of its questions in turn, half a minute in all, again and again.
    """

    def __init__(self, breaker: Breaker | None = None, above: "Broker | None" = None) -> None:
        self._breaker = breaker or Breaker()
        self._above = above

    def beside(self) -> "Broker":
        """For a topic that the daemon can do without: its silence, with its leader away or itself gone, stops no other.

        It is not waited for where the brokers are silent, all the same.
        """
        return Broker(self._breaker.another(FIRST_PAUSE_S, LONGEST_PAUSE_S), self)

    @property
    def left_s(self) -> float:
        """For how long it is not to be asked; 0 or less: it may be."""
        above_s = 0.0 if self._above is None else self._above.left_s
        return max(self._breaker.left_s, above_s)

    def ask(self, question: Callable[[], Answer]) -> Answer:
        """The answer.

        Raises:
            NotAsked: there was none lately.
            KafkaException: the broker refuses, or does not answer.
            TimeoutError: it does not answer in time.
        """
        left_s = self.left_s
        if left_s > 0:
            raise NotAsked(f"the broker did not answer; it is asked again in {left_s:.0f} s")
        try:
            answer = question()
        except TimeoutError:
            self._breaker.failed()
            raise
        except KafkaException as err:
            if err.args[0].code() in _NO_ANSWER:
                self._breaker.failed()
            else:
                self._breaker.answered()
            raise
        self._breaker.answered()
        return answer


def close_in_time(consumer: Consumer, within_s: float = CLOSE_WITHIN_S) -> bool:
    """Close a consumer, which leaves its group. Returns whether that came to an end in time.

    librdkafka takes its leave from the broker, and waits for what it sent before, for as long as that takes. A consumer
    that is not closed in time is left to its thread: the broker puts it out of the group after the session time-out.
    """

    def close() -> None:
        with contextlib.suppress(KafkaException):  # an assignment that came in this very moment
            consumer.close()

    closing = Thread(target=close, name="isotherm-close", daemon=True)
    closing.start()
    closing.join(within_s)
    return not closing.is_alive()


def as_messages(raw: Sequence[Any], on_error: Callable[[Any], None]) -> list[Message]:
    """What librdkafka gives as our messages; `on_error` is given those that carry an error instead."""
    messages = []
    for one in raw:
        if one.error() is None:
            at_ms = one.timestamp()[1]
            messages.append(
                Message(one.topic(), one.partition(), one.offset(), at_ms, one.value(), one.key())
            )
        elif one.error().code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 (the library's public constant)
            on_error(one)
    return messages


def ensure_topic(
    properties: Mapping[str, Any], topic: str, partitions: int = 1, config: Mapping[str, str] | None = None
) -> None:
    """Make a topic where there is none.

    Raises:
        PropertyError: librdkafka does not take the properties.
        Unavailable: the broker does not answer, or refuses.
    """
    causes: list[str] = []
    client: dict[str, Any] = {**properties, "log_level": 0}
    client["error_cb"] = lambda error: causes.append(error.str())
    admin = kafka_client(AdminClient, client)
    try:
        if topic in admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics:
            return
        future = admin.create_topics([NewTopic(topic, num_partitions=partitions, config=dict(config or {}))])[
            topic
        ]
        future.result(REQUEST_TIMEOUT_S)
    except (KafkaException, TimeoutError) as err:
        if isinstance(err, TimeoutError):
            why = "no answer"
        elif err.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return
        else:
            why = err.args[0].str()
        # The error itself names no broker; what the client was told on the way does.
        admin.poll(0)
        cause = causes[0] if causes else f"brokers: {properties.get('bootstrap.servers')}"
        raise Unavailable(f"topic {topic}: {why} ({cause})") from err


def partition_of(key: str, partitions: int) -> int:
    """The Kafka partition of a key under the JVM's default partitioner (murmur2, as `murmur2_random`)."""
    return (_murmur2(key.encode()) & 0x7FFFFFFF) % partitions


def _murmur2(data: bytes) -> int:
    """Kafka's variant of MurmurHash2, 32 bits (`org.apache.kafka.common.utils.Utils.murmur2`)."""
    mask, mix, shift = 0xFFFFFFFF, 0x5BD1E995, 24
    length = len(data)
    value = (0x9747B28C ^ length) & mask
    whole = length - length % 4
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * mix & mask
        word = (word ^ (word >> shift)) * mix & mask
        value = (value * mix & mask) ^ word
    rest = data[whole:]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * mix & mask
    value = (value ^ (value >> 13)) * mix & mask
    return value ^ (value >> 15)
