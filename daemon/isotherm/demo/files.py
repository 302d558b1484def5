"""The configuration of the demo's processes, as files that a person can read, change and reuse."""

import json
from dataclasses import dataclass
from pathlib import Path

from isotherm.core.policy.json_schema import schema
from isotherm.demo.shop import NAMESPACE, PIPELINE, SCHEMA, TABLES, TOPIC_PREFIX, ShopTable

CATALOG = "lake"
CONTROL_TOPIC = "isotherm.control"
DEAD_LETTERS = "isotherm.dead-letters"


@dataclass(frozen=True, slots=True)
class DemoFolder:
    """Where everything of one run lies."""

    root: Path

    @property
    def isotherm_yaml(self) -> Path:
        """The daemon's configuration."""
        return self.root / "isotherm.yaml"

    @property
    def streams_yaml(self) -> Path:
        """Ingest's configuration."""
        return self.root / "streams.yaml"

    @property
    def timer_yaml(self) -> Path:
        """What the usual way does, where it maintains the tables."""
        return self.root / "timer.yaml"

    @property
    def policies(self) -> Path:
        """The folder of the daemon's policies."""
        return self.root / "policies"

    @property
    def policy_yaml(self) -> Path:
        """The policy of the shop's tables."""
        return self.policies / "shop.yaml"

    @property
    def logs(self) -> Path:
        """Log files of all processes that are ours."""
        return self.root / "logs"

    @property
    def state(self) -> Path:
        """The daemon's stores."""
        return self.root / "state"

    @property
    def stack(self) -> Path:
        """The servers' data."""
        return self.root / "stack"

    @property
    def catalog_properties(self) -> dict[str, str]:
        """PyIceberg's, of the catalog in a SQLite file."""
        return {
            "type": "sql",
            "uri": f"sqlite:///{self.root / 'catalog.db'}",
            "warehouse": f"file://{self.root / 'warehouse'}",
        }


def write_files(
    folder: DemoFolder, bootstrap_servers: str, jars: list[Path], isotherm_port: int, ingest_port: int
) -> None:
    """Write isotherm.yaml, streams.yaml, the policy and timer.yaml."""
    for path in (folder.policies, folder.logs, folder.root / "warehouse"):
        path.mkdir(parents=True, exist_ok=True)
    folder.isotherm_yaml.write_text(
        _isotherm_yaml(folder, bootstrap_servers, isotherm_port), encoding="utf-8"
    )
    folder.streams_yaml.write_text(
        _streams_yaml(folder, bootstrap_servers, jars, ingest_port), encoding="utf-8"
    )
    folder.policy_yaml.write_text(POLICY, encoding="utf-8")
    (folder.policies / "customers.yaml").write_text(CUSTOMERS_POLICY, encoding="utf-8")
    folder.timer_yaml.write_text(_timer_yaml(folder, jars), encoding="utf-8")
    (folder.root / "policy.schema.json").write_text(json.dumps(schema()), encoding="utf-8")


def _quoted(value: object) -> str:
    """A YAML scalar or flow list, safe for any path: JSON is YAML."""
    return json.dumps(value, ensure_ascii=False)


def _isotherm_yaml(folder: DemoFolder, bootstrap_servers: str, port: int) -> str:
    properties = "".join(
        f"    {name}: {_quoted(value)}\n" for name, value in folder.catalog_properties.items()
    )
    return f"""\
# The daemon of the demo: `isotherm run --config isotherm.yaml`. Made again by each run.
catalog:
  name: {CATALOG}
  properties:
{properties}kafka:
  properties:
    bootstrap.servers: {_quoted(bootstrap_servers)}
  control_topic: {CONTROL_TOPIC}
  group: isotherm-demo
state:
  path: state
http:
  port: {port}          # /metrics, /livez, /readyz
policies: policies
executors:
  local:
    jobs_at_once: 2
    deadline_s: 120
loop:
  plan_every_s: 1        # in production 10; the demo is impatient
  poll_tables_every_s: 5
  intent_timeout_s: 60   # what a killed writer announced holds its partitions no longer
"""


def _streams_yaml(folder: DemoFolder, bootstrap_servers: str, jars: list[Path], port: int) -> str:
    properties = "".join(
        f"    {name}: {_quoted(value)}\n" for name, value in folder.catalog_properties.items()
    )
    jar_lines = "".join(f"    - {_quoted(str(jar))}\n" for jar in jars)
    streams = "".join(_stream(table) for table in TABLES)
    return f"""\
# Ingest of the demo: `isotherm-ingest run streams.yaml`. Made again by each run.
pipeline: {PIPELINE}
catalog:
  name: {CATALOG}
  properties:
{properties}kafka:
  properties:
    bootstrap.servers: {_quoted(bootstrap_servers)}
  control_topic: {CONTROL_TOPIC}
  dead_letter_topic: {DEAD_LETTERS}
every: 1s               # in production 1m; the demo is impatient
batch_messages: 2500    # after an outage, several batches rather than one great one
spark:
  master: "local[2]"
  driver_memory: 1g
  jars:
{jar_lines}http:
  host: 127.0.0.1
  port: {port}
streams:
{streams}"""


