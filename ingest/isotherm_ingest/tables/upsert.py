"""A mirror's rows, put in the place of those that the table has: located by their keys, and committed as one change.

The table is read as it was when its vector was read, so that what is found and the vector are of one moment; the commit
is refused where that moment has passed. Every attempt begins from the table as it then is. docs/designs/upsert.md says
why this is no MERGE.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.transforms import DayTransform, HourTransform, MonthTransform, Transform, YearTransform
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast

from isotherm.contract.identity import PartitionKey
from isotherm_ingest.sql import key_conditions
from isotherm_ingest.sql.partitions import is_time
from isotherm_ingest.tables.delete_files import DeletedRows, DeleteFiles, deleted_rows
from isotherm_ingest.tables.java_table import Change, Committed, JavaTable, key_of
from isotherm_ingest.tables.lake import Lake, SpecField, TableNow
from isotherm_ingest.tables.portion import Done
from isotherm_ingest.workers.files import ROW_ID
from isotherm_ingest.workers.tasks import as_arrow

MAX_BROADCAST = 500_000
"""Keys that every task holds in memory, some 50 MB. Above it, which a first snapshot may reach, both sides are shuffled."""

LOCATED = "located_rows"
"""A view of the session of the writer's thread."""

SMALL_TABLE = 200_000
"""Rows of a mirror up to which it is looked through without generated code: a million rows take 0.8 CPU-seconds more."""

