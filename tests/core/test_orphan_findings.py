"""What is held of what a search finds, which may be millions of files."""

import gc
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from isotherm.core.orphan_findings import Orphan, Unneeded

ORPHANS = st.builds(
    Orphan, st.integers(0, 200).map("data/{}.parquet".format), st.integers(0, 9), st.integers(0, 5)
)


def taken(files: Sequence[Orphan], told: int) -> Unneeded:
    unneeded = Unneeded(told)
    for one in files:
        unneeded.add(one)
    return unneeded


@given(st.lists(ORPHANS, unique_by=lambda one: one.path), st.integers(1, 20), st.integers(0, 30))
def test_the_oldest_are_told_and_all_are_counted(files: list[Orphan], told: int, keep: int) -> None:
    oldest_first = sorted(files, key=lambda one: (one.written_at_ms, one.path))
    going = oldest_first[: max(len(files) - keep, 0)]

    count, size_bytes, oldest = taken(files, told).without_newest(keep)

    assert (count, list(oldest)) == (len(going), going[:told])
    if not keep or count <= told:
        assert size_bytes == sum(one.size_bytes for one in going)


def test_no_more_is_held_than_twice_what_is_told_however_much_there_is() -> None:
    unneeded = Unneeded(10)
    for number in range(5000, 0, -1):  # the oldest come last
        unneeded.add(Orphan(f"data/{number}.parquet", 1, number))

    assert sum(isinstance(one, Orphan) for one in gc.get_objects()) <= 20
    assert unneeded.files == 5000
    assert [one.written_at_ms for one in unneeded.without_newest(0)[2]] == list(range(1, 11))


def test_a_file_that_a_store_lists_twice_is_told_once() -> None:
    one = Orphan("data/a.parquet", 7, 1)

    assert taken([one, one], 10).without_newest(0) == (1, 7, (one,))


def test_what_turns_out_to_be_somebody_elses_is_left_out() -> None:
    mine, theirs = Orphan("data/a.parquet", 7, 1), Orphan("data/x/b.parquet", 5, 1)
    unneeded = taken([mine, theirs], 10)
    unneeded.leave_out({theirs.path})

    assert unneeded.without_newest(0) == (1, 7, (mine,))
