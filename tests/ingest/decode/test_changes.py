"""What each message becomes: a row, value by value, or a problem with its reason. No Spark, no Java."""

import base64
import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.wire import ID, PLACEHOLDER, decimal, decoded, decoder_of, key, message, raw

EPOCH = datetime.fromisoformat("1970-01-01")
FIRST, LAST = datetime.fromisoformat("0001-01-01"), datetime.fromisoformat("9999-12-31T23:59:59.999999")
INFINITY_MICROS, MINUS_INFINITY_MICROS = 9223372036825200000, -9223372036832400000
INFINITY_DAYS, MINUS_INFINITY_DAYS = -622191233, 622191232
"""As Debezium writes PostgreSQL's infinities."""


def base64_of(number):
    return base64.b64encode(number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)).decode()


def typed(kind, name=None, **more):
    return {"type": kind, **({"name": name} if name else {}), **more}


def array(items):
    return {"type": "array", "items": items}


def one(field, wire, **wanted):
    """What a value in JSON becomes: the value in the row, and the problem."""
    fields = [ID, {"field": "x", **field}]
    ((row, change),) = decoded(decoder_of(fields, **wanted), raw(message(fields, after={"id": 1, "x": wire})))
    return (row and row["x"]), change["problem"]


DATE = typed("int32", "io.debezium.time.Date")
ZONED = typed("string", "io.debezium.time.ZonedTimestamp")
MICROS = typed("int64", "io.debezium.time.MicroTimestamp")
MILLIS = typed("int64", "io.debezium.time.Timestamp")
NANOS = typed("int64", "io.debezium.time.NanoTimestamp")
VARIABLE = typed("struct", "io.debezium.data.VariableScaleDecimal")


@pytest.mark.parametrize(
    ("field", "wire", "value"),
    [
        (typed("int16"), -32768, -32768),
        (typed("int32"), 2147483647, 2147483647),
        (typed("int64"), -(2**63), -(2**63)),
        (typed("int64"), 2**63 - 1, 2**63 - 1),
        (typed("boolean"), True, True),
        (typed("boolean"), False, False),
        (typed("double"), 0.1, 0.1),
        (typed("double"), 1.7976931348623157e308, 1.7976931348623157e308),
        (typed("double"), 5e-324, 5e-324),
        (typed("double"), "Infinity", math.inf),
        (typed("double"), "-Infinity", -math.inf),
        (typed("float"), 0.5, 0.5),
        (typed("string"), "", ""),
        (typed("string"), "null", "null"),
        (typed("string"), 'a"\\\n\x00\x7f\u20ac\U0001f600', 'a"\\\n\x00\x7f\u20ac\U0001f600'),
        (typed("string", "io.debezium.data.Json"), '{"a": [1.50, null]}', '{"a": [1.50, null]}'),
        (typed("string", "io.debezium.data.Uuid"), "9f0c", "9f0c"),
        (typed("bytes"), "AP8=", b"\x00\xff"),
        (typed("bytes"), "", b""),
        (DATE, 0, date(1970, 1, 1)),
        (DATE, -719162, date(1, 1, 1)),
        (DATE, 2932896, date(9999, 12, 31)),
        (typed("int32", "io.debezium.time.Time"), 86_399_999, 86_399_999),
        (typed("int64", "io.debezium.time.MicroTime"), 86_399_999_999, 86_399_999_999),
        (MILLIS, -1, EPOCH - timedelta(milliseconds=1)),
        (MICROS, -62135596800000000, FIRST),
        (MICROS, 253402300799999999, LAST),
        (NANOS, 1_999, EPOCH + timedelta(microseconds=1)),
        (NANOS, -1, EPOCH - timedelta(microseconds=1)),
        (ZONED, "0001-01-01T00:00:00Z", FIRST.replace(tzinfo=UTC)),
        (ZONED, "9999-12-31T23:59:59.999999Z", LAST.replace(tzinfo=UTC)),
        (ZONED, "2024-01-01T02:00:00+02:00", datetime(2024, 1, 1, tzinfo=UTC)),
        (decimal(2, 10), base64_of(-5), Decimal("-0.05")),
        (decimal(2, 10), base64_of(9999999999), Decimal("99999999.99")),
        (decimal(0, 38), base64_of(10**38 - 1), Decimal(10**38 - 1)),
        (decimal(38, 38), base64_of(-(10**38) + 1), Decimal("-0." + "9" * 38)),
        # Too long for a decimal: text, of any length.
        (decimal(0, 78), base64_of(2**256 - 1), str(2**256 - 1)),
        (decimal(10, 60), base64_of(-(10**59)), "-" + "1" + "0" * 49 + "." + "0" * 10),
        (decimal(-2), base64_of(7), "700"),
        (VARIABLE, {"scale": 0, "value": base64_of(0)}, "0"),
        (VARIABLE, {"scale": 3, "value": base64_of(-1)}, "-0.001"),
        (VARIABLE, {"scale": 0, "value": base64_of(10**5000)}, "1" + "0" * 5000),
        (VARIABLE, {"scale": 16_383, "value": base64_of(1)}, "0." + "0" * 16_382 + "1"),
        (array(typed("string")), ["a", None, PLACEHOLDER + "!"], ["a", None, PLACEHOLDER + "!"]),
        (array(typed("string")), [], []),
        (array(typed("int32")), [1, None], [1, None]),
        (array(decimal(1, 5)), [base64_of(15), None], [Decimal("1.5"), None]),
        (array(DATE), [1], [date(1970, 1, 2)]),
        (array(ZONED), ["2024-01-01T00:00:00Z"], [datetime(2024, 1, 1, tzinfo=UTC)]),
        (array(VARIABLE), [{"scale": 1, "value": base64_of(15)}], ["1.5"]),
        (array(array(typed("int64"))), [[1, None], None, []], [[1, None], None, []]),
        (typed("struct", "io.debezium.data.geometry.Point"), {"x": 1, "y": [True]}, '{"x":1,"y":[true]}'),
        (typed("map"), {"a": "b"}, '{"a":"b"}'),
        (typed("something new"), 7, "7"),
    ],
)  # fmt: skip
def test_values(field, wire, value):
    assert one(field, wire) == (value, None)
    assert one(field, None) == (None, None)


