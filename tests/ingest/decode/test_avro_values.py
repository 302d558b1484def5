"""Avro messages become the JSON that fastavro reads of them; none ever reads a byte of another."""

import base64
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm_ingest.decode import avro, avro_columns
from isotherm_ingest.decode.avro import Avro
from isotherm_ingest.decode.avro_columns import can_read, number, texts
from isotherm_ingest.decode.avro_schema import parsed
from isotherm_ingest.decode.avro_values import BadDatumError, reader
from support.avro import named, read, records, written


@st.composite
def messages(draw, *, unions=False):
    """A schema, and some messages of it."""
    schema, values = draw(records(unions=unions))
    schema = named(schema)
    return schema, [written(schema, value) for value in draw(st.lists(values, min_size=1, max_size=6))]


def alone(schema, body):
    """What a message says by itself, or None where it is none."""
    try:
        return reader(parsed(json.dumps(schema)))(body)
    except BadDatumError:
        return None


def together(schema, bodies):
    form = Avro("confluent", has_envelope=False, schemas={7: json.dumps(schema)})
    found, _ = form.texts((b"avro", b"7"), bodies, [None] * len(bodies))
    return [json.loads(text)["payload"]["after"] if text else None for text in found]


@given(messages(unions=True))
def test_a_message_says_what_fastavro_reads(given_messages):
    schema, bodies = given_messages

    assert [alone(schema, body) for body in bodies] == [read(schema, body) for body in bodies]


@given(messages())
def test_many_at_once_say_what_each_says_alone(given_messages):
    schema, bodies = given_messages
    node = parsed(json.dumps(schema))
    if can_read(node):
        found = texts(node, [[name] for name in node.names], ("", ""), bodies)
        assert [json.loads(text) for text in found] == [alone(schema, body) for body in bodies]


def test_common_schemas_are_read_at_once():
    """Or the test above says nothing."""
    inner = {"type": "record", "name": "i", "fields": [{"name": "x", "type": ["null", "bytes"]}]}
    kinds = [
        "long",
        ["null", "string"],
        ["double", "null"],
        {"type": "array", "items": inner},
        {"type": "map", "values": "int"},
    ]
    kinds += [
        {"type": "enum", "name": "e", "symbols": ["A"]},
        ["null", {"type": "fixed", "name": "f", "size": 3}],
    ]
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": f"f{n}", "type": kind} for n, kind in enumerate(kinds)],
    }
    row = {
        "f0": 1,
        "f1": None,
        "f2": 0.5,
        "f3": [{"x": b"\0"}, {"x": None}],
        "f4": {"a": 1},
        "f5": "A",
        "f6": b"abc",
    }
    node = parsed(json.dumps(schema))
    bodies = [written(schema, row)] * 3000

    assert can_read(node)
    found = texts(node, [[name] for name in node.names], ("<", ">"), bodies)
    assert len(found) == 3000
    assert {json.dumps(json.loads(text[1:-1])) for text in found} == {json.dumps(read(schema, bodies[0]))}


def test_a_list_of_nulls_takes_no_more_memory_than_a_message_has():
    """Arrow has a kilobyte for each null of such a record, and a message of a megabyte has a million of them."""
    fields = [{"name": f"f{number}", "type": ["null", "long"]} for number in range(100)]
    wide = ["null", {"type": "record", "name": "w", "fields": fields}]
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "a", "type": {"type": "array", "items": wide}}],
    }
    body = number(100_000) + bytes(100_000) + b"\0"

    assert not can_read(parsed(json.dumps(schema)))
    assert [len(one["a"]) for one in together(schema, [body] * 2)] == [100_000] * 2
    narrow = {**schema, "fields": [{"name": "a", "type": {"type": "array", "items": wide[1]}}]}
    assert can_read(parsed(json.dumps(narrow)))


def changed(body, what, at, other):
    at %= len(body) + 1
    return {
        "cut": body[:at],
        "longer": body + other,
        "flipped": body[:at] + other[:1] + body[at + 1 :],
        "kept": body,
    }[what]


CHANGES = st.tuples(
    st.sampled_from(["cut", "longer", "flipped", "kept", "kept"]),
    st.integers(0),
    st.binary(min_size=1, max_size=9),
)


