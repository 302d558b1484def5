"""What a query reads: its tables, how far they are, and which keys their new rows touch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from isotherm_ingest.decode.debezium_messages import CHANGELOG_COLUMNS
from isotherm_ingest.decode.debezium_schema import TRUNCATE
from isotherm_ingest.failures import TableRefused
from isotherm_ingest.queries.progress import Progress, SourceNow, is_circle, new_rows
from isotherm_ingest.queries.result import columns_of, is_like
from isotherm_ingest.query_config import Query
from isotherm_ingest.sql.text import quoted
from isotherm_ingest.tables.definition import FIRST_PROPERTY, MODE_PROPERTY, SOURCE_PROPERTY
from isotherm_ingest.tables.lake import PIPELINE_PROPERTY, Lake, TableNow
from isotherm_ingest.tables.offset_vector import Source

CHANGES = "changes"
"""A view of the session of the queries' thread."""
MODE = "query"
_PLACE = {
    name for name, own in CHANGELOG_COLUMNS.items() if own.field in {"op", "topic", "partition", "offset"}
}


def tokens_of(pipeline: str) -> str:
    """Whose tokens the tables of a pipeline's queries have. No pipeline can have this name, so no stream's writer takes one of them
    for its own.
    """
    return f"{pipeline}.queries"


@dataclass(frozen=True)
class Others:
    """What a query must know of the rest of its pipeline."""

    feeds: Callable[[str, str], bool]
    """Whether messages of a topic become rows of a table."""
    reached: dict[str, Progress] = field(default_factory=dict)
    """By table of a query, how far it has come, whether that was worth a commit or not."""
    reads: dict[str, frozenset[str]] = field(default_factory=dict)
    """By table of a query, the tables that it reads."""


