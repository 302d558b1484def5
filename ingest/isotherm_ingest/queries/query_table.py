"""The table of one query: what changes touch is computed by Spark, and put in the place of what was there.

The order is the promise. Read how far the sources are; find the keys that their new rows touch; compute these rows from the
tables, and write files; send them on, where that is asked for; find the old rows of the keys, and say the intent; commit rows
and progress in one snapshot. What is repeated, or computed from newer tables, is the same or newer, and its progress says
no more than it has.
"""

from collections.abc import Mapping

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from isotherm.contract.summary import INGEST_PIPELINE, INGEST_TOKEN
from isotherm.runtime import clock, logs
from isotherm_ingest.announce.outbox import Outbox
from isotherm_ingest.failures import TableRefused, WorkFailed, brief, is_refused
from isotherm_ingest.queries.committing import Target, commit, write
from isotherm_ingest.queries.emitting import Emitter
from isotherm_ingest.queries.progress import Progress, progress, reached_ms, rows_sql, said, why_anew
from isotherm_ingest.queries.reading import CHANGES, MODE, QueryReader, tokens_of
from isotherm_ingest.queries.result import changes_of, columns_of
from isotherm_ingest.query_config import Query
from isotherm_ingest.sql import key_conditions
from isotherm_ingest.sql.text import literal, quoted
from isotherm_ingest.tables import offset_vector
from isotherm_ingest.tables.definition import KEY_PROPERTY, MODE_PROPERTY
from isotherm_ingest.tables.lake import PIPELINE_PROPERTY, TableNow, create_statements, summary_of
from isotherm_ingest.tables.refusals import must_be_written
from isotherm_ingest.tables.sessions import Sessions
from isotherm_ingest.tables.tools import Tools

TOUCHED = "touched"
"""A view of the session of the queries' thread."""
PROPERTIES = {"format-version": "2", "write.delete.granularity": "file"}


