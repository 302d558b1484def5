"""An Iceberg table in the driver's JVM: the commit of files and deletes as one.

Iceberg's Java library is the only one that writes position deletes and deletion vectors, and whose commit is validated
from a snapshot of our choice. It is reached through PySpark's own gateway. Data files were written by the workers.
"""

import json
import struct
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from isotherm.contract.identity import PartitionKey, partition_key, scalar
from isotherm.contract.summary import INGEST_PIPELINE, INGEST_TOKEN
from isotherm.runtime import clock, logs
from isotherm_ingest.failures import CommitTooLate, TableChanged, TableRefused, brief
from isotherm_ingest.tables.lake import TableNow
from isotherm_ingest.tables.portion import File
from isotherm_ingest.tables.read_options import read_options
from isotherm_ingest.tables.refusals import refusal
from isotherm_ingest.tables.spared_files import Spared

COLUMNS = "columns_of_the_table"
"""A view of the session of the writer's thread, by which conditions on the table's columns are understood."""

TRY_FOR_S = 60.0
"""After that no further try begins: every table of the batch waits. Iceberg's own four tries pause a second and a half."""

_starting = threading.Lock()


@dataclass(frozen=True, slots=True)
class Change:
    """What one commit adds and takes away; files are Iceberg's Java objects."""

    rows: Sequence[Any] = ()
    deletes: Sequence[Any] = ()
    replaced: Sequence[Any] = ()
    """Delete files whose deletes are in `deletes` by now."""
    referenced: Sequence[str] = ()
    """Data files that must still be there: rows in them are deleted."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit came to."""

    snapshot_id: int
    """Or 0 where somebody was faster to remove it."""
    now: TableNow | None = None
    """The table as the commit left it, as far as announcing needs it; None where others have changed it meanwhile."""


