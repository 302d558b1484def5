"""The table of one query: what changes touch is computed by Spark, and put in the place of what was there.

The order is the promise. Read how far the sources are; find the keys that their new rows touch; compute these rows from the
tables, and write files; send them on, where that is asked for; find the old rows of the keys, and say the intent; commit rows
and progress in one snapshot. What is repeated, or computed from newer tables, is the same or newer, and its progress says
no more than it has.
"""

from collections.abc import Callable

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from isotherm.contract.summary import INGEST_PIPELINE, INGEST_TOKEN
from isotherm.runtime import clock, logs
from isotherm_ingest.announce.outbox import Outbox
from isotherm_ingest.failures import TableRefused, WorkFailed
from isotherm_ingest.queries.committing import Target, commit, write
from isotherm_ingest.queries.emitting import Emitter
from isotherm_ingest.queries.fitting import QueryFit
from isotherm_ingest.queries.progress import (
    Progress,
    SourceNow,
    progress,
    reached_ms,
    rows_sql,
    said,
    topic_of_two,
    why_anew,
)
from isotherm_ingest.queries.reading import CHANGES, MODE, Others, QueryReader, tokens_of
from isotherm_ingest.query_config import Query
from isotherm_ingest.sql import key_conditions
from isotherm_ingest.sql.text import literal, quoted
from isotherm_ingest.tables import offset_vector
from isotherm_ingest.tables.lake import TableNow, summary_of
from isotherm_ingest.tables.sessions import Sessions
from isotherm_ingest.tables.tools import Tools

TOUCHED = "touched"
"""A view of the session of the queries' thread."""


