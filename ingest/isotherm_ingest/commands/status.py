"""`isotherm-ingest status`: how every table of the pipeline stands. Read only, beside a running driver.

Marks are read as any tool reads the offsets of a group: nobody is fenced, and no group is joined. Spark is not started.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from isotherm.contract.summary import property_name
from isotherm.runtime import clock
from isotherm_ingest.announce.pending import Watermark
from isotherm_ingest.announce.watermarks import recalled
from isotherm_ingest.batches.table_names import namespaces
from isotherm_ingest.commands.dead_letters import Letter, Letters, newest_letters
from isotherm_ingest.commands.standing import LATE_S, Seen, Standing, is_whole, span, standing
from isotherm_ingest.failures import CatalogAway, brief
from isotherm_ingest.kafka import Broker
from isotherm_ingest.known_in_marks import named, of_topics
from isotherm_ingest.mark_text import Mark
from isotherm_ingest.marks import Marks
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.plan.topic_partition import Position
from isotherm_ingest.streams import StreamsConfig
from isotherm_ingest.tables.lake import PIPELINE_PROPERTY, Lake, TableNow

AT_ONCE = 8
"""Tables that are loaded side by side: a request takes a catalog some milliseconds, mostly of waiting."""
LETTERS_MATTER_MS = 24 * 3_600_000
"""Dead letters that came later than this ask for a person. Nobody marks those that were seen to."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic that has become no table yet."""

    topic: str
    waiting: int
    is_late: bool
    dead_letters: Mapping[str, int]
    """By reason."""
    trouble: str = ""
    """What a person must look at among these."""


@dataclass(frozen=True, slots=True)
class Status:
    """How a pipeline stands."""

    pipeline: str
    asked_ms: int
    tables: tuple[Standing, ...]
    """Worst first."""
    new_topics: tuple[NewTopic, ...]
    letters: Letters

    @property
    def troubles(self) -> list[tuple[str, str]]:
        """What a person must look at, by table or topic."""
        unread = "no table has been made of it, and its messages wait: is a driver running?"
        of_tables = [(one.table, why) for one in self.tables for why in one.troubles]
        of_topics = [(one.topic, unread) for one in self.new_topics if one.is_late]
        of_topics += [(one.topic, one.trouble) for one in self.new_topics if one.trouble]
        unseen = (
            [("dead letters", f"none of {self.letters.there:,} could be looked at")]
            if self.letters.there and not self.letters.looked_at
            else []
        )
        return of_tables + of_topics + unseen


def status(config: StreamsConfig, now_ms: int | None = None) -> Status:
    """How the tables of a pipeline stand now.

    Raises:
        BrokerError: Kafka does not answer.
        CatalogAway: the catalog does not.
        PropertyError: librdkafka does not take its properties.
    """
    now_ms = clock.now_ms() if now_ms is None else now_ms
    late_ms = int(1000 * max(LATE_S, 10 * max(config.window_of(one).every_s for one in config.streams)))
    broker = Broker(config.kafka.properties)
    listed = broker.topics(config.topic_pattern)
    topics = {name for name in listed if config.stream_of(name)}
    ids, starts = broker.topic_ids(topics), broker.starts(topics)
    marks = _marks(config, {name: listed[name] for name in topics}, ids)
    watermarks = recalled(
        broker.newest_by_key(config.kafka.announced_topic), config.kafka.announced_topic, config.pipeline
    )
    tables = _tables(config, marks, watermarks)
    # After the tables: what a driver has committed meanwhile is below the end.
    kafka = Kafka(
        starts,
        broker.ends(topics),
        ids,
        cuts={one: mark.cuts for one, mark in marks.items() if mark.cuts},
        asked_ms=now_ms,
    )
    first_young = broker.first_since(topics, now_ms - late_ms)
    letters = newest_letters(config.kafka.properties, config.kafka.dead_letter_topic, config.pipeline)
    seen = Seen(config, kafka, first_young, marks, watermarks, now_ms, late_ms)
    return judged(seen, tables, letters)