@given(messages(), st.lists(CHANGES, min_size=1, max_size=12))
def test_a_message_that_is_none_changes_no_other(given_messages, changes):
    """What one has too few, another has too many: nobody may read on."""
    schema, good = given_messages
    bodies = [changed(good[number % len(good)], *change) for number, change in enumerate(changes)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(avro, "FEW", 1)
        found = together(schema, bodies)

    # As text: a number that is none is not equal to itself.
    assert list(map(str, found)) == [str(alone(schema, body)) for body in bodies]


def test_bytes_that_are_given_from_one_message_to_the_next_are_noticed():
    """Both together have as many bytes as two messages, and no byte in them is wrong by itself."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "bytes"}]}
    one, other = written(schema, {"a": b"first"}), written(schema, {"a": b"second"})
    pair = [one[:-2], one[-2:] + other]
    told = [{"a": base64.b64encode(text).decode()} for text in (b"first", b"second")]

    assert together(schema, [one, *pair, other] * 100) == [told[0], None, None, told[1]] * 100
    found = texts(parsed(json.dumps(schema)), [["a"]], ("", ""), [one, *pair])
    assert [json.loads(text) for text in found] == told[:1]


def test_bad_messages_among_many_are_found():
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}
    bodies = [written(schema, {"a": number}) for number in range(2000)]
    for place, change in {0: b"", 1234: bodies[1234] + b"\0", 1235: bodies[1235][:-1], 1999: b"\x80"}.items():
        bodies[place] = change
    found = together(schema, bodies)

    assert [place for place, one in enumerate(found) if one is None] == [0, 1234, 1235, 1999]
    assert [one and one["a"] for one in found] == [
        None if place in {0, 1234, 1235, 1999} else place for place in range(2000)
    ]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("int", number(2**31)),
        ("long", b"\xff" * 9 + b"\x7f"),
        ("long", b"\x80" * 11),
        ("string", b"\x02\xff"),
        ("string", number(-1)),
        ("string", number(2**40)),
        ("bytes", number(3) + b"ab"),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, number(2)),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, number(-1)),
        (["null", "long"], number(2)),
        (["null", "long", "string"], number(3) + b"\x02"),
        (["null", "long", "string"], number(-1) + b"\x02"),
        ({"type": "array", "items": "long"}, number(2**50)),
        ({"type": "array", "items": "long"}, number(1) + number(5)),
        ({"type": "fixed", "name": "f", "size": 3}, b"ab"),
        ({"type": "map", "values": "int"}, number(1) + b"\x02\xff\0\0"),
    ],
    ids=str,
)
def test_what_is_no_value_is_refused_also_where_a_reader_would_make_something_of_it(kind, body):
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}

    assert together(schema, [body] * 3) == [None] * 3
    assert together(schema, [body] * 300) == [None] * 300


@pytest.mark.parametrize(
    ("kind", "before"),
    [
        (SYMBOLS := {"type": "enum", "name": "e", "symbols": ["A", "B"]}, b""),
        (["null", SYMBOLS], b"\x02"),
        ({"type": "array", "items": SYMBOLS}, b"\x02"),
        ({"type": "record", "name": "i", "fields": [{"name": "e", "type": SYMBOLS}]}, b""),
    ],
    ids=str,
)
def test_a_symbol_that_is_none_has_no_other_message_read_again(kind, before):
    """An error voids the whole reading: of ten thousand messages it was found in twelve times the time."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}
    end = b"\0" if "array" in str(kind) else b""
    good, bad = (before + number(symbol) + end for symbol in (1, 2))
    bodies = [good] * 500 + [bad] + [good] * 499
    found = texts(parsed(json.dumps(schema)), [["a"]], ("", ""), bodies)

    assert [place for place, text in enumerate(found) if text is None] == [500]
    assert [json.loads(text) for text in found if text] == [alone(schema, good)] * 999
    assert together(schema, bodies) == [alone(schema, body) for body in bodies]


@pytest.mark.parametrize(
    ("kind", "body", "value"),
    [
        ("boolean", b"\x02", True),
        (["null", "long"], number(-1) + b"\x02", 1),
        (["int", "null"], number(7), None),
    ],
    ids=str,
)
def test_what_no_producer_writes_says_the_same_whichever_way_it_is_read(kind, body, value):
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}

    assert together(schema, [body]) == [{"a": value}]
    assert together(schema, [body] * 300) == [{"a": value}] * 300


def list_of(item):
    fields = [{"name": "a", "type": {"type": "array", "items": item}}]
    return {"type": "record", "name": "r", "fields": fields}


def record_of(*fields):
    return {
        "type": "record",
        "name": "i",
        "fields": [{"name": name, "type": kind} for name, kind in fields],
    }


