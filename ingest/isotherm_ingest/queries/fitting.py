"""The table of a query: made for its result, altered where it must be, and refused where it is another one's."""

from collections.abc import Mapping

from pyspark.sql import SparkSession

from isotherm.runtime import logs
from isotherm_ingest.failures import TableRefused, brief, is_refused
from isotherm_ingest.queries.reading import MODE
from isotherm_ingest.queries.result import changes_of
from isotherm_ingest.query_config import Query
from isotherm_ingest.sql.text import literal
from isotherm_ingest.tables.definition import KEY_PROPERTY, MODE_PROPERTY
from isotherm_ingest.tables.lake import PIPELINE_PROPERTY, Lake, TableNow, create_statements
from isotherm_ingest.tables.refusals import must_be_written

PROPERTIES = {"format-version": "2", "write.delete.granularity": "file"}


class QueryFit:
    """Of one query."""

    def __init__(self, query: Query, lake: Lake, pipeline: str) -> None:
        """Nothing is read yet."""
        self._query = query
        self._lake = lake
        self._target = lake.spark_name(query.table)
        self._said = {
            PIPELINE_PROPERTY: pipeline,
            MODE_PROPERTY: MODE,
            KEY_PROPERTY: "[" + ", ".join(f'"{name}"' for name in query.key) + "]",
        }
        self._log = logs.get().bind(table=query.table)

    def check(self, now: TableNow | None) -> None:
        """Refuse a table whose rows are not those of this query, or are told apart by something else.

        Raises:
            TableRefused: a person must look.
        """
        name, anew = self._query.table, "drop the table to have it computed anew"
        if now is None:
            return
        for key in (PIPELINE_PROPERTY, MODE_PROPERTY):
            if now.properties.get(key, self._said[key]) != self._said[key]:
                raise TableRefused(
                    f"{name} is another's ({key} is {now.properties[key]!r}), and a query would delete its rows: give it another table"
                )
        if now.head is None:
            return
        if MODE_PROPERTY not in now.properties:
            raise TableRefused(
                f"{name} has rows of somebody else, which a query would delete: give it another table"
            )
        kept = now.properties.get(KEY_PROPERTY, "").lower()
        if kept != self._said[KEY_PROPERTY].lower():
            raise TableRefused(
                f"{name} is kept by {kept}, and its query now says {self._said[KEY_PROPERTY]}: {anew}"
            )
        there = {column.lower() for column in now.columns}
        if gone := [one for one in self._query.key if one.lower() not in there]:
            raise TableRefused(
                f"{name} has rows, and no column {gone[0]!r} any more, which tells them apart: give it its name again, or {anew}"
            )

    def fitted(
        self, session: SparkSession, now: TableNow | None, columns: Mapping[str, str], *, may_add: bool
    ) -> TableNow:
        """The table, made where there is none, with the columns of the result.

        Args:
            session: of the thread.
            now: the table.
            columns: of the result, with their types.
            may_add: whether the query is another one than that of the rows. Otherwise a column that is missing was renamed or
                dropped by somebody, and a new one would be null in all rows that are not touched.

        Raises:
            TableRefused: a person must look.
        """
        if now is None:
            return self._made(session, columns)
        must_be_written(now)
        there = {column.lower() for column in now.columns}
        missing = [name for name in columns if name.lower() not in there]
        if missing and not may_add:
            raise TableRefused(
                f"{self._query.table} has no column {missing[0]!r} any more, which its query gives: give it its name again, or drop "
                "the table to have it computed anew"
            )
        changes = changes_of(self._query.table, now.columns, columns)
        if unsaid := {key: value for key, value in self._said.items() if key not in now.properties}:
            told = ", ".join(f"{literal(key)}={literal(value)}" for key, value in unsaid.items())
            changes.append(f"SET TBLPROPERTIES ({told})")
        for change in changes:
            try:
                session.sql(f"ALTER TABLE {self._target} {change}")
            except Exception as err:
                if not is_refused(err):
                    raise
                raise TableRefused(f"{self._query.table} refuses {change}: {brief(err)}") from err
            self._log.info("table_altered", change=change)
        return self.loaded() if changes else now

    def _made(self, session: SparkSession, columns: Mapping[str, str]) -> TableNow:
        for field in self._query.spec:
            if field.column not in columns:
                raise TableRefused(
                    f"partition_by names {field.column!r}, which {self._query.table} does not have: {sorted(columns)}"
                )
        properties = {**PROPERTIES, **self._query.properties, **self._said}
        spec = self._query.partition_by
        for statement in create_statements(self._lake, self._query.table, columns, spec, properties):
            session.sql(statement)
        self._log.info("table_created", columns=len(columns), partition_by=", ".join(spec))
        return self.loaded()

    def loaded(self) -> TableNow:
        """The table, which must be there. Raises TableRefused."""
        now = self._lake.load(self._query.table)
        if now is None:
            raise TableRefused(f"table {self._query.table} was dropped while it was written")
        return now
