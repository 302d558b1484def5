"""A mirror's rows, put in the place of those that the table has: located by their keys, and committed as one change.

The newest change of each key is kept for the length of the write. The table is read as it was when its vector was read,
so that what is found and the vector are of one moment; the commit is refused where that moment has passed. Every attempt
begins from the table as it then is. docs/designs/upsert.md says why this is no MERGE.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from isotherm.contract.identity import PartitionKey
from isotherm_ingest.sql import mirror
from isotherm_ingest.sql.partitions import is_time, partition_value
from isotherm_ingest.sql.text import quoted
from isotherm_ingest.tables.delete_files import DeletedRows, DeleteFiles, deleted_rows
from isotherm_ingest.tables.java_table import Change, JavaTable, key_of
from isotherm_ingest.tables.lake import Lake
from isotherm_ingest.tables.portion import Prepared
from isotherm_ingest.tables.preparing import SMALL

MAX_BROADCAST = 500_000
"""Keys that every task holds in memory, some 50 MB. Above it, which a first snapshot may reach, both sides are shuffled."""

NEWEST, LOCATED = "newest_changes", "located_rows"
"""Views of the writer's own session."""


@dataclass(frozen=True, slots=True)
class Located:
    """Where the rows of the keys are, in the table as it was when its vector was read."""

    deleted: tuple[DeletedRows, ...]
    partitions: frozenset[PartitionKey]


class Upsert:
    """One attempt to write a mirror's rows."""

    def __init__(self, session: SparkSession, lake: Lake, prepared: Prepared) -> None:
        """Reduce the rows to the newest change of each key; `close` lets go of them."""
        self._session = session
        self._lake = lake
        self._prepared = prepared
        self._now = prepared.now
        self._kept: list[DataFrame] = []
        self._java = JavaTable(session, lake.spark_name(prepared.now.name))
        self._keep(
            mirror.newest_sql(prepared.view, list(prepared.columns), prepared.key, prepared.may_keep),
            NEWEST,
        )
        self._reach = self._look()
        self._old = prepared.may_keep if self._reach.keeping else ()
        self._has_ids = self._java.format_version >= 3
        if self._has_ids:
            self._old = (*self._old, mirror.ROW_ID)

    def close(self) -> None:
        """Let go of what was kept in memory."""
        for frame in self._kept:
            frame.unpersist()

    def locate(self) -> Located:
        """Find the rows of the keys."""
        head = self._now.head
        if head is None:
            return Located((), frozenset())
        target = self._lake.spark_name(self._now.name)
        if not self._now.is_altered:
            # Else Iceberg cannot filter that snapshot by columns that were renamed. What came since is no harm: the
            # commit is validated from the head all the same.
            target += f" VERSION AS OF {head}"
        found = mirror.locate_sql(
            target,
            NEWEST,
            self._prepared.key,
            self._reach.condition,
            self._old,
            is_broadcast=self._reach.keys <= MAX_BROADCAST,
        )
        if self._old:
            self._keep(found, LOCATED)
            found = LOCATED
        else:
            found = f"({found})"
        files: Any = self._session.sql(mirror.positions_sql(found))
        deleted = tuple(deleted_rows(self._java, files._jdf.collectAsList()))
        return Located(deleted, frozenset(one.key for one in deleted))

    def write(
        self, located: Located, summary: Mapping[str, str], say: Callable[[frozenset[PartitionKey]], None]
    ) -> None:
        """Write the files and commit them, with the summary.

        Args:
            located: where the rows are.
            summary: of the snapshot.
            say: called before the commit, with every partition that it touches.

        Raises:
            Exception: Spark's or Iceberg's; what was written is deleted if no commit was asked for, and stays otherwise.
        """
        rows: list[Any] = []
        change = Change()
        try:
            condition = self._java.condition(self._reach.condition)
            rows = self._write_rows(is_located=bool(located.deleted))
            if located.deleted and self._now.head is not None:
                where = self._java.condition("") if self._now.is_altered else condition
                change = DeleteFiles(self._java).write(located.deleted, self._now.head, where)
            say(located.partitions | {self._key_of(file) for file in rows})
        except BaseException:
            self._java.forget([*rows, *change.deletes])
            raise
        self._java.commit(
            Change(rows, change.deletes, change.replaced, change.referenced),
            self._now.head,
            condition,
            summary,
        )

    def _look(self) -> mirror.Reach:
        prepared = self._prepared
        types = self._now.columns
        told = {
            name: types[name]
            for name in prepared.key
            if mirror.can_be_told(types[name]) and not self._now.has_uuids(name)
        }
        is_few = prepared.survey.rows <= mirror.FEW
        fields = [
            (field, told[field.column])
            for field in self._now.spec
            if not is_few and field.column in told and is_time(field, told[field.column])
        ]
        sql = mirror.keys_sql(NEWEST, list(told), fields, self._lake.name, is_few=is_few)
        (found,) = self._session.sql(sql).collect()
        return mirror.reach_of(found.asDict(), told, fields, is_few=is_few)

    def _write_rows(self, *, is_located: bool) -> list[Any]:
        if not self._reach.rows:
            return []
        rows = self._session.sql(
            mirror.rows_sql(
                NEWEST,
                LOCATED if is_located and self._old else None,
                self._now.columns,
                self._prepared.key,
                self._old,
                has_ids=self._has_ids,
            )
        )
        partitions = self._partition_values()
        if self._reach.rows <= SMALL:
            rows = rows.coalesce(1)
        elif partitions:
            rows = rows.repartition(*map(expr, partitions))
        # By key within a partition: then the bounds of files and row groups tell which of them to look at.
        order = [*(partitions or ()), *(quoted(name) for name in self._prepared.key)]
        return self._java.write_rows(
            rows.sortWithinPartitions(*map(expr, order)), is_clustered=partitions is not None
        )

    def _partition_values(self) -> list[str] | None:
        """SQL of the partition of a row; None where a transform is unknown here."""
        try:
            return [partition_value(field, quoted(field.column), self._lake.name) for field in self._now.spec]
        except KeyError:
            return None

    def _key_of(self, file: Any) -> PartitionKey:
        return key_of(self._java.table.specs().get(file.specId()), file.partition())

    def _keep(self, sql: str, view: str) -> None:
        frame = self._session.sql(sql).persist(StorageLevel.MEMORY_AND_DISK)
        self._kept.append(frame)
        frame.createOrReplaceTempView(view)
