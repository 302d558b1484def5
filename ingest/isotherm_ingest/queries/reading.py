"""What a query reads: its tables, how far they are, and which keys their new rows touch."""

from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from isotherm_ingest.decode.debezium_messages import CHANGELOG_COLUMNS
from isotherm_ingest.decode.debezium_schema import TRUNCATE
from isotherm_ingest.failures import TableRefused
from isotherm_ingest.queries.progress import Progress, SourceNow, new_rows
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


class QueryReader:
    """Reads for one query."""

    def __init__(self, query: Query, lake: Lake, pipeline: str) -> None:
        self._query = query
        self._lake = lake
        self._pipeline = pipeline

    def sources(self, session: SparkSession) -> list[SourceNow]:
        """The tables that the query reads, before it reads them.

        Raises:
            TableRefused: one is not there, or cannot say how far it is.
        """
        names = dict.fromkeys([*self._query.changes, *self._read_by(session)])
        return [self._source(name) for name in names]

    def _source(self, name: str) -> SourceNow:
        now = self._lake.load(name)
        if now is None:
            raise TableRefused(f"{self._query.table} is computed from {name}, which is not there")
        if name in self._query.changes and not now.columns.keys() >= _PLACE:
            raise TableRefused(
                f"{self._query.table} asks for the changes of {name}, whose rows do not say where in Kafka they were: name a "
                "changelog (`mode: changelog`)"
            )
        pipeline = now.properties.get(PIPELINE_PROPERTY)
        is_query = now.properties.get(MODE_PROPERTY) == MODE
        token = None if pipeline is None else now.token(tokens_of(pipeline) if is_query else pipeline)
        if pipeline is not None and now.head is not None and (token is None or not token.is_known):
            raise TableRefused(
                f"{self._query.table} is computed from {name}, which does not say how far it is"
            )
        if name in self._query.changes and pipeline is None:
            raise TableRefused(
                f"{self._query.table} asks for the changes of {name}, which no ingest has made: nobody says how far it is"
            )
        said = {now.properties.get(one) for one in (SOURCE_PROPERTY, FIRST_PROPERTY)} - {None}
        vector = {} if token is None else token.source.vector
        main = {one.snapshot_id for one in now.ancestry()}
        return SourceNow(
            name,
            now.uuid,
            now.head,
            None if pipeline is None else (Source() if token is None else token.source),
            None if token is None else token.valid_through_ms,
            frozenset({*vector, *map(str, said)}),
            frozenset(now.snapshots.keys() - main),
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
                if (
                    leaf.getClass().getSimpleName() == "DataSourceV2Relation"
                    and leaf.identifier().isDefined()
                ):
                    identifier = leaf.identifier().get()
                    found.append(".".join([*identifier.namespace(), identifier.name()]))
        return found

    def _kinds(self, session: SparkSession) -> dict[str, str]:
        """The types of the key's columns, as the first of the changes' queries gives them."""
        name, sql = next(iter(self._query.changes.items()))
        session.sql(f"SELECT * FROM {self._lake.spark_name(name)}").createOrReplaceTempView(CHANGES)  # noqa: S608 (quoted)
        return dict(self._keys(session, name, sql).dtypes)

    def _keys(self, session: SparkSession, name: str, sql: str) -> DataFrame:
        """What a query over changes gives."""
        keys = session.sql(f"SELECT * FROM (\n{sql}\n)")  # noqa: S608 (of the owner)
        if missing := [one for one in self._query.key if one not in keys.columns]:
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
        *,
        anew: bool,
    ) -> DataFrame:
        """The keys that changes touch.

        Args:
            session: of the thread.
            since: what the query has seen.
            sources: the tables that it reads.
            table: its own, as it is.
            anew: whether all rows that it has are touched, too. A truncate of a source touches them in any case: it names no key.
        """
        key = [quoted(name) for name in self._query.key]
        found: list[DataFrame] = []
        for one in sources:
            sql = self._query.changes.get(one.name)
            condition = None if sql is None or one.source is None else new_rows(since, one.source)
            if sql is None or condition is None:
                continue
            rows = session.sql(f"SELECT * FROM {self._lake.spark_name(one.name)} WHERE {condition}")  # noqa: S608 (quoted)
            rows.createOrReplaceTempView(CHANGES)
            found.append(self._keys(session, one.name, sql))
            anew = anew or bool(rows.where(f"`_op` = '{TRUNCATE}'").head(1))
        if anew and table is not None and set(self._query.key) <= table.columns.keys():
            found.append(
                session.sql(f"SELECT {', '.join(key)} FROM {self._lake.spark_name(self._query.table)}")  # noqa: S608 (quoted)
            )
        if not found:
            empty = ", ".join(f"CAST(NULL AS STRING) AS {name}" for name in key)
            found = [session.sql(f"SELECT {empty} WHERE false")]
        there = " AND ".join(f"{name} IS NOT NULL" for name in key)
        touched = reduce(DataFrame.unionByName, found).where(there).distinct()
        return touched.persist(StorageLevel.MEMORY_AND_DISK)
