"""Names of tables, and the levels that they stand for."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from isotherm.contract.identity import levels_of, name_from

LEVEL = st.text("ab.%25Ee\\`/", max_size=8)


@pytest.mark.parametrize(
    ("levels", "name"),
    [
        (("shop", "orders"), "shop.orders"),
        (("a", "b", "c"), "a.b.c"),
        (("a", "b.c"), "a.b%2Ec"),
        (("a.b", "c"), "a%2Eb.c"),
        (("a", "b%2Ec"), "a.b%252Ec"),
        (("a", "b%2ec"), "a.b%252ec"),
        (("a", "b%252Ec"), "a.b%25252Ec"),
        (("plain", "a..b"), "plain.a%2E%2Eb"),
        (("Nord Süd", "100%", "it's", "2E%20`\\/"), "Nord Süd.100%.it's.2E%20`\\/"),
    ],
)
def test_a_dot_within_a_level_is_written_and_whatever_has_none_is_joined_by_dots(levels, name):
    assert (name_from(levels), levels_of(name)) == (name, levels)


@given(st.lists(LEVEL, min_size=1, max_size=4).map(tuple))
@example(("%2E",))  # chance finds such a level in most runs, and not in all
def test_no_two_tables_have_one_name(levels):
    assert levels_of(name_from(levels)) == levels


@given(st.lists(LEVEL, min_size=1, max_size=4).map(tuple), st.lists(LEVEL, min_size=1, max_size=4).map(tuple))
def test_names_that_differ_in_capitals_alone_have_levels_that_do(one, other):
    """Glue and Hive find a table in any case, so that case must not tell an escape from text."""
    if name_from(one).casefold() == name_from(other).casefold():
        assert [level.casefold() for level in one] == [level.casefold() for level in other]
