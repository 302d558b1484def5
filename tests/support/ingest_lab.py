"""Ingest in the test's own process: a pipeline of its own on the shared broker and the shared Spark session."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from isotherm.contract.events import CommitEvent, Intent, decode
from isotherm.runtime import clock
from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.announce.intents import Intents
from isotherm_ingest.announce.outbox import Outbox
from isotherm_ingest.batches.driver import Driver
from isotherm_ingest.batches.table_names import namespaces
from isotherm_ingest.dead_letter_topic import DeadLetters
from isotherm_ingest.job import prepare_topics, windows_of
from isotherm_ingest.kafka import Broker
from isotherm_ingest.marks import Marks, group_of
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.streams import StreamsConfig
from isotherm_ingest.tables.lake import Lake
from isotherm_ingest.tables.tools import Tools
from isotherm_ingest.tables.writer import TableWriter
from support.spark import CATALOG
from support.spark import Lake as LakeFolder

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Letter:
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes | None]
    timestamp: int


class Lab:
    """One pipeline; `again()` is a driver that starts again after the last one has vanished."""

    def __init__(
        self, kafka: Any, spark: Any, folder: LakeFolder, streams: str, *, grants: bool = False
    ) -> None:
        self.grants = grants
        self.name = f"p{next(_numbers)}"
        self.spark = spark
        self.kafka = kafka
        self.text = f"""
pipeline: {self.name}
catalog: {{name: {CATALOG}, properties: {_flow(folder.pyiceberg_properties)}}}
kafka:
  properties: {{bootstrap.servers: "{kafka.bootstrap_servers}"}}
  control_topic: {self.name}.control
  dead_letter_topic: {self.name}.dead
