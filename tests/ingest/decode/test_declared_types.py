"""Of JSON without a schema: which texts each declared type takes, judged by Python's own readers."""

import base64
import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm_ingest.decode.declared_types import declared
from support.declared import rows_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BAD = "undecodable_value:x"


def one(kind, text, **more):
    """What the text of one value in JSON becomes, and the problem."""
    ((row, change),) = rows_of({"x": kind}, b'{"x":%s}' % text.encode(), **more)
    return (row and row["x"]), change["problem"]


def naive(*parts):
    return datetime(*parts, tzinfo=UTC).replace(tzinfo=None)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("BOOLEAN", "true", True),
        ("BOOLEAN", "false", False),
        ("INT", "-2147483648", -(2**31)),
        ("BIGINT", "9223372036854775807", 2**63 - 1),
        ("BIGINT", '"17"', 17),
        ("FLOAT", "0.5", 0.5),
        ("DOUBLE", "1e308", 1e308),
        ("DOUBLE", '"Infinity"', math.inf),
        ("DOUBLE", '"-Infinity"', -math.inf),
        ("DOUBLE", '"15e-1"', 1.5),
        ("DOUBLE", "1e-400", 0.0),
        ("DECIMAL(10,2)", "1.5", Decimal("1.50")),
        ("DECIMAL(10,2)", '"1.500"', Decimal("1.50")),
        ("DECIMAL(10,2)", "15e-1", Decimal("1.50")),
        ("DECIMAL(10,2)", "-99999999.99", Decimal("-99999999.99")),
        ("DECIMAL(38,20)", "0.12345678901234567891", Decimal("0.12345678901234567891")),
        ("DECIMAL(38,0)", "9" * 38, Decimal("9" * 38)),
        ("DECIMAL(38,38)", "1e-38", Decimal("1e-38")),
        ("STRING", '"a\\"\\u00e9"', 'a"é'),
        ("STRING", "1.50", "1.5"),
        ("STRING", '{"a": [1, null]}', '{"a":[1,null]}'),
        ("BINARY", '"AP8="', b"\0\xff"),
        ("DATE", '"2024-02-29"', date(2024, 2, 29)),
        ("DATE(days)", "19782", date(2024, 2, 29)),
        ("TIMESTAMP", '"2024-01-31T12:00:00Z"', datetime(2024, 1, 31, 12, tzinfo=UTC)),
        ("TIMESTAMP", '"2024-01-31 12:00:00.1234567+02:00"', datetime(2024, 1, 31, 10, 0, 0, 123456, UTC)),
        ("TIMESTAMP", '"2024-01-31T12:00+0530"', datetime(2024, 1, 31, 6, 30, tzinfo=UTC)),
        ("TIMESTAMP", '"2024-01-31T12:00"', datetime(2024, 1, 31, 12, tzinfo=UTC)),
        ("TIMESTAMP", '"2024-01-31"', datetime(2024, 1, 31, tzinfo=UTC)),
        ("TIMESTAMP(s)", "1700000000", EPOCH + timedelta(seconds=1700000000)),
        ("TIMESTAMP(s)", "1700000000.123456", EPOCH + timedelta(microseconds=1700000000123456)),
        ("TIMESTAMP(ms)", "-1", EPOCH - timedelta(milliseconds=1)),
        ("TIMESTAMP(ms)", "1.9999999999", EPOCH + timedelta(microseconds=1999)),
        ("TIMESTAMP(ms)", '"-0.0009999999"', EPOCH - timedelta(microseconds=1)),
        ("TIMESTAMP(ms)", '"-0.0010000000001"', EPOCH - timedelta(microseconds=2)),
        ("TIMESTAMP(s)", '"17e8"', EPOCH + timedelta(seconds=1700000000)),
        ("TIMESTAMP(us)", '"1"', EPOCH + timedelta(microseconds=1)),
        ("TIMESTAMP(ns)", "1700000000123456789", EPOCH + timedelta(microseconds=1700000000123456)),
        ("TIMESTAMP_NTZ", '"2024-01-31T12:00:00.5"', naive(2024, 1, 31, 12, 0, 0, 500000)),
        ("TIMESTAMP_NTZ(ms)", "0", naive(1970, 1, 1)),
        ("ARRAY<STRING>", '["a", null, 1]', ["a", None, "1"]),
        ("ARRAY<DECIMAL(38,20)>", '[0.12345678901234567891, "1"]', [Decimal("0.12345678901234567891"), Decimal(1)]),
        ("ARRAY<ARRAY<BIGINT>>", "[[1], null, []]", [[1], None, []]),
        ("ARRAY<TIMESTAMP(s)>", "[1]", [EPOCH + timedelta(seconds=1)]),
    ],
)  # fmt: skip
def test_what_each_type_takes(kind, text, value):
    assert one(kind, text) == (value, None)
    assert one(kind, "null") == (None, None)
    assert one(kind.lower().replace("array<", "array <"), text) == (value, None)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("BOOLEAN", "1"),
        ("BOOLEAN", '"yes"'),
        ("INT", "2147483648"),
        ("BIGINT", "9223372036854775808"),
        ("BIGINT", "1.5"),
        ("BIGINT", "1.0"),
        ("BIGINT", '"1_000"'),
        ("BIGINT", "[1]"),
        ("DOUBLE", '"a lot"'),
        ("DOUBLE", '"1_000"'),
        ("DOUBLE", '" 1 "'),
        ("DOUBLE", '"inf"'),
        ("DOUBLE", "1e309"),
        ("DOUBLE", "-1e400"),
        ("FLOAT", "3.5e38"),
        ("FLOAT", '"1_000"'),
        ("DECIMAL(10,2)", "1e-400"),
        ("DECIMAL(10,2)", "-1.5E-0323"),
        ("ARRAY<DECIMAL(10,2)>", "[1,1e-400]"),
        ("DECIMAL(10,2)", "1.005"),
        ("DECIMAL(10,2)", '"1.005"'),
        ("DECIMAL(10,2)", "100000000"),
        ("DECIMAL(10,2)", "1e400"),
        ("DECIMAL(10,2)", '"1e-999999999"'),
        ("DECIMAL(10,2)", '"1_0"'),
        ("DECIMAL(10,2)", '" 1"'),
        ("DECIMAL(10,2)", '"AQ=="'),
        ("DECIMAL(10,2)", '"NaN"'),
        ("DECIMAL(38,2)", "1.0000000000000000000000000000000000000000000001"),
        ("BINARY", '"not base64"'),
        ("BINARY", "1234"),
        ("DATE", '"2024-02-30"'),
        ("DATE", '"2024-2-3"'),
        ("DATE", '"2024-02-03T00:00:00Z"'),
        ("DATE", "19782"),
        ("DATE(days)", '"2024-02-29"'),
        ("DATE(days)", "20240229"),
        ("TIMESTAMP", "1700000000"),
        ("TIMESTAMP", '"2024-01-31T12:00:00 Europe/Berlin"'),
        ("TIMESTAMP", '"2024-1-31T12:00:00Z"'),
        ("TIMESTAMP", '"2024-01-31T24:00:00Z"'),
        ("TIMESTAMP", '"2024-01-31T12:00:00+99:99"'),
        ("TIMESTAMP", '"2024-01-31T12:00:00+18:01"'),
        ("TIMESTAMP", '"2024-01-31T12:00:00+01:60"'),
        ("TIMESTAMP", '"soon"'),
        ("TIMESTAMP", '"infinity"'),
        ("TIMESTAMP(ms)", '"2024-01-31T12:00:00Z"'),
        ("TIMESTAMP(ms)", "1e300"),
        ("TIMESTAMP(s)", "253402300800"),
        ("TIMESTAMP_NTZ", '"2024-01-31T12:00:00Z"'),
        ("TIMESTAMP_NTZ", '"2024-01-31T12:00:00+02:00"'),
        ("ARRAY<BIGINT>", "1"),
        ("ARRAY<BIGINT>", '["one"]'),
        ("ARRAY<DECIMAL(10,2)>", "[1.005]"),
    ],
)
def test_what_it_does_not_take_names_the_column(kind, text):
    assert one(kind, text) == (None, BAD)


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP(s)", "DATE(days)", "DATE"])
def test_times_beyond_all_readers_are_what_the_stream_says(kind):
    texts = {"TIMESTAMP": '"infinity"', "DATE": '"0000-01-01"', "DATE(days)": "9999999"}
    text = texts.get(kind, "999999999999")

    assert one(kind, text)[1] == BAD
    assert one(kind, text, out_of_range="null") == (None, None)
    value, problem = one(kind, text, out_of_range="clamp")
    assert (value.year, problem) == (1 if kind == "DATE" else 9999, None)


