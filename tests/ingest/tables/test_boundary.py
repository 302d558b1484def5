"""`valid_through`: how far the stream has come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.contract.boundary import MAX_AHEAD_MS
from isotherm_ingest.tables.boundary import advance, valid_through

A, B = ("orders", 0), ("orders", 1)
NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("running", "behind", "previous", "expected"),
    [
        ({}, (), None, None),
        ({}, (), 5, 5),
        ({A: 10}, (A,), None, 10),
        ({A: 10, B: 90}, (A, B), None, 10),  # the lagging one holds back
        ({A: 10, B: 90}, (B,), None, 90),  # one that is read to its end does not
        ({A: 10, B: 90}, (), None, 90),
        ({B: 90}, (A, B), 7, 7),  # it lags, and where it stands nobody knows
        ({A: 10}, (A,), 50, 50),  # never back
        ({A: NOW + 5 * MAX_AHEAD_MS}, (), None, NOW + MAX_AHEAD_MS),  # a row from the year 2099
    ],
)
def test_the_least_of_what_lags(running, behind, previous, expected):
    assert expected == valid_through(running, behind, previous, NOW)


PLACES = st.dictionaries(st.sampled_from([A, B]), st.integers(-(10**12), 3 * 10**12))


@given(PLACES, PLACES)
def test_a_running_maximum_never_goes_back(running, batch):
    moved = advance(running, batch)

    assert {*running, *batch} == set(moved)
    assert all(
        moved[position] == max(one[position] for one in (running, batch) if position in one)
        for position in moved
    )


@given(PLACES, st.sets(st.sampled_from([A, B])), st.integers(-(10**12), 10**12))
def test_what_was_said_is_never_taken_back(running, behind, previous):
    assert previous <= valid_through(running, behind, previous, NOW)
