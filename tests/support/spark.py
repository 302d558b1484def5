"""A Spark session beside a PyIceberg catalog: one SQLite file, one warehouse, seen by both as the catalog `lake`."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isotherm_ingest.spark_session import JAVA_OPTIONS, LOCAL, WORKERS

CATALOG = "lake"
DRIVER_MEMORY = "1536m"
SMALL_QUERIES = {
    "spark.sql.shuffle.partitions": "2",
    # Each of its stages is a job of its own, which costs more than it saves.
    "spark.sql.adaptive.enabled": "false",
    # A class that is compiled for a query over ten rows takes longer than the query.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@dataclass(frozen=True, slots=True)
class Lake:
    """Where the catalog's SQLite file and the tables' files are."""

    folder: Path
    name: str = CATALOG
    """As which Spark knows it."""

    @property
    def database(self) -> Path:
        return self.folder / "catalog.db"

    @property
    def warehouse(self) -> str:
        # Not as_uri(): neither Hadoop nor PyIceberg decodes %20, a space stays a space.
        return f"file://{self.folder / 'warehouse'}"

    @property
    def pyiceberg_properties(self) -> dict[str, str]:
        return {"type": "sql", "uri": f"sqlite:///{self.database}", "warehouse": self.warehouse}

    @property
    def spark_properties(self) -> dict[str, str]:
        prefix = f"spark.sql.catalog.{self.name}"
        return {
            prefix: "org.apache.iceberg.spark.SparkCatalog",
            f"{prefix}.type": "jdbc",
            f"{prefix}.uri": f"jdbc:sqlite:{self.database}",
            f"{prefix}.jdbc.schema-version": "V1",
            f"{prefix}.warehouse": self.warehouse,
            # With the cache on, a session does not see what another process committed.
            f"{prefix}.cache-enabled": "false",
        }


def start_session(lake: Lake, jars: list[Path], scratch: Path, **more: str) -> Any:
    """A local session of two threads; `more` adds to its configuration (dots as `__`)."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.memory": DRIVER_MEMORY,
        **LOCAL,
        # On the class path rather than in spark.jars: nothing is copied, and JDBC finds its driver.
        "spark.driver.extraClassPath": ":".join(str(jar) for jar in jars),
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "spark-warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN",
        "spark.sql.session.timeZone": "UTC",
        **SMALL_QUERIES,
        **WORKERS,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        **lake.spark_properties,
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    builder = SparkSession.builder.master("local[2]").appName("isotherm-tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
