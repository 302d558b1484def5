"""`isotherm.yaml`: one file for the daemon's process, as a validated model.

Single values come from the environment too: `ISOTHERM_HTTP__PORT=0`, nested by two underscores. The file holds no
rule about a table, because that belongs into a policy.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from isotherm.runtime.strict_model import ConfigError, Properties, StrictModel
from isotherm.runtime.yaml_reader import environment_overrides, read_yaml

ClientConfig = TypeVar("ClientConfig", "CatalogConfig", "KafkaConfig")


class CatalogConfig(StrictModel):
    """The Iceberg catalog, as PyIceberg knows it."""

    name: str = Field("lake", min_length=1)
    """Name of the catalog; Spark must use the same one."""
    properties: dict[str, str] = Field(default_factory=dict)
    """PyIceberg's catalog properties: `type`, `uri`, `warehouse`, `s3.endpoint`, …"""
    properties_from: Path | None = None
    """A YAML file with more of them, for instance a mounted secret; what stands there wins."""
    timeout_s: float = Field(30, gt=0, le=120)
    """Seconds that the catalog may take before an answer begins, and between its parts: REST, Glue and DynamoDB. An
    answer of a REST catalog as a whole may take four times as long. More than it needs for the table with the most snapshots, and much less than the five minutes after which /livez calls the loop stuck."""


Format = Literal["iceberg-kafka-connect"]
"""Other systems whose events we read; `isotherm.kafka.formats` has a decoder for each."""


class SourceConfig(StrictModel):
    """A topic on which another system says what it commits."""

    topic: str = Field(min_length=1)
    format: Format
    """`iceberg-kafka-connect`: the control topic of Iceberg's sink (`iceberg.control.topic`)."""


class KafkaConfig(StrictModel):
    """Kafka and the control topic."""

    properties: dict[str, str | int | bool] = Field(default_factory=dict)
    """librdkafka's properties: `bootstrap.servers`, `security.protocol`, `sasl.username`, …"""
    properties_from: Path | None = None
    """A YAML file with more of them, for instance a mounted secret; what stands there wins."""
    control_topic: str = "isotherm.control"
    """Where commit events and intents stand. Its partition count must never change (events are keyed by table)."""
    state_topic: str = ""
    """The compacted topic of halts, pauses and quarantines. By default the control topic's name with `.state` behind it."""
    group: str = "isotherm"
    """Consumer group of the daemons; it divides the tables among them. Sources are read as `<group>.sources`."""
    sources: list[SourceConfig] = Field(default_factory=list)
    """Topics of other systems, on the same brokers."""
    dead_letter_topic: str | None = None
    """Where messages go that nobody can read, as they came. Without it, a line in the log is all."""

    @model_validator(mode="after")
    def _servers(self) -> Self:
        if not self.properties.get("bootstrap.servers") and self.properties_from is None:
            raise ValueError("kafka.properties needs `bootstrap.servers`")
        return self

    @model_validator(mode="after")
    def _topics(self) -> Self:
        topics = [
            self.control_topic,
            self.hold_topic,
            self.reader_topic,
            *(source.topic for source in self.sources),
        ]
        topics += [] if self.dead_letter_topic is None else [self.dead_letter_topic]
        twice = sorted({topic for topic in topics if topics.count(topic) > 1})
        if twice:
            raise ValueError(f"topic {twice[0]} stands twice: each has one purpose")
        return self

    @property
    def reader_topic(self) -> str:
        """The topic on which readers say up to where they have read."""
        return f"{self.control_topic}.readers"

    @property
    def hold_topic(self) -> str:
        """The topic with halts, pauses and quarantines."""
        return self.state_topic or f"{self.control_topic}.state"


class StateConfig(StrictModel):
    """Where the daemon keeps what it knows."""

    path: Path = Path("state")
    """Folder of fold.db (a cache, may be deleted at any time) and ledger.db (small, durable: back it up)."""


class PortConfig(StrictModel):
    """The port with /metrics, /livez and /readyz. It has no secrets and takes no orders."""

    host: str = "127.0.0.1"
    port: int = Field(9464, ge=0, le=65535)
    """The port. 0 takes any free port, and the log line `http_listening` says which."""


class HttpConfig(PortConfig):
    """The daemon's port. It takes reports, where it may."""

    scan_reports: bool = False
    """Whether scan reports of engines are taken, as a REST catalog takes them."""


class LocalExecutorConfig(StrictModel):
    """Compaction in processes of the daemon's own."""

    jobs_at_once: int = Field(1, ge=1, le=64)
    """Processes at the same time; each takes about one core and 0.5 GB. Small jobs are got ready ahead, four for each."""
    deadline_s: int = Field(3600, ge=10)
    """A job that takes longer is cancelled. Far below the age floor of orphans."""
    memory_bytes: int | None = Field(4 * 1024**3, ge=256 * 1024**2)
    """Memory that one process may take; with more the job fails. Without a limit it takes what there is. If that is too
    little, the kernel chooses what to end, in a container perhaps the daemon with it."""


