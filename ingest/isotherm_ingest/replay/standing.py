"""Where a table stands before its letters are replayed: as a driver that begins would find it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from isotherm.runtime import clock
from isotherm_ingest.announce.watermarks import recalled
from isotherm_ingest.batches.owners import Owners
from isotherm_ingest.failures import CatalogAway, TableRefused, brief
from isotherm_ingest.kafka import Broker
from isotherm_ingest.known_in_marks import known_of, of_topics
from isotherm_ingest.mark_text import Mark
from isotherm_ingest.marks import Marks
from isotherm_ingest.name_template import may_be
from isotherm_ingest.plan.resume_or_halt import place
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.plan.topic_partition import Position
from isotherm_ingest.replay.choosing import Stand
from isotherm_ingest.replay.settled import settled
from isotherm_ingest.streams import Stream, StreamsConfig
from isotherm_ingest.tables.lake import Lake, TableNow, summary_of
from isotherm_ingest.tables.offset_vector import tokens_in
from isotherm_ingest.tables.portion import Halted, Portion
from isotherm_ingest.tables.whose import refuse_anothers


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known before letters are chosen."""

    table: str
    stream: Stream
    owners: Owners
    topics: frozenset[str]
    """Those that the table has rows of."""
    stand: Stand
    portion: Portion
    """Without ranges."""
    marks: Mapping[Position, Mark]
    """Of its topics. Who commits them again learns whether another driver has begun."""
    again: "Callable[[], Standing]"
    """Look once more."""


def stand_of(
    config: StreamsConfig,
    table: str,
    broker: Broker,
    lake: Lake,
    marks: Marks,
    newest: Mapping[bytes | None, bytes | None],
    *,
    begins: bool,
) -> Standing:
    """Look at a table, its topics and its marks.

    Args:
        config: streams.yaml.
        table: its name.
        broker: asked for topics.
        lake: asked for the table.
        marks: of the pipeline.
        newest: of the topic of what was announced.
        begins: whether the marks are committed again, under our own name.

    Raises:
        TableRefused: it is none, another's, or lacks changes.
        BrokerError: Kafka does not answer.
        CatalogAway: the catalog does not.
    """
    now = _table(lake, table)
    listed, ids, marked = _marked(config, broker, marks)
    if begins:
        for _ in marks.write(marked):
            pass
    announced = recalled(newest, config.kafka.announced_topic, config.pipeline)
    uuids = {name: one for one, (name, _) in announced.items()}
    known = known_of(marked, table, uuids.get)
    owners = Owners(config, lake, config.pipeline)
    had = owners.begin(table, set() if known is None else {topic for topic, _ in known.through})
    stream = owners.known(table)
    if stream is None:
        raise TableRefused(
            f"{table} is no table of a stream of this file, or has no row of one of its topics yet"
        )
    topics = frozenset(
        name
        for name in had & listed.keys()
        if any(may_be(one.table, table) for one in config.streams_of(name))
    )
    kafka = _kafka_of(topics, broker, ids, marked)
    portion = Portion(0, (), {}, kafka, broker.cluster_id(), None if known is None else known.of(topics))
    is_mirror = stream.mode == "mirror"
    stand = _judged(now, portion, topics, stream, config.pipeline)
    if is_mirror:
        stand = replace(stand, compacted=broker.compacted(topics))
    return Standing(
        table, stream, owners, topics, stand, portion,
        {one: mark for one, mark in marked.items() if one[0] in topics},
        lambda: stand_of(config, table, broker, lake, marks, newest, begins=False),
    )  # fmt: skip


def _kafka_of(
    topics: frozenset[str], broker: Broker, ids: Mapping[str, str], marked: Mapping[Position, Mark]
) -> Kafka:
    """What the broker says of some topics, with the cuts that their marks remember."""
    return Kafka(
        broker.starts(topics),
        broker.ends(topics),
        {name: ids[name] for name in topics if name in ids},
        cuts={one: mark.cuts for one, mark in marked.items() if mark.cuts and one[0] in topics},
        asked_ms=clock.now_ms(),
    )


def _table(lake: Lake, name: str) -> TableNow:
    try:
        now = lake.load(name)
    except Exception as err:
        raise CatalogAway(f"the catalog does not answer: {brief(err)}") from err
    if now is None:
        raise TableRefused(f"there is no table {name}: a driver makes it with the first message that fits")
    return now


def _marked(
    config: StreamsConfig, broker: Broker, marks: Marks
) -> tuple[dict[str, list[int]], dict[str, str], dict[Position, Mark]]:
    """The topics of the pipeline with their partitions, their ids, and their marks."""
    found = broker.topics(config.topic_pattern)
    listed = {name: numbers for name, numbers in found.items() if config.stream_of(name) is not None}
    ids = broker.topic_ids(listed)
    there = [(name, one) for name in sorted(listed) for one in listed[name]]
    return listed, ids, of_topics(marks.read(there), ids)


def _judged(now: TableNow, portion: Portion, topics: frozenset[str], stream: Stream, pipeline: str) -> Stand:
    """What the table needs next. What lacks changes is brought them first."""
    token = now.token(pipeline)
    found = now.found(token)
    known = None if portion.known is None else portion.known.as_found(found.uuid)
    refuse_anothers(now, token, known, pipeline, stream.on_hole)
    at = place(found, known, portion.kafka, topics, stream.on_hole)
    if at.halted:
        raise Halted(now.name, at)
    if at.told:
        raise TableRefused(
            f"{now.name} lacks changes that a driver brings it: {at.told[0]}. Start one, and replay once the table is in step"
        )
    has = {one for one in at.vector if one[0] in topics}
    ours = tokens_in(pipeline, map(summary_of, now.ancestry()))
    return Stand(
        stream.mode == "mirror",
        at.next,
        portion.kafka,
        settled(ours),
        is_mixed=stream.has_one_source and len({topic for topic, _ in at.vector}) > 1,
        unread=frozenset(has - at.next.keys()),
    )