def judged(seen: Seen, tables: Mapping[str, TableNow | Exception | None], letters: Letters) -> Status:
    """How a pipeline stands, from all that was read."""
    found = [one for name, now in sorted(tables.items()) if (one := standing(name, now, seen)) is not None]
    found = [_with_letters(one, letters, seen.now_ms) for one in found]
    found.sort(
        key=lambda one: (
            -len(one.troubles),
            one.state == "fine",
            -one.retention_used,
            -sum(one.waiting.values()),
            one.table,
        )
    )
    with_table = {topic for one in found for topic in one.waiting}
    new = [_new_topic(topic, seen, letters) for topic in sorted(seen.topics - with_table)]
    told = tuple(one for one in new if one.waiting or one.dead_letters)
    return Status(seen.config.pipeline, seen.now_ms, tuple(found), told, letters)


def _marks(
    config: StreamsConfig, topics: Mapping[str, Collection[int]], ids: Mapping[str, str]
) -> dict[Position, Mark]:
    marks = Marks(config.kafka.properties, config.pipeline)
    try:
        return of_topics(marks.read([(name, one) for name in sorted(topics) for one in topics[name]]), ids)
    finally:
        marks.close()


def _tables(
    config: StreamsConfig, marks: Mapping[Position, Mark], watermarks: Mapping[str, tuple[str, Watermark]]
) -> dict[str, TableNow | Exception | None]:
    """The tables of the pipeline, those of which something is known among them; of what cannot be read, the error."""
    lake = Lake(config.catalog.name, config.catalog.properties)
    ours = named(marks) | {name for name, _ in watermarks.values()}
    try:
        there = set(lake.names(namespaces(config)))
    except Exception as err:
        raise CatalogAway(f"the catalog does not answer: {brief(err)}") from err
    enough = is_whole(config.pipeline, watermarks)

    def load(name: str) -> TableNow | Exception | None:
        try:
            return lake.newest(name, enough)
        except Exception as err:  # noqa: BLE001 (the table's own trouble, which is told)
            return RuntimeError(brief(err))

    names = sorted(ours | there)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(zip(names, pool.map(load, names), strict=True))
    return {name: now for name, now in found.items() if name in ours or _is_ours(now, config.pipeline)}


def _is_ours(now: TableNow | Exception | None, pipeline: str) -> bool:
    return isinstance(now, TableNow) and (
        now.properties.get(PIPELINE_PROPERTY) == pipeline or property_name(pipeline) in now.properties
    )


def _with_letters(told: Standing, letters: Letters, now_ms: int) -> Standing:
    """With the dead letters of its topics. Which of several tables of a topic a letter was for, it does not say."""
    mine = [one for one in letters.letters if one.topic in told.waiting]
    counts = Counter(one.reason for one in mine)
    troubles = told.troubles
    if new := [one for one in mine if one.sent_ms > now_ms - LETTERS_MATTER_MS]:
        troubles = (*troubles, _of_letters(new, now_ms))
    return replace(told, dead_letters=dict(sorted(counts.items())), troubles=troubles)


def _of_letters(new: Collection[Letter], now_ms: int) -> str:
    by_reason = Counter(one.reason for one in new).most_common()
    newest = max(one.sent_ms for one in new)
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in by_reason[:3])
    return f"dead letters of the last day: {reasons}; the newest came {span(now_ms - newest)} ago"


def _new_topic(topic: str, seen: Seen, letters: Letters) -> NewTopic:
    """A topic of which no table is known: what waits is what was not seen through."""
    positions = seen.kafka.positions([topic])
    mine = [one for one in letters.letters if one.topic == topic]
    new = [one for one in mine if one.sent_ms > seen.now_ms - LETTERS_MATTER_MS]
    fronts = {
        one: mark.through if (mark := seen.marks.get(one)) is not None else seen.kafka.starts.get(one, 0)
        for one in positions
    }
    return NewTopic(
        topic,
        sum(max(seen.kafka.ends[one] - front, 0) for one, front in fronts.items()),
        any(seen.is_late(one, front) for one, front in fronts.items()),
        dict(sorted(Counter(one.reason for one in mine).items())),
        _of_letters(new, seen.now_ms) if new else "",
    )
