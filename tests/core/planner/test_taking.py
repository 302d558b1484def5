"""What a job takes: crumbs wait for company, a part never reads more than it may, and the parts come to an end."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.core.model.files import NO_FILES, FileKind, FileStats, size_bucket
from isotherm.core.model.jobs import Take
from isotherm.core.planner.debt import debt
from isotherm.core.planner.taking import rewritten, saved_bytes, taken, tier
from isotherm.core.policy.policy import Compact
from isotherm.core.state import PartitionState
from support.builders import GIB, KIB, MIB, files, partition

TARGET = 128 * MIB


def of_sizes(sizes):
    """A partition of files of these sizes, a row for each KiB."""
    data = {}
    for size in sizes:
        bucket = size_bucket(size)
        data[bucket] = data.get(bucket, NO_FILES) + FileStats(1, 1 + size // KIB, size)
    return PartitionState(data=data)


@pytest.mark.parametrize(
    ("sizes", "joined"),
    [
        ([MIB] * 60, 60),
        ([MIB] * 3 + [60 * MIB], 3),
        ([MIB] * 60 + [60 * MIB], 61),
        ([20 * KIB] * 19 + [400 * KIB] * 2, 21),
        ([KIB, 50 * MIB, 50 * MIB], 3),
        ([KIB, 60 * MIB], 1),
        ([128 * MIB] * 5, 0),
        ([], 0),
    ],
)
def test_a_file_joins_once_all_that_is_smaller_has_its_size(sizes, joined):
    below_bytes, found = tier(of_sizes(sizes).data, TARGET)

    assert found.files == joined
    assert sum(size < below_bytes for size in sizes) == joined


@given(st.lists(st.integers(1, 2 * TARGET), max_size=40), st.integers(1024, 2 * TARGET))
def test_the_files_by_name_are_those_that_were_counted(sizes, target):
    """Whoever binds a job has only the size below which files are taken."""
    below_bytes, found = tier(of_sizes(sizes).data, target)
    named = [size for size in sizes if size < below_bytes]

    assert (len(named), sum(named)) == (found.files, found.bytes)
    assert all(size < 0.75 * target for size in named)


@given(st.integers(2, 30), st.integers(1, 600), st.integers(KIB, MIB))
def test_a_row_is_rewritten_about_once_for_each_doubling_of_its_file(min_files, crumbs, size):
    """However many crumbs come one after another, each job is paid by what came since the last one."""
    state, rewritten_bytes = PartitionState(), 0
    for _ in range(crumbs):
        state = plus(state, size)
        owed = debt(state, Compact(min_files=min_files))
        if owed.has_gain and owed.score >= 1:
            take = owed.take(1.0, None)
            rewritten_bytes += taken(state, take).bytes
            state = rewritten(state, take, TARGET)

    # A bucket is half an octave, and a file joins already where what is below it is in the same one.
    assert rewritten_bytes <= crumbs * size * 2 * (math.log2(crumbs) + 1)


def plus(state, size):
    bucket = size_bucket(size)
    return replace(
        state, data={**state.data, bucket: state.data.get(bucket, NO_FILES) + FileStats(1, 1, size)}
    )


PARTS = st.builds(
    lambda few, many, large, deletes: PartitionState(
        data={**files(few, 90 * KIB), **files(many, MIB), **files(large, 128 * MIB)},
        deletes={FileKind.POSITION_DELETES: FileStats(deletes, 10 * deletes, KIB * deletes)}
        if deletes
        else {},
    ),
    st.integers(0, 50),
    st.integers(0, 50),
    st.integers(0, 20),
    st.integers(0, 200),
)


@given(PARTS, st.integers(1, 4 * GIB), st.booleans())
def test_a_part_reads_no_more_than_it_may(state, at_most, with_deletes):
    take = Take(96 * MIB, with_deletes=with_deletes, at_most_bytes=at_most)
    least = taken(state, replace(take, at_most_bytes=1))

    # One file of any kind is the least; what is above is one file at most for each kind.
    assert taken(state, take).bytes <= max(at_most, least.bytes) + 128 * MIB
    assert taken(state, take).files <= taken(state, replace(take, at_most_bytes=None)).files


@given(PARTS, st.integers(64 * MIB, 4 * GIB))
def test_parts_come_to_an_end_and_lose_no_row(state, at_most):
    policy = Compact(min_files=2, max_delete_ratio=0.01)
    for _ in range(2000):
        owed = debt(state, policy)
        if owed.score < 1 or not owed.has_gain:
            break
        take = owed.take(1.0, at_most)
        before, state = state, rewritten(state, take, TARGET)
        gone = before.deletes_total.rows - state.deletes_total.rows
        assert state != before
        assert before.data_total.rows - gone <= state.data_total.rows <= before.data_total.rows
    else:
        pytest.fail(f"still due after 2,000 parts: {owed.why}")


def test_one_delete_row_does_not_make_the_whole_partition_part_of_the_small_files():
    state = replace(
        partition(100, 100 * KIB),
        data={**files(100, 100 * KIB), **files(800, 128 * MIB)},
        deletes={FileKind.POSITION_DELETES: FileStats(1, 1, KIB)},
    )
    owed = debt(state, Compact(min_files=20))
    take = owed.take(1.0, None)

    assert owed.score == 5
    assert take.with_deletes is False
    assert taken(state, take) == FileStats(100, 10_000, 100 * 100 * KIB)


def test_delete_files_alone_do_not_take_the_small_files():
    state = replace(partition(5, MIB), deletes={FileKind.POSITION_DELETES: FileStats(250, 250, KIB)})
    owed = debt(state, Compact(min_files=20, max_delete_ratio=1000))

    assert owed.why == "250 of 200 position-delete files"
    assert owed.take(1.0, None) == Take(0, with_deletes=True)


def test_many_position_delete_files_are_due_however_few_their_rows():
    state = replace(
        partition(40, 128 * MIB), deletes={FileKind.POSITION_DELETES: FileStats(50_000, 50_000, GIB)}
    )

    assert debt(state, Compact()).score == 250


def test_nearly_full_files_are_left_alone():
    """Twelve files of 70 MiB would become seven: that is six files less for each GiB."""
    few = debt(partition(12, 70 * MIB), Compact(min_files=20))
    many = debt(partition(19, 30 * MIB), Compact(min_files=20))

    assert few.score < 1 <= many.score


def test_what_is_saved_grows_with_what_is_removed():
    take = Take(96 * MIB, with_deletes=True)
    small = partition(100, MIB)
    laden = replace(small, deletes={FileKind.POSITION_DELETES: FileStats(10, 100, KIB)})

    assert saved_bytes(small, take, TARGET) == 99 * 4 * MIB
    assert saved_bytes(laden, take, TARGET) > saved_bytes(small, take, TARGET) + 40 * MIB
