"""Avro schemas and messages that are drawn, written by fastavro, and read by it in the form that JSON has."""

import base64
import io
import itertools

import fastavro
from hypothesis import strategies as st

INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
PLAIN = {
    "boolean": st.booleans(),
    "int": INTS,
    "long": LONGS,
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=20),
    "string": st.text(max_size=10),
}


@st.composite
def types(draw, depth=0, *, unions=False):
    """A type, and values of it."""
    kinds = [*PLAIN, "enum", "fixed", "optional", *(["union"] if unions else [])]
    kind = draw(st.sampled_from([*kinds, "array", "map", "record"] if depth < 3 else kinds))
    name = "named later"
    if kind in PLAIN:
        return kind, PLAIN[kind]
    if kind == "enum":
        symbols = draw(
            st.lists(st.from_regex(r"[A-Z][A-Za-z0-9_]{0,3}", fullmatch=True), min_size=1, unique=True)
        )
        return {"type": "enum", "name": name, "symbols": symbols}, st.sampled_from(symbols)
    if kind == "fixed":
        size = draw(st.integers(1, 20))
        return {"type": "fixed", "name": name, "size": size}, st.binary(min_size=size, max_size=size)
    if kind == "union":
        return ["null", "long", "string", "boolean"], st.none() | LONGS | st.text(max_size=5) | st.booleans()
    if kind == "record":
        return draw(records(depth + 1, unions=unions))
    inner, values = draw(types(depth + 1, unions=unions).filter(lambda one: not isinstance(one[0], list)))
    if kind == "optional":
        return draw(st.sampled_from([["null", inner], [inner, "null"]])), st.none() | values
    if kind == "array":
        return {"type": "array", "items": inner}, st.lists(values, max_size=4)
    return {"type": "map", "values": inner}, st.dictionaries(st.text(max_size=5), values, max_size=3)


@st.composite
def records(draw, depth=0, *, unions=False):
    """A record, and values of it."""
    names = draw(
        st.lists(st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True), min_size=1, max_size=5, unique=True)
    )
    fields = [draw(types(depth, unions=unions)) for _ in names]
    schema = {
        "type": "record",
        "name": "named later",
        "fields": [{"name": name, "type": kind} for name, (kind, _) in zip(names, fields, strict=True)],
    }
    return schema, st.fixed_dictionaries(
        {name: values for name, (_, values) in zip(names, fields, strict=True)}
    )


def named(schema, numbers=None):
    """The same schema, each of whose types has a name of its own."""
    numbers = itertools.count() if numbers is None else numbers
    if isinstance(schema, list):
        return [named(one, numbers) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: named(one, numbers) for name, one in schema.items()}
    return {**found, "name": f"n{next(numbers)}"} if found.get("name") == "named later" else found


def written(schema, value):
    """A message."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def read(schema, body):
    """What fastavro reads, as JSON has it; it must take all bytes."""
    given = io.BytesIO(body)
    value = fastavro.schemaless_reader(given, fastavro.parse_schema(schema))
    assert given.tell() == len(body)
    return as_json(value)


def as_json(value):
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: as_json(one) for name, one in value.items()}
    if isinstance(value, list):
        return [as_json(one) for one in value]
    return value


# Debezium's change events, as Connect's AvroConverter writes them

VALUE = [
    {"name": "id", "type": "long"},
    {"name": "name", "type": ["null", "string"], "default": None},
    {
        "name": "amount",
        "type": [
            "null",
            {
                "type": "bytes",
                "scale": 2,
                "precision": 10,
                "connect.version": 1,
                "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"},
                "connect.name": "org.apache.kafka.connect.data.Decimal",
                "logicalType": "decimal",
            },
        ],
        "default": None,
    },
    {
        "name": "at",
        "type": [
            "null",
            {"type": "string", "connect.version": 1, "connect.name": "io.debezium.time.ZonedTimestamp"},
        ],
        "default": None,
    },
    {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}], "default": None},
    {"name": "paid", "type": ["null", "boolean"], "default": None},
]
KEY = {
    "type": "record",
    "name": "Key",
    "namespace": "shop.public.orders",
    "fields": [{"name": "id", "type": "long"}],
}


def envelope_of(fields, table="orders"):
    """The schema of changes of a table."""
    value = {"type": "record", "name": "Value", "fields": fields}
    source = [{"name": name, "type": "string"} for name in ("connector", "db", "schema", "table")]
    numbers = [{"name": name, "type": ["null", "long"], "default": None} for name in ("ts_ms", "lsn")]
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": f"shop.public.{table}",
        "fields": [
            {"name": "before", "type": ["null", value], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {
                "name": "source",
                "type": {
                    "type": "record",
                    "name": "Source",
                    "namespace": "io.debezium",
                    "fields": [*source, *numbers],
                },
            },
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
        ],
        "connect.name": f"shop.public.{table}.Envelope",
    }


ENVELOPE = envelope_of(VALUE)


def change(op="c", before=None, after=None, table="orders", **source):
    """A change, in Python."""
    told = {
        "connector": "postgresql",
        "db": "shop",
        "schema": "public",
        "table": table,
        "ts_ms": 5,
        "lsn": 9,
        **source,
    }
    return {"before": before, "after": after, "source": told, "op": op, "ts_ms": 6}


def confluent(number, body):
    """A message in Confluent's framing."""
    return b"\0" + number.to_bytes(4) + body
