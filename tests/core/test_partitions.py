from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.contract.identity import partition_key
from isotherm.core.model.tables import PartitionField
from isotherm.core.partitions import REMEMBERED_CHARS, label, time_span
from isotherm.core.units import DAY_MS, span_text
from support.builders import HOUR, HOURLY


def field(transform, source="timestamptz", field_id=1000):
    return PartitionField(field_id, "ts_" + transform.partition("[")[0], transform, source)


@pytest.mark.parametrize(
    ("transform", "source", "value", "text", "start", "end"),
    [
        ("hour", "timestamptz", 24, "ts_hour=1970-01-02-00", 24 * HOUR, 25 * HOUR),
        ("day", "timestamp", -1, "ts_day=1969-12-31", -DAY_MS, 0),
        ("month", "date", 13, "ts_month=1971-02", 396 * DAY_MS, 424 * DAY_MS),
        ("year", "timestamptz", 30, "ts_year=2000", 10957 * DAY_MS, 11323 * DAY_MS),
        ("identity", "date", 365, "ts_identity=1971-01-01", 365 * DAY_MS, 366 * DAY_MS),
    ],
)
def test_a_time_transform_has_a_name_and_a_span(transform, source, value, text, start, end):
    key, fields = partition_key({1000: value}), [field(transform, source)]
    span = time_span(key, fields)

    assert text == label(key, fields)
    assert (start, end) == (span.start_ms, span.end_ms)


@pytest.mark.parametrize(
    ("transform", "source"), [("bucket[16]", "long"), ("truncate[4]", "string"), ("identity", "int")]
)
def test_other_transforms_have_no_span(transform, source):
    assert time_span(partition_key({1000: 3}), [field(transform, source)]) is None


def test_of_several_times_the_narrowest_counts():
    fields = [field("day"), field("hour", field_id=1001)]

    assert time_span(partition_key({1000: 1, 1001: 30}), fields).length_ms == HOUR


def test_the_whole_of_an_unpartitioned_table_has_a_name():
    assert label(partition_key({}), ()) == "(all)"


def test_rows_without_a_value_of_any_field_are_not_called_all():
    """Beside other partitions: those rows are few, mostly."""
    assert label(partition_key({}), HOURLY) == label(partition_key({1000: None}), HOURLY) == "(no value)"


@given(st.integers(-10_000, 20_000))
def test_months_begin_where_the_calendar_says(months):
    year, month = divmod(months, 12)
    span = time_span(partition_key({1000: months}), [field("month")])
    if not 1 <= 1970 + year <= 9998:
        return
    start = datetime(1970 + year, month + 1, 1, tzinfo=UTC)

    assert span.start_ms == (start - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000


@given(st.integers())
def test_any_number_has_a_label(value):
    assert label(partition_key({1000: value}), HOURLY).startswith("order_time_hour=")


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0s"),
        (999, "0s"),
        (61_000, "1m 1s"),
        (5 * HOUR + 180_000, "5h 3m"),
        (-HOUR, "-1h"),
        (25 * HOUR, "1d 1h"),
    ],
)
def test_spans_read_well(ms, text):
    assert text == span_text(ms)


def test_of_long_keys_no_label_is_kept():
    """Twenty thousand are kept, of partitions whose names somebody chose."""
    short, long = ("x" * size for size in (REMEMBERED_CHARS // 2, REMEMBERED_CHARS))
    of_short, of_long = (partition_key({1000: text}) for text in (short, long))
    fields = [field("identity", "string")]

    assert label(of_long, fields) == f"ts_identity={long}"
    assert label(of_short, fields) is label(of_short, fields)
    assert label(of_long, fields) is not label(of_long, fields)


def test_a_value_writes_no_line_of_its_own():
    """It may be any text, and is printed in tables on a terminal."""
    field = PartitionField(1000, "region", "identity", "string")

    assert (
        label(partition_key({1000: "eu\nshop.orders  9 clean"}), (field,))
        == r"region=eu\nshop.orders  9 clean"
    )
