"""Which files go together where they cannot be cut: laws for any sizes, and some that show what it is for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.iceberg.compaction.packing import LEAST, MORE_FILES, MOST, packed
from isotherm.parquet.output import files_for

TARGET = 128
SIZES = st.lists(st.integers(8, 200), max_size=40).map(lambda sizes: dict(enumerate(sizes)))


@given(SIZES, st.integers(0, 1000))
def test_each_file_is_in_one_place(sizes, others):
    together, rest = packed(sizes, others, TARGET)

    assert sorted(sizes) == sorted([*rest, *(number for group in together for number in group)])


@given(SIZES, st.integers(0, 1000))
def test_a_new_file_has_the_target_size_or_is_the_only_one(sizes, others):
    together, rest = packed(sizes, others, TARGET)

    found = [sum(sizes[number] for number in group) for group in together]
    is_one = len(together) == 1 and not rest and not others and files_for(found[0], TARGET) == 1
    assert is_one or all(LEAST * TARGET <= one <= MOST * TARGET for one in found)


@given(SIZES, st.integers(0, 1000))
def test_there_are_hardly_more_files_than_if_all_was_written_anew(sizes, others):
    together, rest = packed(sizes, others, TARGET)

    left = others + sum(sizes[number] for number in rest)
    files = len(together) + (files_for(left, TARGET) if left else 0)
    anew = files_for(sum(sizes.values()) + others, TARGET)
    assert files <= anew + anew // MORE_FILES


@given(SIZES)
def test_what_was_put_together_is_not_due_again(sizes):
    """No more than one of the new files is small: no two kinds of files have each other written for ever."""
    together, rest = packed(sizes, 0, TARGET)

    left = sum(sizes[number] for number in rest)
    found = [sum(sizes[number] for number in group) for group in together]
    anew = [left / files_for(left, TARGET)] * files_for(left, TARGET) if left else []
    assert sum(one < 0.75 * TARGET for one in (*found, *anew)) <= 1


@pytest.mark.parametrize(
    ("sizes", "others", "together", "rest"),
    [
        ([], 0, [], []),
        ([60, 60], 0, [[0, 1]], []),
        # One file of all, as if it was written anew.
        ([20, 20], 0, [[0, 1]], []),
        # With others there would be two small files, again and again.
        ([20, 20], 20, [], [0, 1]),
        # The first file and the largest that fits. Nothing fits beside the second, which is written anew.
        ([60, 50, 65, 62, 70, 64], 0, [[0, 4], [2, 5]], [1, 3]),
        # Ninety and ninety are too much for one file, and too little for two.
        ([90, 90, 90], 0, [], [0, 1, 2]),
        ([90, 40, 90, 40], 0, [[0, 1], [2, 3]], []),
        # One that is too large by itself is cut, which takes writing.
        ([200, 128], 0, [[1]], [0]),
    ],
)
def test_examples(sizes, others, together, rest):
    assert (together, rest) == packed(dict(enumerate(sizes)), others, TARGET)


def test_no_more_files_go_together_than_may_be_open():
    many = dict.fromkeys(range(600), 1)

    assert ([], list(range(600))) == packed(many, 0, 600) == packed(many, 0, 300)
    assert [list(range(256))] == packed(dict.fromkeys(range(256), 1), 0, 256).together
