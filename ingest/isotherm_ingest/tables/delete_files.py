"""Deletes of single rows as files: position deletes (format 2) or deletion vectors (format 3), by Iceberg's writers.

With `write.delete.granularity` of `file`, and always in format 3, a data file has one file of deletes at most: what it
had before is merged into the new one. That is what Spark's MERGE does. With `partition` one file holds the deletes of a
partition, and those of before stay.
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from isotherm.contract.identity import PartitionKey
from isotherm_ingest.failures import TableRefused
from isotherm_ingest.tables.java_table import Change, JavaTable, items, key_of
from isotherm_ingest.workers.partitions import is_long

GRANULARITY = "write.delete.granularity"
FILE_IO, INPUT_FILE = "org.apache.iceberg.io.FileIO", "org.apache.iceberg.io.InputFile"
DELETE_FILE = "org.apache.iceberg.DeleteFile"


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """Rows of one data file that are deleted."""

    path: str
    spec: Any
    partition: Any
    """A Java struct of the spec's fields."""
    positions: Any
    """A Java list."""

    @property
    def key(self) -> PartitionKey:
        """The partition's key, as the daemon knows it."""
        return key_of(self.spec, self.partition)


def deleted_rows(java: JavaTable, rows: Any) -> list[DeletedRows]:
    """Take rows of Spark's apart: `_file`, `_spec_id`, `_partition` and all positions in the file."""
    iceberg = java.iceberg
    unified = iceberg.Partitioning.partitionType(java.table)
    specs = java.table.specs()
    # Each name of a package on the way to a class is a question to the JVM.
    partition_data, converter = iceberg.PartitionData, iceberg.spark.SparkValueConverter
    # A field that format 1 keeps as void is missing where its column was dropped; `_check` refuses all others.
    projection = iceberg.util.StructProjection
    projections: dict[int, Any] = {}
    found = []
    for row in items(rows):
        number = row.getInt(1)
        spec = specs.get(number)
        partition = partition_data(spec.partitionType())
        if partition.size():
            if number not in projections:
                _check(java.table, spec)
                projections[number] = projection.createAllowMissing(unified, spec.partitionType())
            values = converter.convert(unified, row.getStruct(2))
            partition = partition.copyFor(projections[number].wrap(values))
        found.append(DeletedRows(row.getString(0), spec, partition, row.getList(3)))
    return found


def _check(table: Any, spec: Any) -> None:
    """Refuse rows whose partition Spark does not tell: a delete file in another partition makes a table unreadable.

    Raises:
        TableRefused: a column by which their files are divided was dropped.
    """
    schema = table.schema()
    for field in items(spec.fields()):
        if schema.findField(field.sourceId()) is None and not field.transform().isVoid():
            raise TableRefused(
                f"rows to be changed lie in files that are divided by {field.name()}, whose column was dropped, so "
                "nobody can say in which partition; rewrite these files first (CALL system.rewrite_data_files, with the option rewrite-all)"
            )