def test_nan_is_a_number():
    value, problem = one(typed("double"), "NaN")

    assert math.isnan(value)
    assert problem is None


@pytest.mark.parametrize(
    ("field", "wire"),
    [
        (typed("int32"), 2**31),
        (typed("int64"), 2**63),
        (typed("int64"), 1.5),
        (typed("int64"), "two"),
        (typed("int64"), True),
        (typed("boolean"), 1),
        (typed("double"), "x"),
        (typed("bytes"), "no base64!"),
        (typed("bytes"), "AP8"),
        (ZONED, "2024-13-01T00:00:00Z"),
        (ZONED, ""),
        (decimal(2, 4), base64_of(10**4)),
        (decimal(0, 38), base64_of(10**38)),
        (decimal(0, 38), ""),
        (VARIABLE, 7),
        (VARIABLE, {"scale": 1}),
        (VARIABLE, {"scale": 10**6, "value": base64_of(1)}),
        (array(typed("int32")), 7),
        (array(typed("int32")), [1, "x"]),
        (array(decimal(1, 2)), [base64_of(1), base64_of(10**6)]),
        (array(array(typed("int64"))), [[1], ["x"]]),
        (array(array(typed("int64"))), [1]),
    ],
)
def test_a_value_that_cannot_be_read_is_named(field, wire):
    assert one(field, wire) == (None, "undecodable_value:x")


