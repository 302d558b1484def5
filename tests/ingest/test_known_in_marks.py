"""What the marks of a pipeline say of a table whose name another one had before: the catalog says which of the two it is."""

import pytest

from isotherm_ingest.known_in_marks import known_of
from isotherm_ingest.mark_text import Mark


def marks(mine, other):
    """The table that is there was made while the topic `other` was not listed: its mark is still of the one before."""
    return {
        (mine, 0): Mark(10, "i", {"t": ("U2", 8, 9)}, halted=frozenset({"t"}), since={"t": 77}),
        (other, 0): Mark(10, "i", {"t": ("U1", 3, 5)}),
    }


@pytest.mark.parametrize("names", [("a", "c"), ("c", "a")])
def test_which_topic_sorts_first_decides_nothing_of_cuts_and_halts(names):
    mine, other = names

    for uuid, position, cuts, is_halted in (("U2", mine, {(mine, 0): 77}, True), ("U1", other, {}, False)):
        known = known_of(marks(mine, other), "t").as_found(uuid)

        assert (known.uuid, set(known.vector)) == (uuid, {(position, 0)})
        assert (known.cuts, known.is_halted) == (cuts, is_halted)


def test_asked_for_once_more_it_is_the_same():
    known = known_of(marks("a", "c"), "t")

    assert known.as_found("U2").as_found("U1").as_found("U2") == known.as_found("U2")
