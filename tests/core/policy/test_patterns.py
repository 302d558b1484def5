"""Which tables a pattern matches, and that an index of many patterns answers as all of them would."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.core.policy.conflicts import conflicts
from isotherm.core.policy.patterns import Names, Patterns, example_table, matches
from isotherm.core.policy.precedence import PolicyFile, resolve
from isotherm.core.policy.rulebook import Gap, Rulebook


@pytest.mark.parametrize("pattern", ["*", "shop.*", "shop.orders", "s?op.*", "[ab]*.x", "[!a]b"])
def test_a_pattern_has_an_example(pattern):
    assert matches(pattern, example_table([pattern]))


NAMES = st.text("ab.", min_size=1, max_size=8)
PATTERNS = st.text("ab.*?", min_size=1, max_size=6)


@given(st.lists(st.tuples(PATTERNS, st.integers(2, 5)), max_size=8), NAMES)
def test_a_rulebook_answers_as_all_of_its_files_would(entries, table):
    files = {
        f"{number}.yaml": PolicyFile.model_validate({"tables": [pattern], "compact": {"min_files": least}})
        for number, (pattern, least) in enumerate(entries)
    }
    book = Rulebook(files)

    assert book.resolve(table, {}) == resolve(table, {}, files.items()) == book.resolve(table, {})


@given(st.lists(PATTERNS, max_size=5), st.lists(PATTERNS, max_size=5), st.booleans(), NAMES)
def test_whether_a_table_has_a_policy_is_known_without_making_it(good, broken, is_whole, table):
    files = {f"{n}.yaml": PolicyFile.model_validate({"tables": [one]}) for n, one in enumerate(good)}
    gaps = {f"{n}-broken.yaml": Gap((one,), is_whole=is_whole) for n, one in enumerate(broken)}
    book = Rulebook(files, gaps)

    assert book.has_policy(table) is (book.resolve(table, {}) is not None)


@given(st.lists(PATTERNS, max_size=8), NAMES)
def test_no_pattern_that_matches_is_overlooked(patterns, table):
    index = Patterns((pattern, None) for pattern in patterns)

    assert {p for p in patterns if matches(p, table)} <= {p for p, _ in index.that_may_match(table)}


@given(st.lists(PATTERNS, max_size=8), NAMES)
def test_the_names_that_patterns_match_are_found_by_any_text_in_them(patterns, table):
    index = Names((pattern, None) for pattern in patterns)

    assert sorted(p for p, _ in index.that_match(table)) == sorted(p for p in patterns if matches(p, table))


def test_of_patterns_that_begin_and_end_alike_a_name_is_held_against_few():
    patterns = [f"shop.events_*_{number:05}_v[12]" for number in range(2_000)]
    held = []

    class Held(str):
        __slots__ = ()

        def startswith(self, *text):
            held.append(text)
            return super().startswith(*text)

    index = Names((pattern, None) for pattern in patterns)

    assert [p for p, _ in index.that_match(Held("shop.events_clicks_00007_v1"))] == [patterns[7]]
    assert len(held) < 5


@given(st.lists(PATTERNS, min_size=2, max_size=5, unique=True), NAMES)
def test_where_files_of_equal_weight_meet_in_a_table_and_disagree_it_is_told(patterns, table):
    files = [
        (
            f"{number}.yaml",
            PolicyFile.model_validate({"tables": [pattern], "compact": {"min_files": number + 2}}),
        )
        for number, pattern in enumerate(patterns)
    ]
    weights = [weight for _, file in files if (weight := file.specificity(table)) is not None]

    assert len(conflicts(files)) >= len(weights) - len(set(weights))