every: 1ms
streams:
{streams.replace("NS", self.name)}
"""
        self.config = parse_yaml(self.text, "streams.yaml", StreamsConfig)
        self.producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        prepare_topics(Broker(self.config.kafka.properties), self.config)
        self._open()

    def _open(self, make_writer: Callable[..., TableWriter] = TableWriter) -> None:
        config = self.config
        self.metrics = Metrics()
        self.broker = Broker(config.kafka.properties)
        self.lake = Lake(config.catalog.name, config.catalog.properties)
        self.intents = Intents(self.broker, config.kafka.control_topic, config.pipeline)
        dead = DeadLetters(self.broker, config.kafka.dead_letter_topic, config.pipeline, self.metrics)
        self.tools = Tools(self.lake, self.intents, dead, self.metrics, config.pipeline, self.broker.now)
        self.outbox = Outbox(
            self.lake,
            self.broker,
            config.pipeline,
            config.kafka.control_topic,
            config.kafka.announced_topic,
            self.metrics,
            3600,
            grants=self.grants,
        )
        self.outbox.recall(namespaces(config))
        self.driver = Driver(
            config,
            self.spark,
            self.broker,
            Marks(config.kafka.properties, config.pipeline),
            self.tools,
            self.outbox,
            make_writer,
            windows=windows_of(config, self.broker, self.lake, self.metrics) if self.grants else None,
        )
        self.driver.begin(clock.monotonic_s())

    def again(self, make_writer: Callable[..., TableWriter] = TableWriter) -> None:
        """A new driver, that knows nothing but what is written down."""
        self.close()
        self._open(make_writer)

    def lose_marks(self) -> None:
        """The pipeline's consumer group is gone, as after a week of silence."""
        group = group_of(self.name)
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers})
        admin.delete_consumer_groups([group])[group].result(30)

    def forget(self, table: str, below: int) -> None:
        """Retention passes: Kafka deletes what stands below an offset of the first partition."""
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers})
        (future,) = admin.delete_records([TopicPartition(self.topic(table), 0, below)]).values()
        future.result(30)

    def delete_topic(self, table: str) -> None:
        """Somebody deletes a topic; returns when the broker does not know it any more."""
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers})
        admin.delete_topics([self.topic(table)])[self.topic(table)].result(30)
        while self.topic(table) in admin.list_topics(timeout=30).topics:
            pass

    def grow(self, table: str, partitions: int) -> None:
        """A topic gains partitions; returns when this lab's own producer knows them."""
        topic = self.topic(table)
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers})
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)
        self.producer = Producer({"bootstrap.servers": self.kafka.bootstrap_servers, "log_level": 0})
        while len(self.producer.list_topics(topic, 30).topics[topic].partitions) < partitions:
            pass

    def start_another(self) -> None:
        """A second driver of the same pipeline, beside the first."""
        self._open()

    def hole(self, table: str, why: str) -> float:
        """How often a table was found to lack changes, for this reason."""
        labels = {"table": f"{self.name}.{table}", "why": why}
        return self.metrics.registry.get_sample_value("isotherm_ingest_holes_total", labels) or 0

    def is_left_out(self, table: str) -> bool:
        """Whether the driver leaves a table alone now."""
        labels = {"table": f"{self.name}.{table}"}
        return self.metrics.registry.get_sample_value("isotherm_ingest_table_quarantined", labels) == 1

    def close(self) -> None:
        self.driver.stop()
        self.intents.stop()

    def topic(self, table: str) -> str:
        return f"{self.name}.public.{table}"

    def make_topics(self, *tables: str, partitions: int = 1) -> None:
        for table in tables:
            self.kafka.create_topic(self.topic(table), partitions)

    def send(
        self,
        table: str,
        *messages: tuple[bytes | None, bytes | None],
        headers: Any = None,
        partition: int = -1,
    ) -> None:
        for key, value in messages:
            self.producer.produce(
                self.topic(table), key=key, value=value, headers=headers, partition=partition
            )
        self.producer.flush()

    def ingest(self) -> None:
        """Until everything that is in Kafka has been through a batch, or waits for a table that is left out."""
        self.driver.turn(clock.monotonic_s())
        while self.driver.turn(clock.monotonic_s()):
            pass

    def announce(self) -> None:
        for name in sorted(self.outbox.names):
            self.outbox.announce(name)

    def announce_due(self) -> None:
        """What the outbox's own thread does once it is woken."""
        while due := self.outbox.due(clock.monotonic_s()):
            for name, now in sorted(due.items()):
                self.outbox.announce(name, now)

    def rows(self, table: str) -> list[dict[str, Any]]:
        return [
            row.asDict(recursive=True) for row in self.spark.table(f"{CATALOG}.{self.name}.{table}").collect()
        ]

    def snapshots(self, table: str) -> list[Any]:
        """Main's history, the oldest first."""
        now = self.lake.load(f"{self.name}.{table}")
        return [] if now is None else list(now.ancestry())[::-1]

    def control(self) -> list[CommitEvent | Intent]:
        found = [decode(letter.value) for letter in self.read(self.config.kafka.control_topic)]
        return [event for event in found if event is not None]

    def events(self, table: str) -> list[CommitEvent]:
        name = f"{self.name}.{table}"
        return [event for event in self.control() if isinstance(event, CommitEvent) and event.table == name]

    def dead(self) -> list[Letter]:
        return self.read(self.config.kafka.dead_letter_topic)

    def read(self, topic: str) -> list[Letter]:
        return read_topic(self.kafka, topic)


def read_topic(kafka: Any, topic: str) -> list[Letter]:
    """All messages of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "lab",
            "enable.auto.commit": False,
        }
    )
    try:
        numbers = consumer.list_topics(topic, 30).topics[topic].partitions
        letters = []
        for number in numbers:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), 30)
            consumer.assign([TopicPartition(topic, number, low)])
            while low < high:
                message = consumer.poll(30)
                assert message is not None, f"{topic} ends early"
                assert message.error() is None, message.error()
                low = message.offset() + 1
                letters.append(
                    Letter(
                        message.key(),
                        message.value(),
                        dict(message.headers() or []),
                        message.timestamp()[1],
                    )
                )
        return letters
    finally:
        consumer.close()


def _flow(values: dict[str, str]) -> str:
    return "{" + ", ".join(f'{key}: "{value}"' for key, value in values.items()) + "}"
