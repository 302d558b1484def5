"""The table of one query: what changes touch is computed by Spark, and put in the place of what was there.

The order is the promise. Read how far the sources are; find the keys that their new rows touch; compute these rows from the
tables, and write files; find the old rows of the keys, and say the intent; commit rows and progress in one snapshot. What
is repeated, or computed from newer tables, is the same or newer, and its progress says no more than it has.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from isotherm.clients.storage import plain_properties
from isotherm.contract.identity import PartitionKey, TableId
from isotherm.contract.summary import INGEST_PIPELINE, INGEST_TOKEN
from isotherm.parquet.table_description import described
from isotherm.runtime import clock, logs
from isotherm_ingest.announce.intents import Open
from isotherm_ingest.announce.outbox import Outbox
from isotherm_ingest.failures import TableRefused, WorkFailed, brief, is_refused
from isotherm_ingest.queries.progress import Progress, SourceNow, new_rows, progress, rows_sql, said, why_anew
from isotherm_ingest.queries.result import changes_of, columns_of
from isotherm_ingest.query_config import Query
from isotherm_ingest.sql import key_conditions
from isotherm_ingest.sql.text import literal, quoted
from isotherm_ingest.tables import offset_vector
from isotherm_ingest.tables.definition import KEY_PROPERTY, MODE_PROPERTY
from isotherm_ingest.tables.java_table import Committed
from isotherm_ingest.tables.lake import PIPELINE_PROPERTY, TableNow, create_statements, summary_of
from isotherm_ingest.tables.portion import Done
from isotherm_ingest.tables.refusals import must_be_written
from isotherm_ingest.tables.sessions import Sessions
from isotherm_ingest.tables.tools import Tools
from isotherm_ingest.tables.upsert import Upsert
from isotherm_ingest.workers.rows import TWICE, rows_stage
from isotherm_ingest.workers.survey import Survey
from isotherm_ingest.workers.tasks import COUNT, ERROR, FILE, REPORT_DDL, Line, TableTask, lines_of

MODE = "query"
CHANGES, TOUCHED = "changes", "touched"
"""Views of the session of the queries' thread."""
SMALL = 5_000
"""Keys up to which rows are written by one task."""
MOST_LOOKS = 3
"""At the table before one commit, as of a writer of changes."""


class _Target(NamedTuple):
    """What an upsert must know of the table."""

    now: TableNow
    key: tuple[str, ...]


