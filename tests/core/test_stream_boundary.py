"""How far one commit's rows say that the stream has come."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from isotherm.core.stream_boundary import boundary_of_rows, by_rows
from support.builders import HOUR, HOURLY, MINUTE, added, key

BEGINS = 100 * HOUR
"""Where the partition of hour 100 begins."""
LATER = 10**6 * HOUR


def reaching(reached_ms, rows=100):
    return replace(added(rows=rows), reached_ms=reached_ms)


def boundary(partitions, committed_at_ms=LATER, fields=HOURLY):
    return boundary_of_rows(partitions, fields, committed_at_ms)


def test_the_bounds_of_the_time_column_say_how_far_it_has_come_within_the_newest_partition():
    assert boundary({key(100): reaching(BEGINS + 40 * MINUTE)}) == BEGINS + 40 * MINUTE


def test_without_bounds_nothing_is_known_of_the_newest_partition_but_that_it_has_begun():
    assert boundary({key(100): reaching(None)}) == BEGINS


def test_a_bound_outside_of_its_partition_counts_up_to_its_end_and_from_its_beginning_on():
    assert boundary({key(100): reaching(BEGINS + 9 * HOUR)}) == BEGINS + HOUR
    assert boundary({key(100): reaching(0)}) == BEGINS


def test_a_row_of_tonight_that_was_committed_at_noon_says_noon():
    assert boundary({key(100): reaching(BEGINS + 50 * MINUTE)}, BEGINS + 10 * MINUTE) == BEGINS + 10 * MINUTE


def test_a_partition_of_the_future_says_that_the_stream_is_at_its_commit():
    assert boundary({key(100): reaching(BEGINS + 50 * MINUTE)}, BEGINS - 5 * HOUR) == BEGINS - 5 * HOUR


def test_a_few_rows_from_the_future_and_a_few_late_ones_do_not_count():
    arrived = {
        key(100): reaching(BEGINS + 5 * MINUTE, rows=960),
        key(120): reaching(BEGINS + 20 * HOUR, rows=20),
        key(7): reaching(7 * HOUR + MINUTE, rows=20),
    }

    assert boundary(arrived) == BEGINS + 5 * MINUTE


def test_a_table_without_time_has_no_boundary():
    assert boundary({key(1): reaching(BEGINS)}, fields=()) is None
    assert boundary({}) is None


@given(st.lists(st.tuples(st.integers(-(10**15), 10**15), st.integers(0, 10**9)), max_size=30))
def test_nearly_all_rows_lie_before_it(groups):
    reached = by_rows(groups)

    rows = sum(one for _, one in groups)
    if not rows:
        assert reached is None
        return
    assert sum(one for at, one in groups if at <= reached) >= 0.95 * rows
    assert sum(one for at, one in groups if at < reached) < 0.95 * rows
