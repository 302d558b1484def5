"""Which delete files a job merges, and that what was merged is not merged again for nothing."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.core.model.files import FileKind, FileStats, summed, total
from isotherm.core.partition_state import PartitionState
from isotherm.core.planner.debt import debt
from isotherm.core.planner.file_selection import outputs, rewritten, taken
from isotherm.core.policy.policy import Compact
from support.builders import GIB, KIB, MIB, TARGET, files, of_sizes


def with_deletes(sizes, data=None):
    """A partition with position-delete files of these sizes, a row for each KiB; large enough to have them merged."""
    found = of_sizes(sizes).data
    deletes = {FileKind.POSITION_DELETES: total(found.values())} if found else {}
    return PartitionState(data=data or files(80, 128 * MIB, rows=10**9), deletes=deletes, delete_sizes=found)


@pytest.mark.parametrize(
    ("sizes", "merged"),
    [
        ([100 * KIB] * 200 + [GIB], 200),
        ([100 * KIB] * 200 + [10 * MIB], 201),
        ([100 * KIB] * 200 + [60 * MIB, 400 * MIB, 2 * GIB], 200),
        ([KIB] + [MIB] * 200, 201),
        ([100 * KIB] * 200, 200),
    ],
)
def test_a_merged_delete_file_is_merged_again_once_all_that_is_smaller_has_its_size(sizes, merged):
    state = with_deletes(sizes)
    take = debt(state, Compact()).merge(None)
    after = rewritten(state, take, TARGET)
    left = len(sizes) - merged + outputs(sum(sorted(sizes)[:merged]), 64 * MIB)

    assert taken(state, take).files == merged
    assert taken(state, take).bytes == sum(sorted(sizes)[:merged])
    assert after.deletes[FileKind.POSITION_DELETES] == total(after.position_deletes.values())
    assert after.deletes[FileKind.POSITION_DELETES].files == left
    assert debt(after, Compact()).score < 1


@pytest.mark.parametrize(
    ("sizes", "large_files", "small_files", "most"),
    [
        ([KIB] * 20, 8, 0, 20),
        ([KIB] * 20, 8, 10, 20),
        ([KIB] * 20, 8, 11, 200),
        ([KIB] * 20, 19, 0, 20),
        ([KIB] * 20, 20, 0, 200),
        ([KIB] * 20, 10, 10, 200),
        ([KIB] * 39, 39, 0, 200),
        ([KIB] * 39, 38, 0, 20),
        ([KIB] * 10 + [64 * MIB] * 10, 8, 0, 20),
        ([KIB] * 10 + [64 * MIB] * 11, 8, 0, 200),
    ],
)
def test_deletes_that_came_without_rows_are_merged_at_a_tenth_as_many(sizes, large_files, small_files, most):
    """A nightly DELETE left thirty of them beside each of eight data files, for good: no other job took them along.

    But not where merging would leave nearly as many, nor where each may name one data file.
    """
    data = files(large_files, 128 * MIB, rows=10**9)
    data |= files(small_files, MIB, rows=10) if small_files else {}
    learned, said = (
        debt(with_deletes(sizes, data), Compact(max_position_deletes=n)) for n in ("learned", 40)
    )

    assert f"{len(sizes)} of {most} position-delete files" in " ".join(one.why for one in learned.of_deletes)
    assert (learned.merge(None) is not None) is (len(sizes) >= most)
    assert said.merge(None) is None


@given(
    st.lists(st.integers(1, 100 * MIB), min_size=2, max_size=80),
    st.integers(2, 80),
    st.sampled_from([None, MIB, GIB]),
)
def test_a_merge_brings_the_files_below_their_limit_whatever_their_sizes(sizes, limit, at_most):
    state, policy = with_deletes(sizes), Compact(max_position_deletes=limit)
    for _ in range(len(sizes)):
        take = debt(state, policy).merge(at_most)
        if take is None:
            break
        before, state = state, rewritten(state, take, TARGET)

        assert state.deletes_total.files <= before.deletes_total.files
        assert state.deletes_total.bytes == before.deletes_total.bytes
        assert at_most is not None or debt(state, policy).merge(None) is None
    cannot = outputs(sum(sizes), 64 * MIB) >= limit
    assert cannot or at_most is not None or state.deletes_total.files < limit


@pytest.mark.parametrize(
    ("sizes", "merged"),
    [
        ([64 * MIB] * 30, 0),
        ([64 * MIB] * 30 + [KIB], 0),
        ([64 * MIB] * 30 + [KIB] * 5, 5),
        ([50 * MIB] * 30, 0),
        ([40 * MIB] * 30, 30),
        ([KIB] * 19, 0),
        ([KIB] * 20, 20),
    ],
)
def test_deletes_that_were_merged_are_not_merged_again_along_with_small_files(sizes, merged):
    """Nor by a schedule: twenty files of 64 MiB became twenty, over and over."""
    crumbs = files(80, 128 * MIB, rows=10**9) | files(30, MIB, rows=10)
    state = with_deletes(sizes, data=crumbs)
    owed = debt(state, Compact())

    assert taken(state, owed.take(1.0, None)).files == 30 + merged
    assert not owed.take(1.0, None).with_deletes
    if not merged and len(sizes) > 20:
        clean = debt(replace(state, data=files(80, 128 * MIB, rows=10**9)), Compact())
        assert clean.score < 0.01
        assert clean.of_deletes[1].why.endswith("of 200 position-delete files, as few as their size allows")


@given(st.integers(200, 400), st.integers(KIB, 64 * KIB))
def test_a_delete_row_is_written_again_about_once_for_each_doubling(files_a_time, size):
    state, read = with_deletes([]), 0
    times = 60
    for _ in range(times):
        came = with_deletes([size] * files_a_time).delete_sizes
        sizes = summed(state.position_deletes, came)
        deletes = {FileKind.POSITION_DELETES: total(sizes.values())}
        state = replace(state, deletes=deletes, delete_sizes=sizes)
        take = debt(state, Compact()).merge(None)
        assert take is not None
        read += taken(state, take).bytes
        state = rewritten(state, take, TARGET)

    assert state.deletes_total.files <= 2 * (math.log2(times) + state.deletes_total.bytes / (64 * MIB))
    assert read <= (2 + math.log2(times)) * state.deletes_total.bytes


def test_deletes_whose_sizes_do_not_add_up_count_as_of_their_mean_size():
    """So does what was stored before sizes were kept, and what a policy's test says."""
    there = with_deletes([100 * KIB] * 200 + [GIB])
    unknown = replace(there, delete_sizes={})
    wrong = replace(there, delete_sizes={**there.delete_sizes, 3: FileStats(-1, -1, -5)})
    take = debt(unknown, Compact()).merge(None)

    assert list(unknown.position_deletes.values()) == list(unknown.deletes.values())
    assert wrong.position_deletes == unknown.position_deletes
    assert debt(unknown, Compact()) == debt(wrong, Compact())
    assert taken(unknown, take).files == 201
    assert PartitionState().position_deletes == {}


def test_a_job_for_small_files_takes_along_the_deletes_that_would_be_due_behind_it():
    """Beside 58 small files twenty deletes are few. Beside the one that is left of them they are what is due."""
    state = PartitionState(
        data=files(58, KIB, rows=100), deletes={FileKind.POSITION_DELETES: FileStats(20, 1900, 20 * KIB)}
    )
    compact = Compact()
    owed = debt(state, compact)
    assert owed.of_files[0].score >= 1 > owed.of_deletes[0].score

    after = rewritten(state, owed.take(1.0, None), TARGET)

    assert debt(after, compact).score < 1
    assert not after.deletes
