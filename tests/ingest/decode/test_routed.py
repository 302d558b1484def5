"""Messages that are read for where each of them goes, against an oracle in plain Python."""

import json
import random
import re
from dataclasses import replace

import pyarrow as pa
import pytest

from isotherm_ingest.decode.avro import Avro
from isotherm_ingest.decode.debezium_json import DebeziumJson
from isotherm_ingest.decode.declared_json import DeclaredJson
from isotherm_ingest.decode.routed import NO_MORE, Routed
from isotherm_ingest.workers.raw_messages import Sorter
from support.avro import written
from support.declared import event
from support.wire import ID, PLACEHOLDER, from_kafka, key, message

TOPIC = "shop.public.orders"
FIELDS = [ID, {"field": "region", "type": "string"}]
BARE = DeclaredJson((("id", "BIGINT"), ("region", "STRING")))
EVENTS = DeclaredJson((("id", "BIGINT"), ("region", "STRING")), has_envelope=False)
BY_REGION = "shop.{table}_{field:region}"


def groups(form, template, *values, keys=None, **more):
    """What becomes of messages."""
    batch = from_kafka(*values)
    if keys is not None:
        batch = batch.set_column(0, "key", pa.array(keys, pa.binary()))
    return list(Sorter({TOPIC: Routed(form, template, TOPIC, **more)}).groups(batch))


def told(form, template, *values, **more):
    """Of each message in turn, what it says, or its problem."""
    found = {}
    for group in groups(form, template, *values, **more):
        for offset in group.rows.column("offset").to_pylist():
            found[offset] = (
                group.problem if group.format.values is None or group.problem else dict(group.format.values)
            )
    return [found[offset] for offset in range(len(values))]


def changes(*rows, **more):
    """Inserts, of a table of which each row says its region."""
    return [message(FIELDS, after={"id": n, **row}, **more) for n, row in enumerate(rows)]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("eu", "eu"),
        ("EU West", "eu_west"),
        ("a.b", "a_b"),
        ("..", "__"),
        ("x`; DROP", "x___drop"),
        ("Zürich", "z_rich"),
        ("{table}", "_table_"),
        (7, "7"),
        (-7, "_7"),
        (10**30, "1" + "0" * 30),
        (1.5, "1_5"),
        (True, "true"),
        ("a" * 64, "a" * 64),
        ("null", "null"),
    ],
)
def test_a_value_becomes_a_name_of_letters_digits_and_underscores(value, name):
    for form, text in (
        (EVENTS, json.dumps({"id": 1, "region": value}).encode()),
        (BARE, json.dumps(event(after={"id": 1, "region": value})).encode()),
        (DebeziumJson(), *changes({"region": value})),
    ):
        (found,) = told(form, "shop.{field:region}", text)

        assert found == {"field:region": name}


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({}, "is missing"),
        ({"region": None}, "is null"),
        ({"region": {"a": 1}}, "is an object"),
        ({"region": ["eu"]}, "is a list"),
        ({"region": ""}, "is empty"),
        ({"region": "a" * 65}, "has more than 64 letters"),
        ({"region": PLACEHOLDER}, "is large and unchanged, and was not told; say REPLICA IDENTITY FULL"),
        ({"Region": "eu"}, "is missing"),
    ],
)
def test_what_is_no_name_goes_nowhere_alone_and_says_why(row, why):
    values = [json.dumps(event(after=one)).encode() for one in (row, {"region": "eu"})]

    assert told(BARE, "shop.{field:region}", *values) == [
        f"no_route:field 'region' {why}",
        {"field:region": "eu"},
    ]


