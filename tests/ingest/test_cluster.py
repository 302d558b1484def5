"""Ingest on a real cluster of two workers, started by spark-submit; one of them is lost in the middle of it."""

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from isotherm.contract.summary import INGEST_TOKEN
from isotherm.demo.stack import Kafka, Process
from isotherm_ingest.tables.offset_vector import decode
from support.changes import Source, latest
from support.spark_cluster import HERE, SPARK_HOME, Cluster

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.timeout(900)]

WITHIN_S = 600
"""On a machine that does much else; half a minute on a quiet one."""
MESSAGES = 12_000
"""Of each topic, in batches that are too large for one task."""
BATCH = 6_000
SUBMIT = Path(__file__).parents[2] / "deploy" / "submit.py"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path / "cluster", workers=2)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def running(
    cluster: Cluster, kafka: Kafka, lake_folder: Any, spark_jars: list[Path], tmp_path: Path
) -> Iterator[Process]:
    config = tmp_path / "streams.yaml"
    config.write_text(
        f"""
pipeline: spread
catalog: {{name: lake, properties: {json.dumps(lake_folder.pyiceberg_properties)}}}
kafka:
  properties: {{bootstrap.servers: "{kafka.bootstrap_servers}"}}
  control_topic: spread.control
  dead_letter_topic: spread.dead
every: 200ms
batch_messages: {BATCH}
http: {{port: 0}}
streams:
  - {{topics: "spread\\\\.public\\\\.log", table: "spread.{{table}}", mode: changelog, partition_by: ["days(at)"]}}
  - {{topics: "spread\\\\.public\\\\.now", table: "spread.{{table}}", mode: mirror}}
"""
    )
    said = {
        "spark.pyspark.python": sys.executable,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "768m",
        "spark.executor.memory": "512m",
    }
    options = [part for key, value in said.items() for part in ("--conf", f"{key}={value}")]
    jars = ["--jars", ",".join(map(str, spark_jars))]
    command = [
        SPARK_HOME / "bin" / "spark-submit",
        "--master",
        cluster.url,
        *jars,
        *options,
        SUBMIT,
        "run",
        config,
    ]
    process = Process("ingest", command, tmp_path / "ingest.log", environment=HERE)
    try:
        process.start()
        yield process
    finally:
        process.stop(5)  # spark-submit does not end by itself, and what was asked of it is judged by now


def test_a_worker_that_is_lost_in_the_middle_costs_no_row_and_doubles_none(
    running: Process, cluster: Cluster, kafka: Kafka, lake: Any
) -> None:
    log, now = Source("log"), Source("now")
    send(kafka, log, now)
    running.wait_until(lambda: running.has_logged(b'"batch_done"'), WITHIN_S, "has written a batch")
    cluster.workers[0].kill(signal.SIGKILL)
    running.wait_until(
        lambda: is_through(lake, "log") and is_through(lake, "now"), WITHIN_S, "has written all"
    )

    changes = lake.load_table("spread.log").scan().to_arrow()
    assert [*range(MESSAGES)] == sorted(changes["_offset"].to_pylist())
    assert latest(row for _, row in log.log) == latest(changes.select(list(log.columns)).to_pylist())
    assert latest(now.rows.values()) == latest(lake.load_table("spread.now").scan().to_arrow().to_pylist())
    assert running.has_logged(b"Lost executor")
    assert b"read_failed" not in running.log.read_bytes()


def send(kafka: Kafka, log: Source, now: Source) -> None:
    """Fill both topics: rows for the one, rows and updates of them for the other."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for source in (log, now):
        kafka.create_topic(f"spread.public.{source.table}")
    for number in range(MESSAGES):
        key = number * 7 % (MESSAGES // 3)
        change = now.update(key, name=f"x{number}") if key in now.rows else now.insert(key)
        for source, message in ((log, log.insert(number, number % 48)), (now, change)):
            producer.produce(f"spread.public.{source.table}", key=message[0], value=message[1])
        producer.poll(0)
    assert producer.flush(60) == 0


def is_through(lake: Any, table: str) -> bool:
    """Whether a table needs nothing more of its topic."""
    summary = lake.load_table(f"spread.{table}").current_snapshot().summary
    vector = decode(summary[INGEST_TOKEN]).vector
    return bool(vector[f"spread.public.{table}"][0] == MESSAGES)
