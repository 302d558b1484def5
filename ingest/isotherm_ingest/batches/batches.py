"""One batch: some ranges of Kafka, read once, split by topic and schema, and handed to their tables."""

# ruff: noqa: S608 (every name in the SQL is quoted, every value a literal)
import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace

from pyspark import StorageLevel
from pyspark.sql import SparkSession

from isotherm.runtime import clock, logs
from isotherm_ingest.batches.read import read_range
from isotherm_ingest.batches.routing import Routing
from isotherm_ingest.batches.tables import Tables
from isotherm_ingest.plan.places import Kafka, Known
from isotherm_ingest.plan.shares import Ranges
from isotherm_ingest.sql.raw import RAW_COLUMNS, TOMBSTONE, Group
from isotherm_ingest.streams import StreamsConfig
from isotherm_ingest.tables.portion import Portion
from isotherm_ingest.tables.tools import Tools


class Batches:
    """Reads ranges, and writes what is in them."""

    def __init__(
        self, config: StreamsConfig, spark: SparkSession, tools: Tools, tables: Tables, cluster: str
    ) -> None:
        self._config = config
        self._spark = spark
        self._tools = tools
        self._tables = tables
        self._cluster = cluster
        self._routing = Routing(config, tools.dead_letters)
        self._numbers = itertools.count(1)

    def run(
        self,
        ranges: Ranges,
        kafka: Kafka,
        known: Callable[[str], Known | None],
        now_s: float,
        only: Mapping[str, str] | None = None,
    ) -> None:
        """Read and write.

        Args:
            ranges: what is read.
            kafka: what the broker says of the topics.
            known: what the marks say of a table that was not met yet.
            now_s: when the turn began, monotonic.
            only: by topic, the one table that this batch is for. Without it, it is for all, and what belongs to no
                table goes to the dead letters.
        """
        number = next(self._numbers)
        started_s = clock.monotonic_s()
        name = f"isotherm_raw_{number}"
        frame = read_range(self._spark, self._config.kafka, ranges)
        cores = self._spark.sparkContext.defaultParallelism
        raw = frame.selectExpr(*RAW_COLUMNS).coalesce(cores).persist(StorageLevel.MEMORY_AND_DISK)
        raw.createOrReplaceGlobalTempView(name)
        try:
            rows = self._write(f"global_temp.{name}", number, ranges, kafka, known, now_s, only)
        finally:
            self._spark.catalog.dropGlobalTempView(name)
            raw.unpersist()
        seconds = clock.monotonic_s() - started_s
        self._tools.metrics.batch_seconds.observe(seconds)
        event = "batch_done" if only is None else "caught_up"
        logs.get().info(event, batch=number, rows=rows, seconds=round(seconds, 3))

    def _write(
        self,
        view: str,
        number: int,
        ranges: Ranges,
        kafka: Kafka,
        known: Callable[[str], Known | None],
        now_s: float,
        only: Mapping[str, str] | None,
    ) -> int:
        seen = self._spark.sql(f"SELECT DISTINCT topic, _schema FROM {view}").collect()
        groups = {(row["topic"], row["_schema"]) for row in seen if row["_schema"] != TOMBSTONE}
        self._routing.learn(view, self._spark, groups)
        if only is None:
            self._routing.dead_letter_unrouted(view, self._spark, groups, number, ranges, kafka.ids)
        portions = self._portions(view, number, groups, ranges, kafka, known)
        if only is not None:
            portions = {
                name: one
                for name, one in portions.items()
                if all(only.get(topic) == name for topic in one.topics)
            }
        rows = self._tables.write(portions, now_s)
        topics = {topic for topic, _ in ranges}
        readers = (
            set(only.values())
            if only is not None
            else {name for topic in topics for name in self._tables.of_topic(topic)}
        )
        self._tables.pass_by(ranges, readers - portions.keys())
        return rows

    def _portions(
        self,
        view: str,
        number: int,
        groups: set[tuple[str, int]],
        ranges: Ranges,
        kafka: Kafka,
        known: Callable[[str], Known | None],
    ) -> dict[str, Portion]:
        """By table, what the batch holds for it."""
        of_table: dict[str, list[Group]] = {}
        for topic, schema_hash in sorted(groups):
            route = self._routing.of(topic, schema_hash)
            if route is None or route.table is None or route.schema is None or route.stream is None:
                continue
            self._tables.meet(route.table, route.stream, {topic}, known(route.table))
            of_table.setdefault(route.table, []).append(Group(topic, schema_hash, route.schema))
        spans: dict[str, Ranges] = {}
        for position, span in ranges.items():
            spans.setdefault(position[0], {})[position] = span
        by_topic = kafka.by_topic()
        portions = {}
        for name, mine in of_table.items():
            topics = sorted({group.topic for group in mine})
            portion = Portion(view, number, tuple(mine), {}, Kafka(), self._cluster)
            for topic in topics:
                portion = replace(
                    portion,
                    ranges={**portion.ranges, **spans[topic]},
                    kafka=portion.kafka.also(by_topic[topic]),
                )
            portions[name] = portion
        return portions