def _stream(table: ShopTable) -> str:
    # A later table has no stream of its own: the last one takes whatever the shop has not had before.
    name, lake_name = (".*", f"{NAMESPACE}.{{table}}") if table.is_later else (table.name, table.lake_name)
    topic = f"{TOPIC_PREFIX}.{SCHEMA}.".replace(".", "\\.") + name
    lines = [
        f"  - topics: {_quoted(topic)}",
        f"    table: {_quoted(lake_name)}",
        f"    mode: {table.mode}",
        f"    partition_by: {_quoted(list(table.partition_by))}",
    ]
    if table.event_time:
        lines.append(f"    event_time: {table.event_time}")
    if table.names:
        lines.append(f"    names: {_quoted(table.names)}")
    return "\n".join(lines) + "\n"


def _timer_yaml(folder: DemoFolder, jars: list[Path]) -> str:
    tables = "".join(f"  - {table.lake_name}\n" for table in TABLES)
    return f"""\
# Maintenance without Isotherm: `python -m isotherm.demo.timer timer.yaml`. Made again by each run that has it.
every_s: 30             # an hour of order time is six seconds here: so each five hours, as many a scheduler has it
catalog: {CATALOG}
tables:
{tables}rewrite_data_files:     # what the policy in policies/shop.yaml says, in the words of Iceberg's procedure
  target-file-size-bytes: 16777216
  min-input-files: 2
  delete-ratio-threshold: 0.01
  remove-dangling-deletes: "true"
expire_snapshots:
  older_than_s: {KEEP_FOR_S}
  retain_last: {KEEP_LAST}
spark:                  # as ingest has it
  spark.master: "local[2]"
  spark.driver.memory: 1g
  spark.driver.host: 127.0.0.1
  spark.driver.bindAddress: 127.0.0.1
  spark.driver.extraClassPath: {_quoted(":".join(map(str, jars)))}
  spark.driver.extraJavaOptions: "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
  spark.local.dir: {_quoted(str(folder.root / "timer"))}
  spark.log.level: ERROR
  spark.ui.enabled: "false"
  spark.ui.showConsoleProgress: "false"
  spark.sql.session.timeZone: UTC
  spark.sql.shuffle.partitions: "2"
  spark.sql.extensions: org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
  spark.sql.catalog.{CATALOG}: org.apache.iceberg.spark.SparkCatalog
  spark.sql.catalog.{CATALOG}.type: jdbc
  spark.sql.catalog.{CATALOG}.uri: {_quoted(f"jdbc:sqlite:{folder.root / 'catalog.db'}")}
  spark.sql.catalog.{CATALOG}.jdbc.schema-version: V1
  spark.sql.catalog.{CATALOG}.jdbc.busy_timeout: "30000"    # that SQLite is one file is nobody's failure
  spark.sql.catalog.{CATALOG}.warehouse: {_quoted(folder.catalog_properties["warehouse"])}
  spark.sql.catalog.{CATALOG}.cache-enabled: "false"
"""


GRACE_S = 20
"""How long the files of an expired snapshot stay: a query that began before may read them so long."""
KEEP_FOR_S = 40
KEEP_LAST = 5

POLICY = f"""\
# yaml-language-server: $schema=../policy.schema.json
# The rules for the shop's tables. An hour of order time goes by in some seconds here, so everything is short; in
# production the defaults are a good beginning: quiet_for 15m, min_files learned, keep_for 7d, delete_after 1h.
tables: shop.*
override: [expire.keep_for, expire.delete_after]   # below their floors; a demo of three minutes has no history to lose
cold:
  after: 1             # one whole interval between a partition's end and the stream
  quiet_for: 5s
  quiet_commits: 1
compact:
  target_file_size: 16MiB
  min_files: 2
  fill_files: 2
  rest: 10s
  max_delete_ratio: 0.01
expire:
  keep_for: {KEEP_FOR_S}s
  keep_last: {KEEP_LAST}
  at_once: 5
  every: 0s
  delete_after: {GRACE_S}s
"""

CUSTOMERS_POLICY = """\
# yaml-language-server: $schema=../policy.schema.json
# Beside shop.yaml. Customers lie in four buckets, which each batch writes, however long it takes: none ever turns cold. So
# the daemon asks ingest to leave this table alone for some seconds. Its rows come so much later then, a tenth of the time
# at most.
tables: shop.customers
cold:
  quiet_for: 60s
compact:
  ask_writer: 30s
"""