class JavaTable:
    """A table, as it was loaded to be written."""

    def __init__(self, session: SparkSession, name: str, now: TableNow, try_for_s: float = TRY_FOR_S) -> None:
        """Load a table.

        Args:
            session: its catalogs are used.
            name: quoted as Spark's SQL names it.
            now: the table as it was looked at; what is written was made for that.
            try_for_s: how long a commit is tried.

        Raises:
            TableChanged: it has another schema or spec by now.
            TableRefused: it says of itself by now what it may not.
        """
        context: Any = session.sparkContext
        self._session = session
        self._is_told = False
        """Whether Spark knows the table's columns, by the view of them."""
        self.jvm: Any = context._jvm
        self.iceberg = self.jvm.org.apache.iceberg
        # Spark looks its catalogs up in the session that is active in the thread, which may be an older one.
        self.jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)
        self.table = self.iceberg.spark.Spark3Util.loadIcebergTable(session._jsparkSession, name)
        with _starting:  # the commit asks us whether the history is still the one that we know
            ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]
        self._now = now
        self._try_for_s = try_for_s
        self._mapper = self.iceberg.util.JsonUtil.mapper()
        if why := self._refusal():
            raise TableRefused(why)
        self._check_same()

    def _check_same(self) -> None:
        metadata = self._now.table.metadata
        found = self.table.schema().schemaId(), self.table.spec().specId()
        if found != (metadata.current_schema_id, metadata.default_spec_id):
            raise TableChanged(
                f"{self._now.name} has another schema or partition spec than when it was looked at"
            )

    def refresh(self) -> None:
        """Ask the catalog for the table as it is by now. Raises TableChanged: it has another schema or spec."""
        self.table.refresh()
        self._check_same()

    def has_lost_files_since(self, head: int | None) -> bool:
        """Whether a commit since a snapshot may have taken files away: each but an append, and a history without that snapshot."""
        snapshot = self.table.currentSnapshot()
        while snapshot is not None and int(snapshot.snapshotId()) != head:
            if snapshot.operation() != "append":
                return True
            parent = snapshot.parentId()
            snapshot = None if parent is None else self.table.snapshot(parent)
        return snapshot is None and head is not None

    @property
    def properties(self) -> dict[str, str]:
        """The table's properties, as Java has them now: a commit loads them again."""
        properties: dict[str, str] = json.loads(
            self._mapper.writeValueAsString(self.table.operations().current().properties())
        )
        return properties

    def _refusal(self) -> str:
        """Why the table is not written, as Java has it now."""
        return refusal(self._now, self.table.operations().current().location(), self.properties)

    @property
    def format_version(self) -> int:
        """2: position deletes. 3: deletion vectors, and rows that keep their ids."""
        return int(self.iceberg.TableUtil.formatVersion(self.table))

    def data_files(self, files: Iterable[File]) -> list[Any]:
        """Files that were written elsewhere, as Java has them."""
        # Each name of a package on the way to a class is a question to the JVM.
        parse, mapper = self.iceberg.ContentFileParser.fromJson, self.iceberg.util.JsonUtil.mapper().copy()
        features = self.iceberg.shaded.com.fasterxml.jackson.core.JsonParser.Feature
        # A partition's value may be NaN, or infinity.
        mapper.configure(features.ALLOW_NON_NUMERIC_NUMBERS, True)
        specs = self.table.specs()
        return [parse(mapper.readTree(json.dumps(file)), specs) for file in files]

    def rows(self, snapshot_id: int | None = None) -> DataFrame:
        """The rows of the table as it was loaded, or of one of its snapshots, and where each of them is.

        By its name Spark would load it from the catalog again, which takes long where its past is long.
        """
        spark, make = self.jvm.org.apache.spark.sql, self.iceberg.spark.source.SparkTable
        if snapshot_id is None:
            table = make(self.table)
        else:
            table = make.create(self.table, self.iceberg.spark.TimeTravel.version(str(snapshot_id)))
        nothing = self.jvm.scala.Option.empty()
        options = spark.util.CaseInsensitiveStringMap(read_options(self.properties))
        relation = spark.execution.datasources.v2.DataSourceV2Relation.create(
            table, nothing, nothing, options, nothing
        )
        return DataFrame(spark.classic.Dataset.ofRows(self._session._jsparkSession, relation), self._session)

    def condition(self, text: str) -> Any:
        """A condition on the table's columns, in SQL, as an expression of Iceberg."""
        if not text:
            return self.iceberg.expressions.Expressions.alwaysTrue()
        if not self._is_told:
            self.rows().createOrReplaceTempView(COLUMNS)
            self._is_told = True
        converter = self.jvm.org.apache.spark.sql.execution.datasources.SparkExpressionConverter
        resolved = converter.collectResolvedSparkExpression(self._session._jsparkSession, COLUMNS, text)
        return converter.convertToIcebergExpression(resolved)

    def close(self) -> None:
        """Let go of the view by which conditions are understood: it keeps the table, with all its snapshots."""
        if self._is_told:
            self._session.catalog.dropTempView(COLUMNS)
            self._is_told = False

    def append(self, files: Iterable[File], summary: Mapping[str, str]) -> Committed:
        """Commit files in one snapshot, if this pipeline has committed nothing since the look. Raises as `commit`."""
        nothing = self.iceberg.expressions.Expressions.alwaysFalse()
        return self.commit(Change(self.data_files(files)), nothing, summary)

    def replace_all(self, files: Iterable[File], summary: Mapping[str, str]) -> Committed:
        """Commit files in the place of all rows of the table, and of all deletes, in one snapshot. Raises as `commit`.

        Refused where, since the look, this pipeline has committed, or somebody else has added rows. What others have deleted
        meanwhile goes in any case, and what they have rewritten goes with the rest.
        """
        overwrite = self.table.newOverwrite()
        everything = self.iceberg.expressions.Expressions.alwaysTrue()
        overwrite.overwriteByRowFilter(everything)
        for file in self.data_files(files):
            overwrite.addFile(file)
        if self._now.head is not None:
            overwrite.validateFromSnapshot(self._now.head)
        overwrite.conflictDetectionFilter(everything)
        overwrite.validateNoConflictingData()
        return self._commit(overwrite, summary)

    def commit(self, change: Change, condition: Any, summary: Mapping[str, str]) -> Committed:
        """Commit a change in one snapshot, if it is still true.

        Refused where, since the look, this pipeline has committed, somebody else has added rows or deletes that the
        condition may match, or a data file is gone in which rows are deleted.

        Raises:
            CommitTooLate: others were faster, all the time; nothing was committed.
            Py4JJavaError: with `ValidationException` or `CommitFailedException` nothing was committed; with
                `CommitStateUnknownException` nobody knows.
        """
        read_at = self._now.head
        delta = self.table.newRowDelta()
        for file in change.rows:
            delta.addRows(file)
        for file in change.deletes:
            delta.addDeletes(file)
        for file in change.replaced:
            delta.removeDeletes(file)
        if read_at is not None:
            delta.validateFromSnapshot(read_at)
        delta.conflictDetectionFilter(condition)
        delta.validateNoConflictingDataFiles()
        delta.validateNoConflictingDeleteFiles()
        if change.referenced:
            delta.validateDataFilesExist(self.java_list(change.referenced))
            delta.validateDeletedFiles()
        return self._commit(delta, summary)

    def _commit(self, update: Any, summary: Mapping[str, str]) -> Committed:
        fence = Fence(self._now.head, summary.get(INGEST_PIPELINE, ""), self._refusal, self._try_for_s)
        update.validateWith(fence)
        for key, value in summary.items():
            update.set(key, value)
        spared = Spared()
        update.deleteWith(spared)
        try:
            update.commit()
        except Py4JJavaError as err:
            if fence.is_late:  # else it would be tried again, for as long as others commit
                raise CommitTooLate(
                    f"others commit to {self._now.name} so often that its own commit came too late for {self._try_for_s:g} s"
                ) from err
            raise
        self._delete(spared.paths)
        return Committed(self._id_of(summary), self._as_left())

    def _delete(self, paths: Iterable[str]) -> None:
        """Delete what attempts wrote that came to nothing, now that a later one has landed."""
        for path in paths:
            try:
                self.table.io().deleteFile(path)
            except Exception as err:  # noqa: BLE001 (whatever storage says: it stays until orphans are removed)
                logs.get().warning("file_not_deleted", table=self._now.name, path=path, error=brief(err))

    def _as_left(self) -> TableNow | None:
        """The table after our commit, if that is all that has happened to it since the look."""
        try:
            return self._left()
        except Exception as err:  # noqa: BLE001 (the commit has landed, whatever this says; the table is loaded then)
            logs.get().warning("commit_not_described", table=self._now.name, error=brief(err))
            return None

    def _left(self) -> TableNow | None:
        current = self.table.operations().current()
        before, table = current.previousFiles(), self._now.table
        if not before.size() or before.get(before.size() - 1).file() != table.metadata_location:
            return None
        head = Snapshot.model_validate_json(self.iceberg.SnapshotParser.toJson(current.currentSnapshot()))
        metadata = table.metadata.model_copy(
            update={
                "snapshots": [*table.metadata.snapshots, head],
                "current_snapshot_id": head.snapshot_id,
                "last_sequence_number": head.sequence_number,
            }
        )
        return TableNow(
            Table(table.name(), metadata, current.metadataFileLocation(), table.io, table.catalog)
        )

    def _id_of(self, summary: Mapping[str, str]) -> int:
        """The snapshot with this token; mostly the head."""
        snapshot = self.table.currentSnapshot()
        while snapshot is not None:
            if snapshot.summary().get(INGEST_TOKEN) == summary.get(INGEST_TOKEN):
                return int(snapshot.snapshotId())
            parent = snapshot.parentId()
            snapshot = None if parent is None else self.table.snapshot(parent)
        return 0

    def forget(self, files: Iterable[Any]) -> None:
        """Delete files that no commit was ever asked to add."""
        for file in files:
            self.table.io().deleteFile(file.location())

    def java_list(self, items: Iterable[Any]) -> Any:
        """A list that Java understands."""
        found = self.jvm.java.util.ArrayList()
        for item in items:
            found.add(item)
        return found


