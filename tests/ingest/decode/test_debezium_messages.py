"""What each message becomes: a row, or a problem with its reason. No Spark, no Java."""

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from isotherm_ingest.decode.debezium_messages import decoder, kept_names
from isotherm_ingest.decode.debezium_schema import change_schema
from isotherm_ingest.decode.statement import Wanted
from support.wire import (
    DATE,
    ID,
    MICROS,
    MILLIS,
    NANOS,
    PLACEHOLDER,
    VARIABLE,
    ZONED,
    array,
    arrow,
    decimal,
    decoded,
    decoder_of,
    key,
    message,
    raw,
    typed,
)

FIELDS = [ID, {"field": "name", "type": "string"}, {"field": "at", **ZONED}]


def row(number, name="n", at=None):
    return {"id": number, "name": name, "at": at}


def test_what_is_known_of_a_change():
    ((found, change),) = decoded(decoder_of(FIELDS), raw(message(FIELDS, op="r", after=row(1))))

    assert found == row(1)
    assert {name: value for name, value in change.items() if value is not None} == {
        "op": "r",
        "elsewhere": False,
        "ts": datetime(1970, 1, 1, microsecond=5000, tzinfo=UTC),
        "lsn": 9,
        "topic": "shop.public.orders",
        "partition": 0,
        "offset": 0,
    }


def test_poison_between_good_messages_is_told_one_by_one():
    good = message(FIELDS, after=row(1))
    bad = {
        b"": "undecodable",
        b"\xff\xfe": "not_utf8",
        good[:-20]: "undecodable",
        good + b"x": "undecodable",
        good.replace(b'"n"', b'"\xff"'): "not_utf8",
        good.replace(b'"id":1', b'"id":1.5'): "undecodable_value:id",
        good.replace(b'"id":1', b'"id":null'): "null_key:id",
        good.replace(b'"at":null', b'"at":"soon"'): "undecodable_value:at",
        good.replace(b',"at":null', b""): "undecodable",
        message(FIELDS, after=7): "undecodable",
        message(FIELDS, after=None): "no_row",
        message(FIELDS, op="m"): "unsupported_op:m",
        message(FIELDS, op="t", after=row(1)): "unsupported_op:t",
        message(FIELDS, op=None): "undecodable",
        message(FIELDS, after=row(1), source={"schema": "public", "db": "shop", "table": "x", "ts_ms": 1, "lsn": 1}): "other_table",
    }  # fmt: skip
    values = [good, *(one for text in bad for one in (text, good))]
    found = decoded(decoder_of(FIELDS), raw(*values))

    assert [one for one, _ in found[::2]] == [row(1)] * (len(bad) + 1)
    assert all(change["problem"] is None for _, change in found[::2])
    for (none, change), (text, reason) in zip(found[1::2], bad.items(), strict=True):
        assert none is None
        assert change["problem"].startswith(reason), text


@pytest.mark.parametrize("keeps", [True, False], ids=["mirror", "changelog"])
def test_a_null_in_a_column_that_the_table_requires_is_told_alone(keeps):
    """A table that somebody else has made. The row would keep all others from being written."""
    found = decoder_of(FIELDS, keeps=keeps, required=frozenset({"id", "name"}))
    values = [
        message(FIELDS, after=row(1)),
        message(FIELDS, after=row(2, None)),
        message(FIELDS, op="d", before=row(3, None), after=None),
        message(FIELDS, after=row(4, at=None)),
    ]
    problems = [change["problem"] for _, change in decoded(found, raw(*values))]

    assert problems == [None, "null_value:name", None if keeps else "null_value:name", None]


def test_a_large_value_that_a_change_leaves_out_is_no_null():
    fields = [{"field": "id", "type": "int64"}, {"field": "name", "type": "string"}]
    found = decoder_of(fields, required=frozenset({"name"}))
    kept = message(fields, op="u", after={"id": 1, "name": "__debezium_unavailable_value"})
    ((_, change),) = decoded(found, raw(kept))

    assert (change["problem"], change["kept"]) == (None, ["name"])


def test_rows_come_in_the_order_of_their_messages():
    """More than DuckDB looks at together, with poison in between."""
    values = [message(FIELDS, after=row(number)) if number % 1000 else b"x" for number in range(5000)]

    found = [one and one["id"] for one, _ in decoded(decoder_of(FIELDS), raw(*values))]
    assert found == [number if number % 1000 else None for number in range(5000)]


