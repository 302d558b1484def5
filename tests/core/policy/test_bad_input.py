"""Any text as a policy file: a policy, or complaints in words; never anything else, and never for long."""

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from isotherm.core.planner.run_policy_tests import judge_case
from isotherm.core.policy.fields import RULES
from isotherm.core.policy.precedence import PolicyFile
from isotherm.runtime.strict_model import ConfigError
from isotherm.runtime.validation_errors import MAX_COMPLAINTS
from isotherm.runtime.yaml_reader import parse_yaml
from support.examples import examples

WORDS = st.sampled_from(
    [
        *{rule.section for rule in RULES.values()},
        *{rule.name for rule in RULES.values()},
        *(
            "tables",
            "override",
            "tests",
            "name",
            "at",
            "spec",
            "partition",
            "files",
            "deletes",
            "rows",
            "expect",
        ),
        *("snapshots", "count", "oldest", "windows", "schedules", "cron", "lasts", "do", "mode", "epochs"),
    ]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.dates(),
    st.datetimes(),
    st.binary(max_size=8),
    WORDS,
    st.sampled_from(
        [
            "15m",
            "512MiB",
            "0s",
            "120 of 1MiB",
            "5 rows in 2 files",
            "45m ago",
            "2026-01-01-08",
            "* * * * *",
            "due",
        ]
    ),
    st.sampled_from([10**30, -(10**30), 2**63, float("inf"), float("nan"), 1e308]),
)
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=5), inner, max_size=6)
    ),
    max_leaves=25,
)
PIECES = st.lists(
    st.one_of(
        WORDS,
        st.sampled_from(
            [
                *list(":-?[]{},#&*!|>'\"%@`\n\t ~=<"),
                "\n  ",
                ": ",
                "- ",
                "!!",
                "<<: ",
                "\ufeff",
                "---",
                "...",
                "!!set",
                "!!int ",
            ]
        ),
        st.text(max_size=4),
    ),
    max_size=40,
)


def judged(text: str) -> PolicyFile | None:
    try:
        return parse_yaml(text, "p.yaml", PolicyFile)
    except ConfigError as error:
        complaints = str(error)
    lines = complaints.splitlines()
    assert lines[0].startswith("p.yaml")
    assert len(lines) <= MAX_COMPLAINTS + 1
    assert complaints.encode()  # a terminal, a log and a database can take it
    return None


@given(st.text(max_size=200))
@example("tables: \ud800")
@example('tables: "\\ud800"')
@example('"\\ud800": 1')
@example('tables: "\\U00110000"')
@example("? !!set {a}\n: 1")
@example("tables: !!bool x")
@example("tables: !!int ''")
@example("tables: !!timestamp 2026-99-99")
@example("tables: !!timestamp x")
@example("tables: !!map [a]")
@example("tables: !!python/object:os.system x")
@example("tables: a\ncold:\n\tafter: 1")
@example("tables: a\0")
@example("tables: [a, [b]]")
@example("~: 1")
@example("tables: a\ntests: [1]")
@example("tables: a\ntests: {a: 1}")
def test_any_text_is_judged_in_words(text):
    judged(text)


@given(PIECES)
@examples(300)
def test_any_text_of_pieces_of_yaml_is_judged_in_words(pieces):
    judged("".join(pieces))


@given(st.dictionaries(WORDS, TREES, max_size=6), st.booleans())
@examples(300)
def test_any_tree_is_judged_in_words(tree, with_tables):
    judged(yaml.safe_dump({**tree, **({"tables": "shop.*"} if with_tables else {})}, allow_unicode=True))


@given(st.sampled_from(sorted(RULES)), SCALARS | TREES)
@examples(300)
def test_any_value_of_a_field_is_judged_in_words(name, value):
    section, field = name.split(".")
    found = judged(yaml.safe_dump({"tables": "shop.*", section: {field: value}}, allow_unicode=True))
    if found is not None:
        assert all(RULES[name].written(one) for one in found.rules().get(section, {}).values())


CASE = {"name": "n", "partition": "2026-01-01-08", "files": "1 of 1MiB", "expect": "due"}


@given(
    st.dictionaries(WORDS, SCALARS | TREES, max_size=4),
    st.sampled_from(["hour", "day", "month", "year", "none"]),
)
@examples(300)
def test_any_case_is_judged_in_words_and_by_the_planner(fields, spec):
    found = judged(
        yaml.safe_dump({"tables": "a", "tests": [{**CASE, "spec": spec, **fields}]}, allow_unicode=True)
    )
    for case in found.tests if found else ():
        assert judge_case(case, None).why


N = 99_000
LARGE = {
    "a flow": "tables: [" + "a," * (N // 2) + "]",
    "empty flows": "tables: [" + "[]," * (N // 3) + "]",
    "deep flows": "[" * N,
    "deep blocks": "- " * (N // 2),
    "deep keys": "? " * (N // 2),
    "deep mappings": "".join(" " * depth + "a:\n" for depth in range(400)),
    "unknown keys": "".join(f"k{number}: 1\n" for number in range(9000)),
    "long keys": ("k" * 30_000 + ": 1\n") * 3,
    "a long string": "tables: a\ncold: {after: " + "x" * 90_000 + "}",
    "spaces": " " * N,
    "lines": "\n" * N,
    "a bomb": "a: &a [x]\nb: [" + "*a," * 30_000 + "]",
    "many digits": "tables: a\ncompact: {min_files: " + "9" * 90_000 + "}",
    "a long span": "tables: a\ncold: {quiet_for: " + "1s " * 30_000 + "}",
    "tests": "tables: a\ntests:\n" + "- {name: a, spec: none, expect: due}\n" * 2500,
}


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE)
@pytest.mark.timeout(60)
def test_the_largest_file_is_judged_in_bounded_time(text):
    """A second or two on a quiet machine; the limit only tells seconds from for ever."""
    assert len(text) <= 100_000
    judged(text)
