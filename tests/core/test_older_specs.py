"""Which partitions are of older specs, and into which of the current one their rows go."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.contract.identity import UNPARTITIONED, partition_key
from isotherm.core.model.job_limits import MAX_OUTPUTS
from isotherm.core.model.tables import PartitionField
from isotherm.core.older_specs import is_older, ordinal, outputs_of, span_of
from support.builders import facts

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TRANSFORMS = ("hour", "day", "month", "year", "identity")


def field(transform, field_id=1001, *, source_id=2, is_current=True):
    kind = "date" if transform == "identity" else "timestamptz"
    return PartitionField(field_id, f"at_{transform}", transform, kind, None, is_current, source_id)


def older_field(transform, *, source_id=2):
    return field(transform, 1000, source_id=source_id, is_current=False)


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), st.sampled_from(TRANSFORMS))  # noqa: DTZ001
def test_an_ordinal_is_what_a_calendar_says(time, transform):
    at_ms = (time.replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
    days = (time.date() - EPOCH.date()).days
    wanted = {
        "hour": days * 24 + time.hour,
        "month": (time.year - 1970) * 12 + time.month - 1,
        "year": time.year - 1970,
    }

    assert wanted.get(transform, days) == ordinal(at_ms, field(transform))


@given(st.integers(-(10**15), 10**15), st.sampled_from(TRANSFORMS))
def test_a_time_lies_in_the_span_of_its_ordinal(at_ms, transform):
    span = span_of(field(transform), ordinal(at_ms, field(transform)))

    assert span.start_ms <= at_ms < span.end_ms


@pytest.mark.parametrize(
    ("before", "value", "now", "wanted"),
    [
        ("hour", 47, "day", [1]),
        ("day", 1, "hour", list(range(24, 48))),
        ("day", 31, "month", [1]),
        ("month", 1, "day", list(range(31, 59))),
        ("year", -1, "month", list(range(-12, 0))),
        ("identity", 3, "day", [3]),
        ("day", 3, "identity", [3]),
    ],
)
def test_rows_go_where_their_time_is(before, value, now, wanted):
    fields = (older_field(before), field(now))

    assert [partition_key({1001: one}) for one in wanted] == list(
        outputs_of(partition_key({1000: value}), fields)
    )


def test_more_than_a_job_may_write_are_not_all_named():
    fields = (older_field("year"), field("hour"))

    assert MAX_OUTPUTS + 1 == len(outputs_of(partition_key({1000: 50}), fields))


def test_a_field_that_stays_says_it_itself():
    fields = (field("bucket[4]", 1000, source_id=1, is_current=False), field("day"))

    assert (partition_key({1001: 7}),) == outputs_of(partition_key({1000: 1, 1001: 7}), fields)


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ((field("day"),), UNPARTITIONED),
        ((older_field("hour", source_id=5), field("day")), partition_key({1000: 9})),
        ((older_field("hour", source_id=None), field("day", source_id=None)), partition_key({1000: 9})),
        ((older_field("bucket[4]"), field("day")), partition_key({1000: 3})),
        ((older_field("hour"), field("day"), field("bucket[4]", 1002)), partition_key({1000: 3})),
    ],
    ids=["no partition", "another column", "a column that nobody noted", "no time", "two fields now"],
)
def test_some_keys_do_not_tell(fields, key):
    assert outputs_of(key, fields) is None


@pytest.mark.parametrize(
    ("key", "has_undivided", "wanted"),
    [
        (partition_key({1000: 3}), False, True),
        (partition_key({1000: 3, 1001: 3}), False, True),
        (partition_key({1001: 3}), True, False),
        (UNPARTITIONED, False, False),
        (UNPARTITIONED, True, True),
    ],
)
def test_a_partition_of_an_older_spec_has_a_field_that_is_gone(key, has_undivided, wanted):
    known = facts(fields=(older_field("hour"), field("day")), has_undivided=has_undivided)

    assert is_older(key, known) is wanted


def test_a_table_that_is_not_divided_now_has_no_older_whole():
    assert not is_older(UNPARTITIONED, facts(fields=(older_field("hour"),), has_undivided=True))