@pytest.mark.parametrize("size", [1, 9])
def test_a_message_at_which_duckdb_stops_is_told_alone(size):
    """None is known; so the statement is made to stop at one."""
    found = decoder_of(FIELDS)
    stops = "CASE WHEN v0 = 5 THEN error('no way') ELSE p.op END AS op"
    found = replace(found, sql=found.sql.replace("p.op AS op", stops))
    numbers = [*range(6 - size, 6), 6][-size:] if size > 1 else [5]
    told = decoded(found, raw(*(message(FIELDS, after=row(number)) for number in numbers)))

    assert [number for number, (one, _) in zip(numbers, told, strict=True) if one is None] == [5]
    assert [change["offset"] for _, change in told] == list(range(size))
    assert [change["problem"] for one, change in told if one is None] == [
        "undecodable:Invalid Input Error: no way"
    ]


@pytest.mark.parametrize("unplanned", ["sql", "left_sql"])
def test_what_duckdb_cannot_plan_is_the_problem_of_its_messages(unplanned):
    """None is known; so a statement is made one. The table goes on with messages of other schemas."""
    found = replace(decoder_of(FIELDS), **{unplanned: "SELECT nothing FROM messages"})
    messages = raw(*(message(FIELDS, after=row(number)) for number in range(3)))
    told = decoded(found, messages)

    assert [one for one, _ in told] == [None] * 3
    assert [change["offset"] for _, change in told] == [0, 1, 2]
    assert all(change["problem"].startswith("undecodable:Binder Error: ") for _, change in told)
    assert found.left(messages).num_rows == 0


def test_a_poison_message_alone():
    ((none, change),) = decoded(decoder_of(FIELDS), raw(b"garbage"))

    assert none is None
    assert change["problem"] == "undecodable:the payload does not fit its schema"


def test_a_message_with_or_without_its_schema():
    whole = message(FIELDS, after=row(3))
    payload = b"{" + whole.partition(b',"payload"')[1][1:] + whole.partition(b',"payload"')[2]
    turned = json.dumps(dict(reversed(json.loads(whole).items())), indent=1).encode()

    found = decoded(decoder_of(FIELDS), raw(whole, payload, turned))
    assert [one for one, _ in found] == [row(3)] * 3


def test_names_that_clash_with_ours_and_with_sql():
    names = ["_op", "_ts", "_problem", "_offset", "row", "change", "kept", "p", "image", "v1", "k1", 'a"b', "a'b", "a b", "select", "x`y", "é", "a.b"]  # fmt: skip
    fields = [ID, *({"field": name, "type": "string"} for name in names)]
    after = {"id": 1, **{name: f"of {name}" for name in names}}

    ((found, change),) = decoded(decoder_of(fields), raw(message(fields, after=after)))
    assert found == after
    assert change["op"] == "c"


# Deletes


# Unchanged large values

LARGE = [
    (typed("string"), PLACEHOLDER),
    (typed("string", "io.debezium.data.Json"), PLACEHOLDER),
    (typed("string", "io.debezium.data.Json"), json.dumps({PLACEHOLDER: PLACEHOLDER}, separators=(",", ":"))),
    (typed("string", "io.debezium.data.Xml"), PLACEHOLDER),
    (typed("bytes"), base64.b64encode(PLACEHOLDER.encode()).decode()),
    (typed("map"), {PLACEHOLDER: PLACEHOLDER}),
    (array(typed("string")), [PLACEHOLDER]),
    (array(typed("bytes")), [base64.b64encode(PLACEHOLDER.encode()).decode()]),
    (array(typed("int32")), list(PLACEHOLDER.encode())),
    (array(typed("int64")), list(PLACEHOLDER.encode())),
    (array(DATE), list(PLACEHOLDER.encode())),
    # By the JDK: UUID.nameUUIDFromBytes("__debezium_unavailable_value".getBytes())
    (array(typed("string", "io.debezium.data.Uuid")), ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]),
]


@pytest.mark.parametrize(("field", "placeholder"), LARGE)
def test_a_placeholder_is_kept_by_a_mirror(field, placeholder):
    fields = [ID, {"field": "x", **field}]
    after = {"id": 1, "x": placeholder}
    values = [
        message(fields, op="u", after=after),
        message(fields, op="c", after=after),  # a new row may hold that very text
        message(fields, op="c", after=after),
        message(fields, op="u", after={"id": 1, "x": None}),
        message(fields, op="d", before=after),
    ]
    found = decoded(decoder_of(fields), raw(*values, moved=[False, False, True, True, False]))

    assert [change["kept"] for _, change in found] == [["x"], None, ["x"], None, None]
    assert [change["untold"] for _, change in found][:3] == [None, None, ["x"]]
    assert [one["x"] is None for one, _ in found] == [True, False, True, True, False]
    assert all(change["problem"] is None for _, change in found)