@pytest.mark.parametrize(
    ("change", "keyed", "expected"),
    [
        ({"op": "d", "before": {"region": "eu"}}, {"region": "us"}, "eu"),
        ({"op": "d", "before": None}, {"region": "us"}, "us"),
        ({"op": "d"}, {"id": 1, "region": "us"}, "us"),
        ({"op": "d", "before": {"id": 1}}, {"region": "us"}, None),
        ({"op": "u", "before": {"region": "eu"}, "after": {"region": "us"}}, {"region": "x"}, "us"),
        ({"op": "u", "before": {"region": "eu"}, "after": {"region": PLACEHOLDER}}, {}, "eu"),
        ({"op": "u", "before": None, "after": {"region": PLACEHOLDER}}, {}, None),
        ({"op": "r", "after": {"region": "eu"}}, {"region": "x"}, "eu"),
        ({"op": "c", "after": None}, {"region": "x"}, None),
        ({"op": "d", "before": "text"}, {"region": "us"}, None),
    ],
)
def test_a_change_goes_where_its_row_is_and_a_delete_where_the_old_row_or_the_key_says(
    change, keyed, expected
):
    bare = {name: value for name, value in change.items() if name != "op"}
    value = json.dumps(event(op=change["op"], **bare)).encode()
    with_schema = message(FIELDS, op=change["op"], **bare)
    expected = None if expected is None else {"field:region": expected}
    for form, text, of_key in (
        (BARE, value, json.dumps(keyed).encode()),
        (BARE, value, key(**keyed)),
        (DebeziumJson(), with_schema, key(**keyed)),
    ):
        (found,) = told(form, "shop.{field:region}", text, keys=[of_key])

        assert (found if isinstance(found, dict) else None) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"\xff", "not_utf8"),
        (b"nothing", "undecodable:no JSON"),
        (b'{"a":', "undecodable:no JSON"),
        (b"5", "undecodable:no change event: it has no `op`"),
        (b"{}", "undecodable:no change event: it has no `op`"),
        (b'{"op":"m","source":{}}', "unsupported_op:m"),
        (b'{"op":"t","source":{}}', "truncate_unordered:a truncate has no field that would say its table"),
        (b'{"op":["x"]}', "unsupported_op:['x']"),
        (b"[" * 100_000, "undecodable:no JSON"),
    ],
)
def test_what_nobody_can_read_is_no_route_of_any_table(text, problem):
    good = json.dumps(event(after={"region": "eu"})).encode()

    assert told(BARE, "shop.{field:region}", good, text, good) == [
        {"field:region": "eu"},
        problem,
        {"field:region": "eu"},
    ]


def test_each_name_is_a_route_of_its_own_beside_the_schema():
    """In any order, in any batch; and the same as long as the name is the same."""
    other = [*FIELDS, {"field": "more", "type": "string"}]
    values = [*changes({"region": "eu"}, {"region": "us"}, {"region": "EU"})]
    values.append(message(other, after={"id": 9, "region": "eu", "more": "x"}))
    first = groups(DebeziumJson(), BY_REGION, *values)
    second = groups(DebeziumJson(), BY_REGION, *reversed(values))

    assert [len(one.rows) for one in first] == [2, 1, 1]
    assert len({one.schema for one in first}) == 3
    assert {one.schema for one in first} == {one.schema for one in second}


def test_a_sample_says_what_all_of_its_messages_say():
    (group,) = groups(
        DebeziumJson(), BY_REGION, *changes({"region": "EU"}, source={"schema": "s", "table": "t"})
    )
    schema = group.format.schema(*group.sample())

    assert dict(schema.named) == {"table": "t", "field:region": "eu"}
    assert schema == replace(DebeziumJson().schema(message(FIELDS).decode(), key(id=1).decode()),
        source_schema="s", source_table="t", source=("", "", "s", "t"), named=schema.named)  # fmt: skip


def test_where_no_further_table_is_made_only_those_that_are_there_get_messages():
    values = changes({"region": "eu"}, {"region": "us"}, {"region": "eu"})
    there = frozenset({"shop.orders_eu", "shop.lines_us"})

    assert told(DebeziumJson(), BY_REGION, *values, tables=there) == [
        {"table": "orders", "field:region": "eu"},
        NO_MORE,
        {"table": "orders", "field:region": "eu"},
    ]


SCHEMA = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        *(
            {
                "name": image,
                "type": [
                    "null",
                    {
                        "type": "record",
                        "name": f"R{image}",
                        "fields": [
                            {"name": "id", "type": "long"},
                            {"name": "region", "type": ["null", "string"]},
                        ],
                    },
                ],
            }
            for image in ("before", "after")
        ),
        {
            "name": "source",
            "type": {
                "type": "record",
                "name": "S",
                "fields": [{"name": one, "type": "string"} for one in ("schema", "table")],
            },
        },
        {"name": "op", "type": "string"},
    ],
}
KEY = {
    "type": "record",
    "name": "K",
    "fields": [{"name": "id", "type": "long"}, {"name": "region", "type": "string"}],
}