class QueryTable:
    """One query, by one thread."""

    def __init__(
        self,
        query: Query,
        sessions: Sessions,
        tools: Tools,
        outbox: Outbox,
        others: Others,
        emitter: Emitter | None,
    ) -> None:
        """Nothing is read before `turn`.

        Args:
            query: what is computed.
            sessions: of the threads.
            tools: what every writer uses.
            outbox: told of each commit.
            others: what is known of the rest of the pipeline.
            emitter: sends rows on, where the query says so.
        """
        self.query = query
        self._sessions = sessions
        self._tools = tools
        self._outbox = outbox
        self._others = others
        self._emitter = emitter
        self._reader = QueryReader(query, tools.lake, tools.pipeline, others)
        self._fit = QueryFit(query, tools.lake, tools.pipeline)
        self._target = tools.lake.spark_name(query.table)
        self._seen: tuple[Progress | None, Progress] | None = None
        """What the table said, and how far was looked since without a row to write."""
        self._log = logs.get().bind(table=query.table)

    def turn(self) -> bool:
        """Compute what is new; gives whether anything was committed.

        Raises:
            TableRefused: a person must look.
            Exception: Spark's, the catalog's or Kafka's; nothing, or everything, was committed.
        """
        session = self._sessions.own
        session.catalog.setCurrentCatalog(self._tools.lake.name)
        try:
            return self._turn(session)
        except (AnalysisException, ParseException) as err:
            why = str(err).strip().partition("\n")[0]  # behind it comes Spark's plan
            raise TableRefused(f"the query of {self.query.table} cannot be run: {why}") from err
        finally:
            for view in (CHANGES, TOUCHED):
                session.catalog.dropTempView(view)

    def _turn(self, session: SparkSession) -> bool:
        sources = self._reader.sources(session)
        if topic := topic_of_two(sources):
            raise WorkFailed(
                f"topic {topic} was made again, and not all tables of {self.query.table} are of the new one yet"
            )
        now = self._tools.lake.load(self.query.table)
        self._fit.check(now)
        told = self._said(now)
        was = self._seen[1] if self._seen is not None and self._seen[0] == told else told
        reached = progress(self.query, sources)
        why = why_anew(was, reached, sources)
        is_written = False
        if why or was is None or was.source.vector != reached.source.vector:
            if why and now is not None and now.head is not None:
                self._log.warning("query_computed_anew", why=why)
            is_written = self._computed(
                session, sources, now, told, Progress() if why or was is None else was, reached
            )
            self._seen = None if is_written else (told, reached)
        self._others.reached[self.query.table] = reached
        final_ms = reached_ms(self.query, sources)
        if self._emitter is not None and final_ms is not None:
            self._emitter.final(session, self._target, told, final_ms)
        return is_written

    def _said(self, now: TableNow | None) -> Progress | None:
        """What the table's newest token says; None where it has none."""
        for summary in map(summary_of, now.ancestry()) if now is not None else ():
            if summary.get(INGEST_PIPELINE) == tokens_of(self._tools.pipeline) and INGEST_TOKEN in summary:
                return said(offset_vector.decode(summary[INGEST_TOKEN]), summary)
        return None

    def _computed(
        self,
        session: SparkSession,
        sources: list[SourceNow],
        now: TableNow | None,
        told: Progress | None,
        since: Progress,
        reached: Progress,
    ) -> bool:
        """Compute what was touched since; gives whether anything was committed."""
        columns = self._reader.columns(session)
        now = self._fit.fitted(session, now, columns, may_add=told is None or told.query != reached.query)
        touched = self._reader.touched(session, since, sources, now, columns, anew=since == Progress())
        touched.createOrReplaceTempView(TOUCHED)
        try:
            sql = self.query.sql_for(self._ends(touched))
            key = now.named(self.query.key)
            typed = ", ".join(
                f"CAST({quoted(name)} AS {now.columns[own]}) AS {quoted(own)}"
                for name, own in zip(self.query.key, key, strict=True)
            )
            keys = session.sql(f"SELECT DISTINCT {typed} FROM {TOUCHED}").toArrow()  # noqa: S608 (quoted)
            if not keys.num_rows:
                return False
            hidden = [name for name in key if now.hides(name)]
            reach = key_conditions.reach_of(keys, now.columns, (), hidden).condition
            rows = session.sql(rows_sql(sql, self.query.key, now.columns, columns, TOUCHED, reach))
            return self._written(rows, keys, Target(now, key), told, reached)
        finally:
            touched.unpersist()

    def _ends(self, touched: DataFrame) -> Callable[[str, str], str]:
        """SQL of the least and the greatest value of each column of the key."""
        kinds = dict(touched.dtypes)
        wanted = {
            (which, name): f"CAST({function}({quoted(name)}) AS STRING) AS `{which}{place}`"
            for place, name in enumerate(self.query.key)
            for which, function in (("first", "min"), ("last", "max"))
        }
        found = touched.selectExpr(*wanted.values()).collect()[0]
        values = dict(zip(wanted, found, strict=True))

        def end(which: str, name: str) -> str:
            value = values[which, name]
            return f"CAST({'NULL' if value is None else literal(value)} AS {kinds[name]})"

        return end

    def _written(
        self, rows: DataFrame, keys: pa.Table, target: Target, told: Progress | None, reached: Progress
    ) -> bool:
        started_s = clock.monotonic_s()
        if self._emitter is not None:
            rows.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            wrote = write(rows, target, keys.num_rows)
            try:
                if self._emitter is not None:
                    reached = self._emitter.changed(rows, TOUCHED, self._target, told, reached)
            except BaseException:
                wrote.forget(target)
                raise
        finally:
            rows.unpersist()
        summary = self._summary(target.now, reached)
        landed = commit(self._sessions, self._tools, target, wrote, keys, summary, lambda: self._same(target))
        if landed is None:
            return False
        self._outbox.wake(self.query.table, landed.now)
        self._tools.metrics.rows.labels(self.query.table).inc(wrote.rows)
        self._tools.metrics.commits.labels(self.query.table).inc()
        self._log.info(
            "table_committed",
            mode=MODE,
            rows=wrote.rows,
            snapshot_id=landed.snapshot_id,
            seconds=round(clock.monotonic_s() - started_s, 3),
        )
        return True

    def _same(self, target: Target) -> Target:
        """The table as it is now, for which the same files are right. Raises WorkFailed: they are not."""
        found = self._fit.loaded()
        mine, other = target.now.table.metadata, found.table.metadata
        same = (
            target.now.uuid == found.uuid
            and mine.current_schema_id == other.current_schema_id
            and mine.default_spec_id == other.default_spec_id
            and self._said(found) == self._said(target.now)
        )
        if not same:
            raise WorkFailed(f"{self.query.table} is another one than when it was looked at")
        return Target(found, target.key)

    def _summary(self, now: TableNow, reached: Progress) -> dict[str, str]:
        return {
            offset_vector.TOKEN_VERSION: "1",
            INGEST_PIPELINE: tokens_of(self._tools.pipeline),
            INGEST_TOKEN: offset_vector.encode(reached.source),
            offset_vector.TOKEN_TABLE: now.uuid,
            **reached.summary(),
        }
