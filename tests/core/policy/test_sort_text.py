"""What a policy may say of the order of rows: columns as Spark's procedures take them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.core.policy.sort_text import SortBy, SortColumn, sort_by
from isotherm.runtime.strict_model import ConfigError
from support.policy_files import policy_file

NAMES = st.text("abTÄ.1_ `(,)", min_size=1, max_size=6).filter(
    lambda name: "`" not in name
) | st.sampled_from(["table", "none", "zorder", "asc", "desc", "nulls", "nulls first", "zorder(a)"])
COLUMNS = st.lists(NAMES, min_size=1, max_size=8, unique=True)
ORDERS = st.builds(
    SortBy, COLUMNS.flatmap(lambda names: st.tuples(*(st.builds(SortColumn, st.just(n), st.booleans(), st.booleans()) for n in names)))
) | COLUMNS.map(lambda names: SortBy(tuple(map(SortColumn, names)), is_zorder=True))  # fmt: skip


@given(ORDERS)
def test_what_is_written_is_read_as_the_same(order):
    assert sort_by(str(order)) == order


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("id", [("id", False, False)]),
        ("id DESC", [("id", True, True)]),
        ("id desc nulls first,day", [("id", True, False), ("day", False, False)]),
        ("a.b ASC NULLS LAST", [("a.b", False, True)]),
        ("`table`, `two words` ASC", [("table", False, False), ("two words", False, False)]),
        ("asc", [("asc", False, False)]),
        ("`off`", [("off", False, False)]),
        ("off, b", [("off", False, False), ("b", False, False)]),
    ],
)
def test_columns_are_as_in_sparks_procedures(text, columns):
    assert sort_by(text) == SortBy(tuple(SortColumn(*column) for column in columns))


def test_a_z_order_has_columns_alone():
    assert sort_by(" ZORDER( a , b.c )") == SortBy((SortColumn("a"), SortColumn("b.c")), is_zorder=True)
    assert str(sort_by("zorder(a,b)")) == "zorder(a, b)"
    for text in ("table", "TABLE", " none", "None"):
        assert sort_by(text) is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "expected `table`, `none`, columns"),
        ("[a, b]", "expected `table`, `none`, columns"),
        ("true", "expected `table`, `none`, columns"),
        ("a b", "not understood from `b` on"),
        ("a,", "not understood from `` on"),
        ("a, , b", "not understood from ` , b` on"),
        ("bucket(4, a)", r"not understood from `\(4, a\)` on"),
        ("zorder()", "not understood"),
        ("zorder(a DESC, b)", "a z-order has no direction: write its columns alone"),
        ("zorder(a, a)", "column `a` is named twice"),
        ("a, a DESC", "column `a` is named twice"),
        ("a,b,c,d,e,f,g,h,i", "more than 8 columns"),
        ("off", "a column of this name is written in backticks"),
        ("zorder", "a column of this name is written in backticks"),
        ('"region"', 'not understood from `"region"` on'),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(text, complaint):
    with pytest.raises(ConfigError, match=rf"p.yaml:2:\d+: compact.sort: .*{complaint}"):
        policy_file(f"tables: a\ncompact: {{sort: {text if text[:1] in '[t' else repr(text)}}}")
