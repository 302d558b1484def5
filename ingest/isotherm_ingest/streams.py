"""`streams.yaml`: what one ingest job reads, where it writes, and how.

Parsed once, at the edge, into frozen models that refuse what they do not know. What Spark needs to hear about the
same catalog is derived here, so that nobody says it twice. Nothing here touches a network.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from isotherm.runtime.config import PortConfig
from isotherm.runtime.strict_model import StrictModel
from isotherm.runtime.yaml_reader import environment_overrides, read_yaml
from isotherm_ingest.decode.debezium_messages import CHANGELOG_COLUMNS
from isotherm_ingest.decode.kinds import OutOfRange
from isotherm_ingest.jdbc import jdbc_properties
from isotherm_ingest.name_template import NO_NAMES
from isotherm_ingest.partition_field import TIME_TRANSFORMS
from isotherm_ingest.plan.resume_or_halt import OnHole
from isotherm_ingest.plan.shares import Window
from isotherm_ingest.query_config import Query
from isotherm_ingest.span import Span, seconds
from isotherm_ingest.stream_formats import FormatOptions, RegistryConfig
from isotherm_ingest.table_naming import TableNaming
from isotherm_ingest.table_template import NO_IDENTIFIERS, UNSORTED, TableTemplate

_INTERNAL_TOPICS = r"(?!__)"
"""Heartbeats and Connect's own topics begin with two underscores. Others of Debezium's own are told by their messages: a
table, too, may be called `transaction`, and a prefix may have dots."""
_MOVED = {
    "immutable": "rows are found by their key, so take the line out",
    "checkpoint": "the tables themselves say how far they are, so take the line out",
    "trigger": "say `every`, for the pipeline or for a stream",
    "max_offsets_per_trigger": "it is called `batch_messages`",
}
"""What a file for an earlier version may still say."""


class SparkSettings(StrictModel):
    """The Spark session of the job."""

    master: str = "local[2]"
    """Where it runs; `local[n]` is this process with n cores. What spark-submit was told wins."""
    driver_memory: str = Field("1g", pattern=r"^\d+[mg]$")
    """Heap of the driver. 1g is enough for batches of 100,000 rows; raise it with `batch_messages`."""
    jars: tuple[str, ...] = ()
    """Paths of the jars: iceberg-spark-runtime; what the catalog and its storage need beside it."""
    packages: tuple[str, ...] = ()
    """Maven coordinates in place of jars, for machines that may download."""
    conf: dict[str, str] = Field(default_factory=dict)
    """Spark properties; they win over what ingest sets by itself."""


class LakeConfig(StrictModel):
    """The catalog: PyIceberg's properties; those of Spark's catalog are derived from them."""

    name: str = Field("lake", min_length=1)
    """Name of the catalog; the daemon must use the same one."""
    properties: dict[str, str] = Field(default_factory=dict)
    """PyIceberg's catalog properties: `type`, `uri`, `warehouse`, `s3.endpoint`, …"""
    spark: dict[str, str] = Field(default_factory=dict)
    """Properties of Spark's catalog that cannot be derived, or that should differ: `io-impl`, `s3.endpoint`, …"""

    @model_validator(mode="after")
    def _can_be_said_to_spark(self) -> Self:
        if self.properties.get("type") == "sql":
            _jdbc(self)
        return self


class BrokerConfig(StrictModel):
    """Kafka: where the streams are read, and where events and dead letters go."""

    properties: dict[str, str | int | bool]
    """librdkafka's properties, for the driver and the workers: `bootstrap.servers`, `security.protocol`, `sasl.username`, …"""
    control_topic: str = Field("isotherm.control", min_length=1)
    """Where commit events and intents go. Made with one partition where it is missing."""
    dead_letter_topic: str = Field("isotherm.dead-letters", min_length=1)
    """Where every message goes that cannot be written to its table, with its original bytes and the reason."""

    @property
    def announced_topic(self) -> str:
        """The compacted topic with what was last announced, by table."""
        return f"{self.control_topic}.announced"

    @model_validator(mode="before")
    @classmethod
    def _moved(cls, data: Any) -> Any:
        if isinstance(data, dict) and "spark" in data:
            raise ValueError(
                "`spark` is no option any more: Spark's Kafka source is not used, so say in `properties` what reading needs"
            )
        return data

    @model_validator(mode="after")
    def _servers(self) -> Self:
        if not self.properties.get("bootstrap.servers"):
            raise ValueError("kafka.properties needs `bootstrap.servers`")
        return self


