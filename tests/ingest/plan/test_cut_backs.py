"""Cuts of a partition: which offsets are still of the messages that they were of."""

from hypothesis import given
from hypothesis import strategies as st

from isotherm_ingest.plan.cut_backs import MOST, Cut, left_of, unknown_to, unread, with_cut

P = ("shop.orders", 0)
SOME = st.lists(st.integers(0, 20), max_size=MOST)


def of(ends):
    cuts = ()
    for seen_ms, end in enumerate(ends, 1):
        cuts = with_cut(cuts, Cut(seen_ms, end, end + 5))
    return cuts


@given(SOME, st.integers(0, 11), st.integers(0, 30))
def test_what_is_kept_of_the_cuts_says_the_same_as_all_of_them(ends, since, offset):
    kept = unknown_to({P: since}, P, {P: of(ends)})

    assert left_of(offset, kept) == min([offset, *ends[since:]])


def test_a_partition_keeps_so_many_cuts_and_no_more():
    assert of(range(15)) == tuple(Cut(number + 1, number, number + 5) for number in range(5, 15))


def test_who_was_behind_has_lost_what_was_read_and_is_gone():
    cuts = of([10, 12])

    assert unread(14, cuts) == cuts[0]
    assert unread(15, cuts) == cuts[1]  # behind the first cut it began at 10 again, and others had been at 17
    assert unread(15, cuts[:1]) is None
    assert unread(15, ()) is None
