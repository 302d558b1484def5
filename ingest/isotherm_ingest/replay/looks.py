"""What is read of Kafka for dead letters, and what workers make of it: as in a batch, for one table."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession

from isotherm.runtime import logs
from isotherm_ingest.batches.fan_out import Report
from isotherm_ingest.batches.routing import Named, Routing
from isotherm_ingest.plan.shares import Ranges
from isotherm_ingest.plan.topic_partition import Position
from isotherm_ingest.registry import NotKnownYetError
from isotherm_ingest.sql.text import literal
from isotherm_ingest.tables.java_table import JavaTable
from isotherm_ingest.tables.lake import TableNow
from isotherm_ingest.tables.portion import Done, Portion, Ready
from isotherm_ingest.tables.writer import TableWriter
from isotherm_ingest.workers.late import At, Late, Letters
from isotherm_ingest.workers.tasks import BatchTask

ASK_AGAIN_S = 5.0
"""A registry, for a schema that it does not know yet."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look has made. Files may be written, which no table knows."""

    ready: Ready
    done: Done
    bad: Mapping[At, str]
    """Letters that are no rows still, and why."""
    there: frozenset[At]
    """Of a changelog: letters whose rows are in the table."""
    truncates: Mapping[Position, int] = field(default_factory=dict)
    """Of each Kafka partition the last truncate of the table that was read."""


class Looks:
    """Reads for one table."""

    def __init__(
        self,
        table: str,
        spark: SparkSession,
        kafka: Mapping[str, Any],
        routing: Routing,
        writer: TableWriter,
        read: Callable[..., Report],
        rows_there: "RowsThere",
    ) -> None:
        """Nothing is read yet; `kafka` is what readers connect with."""
        self._table = table
        self._spark, self._kafka = spark, kafka
        self._routing, self._writer, self._read = routing, writer, read
        self._rows_there = rows_there

    @contextmanager
    def look(
        self, portion: Portion, letters: Letters | None = None, parts: Sequence[Ranges] = ()
    ) -> Iterator[Seen | None]:
        """Read, and have it decoded and written. None where nothing of it is the table's.

        Args:
            portion: says what is read, and which of it are letters.
            letters: what alone is looked at. None: all that came to the keys of the letters.
            parts: what is read where it is less than all of the portion.
        """
        topics, met = {topic for topic, _ in portion.ranges}, set[Named]()
        while True:
            groups = [group for group, name, _ in self._routing.of(topics, met) if name == self._table]
            ready = self._writer.prepare(replace(portion, groups=tuple(groups)))
            there = frozenset[At]()
            wanted = letters
            if isinstance(ready, Ready) and letters is not None and not ready.task.key:
                there = self._rows_there.of(ready.look.now, letters)
                wanted = without(letters, there)
            tasks = {self._table: ready.task} if isinstance(ready, Ready) else {}
            routes, problems = self._routing.told(topics, tasks)
            task = BatchTask(tasks, routes, problems, self._routing.formats(topics), wanted)
            report = self._read(self._spark, self._kafka, dict(portion.ranges), task, parts)
            try:
                if not report.samples:
                    yield self._seen(ready, report, there) if isinstance(ready, Ready) else None
                    return
                if isinstance(ready, Ready):
                    self._writer.forget(ready, report.done[self._table])
                self._learn(report, met)
            finally:
                report.close()

    def _seen(self, ready: Ready, report: Report, there: frozenset[At]) -> Seen:
        done = report.done[self._table]
        bad: dict[At, str] = {}
        if ready.portion.late is not None and ready.portion.late.keys is None:
            for some in (*report.letters(), *done.letters()):
                columns = (
                    some.column(name).to_pylist() for name in ("topic", "partition", "offset", "problem")
                )
                bad |= {
                    (topic, number, offset): why for topic, number, offset, why in zip(*columns, strict=True)
                }
        return Seen(ready, done, bad, there, report.truncates.get(self._table, {}))

    def _learn(self, report: Report, met: set[Named]) -> None:
        while True:
            try:
                self._routing.learn(report.samples, met)
            except NotKnownYetError as err:
                logs.get().warning("waiting", on="registry", error=str(err))
                threading.Event().wait(ASK_AGAIN_S)
            else:
                return


class RowsThere:
    """Which messages a changelog has as rows, asked of the table as it was looked at."""

    def __init__(self, session: Callable[[], SparkSession], target: str) -> None:
        """`target` is the table as Spark names it."""
        self._session, self._target = session, target
        self._asked: tuple[int | None, Letters, frozenset[At]] | None = None

    def of(self, now: TableNow, letters: Letters) -> frozenset[At]:
        """Those of the letters that are rows."""
        if now.head is None:
            return frozenset()
        if self._asked is not None and self._asked[:2] == (now.head, letters):
            return self._asked[2]
        table = JavaTable(self._session(), self._target, now)
        conditions = [
            f"(_topic = {literal(topic)} AND _topic_partition = {number} AND _offset IN ({', '.join(map(str, offsets))}))"
            for (topic, number), offsets in letters.items()
        ]
        rows = table.rows(None if now.is_altered else now.head).where(" OR ".join(conditions))
        found = rows.select("_topic", "_topic_partition", "_offset").distinct().toArrow()
        there = frozenset(zip(*(column.to_pylist() for column in found.columns), strict=True))
        self._asked = now.head, letters, there
        return there


def without(letters: Letters, there: frozenset[At]) -> Letters:
    """The letters that are no rows yet."""
    return {
        position: {offset: ms for offset, ms in some.items() if (*position, offset) not in there}
        for position, some in letters.items()
    }


def late_of(letters: Letters, keys: bytes | None = None) -> Late:
    """The letters, as the task of a table has them."""
    return Late({position: frozenset(some) for position, some in letters.items()}, keys)