class QueryTable:
    """One query, by one thread."""

    def __init__(
        self,
        query: Query,
        catalog: str,
        sessions: Sessions,
        tools: Tools,
        outbox: Outbox,
        emitter: Emitter | None,
    ) -> None:
        """Nothing is read before `turn`.

        Args:
            query: what is computed.
            catalog: its name, as SQL has it.
            sessions: of the threads.
            tools: what every writer uses.
            outbox: told of each commit.
            emitter: sends rows on, where the query says so.
        """
        self.query = query
        self._catalog = catalog
        self._sessions = sessions
        self._tools = tools
        self._outbox = outbox
        self._emitter = emitter
        self._reader = QueryReader(query, tools.lake, tools.pipeline)
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
        session.catalog.setCurrentCatalog(self._catalog)
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
        now = self._tools.lake.load(self.query.table)
        told = self._said(now)
        was = self._seen[1] if self._seen is not None and self._seen[0] == told else told
        reached = progress(self.query, sources)
        final_ms = reached_ms(self.query, sources)
        why = why_anew(was, reached, sources)
        if not why and was is not None and was.source.vector == reached.source.vector:
            return False
        if why and now is not None and now.head is not None:
            self._log.warning("query_computed_anew", why=why)
        since = Progress() if why or was is None else was
        touched = self._reader.touched(session, since, sources, now, anew=bool(why))
        try:
            is_written = self._computed(session, touched, now, told, reached)
        finally:
            touched.unpersist()
        if self._emitter is not None and final_ms is not None:
            self._emitter.final(session, self._target, told, final_ms)
        self._seen = None if is_written else (told, reached)
        return is_written

    def _said(self, now: TableNow | None) -> Progress | None:
        """What the table's newest token says; None where it has none.

        Raises:
            TableRefused: it has rows of somebody else.
        """
        if now is None or now.head is None:
            return None
        for summary in map(summary_of, now.ancestry()):
            if summary.get(INGEST_PIPELINE) == tokens_of(self._tools.pipeline) and INGEST_TOKEN in summary:
                return said(offset_vector.decode(summary[INGEST_TOKEN]), summary)
        if now.properties.get(MODE_PROPERTY) != MODE:
            raise TableRefused(
                f"{self.query.table} has rows of somebody else, which a query would delete: give it another table"
            )
        return None

    def _computed(
        self,
        session: SparkSession,
        touched: DataFrame,
        now: TableNow | None,
        told: Progress | None,
        reached: Progress,
    ) -> bool:
        touched.createOrReplaceTempView(TOUCHED)
        kinds = dict(touched.dtypes)
        ends = touched.selectExpr(
            *(f"CAST({function}({quoted(name)}) AS STRING) AS {function}{place}"
              for place, name in enumerate(self.query.key) for function in ("min", "max"))
        ).collect()[0]  # fmt: skip

        def end(which: str, name: str) -> str:
            value = ends[f"{'min' if which == 'first' else 'max'}{self.query.key.index(name)}"]
            return f"CAST({'NULL' if value is None else literal(value)} AS {kinds[name]})"

        sql = self.query.sql_for(end)
        result = session.sql(f"SELECT * FROM (\n{sql}\n)")  # noqa: S608 (of the owner)
        columns = columns_of(self.query.table, result.dtypes, self.query.key)
        now = self._fitted(session, now, columns)
        must_be_written(now)
        typed = ", ".join(
            f"CAST({quoted(name)} AS {now.columns[name]}) AS {quoted(name)}" for name in self.query.key
        )
        keys = session.sql(f"SELECT DISTINCT {typed} FROM {TOUCHED}").toArrow()  # noqa: S608 (quoted)
        if not keys.num_rows:
            return False
        hidden = [name for name in self.query.key if now.hides(name)]
        reach = key_conditions.reach_of(keys, now.columns, (), hidden).condition
        rows = session.sql(rows_sql(sql, self.query.key, now.columns, columns, TOUCHED, reach))
        if self._emitter is not None:
            rows.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            return self._written(rows, keys, Target(now, self.query.key), told, reached)
        finally:
            rows.unpersist()

    def _fitted(self, session: SparkSession, now: TableNow | None, columns: Mapping[str, str]) -> TableNow:
        """The table, made where there is none, with the columns of the query."""
        if now is None:
            properties = {
                **PROPERTIES,
                **self.query.properties,
                PIPELINE_PROPERTY: self._tools.pipeline,
                MODE_PROPERTY: MODE,
                KEY_PROPERTY: "[" + ", ".join(f'"{name}"' for name in self.query.key) + "]",
            }
            for field in self.query.spec:
                if field.column not in columns:
                    raise TableRefused(
                        f"partition_by names {field.column!r}, which {self.query.table} does not have: {sorted(columns)}"
                    )
            for statement in create_statements(
                self._tools.lake, self.query.table, columns, self.query.partition_by, properties
            ):
                session.sql(statement)
            self._log.info(
                "table_created", columns=len(columns), partition_by=", ".join(self.query.partition_by)
            )
            return self._loaded()
        changes = changes_of(self.query.table, now.columns, columns)
        for change in changes:
            try:
                session.sql(f"ALTER TABLE {self._target} {change}")
            except Exception as err:
                if not is_refused(err):
                    raise
                raise TableRefused(f"{self.query.table} refuses {change}: {brief(err)}") from err
            self._log.info("table_altered", change=change)
        return self._loaded() if changes else now

    def _loaded(self) -> TableNow:
        now = self._tools.lake.load(self.query.table)
        if now is None:
            raise TableRefused(f"table {self.query.table} was dropped while it was written")
        return now

    def _written(
        self, rows: DataFrame, keys: pa.Table, target: Target, told: Progress | None, reached: Progress
    ) -> bool:
        started_s = clock.monotonic_s()
        wrote = write(rows, target, keys.num_rows)
        try:
            if self._emitter is not None:
                reached = self._emitter.changed(rows, rows.sparkSession.table(TOUCHED), told, reached)
        except BaseException:
            wrote.forget(target)
            raise
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
        found = self._loaded()
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