SMALL_CONF = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Compiling a new class for the literals of each batch takes longer than interpreting a few thousand rows."""

_TIMES: dict[str, Transform[Any, Any]] = {
    "hours": HourTransform(),
    "days": DayTransform(),
    "months": MonthTransform(),
    "years": YearTransform(),
}


@dataclass(frozen=True, slots=True)
class Located:
    """Where the rows of the keys are, in the table as it was when its vector was read."""

    deleted: tuple[DeletedRows, ...]
    partitions: frozenset[PartitionKey]


class Target(Protocol):
    """What is known of the table that is written."""

    @property
    def now(self) -> TableNow:
        """The table, as it was when what it has was read."""

    @property
    def key(self) -> tuple[str, ...]:
        """Columns that tell its rows apart."""


class Upsert:
    """One attempt to write a mirror's rows."""

    def __init__(self, session: SparkSession, lake: Lake, look: Target, done: Done) -> None:
        """`close` lets go of what it keeps in memory."""
        self._session = session
        self._now = look.now
        self._key = look.key
        self._done = done
        self._kept: list[DataFrame] = []
        self._java = JavaTable(session, lake.spark_name(look.now.name), look.now)
        if done.keys is None:
            raise ValueError(f"nothing is known of the keys of {look.now.name}")
        self._keys = done.keys
        self._reach = key_conditions.reach_of(
            self._keys,
            look.now.columns,
            times_of(look.now, self._keys),
            [name for name in look.key if look.now.hides(name)],
        )
        self._old: tuple[str, ...] = ()
        if done.fill is not None:
            self._old = tuple(name for name in look.now.columns if name in done.survey.kept)
            if self._java.format_version >= 3:
                self._old = (*self._old, ROW_ID.name)

    def close(self) -> None:
        """Let go of what was kept in memory."""
        for frame in self._kept:
            frame.unpersist()
        # A view keeps its table with it, and so each of its snapshots: 25 MiB of the heap where there are ten thousand.
        self._session.catalog.dropTempView(LOCATED)
        self._java.close()

    def is_overtaken(self) -> bool:
        """Ask the catalog whether somebody may have moved rows of the table since it was looked at, as maintenance does."""
        self._java.refresh()
        return self._java.has_lost_files_since(self._now.head)

    @cached_property
    def _rows(self) -> list[Any]:
        """The files that the workers have written, as Java has them."""
        return self._java.data_files(self._done.files)

    @property
    def row_partitions(self) -> frozenset[PartitionKey]:
        """Where rows were written: known before any is located, and mostly where the old ones are."""
        return frozenset(self._key_of(file) for file in self._rows)

    def locate(self) -> Located:
        """Find the rows of the keys."""
        head = self._now.head
        if head is None:
            return Located((), frozenset())
        self._tune()
        # Iceberg cannot filter an old snapshot by columns that were renamed since. What came since is no harm: the commit
        # is validated from the head all the same.
        rows = self._java.rows(None if self._now.is_altered else head)
        if self._reach.condition:
            rows = rows.where(self._reach.condition)
        found = rows.selectExpr(*key_conditions.wanted_sql(self._key, self._old))
        if not self._reach.is_exact:
            found = self._of_keys(found)
        if self._old:
            found = found.persist(StorageLevel.MEMORY_AND_DISK)
            self._kept.append(found)
        found.createOrReplaceTempView(LOCATED)
        files: Any = self._session.sql(key_conditions.positions_sql(LOCATED))
        deleted = tuple(deleted_rows(self._java, files._jdf.collectAsList()))
        return Located(deleted, frozenset(one.key for one in deleted))

    def write(
        self, located: Located, summary: Mapping[str, str], say: Callable[[frozenset[PartitionKey]], None]
    ) -> Committed:
        """Write what is not written yet, and commit it all, with the summary.

        Args:
            located: where the rows are.
            summary: of the snapshot.
            say: called before the commit, with every partition that it touches.

        Raises:
            Exception: Spark's or Iceberg's; what was written here is deleted if no commit was asked for, and stays otherwise.
        """
        filled: list[Any] = []
        change = Change()
        try:
            condition = self._java.condition(self._reach.condition)
            if self._done.fill is not None:
                late = self._done.fill(self._old_values(located), self._old)
                filled = self._java.data_files(late.files)
                late.check()
            if located.deleted and self._now.head is not None:
                where = self._java.condition("") if self._now.is_altered else condition
                change = DeleteFiles(self._java).write(located.deleted, self._now.head, where)
            rows = [*self._rows, *filled]
            say(located.partitions | {self._key_of(file) for file in rows})
        except BaseException:
            self._java.forget([*filled, *change.deletes])
            raise
        return self._java.commit(
            Change(rows, change.deletes, change.replaced, change.referenced), condition, summary
        )

    def _old_values(self, located: Located) -> bytes:
        """The keys that were found, with the old values that are wanted."""
        if located.deleted:
            return as_arrow(
                self._session.sql(key_conditions.old_sql(LOCATED, self._key, self._old)).toArrow()
            )
        columns = {f"k{place}": values for place, values in enumerate(self._keys.slice(0, 0).columns)}
        return as_arrow(
            pa.table({**columns, **{f"o{place}": pa.nulls(0) for place in range(len(self._old))}})
        )

    def _of_keys(self, found: DataFrame) -> DataFrame:
        """Those that have one of the keys."""
        names = [f"k{place}" for place in range(len(self._key))]
        keys = self._session.createDataFrame(self._keys.rename_columns(names))
        return found.join(broadcast(keys) if self._keys.num_rows <= MAX_BROADCAST else keys, names)

    def _tune(self) -> None:
        is_small = self._now.rows <= SMALL_TABLE
        for name, value in SMALL_CONF.items():
            if is_small:
                self._session.conf.set(name, value)
            else:
                self._session.conf.unset(name)

    def _key_of(self, file: Any) -> PartitionKey:
        return key_of(self._java.table.specs().get(file.specId()), file.partition())


def times_of(now: TableNow, keys: pa.Table) -> list[tuple[SpecField, list[int]]]:
    """The partitions of time in which the keys are, where there are too many to be named one by one."""
    found = []
    for field in now.spec if keys.num_rows > key_conditions.FEW else ():
        if field.column in keys.column_names and is_time(field, now.columns[field.column]):
            kind = now.table.schema().find_field(field.column).field_type
            values = keys.column(field.column).combine_chunks()
            ordinals = _TIMES[field.transform].pyarrow_transform(kind)(values)
            found.append((field, pc.unique(ordinals.cast(pa.int64())).to_pylist()))
    return found