def items(java_list: Any) -> list[Any]:
    """What a Java list holds. By number: the end of an iterator is an exception, which costs PySpark 16 ms to look at."""
    return [java_list.get(place) for place in range(java_list.size())]


class Fence:
    """Refuses a commit where this pipeline has committed since a snapshot: what it would commit was read before that.

    Iceberg asks it with the ancestors of the snapshot that the commit would follow, the newest first, each time that it
    tries. So a driver that read an old vector never commits, whatever keys its rows have.
    """

    def __init__(
        self, read_at: int | None, pipeline: str, refusal: Callable[[], str], try_for_s: float
    ) -> None:
        self._read_at = read_at
        self._pipeline = pipeline
        self._refusal = refusal
        """Says why the table is not written, as it is at a try."""
        self._until_s = clock.monotonic_s() + try_for_s
        self.is_late = False
        """Whether a try came so late that it was the last."""
        self._why = ""

    def validate(self, snapshots: Any) -> bool:
        """Whether nothing of ours came after the snapshot, and its owner has said nothing that keeps it from being written."""
        self.is_late = clock.monotonic_s() > self._until_s
        self._why = "it was tried for too long" if self.is_late else self._refusal()
        if self._why:
            return False
        ancestors, seen = snapshots.iterator(), set[int]()
        while ancestors.hasNext():
            snapshot = ancestors.next()
            if snapshot.snapshotId() == self._read_at:
                return True
            if (
                snapshot.snapshotId() in seen
            ):  # its owner has written that since the look: Iceberg's walk has no end
                self._why = f"by the table's metadata, snapshot {snapshot.snapshotId()} came before itself"
                return False
            seen.add(snapshot.snapshotId())
            if snapshot.summary().get(INGEST_PIPELINE) == self._pipeline:
                self._why = (
                    f"pipeline {self._pipeline} has committed snapshot {snapshot.snapshotId()} meanwhile"
                )
                return False
        self._why = f"snapshot {self._read_at} is in the table's history no more"
        return self._read_at is None

    def errorMessage(self) -> str:  # noqa: N802 (Java's name)
        """Why it refused."""
        return self._why

    class Java:
        """What Py4J asks for."""

        implements = ("org.apache.iceberg.SnapshotAncestryValidator",)


def key_of(spec: Any, partition: Any) -> PartitionKey:
    """The partition's key, as the daemon knows it."""
    fields = spec.fields()
    return partition_key(
        {
            fields.get(place).fieldId(): scalar(_plain(partition.get(place), spec, place))
            for place in range(fields.size())
        }
    )


def _plain(value: Any, spec: Any, place: int) -> Any:
    """A partition value, as Python has it from a manifest: what is left to Java is text of Avro, or a buffer.

    Of a Java Float Py4J brings the shortest decimal, and a manifest its bytes: 0.1, and 0.10000000149011612.
    """
    if isinstance(value, float) and str(spec.partitionType().fields().get(place).type()) == "float":
        return struct.unpack("<f", struct.pack("<f", value))[0]
    if not isinstance(value, JavaObject):
        return value
    return bytes(value.array()) if hasattr(value, "array") else str(value)