class QueryReader:
    """Reads for one query."""

    def __init__(self, query: Query, lake: Lake, pipeline: str, others: Others) -> None:
        """Nothing is read yet."""
        self._query = query
        self._lake = lake
        self._pipeline = pipeline
        self._others = others

    def sources(self, session: SparkSession) -> list[SourceNow]:
        """The tables that the query reads, before it reads them.

        Raises:
            TableRefused: one is not there, or cannot say how far it is.
        """
        names = dict.fromkeys([*self._query.changes, *self._read_by(session)])
        self._others.reads[self._query.table] = frozenset(names)
        if is_circle(self._others.reads, self._query.table):
            raise TableRefused(f"{self._query.table} is computed from tables that are computed from it")
        found = [self._source(name) for name in names]
        topics = {
            topic
            for one in found
            if one.name in self._query.changes and one.source
            for topic in one.source.vector
        }
        return [
            replace(
                one, topics=one.topics | {topic for topic in topics if self._others.feeds(topic, one.name)}
            )
            for one in found
        ]

    def _source(self, name: str) -> SourceNow:
        now = self._lake.load(name)
        if now is None:
            raise TableRefused(f"{self._query.table} is computed from {name}, which is not there")
        pipeline = now.properties.get(PIPELINE_PROPERTY)
        if name in self._query.changes:
            self._check_changelog(name, now, pipeline)
        is_query = now.properties.get(MODE_PROPERTY) == MODE
        token = None if pipeline is None else now.token(tokens_of(pipeline) if is_query else pipeline)
        source = None if token is None or not token.is_known else token.source
        if is_query and pipeline == self._pipeline and name in self._others.reached:
            source = self._others.reached[name].source  # it may have found nothing to write
        elif pipeline is not None and source is None and (is_query or now.head is not None):
            raise TableRefused(
                f"{self._query.table} is computed from {name}, which does not say (yet) how far it is"
            )
        elif pipeline is not None and source is None:
            source = Source()
        said = {now.properties.get(one) for one in (SOURCE_PROPERTY, FIRST_PROPERTY)} - {None}
        main = {one.snapshot_id for one in now.ancestry()}
        return SourceNow(
            name,
            now.uuid,
            now.head,
            source,
            None if token is None else token.valid_through_ms,
            frozenset({*({} if source is None else source.vector), *map(str, said)}),
            frozenset(now.snapshots.keys() - main),
        )

    def _check_changelog(self, name: str, now: TableNow, pipeline: str | None) -> None:
        if not now.columns.keys() >= _PLACE:
            raise TableRefused(
                f"{self._query.table} asks for the changes of {name}, whose rows do not say where in Kafka they were: name a "
                "changelog (`mode: changelog`)"
            )
        if pipeline is None:
            raise TableRefused(
                f"{self._query.table} asks for the changes of {name}, which no ingest has made: nobody says how far it is"
            )

    def _read_by(self, session: SparkSession) -> list[str]:
        """The tables that the SQL names, without the catalog."""
        kinds = self._kinds(session)
        sql = self._query.sql_for(lambda _, name: f"CAST(NULL AS {kinds[name]})")
        plan = session.sql(f"SELECT * FROM (\n{sql}\n)")._jdf.queryExecution().analyzed()  # noqa: S608 (of the owner)
        found, plans = [], [plan]
        subqueries = plan.subqueriesAll()
        plans += [subqueries.apply(place) for place in range(subqueries.length())]
        for one in plans:
            leaves = one.collectLeaves()
            for place in range(leaves.length()):
                leaf = leaves.apply(place)
                is_table = leaf.getClass().getSimpleName() == "DataSourceV2Relation"
                if is_table and leaf.identifier().isDefined() and self._is_ours(leaf):
                    identifier = leaf.identifier().get()
                    found.append(".".join([*identifier.namespace(), identifier.name()]))
        return found

    def _is_ours(self, leaf: Any) -> bool:
        """Whether a table of a plan is of the catalog. One of another is a reference, whatever it is called."""
        return bool(leaf.catalog().isDefined()) and leaf.catalog().get().name() == self._lake.name

    def _kinds(self, session: SparkSession) -> dict[str, str]:
        """The types of the key's columns, as the first of the changes' queries gives them."""
        name, sql = next(iter(self._query.changes.items()))
        session.sql(f"SELECT * FROM {self._lake.spark_name(name)}").createOrReplaceTempView(CHANGES)  # noqa: S608 (quoted)
        kinds = {one.lower(): kind for one, kind in self._keys(session, name, sql).dtypes}
        return {one: kinds[one.lower()] for one in self._query.key}

    def columns(self, session: SparkSession) -> dict[str, str]:
        """The columns of the result, with their types. Raises TableRefused."""
        kinds = self._kinds(session)
        sql = self._query.sql_for(lambda _, name: f"CAST(NULL AS {kinds[name]})")
        result = session.sql(f"SELECT * FROM (\n{sql}\n)")  # noqa: S608 (of the owner)
        return columns_of(self._query.table, result.dtypes, self._query.key)

    def _keys(self, session: SparkSession, name: str, sql: str) -> DataFrame:
        """What a query over changes gives."""
        keys = session.sql(f"SELECT * FROM (\n{sql}\n)")  # noqa: S608 (of the owner)
        there = {one.lower() for one in keys.columns}
        if missing := [one for one in self._query.key if one.lower() not in there]:
            raise TableRefused(
                f"the query over changes of {name} has no column {missing[0]!r}, which is in the key of {self._query.table}"
            )
        return keys.select(*map(quoted, self._query.key))

    def touched(
        self,
        session: SparkSession,
        since: Progress,
        sources: list[SourceNow],
        table: TableNow | None,
        columns: Mapping[str, str],
        *,
        anew: bool,
    ) -> DataFrame:
        """The keys that changes touch, in the types of the result.

        Args:
            session: of the thread.
            since: what the query has seen.
            sources: the tables that it reads.
            table: its own, as it is.
            columns: of the result.
            anew: whether all rows that it has are touched, too. A truncate of a source touches them in any case: it names no key.
        """
        kinds = {name.lower(): kind for name, kind in columns.items()}
        wanted = {name: kinds[name.lower()] for name in self._query.key}
        found: list[DataFrame] = []
        for one in sources:
            sql = self._query.changes.get(one.name)
            condition = None if sql is None or one.source is None else new_rows(since, one.source)
            if sql is None or condition is None:
                continue
            rows = session.sql(f"SELECT * FROM {self._lake.spark_name(one.name)} WHERE {condition}")  # noqa: S608 (quoted)
            rows.createOrReplaceTempView(CHANGES)
            keys = self._keys(session, one.name, sql)
            self._check_kinds(one.name, keys, wanted)
            found.append(_cast(keys, wanted))
            anew = anew or bool(rows.where(f"`_op` = '{TRUNCATE}'").head(1))
        if anew and table is not None and table.head is not None:
            own = session.sql(f"SELECT * FROM {self._lake.spark_name(self._query.table)}")  # noqa: S608 (quoted)
            found.append(_cast(own, wanted))
        if not found:
            empty = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in wanted.items())
            found = [session.sql(f"SELECT {empty} WHERE false")]
        there = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in wanted)
        touched = reduce(DataFrame.unionByName, found).where(there).distinct()
        return touched.persist(StorageLevel.MEMORY_AND_DISK)

    def _check_kinds(self, name: str, keys: DataFrame, wanted: Mapping[str, str]) -> None:
        """Refuse keys that would name other rows than those of the result once they are cast."""
        for (one, kind), want in zip(keys.dtypes, wanted.values(), strict=True):
            if not is_like(kind, want):
                raise TableRefused(
                    f"the query over changes of {name} gives {one!r} as {kind.upper()}, and that of {self._query.table} as {want}: "
                    "CAST one of them"
                )


def _cast(rows: DataFrame, wanted: Mapping[str, str]) -> DataFrame:
    return rows.selectExpr(
        *(f"CAST({quoted(name)} AS {kind}) AS {quoted(name)}" for name, kind in wanted.items())
    )
