"""What ingest costs: appends against a bare stream, upserts against MERGE, many small tables, and a turn without work.

CPU seconds of this process and Spark's, the broker's left out; all of it on one broker and one session, in turns.
"""

import json
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import psutil
from measure import row

from isotherm.demo.stack import Stack, find_java, jar_paths
from isotherm.runtime import logs
from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.session import start_session
from isotherm_ingest.streams import StreamsConfig
from support.changes import Source
from support.ingest_lab import Lab
from support.upserts import Mirror

MESSAGES, ROUNDS = 50_000, 4
TABLES = (1, 10, 40)
ROWS_A_TABLE = 50
TARGET, CHANGES = 1_000_000, 10_000
IDLE_TOPICS, IDLE_TURNS = 200, 50
MIRRORED = {"id": "BIGINT", "name": "STRING", "at": "TIMESTAMP", "note": "STRING"}
AT = f"timestamp_seconds(1704067200 + id * 40 DIV {TARGET} * 86400 + id % 86400)"


def benchmarks(say):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        find_java()
        logs.configure("ERROR", program="bench")
        with Stack(root / "stack", postgres=False, connect=False) as stack:
            bench = Bench(root, stack.kafka)
            try:
                return [
                    *appends(bench, say),
                    *upserts(bench, say),
                    *small_tables(bench, say),
                    *idle(bench, say),
                ]
            finally:
                bench.spark.stop()


class Bench:
    """A session as ingest has it, and the CPU time of all but the broker."""

    def __init__(self, root, kafka):
        self.kafka = kafka
        self.properties = {
            "type": "sql",
            "uri": f"sqlite:///{root}/catalog.db",
            "warehouse": f"file://{root}/warehouse",
        }
        jars = [str(jar) for jar in jar_paths("spark", root)]
        text = f"""
pipeline: bench
catalog: {{name: lake, properties: {json.dumps(self.properties)}}}
kafka: {{properties: {{bootstrap.servers: "{kafka.bootstrap_servers}"}}}}
spark: {{driver_memory: 2g, jars: {json.dumps(jars)}}}
streams: [{{topics: "x", table: "bench.x"}}]
"""
        self._broker = psutil.Process().children(recursive=True)
        self.spark = start_session(parse_yaml(text, "bench", StreamsConfig))
        self.spark.sparkContext.setLogLevel("ERROR")

    def lab(self, mode, partition_by='["days(at)"]'):
        streams = f'  - {{topics: "NS\\\\.public\\\\..*", table: "NS.{{table}}", mode: {mode}, partition_by: {partition_by}}}'
        return Lab(self.kafka, self.spark, SimpleNamespace(pyiceberg_properties=self.properties), streams)

    def cpu_s(self, work):
        """CPU seconds of a piece of work."""
        before = self._used_s()
        work()
        return self._used_s() - before

    def _used_s(self):
        used = 0.0
        for one in [psutil.Process(), *psutil.Process().children(recursive=True)]:
            if one in self._broker:
                continue
            try:
                times = one.cpu_times()
            except psutil.Error:
                continue
            used += times.user + times.system + times.children_user + times.children_system
        return used


def median(runs):
    """Without the first, in which code is compiled and workers start."""
    return statistics.median(runs[1:])


def appends(bench, say):
    say(f"{MESSAGES:,} messages appended, and a bare stream of the same")
    lab = bench.lab("changelog")
    lab.make_topics("log", partitions=4)
    source, topic = Source("log"), lab.topic("log")
    table = f"lake.bench.bare_{lab.name}"
    bench.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
    bench.spark.sql(
        f"CREATE TABLE {table} (id BIGINT, name STRING, at TIMESTAMP, tags ARRAY<STRING>, paid BOOLEAN, op STRING, "
        "kafka_offset BIGINT) USING iceberg PARTITIONED BY (days(at))"
    )
    ours, theirs = [], []
    checkpoint = tempfile.mkdtemp()
    for lap in range(ROUNDS):
        for number in range(MESSAGES):
            key, value = source.insert(lap * MESSAGES + number, number / MESSAGES * 48)
            lab.producer.produce(topic, key=key, value=value)
            lab.producer.poll(0)
        lab.producer.flush()
        source.log.clear()
        sides = [(ours, lab.ingest), (theirs, lambda: bare(bench, topic, table, checkpoint))]
        for taken, work in sides if lap % 2 else sides[::-1]:
            taken.append(bench.cpu_s(work))
    assert len(lab.rows("log")) == bench.spark.table(table).count() == ROUNDS * MESSAGES
    lab.close()
    per_s = MESSAGES / median(ours), MESSAGES / median(theirs)
    return [
        row("ingest: append against a bare stream", per_s[0], "messages/CPU-s", per_s[1], per_s[0] / per_s[1])
    ]


