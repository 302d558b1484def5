"""What a window costs: events into a table of minutes, against Spark's stateful aggregate of the same, in turns."""

import json
import tempfile
from functools import partial

from ingesting import ROUNDS, bench, ingest_and_announce

from ingest import rates
from isotherm.runtime import clock
from isotherm_ingest.queries.queries import Queries

EVENTS, SENSORS, MINUTES = 50_000, 100, 10
STREAMS = r"""
  - topics: NS\.public\.events
    table: NS.events
    mode: changelog
    format: json
    envelope: none
    columns: {sensor: STRING, at: TIMESTAMP(ms), celsius: DOUBLE}
    partition_by: [days(at)]
queries:
  - table: NS.minutes
    key: [minute, sensor]
    sql: |
      SELECT date_trunc('MINUTE', at) AS minute, sensor, count(*) AS readings, max(celsius) AS hottest FROM NS.events
      WHERE at >= {first:minute} AND at < {last:minute} + INTERVAL 1 MINUTE GROUP BY 1, 2
    changes: {NS.events: "SELECT date_trunc('MINUTE', at) AS minute, sensor FROM changes"}
"""


def benchmarks(say):
    with bench() as stand:
        say(f"{EVENTS:,} events a batch into minutes of {SENSORS} sensors, and Spark's stateful aggregate")
        lab = stand.lab_of(STREAMS)
        lab.make_topics("events", partitions=4)
        queries = Queries(lab.config, stand.spark, lab.tools, lab.outbox, lab.broker)
        theirs = Stateful(stand, lab.topic("events"), f"lake.bench.minutes_{lab.name}")
        whole, alone, stateful = [], [], []
        for lap in range(ROUNDS):
            send(lab, lap)
            if lap % 2:
                stateful.append(stand.cpu_s(theirs.turn))
            copied = stand.cpu_s(partial(ingest_and_announce, lab))
            alone.append(stand.cpu_s(partial(turn, queries)))
            whole.append(copied + alone[-1])
            if not lap % 2:
                stateful.append(stand.cpu_s(theirs.turn))
        told = [
            sorted(tuple(row) for row in stand.spark.table(name).collect())
            for name in (theirs.table, f"lake.{lab.name}.minutes")
        ]
        assert told[0] == told[1]
        assert sum(row[2] for row in told[0]) == ROUNDS * EVENTS
        queries.stop()
        lab.close()
    return [
        rates(
            "querying: windows, with the events' own table, against Spark's state",
            EVENTS,
            "events",
            whole,
            stateful,
        ),
        rates("querying: windows alone, against Spark's state", EVENTS, "events", alone, stateful),
    ]


def turn(queries):
    """A look at all queries, long after the last one."""
    queries.turn(clock.monotonic_s() * 1e6)


def send(lab, lap):
    """Events of ten minutes, a tenth of them from the ten minutes before."""
    for number in range(EVENTS):
        ms = 1_767_225_600_000 + (lap * MINUTES - (number % 10 == 0) * MINUTES) * 60_000
        ms += number * 7919 % (MINUTES * 60_000)
        event = {"sensor": f"s{number % SENSORS}", "at": ms, "celsius": number % 997 / 8}
        lab.producer.produce(
            lab.topic("events"), key=event["sensor"].encode(), value=json.dumps(event).encode()
        )
        lab.producer.poll(0)
    lab.producer.flush()


class Stateful:
    """A streaming query of Spark's: state beside the table, MERGE of what a batch updates."""

    def __init__(self, stand, topic, table):
        self._stand, self._topic, self.table = stand, topic, table
        self._checkpoint = tempfile.mkdtemp(dir=stand.root)
        stand.spark.sql(
            f"CREATE TABLE {table} (minute TIMESTAMP, sensor STRING, readings BIGINT, hottest DOUBLE) USING iceberg "
            "TBLPROPERTIES ('write.merge.mode'='merge-on-read')"
        )

    def turn(self):
        """A batch of all that waits."""
        spark = self._stand.spark
        events = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self._stand.kafka.bootstrap_servers)
            .option("subscribe", self._topic)
            .option("startingOffsets", "earliest")
            .load()
            .selectExpr("from_json(CAST(value AS STRING), 'sensor STRING, at BIGINT, celsius DOUBLE') AS e")
            .selectExpr("e.sensor", "timestamp_millis(e.at) AS at", "e.celsius")
            .withWatermark("at", "1 hour")
        )
        minutes = events.groupBy("sensor", self._window()).agg({"*": "count", "celsius": "max"})
        told = minutes.selectExpr(
            "window.start AS minute", "sensor", "`count(1)` AS readings", "`max(celsius)` AS hottest"
        )
        writer = told.writeStream.outputMode("update").foreachBatch(self._merge)
        writer.option("checkpointLocation", self._checkpoint).trigger(
            availableNow=True
        ).start().awaitTermination()

    def _window(self):
        from pyspark.sql.functions import window

        return window("at", "1 minute")

    def _merge(self, rows, _):
        rows.createOrReplaceTempView("updated_minutes")
        rows.sparkSession.sql(
            f"MERGE INTO {self.table} t USING updated_minutes s ON t.minute = s.minute AND t.sensor = s.sensor "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
