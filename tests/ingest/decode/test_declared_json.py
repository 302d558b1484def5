"""Of JSON without a schema: what each message becomes, a row or a problem with its reason."""

import base64
import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from isotherm_ingest.decode.declared_json import DeclaredJson
from isotherm_ingest.decode.kinds import SchemaError
from isotherm_ingest.workers.raw_messages import Sorter
from support.declared import TOPIC, event, rows_of, text_of
from support.wire import PLACEHOLDER, from_kafka, key

LEFT_OUT = {
    "text": PLACEHOLDER,
    "text[]": [PLACEHOLDER],
    "hstore": {PLACEHOLDER: PLACEHOLDER},
    "int[]": list(PLACEHOLDER.encode()),
    "bytea": (in_base64 := base64.b64encode(PLACEHOLDER.encode()).decode()),
    "bytea as hex": PLACEHOLDER.encode().hex(),
    "bytea[]": [in_base64],
    "uuid[]": ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"],
}
"""What Debezium writes for an unchanged large value, by what it is in PostgreSQL."""
PLAIN = {"id": "BIGINT NOT NULL", "name": "STRING"}


def problems(found):
    return [change["problem"] for _, change in found]


def test_an_event_is_a_row_whatever_it_lacks_and_has_beside():
    found = rows_of(PLAIN, {"id": 1, "name": "n"}, {"id": 2}, b' \n{"name":null,"more":[1],"id":3} ')

    assert [row for row, _ in found] == [
        {"id": 1, "name": "n"},
        {"id": 2, "name": None},
        {"id": 3, "name": None},
    ]
    assert {change["op"] for _, change in found} == {"c"}
    assert {(change["ts"], change["lsn"]) for _, change in found} == {(None, None)}


def test_poison_between_good_events_is_told_one_by_one():
    good = {"id": 1, "name": "n"}
    bad = {
        b"": "undecodable:no JSON object",
        b"\xff\xfe": "not_utf8",
        b'{"id":1,"name":"\xff"}': "not_utf8",
        b"null": "undecodable:no JSON object",
        b"7": "undecodable:no JSON object",
        b'[{"id":1}]': "undecodable:no JSON object",
        b'"{}"': "undecodable:no JSON object",
        b'{"id":1': "undecodable:no JSON object",
        b'{"id":1}}': "undecodable:no JSON object",
        b'{"id":1}{"id":2}': "undecodable:no JSON object",
        b"{}": "null_value:id",
        b'{"id":null}': "null_value:id",
        b'{"ID":1}': "null_value:id",
        b'{"id":1,"name":"a","name":"b"}': "undecodable:field name stands twice",
        b'{"id":1,"a":1,"\\u0061":2}': "undecodable:field a stands twice",
        b'{"id":1.5}': "undecodable_value:id",
        b'{"id":{"is":1}}': "undecodable_value:id",
        b'{"id":99999999999999999999}': "undecodable_value:id",
    }
    found = rows_of(PLAIN, good, *(one for text in bad for one in (text, good)))

    assert [row for row, _ in found[::2]] == [good] * (len(bad) + 1)
    assert problems(found[1::2]) == list(bad.values())


@pytest.mark.parametrize("others", ["ignore", "dead_letter", "text"])
def test_a_message_of_very_many_fields_or_levels_costs_no_more_than_its_length(others):
    """The square of a hundred thousand fields would be a minute, and a level for each of a million bytes the stack's end."""
    names = [f"f{number}" for number in range(100_000)]
    many = b'{"id":1,%s}' % b",".join(b'"%s":1' % name.encode() for name in [*names, "f7"])
    deep = b'{"id":1,"name":%s%s}' % (b"[" * 500_000, b"]" * 500_000)
    objects = b'{"id":1,"more":%s7%s}' % (b'{"a":' * 200_000, b"}" * 200_000)
    found = rows_of(PLAIN, many, deep, objects, others=others)

    assert problems(found)[0] == "undecodable:field of so many stands twice"
    assert [problem is None for problem in problems(found)[1:]] == [True, others != "dead_letter"]
    assert problems(rows_of(PLAIN, event(after=7), b'{"after":%s}' % deep, envelope=True)) == [
        "undecodable:`after` is no JSON object", "undecodable:no change event: it has no `op`",
    ]  # fmt: skip


