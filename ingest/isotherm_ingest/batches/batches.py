"""One micro-batch, many tables: routed, written side by side, each failing for itself.

The raw messages are kept for the length of the batch and looked at once, by topic, Kafka partition and schema. Each
table is then brought up to date by its own writer. A table that fails is left out, and caught up from its own vector
by a batch read of Kafka once it works again, so one bad table never stalls the others. Only when all fail does the
batch: then Spark's checkpoint must not go on.
"""

# ruff: noqa: S608 (every name in the SQL is quoted, every value a literal)
import itertools
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from isotherm.contract import summary
from isotherm.runtime import clock, logs
from isotherm_ingest.announce.outbox import Outbox
from isotherm_ingest.batches.catch_up import read_range
from isotherm_ingest.batches.routing import Routing
from isotherm_ingest.failures import Stopping, TableRefused, brief
from isotherm_ingest.kafka import Broker
from isotherm_ingest.sql.raw import RAW_COLUMNS, TOMBSTONE, Group
from isotherm_ingest.streams import Stream, StreamsConfig
from isotherm_ingest.tables import offsets
from isotherm_ingest.tables.offsets import Position
from isotherm_ingest.tables.portion import Portion
from isotherm_ingest.tables.tools import Tools
from isotherm_ingest.tables.writer import TableWriter
from isotherm_ingest.threads import context

FIRST_RETRY_S = 2.0

LAST_RETRY_S = 120.0
"""A table that failed is tried again after 2, 4, 8, … seconds, at most two minutes."""

_numbers = itertools.count(1)


@dataclass
class TableProgress:
    """What this process knows of a table beyond the table's own word."""

    writer: TableWriter
    synced: set[Position] = field(default_factory=set)
    """Kafka partitions in which nothing was left out since this process began."""
    done: dict[Position, int] = field(default_factory=dict)
    """Next offset by what was seen through, also where it held nothing to write."""
    failures: int = 0
    retry_at_s: float = 0.0


