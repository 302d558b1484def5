"""Avro: how a message says its schema, what each type becomes, what each message becomes."""

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from isotherm_ingest.decode.avro import Avro
from isotherm_ingest.decode.debezium_messages import decoder
from isotherm_ingest.decode.kinds import SchemaError, kind_of
from isotherm_ingest.decode.statement import Wanted
from isotherm_ingest.workers.raw_messages import NO_SCHEMA, Sorter
from support.avro import ENVELOPE, KEY, change, confluent, envelope_of, written
from support.wire import PLACEHOLDER, arrow, decoded, from_kafka

TOPIC = "shop.public.orders"
ROW = {
    "id": 1,
    "name": "n",
    "amount": b"\x01\x02",
    "at": "2024-01-01T00:00:00Z",
    "tags": ["a", None],
    "paid": None,
}
TOLD = {**ROW, "amount": Decimal("2.58"), "at": datetime(2024, 1, 1, tzinfo=UTC)}


def form_of(*schemas, framing="confluent", envelope=True):
    """Ids begin at 1."""
    return Avro(framing, envelope, {number: json.dumps(one) for number, one in enumerate(schemas, 1)})


def groups(form, *values, keys=None, headers=None):
    batch = from_kafka(*values, headers=headers)
    keys = keys or [None] * len(values)
    return list(Sorter({TOPIC: form}).groups(batch.set_column(0, "key", pa.array(keys, pa.binary()))))


def rows_of(form, *values, keys=None, key=("id",), keeps=True, **wanted):
    """Of messages of one schema, what each becomes."""
    (group,) = groups(form, *values, keys=keys)
    schema = form.schema(*group.sample())
    table = {one.name: one.kind.type for one in schema.columns}
    columns = pa.schema([(name, arrow(kind)) for name, kind in table.items()])
    found = decoder(schema, columns, Wanted(tuple(table), tuple(key), keeps, **wanted))
    return decoded(found, group.to_decode())


def changes(*values, number=1):
    return [confluent(number, written(ENVELOPE, one)) for one in values]


def test_changes_are_those_of_their_json():
    values = changes(change(after=ROW), change("u", ROW, {**ROW, "name": PLACEHOLDER}), change("d", ROW))
    found = rows_of(form_of(ENVELOPE), *values)

    assert [row for row, _ in found] == [TOLD, {**TOLD, "name": None}, TOLD]
    assert [row["op"] for _, row in found] == ["c", "u", "d"]
    assert [row["kept"] for _, row in found] == [None, ["name"], None]
    assert {(row["ts"], row["lsn"]) for _, row in found} == {
        (datetime(1970, 1, 1, microsecond=5000, tzinfo=UTC), 9)
    }


@pytest.mark.parametrize("count", [1, 300], ids=["few", "many"])
def test_poison_between_good_changes_is_told_one_by_one(count):
    (good,) = changes(change(after=ROW))
    bad = {
        good[:-1]: "undecodable",
        good + b"\0": "undecodable",
        good[:5] + b"\0\0": "undecodable",
        changes(change(after=None))[0]: "no_row",
        changes(change("t", after=ROW))[0]: "unsupported_op",
        changes(change(after={**ROW, "at": "soon"}))[0]: "undecodable_value",
        changes(change(after=ROW, table="lines"))[0]: "other_table",
    }
    values = [one for text in bad for one in (good, text)] * count
    found = rows_of(form_of(ENVELOPE), *values)

    assert [row for row, _ in found[::2]] == [TOLD] * len(bad) * count
    problems = [told["problem"].partition(":")[0] for _, told in found[1::2]]
    assert problems == [*bad.values()] * count


def test_a_delete_without_an_old_row_deletes_what_its_key_says():
    values = changes(change(after=ROW), change("d"), change("d"))
    keys = [confluent(2, written(KEY, {"id": number})) for number in (7, 8)]
    found = rows_of(form_of(ENVELOPE, KEY), *values, keys=[keys[0], keys[1], confluent(2, b"\x80")])

    assert [(row and row["id"], told["problem"]) for row, told in found] == [
        (1, None), (8, None), (None, "no_row:the change has no row image"),
    ]  # fmt: skip


