"""What branches and tags keep is what each of them keeps by itself, and costs no more for being many."""

from collections import UserDict
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from isotherm.core.planner.expirable import FOREVER_MS, Ref, kept_by_refs

SNAPSHOTS = 12
PARENTS = st.tuples(*(st.sampled_from([None, 99, *range(number)]) for number in range(SNAPSHOTS)))
"""Of each snapshot an earlier one, none, or one that has expired."""
STATED = st.none() | st.integers(-1, 6)
REFS = st.lists(st.builds(Ref, st.integers(0, SNAPSHOTS - 1), st.booleans(), STATED, STATED), max_size=5)


def walked(ref: Ref, parents: Mapping[int, int | None]) -> dict[int, int]:
    """The specification's words for one ref, for snapshots that were committed at the time of their number."""
    kept = {ref.snapshot_id: FOREVER_MS}
    current, place = parents[ref.snapshot_id], 1
    while ref.is_branch and current in parents:
        if place < (ref.min_snapshots or 0):
            kept[current] = FOREVER_MS
        elif ref.max_age_ms is not None:
            kept[current] = current + ref.max_age_ms
        current, place = parents[current], place + 1
    return kept


@given(PARENTS, REFS)
def test_refs_keep_together_what_each_of_them_keeps(found: tuple[int | None, ...], refs: list[Ref]) -> None:
    parents = dict(enumerate(found))
    expected: dict[int, int] = {}
    for one in refs:
        for snapshot_id, until_ms in walked(one, parents).items():
            expected[snapshot_id] = max(until_ms, expected.get(snapshot_id, until_ms))

    kept = kept_by_refs(refs, parents, {number: number for number in parents})

    # A time before the first commit is as good as none.
    assert {one: ms for one, ms in expected.items() if ms > 0} == {
        one: ms for one, ms in kept.items() if ms > 0
    }


def test_what_lies_in_a_circle_stays() -> None:
    parents = {1: 3, 2: 1, 3: 2, 4: 3, 5: None}

    kept = kept_by_refs([Ref(4, is_branch=True, max_age_ms=1)], parents, dict.fromkeys(parents, 0))

    assert dict.fromkeys((1, 2, 3, 4), FOREVER_MS) == {one: ms for one, ms in kept.items() if ms > 1}


class Counted(UserDict[int, int | None]):
    """A history that counts how often it is looked at."""

    looks = 0

    def __getitem__(self, snapshot_id: int) -> int | None:
        self.looks += 1
        return super().__getitem__(snapshot_id)


def test_each_snapshot_is_looked_at_a_few_times_however_many_branches_there_are() -> None:
    parents = Counted({number: number - 1 if number else None for number in range(1000)})
    refs = [Ref(999 - number, is_branch=True, min_snapshots=900, max_age_ms=7) for number in range(300)]

    kept = kept_by_refs(refs, parents, dict.fromkeys(range(1000), 0))

    assert len(kept) == 1000
    assert parents.looks < 10 * len(parents)
