"""One batch: some ranges of Kafka, read once, written for all tables, and committed table by table."""

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from isotherm.runtime import clock, logs
from isotherm_ingest.batches.fan_out import Report, fan_out
from isotherm_ingest.batches.routing import Named, Routing
from isotherm_ingest.batches.table_state import Front
from isotherm_ingest.batches.tables import Tables
from isotherm_ingest.marks import group_of
from isotherm_ingest.plan.known import Known
from isotherm_ingest.plan.shares import Ranges
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.plan.truncates import Truncates
from isotherm_ingest.streams import StreamsConfig
from isotherm_ingest.tables.portion import Done, Portion, Ready
from isotherm_ingest.tables.tools import Tools
from isotherm_ingest.workers.reading import reader_properties
from isotherm_ingest.workers.tasks import BatchTask

Reader = Callable[[SparkSession, Mapping[str, Any], Ranges, BatchTask], Report]


class Batches:
    """Reads ranges, and writes what is in them."""

    def __init__(
        self,
        config: StreamsConfig,
        spark: SparkSession,
        tools: Tools,
        tables: Tables,
        cluster: str,
        topic_ids: Callable[[Collection[str]], Mapping[str, str]],
        count: Callable[[str], int],
        read: Reader = fan_out,
    ) -> None:
        self._kafka = reader_properties(config.kafka.properties, group_of(config.pipeline))
        self._spark = spark
        self._tools = tools
        self._tables = tables
        self._cluster = cluster
        self._topic_ids = topic_ids
        self._count = count
        self._read = read
        self._routing = Routing(config, tools.dead_letters, tables.owners.of)
        self._numbers = itertools.count(1)

    def run(
        self,
        ranges: Ranges,
        kafka: Kafka,
        known: Callable[[str], Known | None],
        now_s: float,
        only: Mapping[str, str] | None = None,
        front: Front | None = None,
    ) -> None:
        """Read and write.

        Args:
            ranges: what is read.
            kafka: what the broker says of the topics.
            known: what the marks say of a table that was not met yet.
            now_s: when the turn began, monotonic.
            only: by topic, the one table that this batch is for. Without it, it is for all.
            front: of a batch that is for all, where its topics were read to.
        """
        number = next(self._numbers)
        started_s = clock.monotonic_s()
        rows = self._write(number, ranges, kafka, known, now_s, only, front)
        seconds = clock.monotonic_s() - started_s
        self._tools.metrics.batch_seconds.observe(seconds)
        event = "batch_done" if only is None else "caught_up"
        logs.get().info(event, batch=number, rows=rows, seconds=round(seconds, 3))

    def _write(
        self,
        number: int,
        ranges: Ranges,
        kafka: Kafka,
        known: Callable[[str], Known | None],
        now_s: float,
        only: Mapping[str, str] | None,
        front: Front | None,
    ) -> int:
        topics = {topic for topic, _ in ranges}
        met: set[Named] = set()
        truncates: dict[str, Truncates] = {}
        self._routing.forget_old(topics)
        while True:
            portions = self._portions(number, ranges, kafka, known, met, only)
            for name in portions.keys() & truncates.keys():
                portions[name] = replace(portions[name], truncates=truncates[name])
            ready = self._tables.prepare(portions, now_s, front=front)
            routes, problems = self._routing.told(topics, ready)
            tasks = {name: one.task for name, one in ready.items()}
            task = BatchTask(tasks, routes, problems, self._routing.formats(topics))
            report = self._read(self._spark, self._kafka, ranges, task)
            try:
                mixed = {name for name, one in ready.items() if _is_mixed(one, report.done[name])}
                if not report.samples and not report.truncates and not mixed:
                    with self._forgetting(report, ready):
                        self._refuse_others(topics, kafka)
                        self._refuse_lost(report)
                        self._routing.dead_letter(report, number, kafka.ids, of_all=only is None)
                    rows = self._tables.write(ready, report.done, now_s)
                    self._pass_by(ranges, portions, only, front)
                    if only is None:
                        self._routing.done(ranges, kafka.ids)
                    return rows
                # What is for whom, and what is of before a truncate, is known now, and all of it is read again.
                self._tables.forget(ready, report.done)
                self._routing.learn(report.samples, met)
                truncates |= self._truncates(report, truncates)
                truncates |= {name: replace(truncates[name], among_others=True) for name in mixed}
            finally:
                report.close()

    def _truncates(self, report: Report, known: Mapping[str, Truncates]) -> dict[str, Truncates]:
        """Those that were found now beside those that are known, with how many partitions their topics have by now."""
        found = {}
        for name, newest in report.truncates.items():
            had = known.get(name, Truncates())
            counts = {topic: self._count(topic) for topic, _ in newest}
            if unlisted := [topic for topic, count in counts.items() if not count]:
                raise RuntimeError(f"nobody says how many partitions {unlisted[0]} has")
            others = had.among_others or report.done[name].survey.elsewhere
            found[name] = Truncates({**had.newest, **newest}, {**had.counts, **counts}, others)
        return found

    @contextmanager
    def _forgetting(self, report: Report, ready: Mapping[str, Ready]) -> Iterator[None]:
        """What fails here keeps every table from being written."""
        try:
            yield
        except BaseException:
            self._tables.forget(ready, report.done)
            raise

    def _refuse_others(self, topics: Collection[str], kafka: Kafka) -> None:
        """Refuse what was read of topics that were made again since they were looked at: nobody knows of which they are."""
        now = self._topic_ids(topics)
        others = sorted(topic for topic, one in now.items() if kafka.ids.get(topic, one) != one)
        if others:
            raise RuntimeError(f"{others[0]} was made again while it was read")

    def _refuse_lost(self, report: Report) -> None:
        """Refuse what was read of a topic that lost its newest messages after it had been read for the first time."""
        if report.lost:
            raise RuntimeError(f"a truncate of {min(report.lost)} was gone when its batch was read again")

    def _pass_by(
        self,
        ranges: Ranges,
        portions: Mapping[str, Portion],
        only: Mapping[str, str] | None,
        front: Front | None,
    ) -> None:
        """Tables that nothing was for have seen it all the same."""
        if only is not None:
            for name in set(only.values()) - portions.keys():
                mine = {one: span for one, span in ranges.items() if only[one[0]] == name}
                self._tables.pass_by(mine, [name], {})
            return
        readers = {name for topic, _ in ranges for name in self._tables.of_topic(topic)}
        self._tables.pass_by(ranges, readers - portions.keys(), front or {})

    def _portions(
        self,
        number: int,
        ranges: Ranges,
        kafka: Kafka,
        known: Callable[[str], Known | None],
        met: Collection[Named],
        only: Mapping[str, str] | None,
    ) -> dict[str, Portion]:
        """By table, what the batch may hold for it."""
        spans: dict[str, Ranges] = {}
        for position, span in ranges.items():
            spans.setdefault(position[0], {})[position] = span
        by_topic = kafka.by_topic()
        portions: dict[str, Portion] = {}
        for group, name, stream in self._routing.of(spans, met):
            if only is not None and only.get(group.topic) != name:
                continue
            self._tables.meet(name, stream, {group.topic}, known)
            portion = portions.get(name) or Portion(number, (), {}, Kafka(), self._cluster)
            is_new = group.topic not in portion.topics
            portions[name] = replace(
                portion,
                groups=(*portion.groups, group),
                ranges={**portion.ranges, **spans[group.topic]},
                kafka=portion.kafka.also(by_topic[group.topic]) if is_new else portion.kafka,
            )
        return portions


def _is_mixed(ready: Ready, done: Done) -> bool:
    """Whether a table that is to be emptied turns out to get changes of several sources."""
    return bool(ready.look.emptied.below) and done.survey.elsewhere