class SparkExecutorConfig(StrictModel):
    """Compaction on a Spark cluster, for jobs that are large."""

    remote: str = Field(pattern="^sc://")
    """The address of its Spark Connect server, as `sc://host:15002`. A token stands in it as `;token=…;use_ssl=true`."""
    from_bytes: int = Field(1024**3, ge=0)
    """Jobs that read so much run there, all others on this machine."""
    jobs_at_once: int = Field(4, ge=1, le=256)
    """Tasks at the same time; each takes a core of a worker, and memory beside Spark's own."""
    deadline_s: int = Field(3600, ge=10)
    """A job that takes longer is cancelled."""
    memory_bytes: int | None = Field(4 * 1024**3, ge=256 * 1024**2)
    """Memory that the process of one task may take."""


class ExecutorsConfig(StrictModel):
    """What does the rewriting."""

    local: LocalExecutorConfig = LocalExecutorConfig()
    spark: SparkExecutorConfig | None = None
    """None: all jobs run on this machine."""

    @property
    def jobs_at_once(self) -> int:
        """On this machine and the cluster together."""
        return self.local.jobs_at_once + self.cluster_jobs_at_once

    @property
    def cluster_jobs_at_once(self) -> int:
        """On the cluster, if there is one."""
        return 0 if self.spark is None else self.spark.jobs_at_once

    @property
    def cluster_from_bytes(self) -> int | None:
        """From which size on a job runs on the cluster, or None where there is none."""
        return None if self.spark is None else self.spark.from_bytes


class BudgetsConfig(StrictModel):
    """Limits over all tables; a table's policy may be tighter."""

    bytes_per_hour: int | None = Field(None, ge=0)
    """Bytes that compaction may read in any hour, all tables together. Without it there is no limit."""


class DeletionsConfig(StrictModel):
    """Where files may be deleted."""

    also_under: list[str] = Field(default_factory=list)
    """Folders outside of tables' locations, as `s3://bucket/folder`, in which files of expired snapshots may be
    deleted: needed for tables with `write.data.path`. A table's owner sets that property, so it alone is no right."""


class LoopConfig(StrictModel):
    """The pace of the service."""

    plan_every_s: float = Field(10, gt=0)
    """Seconds between two planning rounds; each confirms the heads of the tables that were touched or are due."""
    poll_tables_every_s: float = Field(60, gt=0)
    """Seconds after which a table without events is looked at in the catalog, for commits that nobody announced."""
    recount_every_s: float = Field(60, ge=0)
    """Seconds between two samples of the self-audit: some partitions are counted again, when there is nothing else to
    do. With 0 there are none."""
    intent_timeout_s: float = Field(900, gt=0)
    """No intent holds a partition longer than this after it was last renewed, whatever it says."""


class LogConfig(StrictModel):
    """What is logged."""

    level: str = Field("INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$")


class IsothermConfig(StrictModel):
    """`isotherm.yaml`: one file for the process."""

    catalog: CatalogConfig
    kafka: KafkaConfig
    state: StateConfig = StateConfig()
    http: HttpConfig = HttpConfig()
    policies: Path = Path("policies")
    """Folder of policy files (`*.yaml`)."""
    executors: ExecutorsConfig = ExecutorsConfig()
    budgets: BudgetsConfig = BudgetsConfig()
    deletions: DeletionsConfig = DeletionsConfig()
    loop: LoopConfig = LoopConfig()
    log: LogConfig = LogConfig()


def load_config(path: Path, environ: Mapping[str, str] | None = None) -> IsothermConfig:
    """`isotherm.yaml` with overrides from the environment; relative paths are relative to the file.

    Raises:
        ConfigError: see `read_yaml`.
    """
    if not path.exists():
        raise ConfigError(f"{path}: no such file; say where it is with --config or ISOTHERM_CONFIG")
    overrides = environment_overrides("ISOTHERM_", os.environ if environ is None else environ)
    config = read_yaml(path, IsothermConfig, overrides)
    folder = path.resolve().parent
    return config.model_copy(
        update={
            "catalog": _with_file(config.catalog, folder),
            "kafka": _with_file(config.kafka, folder),
            "policies": folder / config.policies,
            "state": config.state.model_copy(update={"path": folder / config.state.path}),
        }
    )


def _with_file(client: ClientConfig, folder: Path) -> ClientConfig:
    """A client with the properties of its file, if it names one."""
    if client.properties_from is None:
        return client
    path = folder / client.properties_from
    more = read_yaml(path, Properties).root
    merged = {**client.model_dump(), "properties": {**client.properties, **more}, "properties_from": None}
    try:
        return type(client).model_validate(merged)
    except ValidationError as err:
        complaints = [_of_a_file(path, error) for error in err.errors(include_url=False, include_input=False)]
        raise ConfigError("\n".join(complaints)) from None


def _of_a_file(path: Path, error: Any) -> str:
    message = error["msg"].removeprefix("Value error, ")
    return ": ".join([str(path), *map(str, error["loc"][1:]), message])