def test_a_key_of_a_mirror_must_be_told():
    found = rows_of({"id": "BIGINT", "name": "STRING"}, {"name": "n"}, {"id": 1}, key=["id"], keeps=True)

    assert problems(found) == ["null_key:id", None]


def test_what_is_not_declared_is_left_out_or_a_dead_letter_or_a_text():
    values = [{"id": 1}, {"id": 2, "name": None, "b": {"c": None}, "a": None, "big": 12345678901234567890123}]

    assert problems(rows_of(PLAIN, *values)) == [None, None]
    assert problems(rows_of(PLAIN, *values, others="dead_letter")) == [
        None,
        "undecodable:field b is not declared",
    ]
    found = rows_of(PLAIN, *values, others="text")
    assert problems(found) == [None, None]
    assert found[0][0] == {"id": 1, "name": None, "_others": None}
    assert json.loads(found[1][0]["_others"]) == {
        "a": None,
        "b": {"c": None},
        "big": 12345678901234567890123,
    }


@pytest.mark.parametrize("name", ["_op", "p", "after", "e", "t_after", "doc", "fields", "flaw", "op", 'a"b', "a'b", "a b", "é", "a.b", "select", "written"])  # fmt: skip
@pytest.mark.parametrize("envelope", [True, False], ids=["events", "rows"])
def test_a_column_may_have_any_name(name, envelope):
    columns = {name: "STRING", "n": "DECIMAL(38,20)"}
    row = {name: "of " + name, "n": "0.5", "x": 1}
    message = event(after=row) if envelope else row
    for others in ("ignore", "text"):
        ((found, change),) = rows_of(columns, message, envelope=envelope, others=others)
        assert change["problem"] is None
        assert found[name] == "of " + name
    assert found["_others"] == '{"x":1}'


# Change events


def test_a_change_without_its_schema():
    row = {"id": 1, "name": "n"}
    values = [
        event(op="r", after=row),
        event(op="u", before=row, after={**row, "name": "m"}),
        event(op="d", before=row),
    ]
    found = rows_of(PLAIN, *values, envelope=True, keeps=True, key=["id"])

    assert [one for one, _ in found] == [row, {"id": 1, "name": "m"}, row]
    assert [change["op"] for _, change in found] == ["r", "u", "d"]
    assert {(change["ts"], change["lsn"]) for _, change in found} == {
        (datetime(1970, 1, 1, microsecond=5000, tzinfo=UTC), 9)
    }


def test_poison_between_good_changes_is_told_one_by_one():
    row = {"id": 1, "name": "n"}
    good = event(after=row)
    bad = [
        (b"[]", "undecodable:no change event: it has no `op`"),
        (b"{}", "undecodable:no change event: it has no `op`"),
        (text_of(good)[:-1], "undecodable:no change event: it has no `op`"),
        (b"\xff", "not_utf8"),
        (row, "undecodable:no change event: it has no `op`"),
        (event(op=None, after=row), "undecodable:no change event: it has no `op`"),
        (event(op="t", after=row), "unsupported_op:t"),
        (event(op="x", after=row), "unsupported_op:x"),
        (event(after=7), "undecodable:`after` is no JSON object"),
        (event(after=[row]), "undecodable:`after` is no JSON object"),
        (event(after="{}"), "undecodable:`after` is no JSON object"),
        (event(op="d", before=True), "undecodable:`before` is no JSON object"),
        (event(after=None), "no_row:the change has no row image"),
        (event(after={"name": "n"}), "null_key:id"),
        (event(after={"id": 1.5}), "undecodable_value:id"),
        (text_of(good).replace(b'"id": 1', b'"id":1,"id":1'), "undecodable:field id stands twice"),
        (
            event(after=row, source={"schema": "public", "table": "x"}),
            "other_table:the topic holds changes of two tables with one schema",
        ),
    ]
    values = [good, *(one for text, _ in bad for one in (text, good))]
    found = rows_of(PLAIN, *values, envelope=True, key=["id"])

    assert [one for one, _ in found[::2]] == [row] * (len(bad) + 1)
    assert problems(found[1::2]) == [why for _, why in bad]


