import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.contract.identity import partition_key, partition_values
from isotherm.contract.summary import BEHIND_MS, COMMITTED_AT, JOB_ID, committed_at_of, token_of
from isotherm.core.model.files import bucket_bounds, size_bucket

SCALARS = st.one_of(st.integers(), st.text(), st.booleans())


@given(st.integers(0, 2**50))
def test_a_size_lies_in_its_bucket(size):
    low, high = bucket_bounds(size_bucket(size))

    assert low <= size < high


@given(st.integers(0, 2**50))
def test_buckets_leave_no_gap(size):
    bucket = size_bucket(size)

    assert bucket_bounds(bucket)[1] == bucket_bounds(bucket + 1)[0]


@given(st.integers(3, 40))
def test_three_quarters_of_a_power_of_two_is_a_bound(octave):
    target = 2**octave

    assert bucket_bounds(size_bucket(target * 3 // 4))[0] == target * 3 // 4


@given(st.dictionaries(st.integers(1000, 1010), st.one_of(SCALARS, st.none())))
def test_a_key_holds_the_values_that_are_not_null(values):
    assert partition_values(partition_key(values)) == {k: v for k, v in values.items() if v is not None}


@given(st.dictionaries(st.integers(1000, 1010), SCALARS))
def test_a_key_stays_the_same_when_the_spec_gains_a_field(values):
    assert partition_key(values) == partition_key({**values, 1011: None})


@pytest.mark.parametrize(
    ("summary", "token"),
    [
        ({}, ""),
        ({"added-records": "3"}, ""),
        ({"ingest.source": "{}", "ingest.pipeline": "shop"}, "ingest.shop"),
        ({"kafka.connect.offsets.control-iceberg.connect-sink": '{"0":7}'}, "kafka.connect.offsets.control-iceberg.connect-sink"),
        ({"flink.job-id": "1", "flink.operator-id": "a7", "flink.max-committed-checkpoint-id": "9"}, "flink.a7/1"),
        ({"flink.job-id": "1", "flink.max-committed-checkpoint-id": "9"}, "flink./1"),
        ({"spark.sql.streaming.queryId": "q1", "spark.sql.streaming.epochId": "41"}, "spark.q1"),
    ],
)  # fmt: skip
def test_whose_place_a_snapshot_keeps_is_told_by_its_summary(summary, token):
    assert token_of(summary) == token


@pytest.mark.parametrize(
    ("said", "at_ms"),
    [
        ({JOB_ID: "j", COMMITTED_AT: "1500"}, 1500),
        ({JOB_ID: "j"}, 1000),
        ({COMMITTED_AT: "1500"}, 1000),
        ({JOB_ID: "j", COMMITTED_AT: "soon"}, 1000),
        ({JOB_ID: "j", COMMITTED_AT: "999"}, 1000),
        ({JOB_ID: "j", COMMITTED_AT: "9" * 18}, 1000 + BEHIND_MS),
    ],
)
def test_when_we_committed_is_believed_as_far_as_we_stamp_back(said, at_ms):
    assert committed_at_of(said, 1000) == at_ms
