"""Changes as Debezium's connector for MongoDB documents them. No MongoDB has sent them."""

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from isotherm_ingest.decode.avro import Avro
from isotherm_ingest.decode.debezium_messages import decoder
from isotherm_ingest.decode.debezium_schema import change_schema
from isotherm_ingest.decode.kinds import SchemaError
from isotherm_ingest.decode.statement import Wanted
from isotherm_ingest.workers.raw_messages import Sorter
from support.avro import confluent, written
from support.connectors import groups, told
from support.documents import DESCRIPTION, SOURCE, change
from support.wire import arrow, decoded, from_kafka

COLUMNS = {"_id": "STRING", "document": "STRING"}
OBJECT = '{"$oid": "596e275826f08b2730779e1f"}'
IDS = [
    ("1004", {"$numberLong": "1004"}),
    ("12.34", 12.34),
    ('"1234"', "1234"),
    ('{"hi": "kafka", "nums": [10.0]}', {"hi": "kafka", "nums": [10.0]}),
    (OBJECT, {"$oid": "596e275826f08b2730779e1f"}),
    ('{"$binary": "a2Fma2E=", "$type": "00"}', {"$binary": "a2Fma2E=", "$type": "00"}),
]


@pytest.mark.parametrize(("key", "in_document"), IDS, ids=[one[0] for one in IDS])
def test_a_document_is_a_row_of_its_id_and_its_text(key, in_document):
    """The id is spelled as the key spells it; in the document it may look otherwise."""
    first, second = (
        json.dumps({"_id": in_document, "name": name, "a": [1, {"b": "ä"}]}) for name in ("Anne", "Bo")
    )
    table, rows = told(
        change("r", key, after=first, snapshot="true"),
        change("c", key, after=first),
        change("u", key, after=second, update=DESCRIPTION),
        change("u", key, before=first, after=second, update=DESCRIPTION),
        change("d", key, before=second),
        change("d", key),
    )

    assert table == COLUMNS
    assert [(row["_id"], row["document"]) for row, _ in rows] == [
        (key, text) for text in (first, first, second, second, second, None)
    ]
    assert [told_["op"] for _, told_ in rows] == ["r", "c", "u", "u", "d", "d"]
    assert all(told_["problem"] is None and told_["kept"] is None for _, told_ in rows)
    assert {told_["ts"] for _, told_ in rows} == {datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)}


def test_a_table_is_named_for_the_database_and_the_collection():
    (group,) = groups(change("c", OBJECT, after="{}"))
    schema = group.format.schema(*group.sample())

    assert (schema.source_schema, schema.source_table, schema.key) == ("inventory", "customers", ("_id",))


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (change("u", OBJECT, update=DESCRIPTION), "no_row:the change has no row image"),
        ((None, change("c", OBJECT, after="{}")[1]), "null_key:_id"),
        ((b"{}", change("c", OBJECT, after="{}")[1]), "null_key:_id"),
        (change("c", OBJECT, after="{}", collection="orders"), "other_table:the topic holds changes of two"),
        ((change("c", OBJECT)[0], change("c", OBJECT, after="{}")[1][:-9]), "undecodable:the payload does"),
    ],
    ids=[
        "no document, as by capture.mode=change_streams",
        "no key",
        "another key",
        "another collection",
        "cut",
    ],
)
def test_what_is_no_row_is_a_dead_letter_alone(message, problem):
    """An update that tells nothing but what it changed cannot be a row: nobody has the rest of the document."""
    good = change("c", OBJECT, after="{}")
    _, rows = told(good, message, good)

    assert [told_["problem"] is None for _, told_ in rows] == [True, False, True]
    assert rows[1][1]["problem"].startswith(problem)
    assert rows[1][0] is None


def test_a_changelog_has_documents_and_needs_keys_too():
    messages = [change("c", OBJECT, after="{}"), change("d", OBJECT), (None, change("d", OBJECT)[1])]
    _, rows = told(*messages, key=(), keeps=False)

    assert [row and row["_id"] for row, _ in rows] == [OBJECT, OBJECT, None]
    assert [told_["problem"] for _, told_ in rows] == [None, None, "null_key:_id"]