def bare(bench, topic, table, checkpoint):
    """A stream that decodes the same columns and appends them, judging nothing."""
    image = "STRUCT<id: BIGINT, name: STRING, at: TIMESTAMP, tags: ARRAY<STRING>, paid: BOOLEAN>"
    frame = (
        bench.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bench.kafka.bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr(
            f"from_json(CAST(value AS STRING), 'payload STRUCT<after: {image}, op: STRING>').payload AS p",
            "offset",
        )
        .selectExpr("p.after.*", "p.op AS op", "offset AS kafka_offset")
    )
    writer = frame.writeStream.format("iceberg").option("checkpointLocation", checkpoint)
    writer.option("fanout-enabled", "true").trigger(availableNow=True).toTable(table).awaitTermination()


def upserts(bench, say):
    rows = []
    for name, partition_by, spread in (
        ("scattered", "", f"(n * 104729 + {{lap}} * 31) % {TARGET}"),
        ("pruned", "days(at)", f"{TARGET} - 1 - (n * 7 + {{lap}} * 13) % ({TARGET} DIV 40)"),
    ):
        say(f"{CHANGES:,} changes into {TARGET:,} rows, {name}, and MERGE")
        mirror, merged = _target(bench, partition_by), _target(bench, partition_by)
        took = {"ours": [], "theirs": []}
        for lap in range(ROUNDS):
            changes = bench.spark.sql(
                f"SELECT id, concat('x', id) AS name, {AT} AS at, 'n' AS note, n FROM (SELECT n, {spread.format(lap=lap)} AS id "
                f"FROM (SELECT id AS n FROM range({CHANGES})))"
            ).persist()
            changes.createOrReplaceTempView("changes_of_lap")
            new_rows = changes.toArrow()
            took["theirs"].append(bench.cpu_s(partial(_merge, bench, merged)))
            took["ours"].append(bench.cpu_s(partial(mirror.write_changes, new_rows)))
            changes.unpersist()
        per_s = {side: CHANGES / median(runs) for side, runs in took.items()}
        rows.append(
            row(
                f"ingest: upsert against MERGE, {name}",
                per_s["ours"],
                "changes/CPU-s",
                per_s["theirs"],
                per_s["ours"] / per_s["theirs"],
            )
        )
    return rows


def _target(bench, partition_by):
    key = ("id", "at") if partition_by else ("id",)
    folder = SimpleNamespace(pyiceberg_properties=bench.properties)
    made = Mirror(bench.spark, folder, partition_by, key, MIRRORED)
    bench.spark.sql(
        f"INSERT INTO {made.spark_name} SELECT id, concat('n', id), {AT}, sha2(CAST(id AS STRING), 256) FROM range({TARGET})"
    )
    return made


def _merge(bench, mirror):
    on = " AND ".join(f"t.{name} = s.{name}" for name in mirror.key)
    bench.spark.sql(
        f"MERGE INTO {mirror.spark_name} t USING changes_of_lap s ON {on} "
        "WHEN MATCHED THEN UPDATE SET t.name = s.name, t.note = s.note "
        "WHEN NOT MATCHED THEN INSERT (id, name, at, note) VALUES (s.id, s.name, s.at, s.note)"
    )


def small_tables(bench, say):
    rows = []
    for mode in ("changelog", "mirror"):
        for count in TABLES:
            say(f"{count} tables of {ROWS_A_TABLE} rows a batch, {mode}")
            lab = bench.lab(mode)
            names = [f"t{number}" for number in range(count)]
            lab.make_topics(*names)
            sources = [Source(name) for name in names]
            taken = []
            for lap in range(ROUNDS):
                for source in sources:
                    for number in range(ROWS_A_TABLE):
                        key, value = source.insert(lap * ROWS_A_TABLE + number, lap)
                        lab.producer.produce(lab.topic(source.table), key=key, value=value)
                lab.producer.flush()
                taken.append(bench.cpu_s(lab.ingest))
            lab.close()
            rows.append(
                row(
                    f"ingest: a batch of {count} small tables, {mode}", median(taken) / count, "CPU-s a table"
                )
            )
    return rows


def idle(bench, say):
    say(f"turns in which nothing is due, {IDLE_TOPICS} topics of 6 partitions")
    lab = bench.lab("changelog")
    lab.make_topics(*(f"t{number}" for number in range(IDLE_TOPICS)), partitions=6)
    lab.driver.turn(time.monotonic())

    def turns():
        for _ in range(IDLE_TURNS):
            lab.driver.turn(time.monotonic())

    taken = [bench.cpu_s(turns) / IDLE_TURNS for _ in range(ROUNDS)]
    lab.close()
    return [
        row(f"ingest: a turn in which nothing is due, {IDLE_TOPICS} topics", median(taken) * 1000, "CPU-ms")
    ]