def test_events_without_an_envelope_are_rows():
    fields = [
        {"name": "sensor", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "celsius", "type": ["null", "double"]},
    ]
    schema = {"type": "record", "name": "Reading", "fields": fields}
    rows = [{"sensor": "a", "at": 1700000000123, "celsius": 0.5}, {"sensor": "b", "at": 0, "celsius": None}]
    values = [confluent(1, written(schema, row)) for row in rows]
    found = rows_of(
        form_of(schema, envelope=False),
        *values,
        values[0][:-1],
        keys=[b"any", None, confluent(9, b"")],
        keeps=False,
        key=(),
    )

    assert [row for row, _ in found] == [
        {"sensor": "a", "at": datetime.fromtimestamp(1700000000.123, UTC), "celsius": 0.5},
        {"sensor": "b", "at": datetime(1970, 1, 1, tzinfo=UTC), "celsius": None},
        None,
    ]
    assert [told["op"] for _, told in found] == ["c", "c", None]


DAYS = {"type": "int", "connect.name": "io.debezium.time.Date"}
MOMENT = datetime(2024, 2, 29, 12, 0, 0, 123000)  # noqa: DTZ001 (without a zone)
MICROS = 1709208000123000


@pytest.mark.parametrize(
    ("kind", "value", "column", "told"),
    [
        ("boolean", True, "BOOLEAN", True),
        ("int", -5, "INT", -5),
        ({"type": "int", "connect.type": "int16"}, 5, "INT", 5),
        ("long", 2**63 - 1, "BIGINT", 2**63 - 1),
        ("float", 0.5, "FLOAT", 0.5),
        ("double", 0.1, "DOUBLE", 0.1),
        ("double", float("inf"), "DOUBLE", float("inf")),
        ("string", 'a"\\é\0', "STRING", 'a"\\é\0'),
        ("bytes", b"\0\xff", "BINARY", b"\0\xff"),
        ({"type": "fixed", "name": "f", "size": 2}, b"ab", "BINARY", b"ab"),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B", "STRING", "B"),
        ({"type": "string", "logicalType": "uuid"}, "9f0c", "STRING", "9f0c"),
        ({"type": "int", "logicalType": "date"}, 19782, "DATE", date(2024, 2, 29)),
        (DAYS, 19782, "DATE", date(2024, 2, 29)),
        ({"type": "int", "logicalType": "time-millis"}, 5, "INT", 5),
        ({"type": "long", "logicalType": "timestamp-millis"}, MICROS // 1000, "TIMESTAMP", MOMENT.replace(tzinfo=UTC)),
        ({"type": "long", "logicalType": "timestamp-micros"}, MICROS, "TIMESTAMP", MOMENT.replace(tzinfo=UTC)),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, MICROS // 1000, "TIMESTAMP_NTZ", MOMENT),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, MICROS, "TIMESTAMP_NTZ", MOMENT),
        (
            {"type": "long", "logicalType": "timestamp-millis", "connect.name": "org.apache.kafka.connect.data.Timestamp"},
            MICROS // 1000, "TIMESTAMP_NTZ", MOMENT,
        ),
        ({"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}, MICROS, "TIMESTAMP_NTZ", MOMENT),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 1}, b"\xff", "DECIMAL(5,1)", Decimal("-0.1")),
        ({"type": "fixed", "name": "d", "size": 3, "logicalType": "decimal", "precision": 5, "scale": 2}, b"\0\1\0", "DECIMAL(5,2)", Decimal("2.56")),
        ({"type": "array", "items": "long"}, [1, 2], "ARRAY<BIGINT>", [1, 2]),
        ({"type": "array", "items": ["null", DAYS]}, [1, None], "ARRAY<DATE>", [date(1970, 1, 2), None]),
        ({"type": "map", "values": "int"}, {"a": 1}, "STRING", '{"a":1}'),
        ({"type": "record", "name": "i", "fields": [{"name": "B", "type": "bytes"}]}, {"B": b"\0"}, "STRING", '{"B":"AA=="}'),
        (["null", "long", "string"], "x", "STRING", "x"),
        (["null", "long", "string"], 7, "STRING", "7"),
        (
            {
                "type": "record", "name": "VariableScaleDecimal", "connect.name": "io.debezium.data.VariableScaleDecimal",
                "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
            },
            {"scale": 1, "value": b"\x0f"}, "STRING", "1.5",
        ),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("count", [1, 300], ids=["few", "many"])
def test_what_each_type_becomes(kind, value, column, told, count):
    optional = kind if isinstance(kind, list) else ["null", kind]
    schema = {"type": "record", "name": "r", "fields": [{"name": "X", "type": optional}]}
    form = form_of(schema, envelope=False)
    (found,) = form.schema(json.dumps({"ids": [1], "source": None}), None).columns
    raw = [confluent(1, _written(schema, value)), confluent(1, b"\0")] * count

    assert found.kind.type == column
    assert [row["X"] for row, _ in rows_of(form, *raw, key=(), keeps=False)] == [told, None] * count


def _written(schema, value):
    """By the bare types: fastavro would make a date of a date."""
    bare = json.loads(json.dumps(schema).replace('"logicalType"', '"meant"'))
    return written(bare, {"X": value})


@pytest.mark.parametrize("count", [1, 300], ids=["few", "many"])
def test_where_the_registry_tells_another_schema_messages_cannot_be_read_and_nothing_else_happens(count):
    """It was restored, and gave the id to another one."""
    other = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "a", "type": {"type": "map", "values": "string"}}],
    }
    form = form_of(other, envelope=False)
    (group,) = groups(form, *changes(change(after=ROW), change("d", ROW)) * count)

    assert group.sample() is None
    assert set(group.to_decode().column("text").to_pylist()) == {b""}


# Telling messages apart


@pytest.mark.parametrize(
    ("framing", "value", "number"),
    [
        ("confluent", b"\0\0\0\1\2body", 258),
        ("confluent", b"\1\0\0\1\2body", None),
        ("confluent", b"\0\0\0\1", None),
        ("confluent", b"", None),
        ("eight-bytes", b"\0\0\0\0\0\0\0\1\2body", 258),
        ("eight-bytes", b"\0\0\0\0\0\0\0\1", None),
    ],
)
def test_the_id_of_a_schema_is_in_front_of_a_message(framing, value, number):
    identity, body, _ = Avro(framing).apart(value, None, None)

    assert identity == (None if number is None else (b"avro", str(number).encode(), None))
    assert body == (value if number is None else b"body")


def headers(**numbers):
    said = [
        {
            "key": f"apicurio.{name.replace('_', '.')}",
            "value": base64.b64encode(number.to_bytes(size)).decode(),
        }
        for name, (number, size) in numbers.items()
    ]
    return json.dumps([{"key": "trace"}, *said])


def test_or_in_a_header():
    form = Avro("headers")
    told = headers(value_globalId=(7, 8), key_contentId=(8, 4))

    # A global id of Apicurio's is another number than that of a content.
    assert form.apart(b"\0body", b"key", told) == ((b"avro", b"-7", b"8"), b"\0body", b"key")
    assert form.apart(b"body", b"key", None)[0] is None
    assert form.apart(b"body", None, headers(value_globalId=(7, 3)))[0] is None


def test_messages_are_told_apart_by_the_schemas_of_value_and_key():
    values = [confluent(number, b"x") for number in (1, 2, 1, 1)] + [b"garbage"]
    keys = [confluent(3, b""), confluent(3, b""), confluent(4, b""), b"no id", None]
    found = groups(form_of(), *values, keys=keys)

    assert [len(one.bodies) for one in found] == [1, 1, 1, 1, 1]
    assert [one.schema == NO_SCHEMA for one in found] == [False] * 4 + [True]
    events = groups(form_of(envelope=False), *values, keys=keys)
    assert [len(one.bodies) for one in events] == [3, 1, 1]


def test_a_worker_asks_for_schemas_that_it_does_not_know():
    value, key = changes(change(after=ROW))[0], confluent(2, written(KEY, {"id": 1}))
    (group,) = groups(form_of(ENVELOPE), value, keys=[key])

    (text, none) = group.sample()
    assert none is None
    assert Avro("confluent").wanted(text) == [1, 2]
    (known,) = groups(form_of(ENVELOPE, KEY), value, keys=[key])
    assert Avro("confluent").wanted(known.sample()[0]) is None


def test_a_sample_is_a_message_that_can_be_read():
    good = changes(change(after=ROW, schema="private"))
    (group,) = groups(form_of(ENVELOPE, KEY), confluent(1, b"cut"), *good, keys=[confluent(2, b"")] * 2)
    found = form_of(ENVELOPE, KEY).schema(*group.sample())

    assert (found.source_schema, found.source_table, found.key) == ("private", "orders", ("id",))
    assert [one.name for one in found.columns] == list(ROW)
    (group,) = groups(form_of(ENVELOPE), confluent(1, b"cut"))
    assert group.sample() is None


def test_what_debezium_says_of_itself_is_passed_over():
    own = {
        "type": "record",
        "name": "T",
        "fields": [],
        "connect.name": "io.debezium.connector.common.TransactionMetadataValue",
    }
    form = form_of(ENVELOPE, own)
    found = [
        one.is_bookkeeping()
        for one in groups(form, *changes(change(after=ROW)), confluent(2, b""), confluent(3, b""))
    ]

    assert found == [False, True, False]


@pytest.mark.parametrize(
    "schema", ["long", {"type": "record", "name": "r", "fields": []}, envelope_of([])], ids=str
)
def test_what_are_no_changes_is_refused_with_what_to_say(schema):
    with pytest.raises(SchemaError):
        form_of(schema).schema(json.dumps({"ids": [1], "source": {}}), None)


def test_a_field_tells_the_names_that_it_had():
    fields = [{"name": "id", "type": "long"}, {"name": "b", "type": "int", "aliases": ["a", "A1"]}]
    form = form_of({"type": "record", "name": "r", "fields": fields}, envelope=False)

    columns = form.schema('{"ids":[1]}', None).columns
    assert [(one.name, one.aliases) for one in columns] == [("id", ()), ("b", ("a", "A1"))]
    for aliases in (["\0"], [""], 7):
        bad = {"type": "record", "name": "r", "fields": [{**fields[1], "aliases": aliases}]}
        with pytest.raises(SchemaError):
            form_of(bad, envelope=False).schema('{"ids":[1]}', None)


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}


@pytest.mark.parametrize(
    ("kind", "default", "value", "other"),
    [
        (DECIMAL, "d\u00ff", b"d\xff", b"d"),
        ({"type": "fixed", "name": "f", "size": 2}, "\0\u00e9", b"\0\xe9", b"ab"),
        ("bytes", "", b"", b"a"),
        ({"type": "enum", "name": "e", "symbols": ["NEW", "OLD"]}, "OLD", "OLD", "NEW"),
        ({"type": "array", "items": ["null", "string"]}, ["a", "é"], ["a", "é"], ["a"]),
        ({"type": "array", "items": "bytes"}, ["\u00ff"], [b"\xff"], []),
        ({"type": "map", "values": "long"}, {"a": 1}, {"a": 1}, {"a": 2}),
        (
            {"type": "record", "name": "i", "fields": [{"name": "a", "type": "bytes"}, {"name": "b", "type": "int"}]},
            {"a": "x", "b": 5}, {"a": b"x", "b": 5}, {"a": b"y", "b": 5},
        ),
        ("string", "x", "x", "y"),
        ("double", 7, 7.0, 8.5),
        ("boolean", True, True, False),
        (["long", "null"], 7, 7, 8),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("count", [1, 300], ids=["few", "many"])
def test_an_old_row_that_has_nothing_but_defaults_deletes_no_other_row(kind, default, value, other, count):
    """REPLICA IDENTITY DEFAULT, and a table by another column than the primary key."""
    fields = [{"name": "id", "type": "long"}, {"name": "code", "type": "string"}]
    schema = envelope_of([*fields, {"name": "x", "type": kind, "default": default}])
    bare = json.loads(json.dumps(schema).replace('"logicalType"', '"meant"'))
    old = [{"id": 7, "code": "", "x": one} for one in (value, other)]
    values = [confluent(1, written(bare, change("d", one))) for one in old]
    keys = [confluent(2, written(KEY, {"id": 7}))] * 2 * count
    found = rows_of(form_of(schema, KEY), *values * count, keys=keys, key=("code",))

    problems = [told["problem"] and told["problem"][:47] for _, told in found]
    assert problems == ["no_row:the old row tells no more than the messa", None] * count


@pytest.mark.parametrize(
    ("connect", "avro", "tells"),
    [
        ({"type": "int16"}, {"type": "int", "connect.type": "int16"}, False),
        ({"type": "int32"}, "int", True),
        ({"type": "int64"}, "long", True),
        ({"type": "string"}, "string", True),
        ({"type": "bytes"}, "bytes", True),
        ({"type": "boolean"}, "boolean", False),
        ({"type": "float32"}, "float", False),
        *(
            ({"type": connect, "name": name}, {"type": avro, "connect.name": name}, tells)
            for connect, avro, name, tells in (
                ("string", "string", "io.debezium.time.ZonedTimestamp", False),
                ("int64", "long", "io.debezium.time.MicroTimestamp", False),
                ("int64", "long", "io.debezium.time.MicroTime", False),
                ("string", "string", "io.debezium.data.Enum", False),
                ("string", "string", "io.debezium.data.Json", True),
                ("string", "string", "io.debezium.data.Uuid", True),
                ("int32", "int", "io.debezium.time.Date", True),
            )
        ),
    ],
    ids=str,
)
def test_whether_a_null_list_may_be_an_unchanged_one_is_told_as_of_json(connect, avro, tells):
    """Else nobody says `unchanged_values_not_told`, and the mirror has null for what it had."""
    fields = [{"name": "x", "type": ["null", {"type": "array", "items": ["null", avro]}]}]
    form = form_of({"type": "record", "name": "r", "fields": fields}, envelope=False)
    (column,) = form.schema('{"ids":[1]}', None).columns

    assert kind_of({"type": "array", "items": connect}).tells is tells
    assert column.kind.tells is tells


@pytest.mark.parametrize(
    ("kind", "odd", "is_value"),
    [
        ({"type": "enum", "name": "e", "symbols": ["A"]}, b"\x08", True),
        ("string", b"\x02\xff", True),
        ({"type": "map", "values": ["null", "string"]}, b"\x02\x02\xff\x02\x02\xff\0", True),
        ({"type": "array", "items": "string"}, b"\x02\x02\xff\0", True),
        ("int", b"\x80\x80\x80\x80\x20", False),
        ("string", b"\x04\xff", False),
    ],
    ids=str,
)
def test_what_nobody_reads_of_a_change_is_the_same_alone_and_among_many(kind, odd, is_value):
    """It was a dead letter alone, and a row among many."""
    fields = ENVELOPE["fields"]
    schema = {**ENVELOPE, "fields": [*fields, {"name": "more", "type": kind}]}
    body = written(ENVELOPE, change(after=ROW)) + odd
    told = [TOLD if is_value else None]
    good = confluent(1, written(ENVELOPE, change(after=ROW)) + b"\0")
    values = [confluent(1, body)]

    assert [row for row, _ in rows_of(form_of(schema), good, *values)] == [TOLD, *told]
    assert [row for row, _ in rows_of(form_of(schema), good, *values * 300)] == [TOLD, *told * 300]
