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
from isotherm_ingest.tables.java_table import Change, JavaTable, key_of

GRANULARITY = "write.delete.granularity"


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
    projections: dict[int, Any] = {}
    found = []
    for row in rows:
        number = row.getInt(1)
        spec = specs.get(number)
        partition = iceberg.PartitionData(spec.partitionType())
        if partition.size():
            if number not in projections:
                projections[number] = iceberg.util.StructProjection.createAllowMissing(
                    unified, spec.partitionType()
                )
            values = iceberg.spark.SparkValueConverter.convert(unified, row.getStruct(2))
            partition = partition.copyFor(projections[number].wrap(values))
        found.append(DeletedRows(row.getString(0), spec, partition, row.getList(3)))
    return found


class DeleteFiles:
    """Writes the delete files of one commit; nothing is committed here."""

    def __init__(self, java: JavaTable) -> None:
        self._java = java
        self._iceberg = java.iceberg
        self._has_vectors = java.format_version >= 3
        granularity = java.table.properties().get(GRANULARITY) or "file"  # as Spark has it
        self._by_file = self._has_vectors or granularity.lower() == "file"
        self._format = (
            self._iceberg.FileFormat.PUFFIN if self._has_vectors else self._iceberg.FileFormat.PARQUET
        )

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
            results = [self._positions(group, indexes) for group in groups.values()]
        return Change(
            deletes=[file for result in results for file in result.deleteFiles()],
            replaced=[file for result in results for file in result.rewrittenDeleteFiles()],
            referenced=[one.path for one in deleted],
        )

    def _before(self, deleted: Sequence[DeletedRows], read_at: int, condition: Any) -> dict[str, list[Any]]:
        """The delete files of these data files that can be merged into the new ones."""
        wanted = {one.path for one in deleted}
        table = self._java.table
        count = table.snapshot(read_at).summary().get("total-delete-files")
        if count == "0":
            return {}
        found: dict[str, list[Any]] = {}
        tasks = table.newScan().useSnapshot(read_at).filter(condition).planFiles()
        try:
            for task in tasks.iterator():
                path = task.file().location()
                if path in wanted and (files := [one for one in task.deletes() if self._is_mergeable(one)]):
                    found[path] = files
        finally:
            tasks.close()
        return found

    def _is_mergeable(self, file: Any) -> bool:
        if file.content() != self._iceberg.FileContent.POSITION_DELETES:
            return False
        # A vector must hold every position that is deleted in its file, whichever file said so.
        return self._has_vectors or bool(self._iceberg.util.ContentFileUtil.isFileScoped(file))

    def _indexes(self, deleted: Sequence[DeletedRows], before: dict[str, list[Any]]) -> Any:
        """By data file, all positions of its new delete file; a Java map."""
        java = self._java.jvm.java
        indexes = java.util.HashMap()
        inputs = self._method("org.apache.iceberg.io.FileIO", "newInputFile", "org.apache.iceberg.DeleteFile")
        loader = self._iceberg.data.BaseDeleteLoader(inputs(self._java.table.io()))
        nothing_to_close = java.io.StringReader("")
        for one in deleted:
            positions = self._iceberg.io.CloseableIterable.combine(one.positions, nothing_to_close)
            index = self._iceberg.deletes.Deletes.toPositionIndex(positions)
            if one.path in before:
                older = loader.loadPositionDeletes(self._java.java_list(before[one.path]), one.path)
                older.merge(index)
                index = older
            indexes.put(one.path, index)
        return indexes

    def _vectors(self, deleted: Iterable[DeletedRows], indexes: Any) -> Any:
        writer = self._iceberg.deletes.BaseDVFileWriter(self._files(), self._lookup(indexes))
        for one in deleted:
            writer.delete(one.path, one.positions.get(0), one.spec, one.partition)
        writer.close()
        return writer.result()

    def _positions(self, group: Sequence[DeletedRows], indexes: Any) -> Any:
        """One delete file. Each data file is named once; its positions are what the index says."""
        first = group[0]
        iceberg = self._iceberg
        is_partitioned = first.partition.size() > 0
        target = self._files().newOutputFile(*((first.spec, first.partition) if is_partitioned else ()))
        file = (
            iceberg.formats.FormatModelRegistry.positionDeleteWriteBuilder(self._format, target)
            .spec(first.spec)
            .partition(first.partition)
            .setAll(self._java.table.properties())
            .metricsConfig(iceberg.MetricsConfig.forPositionDelete())
            .build()
        )
        granularity = iceberg.deletes.DeleteGranularity
        writer = iceberg.deletes.SortingPositionOnlyDeleteWriter(
            iceberg.relocated.com.google.common.base.Suppliers.ofInstance(file),
            granularity.FILE if self._by_file else granularity.PARTITION,
            self._lookup(indexes),
        )
        for one in group:
            writer.write(iceberg.deletes.PositionDelete.create().set(one.path, one.positions.get(0)))
        writer.close()
        return writer.result()

    def _files(self) -> Any:
        builder = self._iceberg.io.OutputFileFactory.builderFor(self._java.table, 0, 0)
        return builder.operationId(uuid.uuid4().hex).format(self._format).suffix("deletes").build()

    def _lookup(self, indexes: Any) -> Any:
        return self._method("java.util.Map", "get", "java.lang.Object")(indexes)

    def _method(self, owner: str, name: str, argument: str) -> Any:
        """A method of Java's as a `java.util.function.Function`, once it is given its object."""
        java = self._java.jvm.java
        loader = java.lang.Thread.currentThread().getContextClassLoader()

        def type_of(one: str) -> Any:
            return java.lang.Class.forName(one, True, loader)

        result = "java.lang.Object" if owner == "java.util.Map" else "org.apache.iceberg.io.InputFile"
        shape = java.lang.invoke.MethodType.methodType(type_of(result), type_of(argument))
        handle = java.lang.invoke.MethodHandles.publicLookup().findVirtual(type_of(owner), name, shape)
        proxies = java.lang.invoke.MethodHandleProxies
        return lambda target: proxies.asInterfaceInstance(
            type_of("java.util.function.Function"), handle.bindTo(target)
        )
