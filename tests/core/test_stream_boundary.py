"""How far one commit's rows say that the stream has come, and what that makes of a table's boundary."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from isotherm.contract.boundary import MAX_AHEAD_MS
from isotherm.contract.summary import Origin
from isotherm.core.state import apply
from isotherm.core.stream_boundary import boundary_of_rows, by_rows
from isotherm.core.units import HOUR_MS
from support.builders import BUCKETS, HOUR, HOURLY, MINUTE, NOW, added, change, key, table_state

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


def boundary_after(before, **fields):
    partitions = fields.pop("partitions", {key(): added()})
    spec = fields.pop("spec", HOURLY)
    one = change(2, 1, partitions, **fields)
    return apply(table_state(head=1, boundary_ms=before), {}, one, spec, NOW).state.boundary_ms


def test_the_boundary_is_what_the_writer_vouches_for_and_never_goes_back():
    assert boundary_after(None, valid_through_ms=5 * HOUR) == 5 * HOUR
    assert boundary_after(9 * HOUR, valid_through_ms=5 * HOUR) == 9 * HOUR


def test_a_row_from_2099_cannot_move_the_boundary_far():
    assert boundary_after(0, valid_through_ms=NOW * 3) == NOW + MAX_AHEAD_MS


def test_a_commit_from_2099_holds_nothing_back_for_long_and_does_not_move_the_boundary_far():
    future = change(2, 1, {key(): added()}, committed_at_ms=NOW * 3, valid_through_ms=NOW * 3)
    applied = apply(table_state(head=1, boundary_ms=0), {}, future, HOURLY, NOW)

    assert applied.state.boundary_ms == NOW + 2 * MAX_AHEAD_MS
    assert applied.partitions[key()].last_write_at_ms == NOW + MAX_AHEAD_MS
    assert applied.state.lateness.updated_at_ms == NOW + MAX_AHEAD_MS


def test_without_a_word_of_the_writer_the_bulk_of_the_rows_says_how_far_the_stream_is():
    hours = {key(100): added(rows=990), key(10**6): added(rows=5), key(5): added(rows=5)}

    assert boundary_after(None, partitions=hours) == 100 * HOUR_MS


def test_a_backfill_of_last_year_does_not_move_the_boundary():
    assert boundary_after(5000 * HOUR, partitions={key(7): added(50)}) == 5000 * HOUR


def test_our_own_commits_do_not_move_the_boundary():
    assert boundary_after(7, origin=Origin.MAINTENANCE, valid_through_ms=5 * HOUR) == 7


def test_buckets_have_no_boundary():
    assert boundary_after(None, spec=BUCKETS) is None