class _Renamed(StrictModel):
    """What a file for an earlier version says is refused with what to say now."""

    @model_validator(mode="before")
    @classmethod
    def _moved(cls, data: Any) -> Any:
        for name in _MOVED.keys() & (data.keys() if isinstance(data, dict) else ()):
            raise ValueError(f"`{name}` is no option any more: {_MOVED[name]}")
        return data


class Stream(_Renamed, FormatOptions, TableNaming, TableTemplate):
    """Some topics, and the tables that they become."""

    topics: str
    """Regular expression over whole topic names; none that begins with two underscores matches."""
    mode: Literal["mirror", "changelog"] = "mirror"
    """`mirror`: one row per key, as in the source now. `changelog`: every change, one after the other. `changelog + mirror` is a
    mirror with a `changelog_table`."""
    key: tuple[str, ...] = ()
    """Columns that tell rows apart. Default: the fields of the message key."""
    sources: Literal["one", "many"] | None = None
    """Whether a mirror may have the rows of `many` topics, as of the shards of one table, whose keys never clash, or has those
    of `one`. Default: of many where `table` is a plain name, of one where the table is named for its source."""
    event_time: str = ""
    """Column that `valid_through` speaks of. Default: the column of the first time transform in `partition_by`."""
    names: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """By column of the table, the names that its source has, or had, for it. A column that the table has by one of them is
    renamed."""
    misfits: Literal["dead_letter", "column"] = "dead_letter"
    """What becomes of messages with a column of a type that the table's cannot become (text where a number was): they are dead
    letters, or the values go into a `column` beside it, which is named for the type (`amount__string`)."""
    out_of_range: OutOfRange = "dead_letter"
    """What becomes of a time outside of the years 1 to 9999, such as PostgreSQL's `infinity`: `dead_letter` sends the
    change away, so that a mirror keeps the old row; `null` writes null; `clamp` writes the first or last moment."""
    every: Span | None = None
    """How often its topics are read, where something waits in them. Default: the pipeline's."""
    or_at: int | None = Field(None, ge=1)
    """So many waiting messages of a topic begin a batch at once. Default: a full batch (`batch_messages`)."""
    on_hole: OnHole = "halt"
    """What to do where a table lacks changes that it had, or that Kafka no longer holds: `halt` (leave the table alone
    until a person decides), `backfill` (read again what Kafka still holds) or `accept` (go on without them)."""

    @field_validator("topics")
    @classmethod
    def _pattern(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as err:
            raise ValueError(f"{value!r} is no regular expression: {err}") from err
        return value

    @model_validator(mode="after")
    def _has_what_it_names(self) -> Self:
        if self.has_events and self.source_parts:
            raise ValueError(
                f"{{{min(self.source_parts)}}} comes from a change's source, and plain events have none"
            )
        if self.has_events and self.mode == "mirror" and not self.key:
            raise ValueError("a mirror of plain events needs `key`: which columns tell rows apart")
        self._check_names()
        self.check_naming(self.columns)
        self.check_beside(self.mode)
        if self.mode == "mirror" and self.has_events:
            self.check_fields({*self.key, *(name for one in self.key for name in self.names.get(one, ()))})
        self.check_template(self.mode, self.declared_names.keys() - {one.lower() for one in self.names})
        named = {
            "key": self.key,
            "partition_by": [one.column for one in self.spec],
            "sort_by": [one for one in self.sorted_columns if not self._is_about(one)],
            "event_time": [self.event_time],
        }
        for one in self.per_table:
            self.check_declared(named, one.mode, self.declared_names)
        self.check_times(((one.text, one.column, one.transform) for one in self.spec), self.declared_names)
        self.check_types("table", self.fields, NO_NAMES, self.declared_names)
        self.check_types("sort_by", self.sorted_columns, UNSORTED, self.declared_names)
        if self.identifier_fields:
            self.check_types("identifier_fields", self.key, NO_IDENTIFIERS, self.declared_names)
        return self

    def _check_names(self) -> None:
        columns = [column.lower() for column in self.names]
        sources = [name.lower() for names in self.names.values() for name in names]
        for said, what in ((columns, "column"), (sources, "name of the source")):
            if twice := sorted({one for one in said if said.count(one) > 1}):
                raise ValueError(f"`names` has the {what} {twice[0]!r} twice")
        for column, names in self.names.items():
            if not names or not all((column, *names)):
                raise ValueError(f"`names` says no name of the source for {column!r}")
            if others := sorted({name.lower() for name in names} & set(columns) - {column.lower()}):
                raise ValueError(f"`names` has {others[0]!r} for a column, and for the source of another one")

    @property
    def declared_names(self) -> dict[str, str]:
        """By a name of the source, in lower case, the column of the table that it is."""
        return {name.lower(): column for column, names in self.names.items() for name in names}

    @property
    def per_table(self) -> tuple["Stream", ...]:
        """The stream, once for each table that a message of it goes to."""
        if not self.changelog_table:
            return (self,)
        beside = {
            "mode": "changelog",
            "table": self.changelog_table,
            "changelog_table": "",
            "identifier_fields": False,
        }
        return self, self.model_copy(update=beside)

    def _is_about(self, column: str) -> bool:
        """Whether it is a column of a changelog that says something of the change."""
        return self.mode == "changelog" and column.lower() in CHANGELOG_COLUMNS

    @property
    def event_time_column(self) -> str | None:
        """The column that `valid_through` speaks of."""
        if self.event_time:
            return self.event_time
        return next((field.column for field in self.spec if field.transform in TIME_TRANSFORMS), None)

    @property
    def has_one_source(self) -> bool:
        """Whether rows of a second source table would overwrite those of the first."""
        default = "one" if self.is_named_for_source else "many"
        return self.mode == "mirror" and (self.sources or default) == "one"

    @property
    def table_properties(self) -> dict[str, str]:
        """Properties of a table that is made."""
        return self.properties_of(self.mode)


class StreamsConfig(_Renamed):
    """`streams.yaml`: one file for one ingest job."""

    pipeline: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$")
    """Stable id of this job. It is part of every token: under another one, ingest starts from the beginning."""
    catalog: LakeConfig
    """Where the tables are."""
    kafka: BrokerConfig
    """Where the changes are, and where events and dead letters go."""
    every: Span = "1m"
    """How often topics are read, where something waits in them. Longer makes larger files and fewer snapshots."""
    batch_messages: int = Field(100_000, ge=1)
    """Messages in one batch at most; bounds memory and the time to a commit while catching up."""
    tables_at_once: int = Field(4, ge=1, le=64)
    """Tables written at the same time. More than twice the cores does not help."""
    grant_windows: Literal["off"] | Span = "1m"
    """The longest time for which a table is left alone where the daemon asks for it, which it does where a policy says so
    (`compact.ask_writer`). Its rows come so much later then, a tenth of the time at most. `off`: never."""
    announce_every: Span = "5s"
    """How often tables are looked at for snapshots of others; rarer where looking at all of them takes long."""
    registry: RegistryConfig | None = None
    """Where the schemas of Avro are, which `format: avro` of a stream needs."""
    spark: SparkSettings = SparkSettings()
    """The session that reads, writes and computes."""
    http: PortConfig = PortConfig(port=9465)
    """Where /metrics of the driver is."""
    streams: tuple[Stream, ...] = Field(min_length=1)
    """The streams; a topic belongs to the first whose pattern matches."""

    queries: tuple[Query, ...] = ()
    """Tables that SQL computes from others, beside the streams."""

    @model_validator(mode="after")
    def _each_table_once(self) -> Self:
        names = [one.table for one in self.queries]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"`queries` has the table {twice[0]!r} twice")
        if own := sorted({one.table for one in self.streams} & set(names)):
            raise ValueError(f"{own[0]!r} is the table of a stream, and cannot be that of a query")
        return self

    @model_validator(mode="after")
    def _has_a_registry(self) -> Self:
        if self.registry is None and any(one.format == "avro" for one in self.streams):
            raise ValueError("`format: avro` needs a `registry`")
        return self

    def window_of(self, stream: Stream) -> Window:
        """How often the topics of a stream are read."""
        return Window(seconds(stream.every or self.every), stream.or_at or self.batch_messages)

    def stream_of(self, topic: str) -> Stream | None:
        """The stream that a topic belongs to."""
        return next((one for one in self.streams if re.fullmatch(one.topics, topic)), None)

    def streams_of(self, topic: str) -> tuple[Stream, ...]:
        """The same, once for each table that a message goes to."""
        stream = self.stream_of(topic)
        return () if stream is None else stream.per_table

    @property
    def topic_pattern(self) -> str:
        """One (Java) pattern for every topic of every stream, and none of ours or Debezium's own."""
        ours = (self.kafka.control_topic, self.kafka.announced_topic, self.kafka.dead_letter_topic)
        not_ours = "".join(f"(?!{re.escape(name)}$)" for name in ours)
        wanted = "|".join(f"(?:{stream.topics})" for stream in self.streams)
        return f"^{_INTERNAL_TOPICS}{not_ours}(?:{wanted})$"