@pytest.mark.parametrize(
    ("message", "of_key", "name"),
    [
        (b'{"op":"c","after":{"id":1},"after":{"id":2}%s}', b'{"id":1}', "after"),
        (b'{"op":"c","op":"d","before":{"id":1},"after":{"id":1}%s}', b'{"id":1}', "op"),
        (b'{"op":"d","before":{"id":1},"before":{"id":2}%s}', b'{"id":1}', "before"),
        (b'{"op":"u","before":{"id":1,"id":2},"after":{"id":1}%s}', b'{"id":1}', "id"),
        (b'{"op":"d","before":null%s}', b'{"id":1,"id":2}', "id"),
        (b'{"op":"d"%s}', b'{"schema":{"fields":[{"field":"id"}]},"payload":{"id":1,"id":2}}', "id"),
    ],
)
def test_what_stands_twice_in_a_change_or_its_key_is_a_dead_letter(message, of_key, name):
    """Readers take either, so nobody knows which row it is."""
    source = b',"source":{"schema":"public","table":"orders"}'
    found = rows_of(
        PLAIN, message % source, event(after={"id": 1}), envelope=True, keeps=True, key=["id"], keys=[of_key] * 2
    )  # fmt: skip

    assert problems(found) == [f"undecodable:field {name} stands twice", None]


@pytest.mark.parametrize("of_key", [b'{"id":7}', key(id=7)], ids=["bare", "with its schema"])
def test_a_delete_without_an_old_row_deletes_what_its_key_says(of_key):
    found = rows_of(
        PLAIN,
        event(op="c", after={"id": 7}),
        event(op="d"),
        envelope=True,
        keeps=True,
        key=["id"],
        keys=[of_key] * 2,
    )

    assert [(row["id"], change["op"], change["problem"]) for row, change in found] == [
        (7, "c", None),
        (7, "d", None),
    ]


def test_an_unchanged_large_value_is_kept_by_a_mirror():
    columns = {"id": "BIGINT", "name": "STRING", "tags": "ARRAY<STRING>"}
    after = {"id": 1, "name": PLACEHOLDER, "tags": [PLACEHOLDER]}
    ((row, change),) = rows_of(
        columns, event(op="u", after=after), envelope=True, keeps=True, key=["id"], keys=[b'{"id":1}']
    )

    assert (row, change["kept"], change["problem"]) == (
        {"id": 1, "name": None, "tags": None},
        ["name", "tags"],
        None,
    )


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *(("STRING", value) for value in LEFT_OUT.values()),
        ("BINARY", LEFT_OUT["text"]),
        ("BINARY", LEFT_OUT["bytea"]),
        *((f"ARRAY<{item}>", LEFT_OUT["int[]"]) for item in ("BIGINT", "STRING", "DECIMAL(30,20)")),
        ("ARRAY<BINARY>", LEFT_OUT["bytea[]"]),
        ("ARRAY<STRING>", LEFT_OUT["uuid[]"]),
    ],
)
@pytest.mark.parametrize("number", [b"1", b"1.12345678901234567890"], ids=["short", "long"])
def test_whatever_debezium_sends_for_an_unchanged_large_value_is_kept(kind, value, number):
    """A stream declares a text for an array or bytes too, and nothing in the message says what it was."""
    columns = {"id": "BIGINT", "x": kind, "n": "DECIMAL(30,20)"}
    message = text_of(event(op="u", after={"id": 1, "x": value, "n": "N"})).replace(b'"N"', number)
    ((row, change),) = rows_of(columns, message, envelope=True, keeps=True, key=["id"], keys=[b'{"id":1}'])

    assert (row["x"], change["kept"], change["problem"]) == (None, ["x"], None)