TOO_FAR = [
    (DATE, INFINITY_DAYS, date(9999, 12, 31)),
    (DATE, MINUS_INFINITY_DAYS, date(1, 1, 1)),
    (DATE, 2932897, date(9999, 12, 31)),
    (MICROS, INFINITY_MICROS, LAST),
    (MICROS, MINUS_INFINITY_MICROS, FIRST),
    (MILLIS, INFINITY_MICROS // 1000, LAST.replace(microsecond=999000)),
    (MILLIS, 2**63 - 1, LAST.replace(microsecond=999000)),
    (ZONED, "+294247-01-10T04:00:25.2Z", LAST.replace(tzinfo=UTC)),
    (ZONED, "-290308-12-21T19:59:27.6Z", FIRST.replace(tzinfo=UTC)),
    (ZONED, "infinity", LAST.replace(tzinfo=UTC)),
    (ZONED, "-infinity", FIRST.replace(tzinfo=UTC)),
    (ZONED, "0000-06-01T00:00:00Z", FIRST.replace(tzinfo=UTC)),
    (array(DATE), [0, INFINITY_DAYS], [date(1970, 1, 1), date(9999, 12, 31)]),
]


@pytest.mark.parametrize(("field", "wire", "clamped"), TOO_FAR)
def test_a_time_that_no_reader_takes_is_treated_as_the_stream_says(field, wire, clamped):
    emptied = [date(1970, 1, 1), None] if isinstance(wire, list) else None

    assert one(field, wire) == (None, "undecodable_value:x")
    assert one(field, wire, out_of_range="dead_letter") == (None, "undecodable_value:x")
    assert one(field, wire, out_of_range="null") == (emptied, None)
    assert one(field, wire, out_of_range="clamp") == (clamped, None)


@pytest.mark.parametrize("out_of_range", ["null", "clamp"])
def test_what_is_no_time_is_a_problem_whatever_the_stream_says(out_of_range):
    assert one(ZONED, "soon", out_of_range=out_of_range) == (None, "undecodable_value:x")
    assert one(DATE, "soon", out_of_range=out_of_range) == (None, "undecodable_value:x")


def test_a_value_is_cast_up_to_the_type_of_the_table():
    fields = [ID, {"field": "n", "type": "int32"}, {"field": "d", **decimal(2, 5)}]
    found = decoder_of(fields, table={"ID": "BIGINT", "d": "DECIMAL(12,2)", "n": "BIGINT"}, keys=("ID",))
    ((row, change),) = decoded(found, raw(message(fields, after={"id": 1, "n": 7, "d": base64_of(5)})))

    assert row == {"ID": 1, "d": Decimal("0.05"), "n": 7}
    assert change["problem"] is None


# Changes


FIELDS = [ID, {"field": "name", "type": "string"}, {"field": "at", **ZONED}]


def row(number, name="n", at=None):
    return {"id": number, "name": name, "at": at}


def test_what_is_known_of_a_change():
    ((found, change),) = decoded(decoder_of(FIELDS), raw(message(FIELDS, op="r", after=row(1))))

    assert found == row(1)
    assert {name: value for name, value in change.items() if value is not None} == {
        "op": "r",
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
        message(FIELDS, op="t"): "unsupported_op:t",
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


def test_rows_come_in_the_order_of_their_messages():
    """More than DuckDB looks at together, with poison in between."""
    values = [message(FIELDS, after=row(number)) if number % 1000 else b"x" for number in range(5000)]

    found = [one and one["id"] for one, _ in decoded(decoder_of(FIELDS), raw(*values))]
    assert found == [number if number % 1000 else None for number in range(5000)]


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


def test_a_delete_has_the_old_row_and_else_what_its_key_says():
    values = [
        message(FIELDS, op="d", before=row(1, "old")),
        message(FIELDS, op="d"),
        message(FIELDS, op="d"),
        message(FIELDS, op="d"),
        message(FIELDS, op="d"),
    ]
    keys = [key(id=1), key(id=2), key(other=2), b"\xff", None]
    found = decoded(decoder_of(FIELDS), raw(*values, keys=keys))

    assert [one for one, _ in found] == [row(1, "old"), row(2, None), None, None, None]
    assert [change["problem"] for _, change in found] == [
        None,
        None,
        *["no_row:the change has no row image"] * 3,
    ]


def test_a_key_of_several_columns():
    fields = [ID, {"field": "part", "type": "int64"}, {"field": "name", "type": "string"}]
    found = decoder_of(fields, keys=("id", "part"), message_key=key(id=1, part=1))
    ((old, change),) = decoded(found, raw(message(fields, op="d"), keys=[key(id=4, part=7)]))

    assert old == {"id": 4, "part": 7, "name": None}
    assert change["problem"] is None


def test_a_key_in_which_a_column_is_null():
    ((_, change),) = decoded(decoder_of(FIELDS), raw(message(FIELDS, op="d"), keys=[key(id=None)]))

    assert change["problem"] == "null_key:id"


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
        (typed("string"), True),
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


@given(st.lists(st.integers(-(10**12), 10**12) | st.integers()), st.integers(0, 60))
def test_numbers_are_those_of_python(numbers, scale):
    fields = [ID, {"field": "x", **decimal(scale, 78)}]
    values = [message(fields, after={"id": 1, "x": base64_of(number)}) for number in numbers]

    got = [one["x"] for one, _ in decoded(decoder_of(fields), raw(*values))]
    assert [format(Decimal(text), "f") for text in got] == got
    assert [Decimal(text) for text in got] == [
        Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale)) for number in numbers
    ]


def test_no_messages_are_no_rows():
    assert decoded(decoder_of(FIELDS), raw()) == []
    assert decoder_of(FIELDS).decode(raw()).schema.names == ["row", "change"]
    assert pa.types.is_struct(decoder_of(FIELDS).schema.field("row").type)
