"""The schemas that are in the newest messages of topics, and the tables that they are for, as the driver would learn them."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa

from isotherm.runtime.text import counted
from isotherm_ingest.batches.routing import Routing, TooManyNew
from isotherm_ingest.kafka import Broker
from isotherm_ingest.marks import group_of
from isotherm_ingest.plan.shares import Ranges
from isotherm_ingest.registry import RegistryAwayError
from isotherm_ingest.streams import Stream, StreamsConfig
from isotherm_ingest.tables.portion import Group
from isotherm_ingest.workers.decoding import UNREADABLE
from isotherm_ingest.workers.raw_messages import NO_SCHEMA, Sorter
from isotherm_ingest.workers.reading import ReadError, read, reader_properties

NEWEST = 200
"""Messages of each partition that are looked at. A schema that none of them has is not coming any more, mostly."""
MOST_BYTES = 64 * 1024 * 1024
"""Of a topic, however large its messages are."""
PASSES = 5
"""Avro's schemas are asked for by what a first look at the messages wants, and those of keys by a second."""


@dataclass(frozen=True, slots=True)
class TopicLook:
    """What was found in one topic, wherever it was looked for."""

    topic: str
    groups: tuple[tuple[Group, str, Stream], ...] = ()
    """Each schema that has a table, with the table's name, and the stream by which it is written."""
    refused: tuple[str, ...] = ()
    """What would be dead letters, whatever the table."""
    notes: tuple[str, ...] = ()
    trouble: str = ""
    """Why nobody can say."""
    looked_at: str = field(default="")
    """What of."""


def in_topic(config: StreamsConfig, broker: Broker, routing: Routing, topic: str) -> TopicLook:
    """The schemas in the newest messages of a topic.

    Raises:
        BrokerError: Kafka does not answer.
    """
    starts, ends = broker.starts([topic]), broker.ends([topic])
    ranges = {one: (max(starts.get(one, 0), end - NEWEST), end) for one, end in ends.items()}
    batches: list[pa.RecordBatch] = []
    refused: tuple[str, ...] = ()
    trouble = ""
    try:
        batches = _newest(config, {one: span for one, span in ranges.items() if span[0] < span[1]})
        refused = _learned(routing, topic, batches)
    except (ReadError, RegistryAwayError) as err:
        trouble = str(err)
    count = sum(batch.num_rows for batch in batches)
    looked_at = f"the newest {counted(count, 'message')}" if count else ""
    return TopicLook(topic, tuple(routing.of([topic], set())), refused, trouble=trouble, looked_at=looked_at)


def _newest(config: StreamsConfig, ranges: Ranges) -> list[pa.RecordBatch]:
    found: list[pa.RecordBatch] = []
    if not ranges:
        return found
    size = 0
    properties = reader_properties(config.kafka.properties, group_of(config.pipeline))
    for batch in read(properties, ranges):
        found.append(batch)
        size += batch.nbytes
        if size > MOST_BYTES:
            break
    return found


def _learned(routing: Routing, topic: str, batches: Sequence[pa.RecordBatch]) -> tuple[str, ...]:
    """Have the schemas of some messages learned; gives what would be dead letters, whatever the table."""
    counts: dict[int, int] = {}
    told: dict[tuple[str, int], str] = {}
    for _ in range(PASSES):
        samples: dict[int, tuple[tuple[str, int], str, str | None]] = {}
        counts, unreadable = {}, set[int]()
        sorter = Sorter(routing.formats([topic]))
        for group in (group for batch in batches for group in sorter.groups(batch)):
            if group.schema != NO_SCHEMA and group.is_bookkeeping():
                continue
            counts[group.schema] = counts.get(group.schema, 0) + group.rows.num_rows
            if group.schema == NO_SCHEMA or group.schema in samples:
                continue
            if (sample := group.sample()) is None:
                unreadable.add(group.schema)
            else:
                samples[group.schema] = ((topic, group.schema), *sample)
        with suppress(TooManyNew):  # all that came is learned; a driver would read them in smaller pieces
            routing.learn(list(samples.values()), set())
        _, told = routing.told([topic], ())
        known = {number for _, number in told} | {group.number for group, _, _ in routing.of([topic], set())}
        if samples.keys() <= known:
            break
    why = {number: told[topic, number] for number in counts if (topic, number) in told}
    why |= {number: UNREADABLE for number in unreadable if number in counts and number not in samples}
    if NO_SCHEMA in counts:
        why[NO_SCHEMA] = "no_schema:the message has no schema"
    return tuple(
        f"{counted(counts[number], 'message')}: {problem}" for number, problem in sorted(why.items())
    )
