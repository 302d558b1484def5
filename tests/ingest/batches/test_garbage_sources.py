"""A change whose source is garbage is a dead letter alone, wherever it stands: in a group, before it, in another task, alone."""

import json

import pyarrow as pa
import pytest

from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.batches.routing import Routing
from isotherm_ingest.decode.debezium_messages import decoder
from isotherm_ingest.decode.statement import Wanted
from isotherm_ingest.streams import StreamsConfig
from isotherm_ingest.workers.decoding import Decoding
from isotherm_ingest.workers.raw_messages import Sorter
from isotherm_ingest.workers.tasks import SAMPLE, BatchTask
from support.avro import ENVELOPE, change, confluent, written
from support.declared import event
from support.wire import arrow, decoded, from_kafka, message

ORDERS = "shop.public.orders"
STREAMS = """\
pipeline: shop
catalog: {name: lake}
registry: {url: 'http://registry'}
kafka: {properties: {bootstrap.servers: unused}}
streams: [{topics: 'shop.*', table: '%s', mode: changelog, %s}]
"""
ROW = {"name": None, "amount": None, "at": None, "tags": None, "paid": None}
NULLABLE = json.loads(json.dumps(ENVELOPE))
(SOURCE,) = (one for one in NULLABLE["fields"] if one["name"] == "source")
SOURCE["type"]["fields"] = [
    {**one, "type": "string" if one["name"] == "connector" else ["null", one["type"]]}
    if isinstance(one["type"], str)
    else one
    for one in SOURCE["type"]["fields"]
]
SOURCE["type"] = ["null", SOURCE["type"]]
"""An envelope whose source may be null, and say nothing."""
FORMATS = {
    "avro": "format: avro",
    "json": "format: json, columns: {id: BIGINT}",
    "debezium-json": "format: debezium-json",
}
EVERY = pytest.mark.parametrize("name", FORMATS)


class Client:
    """Of a registry."""

    def schema(self, _):
        return json.dumps(NULLABLE)


def made(name, number, source):
    """A message with this source, in a format."""
    if name == "json":
        return json.dumps({**event(after={"id": number}), "source": source}).encode()
    whole = None if source is None else {**dict.fromkeys(GOOD), "ts_ms": None, "lsn": None, **source}
    if name == "debezium-json":
        told = json.loads(message([{"field": "id", "type": "int64"}], after={"id": number}))
        told["payload"]["source"] = whole
        return json.dumps(told, separators=(",", ":")).encode()
    of_avro = whole and {**whole, "connector": "postgresql"}
    return confluent(1, written(NULLABLE, {**change(after={**ROW, "id": number}), "source": of_avro}))


def batch_of(*values):
    """As the job reads them, without keys."""
    batch = from_kafka(*values)
    return batch.set_column(0, "key", pa.nulls(len(values), pa.binary()))


def routing(name, template):
    config = parse_yaml(STREAMS % (template, FORMATS[name]), "streams.yaml", StreamsConfig)
    return Routing(config, None, lambda _, stream: stream, Client())


def read(found, *tasks):
    """One batch, as the workers and the driver read it; gives the table, and of each message the id or the problem."""
    found.forget_old({ORDERS})
    for _ in range(5):
        routes, problems = found.told({ORDERS}, {})
        task = BatchTask({}, routes, problems, found.formats([ORDERS]))
        lines = [line for batches in tasks for line in Decoding(task).lines(batches)]
        samples = [one.data() for one in lines if one.kind == SAMPLE]
        if not samples:
            break
        found.learn([((topic, number), value, key) for topic, number, value, key in samples], set())
    else:
        raise AssertionError("the workers ask again and again")
    tables = [(group.schema, table, stream) for group, table, stream in found.of({ORDERS}, set())]
    if not tables:
        return None, [*problems.values()]
    ((schema, table, stream),) = tables
    types = {one.name: one.kind.type for one in schema.columns}
    rows = decoder(
        schema,
        pa.schema([(column, arrow(kind)) for column, kind in types.items()]),
        Wanted(tuple(types), (), False, stream.source_parts),
    )
    told = []
    for batches in tasks:
        for batch in batches:
            for group in Sorter(found.formats([ORDERS])).groups(batch):
                told += [
                    row["id"] if row else change["problem"].partition(":")[0]
                    for row, change in decoded(rows, group.to_decode())
                ]
    return table, told


GOOD = {"schema": "public", "db": "shop", "table": "orders"}
TEMPLATES = {"shop.{table}": "shop.orders", "shop.{schema}_{table}": "shop.public_orders"}


@EVERY
@pytest.mark.parametrize(
    ("template", "bad"),
    [
        ("shop.{schema}_{table}", {"schema": "a\0"}),
        *((template, bad) for template in TEMPLATES for bad in ({"table": ""}, {"table": "or\0ders"}, {})),
    ],
)
@pytest.mark.parametrize("where", ["beside", "before", "in another task", "in an earlier batch"])
def test_a_garbage_source_is_a_dead_letter_alone(name, template, bad, where):
    """Good ones would be dead letters, or go to a table that nobody has, until a restart."""
    garbage = made(name, 0, {**GOOD, **bad} if bad else {})
    good = [made(name, number, GOOD) for number in (1, 2)]
    found = routing(name, template)
    tasks = {
        "beside": [[batch_of(garbage, *good)]],
        "before": [[batch_of(garbage), batch_of(*good)]],
        "in another task": [[batch_of(garbage)], [batch_of(*good)]],
        "in an earlier batch": [[batch_of(*good)]],
    }[where]
    if where == "in an earlier batch":
        assert read(found, [batch_of(garbage)])[0] is None
        assert read(found, *tasks) == (TEMPLATES[template], [1, 2])
    else:
        assert read(found, *tasks) == (TEMPLATES[template], ["other_table", 1, 2])


@EVERY
@pytest.mark.parametrize("source", [None, {"schema": None, "table": None}, {"table": "a\0"}], ids=str)
def test_where_the_stream_names_the_table_a_source_may_be_anything_whoever_is_beside(name, source):
    """A change without one was a row beside others, and a dead letter alone."""
    odd, good = made(name, 1, source and {**GOOD, **source}), made(name, 2, GOOD)

    assert read(routing(name, "shop.fixed"), [batch_of(odd)]) == ("shop.fixed", [1])
    assert read(routing(name, "shop.fixed"), [batch_of(odd, good)]) == ("shop.fixed", [1, 2])
    assert read(routing(name, "shop.{table}"), [batch_of(odd)])[0] is None
    assert read(routing(name, "shop.{table}"), [batch_of(odd, good)]) == ("shop.orders", ["other_table", 2])
