"""Where messages end that no client can unpack: a batch that is damaged on the broker's disk, or unpacks to too much.

How many messages are in such a batch nobody can tell. So the offsets behind it are tried: one after another at first, then
further and further away, and then between. No good message behind the damage is left out. One between two batches that are
damaged may be, where the first has more than `SINGLE_STEPS` messages; the hole that is told names it then. Asked of the broker itself, by another client
than the one that failed: what came about on the way to a worker is not taken for damage.
"""

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from isotherm.runtime.clock import monotonic_s
from isotherm.runtime.kafka_client import kafka_client
from isotherm_ingest.plan.topic_partition import Position
from isotherm_ingest.workers.reading import CANNOT_UNPACK, reader_properties

ANSWER_S = 15.0
"""For one offset. A broker that is slower than that is asked again by the next batch that fails."""


SINGLE_STEPS = 64
"""Each takes some milliseconds, or a tenth of a second where much is unpacked in vain."""


class NoAnswerError(RuntimeError):
    """Whether an offset can be read is not known."""


def first_readable(properties: Mapping[str, Any], position: Position, offset: int, end: int) -> int | None:
    """The first offset from which a Kafka partition can be read, at most `end`; None where the broker does not say."""
    client = {**reader_properties(properties, "ingest.damage"), "fetch.error.backoff.ms": 20}
    consumer = kafka_client(Consumer, client)
    try:
        return behind_damage(lambda at: _can_read(consumer, position, at), offset, end)
    except (NoAnswerError, KafkaException):
        return None
    finally:
        consumer.close()


def behind_damage(can_read: Callable[[int], bool], offset: int, end: int) -> int:
    """The search itself, by whether a partition can be read from an offset on."""
    if can_read(offset):
        return offset
    bad, steps = offset, 0
    while (at := bad + (1 << max(steps - SINGLE_STEPS, 0))) < end and not can_read(at):
        bad, steps = at, steps + 1
    good = min(at, end)
    while good - bad > 1:
        middle = (bad + good) // 2
        if can_read(middle):
            good = middle
        else:
            bad = middle
    return good


def _can_read(consumer: Consumer, position: Position, at: int) -> bool:
    """Whether a message comes from there on, or the end of the partition."""
    consumer.assign([TopicPartition(*position, at)])
    deadline_s = monotonic_s() + ANSWER_S
    while monotonic_s() < deadline_s:
        message = consumer.poll(0.1)
        if message is None:
            continue
        error = message.error()
        if error is None or error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 (a public constant)
            return True
        if error.code() in CANNOT_UNPACK:
            return False
        raise NoAnswerError(error.str())
    raise NoAnswerError(f"nothing came in {ANSWER_S:g} s")