def test_a_placeholder_is_shown_by_a_changelog():
    fields = [ID, {"field": "x", "type": "string"}]
    ((found, change),) = decoded(
        decoder_of(fields, keeps=False), raw(message(fields, op="u", after={"id": 1, "x": PLACEHOLDER}))
    )

    assert (found["x"], change["kept"]) == (PLACEHOLDER, None)


@pytest.mark.parametrize(
    ("items", "told"),
    [
        (typed("int16"), False),
        (typed("double"), False),
        (typed("boolean"), False),
        (decimal(2, 5), False),
        (ZONED, False),
        (MICROS, False),
        (MILLIS, False),
        (typed("int32", "org.apache.kafka.connect.data.Date"), False),
        (typed("int64", "io.debezium.time.MicroTime"), False),
        (typed("string", "io.debezium.data.Enum"), False),
        (typed("string"), True),
        (typed("string", "io.debezium.data.Json"), True),
        (typed("int32"), True),
        (DATE, True),
    ],
)
def test_where_a_null_may_mean_unchanged_it_is_said(items, told):
    fields = [ID, {"field": "x", **array(items)}]
    old = {"id": 1, "x": None}
    values = [
        message(fields, op="u", after={"id": 1, "x": None}),
        message(fields, op="u", before=old, after={"id": 1, "x": None}),  # the source tells it all
        message(fields, op="c", after={"id": 1, "x": None}),
        message(fields, op="u", after={"id": 1, "x": []}),
    ]
    found = decoded(decoder_of(fields), raw(*values))

    assert [change["untold"] for _, change in found] == [None if told else ["x"], None, None, None]


def test_a_null_of_bits_may_mean_unchanged():
    fields = [ID, {"field": "x", **typed("bytes", "io.debezium.data.Bits")}]
    after = {"id": 1, "x": None}
    ((_, change),) = decoded(decoder_of(fields), raw(message(fields, op="u", after=after)))

    assert change["untold"] == ["x"]


def test_the_names_of_columns_that_messages_lack_are_in_a_batch_once():
    """Of a table with a thousand columns they were 19 kB in each row, and a message had ten."""
    lacking = {f"a_column_of_theirs_{place}": "STRING" for place in range(1000)}
    values = [message(FIELDS, op="u", after=row(number, PLACEHOLDER)) for number in range(100)]
    found = decoder_of(FIELDS, table={"id": "BIGINT", "name": "STRING", "at": "TIMESTAMP", **lacking})
    kept = found.decode(raw(*values)).column("change").field("kept")

    assert kept_names(kept) == 100 * [frozenset(["name", *lacking])]
    assert kept.nbytes < 2 * len("".join(lacking))


def test_a_column_that_the_messages_lack_is_kept_by_a_mirror():
    table = {"theirs": "STRING", "id": "BIGINT", "name": "STRING", "at": "TIMESTAMP"}
    values = [message(FIELDS, op="u", after=row(1, PLACEHOLDER)), message(FIELDS, op="d", before=row(1))]
    mirror = decoded(decoder_of(FIELDS, table=table), raw(*values))
    changelog = decoded(decoder_of(FIELDS, table=table, keeps=False), raw(*values))

    assert [change["kept"] for _, change in mirror] == [["name", "theirs"], None]
    assert [change["kept"] for _, change in changelog] == [None, None]
    assert mirror[0][0] == {"theirs": None, **row(1, None)}


# Several tables in one topic


@pytest.mark.parametrize(
    ("parts", "other"),
    [({"table", "schema"}, {"orders_1", "public_1"}), ({"table"}, {"orders_1"}), ({"schema"}, {"public_1"}), (set(), set())],
)  # fmt: skip
def test_another_source_matters_where_the_table_is_named_for_it(parts, other):
    values = [
        message(FIELDS, after=row(1), source={"schema": schema, "db": "shop", "table": table, "ts_ms": 1, "lsn": 1})
        for table, schema in [("orders", "public"), ("orders_1", "public"), ("orders", "public_1")]
    ]  # fmt: skip
    found = decoded(decoder_of(FIELDS, source_parts=frozenset(parts)), raw(*values))

    refused = [change["problem"] is not None for _, change in found]
    assert refused == [False, "orders_1" in other, "public_1" in other]


# Any bytes


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
MANY = [
    ID,
    *({"field": f"c{number}", **kind} for number, kind in enumerate([
        typed("int32"), typed("boolean"), typed("double"), typed("string"), typed("bytes"), DATE, ZONED, MICROS, MILLIS, NANOS,
        decimal(2, 10), decimal(0, 78), VARIABLE, array(typed("int32")), array(array(ZONED)), array(VARIABLE), typed("map"),
    ])),
]  # fmt: skip
EMPTY = {field["field"]: None for field in MANY}