def load_streams(path: Path, environ: Mapping[str, str] | None = None) -> StreamsConfig:
    """`streams.yaml` with overrides from the environment (`ISOTHERM_INGEST_KAFKA__CONTROL_TOPIC=…`).

    Relative paths are relative to the file.

    Raises:
        ConfigError: see `isotherm.runtime.config.read_yaml`.
    """
    overrides = environment_overrides("ISOTHERM_INGEST_", os.environ if environ is None else environ)
    config = read_yaml(path, StreamsConfig, overrides)
    folder = path.resolve().parent
    jars = tuple(jar if "://" in jar else str(folder / jar) for jar in config.spark.jars)
    spark = config.spark.model_copy(update={"jars": jars})
    registry = config.registry
    if registry is not None and registry.ca_file is not None:
        registry = registry.model_copy(update={"ca_file": folder / registry.ca_file})
    return config.model_copy(update={"spark": spark, "registry": registry})


def spark_catalog(config: LakeConfig) -> dict[str, str]:
    """The properties of Spark's catalog of the same name, from PyIceberg's."""
    properties = config.properties
    kind = properties.get("type", "rest")
    derived: dict[str, str] = {"cache-enabled": "false"}
    if kind == "sql":
        derived |= {"type": "jdbc", "jdbc.schema-version": "V1", **_jdbc(config)}
    else:
        derived["type"] = kind
        if "uri" in properties:
            derived["uri"] = properties["uri"]
    if kind == "rest":  # Iceberg's client waits for ever
        derived |= {"rest.client.connection-timeout-ms": "5000", "rest.client.socket-timeout-ms": "60000"}
    for name in ("warehouse", "credential", "token", "scope", "oauth2-server-uri", "prefix"):
        if name in properties:
            derived[name] = properties[name]
    s3 = {name: value for name, value in properties.items() if name.startswith("s3.")}
    if s3:
        derived["io-impl"] = "org.apache.iceberg.aws.s3.S3FileIO"
        derived |= {name: value for name, value in s3.items() if name in _S3_ALIKE}
        if "s3.region" in s3:
            derived["client.region"] = s3["s3.region"]
    return {**derived, **config.spark}


def _jdbc(config: LakeConfig) -> dict[str, str]:
    """What is derived from the address of a database; where Spark's is said, its query is, too."""
    uri = config.properties.get("uri", "")
    return jdbc_properties(uri.partition("?")[0] if "uri" in config.spark else uri)


_S3_ALIKE = (
    "s3.endpoint",
    "s3.access-key-id",
    "s3.secret-access-key",
    "s3.session-token",
    "s3.path-style-access",
)
