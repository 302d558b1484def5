"""What each value in JSON becomes, type by type: no Spark, no Java."""

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    base64_of,
    decimal,
    decoded,
    decoder_of,
    message,
    raw,
    typed,
)

EPOCH = datetime.fromisoformat("1970-01-01")
FIRST, LAST = datetime.fromisoformat("0001-01-01"), datetime.fromisoformat("9999-12-31T23:59:59.999999")
INFINITY_MICROS, MINUS_INFINITY_MICROS = 9223372036825200000, -9223372036832400000
INFINITY_DAYS, MINUS_INFINITY_DAYS = -622191233, 622191232
"""As Debezium writes PostgreSQL's infinities."""
STREAMED_INFINITY_DAYS, STREAMED_MINUS_INFINITY_DAYS = -2147472692, -2147472691
"""The same in a change that is no part of a snapshot."""


def one(field, wire, **wanted):
    """What a value in JSON becomes: the value in the row, and the problem."""
    fields = [ID, {"field": "x", **field}]
    ((row, change),) = decoded(decoder_of(fields, **wanted), raw(message(fields, after={"id": 1, "x": wire})))
    return (row and row["x"]), change["problem"]


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
        # No decimal at all: a table with such a column could be made, and never read again.
        (decimal(0, "0"), base64_of(7), "7"),
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
        # Connect's `decimal.format=NUMERIC`: each of these is base64, too.
        (decimal(0, 10), 1234),
        (decimal(-2), 1234),
        (decimal(0, 38), True),
        (array(decimal(0, 10)), [1234]),
        (array(VARIABLE), [{"scale": 0, "value": 1234}]),
        (typed("bytes"), 1234),
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
    (DATE, STREAMED_INFINITY_DAYS, date(9999, 12, 31)),
    (DATE, STREAMED_MINUS_INFINITY_DAYS, date(1, 1, 1)),
    # In a snapshot and in arrays, where Debezium's machine has UTC.
    (DATE, -622191234, date(9999, 12, 31)),
    (DATE, -625821272, date(1, 1, 1)),
    (array(ZONED), ["+292269055-12-02T23:00:00.000000Z"], [FIRST.replace(tzinfo=UTC)]),
    (NANOS, 2**63 - 1, LAST),
    (NANOS, -(2**63), FIRST),
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
    emptied = [*clamped[:-1], None] if isinstance(wire, list) else None

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


@given(st.lists(st.integers(-(10**12), 10**12) | st.integers()), st.integers(0, 60))
def test_numbers_are_those_of_python(numbers, scale):
    fields = [ID, {"field": "x", **decimal(scale, 78)}]
    values = [message(fields, after={"id": 1, "x": base64_of(number)}) for number in numbers]

    got = [one["x"] for one, _ in decoded(decoder_of(fields), raw(*values))]
    assert [format(Decimal(text), "f") for text in got] == got
    assert [Decimal(text) for text in got] == [
        Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale)) for number in numbers
    ]


TINY = {"scale": 20_000, "value": "AQ=="}
"""A number of a byte, with as many decimals as a number may have."""


def padded(*fields, **values):
    """What a message of such columns becomes: the row, and the problem."""
    columns = [ID, *fields]
    ((row, change),) = decoded(decoder_of(columns), raw(message(columns, after={"id": 1, **values})))
    return row, change["problem"]


@pytest.mark.parametrize(("item", "wire"), [(decimal(20_000), "AQ=="), (VARIABLE, TINY)])
def test_a_list_of_numbers_becomes_no_text_that_is_a_thousand_times_as_long(item, wire):
    field = {"field": "x", **array(item)}

    assert padded(field, x=[wire] * 5)[0]["x"] == ["0." + "0" * 19_999 + "1"] * 5
    assert padded(field, x=[wire] * 1000) == (None, "undecodable_value:x")
    assert padded({"field": "x", **array(array(item))}, x=[[wire], None, [wire] * 20]) == (
        None,
        "undecodable_value:x",
    )


def test_numbers_of_many_columns_count_together():
    fields = [{"field": f"x{number}", **VARIABLE} for number in range(400)]
    names = [one["field"] for one in fields]

    ordinary = {"scale": 2, "value": "AQ=="}

    row, problem = padded(*fields, **dict.fromkeys(names, ordinary) | {"x7": None})
    assert (row["x0"], row["x7"], row["x399"], problem) == ("0.01", None, "0.01", None)
    assert padded(*fields, **dict.fromkeys(names, TINY)) == (None, "undecodable_value:x0")
    assert padded(*fields[:5], **dict.fromkeys(names[:5], TINY))[1] is None


@pytest.mark.parametrize(
    ("item", "wire", "text"),
    [
        (VARIABLE, {"scale": 15, "value": "AQ=="}, "0.000000000000001"),
        (decimal(15, 60), "AQ==", "0.000000000000001"),
        (decimal(-3), "AQ==", "1000"),
    ],
)
def test_a_long_list_of_ordinary_numbers_is_written(item, wire, text):
    row, problem = padded({"field": "x", **array(item)}, x=[wire] * 30_000)

    assert problem is None
    assert row["x"] == [text] * 30_000


def test_a_number_that_is_too_much_harms_no_other_message():
    fields = [ID, {"field": "x", **array(VARIABLE)}]
    some = [
        message(fields, after={"id": number, "x": [TINY] * (1 + number % 2 * 100)}) for number in range(4)
    ]

    found = decoded(decoder_of(fields), raw(*some))

    assert [change["problem"] for _, change in found] == [None, "undecodable_value:x"] * 2