@pytest.mark.parametrize(
    ("kind", "text", "year"),
    [
        ("TIMESTAMP(s)", str(2**63 - 1), 9999),
        ("TIMESTAMP(ms)", str(2**63 - 1), 9999),
        ("TIMESTAMP(ms)", str(-(2**63)), 1),
        ("TIMESTAMP_NTZ(us)", str(2**63), 9999),
        ("TIMESTAMP(ns)", '"-%s"' % ("9" * 60), 1),
        ("TIMESTAMP(ms)", "1e300", 9999),
        ("TIMESTAMP", '"10000-01-01T00:00:00Z"', 9999),
        ("TIMESTAMP", '"+999999-01-01T00:00Z"', 9999),
        ("TIMESTAMP", '"-0044-03-15T12:00:00+01:00"', 1),
        ("TIMESTAMP", '"-infinity"', 1),
        ("TIMESTAMP_NTZ", '"10000-01-01T00:00:00"', 9999),
        ("TIMESTAMP_NTZ", '"-0044-03-15"', 1),
        ("DATE", '"10000-01-01"', 9999),
        ("DATE", '"infinity"', 9999),
        ("DATE", '"-0044-03-15"', 1),
    ],
)
def test_a_time_far_beyond_them_too(kind, text, year):
    assert one(kind, text) == (None, BAD)
    assert one(kind, text, out_of_range="null") == (None, None)
    assert one(f"ARRAY<{kind}>", f"[{text}]", out_of_range="null") == ([None], None)
    value, problem = one(kind, text, out_of_range="clamp")
    assert (value.year, problem) == (year, None)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("TIMESTAMP", '"+12345-nonsense"'),
        ("TIMESTAMP", '"99999-13-45T00:00:00Z"'),
        ("TIMESTAMP", '"+02024-01-01T00:00:00Z"'),
        ("TIMESTAMP", '"2024-02-30T00:00:00Z"'),
        ("TIMESTAMP_NTZ", '"10000-01-01T00:00:00Z"'),
        ("TIMESTAMP_NTZ", '"10000"'),
        ("DATE", '"10000-01-32"'),
        ("DATE", '"2024-02-30"'),
        ("TIMESTAMP(ms)", '"99999999999999999999 or so"'),
        ("TIMESTAMP(ms)", '""'),
    ],
)
@pytest.mark.parametrize("policy", ["null", "clamp"])
def test_what_is_no_time_is_none_whatever_the_stream_says_of_times(kind, text, policy):
    assert one(kind, text, out_of_range=policy) == (None, BAD)
    assert one(kind, "null", out_of_range=policy) == (None, None)
    assert one(f"ARRAY<{kind}>", f"[{text}]", out_of_range=policy) == (None, BAD)
    assert one(f"ARRAY<{kind}>", "[null]", out_of_range=policy) == ([None], None)