def avro(number, schema, value):
    return b"\0" + number.to_bytes(4) + written(schema, value)


def test_avro_is_asked_for_its_schema_first_and_told_apart_then():
    source = {"schema": "public", "table": "orders"}
    values = [
        avro(1, SCHEMA, {"before": None, "after": {"id": 1, "region": "eu"}, "source": source, "op": "c"}),
        avro(1, SCHEMA, {"before": None, "after": {"id": 2, "region": None}, "source": source, "op": "c"}),
        avro(1, SCHEMA, {"before": None, "after": None, "source": source, "op": "d"}),
        avro(1, SCHEMA, {"before": None, "after": None, "source": source, "op": "d"})[:-1],
    ]
    keys = [avro(2, KEY, {"id": 1, "region": "us"})] * 4
    unknown = Avro("confluent")
    (asked,) = groups(unknown, BY_REGION, *values, keys=keys)
    assert asked.problem is None
    assert unknown.wanted(asked.format.sample_of(asked.sample()[0])) == [1, 2]

    known = unknown.with_schemas({1: json.dumps(SCHEMA), 2: json.dumps(KEY)})
    assert told(known, BY_REGION, *values, keys=keys) == [
        {"table": "orders", "field:region": "eu"},
        "no_route:field 'region' is null",
        {"table": "orders", "field:region": "us"},
        "undecodable:no JSON",
    ]
    first, *_ = groups(known, BY_REGION, *values, keys=keys)
    schema = first.format.schema(*first.sample())
    assert (schema.key, dict(schema.named)) == (("id", "region"), {"table": "orders", "field:region": "eu"})
    assert [
        json.loads(text)["payload"]["after"] for text in first.to_decode().column("text").to_pylist()
    ] == [{"id": 1, "region": "eu"}]


def wanted_of(value, keyed, template):
    """An oracle: what a change of `BARE` says, in plain Python, or None."""
    try:
        change = json.loads(value)
        op = change["op"]
    except (ValueError, KeyError, TypeError):
        return None
    if op not in {"r", "c", "u", "d", "t"} or (op == "t" and "field:" in template):
        return None
    image = change["after"] if op != "d" else change["before"]
    if op == "d" and image is None:
        image = json.loads(keyed)
    found = {}
    for part in re.findall(r"\{([^}]*)\}", template):
        if not part.startswith("field:"):
            found[part] = change["source"].get(part, "")
            continue
        said = (image or {}).get(part[6:])
        if said is None or isinstance(said, dict | list) or said == "":
            return None
        text = said if isinstance(said, str) else json.dumps(said)
        found[part] = "".join(one if re.match("[a-z0-9_]", one) else "_" for one in text.lower())
        if len(found[part]) > 64:
            return None
    return found


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_said_each_message_comes_out_once_and_where_it_says(seed):
    choose = random.Random(seed)
    template = choose.choice(
        ["shop.{schema}_{table}_{field:region}", "shop.{field:region}_{field:id}", "{schema}.{table}"]
    )
    said = ["eu", "US", "", None, 5, 2.5, True, {"a": 1}, [1], "x" * 70, "ü", "a b"]
    values, keys = [], []
    for _ in range(300):
        row = {name: choose.choice(said) for name in ("id", "region") if choose.random() < 0.9}
        op = choose.choice("rcudddtm")
        change = event(op=op, **({"before": choose.choice([row, None])} if op == "d" else {"after": row}))
        change["source"] |= {
            "table": choose.choice(["orders", "lines", "a.b"]),
            "schema": choose.choice(["p", "q"]),
        }
        text = json.dumps(change, separators=choose.choice([(",", ":"), (", ", ": ")])).encode()
        values.append(choose.choice([text] * 9 + [text[:-5]]))
        keys.append(json.dumps({"id": choose.choice(said), "region": choose.choice(said)}).encode())
    found = told(BARE, template, *values, keys=keys)

    assert [one if isinstance(one, dict) else None for one in found] == [
        wanted_of(value, keyed, template) for value, keyed in zip(values, keys, strict=True)
    ]
    assert sum(isinstance(one, dict) for one in found) > 30
