"""A real Flink: its table API, and a cluster in the same JVM, with Iceberg's sink on a lab's catalog.

It is told what to run from here, through py4j (which comes with PySpark), so that no Java has to be compiled. What it
reads are files of JSON that `Feed` puts into a folder: a job keeps in its checkpoints which of them it has read.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway

from isotherm.demo.stack import Process, jar_paths
from isotherm.demo.stack.kafka import java_command
from isotherm.demo.stack.ports import HOST
from support.lab import Lab

READY_WITHIN_S = 60
CHECKPOINT_MS = 300
KEPT = 1000
"""Checkpoints that stay: a test goes back to the one of its choice."""


class Feed:
    """A folder in which a job finds its input: each file is one portion, and in order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = 0
        folder.mkdir()

    def put(self, lines: Iterable[object]) -> None:
        """A portion more. It appears at once, and whole."""
        self._files += 1
        draft = self.folder / f".{self._files}"
        draft.write_text("".join(json.dumps(line) + "\n" for line in lines))
        draft.rename(self.folder / f"{self._files:05}.json")


class Flink:
    """A JVM with the lab's catalog as `lake`; after `kill` or `stop` it may be started again."""

    def __init__(self, lab: Lab) -> None:
        self.folder = lab.root / "flink"
        self.folder.mkdir()
        self._log = self.folder / "flink.log"
        self._catalog = {
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri": "jdbc:sqlite:" + lab.properties["uri"].removeprefix("sqlite:///"),
            "jdbc.schema-version": "V1",
            "warehouse": lab.properties["warehouse"],
            "clients": "1",  # SQLite has one writer
        }
        of_spark = Path(pyspark.__file__).parent / "jars"
        jars = [*jar_paths("flink", self.folder), *of_spark.glob("py4j-*.jar")]
        jars += of_spark.glob("hadoop-client-*.jar")
        command = java_command(jars, "py4j.GatewayServer", "0", heap_mb=512)
        # As Flink's own scripts have it: it copies what it serializes field by field.
        opened = [
            f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "nio", "time", "util")
        ]
        self.process = Process("Flink", [command[0], *opened, *command[1:]], self._log, folder=self.folder)

    def start(self) -> None:
        """Start it, with the catalog as `lake`."""
        self._log.write_text("")
        self.process.start()
        self.process.wait_until(self._says_its_port, READY_WITHIN_S, "says its port")
        port = int(self._log.read_text().split()[0])
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auto_convert=True, enable_memory_management=False)
        )
        self.java = self._gateway.jvm
        hadoop = self.java.org.apache.hadoop.conf.Configuration()
        self._loader = self.java.org.apache.iceberg.CatalogUtil.buildIcebergCatalog(
            "lake", self._catalog, hadoop
        )

    def stop(self) -> None:
        self.process.stop()

    def kill(self) -> None:
        """As the machine under it would end."""
        self.process.kill()
        self.process.wait(READY_WITHIN_S)

    def program(self, more: Mapping[str, object] | None = None) -> "Program":
        """A new program; `more` adds to its configuration."""
        settings = {
            "execution.target": "local",
            "parallelism.default": 1,
            "execution.checkpointing.interval": f"{CHECKPOINT_MS} ms",
            "execution.checkpointing.dir": f"file://{self.folder}/checkpoints",
            "execution.checkpointing.num-retained": KEPT,
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            # A commit that fails shall be seen, and not be tried again by a job that nobody asked for.
            "restart-strategy.type": "none",
            "table.local-time-zone": "UTC",
            "taskmanager.memory.network.max": "8mb",
            "taskmanager.memory.managed.size": "16mb",
            "jobmanager.bind-host": HOST,
            "rest.address": HOST,
            "rest.bind-address": HOST,
            "rest.bind-port": "0",
            "taskmanager.bind-host": HOST,
            "io.tmp.dirs": self.folder,
            **(more or {}),
        }
        return Program(self, {name: str(value) for name, value in settings.items()}, self._catalog)

    def table(self, name: str) -> Any:
        """A table of the catalog, as Iceberg's Java has it now."""
        identifier = self.java.org.apache.iceberg.catalog.TableIdentifier.parse(name)
        return self._loader.loadTable(identifier)

    def rows(self, name: str, snapshot_id: int | None = None) -> list[tuple[str, ...]]:
        """What Iceberg's own generic reader in Java finds in a table, as text."""
        table = self.table(name)
        scan = self.java.org.apache.iceberg.data.IcebergGenerics.read(table)
        found = (scan if snapshot_id is None else scan.useSnapshot(snapshot_id)).build()
        # A record may end with a column that only the deletes needed.
        columns = table.schema().columns().size()
        # All of them in one answer; there is no bracket and no comma in what tests write.
        text = self.java.org.apache.iceberg.relocated.com.google.common.collect.Iterables.toString(found)
        found.close()
        return sorted(tuple(one.split(", ")[:columns]) for one in re.findall(r"Record\((.*?)\)", text))

    def create(self, name: str, *, key: bool, **properties: str) -> None:
        """A table of `id`, `at` and `what` by the hours of `at`; the first two may be its key."""
        types, iceberg = self.java.org.apache.iceberg.types.Types, self.java.org.apache.iceberg
        field = types.NestedField
        columns = [
            field.required(1, "id", types.LongType.get()),
            field.required(2, "at", types.TimestampType.withZone()),
            field.optional(3, "what", types.StringType.get()),
        ]
        schema = iceberg.Schema(columns, {1, 2} if key else set())
        hours = iceberg.PartitionSpec.builderFor(schema).hour("at").build()
        identifier = iceberg.catalog.TableIdentifier.parse(name)
        made = self._loader.buildTable(identifier, schema).withPartitionSpec(hours)
        made.withProperties(properties).create()

    def complaints(self) -> list[str]:
        """What its log says of checkpoints and jobs that failed, since it was started; a commit that fails ends its job."""
        bad = re.compile(
            r" (?:WARN|ERROR) org\.apache\.flink\.runtime\.checkpoint\.| to (?:FAILING|FAILED|RESTARTING)"
        )
        return [line for line in self._log.read_text().splitlines() if bad.search(line)]

    def _says_its_port(self) -> bool:
        return self._log.read_text()[-1:] == "\n"