@given(
    st.decimals(min_value=-(10**13), max_value=10**13, allow_nan=False, places=12),
    st.sampled_from([("s", 10**6), ("ms", 1000), ("us", 1), ("ns", Decimal("0.001"))]),
)
def test_what_is_finer_than_a_microsecond_is_cut_off_towards_the_past(number, unit):
    name, factor = unit
    with localcontext(prec=60):
        micros = math.floor(number * factor)
    if not -62_135_596_800_000_000 <= micros <= 253_402_300_799_999_999:
        assert one(f"TIMESTAMP({name})", f'"{number:f}"') == (None, BAD)
        return
    expected = EPOCH + timedelta(microseconds=micros)
    assert one(f"TIMESTAMP({name})", f'"{number:f}"') == (expected, None)


@given(
    st.decimals(allow_nan=False, allow_infinity=False, places=None),
    st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p))),
    st.booleans(),
)
def test_a_decimal_is_the_number_that_is_written_or_a_dead_letter(number, digits, is_text):
    """Never another one near it."""
    precision, scale = digits
    text = str(number)
    value, problem = one(f"DECIMAL({precision},{scale})", f'"{text}"' if is_text else text.lstrip("+"))
    with localcontext(prec=1_000):  # Python's own would round to 28 digits
        with_all = number.scaleb(scale)
    fits = with_all == with_all.to_integral_value() and abs(with_all) < 10**precision

    assert (value, problem) == (
        (number, None) if fits and abs(number.as_tuple().exponent) <= 400 else (None, BAD)
    )


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_that_a_program_writes_of_a_double_is_that_double(number):
    assert one("DOUBLE", json.dumps(number)) == (number, None)


