"""All queries of a pipeline: one after the other, beside the batches, each as often as it says."""

import logging
import threading
from collections.abc import Mapping

from pyspark.sql import SparkSession

from isotherm.runtime import clock, logs
from isotherm_ingest.announce.outbox import Outbox
from isotherm_ingest.failures import TableRefused, brief
from isotherm_ingest.kafka import Broker
from isotherm_ingest.plan.retries import pause_s
from isotherm_ingest.queries.emitting import Emitter
from isotherm_ingest.queries.query_table import QueryTable
from isotherm_ingest.queries.reading import Others
from isotherm_ingest.span import seconds
from isotherm_ingest.streams import StreamsConfig
from isotherm_ingest.tables.sessions import Sessions
from isotherm_ingest.tables.tools import Tools
from isotherm_ingest.tables.upsert import SMALL_CONF
from isotherm_ingest.threads import context

LONGEST_PAUSE_S = 5.0


def feeds(config: StreamsConfig, topic: str, table: str) -> bool:
    """Whether it is sure that messages of a topic become rows of a table: its stream has no other one."""
    stream = config.stream_of(topic)
    return stream is not None and any(one.table == table for one in stream.per_table)


class Queries:
    """One thread, and its session of Spark. What befalls one query is its own."""

    def __init__(
        self, config: StreamsConfig, spark: SparkSession, tools: Tools, outbox: Outbox, broker: Broker
    ) -> None:
        """Nothing is read before `turn`, or `start`."""
        # Of SQL that cannot be run PySpark writes Java's whole stack, again at each try; `query_failed` says what is wrong.
        logging.getLogger("SQLQueryContextLogger").disabled = True
        self._sessions = Sessions(spark)
        self._conf: dict[str, str | None] = {}
        others = Others(lambda topic, table: feeds(config, topic, table))
        self._tables = [
            QueryTable(
                one,
                self._sessions,
                tools,
                outbox,
                others,
                None if one.emit is None else Emitter(one.emit, one.table, one.key, broker),
            )
            for one in config.queries
        ]
        self._every_s = {one.table: seconds(one.every or config.every) for one in config.queries}
        self._due_s = dict.fromkeys(self._every_s, float("-inf"))
        self._failures = dict.fromkeys(self._every_s, 0)
        self._metrics = tools.metrics
        self._done = threading.Event()
        self._context = context()
        self._thread = threading.Thread(target=self._run, name="queries", daemon=True)

    def start(self) -> None:
        """Turn until `stop`."""
        if self._tables:
            self._thread.start()

    def stop(self) -> None:
        """End, after the query in progress."""
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def failures(self) -> Mapping[str, int]:
        """By table, how often it has failed in a row."""
        return self._failures

    def turn(self, now_s: float) -> bool:
        """Each query that is due; gives whether anything was committed."""
        is_written = False
        for table in self._tables:
            name = table.query.table
            if now_s < self._due_s[name] or self._done.is_set():
                continue
            try:
                self._begin_again()
                is_written = table.turn() or is_written
            except Exception as err:  # noqa: BLE001 (isolated here, told, and tried again)
                self._failed(name, err, now_s)
                continue
            if self._failures[name]:
                logs.get().info("table_recovered", table=name, after=self._failures[name])
            self._failures[name] = 0
            self._metrics.quarantined.labels(name).set(0)
            self._due_s[name] = now_s + self._every_s[name]
        return is_written

    def _begin_again(self) -> None:
        """Give the session its settings back: an upsert into a small table has its own, by which no large query should run."""
        conf = self._sessions.own.conf
        if not self._conf:
            self._conf = {name: conf.get(name, None) for name in SMALL_CONF}
        for name, value in self._conf.items():
            if value is None:
                conf.unset(name)
            else:
                conf.set(name, value)

    def _failed(self, name: str, err: Exception, now_s: float) -> None:
        self._failures[name] += 1
        wait_s = max(pause_s(self._failures[name]), self._every_s[name])
        self._due_s[name] = now_s + wait_s
        self._metrics.quarantined.labels(name).set(1)
        self._metrics.batches_failed.inc()
        logs.get().error(
            "query_failed",
            table=name,
            attempts=self._failures[name],
            retry_in_s=wait_s,
            error=brief(err),
            refused=isinstance(err, TableRefused),
        )

    def _run(self) -> None:
        self._context()
        while not self._done.is_set():
            self.turn(clock.monotonic_s())
            soon = min(self._due_s.values()) - clock.monotonic_s()
            self._done.wait(min(max(soon, 0.0), LONGEST_PAUSE_S))
