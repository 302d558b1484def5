"""Which snapshots are still to be announced."""

from hypothesis import given
from hypothesis import strategies as st

from isotherm_ingest.announce.pending import Break, Link, Watermark, pending


def chain(*ids: int, parent: int | None = None, first_sequence: int = 1) -> dict[int, Link]:
    links = {}
    for place, one in enumerate(ids):
        links[one] = Link(one, parent, first_sequence + place)
        parent = one
    return links


def ids(found) -> list[int]:
    return [link.snapshot_id for link in found.links]


def test_what_nobody_announced_is_announced_from_the_beginning():
    assert [1, 2, 3] == ids(pending(chain(1, 2, 3), 3, None))


def test_only_what_came_after_the_last_one():
    found = pending(chain(1, 2, 3, 4), 4, Watermark(2, 2))

    assert ([3, 4], Break.NONE) == (ids(found), found.broken)
    assert [] == ids(pending(chain(1, 2), 2, Watermark(2, 2)))
    assert [] == ids(pending({}, None, None))


def test_a_last_one_that_expired_is_no_gap_while_its_child_is_there():
    found = pending(chain(3, 4, parent=2, first_sequence=3), 4, Watermark(2, 2))

    assert ([3, 4], Break.NONE) == (ids(found), found.broken)


def test_history_that_was_cut_is_a_gap_and_what_is_left_is_announced():
    found = pending(chain(5, 6, parent=4, first_sequence=5), 6, Watermark(2, 2))

    assert ([5, 6], Break.GAP) == (ids(found), found.broken)


def test_a_rollback_tells_the_head_once_more():
    found = pending(chain(1, 2, 3), 1, Watermark(3, 3))

    assert ([1], Break.ROLLBACK) == (ids(found), found.broken)


def test_after_a_rollback_the_new_branch_is_announced_whole():
    links = {**chain(1, 2, 3), 4: Link(4, 1, 4), 5: Link(5, 4, 5)}
    found = pending(links, 5, Watermark(3, 3))

    assert ([4, 5], Break.ROLLBACK) == (ids(found), found.broken)


def test_a_rollback_whose_target_is_all_that_is_left():
    found = pending(chain(1, 2), 2, Watermark(9, 9))

    assert ([2], Break.ROLLBACK) == (ids(found), found.broken)


@given(st.data())
def test_whatever_crashes_every_snapshot_is_announced_in_order(data):
    """A history that grows, and an announcer that gets through any part of what is due."""
    links: dict[int, Link] = {}
    announced: list[int] = []
    last = None
    for _ in range(data.draw(st.integers(1, 6))):
        for _ in range(data.draw(st.integers(0, 4))):
            new = len(links) + 1
            links[new] = Link(new, new - 1 or None, new)
        due = pending(links, len(links) or None, last)
        assert due.broken is Break.NONE
        sent = data.draw(st.integers(0, len(due.links)))
        announced += [link.snapshot_id for link in due.links[:sent]]
        saved = data.draw(st.integers(0, sent))
        if saved:
            last = Watermark(due.links[saved - 1].snapshot_id, due.links[saved - 1].sequence_number)
    announced += ids(pending(links, len(links) or None, last))

    assert sorted(links) == sorted(set(announced))
    firsts = sorted(set(announced), key=announced.index)
    assert sorted(firsts) == firsts


def test_where_snapshots_have_no_numbers_a_gap_is_no_rollback_and_all_of_them_are_announced():
    """Tables of version 1."""
    # PyIceberg's expiry has taken the parent of the oldest.
    unnumbered = {one: Link(one, parent, 0) for one, parent in ((4, None), (5, 4), (6, 5))}
    found = pending(unnumbered, 6, Watermark(1, 0))

    assert ([4, 5, 6], Break.GAP) == (ids(found), found.broken)


def test_so_it_is_after_an_upgrade():
    links = {one: Link(one, parent, number) for one, parent, number in ((4, 3, 0), (5, 4, 0), (6, 5, 1))}

    assert ids(pending(links, 6, Watermark(1, 0))) == [4, 5, 6]
