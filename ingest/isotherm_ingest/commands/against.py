"""`isotherm-ingest validate --against topics|registry`: what a driver would make of what is there. Nothing is written.

Spark is not started: tables are read as the catalog has them, and judged by what the driver asks before it alters one.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from isotherm_ingest.batches.owners import Owners
from isotherm_ingest.batches.routing import Routing
from isotherm_ingest.commands.registry_schemas import in_registry
from isotherm_ingest.commands.table_fit import TableFit, table_fit
from isotherm_ingest.commands.topic_schemas import TopicLook, in_topic
from isotherm_ingest.dead_letter_topic import DeadLetters
from isotherm_ingest.failures import CatalogAway, brief
from isotherm_ingest.kafka import Broker
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.registry import Registry
from isotherm_ingest.streams import Stream, StreamsConfig
from isotherm_ingest.tables.lake import Lake
from isotherm_ingest.tables.portion import Group

Where = Literal["registry", "topics"]


@dataclass(frozen=True, slots=True)
class Fit:
    """What was found."""

    topics: tuple[TopicLook, ...]
    """Those that streams take."""
    tables: tuple[TableFit, ...]
    compacted: frozenset[str]
    """Of these topics, those of mirrors whose deletes go."""
    untaken: tuple[str, ...]
    """Topics that no stream takes."""
    idle: tuple[Stream, ...]
    """Streams that take no topic."""

    @property
    def troubles(self) -> int:
        """How many topics and tables something would be refused of, or nobody can say anything of."""
        of_tables = {
            one.name for one in self.tables if one.refused or any(group.refused for group in one.groups)
        }
        return len(of_tables) + sum(bool(one.refused or one.trouble) for one in self.topics)


def against(config: StreamsConfig, where: Where) -> Fit:
    """What the streams would make of what is in the topics, or in the registry.

    Raises:
        BrokerError: Kafka does not answer.
        CatalogAway: the catalog does not.
        PropertyError: librdkafka does not take its properties.
    """
    broker = Broker(config.kafka.properties)
    lake = Lake(config.catalog.name, config.catalog.properties)
    every = broker.topics(r"(?!__).*")
    taken = sorted(name for name in broker.topics(config.topic_pattern) if config.stream_of(name))
    try:
        lake.ask()
    except Exception as err:
        raise CatalogAway(f"the catalog does not answer: {brief(err)}") from err
    look = _looker(config, where, broker, Owners(config, lake, config.pipeline))
    topics = [look(topic) for topic in taken]
    streams = {topic: config.stream_of(topic) for topic in taken}
    used = list(streams.values())
    mirrors = {topic for topic, one in streams.items() if one is not None and one.mode == "mirror"}
    return Fit(
        tuple(topics),
        tuple(_tables(config, lake, topics)),
        broker.compacted(mirrors),
        tuple(sorted(name for name in every.keys() - set(taken) if not _is_ours(config, name))),
        tuple(one for one in config.streams if one not in used),
    )


def _looker(
    config: StreamsConfig, where: Where, broker: Broker, owners: Owners
) -> Callable[[str], TopicLook]:
    """What looks at one topic."""
    registry = Registry(config.registry)
    if where == "registry":
        return lambda topic: in_registry(config, registry, topic, owners.of)
    # It sends nothing before it is asked to.
    letters = DeadLetters(broker, config.kafka.dead_letter_topic, config.pipeline, Metrics())
    routing = Routing(config, letters, owners.of, registry)
    return lambda topic: in_topic(config, broker, routing, topic)


def _tables(config: StreamsConfig, lake: Lake, topics: Sequence[TopicLook]) -> list[TableFit]:
    groups: dict[str, list[Group]] = {}
    owners: dict[str, Stream] = {}
    for look in topics:
        for group, name, stream in look.groups:
            groups.setdefault(name, []).append(group)
            owners[name] = stream
    found = []
    for name, mine in sorted(groups.items()):
        try:
            now = lake.newest(name, lambda now: now.has_tokens(config.pipeline))
        except Exception as err:  # noqa: BLE001 (the table's own trouble, which is told)
            found.append(
                TableFit(name, owners[name].mode, is_there=True, refused=f"cannot be read: {brief(err)}")
            )
            continue
        found.append(table_fit(name, now, owners[name], mine, config.pipeline))
    return found


def _is_ours(config: StreamsConfig, topic: str) -> bool:
    """Whether a topic is of Isotherm itself: its control topic, those beside it, and that of dead letters."""
    control = re.escape(config.kafka.control_topic)
    return topic == config.kafka.dead_letter_topic or re.fullmatch(rf"{control}(\..+)?", topic) is not None