class DeleteFiles:
    """Writes the delete files of one commit; nothing is committed here."""

    def __init__(self, java: JavaTable) -> None:
        self._java = java
        iceberg = java.iceberg
        self._has_vectors = java.format_version >= 3
        granularity = java.table.properties().get(GRANULARITY) or "file"  # as Spark has it
        self._by_file = self._has_vectors or granularity.lower() == "file"
        self._format = iceberg.FileFormat.PUFFIN if self._has_vectors else iceberg.FileFormat.PARQUET
        builder = iceberg.io.OutputFileFactory.builderFor(java.table, 0, 0).operationId(uuid.uuid4().hex)
        self._files = builder.format(self._format).suffix("deletes").build()

    def write(self, deleted: Sequence[DeletedRows], read_at: int, condition: Any) -> Change:
        """Write the deletes of some rows, all of which were found at a snapshot and fulfil a condition."""
        before = self._before(deleted, read_at, condition) if self._by_file else {}
        indexes = self._indexes(deleted, before)
        if self._has_vectors:
            results = [self._vectors(deleted, indexes)]
        else:
            groups: dict[Any, list[DeletedRows]] = {}
            for one in deleted:
                group = one.path if self._by_file else (one.spec.specId(), one.key)
                groups.setdefault(group, []).append(one)
            results = self._positions(list(groups.values()), indexes)
        return Change(
            deletes=[file for result in results for file in items(result.deleteFiles())],
            replaced=[file for result in results for file in items(result.rewrittenDeleteFiles())],
            referenced=[one.path for one in deleted],
        )

    def _before(self, deleted: Sequence[DeletedRows], read_at: int, condition: Any) -> dict[str, list[Any]]:
        """The delete files of these data files that can be merged into the new ones."""
        wanted = {one.path for one in deleted}
        table = self._java.table
        if table.snapshot(read_at).summary().get("total-delete-files") == "0":
            return {}
        positions = self._java.iceberg.FileContent.POSITION_DELETES
        is_file_scoped = self._java.iceberg.util.ContentFileUtil.isFileScoped
        found: dict[str, list[Any]] = {}
        planned = table.newScan().useSnapshot(read_at).filter(condition).planFiles()
        try:
            tasks = planned.iterator()
            while tasks.hasNext():
                task = tasks.next()
                path = task.file().location()
                if path in wanted:
                    # A vector must hold every position that is deleted in its file, whichever file said so.
                    found[path] = [
                        file
                        for file in items(task.deletes())
                        if file.content() == positions and (self._has_vectors or is_file_scoped(file))
                    ]
        finally:
            planned.close()
        return found

    def _indexes(self, deleted: Sequence[DeletedRows], before: dict[str, list[Any]]) -> Any:
        """By data file, all positions of its new delete file, as a Java function."""
        java, iceberg = self._java.jvm.java, self._java.iceberg
        indexes = java.util.HashMap()
        inputs = self._function(self._java.table.io(), FILE_IO, "newInputFile", DELETE_FILE, INPUT_FILE)
        loader = iceberg.data.BaseDeleteLoader(inputs)
        nothing_to_close = java.io.StringReader("")
        combine, index_of = iceberg.io.CloseableIterable.combine, iceberg.deletes.Deletes.toPositionIndex
        for one in deleted:
            index = index_of(combine(one.positions, nothing_to_close))
            if before.get(one.path):
                older = loader.loadPositionDeletes(self._java.java_list(before[one.path]), one.path)
                older.merge(index)
                index = older
            indexes.put(one.path, index)
        return self._function(indexes, "java.util.Map", "get", "java.lang.Object", "java.lang.Object")

    def _vectors(self, deleted: Iterable[DeletedRows], indexes: Any) -> Any:
        writer = self._java.iceberg.deletes.BaseDVFileWriter(self._files, indexes)
        for one in deleted:
            writer.delete(one.path, one.positions.get(0), one.spec, one.partition)
        writer.close()
        return writer.result()

    def _positions(self, groups: Sequence[Sequence[DeletedRows]], indexes: Any) -> list[Any]:
        """A delete file of each group. Each data file is named once; its positions are what the index says."""
        iceberg = self._java.iceberg
        builder = iceberg.formats.FormatModelRegistry.positionDeleteWriteBuilder
        metrics = iceberg.MetricsConfig.forPositionDelete()
        deletes = iceberg.deletes
        new_writer, new_delete = deletes.SortingPositionOnlyDeleteWriter, deletes.PositionDelete.create
        granularity = deletes.DeleteGranularity.FILE if self._by_file else deletes.DeleteGranularity.PARTITION
        supplier_of = iceberg.relocated.com.google.common.base.Suppliers.ofInstance
        properties = self._java.table.properties()
        results = []
        for group in groups:
            spec, partition = group[0].spec, group[0].partition
            has_folder = partition.size() and not is_long(spec.partitionToPath(partition))
            place = (spec, partition) if has_folder else ()
            file = builder(self._format, self._files.newOutputFile(*place)).spec(spec).partition(partition)
            file = file.setAll(properties).metricsConfig(metrics).build()
            writer = new_writer(supplier_of(file), granularity, indexes)
            for one in group:
                writer.write(new_delete().set(one.path, one.positions.get(0)))
            writer.close()
            results.append(writer.result())
        return results

    def _function(self, target: Any, owner: str, method: str, argument: str, result: str) -> Any:
        """A method of an object of Java's as a `java.util.function.Function`."""
        java = self._java.jvm.java
        loader = java.lang.Thread.currentThread().getContextClassLoader()
        type_of = java.lang.Class.forName
        shape = java.lang.invoke.MethodType.methodType(
            type_of(result, True, loader), type_of(argument, True, loader)
        )
        methods = java.lang.invoke.MethodHandles.publicLookup()
        handle = methods.findVirtual(type_of(owner, True, loader), method, shape)
        return java.lang.invoke.MethodHandleProxies.asInterfaceInstance(
            type_of("java.util.function.Function", True, loader), handle.bindTo(target)
        )