def cut(text, at):
    return text[: at % (len(text) + 1)]


MESSAGES = st.one_of(
    st.binary(),
    st.none(),
    JSONS.map(lambda value: json.dumps(value).encode("utf-8", "surrogatepass")),
    st.builds(lambda rest: message(MANY, after={**EMPTY, **rest}), st.dictionaries(st.sampled_from(list(EMPTY)), JSONS, max_size=8)),
    st.builds(lambda before, after, op: message(MANY, op=op, before=before, after=after), JSONS, JSONS, JSONS),
    st.builds(cut, st.just(message(MANY, after=EMPTY)), st.integers(0)),
    st.builds(
        lambda at, other: (text := message(MANY, after=EMPTY))[: at % len(text)] + other + text[at % len(text) + 1 :],
        st.integers(0),
        st.binary(min_size=1, max_size=1),
    ),
)  # fmt: skip
DECODERS = {
    (out_of_range, keeps): decoder_of(MANY, out_of_range=out_of_range, keeps=keeps)
    for out_of_range in ("dead_letter", "null", "clamp")
    for keeps in (True, False)
}


@given(st.lists(st.tuples(MESSAGES, st.none() | st.binary()), max_size=6), st.sampled_from(sorted(DECODERS)))
@example([(message(MANY, after={**EMPTY, "id": 1}), None), (b"", b"")], ("clamp", True))
def test_any_bytes_come_out_once_as_a_row_or_a_problem(sent, which):
    values, keys = [value for value, _ in sent], [key for _, key in sent]
    found = decoded(DECODERS[which], raw(*values, keys=keys))

    assert [change["offset"] for _, change in found] == list(range(len(sent)))
    for one, change in found:
        if change["problem"] is None:
            assert one["id"] is not None
            assert change["op"] in {"r", "c", "u", "d"}
        else:
            assert one is None


def test_no_messages_are_no_rows():
    assert decoded(decoder_of(FIELDS), raw()) == []
    assert decoder_of(FIELDS).decode(raw()).schema.names == ["row", "change"]
    assert pa.types.is_struct(decoder_of(FIELDS).schema.field("row").type)


def test_a_text_that_is_no_uuid_is_a_dead_letter_where_the_table_has_uuids():
    fields = [ID, {"field": "token", "type": "string"}]
    schema = pa.schema([("id", pa.int64()), ("token", pa.uuid())])
    found = decoder(
        change_schema(message(fields).decode(), key(id=1).decode()),
        schema,
        Wanted(("id", "token"), ("id",), keeps=True),
    )
    good = "0f3c8a6e-6c1f-4d0a-9b52-6a1f0f7a1b2c"
    values = [
        message(fields, after={"id": number, "token": text}) for number, text in enumerate([good, "x", None])
    ]
    rows = decoded(found, raw(*values))

    assert [row and row["token"] for row, _ in rows] == [UUID(good), None, None]
    assert [change["problem"] for _, change in rows] == [None, "undecodable_value:token", None]


@pytest.mark.parametrize("keeps", [True, False], ids=["mirror", "changelog"])
def test_a_value_that_went_into_a_column_beside_its_own_empties_that(keeps):
    """Unless it is large and unchanged: then the row keeps both, whichever has it."""
    columns = {"id": "BIGINT", "paid": "BOOLEAN", "paid__string": "STRING", "new": "STRING"}
    fields = [ID, {"field": "paid", "type": "string"}]
    schema = replace(change_schema(message(fields).decode(), None), called=(("paid", "paid__string"),))
    wanted = Wanted(tuple(columns), ("id",), keeps, instead_of={"paid__string": "paid"})
    found = decoder(schema, pa.schema([(name, arrow(kind)) for name, kind in columns.items()]), wanted)
    values = [
        message(fields, op="u", after={"id": 1, "paid": "yes"}),
        message(fields, op="u", after={"id": 2, "paid": PLACEHOLDER}),
    ]
    (told, change), (unchanged, kept) = decoded(found, raw(*values))

    assert told == {"id": 1, "paid": None, "paid__string": "yes", "new": None}
    assert [unchanged[name] for name in ("paid", "new")] == [None, None]
    assert change["kept"] == (["new"] if keeps else None)
    assert kept["kept"] is None if not keeps else sorted(kept["kept"]) == ["new", "paid", "paid__string"]
    back = decoder_of(
        [ID, {"field": "paid", "type": "boolean"}],
        table=columns,
        keeps=keeps,
        instead_of={"paid__string": "paid"},
    )
    ((_, change),) = decoded(
        back, raw(message([ID, {"field": "paid", "type": "boolean"}], op="u", after={"id": 1, "paid": True}))
    )
    assert change["kept"] == (["new"] if keeps else None)
