"""What a change costs: appends against a bare stream, upserts against MERGE; all in one session, in turns."""

import tempfile
from functools import partial
from types import SimpleNamespace

from ingesting import ROUNDS, bench, ingest_and_announce, median
from measure import row

from support.changes import Source
from support.upserts import Mirror

MESSAGES = 50_000
TARGET, CHANGES, DAYS = 5_000_000, 10_000, 40
MIRRORED = {"id": "BIGINT", "name": "STRING", "at": "TIMESTAMP", "note": "STRING"}
AT = f"timestamp_seconds(1704067200 + id * {DAYS} DIV {TARGET} * 86400 + id % 86400)"


def benchmarks(say):
    with bench() as stand:
        return [*appends(stand, say), *upserts(stand, say)]


def appends(stand, say):
    say(f"{MESSAGES:,} messages appended, and a bare stream of the same")
    lab = stand.lab("changelog")
    lab.make_topics("log", partitions=4)
    source, topic = Source("log"), lab.topic("log")
    table = f"lake.bench.bare_{lab.name}"
    stand.spark.sql(
        f"CREATE TABLE {table} (id BIGINT, name STRING, at TIMESTAMP, tags ARRAY<STRING>, paid BOOLEAN, op STRING, "
        "kafka_offset BIGINT) USING iceberg PARTITIONED BY (days(at))"
    )
    ours, theirs = [], []
    checkpoint = tempfile.mkdtemp(dir=stand.root)
    for lap in range(ROUNDS):
        send_spread(lab, source, lap)
        sides = [
            (ours, partial(ingest_and_announce, lab)),
            (theirs, partial(bare, stand, topic, table, checkpoint)),
        ]
        for taken, work in sides if lap % 2 else sides[::-1]:
            taken.append(stand.cpu_s(work))
    assert len(lab.rows("log")) == stand.spark.table(table).count() == ROUNDS * MESSAGES
    lab.close()
    return [rates("ingest: append against a bare stream", MESSAGES, "messages", ours, theirs)]


def send_spread(lab, source, lap):
    """New rows, of two days."""
    for number in range(MESSAGES):
        key, value = source.insert(lap * MESSAGES + number, number / MESSAGES * 48)
        lab.producer.produce(lab.topic(source.table), key=key, value=value)
        lab.producer.poll(0)
    lab.producer.flush()
    source.log.clear()


def rates(name, count, unit, ours, theirs):
    per_s = [count / median(runs) for runs in (ours, theirs)]
    return row(name, per_s[0], f"{unit}/CPU-s", per_s[1], per_s[0] / per_s[1])


def bare(stand, topic, table, checkpoint):
    """A stream that decodes the same columns and appends them, judging nothing."""
    image = "STRUCT<id: BIGINT, name: STRING, at: TIMESTAMP, tags: ARRAY<STRING>, paid: BOOLEAN>"
    frame = (
        stand.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", stand.kafka.bootstrap_servers)
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


def upserts(stand, say):
    rows = []
    for name, partition_by, spread in (
        ("scattered", "", f"(n * 104729 + {{lap}} * 31) % {TARGET}"),
        ("pruned", "days(at)", f"{TARGET} - 1 - (n * 7 + {{lap}} * 13) % ({TARGET} DIV {DAYS})"),
    ):
        say(f"{CHANGES:,} changes into {TARGET:,} rows, {name}, and MERGE")
        mirror, merged = _target(stand, partition_by), _target(stand, partition_by)
        ours, theirs = [], []
        for lap in range(ROUNDS):
            changes = stand.spark.sql(
                f"SELECT id, concat('x', id) AS name, {AT} AS at, 'n' AS note, n FROM (SELECT n, {spread.format(lap=lap)} AS id "
                f"FROM (SELECT id AS n FROM range({CHANGES})))"
            ).persist()
            changes.createOrReplaceTempView("changes_of_lap")
            new_rows = changes.toArrow()
            theirs.append(stand.cpu_s(partial(_merge, stand, merged)))
            ours.append(stand.cpu_s(partial(mirror.write_changes, new_rows)))
            changes.unpersist()
        rows.append(rates(f"ingest: upsert against MERGE, {name}", CHANGES, "changes", ours, theirs))
        for one in (mirror, merged):
            stand.spark.sql(f"DROP TABLE {one.spark_name} PURGE")
    return rows


def _target(stand, partition_by):
    key = ("id", "at") if partition_by else ("id",)
    folder = SimpleNamespace(pyiceberg_properties=stand.properties)
    made = Mirror(stand.spark, folder, partition_by, key, MIRRORED)
    stand.spark.sql(
        f"INSERT INTO {made.spark_name} SELECT id, concat('n', id), {AT}, sha2(CAST(id AS STRING), 256) FROM range({TARGET})"
    )
    return made


def _merge(stand, mirror):
    on = " AND ".join(f"t.{name} = s.{name}" for name in mirror.key)
    stand.spark.sql(
        f"MERGE INTO {mirror.spark_name} t USING changes_of_lap s ON {on} "
        "WHEN MATCHED THEN UPDATE SET t.name = s.name, t.note = s.note "
        "WHEN NOT MATCHED THEN INSERT (id, name, at, note) VALUES (s.id, s.name, s.at, s.note)"
    )