# In Avro

KEY = {"type": "record", "name": "Key", "namespace": "a.b", "fields": [{"name": "id", "type": "string"}]}
OF_JSON = {"type": "string", "connect.version": 1, "connect.name": "io.debezium.data.Json"}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "fulfillment.inventory.customers",
    "fields": [
        {"name": "before", "type": ["null", OF_JSON], "default": None},
        {"name": "after", "type": ["null", OF_JSON], "default": None},
        {
            "name": "source",
            "type": {
                "type": "record",
                "name": "Source",
                "namespace": "io.debezium.connector.mongo",
                "fields": [
                    {"name": "ts_ms", "type": "long"},
                    {"name": "db", "type": "string"},
                    {"name": "collection", "type": "string"},
                ],
                "connect.name": "io.debezium.connector.mongo.Source",
            },
        },
        {"name": "op", "type": ["null", "string"], "default": None},
    ],
    "connect.name": "fulfillment.inventory.customers.Envelope",
}


@pytest.mark.parametrize("count", [1, 300], ids=["few", "many at once"])
def test_documents_in_avro_are_the_same_rows(count):
    form = Avro("confluent", schemas={1: json.dumps(ENVELOPE), 2: json.dumps(KEY)})
    source = {name: SOURCE[name] for name in ("ts_ms", "db", "collection")}
    key = confluent(2, written(KEY, {"id": OBJECT}))
    rows = [("c", None, '{"a": "ä"}'), ("u", '{"a": 1}', "{}"), ("d", None, None)] * count
    values = [
        confluent(1, written(ENVELOPE, {"before": before, "after": after, "source": source, "op": op}))
        for op, before, after in rows
    ]
    batch = from_kafka(*values).set_column(0, "key", pa.array([key] * len(rows), pa.binary()))
    (group,) = Sorter({"shop.public.orders": form}).groups(batch)
    schema = form.schema(*group.sample())
    columns = pa.schema([(name, arrow(kind)) for name, kind in COLUMNS.items()])
    found = decoded(decoder(schema, columns, Wanted(tuple(COLUMNS), ("_id",), True)), group.to_decode())

    assert (schema.source_schema, schema.source_table) == ("inventory", "customers")
    assert [(row["_id"], row["document"], told_["op"]) for row, told_ in found] == [
        (OBJECT, after, op) for op, _, after in rows
    ]
    assert all(told_["problem"] is None for _, told_ in found)


def test_the_schema_of_a_document_s_key_is_waited_for():
    """Whatever happens to a document, its id is in the key."""
    form = Avro("confluent", schemas={1: json.dumps(ENVELOPE)})
    source = {name: SOURCE[name] for name in ("ts_ms", "db", "collection")}
    value = confluent(1, written(ENVELOPE, {"before": None, "after": "{}", "source": source, "op": "c"}))
    sample, _ = form.sample([(value, confluent(2, written(KEY, {"id": OBJECT})), None)])

    assert form.has_deletes(sample)


def test_a_text_that_is_no_document_is_no_row():
    """Of a source that nobody knows: it is refused, as what is no row was before."""
    key, value = change("c", OBJECT, after="{}")
    other = value.replace(b"io.debezium.connector.mongo.Source", b"io.debezium.connector.other.Source")
    with pytest.raises(SchemaError, match="no Debezium change event"):
        change_schema(other.decode(), key.decode())

    of_source = ENVELOPE["fields"][2]
    bare = {**of_source, "type": {**of_source["type"], "fields": of_source["type"]["fields"][:2]}}
    envelope = {**ENVELOPE, "fields": [*ENVELOPE["fields"][:2], bare, ENVELOPE["fields"][3]]}
    form = Avro("confluent", schemas={1: json.dumps(envelope), 2: json.dumps(KEY)})
    with pytest.raises(SchemaError, match="no change event"):
        form.schema(json.dumps({"ids": [1, 2], "source": {"db": "inventory"}}), None)
