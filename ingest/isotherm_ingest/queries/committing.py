"""Rows of a query become files, and are committed in the place of those that the table has of their keys."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from isotherm.clients.storage import plain_properties
from isotherm.contract.identity import PartitionKey, TableId
from isotherm.parquet.table_description import described
from isotherm.runtime import logs
from isotherm_ingest.announce.intents import Intents, Open
from isotherm_ingest.failures import TableRefused, WorkFailed, brief
from isotherm_ingest.sql.text import quoted
from isotherm_ingest.tables.java_table import Committed
from isotherm_ingest.tables.lake import TableNow
from isotherm_ingest.tables.portion import Done, File
from isotherm_ingest.tables.sessions import Sessions
from isotherm_ingest.tables.tools import Tools
from isotherm_ingest.tables.upsert import Upsert
from isotherm_ingest.workers.rows import TWICE, rows_stage
from isotherm_ingest.workers.survey import Survey
from isotherm_ingest.workers.tasks import COUNT, ERROR, FILE, REPORT_DDL, Line, TableTask, lines_of

SMALL = 5_000
"""Keys up to which rows are written by one task."""
MOST_LOOKS = 3
"""At the table before one commit, as of a writer of changes."""


@dataclass(frozen=True, slots=True)
class Target:
    """The table, as it was looked at."""

    now: TableNow
    key: tuple[str, ...]

    @property
    def name(self) -> str:
        """`namespace.table`."""
        return self.now.name


@dataclass(frozen=True, slots=True)
class Wrote:
    """Files that no table knows yet."""

    files: tuple[File, ...]
    rows: int

    def forget(self, target: Target) -> None:
        """Delete them."""
        for one in self.files:
            try:
                target.now.table.io.delete(one["file-path"])
            except Exception as err:  # noqa: BLE001 (whatever storage says: it stays until orphans are removed)
                logs.get().warning(
                    "file_not_deleted", table=target.name, path=one["file-path"], error=brief(err)
                )


def write(rows: DataFrame, target: Target, keys: int) -> Wrote:
    """Write rows, which have the table's columns.

    Args:
        rows: what Spark computes.
        target: their table.
        keys: how many keys they have at most.

    Raises:
        TableRefused: several rows have one key.
        WorkFailed: the workers could not write them.
    """
    metadata = target.now.table.metadata
    io = plain_properties(target.now.table.io)
    task = TableTask(target.name, described(metadata), io, tuple(target.now.columns), {}, key=target.key)
    parts = 1 if keys <= SMALL else int(rows.sparkSession.sparkContext.defaultParallelism)
    spread = rows.repartition(parts, *map(quoted, target.key))
    told = list(lines_of(spread.mapInArrow(rows_stage(task), REPORT_DDL).toArrow().to_batches()))
    wrote = Wrote(
        tuple(one.data() for one in told if one.kind == FILE),
        sum(one.data() for one in told if one.kind == COUNT),
    )
    try:
        _check(told, target.name)
    except BaseException:
        wrote.forget(target)
        raise
    return wrote


def _check(told: Sequence[Line], name: str) -> None:
    for one in told:
        if one.kind == TWICE:
            raise TableRefused(
                f"the query of {name} gives several rows for one key, as for {one.data()}: group by it, or name more columns in `key`"
            )
        if one.kind == ERROR:
            raise WorkFailed(one.data())


def commit(
    sessions: Sessions,
    tools: Tools,
    target: Target,
    wrote: Wrote,
    keys: pa.Table,
    summary: Mapping[str, str],
    again: Callable[[], Target],
) -> Committed | None:
    """Commit what was written in the place of the rows that have one of the keys; None where nothing is to be changed.

    Args:
        sessions: of the calling thread.
        tools: for the catalog and intents.
        target: the table.
        wrote: its new rows. They are deleted where no commit was asked for.
        keys: of all rows that are new, changed or gone.
        summary: of the snapshot.
        again: gives the table as it is now, for which the same files are right, or raises.
    """
    standing = _Standing(tools.intents, TableId(target.now.uuid, target.name))
    done = Done(Survey(rows=wrote.rows), wrote.files, keys)
    try:
        with _closed(standing):
            for look in range(1, MOST_LOOKS + 1):
                upsert = Upsert(sessions.own, tools.lake, target, done)
                try:
                    standing.name(upsert.row_partitions)
                    located = upsert.locate()
                    is_wider = standing.name(located.partitions)
                    # What was found before the intent stood may have been moved by maintenance since.
                    if (look == 1 or is_wider) and look < MOST_LOOKS and upsert.is_overtaken():
                        target = again()
                        continue
                    if not wrote.files and not located.deleted:
                        return None
                    standing.is_asked = True
                    return upsert.write(located, summary, standing.widen)
                finally:
                    upsert.close()
        raise WorkFailed(f"{target.name} moves on too quickly")
    finally:
        if not standing.is_asked:
            wrote.forget(target)


@contextmanager
def _closed(standing: "_Standing") -> Iterator[None]:
    try:
        yield
    except BaseException:
        standing.close("failed")
        raise
    standing.close("committed")


class _Standing:
    """The intent of one commit."""

    def __init__(self, intents: Intents, table: TableId) -> None:
        self._intents = intents
        self._table = table
        self._now: Open | None = None
        self._named: frozenset[PartitionKey] = frozenset()
        self.is_asked = False
        """Whether a commit was ever asked for: files that were written may be the table's by now."""

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
