"""Two tables that several topics bring, and what befalls them: time, an expiry, Kafka's retention."""

from support.messages import Message, envelope
from support.pipelines import CONFIG

FIRST, SECOND = "shop.public.s1", "shop.public.s2"
SCHEMAS = {"a": 11, "b": 12}


def configured(on_hole):
    return CONFIG.replace(
        'table: "shop.{table}"', f'table: "shop.{{table}}", mode: changelog, on_hole: {on_hole}'
    )


def change(topic, offset, table, partition=0):
    return Message(topic, offset, partition, schema=SCHEMAS[table], value=envelope(table, ("id", "int64")))


def later(pipeline, minutes=4):
    for _ in range(minutes):
        pipeline.now_s += 130
        pipeline.minute()


def token_expires(pipeline, name):
    """As Iceberg's own expiry does it: with the snapshot, and nothing is kept."""
    table = pipeline.lake.tables[name]
    table.has, table.ids, table.is_cut = {}, {}, True


def retention_takes(pipeline, topic, start):
    pipeline.broker.kept_from[topic, 0] = start
    kafka = pipeline.session.kafka
    kafka[:] = [one for one in kafka if one.topic != topic or one.offset >= start]


def holes_of(said, table):
    return [one["hole"] for one in said if one["event"] == "changes_missing" and one["table"] == table]
