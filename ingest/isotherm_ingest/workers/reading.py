"""Ranges of Kafka partitions, read by the workers themselves: with the client, and the properties, that the driver has.

Spark's own source hands each message over row by row, and takes five times the CPU time.
"""

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import methodcaller
from typing import Any, cast

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from isotherm.runtime.kafka_client import kafka_client
from isotherm_ingest.plan.shares import Ranges
from isotherm_ingest.plan.topic_partition import Position
from isotherm_ingest.workers.raw_messages import RAW

SILENT_S = 30.0
"""After so long without a message of a range it is given up, and read again later."""
ROWS, BYTES = 10_000, 32 << 20
"""Of a batch, at most; a message that is larger comes alone."""
_LOOK_S = 0.02
"""How long a call waits for more than there is."""
_AT_ONCE = 1_000
_NOT_THERE = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED}
_headers_of = methodcaller("headers")
"""Where a name is no text, the client answers with half a list, and an error that it does not raise. Python looks for such
errors where C calls a method, and not always where Python does: then the error comes later, or the process dies."""
_EMPTY = -1
"""Where no message came yet, and the end of a partition is not known."""


CANNOT_UNPACK = frozenset({KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG})  # noqa: SLF001 (public constants)
"""Of messages that are damaged on the broker's disk, or unpack to more than a client takes."""
_DAMAGE = re.compile(r"(?P<topic>[\w.-]+)/(?P<number>\d+), offset (?P<offset>\d+): no client can unpack")


class ReadError(RuntimeError):
    """A range could not be read to its end; nothing is known of what is in it."""


def damage_in(error: BaseException) -> tuple[Position, int] | None:
    """Where a worker came upon messages that cannot be unpacked, or None. Spark hands its error on as text."""
    found = _DAMAGE.search(str(error))
    return None if found is None else ((found["topic"], int(found["number"])), int(found["offset"]))


def reader_properties(properties: Mapping[str, Any], group: str) -> dict[str, Any]:
    """What a reader of ranges adds to librdkafka's properties of a pipeline.

    Args:
        properties: of the pipeline.
        group: its consumer group. The protocol wants one; nothing is committed in it, and nobody joins it.
    """
    return {
        **properties,
        "log_level": 0,
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        # What is gone is an error, not a reason to go on elsewhere.
        "auto.offset.reset": "error",
        "allow.auto.create.topics": False,
        "topic.metadata.propagation.max.ms": 5_000,
        "check.crcs": True,
        # A range is there; whatever a broker waits for to fill an answer is lost time.
        "fetch.wait.max.ms": 20,
        "queued.max.messages.kbytes": 16_384,
    }


def read_stage(
    properties: Mapping[str, Any],
    parts: Sequence[Ranges],
    then: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What Spark's `mapInArrow` calls for the numbers of some parts: reads them, and hands their messages on."""

    def read_and_go_on(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mine = [number for batch in numbers for number in batch.column(0).to_pylist()]
        yield from then(chain.from_iterable(read(properties, parts[number]) for number in mine))

    return read_and_go_on


def read(
    properties: Mapping[str, Any], ranges: Ranges, silent_s: float = SILENT_S
) -> Iterator[pa.RecordBatch]:
    """The messages of some ranges, as `messages.RAW`.

    Raises:
        ReadError: Kafka does not have all of them, or does not answer.
    """
    told: list[KafkaError] = []
    consumer = kafka_client(Consumer, {**properties, "error_cb": told.append})
    try:
        consumer.assign(
            [TopicPartition(topic, number, first) for (topic, number), (first, _) in ranges.items()]
        )
        yield from _batches(_messages(consumer, ranges, silent_s, told))
    except KafkaException as err:
        raise ReadError(f"Kafka: {err.args[0].str()}") from err
    finally:
        consumer.close()


def _messages(
    consumer: Consumer, ranges: Ranges, silent_s: float, told: Sequence[KafkaError]
) -> Iterator[Message]:
    left = {position: end for position, (first, end) in ranges.items() if first < end}
    seen = dict.fromkeys(left, _EMPTY)
    in_vain = 0  # not a time: who decodes, or the machine, may hold this up for long
    while left:
        some = consumer.consume(_AT_ONCE, _LOOK_S)
        in_vain += not some
        if not some and (in_vain * _LOOK_S > silent_s or any(one.code() in _NOT_THERE for one in told)):
            raise ReadError(_why(left, seen, silent_s, told))
        ended: set[Position] = set()
        for message in some:
            position = str(message.topic()), int(message.partition() or 0)
            end = left.get(position)
            if end is None:
                continue
            offset, error = int(message.offset() or 0), message.error()
            if error is None and offset < end:
                in_vain = 0
                yield message
            elif error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 (a public constant)
                at = max(seen[position], ranges[position][0])
                raise ReadError(trouble(position, at, error))
            seen[position] = offset + (error is None)
            # Offsets before the end may be markers of transactions, or compacted away: then the partition's end tells.
            if seen[position] >= end:
                ended.add(position)
                del left[position]
        if ended:
            consumer.incremental_unassign([TopicPartition(*one) for one in ended])


def trouble(position: Position, at: int, error: KafkaError) -> str:
    """What is told of an error at an offset; `damage_in` understands it."""
    topic, number = position
    if error.code() not in CANNOT_UNPACK:
        return f"{topic}/{number}: {error.str()}"
    return f"{topic}/{number}, offset {at}: no client can unpack what is there: {error.str()}"


def _why(
    left: Mapping[Position, int], seen: Mapping[Position, int], silent_s: float, told: Sequence[KafkaError]
) -> str:
    (topic, number), end = next(iter(left.items()))
    at = seen[topic, number]
    where = (
        f"{topic}/{number} ends at {at}, before {end}" if at != _EMPTY else f"{topic}/{number} was not read"
    )
    last = f"; {told[-1]}" if told else ""
    return f"{where}: nothing came for {silent_s:g} s{last}"


def _batches(messages: Iterable[Message]) -> Iterator[pa.RecordBatch]:
    rows: list[Message] = []
    size = 0
    for one in messages:
        more = len(one) + len(one.key() or b"")
        if rows and (len(rows) == ROWS or size + more > BYTES):
            yield _batch(rows)
            rows, size = [], 0
        rows.append(one)
        size += more
    if rows:
        yield _batch(rows)


def _batch(rows: Sequence[Message]) -> pa.RecordBatch:
    columns = (
        [one.key() for one in rows],
        [one.value() for one in rows],
        [_headers(one) for one in rows],
        [one.timestamp()[1] for one in rows],
        [one.topic() for one in rows],
        [one.partition() for one in rows],
        [one.offset() for one in rows],
    )
    return pa.RecordBatch.from_arrays(
        [pa.array(values, one.type) for values, one in zip(columns, RAW, strict=True)], schema=RAW
    )


def _headers(message: Message) -> str | None:
    """As JSON: names, and values in base64."""
    try:
        headers = _headers_of(message)
    except SystemError:  # a name is no text; the client hands over all of them or none
        return None
    if headers is None:
        return None
    said = [
        {"key": name} if value is None else {"key": name, "value": base64.b64encode(_bytes(value)).decode()}
        for name, value in cast(Iterable[tuple[str, str | bytes | None]], headers)
    ]
    return json.dumps(said, separators=(",", ":"))


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value