@given(st.datetimes(timezones=st.sampled_from([UTC]) | st.timezones()), st.sampled_from(["T", " "]))
def test_a_moment_is_what_python_writes_of_it(moment, between):
    text = moment.isoformat(between)
    zone = moment.utcoffset()
    value, problem = one("TIMESTAMP", json.dumps(text))
    if zone is not None and zone.total_seconds() % 60:  # ISO 8601 has no seconds there
        assert problem == BAD
        return
    try:
        expected = moment.astimezone(UTC)
    except OverflowError:  # in the year 0, or 10000
        assert problem == BAD
        return
    assert (value, problem) == (expected, None)


@given(st.dates(), st.binary(max_size=40), st.integers(-(2**63), 2**63 - 1))
def test_dates_bytes_and_whole_numbers_are_what_python_writes(day, octets, number):
    assert one("DATE", json.dumps(day.isoformat())) == (day, None)
    assert one("BINARY", json.dumps(base64.b64encode(octets).decode())) == (octets, None)
    assert one("BIGINT", json.dumps(number)) == (number, None)


@pytest.mark.parametrize(
    "text",
    [
        "", "LONG", "VARCHAR(10)", "DECIMAL", "DECIMAL(39,2)", "DECIMAL(2,3)", "DECIMAL(0,0)", "TIMESTAMP(6)", "TIMESTAMP()",
        "DATE(ms)", "BIGINT(5)", "ARRAY", "ARRAY<>", "ARRAY<LONG>", "MAP<STRING,STRING>", "STRUCT<a: INT>", "NOT NULL",
        "BIGINT NULL", "BIGINT); DROP TABLE t", "ARRAY<" * 7 + "INT" + ">" * 7,
    ],
)  # fmt: skip
def test_what_is_no_type_is_refused_with_those_that_are(text):
    with pytest.raises(ValueError, match="is no type of a column; known: BOOLEAN, INT"):
        declared(text)


def test_a_column_may_be_required():
    assert declared("BIGINT not  null")[1] is False
    assert declared("BIGINT")[1] is True


@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize(("unit", "factor"), [("s", 10**6), ("ms", 10**3), ("us", 1)])
@pytest.mark.parametrize(
    "digits", ["1706702400.9999999", "1706702400.99999949999", "9007199254740993.0", "17067024.00999999999e2"]
)
def test_a_time_with_more_digits_than_a_double_has_is_the_same_as_a_number_and_as_a_text(
    sign, unit, factor, digits
):
    """It became the next second."""
    number = Decimal(sign + digits)
    micros = math.floor(number * factor)
    expected = (EPOCH + timedelta(microseconds=micros), None) if abs(micros) < 10**17 else (None, BAD)
    if micros < -62_135_596_800_000_000:
        expected = None, BAD

    for text in (sign + digits, f'"{sign}{digits}"'):
        assert one(f"TIMESTAMP({unit})", text) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [("3000000000", date(9999, 12, 31)), ("-3000000000", date(1, 1, 1)), ("2147483648", date(9999, 12, 31))],
)
def test_days_beyond_an_int_are_clamped_too(text, value):
    assert one("DATE(days)", text, out_of_range="clamp") == (value, None)
    assert one("DATE(days)", text) == (None, BAD)