def test_an_old_row_that_tells_no_more_than_the_key_deletes_no_other_row():
    """Nothing says which columns the source requires, so what Debezium makes up may be in any of them."""
    columns = {"id": "BIGINT", "name": "STRING", "n": "BIGINT"}
    told = {"op": "d", "before": {"id": 1, "name": "", "n": 0}}
    found = rows_of(
        columns,
        event(**told),
        event(**{**told, "before": {"id": 1, "name": "a", "n": 0}}),
        envelope=True,
        keeps=True,
        key=["name"],
        keys=[b'{"id":1}'] * 2,
    )

    assert [problem and problem.partition(":")[0] for problem in problems(found)] == ["no_row", None]


def test_numbers_are_exact_in_either_image():
    exact = b"0.12345678901234567891"
    columns = {"id": "BIGINT", "n": "DECIMAL(38,20)", "d": "DOUBLE", "s": "STRING"}
    text = b'{"op":"u","source":{"schema":"public","table":"orders"},"before":{"id":1,"n":%s},"after":{"id":2,"n":%s,"d":%s,"s":"%s"}}'
    found = rows_of(
        columns, text % ((exact,) * 4), envelope=True, keeps=True, key=["id"], keys=[b'{"other":1}']
    )

    ((row, change),) = found
    assert change["problem"] is None
    assert str(row["n"]).encode() == exact
    assert (row["d"], row["s"]) == (float(exact), exact.decode())


@pytest.mark.parametrize(
    "of_key",
    [b'{"id":%s,"n":%s}', b'{"schema":{"type":"struct","fields":[{"field":"id"},{"field":"n"}]},"payload":{"id":%s,"n":%s}}'],
    ids=["bare", "with its schema"],
)  # fmt: skip
def test_numbers_of_a_key_delete_the_row_that_they_inserted(of_key):
    """Else a delete leaves its row, and takes the one that is near."""
    exact = b"0.123456789012345678"
    columns = {"id": "DECIMAL(20,18)", "n": "STRING", "more": "STRING"}
    insert = b'{"op":"c","after":{"id":%s,"n":%s},"source":{"schema":"public","table":"orders"}}' % (
        (exact,) * 2
    )
    found = rows_of(
        columns, insert, event(op="d"), envelope=True, keeps=True, key=["id", "n"], keys=[of_key % ((exact,) * 2)] * 2,
    )  # fmt: skip

    assert [change["problem"] for _, change in found] == [None, None]
    assert [str(row["id"]).encode() for row, _ in found] == [exact, exact]
    assert found[0][0] == found[1][0]


DIGITS = "9007199254740993217"
"""As a whole number of 16 digits, the first that no double has."""


def spellings():
    """Numbers of 14 to 19 digits in every way to write them: sign, point and exponent."""
    for size in range(14, 20):
        digits = DIGITS[:size]
        points = (digits, f"{digits[0]}.{digits[1:]}", f"{digits[:-1]}.{digits[-1]}", f"0.{digits}")
        ends = ("", "e-2", "E+1", "e0", "e1", "e-02", "E-001")
        yield from (sign + number + end for sign in ("", "-") for number in points for end in ends)


def test_a_decimal_is_exact_however_many_digits_and_whatever_exponent_it_has():
    """Alone, in a list, and in the key that a row is deleted by; Python's own is the judge."""
    texts = [*spellings()]
    rows = rows_of(
        {"n": "DECIMAL(38,18)", "a": "ARRAY<DECIMAL(38,18)>"},
        *(b'{"n":%s,"a":[1.5,%s]}' % ((text.encode(),) * 2) for text in texts),
    )
    deletes = rows_of(
        {"id": "DECIMAL(38,18)"}, *[event(op="d")] * len(texts), envelope=True, keeps=True, key=["id"],
        keys=[b'{"id":%s}' % text.encode() for text in texts],
    )  # fmt: skip
    exact = {text: Decimal(text) for text in texts if Decimal(text).as_tuple().exponent >= -18}

    assert len(exact) > 150
    for text, (row, told), (gone, _) in zip(texts, rows, deletes, strict=True):
        if text in exact:
            number = exact[text]
            assert (row, gone, told["problem"]) == (
                {"n": number, "a": [Decimal("1.5"), number]},
                {"id": number},
                None,
            )
        else:
            assert (row, gone) == (None, None)