@pytest.mark.parametrize(
    ("item", "one"),
    [
        (record_of(("n" * 2000, "boolean")), b"\1"),
        (record_of(("b", "boolean"), *((f"f{number}", "null") for number in range(400))), b"\1"),
        (["null", record_of(("n" * 2000, "boolean"))], b"\2\1"),
        (record_of(("x", ["null", {**record_of(("n" * 2000, "boolean")), "name": "o"}])), b"\2\1"),
        ({"type": "enum", "name": "e", "symbols": ["A", "B" * 2000]}, b"\2"),
    ],
    ids=["a name", "many fields", "optional", "within", "a symbol"],
)
def test_a_message_whose_text_is_very_much_longer_is_none_and_those_beside_it_are_some(item, one):
    """Each of its bytes would be kilobytes: a message of a megabyte would be gigabytes."""
    bomb, small = (number(count) + one * count + b"\0" for count in (1000, 3))

    found = together(list_of(item), [small, bomb, small])
    assert [one and len(one["a"]) for one in found] == [3, None, 3]
    found = together(list_of(item), [small, bomb] * 150)
    assert [one and len(one["a"]) for one in found] == [3, None] * 150


@pytest.mark.parametrize(("length", "is_read"), [(80, True), (100, False)])
def test_what_is_read_at_once_is_never_refused_for_its_length(length, is_read):
    """Else a message were a row beside others, and a dead letter alone."""
    schema = list_of(record_of(("n" * length, "boolean")))
    body = number(200_000) + b"\1" * 200_000 + b"\0"

    assert can_read(parsed(json.dumps(schema))) is is_read
    assert (alone(schema, body) is not None) is is_read
    wide = record_of(*(("n" * 1000 + str(number), "null") for number in range(1100)), ("b", "boolean"))
    assert not can_read(parsed(json.dumps(wide)))


def test_blocks_may_say_their_bytes():
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "a", "type": {"type": "array", "items": "int"}}],
    }
    body = number(-2) + number(2) + number(1) + number(2) + number(1) + number(3) + b"\0"

    assert together(schema, [body]) == [{"a": [1, 2, 3]}]
    assert together(schema, [body] * 300) == [{"a": [1, 2, 3]}] * 300


def nested(levels):
    kind = "bytes"
    for _ in range(levels):
        kind = {"type": "array", "items": kind}
    return kind


ENUM = {"type": "enum", "name": "e", "symbols": [f"s{place}" for place in range(1_000)]}


@pytest.mark.parametrize(
    ("few", "many"),
    [
        ([nested(6)], [nested(7)]),
        ([record_of(("x", nested(6)))], [record_of(("x", nested(7)))]),
        (["long"] * 2_000, ["long"] * 2_001),
        (*([record_of(*((f"f{place}", "long") for place in range(count)))] for count in (2_000, 2_001)),),
        ([ENUM, *["e"] * 15], [ENUM, *["e"] * 30]),
        (
            *([{**record_of(*((f"f{n}", "int") for n in range(1_500))), "name": "i"}, *["i"] * more] for more in (1, 2)),
        ),
        (
            *([["null", {"type": "fixed", "name": "f", "size": 1024}], *[["null", "f"]] * more] for more in (200, 300)),
        ),
    ],
    ids=["lists in lists", "the same in a record", "wide", "a wide record", "an enum in many places", "records", "null"],
)  # fmt: skip
def test_what_would_take_gigabytes_to_read_at_once_is_read_one_by_one(few, many):
    """A schema of a few kilobytes killed the worker, which would begin again with the same messages."""
    for kinds, is_read in ((few, True), (many, False)):
        fields = [{"name": f"f{place}", "type": kind} for place, kind in enumerate(kinds)]
        schema = {"type": "record", "name": "r", "fields": fields}
        node = parsed(json.dumps(schema))

        assert can_read(node) is is_read
        if not is_read:
            body = avro_columns._zero(node)  # noqa: SLF001 (the shortest message)
            assert together(schema, [body] * 257) == [alone(schema, body)] * 257


NULLS = """
import json
from isotherm_ingest.decode.avro import Avro
fixed = {"type": "fixed", "name": "f", "size": 1024}
fields = [{"name": f"f{n}", "type": ["null", "f" if n else fixed]} for n in range(100)]
form = Avro("confluent", False, {7: json.dumps({"type": "record", "name": "r", "fields": fields})})
found, _ = form.texts((b"avro", b"7"), [bytes(100)] * 9_000, [None] * 9_000)
# Its own peak: what `getrusage` tells is that of the process that started it, where this was larger.
(peak,) = (line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(len(found), len(set(found)), peak)
"""


def test_messages_of_nulls_take_no_memory_that_nobody_sent():
    """A null takes as many bytes in Arrow as its type has: a megabyte of them was a gigabyte."""
    ran = subprocess.run([sys.executable, "-c", NULLS], capture_output=True, text=True, check=True)
    count, kinds, kilobytes = map(int, ran.stdout.split())

    assert (count, kinds) == (9_000, 1)
    assert kilobytes < 700 * 1024  # it was 2.9 GB; some hundred are those of libraries