class Batches:
    """What Spark calls for each micro-batch."""

    def __init__(
        self,
        config: StreamsConfig,
        spark: SparkSession,
        broker: Broker,
        tools: Tools,
        outbox: Outbox,
        make_writer: Callable[[str, Stream, SparkSession, Tools], TableWriter] = TableWriter,
    ) -> None:
        """One for the life of the driver.

        Args:
            config: streams.yaml.
            spark: the session that reads Kafka.
            broker: for the ends of topics.
            tools: what every writer uses.
            outbox: told of each commit.
            make_writer: makes the writer of a table.
        """
        self._config = config
        self._spark = spark
        self._broker = broker
        self._tools = tools
        self._outbox = outbox
        self._make_writer = make_writer
        self._tables: dict[str, TableProgress] = {}
        self._routing = Routing(config, tools.dead_letters)
        self._reached: dict[Position, int] = {}
        self._cluster = broker.cluster_id()
        self._lock = threading.Lock()
        self._stopping = False
        self._context = context()
        self._pool = ThreadPoolExecutor(
            config.tables_at_once, thread_name_prefix="table", initializer=self._context
        )

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write one micro-batch.

        Raises:
            Exception: every table failed, or Kafka did.
        """
        self._context()
        if self._stopping:
            raise Stopping("stopped at a batch boundary")
        query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
        with self._lock:
            started_s = clock.monotonic_s()
            rows = self._process(frame, query, batch, only=None)
            seconds = clock.monotonic_s() - started_s
        self._tools.metrics.batch_seconds.observe(seconds)
        logs.get().info("batch_done", batch=batch, rows=rows, seconds=round(seconds, 3))

    def recover(self) -> None:
        """Try the tables that are left out and due again, between batches."""
        if not any(self._is_due(one) for one in self._tables.values()):
            return
        with self._lock:
            for name, progress in list(self._tables.items()):
                if self._is_due(progress) and not self._stopping:
                    self._attempt(name, partial(self._catch_up, progress, self._reached), batch=-1)

    def stop(self) -> None:
        """Let the batch in progress end; none begins after it."""
        self._stopping = True
        with self._lock:
            self._pool.shutdown()

    def forget(self) -> None:
        """Take nothing for granted any more: the query starts again."""
        self._broker.forget_topics()
        for progress in self._tables.values():
            progress.synced.clear()

    # A batch

    def _process(self, frame: DataFrame, query: str, batch: int, *, only: str | None) -> int:
        view = f"isotherm_raw_{next(_numbers)}"
        raw = frame.selectExpr(*RAW_COLUMNS).persist(StorageLevel.MEMORY_AND_DISK)
        raw.createOrReplaceGlobalTempView(view)
        try:
            return self._process_view(raw, f"global_temp.{view}", query, batch, only=only)
        finally:
            raw.sparkSession.catalog.dropGlobalTempView(view)
            raw.unpersist()

    def _process_view(self, raw: DataFrame, view: str, query: str, batch: int, *, only: str | None) -> int:
        seen = raw.sparkSession.sql(
            f"SELECT topic, partition, _schema, min(offset) AS first, max(offset) AS last FROM {view} "
            "GROUP BY topic, partition, _schema"
        ).collect()
        if not seen:
            return 0
        ranges: dict[Position, tuple[int, int]] = {}
        groups: set[tuple[str, int]] = set()
        for row in seen:
            position = (row["topic"], row["partition"])
            first, end = ranges.get(position, (row["first"], row["last"] + 1))
            ranges[position] = (min(first, row["first"]), max(end, row["last"] + 1))
            if row["_schema"] != TOMBSTONE:
                groups.add((row["topic"], row["_schema"]))
        self._routing.learn(view, raw.sparkSession, groups)
        if only is None:
            self._routing.dead_letter_unrouted(view, raw.sparkSession, groups, batch)
            for position, (_, end) in ranges.items():
                self._reached[position] = max(end, self._reached.get(position, 0))
        topics = {topic for topic, _ in groups}
        ends = self._broker.ends(topics)
        ids = self._broker.topic_ids(topics)
        portions: dict[str, Portion] = {}
        for topic, schema_hash in sorted(groups):
            route = self._routing.of(topic, schema_hash)
            if (
                route is None
                or route.table is None
                or route.schema is None
                or only not in {None, route.table}
            ):
                continue
            group = Group(topic, schema_hash, route.schema)
            mine = {position: span for position, span in ranges.items() if position[0] == topic}
            portion = portions.get(route.table)
            if portion is None:
                portions[route.table] = Portion(
                    view, query, batch, (group,), mine, ends, {topic: ids[topic]}, self._cluster
                )
            else:
                portions[route.table] = replace(
                    portion,
                    groups=(*portion.groups, group),
                    ranges={**portion.ranges, **mine},
                    topic_ids={**portion.topic_ids, topic: ids[topic]},
                )
        if only is not None:
            return sum(self._tables[only].writer.write(portion) for portion in portions.values())
        return self._write_all(portions, batch)

    def _write_all(self, portions: Mapping[str, Portion], batch: int) -> int:
        futures = {}
        for name, portion in portions.items():
            progress = self._table(name, portion)
            if progress.failures and not self._is_due(progress):
                progress.synced -= set(portion.ranges)
                continue
            futures[name] = self._pool.submit(
                self._attempt, name, partial(self._bring, progress, portion), batch
            )
        results = {name: future.result() for name, future in futures.items()}
        errors = [result for result in results.values() if isinstance(result, BaseException)]
        if errors:
            self._tools.metrics.batches_failed.inc()
        if (
            errors
            and len(errors) == len(results)
            and not all(isinstance(error, TableRefused) for error in errors)
        ):
            for name in results:  # not theirs alone: the whole batch is tried again, with nobody left out
                self._tables[name].failures = 0
                self._tools.metrics.quarantined.labels(name).set(0)
            raise errors[0]
        return sum(result for result in results.values() if isinstance(result, int))

    def _table(self, name: str, portion: Portion) -> TableProgress:
        progress = self._tables.get(name)
        if progress is None:
            route = self._routing.of(portion.groups[0].topic, portion.groups[0].schema_hash)
            assert route is not None  # noqa: S101 (a portion has a route)
            assert route.stream is not None  # noqa: S101 (a portion has a route)
            progress = TableProgress(self._make_writer(name, route.stream, self._spark, self._tools))
            self._tables[name] = progress
        return progress

    def _attempt(self, name: str, work: Callable[[], int], batch: int) -> int | BaseException:
        """Do a table's work; a failure is the table's own, until all have failed."""
        progress = self._tables[name]
        try:
            rows = work()
        except Exception as err:  # noqa: BLE001 (isolated here, counted, told, and tried again)
            progress.failures += 1
            wait_s = min(FIRST_RETRY_S * 2 ** (progress.failures - 1), LAST_RETRY_S)
            progress.retry_at_s = clock.monotonic_s() + wait_s
            progress.synced.clear()
            self._tools.metrics.quarantined.labels(name).set(1)
            refused = isinstance(err, TableRefused)
            logs.get().error(
                "batch_failed",
                table=name,
                batch=batch,
                attempts=progress.failures,
                retry_in_s=wait_s,
                error=brief(err),
                refused=refused,
            )
            return err
        if progress.failures:
            logs.get().info("table_recovered", table=name, after=progress.failures)
        progress.failures = 0
        self._tools.metrics.quarantined.labels(name).set(0)
        return rows

    def _is_due(self, progress: TableProgress) -> bool:
        return progress.failures > 0 and clock.monotonic_s() >= progress.retry_at_s

    def _bring(self, progress: TableProgress, portion: Portion) -> int:
        """The portion, and before it whatever the table lacks from earlier ones."""
        unsynced = {p: first for p, (first, _) in portion.ranges.items() if p not in progress.synced}
        rows = self._catch_up(progress, unsynced) if unsynced else 0
        rows += progress.writer.write(portion)
        self._outbox.wake(progress.writer.name)
        for position, (_, end) in portion.ranges.items():
            progress.done[position] = max(end, progress.done.get(position, 0))
            progress.synced.add(position)
        return rows

    # What was left out

    def _catch_up(self, progress: TableProgress, up_to: Mapping[Position, int]) -> int:
        """Read from Kafka what the table lacks below some offsets, in portions, and write it."""
        writer = progress.writer
        vector = writer.vector()
        topics = {topic for topic, _ in up_to} & self._routing.topics_of(writer.name)
        starts = self._broker.starts(topics)
        left: dict[Position, tuple[int, int]] = {}
        for position, end in up_to.items():
            if position[0] not in topics or position not in starts:
                continue
            known = max(offsets.next_offset(vector, position) or 0, progress.done.get(position, 0))
            if known >= end:
                continue
            if known and known < starts[position]:
                raise TableRefused(
                    f"{writer.name} needs {position[0]}/{position[1]} from offset {known}, Kafka holds it from "
                    f"{starts[position]}: changes are lost. Rebuild the table, or accept the loss by a table property "
                    f"{summary.property_name(self._config.pipeline)} with the offsets to go on from"
                )
            if starts[position] < end:
                left[position] = (max(known, starts[position]), end)
        rows = 0
        while left:
            chunk = {
                position: (first, min(end, first + self._config.max_offsets_per_trigger))
                for position, (first, end) in left.items()
            }
            logs.get().info(
                "catching_up", table=writer.name, messages=sum(end - first for first, end in chunk.values())
            )
            rows += self._process(
                read_range(self._spark, self._config.kafka, chunk), "catch-up", -1, only=writer.name
            )
            self._outbox.wake(progress.writer.name)
            for position, (_, end) in chunk.items():
                progress.done[position] = end
            left = {
                position: (chunk[position][1], end)
                for position, (_, end) in left.items()
                if chunk[position][1] < end
            }
        return rows
