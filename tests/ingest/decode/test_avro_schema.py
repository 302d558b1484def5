"""Avro schemas: names are found, and what nobody should decode is refused, whatever a registry holds."""

import json

import pytest

from isotherm_ingest.decode import avro_schema as module
from isotherm_ingest.decode.avro import Avro
from isotherm_ingest.decode.avro_schema import MAX_LEVELS, parsed
from isotherm_ingest.decode.kinds import SchemaError
from support.avro import ENVELOPE


def record(*fields, name="r", **more):
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{n}", "type": kind} for n, kind in enumerate(fields)],
        **more,
    }


def test_a_name_is_what_was_defined_before_it_in_its_namespace():
    inner = record("int", name="inner")
    found = parsed(json.dumps(record(inner, "inner", "a.inner", ["null", "inner"], namespace="a")))

    assert [one.plain.type for one in found.inner] == ["record"] * 4
    assert found.inner[3].is_nullable
    aside = record({"type": "enum", "name": "b.e", "symbols": ["A"]}, "b.e", {"type": "b.e"})
    assert [one.type for one in parsed(json.dumps(aside)).inner] == ["enum"] * 3


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (record(["null", "r"]), "record 'r' is within itself"),
        (record({"type": "array", "items": "r"}), "record 'r' is within itself"),
        (record(record({"type": "map", "values": "r"}, name="s")), "record 'r' is within itself"),
        (record("unknown"), "'unknown' is no type that the schema has defined before"),
        (record({"type": "array", "items": "null"}), "array of what takes no bytes"),
        (record({"type": "array", "items": record(name="e")}), "array of what takes no bytes"),
        (record({"type": "map", "values": {"type": "fixed", "name": "f", "size": 0}}), "of what takes no bytes"),
        (record([]), "a union without branches"),
        (record([["null"], "int"]), "a union without branches, or of unions"),
        (record({"type": "fixed", "name": "f", "size": -1}), "a fixed of -1 bytes"),
        ({**record("int"), "fields": [{"name": "a", "type": "int"}] * 2}, "two fields of one name"),
        (7, "'7' is no Avro type"),
        (None, "'None' is no Avro type"),
        ({"type": "record", "name": "r"}, "no Avro schema: KeyError"),
    ],
    ids=str,
)  # fmt: skip
def test_what_nobody_should_decode_is_refused(schema, why):
    with pytest.raises(SchemaError, match=why):
        parsed(json.dumps(schema))


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, '{"type":' * 500 + '"int"' + "}" * 500, '"long', "\0"]
)
def test_what_is_no_schema_is_refused(text):
    with pytest.raises(SchemaError):
        parsed(text)


def test_records_that_name_each_other_twice_do_not_multiply_without_end():
    schema = record("int", name="r0")
    for number in range(1, 30):
        schema = record(schema, *[f"r{number - 1}"] * 3, name=f"r{number}")
    with pytest.raises(SchemaError, match="more than"):
        parsed(json.dumps(schema))
    deep = "int"
    for _ in range(MAX_LEVELS + 1):
        deep = {"type": "array", "items": deep}
    with pytest.raises(SchemaError, match="levels"):
        parsed(json.dumps(record(deep)))


def test_an_enum_that_is_named_many_times_does_not_multiply(monkeypatch):
    kind = {"type": "enum", "name": "e", "symbols": [f"s{number}" for number in range(100)]}
    few = parsed(json.dumps(record(kind, *["e"] * 50)))
    assert all(one is few.inner[0] for one in few.inner)

    monkeypatch.setattr(module, "MAX_NAMES", 20_000)
    with pytest.raises(SchemaError, match="more than 20000 characters of names and symbols"):
        parsed(json.dumps(record(kind, *["e"] * 50)))


def test_attributes_that_mean_nothing_are_not_kept():
    """A record with 200,000 of them may be named thousands of times."""
    noise = {f"a{number}": 0 for number in range(1_000)}
    said = {"connect.name": "n", "connect.parameters": {"scale": "2"}, "logicalType": "l"}
    found = parsed(
        json.dumps(record(record("int", name="i", **noise, **said), "i", {"type": "int", **noise, **said}))
    )

    assert [dict(one.said) for one in found.inner] == [said] * 3


def test_a_name_that_is_defined_again_means_the_new_type_from_then_on():
    first, second = ({"type": "enum", "name": "e", "symbols": [one]} for one in "AB")
    found = parsed(json.dumps(record(first, "e", second, "e")))

    assert [one.names for one in found.inner] == [("A",), ("A",), ("B",), ("B",)]


JUNK = [None, 7, 1e400, "", "other", "\0", [], {}, {"type": "array", "items": 7}, ["null", "null"]]


def places(tree, path=()):
    yield path
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for name, value in inner:
        yield from places(value, (*path, name))


def replaced(tree, path, value):
    if not path:
        return value
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[path[0]] = replaced(tree[path[0]], path[1:], value)
    return copy


@pytest.mark.parametrize("has_envelope", [True, False], ids=["changes", "rows"])
def test_whatever_a_registry_answers_its_messages_are_refused_or_have_columns(has_envelope):
    """What is raised beside that would keep the topic from being read, for ever."""
    told = json.dumps({"ids": [1], "source": {"schema": "public", "table": "orders"}})
    read = 0
    for path in places(ENVELOPE):
        for junk in JUNK:
            form = Avro("confluent", has_envelope, {1: json.dumps(replaced(ENVELOPE, path, junk))})
            try:
                read += bool(form.schema(told, None).columns)
            except SchemaError:
                continue
            for bodies in ([b"", b"\0" * 40], [b"\2" * 9] * 300):
                assert len(form.texts((b"avro", b"1"), bodies, [None] * len(bodies))[0]) == len(bodies)

    assert read > 100
