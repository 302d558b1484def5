"""The Spark session of the driver: jars, catalog, and the settings that ingest's promises stand on."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from importlib.resources import files

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from isotherm_ingest.streams import StreamsConfig, spark_catalog

FORCED = {
    # Times without a zone are decoded as if they were UTC's.
    "spark.sql.session.timeZone": "UTC",
    # It would parse a message once for each column, and judge what is corrupt by that column alone.
    "spark.sql.optimizer.enableJsonExpressionOptimization": "false",
    "spark.sql.ansi.enabled": "true",
    # Keys and names are literals in our SQL. Spark would put other text in the place of `${…}` in them.
    "spark.sql.variable.substitute": "false",
    # Java's older dates know no 5 to 14 October 1582: a delete file would name another partition than its data file.
    "spark.sql.datetime.java8API.enabled": "true",
}
SECRETS = r"(?i)secret|password|token|access[.]?key|credential|authorization"
"""Properties whose values are nobody's to read, by their names. Spark's own words, and those of REST catalogs."""
DEFAULTS = {
    # In the event log, in the UI and in plans.
    "spark.redaction.regex": SECRETS,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A batch is small; each task more costs some 10 ms.
    "spark.sql.shuffle.partitions": "2",
    # Each of its stages is a job of its own, which costs more than it saves on small ones.
    "spark.sql.adaptive.enabled": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}
LOCAL = {
    # Nobody else has to reach this process. On a cluster, executors do: Spark takes the host's name there.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Where a task finds no memory, Spark ends the JVM, which is the driver's here: one table, or one message, would end
    # ingest of all of them, at each start. So the task alone fails, and its table is tried in smaller pieces. On a
    # cluster an executor ends, and comes again.
    "spark.executor.killOnFatalError.depth": "0",
}
WORKERS = {
    # Messages are decoded in Python, by Arrow and DuckDB.
    "spark.python.daemon.module": "isotherm_ingest.workers.warm_workers",
    # Bodies of a megabyte must not come to a worker by the ten thousand.
    "spark.sql.execution.arrow.maxBytesPerBatch": "32m",
}
JVM_ENDS_WITHIN_S = 10
JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
"""A driver that plans small batches on few cores: the optimizing compiler takes more than it gives (a batch of four
tables took 2.5 CPU-seconds without it and 5 with it, after ten batches). Its default code cache of 48 MB
is full after two minutes, and everything is interpreted from then on. Say your own options for large batches."""


def session_conf(config: StreamsConfig, submitted: Mapping[str, str] | None = None) -> dict[str, str]:
    """Every property of the session.

    Args:
        config: streams.yaml.
        submitted: what spark-submit was told, where it started us.
    """
    told = {key: value for key, value in (submitted or {}).items() if key != "spark.app.name"}
    master = told.get("spark.master", config.spark.master)
    local = master.startswith("local")
    name = f"spark.sql.catalog.{config.catalog.name}"
    conf = {
        "spark.app.name": f"isotherm-ingest {config.pipeline}",
        "spark.master": master,
        "spark.driver.memory": config.spark.driver_memory,
        **DEFAULTS,
        **(LOCAL if local else {}),
        **WORKERS,
        name: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{name}.{key}": value for key, value in spark_catalog(config.catalog).items()},
        **config.spark.conf,
        **told,
        **FORCED,
        # A cached table shows an old head, and a commit would be validated from it.
        f"{name}.cache-enabled": "false",
    }
    if config.spark.jars and local:
        # Nothing is copied then, and JDBC finds its driver.
        conf["spark.driver.extraClassPath"] = ":".join(config.spark.jars)
    elif config.spark.jars and "spark.jars" not in told:
        conf["spark.jars"] = ",".join(config.spark.jars)
    if config.spark.packages:
        conf["spark.jars.packages"] = ",".join(config.spark.packages)
    style = "log4j2-console.properties" if sys.stderr.isatty() else "log4j2-json.properties"
    log4j = files("isotherm_ingest").joinpath(style)
    options = conf.get("spark.driver.extraJavaOptions", JAVA_OPTIONS if local else "")
    if "log4j2.configurationFile" not in options:
        where = str(log4j).replace(" ", "%20")
        conf["spark.driver.extraJavaOptions"] = f"{options} -Dlog4j2.configurationFile=file://{where}".strip()
    return conf


def public(conf: Mapping[str, str]) -> dict[str, str]:
    """What the JVM is started with: a command line, which each user of the machine can read. It is told the rest later."""
    return {
        name: value
        for name, value in conf.items()
        if not name.startswith("spark.sql.catalog.") and not re.search(SECRETS, name)
    }


def start_session(config: StreamsConfig) -> SparkSession:
    """Start Spark in this process.

    A SIGTERM or SIGINT for the whole process group must not reach the JVM, or the batch in progress could not end.
    It inherits "ignored"; here, a signal that comes meanwhile waits until it can be handled again.
    """
    stops = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    handlers = {one: signal.signal(one, signal.SIG_IGN) for one in stops}
    try:
        conf = session_conf(config, _submitted())
        if conf["spark.master"].startswith("local"):
            os.environ["PYSPARK_PYTHON"] = sys.executable  # not whatever python3 the PATH has
        elif "spark.pyspark.python" in conf:
            # Only spark-submit does that by itself.
            os.environ["PYSPARK_PYTHON"] = conf["spark.pyspark.python"]
        if "PYSPARK_GATEWAY_PORT" not in os.environ:
            # Spark would start the JVM with all of it.
            started_with = SparkConf(loadDefaults=False).setAll(list(public(conf).items()))
            SparkContext._ensure_initialized(conf=started_with)  # noqa: SLF001 (there is no other way in)
        builder = SparkSession.builder
        for key, value in conf.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()
    finally:
        for one, handler in handlers.items():
            signal.signal(one, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, stops)


def _submitted() -> dict[str, str]:
    """What spark-submit was told, where it started us: its JVM runs already, and what we say would win over it."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    SparkContext._ensure_initialized()  # noqa: SLF001 (without it, SparkConf does not know that JVM)
    return dict(SparkConf().getAll())


def stop_session(spark: SparkSession) -> None:
    """Stop Spark, and wait until its JVM is gone: who sees us end may take the tables for quiet."""
    gateway = spark.sparkContext._gateway
    spark.stop()
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    gateway.shutdown()
    process.stdin.close()  # the JVM ends when it reads the end of it
    try:
        process.wait(JVM_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
