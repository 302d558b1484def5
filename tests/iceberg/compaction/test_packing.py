"""Which files go together where they cannot be cut: laws for any sizes, and some that show what it is for."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from isotherm.iceberg.compaction.packing import LEAST, MORE_FILES, MOST, Copyable, packed
from isotherm.parquet.output import files_for

TARGET = 128
SHARES = st.sampled_from([0.0, 0.01, 0.1, 0.4, 0.6, 1.0, 1.5])
FILES = (
    st.sampled_from([st.just(0.0), SHARES])
    .flatmap(lambda shares: st.lists(st.builds(Copyable, st.integers(8, 200), shares), max_size=40))
    .map(lambda files: dict(enumerate(files)))
)
"""Half of them have next to nothing in their footers, as most files do."""


def small(sizes):
    """Files of these sizes, with next to nothing in their footers."""
    return {number: Copyable(size, 0) for number, size in enumerate(sizes)}


def size(files, numbers):
    return sum(files[number].size_bytes for number in numbers)


@given(FILES, st.integers(0, 1000))
def test_each_file_is_in_one_place(files, others):
    together, rest = packed(files, others, TARGET)

    assert sorted(files) == sorted([*rest, *(number for group in together for number in group)])


@given(FILES, st.integers(0, 1000))
def test_a_new_file_has_the_target_size_or_is_the_only_one(files, others):
    together, rest = packed(files, others, TARGET)

    found = [size(files, group) for group in together]
    is_one = len(together) == 1 and not rest and not others and files_for(found[0], TARGET) == 1
    assert is_one or all(LEAST * TARGET <= one <= MOST * TARGET for one in found)


@given(FILES, st.integers(0, 1000))
@example(small([117]), 5)  # seldom drawn
def test_there_are_hardly_more_files_than_if_all_was_written_anew(files, others):
    together, rest = packed(files, others, TARGET)

    left = others + size(files, rest)
    made = len(together) + (files_for(left, TARGET) if left else 0)
    anew = files_for(size(files, files) + others, TARGET)
    assert made <= anew + anew // MORE_FILES


@given(FILES)
def test_what_was_put_together_is_not_due_again(files):
    """No more than one of the new files is small: no two kinds of files have each other written for ever."""
    together, rest = packed(files, 0, TARGET)

    left = size(files, rest)
    found = [size(files, group) for group in together]
    anew = [left / files_for(left, TARGET)] * files_for(left, TARGET) if left else []
    assert sum(one < 0.75 * TARGET for one in (*found, *anew)) <= 1


@given(FILES, st.integers(0, 1000))
def test_no_footer_has_more_than_there_may_be(files, others):
    together, _ = packed(files, others, TARGET)

    assert all(sum(files[number].share for number in group) <= 1 for group in together)


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
    assert (together, rest) == packed(small(sizes), others, TARGET)


def test_no_more_files_go_together_than_may_be_open():
    many = small([1] * 600)

    assert ([], list(range(600))) == packed(many, 0, 600) == packed(many, 0, 300)
    assert [list(range(256))] == packed(small([1] * 256), 0, 256).together


def test_files_with_much_in_their_footers_go_into_more_files():
    """A footer that is too large is read by nobody, and of two halves there are two files."""
    assert [[0, 3], [1, 2]] == packed(
        {0: Copyable(70, 0.9), 1: Copyable(70, 0.2), 2: Copyable(50, 0.8), 3: Copyable(48, 0.05)}, 0, TARGET
    ).together
    assert ([], [0, 1]) == packed(dict.fromkeys(range(2), Copyable(60, 0.6)), 0, TARGET)
    assert ([], [0]) == packed({0: Copyable(TARGET, 1.1)}, 10 * TARGET, TARGET)