class Program:
    """What is declared for a job, and the job."""

    def __init__(self, flink: Flink, settings: Mapping[str, str], catalog: Mapping[str, str]) -> None:
        java = flink.java
        configuration = java.org.apache.flink.configuration.Configuration.fromMap(settings)
        api = java.org.apache.flink.table.api
        made = api.EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(configuration)
        self._environment = api.TableEnvironment.create(made.build())
        self._job: Any = None
        said = {"type": "iceberg", "cache-enabled": "false", **catalog}
        self.sql("CREATE CATALOG lake WITH (" + _options(said) + ")")

    def sql(self, statement: str) -> Any:
        return self._environment.executeSql(statement)

    def source(self, name: str, columns: str, folder: Path, form: str) -> None:
        """Declare a table over the files that come into a folder."""
        options = {
            "connector": "filesystem",
            "path": f"file://{folder}",
            "format": form,
            f"{form}.timestamp-format.standard": "ISO-8601",
            "source.monitor-interval": "100 ms",
        }
        self.sql(f"CREATE TEMPORARY TABLE {name} ({columns}) WITH ({_options(options)})")

    def run(self, *inserts: str) -> None:
        """Start one job of these INSERTs; it runs until it is ended."""
        statements = self._environment.createStatementSet()
        for insert in inserts:
            statements.addInsertSql(insert)
        self._job = statements.execute().getJobClient().get()

    @property
    def job_id(self) -> str:
        return str(self._job.getJobID().toString())

    @property
    def status(self) -> str:
        return str(self._job.getJobStatus().get().toString())


def _options(said: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in said.items())
