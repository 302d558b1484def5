"""Two files that disagree about the same tables: both are named, and until then one of them holds."""

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.core.policy.conflicts import conflicts
from isotherm.core.policy.patterns import matches, overlap
from isotherm.core.policy.precedence import resolve
from support.builders import DAY
from support.policy_files import policy_file, resolved


def clashes(*texts):
    return conflicts((f"{number}.yaml", policy_file(text)) for number, text in enumerate(texts))


class TestConflicts:
    def test_two_files_that_disagree_about_the_same_tables_are_both_named(self):
        assert clashes(
            "tables: shop.*\ncompact: {min_files: 20}", "tables: shop.*\ncompact: {min_files: 50}"
        ) == [
            (
                "1.yaml: compact.min_files is 50, and 20 in 0.yaml (for shop.*): say it in one of them, or more "
                "specifically; until then 1.yaml holds, the later name"
            )
        ]

    def test_until_it_is_mended_the_later_name_holds_whatever_the_order(self):
        one, two = (
            ("a.yaml", policy_file("tables: s.*\ncold: {after: 1}")),
            (
                "b.yaml",
                policy_file("tables: s.*\ncold: {after: 2}"),
            ),
        )

        assert {resolve("s.t", {}, files).policy.cold.after for files in ([one, two], [two, one])} == {2}

    def test_about_deletion_what_keeps_more_holds_until_it_is_mended(self):
        files = [
            ("a.yaml", policy_file("tables: s.*\nexpire: {keep_for: 30d, keep_last: 10}")),
            ("b.yaml", policy_file("tables: s.*\nexpire: {keep_for: 1d, keep_last: 90}")),
        ]
        answer = resolve("s.t", {}, files)

        assert (answer.policy.expire.keep_for, answer.policy.expire.keep_last) == (30 * DAY, 90)
        assert answer.origins == {"expire.keep_for": "a.yaml", "expire.keep_last": "b.yaml"}
        assert [text.rpartition("; ")[2] for text in conflicts(files)] == [
            "until then 30d holds, which keeps more",
            "until then 90 holds, which keeps more",
        ]

    def test_a_more_specific_file_may_keep_less(self):
        assert (
            resolved(
                ["tables: '*'\nexpire: {keep_for: 30d}", "tables: shop.*\nexpire: {keep_for: 1d}"]
            ).expire.keep_for
            == DAY
        )

    @pytest.mark.parametrize(
        ("one", "two"),
        [
            ("tables: shop.*\ncold: {after: 1}", "tables: shop.*\ncold: {after: 1}"),  # they agree
            (
                "tables: shop.*\ncold: {after: 1}",
                "tables: shop.*\ncold: {quiet_for: 1m}",
            ),  # about other fields
            ("tables: shop.*\ncold: {after: 1}", "tables: shop.o*\ncold: {after: 2}"),  # one is more specific
            ("tables: shop.*\ncold: {after: 1}", "tables: pohs.*\ncold: {after: 2}"),  # about other tables
            ("tables: a*x\ncold: {after: 1}", "tables: a*y\ncold: {after: 2}"),
            # Five literal characters against four: the longer wins.
            ("tables: shop.*\ncold: {after: 1}", "tables: '*_raw'\ncold: {after: 2}"),
        ],
    )
    def test_what_is_no_conflict(self, one, two):
        assert clashes(one, two) == []

    def test_patterns_that_only_meet_in_some_table_are_found_without_it(self):
        (text,) = clashes("tables: shop.*\ncold: {after: 1}", "tables: '*_raws'\ncold: {after: 2}")

        assert "for tables that are both shop.* and *_raws" in text

    @given(
        st.text("ab*?", min_size=1, max_size=6),
        st.text("ab*?", min_size=1, max_size=6),
        st.text("ab", max_size=6),
    )
    def test_patterns_overlap_where_a_name_matches_both(self, one, two, name):
        assert overlap(one, two) == overlap(two, one)
        if matches(one, name) and matches(two, name):
            assert overlap(one, two)

    @pytest.mark.parametrize(
        ("one", "two", "expected"),
        [
            ("a*", "*b", True),
            ("a?", "?b", True),
            ("a?c", "ab", False),
            ("*a*b*", "c*", True),
            ("a[bc]", "a[cd]", True),
            ("a[bc]", "a[de]", False),
            ("a[!b]", "ab", False),
            ("a*", "b*", False),
        ],
    )
    def test_whether_two_patterns_overlap(self, one, two, expected):
        assert overlap(one, two) is expected

    def test_two_characters_are_compared_once_however_often_patterns_have_them(self, monkeypatch):
        compared = []
        real = fnmatch.fnmatchcase
        monkeypatch.setattr(fnmatch, "fnmatchcase", lambda *pair: compared.append(pair) or real(*pair))

        assert not overlap("*" + "kl" * 100 + "y", "*" + "lk" * 100 + "z")
        assert len(compared) < 2000