# Telling messages apart


def groups(form, *values, keys=None):
    batch = from_kafka(*map(text_of, values))
    if keys is not None:
        batch = batch.set_column(0, "key", from_kafka(*keys).column("value"))
    return list(Sorter({TOPIC: form}).groups(batch))


def test_all_events_are_of_one_kind_and_a_tombstone_is_none():
    form = DeclaredJson((("id", "BIGINT"),), has_envelope=False)
    batch = from_kafka(b'{"id":1}', None, b"garbage", b'{"x":1}')
    (group,) = Sorter({TOPIC: form}).groups(batch)

    assert group.to_decode().column("offset").to_pylist() == [0, 2, 3]
    assert group.sample() == ('{"id":1}', key(id=1).decode())


def test_changes_with_keys_of_other_columns_are_of_another_kind():
    """Or a primary key that gains a column would let rows overwrite each other."""
    form = DeclaredJson((("id", "BIGINT"), ("part", "BIGINT")))
    keys = [b'{"id":1}', b'{"id":2}', b'{"id":1,"part":1}', None, b"garbage"]
    found = groups(form, *[event(after={"id": 1})] * 5, keys=keys)

    assert [len(one.bodies) for one in found] == [2, 1, 1, 1]
    assert [form.schema(*one.sample()).key for one in found] == [("id",), ("id", "part"), (), ()]


def test_of_changes_the_sample_is_one_that_says_its_source():
    form = DeclaredJson((("id", "BIGINT"),))
    (group,) = groups(form, b"x", {"id": 1}, {"op": "c", "after": {}}, event(after={"id": 1}))

    schema = form.schema(*group.sample())
    assert (schema.source_schema, schema.source_table) == ("public", "orders")
    (group,) = groups(form, b"x", {"id": 1})
    assert group.sample() is None
    with pytest.raises(SchemaError):
        form.schema("[]", None)


# Any bytes


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KINDS = [
    "BIGINT",
    "DECIMAL(20,18)",
    "TIMESTAMP",
    "TIMESTAMP(s)",
    "DATE",
    "STRING",
    "BINARY",
    "DOUBLE",
    "ARRAY<DECIMAL(5,1)>",
]
MANY = {"id": "BIGINT"} | {f"c{number}": kind for number, kind in enumerate(KINDS)}
ROWS = st.dictionaries(st.sampled_from([*MANY, "z"]), JSONS, max_size=8)
MESSAGES = st.one_of(
    st.binary(),
    JSONS.map(text_of_json := lambda value: json.dumps(value).encode("utf-8", "surrogatepass")),
    ROWS.map(text_of_json),
    st.builds(lambda row, before, op: text_of_json(event(op=op, before=before, after=row)), ROWS | JSONS, ROWS | JSONS, st.sampled_from("crudx")),
    st.builds(lambda row, at, other: (text := text_of_json(row))[: at % len(text)] + other + text[at % len(text) :], ROWS, st.integers(0), st.binary(max_size=2)),
)  # fmt: skip


@given(
    st.lists(MESSAGES, min_size=1, max_size=6),
    st.booleans(),
    st.sampled_from(["ignore", "dead_letter", "text"]),
)
@example([b'{"id":1}', b""], False, "text")
@example([b'{"id":1,"c8":[0.1234567890123456789]}'], False, "ignore")
def test_any_bytes_come_out_once_as_a_row_or_a_problem(messages, envelope, others):
    found = rows_of(
        MANY, *messages, envelope=envelope, others=others, key=["id"], keys=[b'{"id":1}'] * len(messages)
    )

    assert [change["offset"] for _, change in found] == list(range(len(messages)))
    for row, change in found:
        if change["problem"] is None:
            assert row["id"] is not None
        else:
            assert row is None
