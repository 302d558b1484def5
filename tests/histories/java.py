"""The Java side: Iceberg's own API in the JVM of the Spark session, on a catalog whose files live in memory there.

Spark knows the catalog as `memory`, PyIceberg reads it through `histories.memory`. Nothing here decides what happens
to a table (`happenings`), it only makes the words for it: schemas, specs, made-up files, commits.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyiceberg.catalog import load_catalog

from support.spark import Lake

NAME = "memory"
NULL = "__HIVE_DEFAULT_PARTITION__"
SAYS_NO = (
    "org.apache.iceberg.exceptions.",
    "java.lang.IllegalArgumentException",
    "java.lang.IllegalStateException",
    "java.lang.UnsupportedOperationException",
    "org.apache.spark.sql.AnalysisException",
)


class RefusedError(Exception):
    """Iceberg does not do this; nothing happened."""


@contextmanager
def refusing() -> Iterator[None]:
    """Iceberg's own refusals as `RefusedError`; whatever else goes wrong in the JVM fails the test."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors.exceptions.captured import CapturedException

    try:
        yield
    except (Py4JJavaError, CapturedException) as err:
        # Spark's Python dresses up what it knows.
        cause = err.java_exception if isinstance(err, Py4JJavaError) else err._origin
        name, text = cause.getClass().getName(), cause.getMessage()
        if not name.startswith(SAYS_NO):
            raise
        raise RefusedError(f"{name.rpartition('.')[2]}: {text}") from err


@dataclass
class Java:
    """Iceberg in the JVM."""

    spark: Any
    catalog: Any
    lake: Any
    """The same catalog in PyIceberg."""
    inline: Any
    """An executor that works in the caller's thread: Iceberg polls its own every 10 ms."""
    name: str = NAME
    """As which Spark knows it."""
    _found: dict[str, Any] = field(default_factory=dict)

    def static(self, name: str, package: str = "org.apache.iceberg") -> Any:
        """A class or a static method, looked up once: py4j asks the JVM at every dot."""
        path = f"{package}.{name}"
        if path not in self._found:
            found = self.spark._jvm
            for part in path.split("."):
                found = getattr(found, part)
            self._found[path] = found
        return self._found[path]

    def identifier(self, name: str) -> Any:
        return self.static("catalog.TableIdentifier.parse")(name)

    def schema(self) -> Any:
        types, optional = self.static("types.Types"), self.static("types.Types.NestedField.optional")
        kinds = (
            ("id", types.LongType.get()),
            ("at", types.TimestampType.withZone()),
            ("region", types.StringType.get()),
            ("n", types.IntegerType.get()),
            ("day", types.DateType.get()),
            ("price", types.DecimalType.of(9, 2)),
            ("ok", types.BooleanType.get()),
        )
        return self.static("Schema")([optional(place, *kind) for place, kind in enumerate(kinds, start=1)])

    def spec(self, schema: Any, fields: Sequence[tuple[str, str]]) -> Any:
        """A partition spec of (transform, column)."""
        builder = self.static("PartitionSpec.builderFor")(schema)
        for transform, column in fields:
            name, _, width = transform.rstrip("]").partition("[")
            arguments = (column, int(width)) if width else (column,)
            builder = getattr(builder, name)(*arguments)
        return builder.build()

    def term(self, transform: str, column: str) -> Any:
        name, _, width = transform.rstrip("]").partition("[")
        made = self.static(f"expressions.Expressions.{'ref' if name == 'identity' else name}")
        return made(column, int(width)) if width else made(column)

    def data_file(self, spec: Any, path: str, rows: int, size: int, values: Sequence[str | None]) -> Any:
        """A data file that nobody wrote; `values` are its partition's, as text, in the order of the spec."""
        builder = self.static("DataFiles.builder")(spec).withPath(path).withFormat("parquet")
        builder = builder.withRecordCount(rows).withFileSizeInBytes(size)
        return builder.withPartitionValues([NULL if value is None else value for value in values]).build()

    def delete_file(self, spec: Any, path: str, rows: int, size: int, partition: Any, **kind: Any) -> Any:
        """Position deletes, equality deletes (`equality=[field ids]`) or a deletion vector (`vector_of`, `offset`)."""
        builder = self.static("FileMetadata.deleteFileBuilder")(spec).withPath(path).withRecordCount(rows)
        builder = builder.withFileSizeInBytes(size).withPartition(partition)
        if "equality" in kind:
            ids = self.spark.sparkContext._gateway.new_array(self.spark._jvm.int, len(kind["equality"]))
            for place, field_id in enumerate(kind["equality"]):
                ids[place] = field_id
            return builder.ofEqualityDeletes(ids).withFormat("parquet").build()
        builder = builder.ofPositionDeletes()
        if "vector_of" not in kind:
            return builder.withFormat("parquet").build()
        builder = builder.withFormat("puffin").withReferencedDataFile(kind["vector_of"])
        return builder.withContentOffset(kind["offset"]).withContentSizeInBytes(size // 2).build()


def connected(spark: Any, folder: Path) -> Java:
    """The catalog `memory`, in Spark and in PyIceberg."""
    prefix, database = f"spark.sql.catalog.{NAME}", folder / "memory.db"
    for key, value in {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": f"jdbc:sqlite:{database}",
        ".jdbc.schema-version": "V1",
        ".warehouse": "memory://lake",
        ".cache-enabled": "false",
        ".io-impl": "org.apache.iceberg.inmemory.InMemoryFileIO",
    }.items():
        spark.conf.set(prefix + key, value)
    lake = load_catalog(
        NAME,
        type="sql",
        uri=f"sqlite:///{database}",
        warehouse="memory://lake",
        **{"py-io-impl": "histories.memory.MemoryIO"},
    )
    catalog = spark._jsparkSession.sessionState().catalogManager().catalog(NAME).icebergCatalog()
    # Made-up files cannot be deleted: Iceberg says so for each, with a page of Java frames.
    configurator = spark._jvm.org.apache.logging.log4j.core.config.Configurator
    configurator.setLevel("org.apache.iceberg", spark._jvm.org.apache.logging.log4j.Level.OFF)
    inline = spark._jvm.com.google.common.util.concurrent.MoreExecutors.newDirectExecutorService()
    return Java(spark, catalog, lake, inline)


def on_disk(spark: Any, folder: Path, name: str = "worked") -> tuple[Java, dict[str, str]]:
    """A catalog of real files in Spark and in PyIceberg, and its properties there."""
    lake = Lake(folder, name)
    for key, value in lake.spark_properties.items():
        spark.conf.set(key, value)
    catalog = spark._jsparkSession.sessionState().catalogManager().catalog(name).icebergCatalog()
    inline = spark._jvm.com.google.common.util.concurrent.MoreExecutors.newDirectExecutorService()
    opened = load_catalog(name, **lake.pyiceberg_properties)
    return Java(spark, catalog, opened, inline, name), lake.pyiceberg_properties
