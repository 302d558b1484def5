"""How long a change takes from Kafka into its table, and what Iceberg's sink for Kafka Connect takes for an append."""

import random
import time
from functools import partial

from ingesting import (
    ROUNDS,
    bench,
    family_used_s,
    ingest_and_announce,
    send_rows,
    stream,
)
from measure import quantile, row

from ingest import MESSAGES, rates, send_spread
from isotherm.contract.summary import INGEST_TOKEN
from isotherm.demo.stack import Process
from isotherm.demo.stack.connect import JSON_WITH_SCHEMAS, Connect
from isotherm_ingest.tables import offset_vector
from isotherm_ingest.tables.lake import summary_of
from support.changes import Source
from support.iceberg_sink import sink_jars
from support.ingest_lab import read_topic

PER_S, FOR_S, EVERY = 1_000, 120, "5s"
ROWS = 20_000
"""Of each table, before it begins."""
COMMIT_EVERY_MS = 10_000
COMMITTED_WITHIN_S = 600


def benchmarks(say):
    with bench() as stand:
        return [*against_sink(stand, say), *lag(stand, say)]


def lag(stand, say):
    """From the message's timestamp to that of the snapshot that has it; half of the changes are a mirror's."""
    say(f"{PER_S:,} changes a second for {FOR_S} s, a window of {EVERY}")
    lab = stand.lab_of(stream("changelog", "log"), stream("mirror", "now"))
    log, now = Source("log"), Source("now")
    lab.make_topics(log.table, now.table)
    send_rows(lab, (log, now), ROWS, 0)
    ingest_and_announce(lab)
    process = stand.start_ingest(lab, EVERY)
    try:
        before = family_used_s(process.pid)
        send_steadily(lab, log, now)
        process.wait_until(lambda: all(not waits(lab, one.table) for one in (log, now)), COMMITTED_WITHIN_S)
        used = family_used_s(process.pid) - before
    finally:
        process.stop(120)
    rows = [row(f"ingest: {PER_S:,} changes a second", used / FOR_S, "cores")]
    for source, mode in ((log, "changelog"), (now, "mirror")):
        waited = lags_s(lab, source.table)
        name = f"ingest: lag at {PER_S:,} changes a second, every {EVERY}, {mode}"
        rows += [row(f"{name}, p{part}", quantile(waited, part / 100), "s") for part in (50, 99)]
    return rows


def send_steadily(lab, log, now):
    """Inserts into the one table, and updates of the other's rows, at an even pace."""
    chosen = random.Random(1)
    started = time.monotonic()
    for number in range(PER_S * FOR_S // 2):
        time.sleep(max(0.0, started + number * 2 / PER_S - time.monotonic()))
        at = chosen.randrange(ROWS)
        for source, (key, value) in (
            (log, log.insert(ROWS + number, 1)),
            (now, now.update(at, name=f"x{number}")),
        ):
            lab.producer.produce(lab.topic(source.table), key=key, value=value)
        lab.producer.poll(0)
    lab.producer.flush()


def reached(lab, table):
    """By snapshot, the oldest first: when it was committed, and the offset that the table needs next."""
    position = (lab.topic(table), 0)
    return [
        (
            one.timestamp_ms,
            offset_vector.next_offset(offset_vector.decode(summary_of(one)[INGEST_TOKEN]).vector, position),
        )
        for one in lab.snapshots(table)
    ]


def waits(lab, table):
    """Messages of a topic that are not in its table."""
    return end_of(lab, table) - reached(lab, table)[-1][1]


def end_of(lab, table):
    topic = lab.topic(table)
    return lab.broker.ends([topic])[topic, 0]


def lags_s(lab, table):
    """Of each message since the rows of before: how long it took."""
    sent_ms = [letter.timestamp for letter in read_topic(lab.kafka, lab.topic(table))]
    found, first = [], ROWS
    for committed_ms, following in reached(lab, table):
        found += [(committed_ms - one) / 1000 for one in sent_ms[first:following]]
        first = max(first, following)
    assert len(found) == len(sent_ms) - ROWS
    return found


def against_sink(stand, say):
    """The same messages by Iceberg's sink, which a transform of Debezium's hands the new row and the op."""
    say(f"{MESSAGES:,} messages appended, and Iceberg's sink for Kafka Connect with the same")
    lab = stand.lab("changelog")
    lab.make_topics("log", partitions=4)
    source, table = Source("log"), f"bench.sink_{lab.name}"
    stand.spark.sql(
        f"CREATE TABLE lake.{table} (id BIGINT, name STRING, amount DECIMAL(10, 2), at TIMESTAMP, tags ARRAY<STRING>, "
        "paid BOOLEAN, __op STRING) USING iceberg PARTITIONED BY (days(at))"
    )
    connect = worker(stand)
    connect.start()
    ours, theirs = [], []
    try:
        stand.leave_out(connect.process)
        connect.start_connector("sink", sink_config(stand, lab.topic("log"), table))
        for lap in range(ROUNDS):
            before = family_used_s(connect.process.pid)
            send_spread(lab, source, lap)
            wait_for_rows(connect.process, lab.lake, table, (lap + 1) * MESSAGES)
            theirs.append(family_used_s(connect.process.pid) - before)
            ours.append(stand.cpu_s(partial(ingest_and_announce, lab)))
    finally:
        connect.stop()
    assert len(lab.rows("log")) == stand.spark.table(f"lake.{table}").count() == ROUNDS * MESSAGES
    assert (
        stand.spark.sql(
            f"SELECT id, amount, at, tags FROM lake.{lab.name}.log EXCEPT ALL SELECT id, amount, at, tags FROM lake.{table}"
        ).count()
        == 0
    )
    lab.close()
    return [
        rates("ingest: append against Iceberg's sink for Kafka Connect", MESSAGES, "messages", ours, theirs)
    ]


def worker(stand):
    """A Connect worker with the sink; Debezium's transforms are beside its connector."""
    folder = stand.root / "connect"
    return Connect(
        folder,
        stand.kafka.bootstrap_servers,
        worker=JSON_WITH_SCHEMAS,
        plugins={"iceberg": sink_jars(folder)},
        heap_mb=1024,
    )


def sink_config(stand, topic, table):
    return {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "topics": topic,
        "consumer.override.auto.offset.reset": "earliest",
        "transforms": "unwrap",
        "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
        "transforms.unwrap.add.fields": "op",
        "iceberg.tables": table,
        "iceberg.catalog": "lake",
        "iceberg.catalog.type": "jdbc",
        "iceberg.catalog.uri": "jdbc:sqlite:" + stand.properties["uri"].removeprefix("sqlite:///"),
        "iceberg.catalog.warehouse": stand.properties["warehouse"],
        "iceberg.catalog.jdbc.schema-version": "V1",
        "iceberg.control.topic": f"{table}.control",
        "iceberg.control.commit.interval-ms": COMMIT_EVERY_MS,
    }


def wait_for_rows(process: Process, lake, table, count):
    process.wait_until(lambda: lake.load(table).rows >= count, COMMITTED_WITHIN_S, f"has {count:,} rows")
