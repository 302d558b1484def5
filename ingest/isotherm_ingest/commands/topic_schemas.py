"""The schemas that are in the newest messages of topics, and the tables that they are for, as the driver would learn them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from isotherm.runtime.text import counted
from isotherm_ingest.batches.fan_out import Sample
from isotherm_ingest.batches.routing import Named, Routing, TooManyNew
from isotherm_ingest.kafka import Broker
from isotherm_ingest.marks import group_of
from isotherm_ingest.plan.shares import Ranges
from isotherm_ingest.registry import RegistryAwayError
from isotherm_ingest.streams import Stream, StreamsConfig
from isotherm_ingest.tables.portion import Group
from isotherm_ingest.workers.decoding import UNREADABLE
from isotherm_ingest.workers.raw_messages import NO_SCHEMA, Sorter
from isotherm_ingest.workers.raw_messages import Group as RawGroup
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
    try:
        batches = _newest(config, {one: span for one, span in ranges.items() if span[0] < span[1]})
    except ReadError as err:
        return TopicLook(topic, trouble=str(err))
    refused, trouble = _learned(routing, topic, batches)
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


@dataclass
class _Met:
    """The messages of a topic by their schemas, as far as these are known by now."""

    counts: Counter[int] = field(default_factory=Counter)
    samples: dict[int, Sample] = field(default_factory=dict)
    unreadable: set[int] = field(default_factory=set)
    nowhere: Counter[str] = field(default_factory=Counter)
    """By problem, messages that say themselves that they have no table."""

    def take(self, group: RawGroup) -> None:
        """Take some messages of one schema into account."""
        number = group.schema
        if number != NO_SCHEMA and group.is_bookkeeping():
            return
        if group.problem is not None:
            self.nowhere[group.problem] += group.rows.num_rows
            return
        self.counts[number] += group.rows.num_rows
        held = self.samples.get(number)
        if number == NO_SCHEMA or (held is not None and group.format.says_all(held[1])):
            return
        if (sample := group.sample()) is None:
            self.unreadable.add(number)
        elif held is None or group.format.says_all(sample[0]):
            self.samples[number] = ((group.topic, number), *sample)

    def problems(self, told: Mapping[Named, str], topic: str) -> tuple[str, ...]:
        """What would be dead letters, whatever the table."""
        why = {number: told[topic, number] for number in self.counts if (topic, number) in told}
        why |= dict.fromkeys(self.unreadable - self.samples.keys(), UNREADABLE)
        if self.counts[NO_SCHEMA]:
            why[NO_SCHEMA] = "no_schema:the message has no schema"
        found = [(self.counts[one], problem) for one, problem in sorted(why.items())]
        return tuple(
            f"{counted(count, 'message')}: {problem}"
            for count, problem in [*found, *((count, one) for one, count in sorted(self.nowhere.items()))]
        )


def _learned(routing: Routing, topic: str, batches: Sequence[pa.RecordBatch]) -> tuple[tuple[str, ...], str]:
    """Have the schemas of some messages learned. Gives what would be dead letters, whatever the table; and why not all is known."""
    met, told, trouble = _Met(), dict[Named, str](), ""
    for _ in range(PASSES):
        met, trouble = _Met(), ""
        sorter = Sorter(routing.formats([topic]))
        for batch in batches:
            for group in sorter.groups(batch):
                met.take(group)
        try:
            routing.learn(list(met.samples.values()), set())
        except TooManyNew:
            pass  # all that came is learned; a driver would read them in smaller pieces
        except RegistryAwayError as err:
            trouble = str(err)  # of one; of others it may have told what the next pass needs
        _, told = routing.told([topic], ())
        known = {number for _, number in told} | {group.number for group, _, _ in routing.of([topic], set())}
        if met.samples.keys() <= known:
            break
    return met.problems(told, topic), trouble