class QueryTable:
    """One query, by one thread."""

    def __init__(self, query: Query, catalog: str, sessions: Sessions, tools: Tools, outbox: Outbox) -> None:
        """Nothing is read before `turn`."""
        self.query = query
        self._catalog = catalog
        self._sessions = sessions
        self._tools = tools
        self._outbox = outbox
        self._target = tools.lake.spark_name(query.table)
        self._pipeline = f"{tools.pipeline}.queries"
        """Whose tokens the table has. No pipeline can have this name: a stream's writer takes none of them for its own."""
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
            raise TableRefused(f"the query of {self.query.table} cannot be run: {brief(err)}") from err
        finally:
            for view in (CHANGES, TOUCHED):
                session.catalog.dropTempView(view)

    def _turn(self, session: SparkSession) -> bool:
        sources = self._sources(session)
        now = self._tools.lake.load(self.query.table)
        told = self._said(now)
        was = self._seen[1] if self._seen is not None and self._seen[0] == told else told
        reached = progress(self.query, sources)
        why = why_anew(was, reached, sources)
        if not why and was is not None and was.source.vector == reached.source.vector:
            return False
        if why and now is not None and now.head is not None:
            self._log.warning("query_computed_anew", why=why)
        since = Progress() if why or was is None else was
        touched = self._touched(session, since, sources, now if why else None)
        try:
            is_written = self._computed(session, touched, now, reached)
        finally:
            touched.unpersist()
        self._seen = None if is_written else (told, reached)
        return is_written

    # What there is

    def _sources(self, session: SparkSession) -> list[SourceNow]:
        """The tables that the query reads, before it reads them."""
        names = dict.fromkeys([*self.query.changes, *self._read_by(session)])
        found = []
        for name in names:
            now = self._tools.lake.load(name)
            if now is None:
                raise TableRefused(f"{self.query.table} is computed from {name}, which is not there")
            pipeline = now.properties.get(PIPELINE_PROPERTY, self._tools.pipeline)
            token = now.token(
                f"{pipeline}.queries" if now.properties.get(MODE_PROPERTY) == MODE else pipeline
            )
            source = token.source if token is not None and token.is_known else None
            main = {one.snapshot_id for one in now.ancestry()}
            found.append(SourceNow(name, now.uuid, now.head, source, frozenset(now.snapshots.keys() - main)))
            if (
                name in self.query.changes
                and not {"_topic", "_topic_partition", "_offset"} <= now.columns.keys()
            ):
                raise TableRefused(
                    f"{self.query.table} asks for the changes of {name}, which is no changelog: its rows do not say where in Kafka "
                    "they were. Say one of `mode: changelog`"
                )
        return found

    def _read_by(self, session: SparkSession) -> list[str]:
        """The tables that the SQL names, without the catalog."""
        kinds = self._kinds(session)
        sql = self.query.sql_for(lambda _, name: f"CAST(NULL AS {kinds[name]})")
        plan = session.sql(f"SELECT * FROM (\n{sql}\n)")._jdf.queryExecution().analyzed()
        found, plans = [], [plan]
        subqueries = plan.subqueriesAll()
        plans += [subqueries.apply(place) for place in range(subqueries.length())]
        for one in plans:
            leaves = one.collectLeaves()
            for place in range(leaves.length()):
                leaf = leaves.apply(place)
                if (
                    leaf.getClass().getSimpleName() == "DataSourceV2Relation"
                    and leaf.identifier().isDefined()
                ):
                    identifier = leaf.identifier().get()
                    found.append(".".join([*identifier.namespace(), identifier.name()]))
        return found

    def _kinds(self, session: SparkSession) -> dict[str, str]:
        """The types of the key's columns, as the first of the changes' queries gives them."""
        name, sql = next(iter(self.query.changes.items()))
        session.sql(f"SELECT * FROM {self._tools.lake.spark_name(name)}").createOrReplaceTempView(CHANGES)  # noqa: S608 (quoted)
        return dict(self._keys(session, name, sql).dtypes)

    def _keys(self, session: SparkSession, name: str, sql: str) -> DataFrame:
        """What a query over changes gives."""
        keys = session.sql(f"SELECT * FROM (\n{sql}\n)")  # noqa: S608 (of the owner)
        if missing := [one for one in self.query.key if one not in keys.columns]:
            raise TableRefused(
                f"the query over changes of {name} has no column {missing[0]!r}, which is in the key of {self.query.table}"
            )
        return keys.select(*map(quoted, self.query.key))

    def _said(self, now: TableNow | None) -> Progress | None:
        """What the table's newest token says; None where it has none.

        Raises:
            TableRefused: it has rows of somebody else.
        """
        if now is None or now.head is None:
            return None
        for summary in map(summary_of, now.ancestry()):
            if summary.get(INGEST_PIPELINE) == self._pipeline and INGEST_TOKEN in summary:
                return said(offset_vector.decode(summary[INGEST_TOKEN]), summary)
        if now.properties.get(MODE_PROPERTY) != MODE:
            raise TableRefused(
                f"{self.query.table} has rows of somebody else, which a query would delete: give it another table"
            )
        return None

    # What is computed

    def _touched(
        self, session: SparkSession, since: Progress, sources: list[SourceNow], old: TableNow | None
    ) -> DataFrame:
        """The keys that changes touch; with `old` also those of all rows that the table has."""
        key = [quoted(name) for name in self.query.key]
        found: list[DataFrame] = []
        for one in sources:
            sql = self.query.changes.get(one.name)
            condition = None if sql is None or one.source is None else new_rows(since, one.source)
            if sql is None or condition is None:
                continue
            rows = session.sql(f"SELECT * FROM {self._tools.lake.spark_name(one.name)} WHERE {condition}")  # noqa: S608 (quoted)
            rows.createOrReplaceTempView(CHANGES)
            found.append(self._keys(session, one.name, sql))
        if old is not None and old.head is not None and set(self.query.key) <= old.columns.keys():
            found.append(session.sql(f"SELECT {', '.join(key)} FROM {self._target}"))  # noqa: S608 (quoted)
        if not found:
            empty = ", ".join(f"CAST(NULL AS STRING) AS {name}" for name in key)
            found = [session.sql(f"SELECT {empty} WHERE false")]
        there = " AND ".join(f"{name} IS NOT NULL" for name in key)
        touched = reduce(DataFrame.unionByName, found).where(there).distinct()
        return touched.persist(StorageLevel.MEMORY_AND_DISK)

    def _computed(
        self, session: SparkSession, touched: DataFrame, now: TableNow | None, reached: Progress
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
        return self._written(session, rows, keys, now, reached)

    def _fitted(self, session: SparkSession, now: TableNow | None, columns: Mapping[str, str]) -> TableNow:
        """The table, made where there is none, with the columns of the query."""
        if now is None:
            properties = {
                "format-version": "2",
                "write.delete.granularity": "file",
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

    # What is written

    def _written(
        self, session: SparkSession, rows: DataFrame, keys: pa.Table, now: TableNow, reached: Progress
    ) -> bool:
        started_s = clock.monotonic_s()
        task = TableTask(
            self.query.table,
            described(now.table.metadata),
            plain_properties(now.table.io),
            tuple(now.columns),
            {},
            key=self.query.key,
        )
        parts = 1 if keys.num_rows <= SMALL else int(session.sparkContext.defaultParallelism)
        told = list(
            lines_of(
                rows.repartition(parts, *map(quoted, self.query.key))
                .mapInArrow(rows_stage(task), REPORT_DDL)
                .toArrow()
                .to_batches()
            )
        )
        files = tuple(one.data() for one in told if one.kind == FILE)
        count = sum(one.data() for one in told if one.kind == COUNT)
        standing = _Standing(self._tools, TableId(now.uuid, self.query.table))
        is_asked = False
        try:
            self._check(told)
            done = Done(Survey(rows=count), files, keys)
            outcome = "failed"
            try:
                for look in range(1, MOST_LOOKS + 1):
                    upsert = Upsert(session, self._tools.lake, _Target(now, self.query.key), done)
                    try:
                        standing.name(upsert.row_partitions)
                        located = upsert.locate()
                        if standing.name(located.partitions) and look < MOST_LOOKS and upsert.is_overtaken():
                            now = self._same(now)
                            continue
                        if not files and not located.deleted:
                            outcome = "committed"
                            return False
                        is_asked = True
                        landed = upsert.write(located, self._summary(now, reached), standing.widen)
                        outcome = "committed"
                        break
                    finally:
                        upsert.close()
            finally:
                standing.close(outcome)
        finally:
            if not is_asked:
                self._forget(now, files)
        self._tell(count, landed, clock.monotonic_s() - started_s)
        return True

    def _check(self, told: Sequence[Line]) -> None:
        """Raise for what the workers could not write."""
        for one in told:
            if one.kind == TWICE:
                raise TableRefused(
                    f"the query of {self.query.table} gives several rows for one key, as for {one.data()}: group by it, or name more "
                    "columns in `key`"
                )
            if one.kind == ERROR:
                raise WorkFailed(one.data())

    def _same(self, now: TableNow) -> TableNow:
        """The table as it is now, for which the same files are right. Raises WorkFailed: they are not."""
        found = self._loaded()
        mine, other = now.table.metadata, found.table.metadata
        same = (
            now.uuid == found.uuid
            and mine.current_schema_id == other.current_schema_id
            and mine.default_spec_id == other.default_spec_id
            and self._said(found) == self._said(now)
        )
        if not same:
            raise WorkFailed(f"{self.query.table} is another one than when it was looked at")
        return found

    def _summary(self, now: TableNow, reached: Progress) -> dict[str, str]:
        return {
            offset_vector.TOKEN_VERSION: "1",
            INGEST_PIPELINE: self._pipeline,
            INGEST_TOKEN: offset_vector.encode(reached.source),
            offset_vector.TOKEN_TABLE: now.uuid,
            **reached.summary(),
        }

    def _forget(self, now: TableNow, files: tuple[Mapping[str, object], ...]) -> None:
        for one in files:
            path = str(one["file-path"])
            try:
                now.table.io.delete(path)
            except Exception as err:  # noqa: BLE001 (whatever storage says: it stays until orphans are removed)
                self._log.warning("file_not_deleted", path=path, error=brief(err))

    def _tell(self, rows: int, landed: Committed, seconds: float) -> None:
        self._outbox.wake(self.query.table, landed.now)
        self._tools.metrics.rows.labels(self.query.table).inc(rows)
        self._tools.metrics.commits.labels(self.query.table).inc()
        self._log.info(
            "table_committed", mode=MODE, rows=rows, snapshot_id=landed.snapshot_id, seconds=round(seconds, 3)
        )


class _Standing:
    """The intent of one commit."""

    def __init__(self, tools: Tools, table: TableId) -> None:
        self._intents = tools.intents
        self._table = table
        self._now: Open | None = None
        self._named: frozenset[PartitionKey] = frozenset()

    def name(self, partitions: frozenset[PartitionKey]) -> bool:
        """These partitions are touched, too. Returns whether that was not said before."""
        if partitions <= self._named:
            return False
        self._named |= partitions
        named = tuple(sorted(self._named))
        if self._now is None:
            self._now = self._intents.open(self._table, named)
        else:
            self._now = self._intents.widen(self._now, named)
        return True

    def widen(self, partitions: frozenset[PartitionKey]) -> None:
        """As `name`, for who asks no more."""
        self.name(partitions)

    def close(self, outcome: str) -> None:
        """Say how the commit ended."""
        if self._now is not None:
            self._intents.close(self._now, outcome)
