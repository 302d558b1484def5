"""The `tests:` inside a policy file: facts in words, judged by the planner."""

import pytest

from isotherm.core.model.decisions import Verdict
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.planner.run_policy_tests import decision_on, judge_case, view_of
from isotherm.core.policy.policy import Policy
from isotherm.core.policy.precedence import PolicyFile, resolve
from isotherm.runtime.strict_model import ConfigError
from isotherm.runtime.yaml_reader import line_of, parse_yaml
from support.builders import DAY, HOUR, KIB, MIB

NOON = 1_767_268_800_000  # 2026-01-01T12:00:00Z


def policy_file(case: str, rules: str = "") -> PolicyFile:
    return parse_yaml(f"tables: shop.orders\n{rules}\ntests:\n- {{name: n, {case}}}", "p.yaml", PolicyFile)


def case(text: str):
    return policy_file(text).tests[0]


def judged(text: str, rules: str = ""):
    file = policy_file(text, rules)
    return judge_case(file.tests[0], resolve("shop.orders", {}, [("p.yaml", file)]).policy)


COLD_HOUR = "partition: 2026-01-01-08, files: 120 of 1MiB"


def test_what_is_as_expected_says_why_too():
    result = judged(f"{COLD_HOUR}, expect: due, why: 120 of 20 files")

    assert (result.ok, result.verdict) == (True, "due")
    assert result.why.startswith("cold and due: 120 of 20 files")


@pytest.mark.parametrize(
    ("expected", "ok"),
    [
        ("expect: hot", False),
        ("expect: due", True),
        ("expect: due, why: quiet", False),
        ("expect: due, why: cold", True),
    ],
)
def test_verdict_and_words_must_both_be_right(expected, ok):
    assert judged(f"{COLD_HOUR}, {expected}").ok is ok


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59Z"])
def test_a_test_may_ask_about_any_time(at):
    result = judged(f"at: {at}, {COLD_HOUR}, boundary: {at}, intent: true, expect: hot, why: means to write")

    assert result.ok, result


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("2026-01-01T20:59:59Z", "expect: waiting, why: 'opens at 22:00 Europe/Berlin (21:00 UTC)'"),
        ("2026-01-01T21:00:00Z", "expect: due"),
        ("2026-07-01T20:00:00Z", "expect: due"),
        ("9999-12-31T23:59:59Z", "expect: waiting, why: no window of the policy ever opens"),
    ],
    ids=["before", "winter", "summer", "the last moment"],
)
def test_a_window_opens_by_the_clocks_of_its_zone(at, expected):
    rules = "work: {tz: Europe/Berlin, windows: [{cron: 0 22 * * *, lasts: 4h}]}"

    result = judged(f"at: {at}, {COLD_HOUR}, {expected}", rules)

    assert result.ok, result


def test_a_table_that_no_file_names_is_only_observed():
    result = judge_case(case(f"{COLD_HOUR}, expect: due"), None)

    assert (result.ok, result.verdict) == (False, "off")


@pytest.mark.parametrize(
    ("spec", "partition", "label"),
    [
        ("hour", "2026-01-01-08", "part=2026-01-01-08"),
        ("day", "2026-01-01", "part=2026-01-01"),
        ("month", "2026-01", "part=2026-01"),
        ("year", "2026", "part=2026"),
        ("year", "'2026'", "part=2026"),
        ("bucket[16]", "7", "part=7"),
        ("truncate[4]", "abcd", "part=abcd"),
        ("identity", "eu", "part=eu"),
        ("identity", "42", "part=42"),
    ],
)
def test_a_partition_is_named_as_plan_names_it(spec, partition, label):
    one = case(f"spec: '{spec}', partition: {partition}, expect: due")

    assert decision_on(one, Policy()).label == label


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "partition: 2026-01-01-08, expect: dew",
            "p.yaml:4:39: tests.0.expect: Input should be 'due', 'clean'",
        ),
        ("partition: 2026-01-01-08, expct: due", "tests.0.expct: unknown key; did you mean `expect`?"),
        ("partition: 2026-01-01-08", "p.yaml:4:3: tests.0.expect: is missing"),
        ("expect: due", "tests.0: `partition` is needed, but for `spec: none`"),
        ("spec: none, partition: 7, expect: due", "`partition` is needed, but for `spec: none`"),
        (
            "partition: 2026-01-01, expect: due",
            "'2026-01-01' is no partition of `hour`, such as `2026-01-01-08`",
        ),
        ("spec: month, partition: 2026-1, expect: due", "is no partition of `month`, such as `2026-01`"),
        ("spec: 'bucket[8]', partition: x, expect: due", "is no partition of `bucket[8]`, such as `7`"),
        ("spec: hours, partition: x, expect: due", "tests.0.spec: expected hour, day, month"),
        ("partition: 2026-01-01-08, files: 12, expect: due", "tests.0.files: expected a count and a size"),
        (
            "partition: 2026-01-01-08, files: 12 of many, expect: due",
            "tests.0.files: expected a size with a unit",
        ),
        ("partition: 2026-01-01-08, deletes: 5, expect: due", "tests.0.deletes: expected rows and files"),
        (
            "partition: 2026-01-01-08, deletes: 5 rows in 1 file, expect: due",
            "say how many `rows` the files hold",
        ),
        (
            "partition: 2026-01-01-08, last_write: 45m, expect: due",
            "tests.0.last_write: expected a span and `ago`",
        ),
        ("partition: 2026-01-01-08, at: noon, expect: due", "tests.0.at: expected a time such as"),
        (
            "partition: 2026-01-01-08, snapshots: {count: 0, oldest: 1d}, expect: due",
            "snapshots.count: Input should",
        ),
    ],
)
def test_what_cannot_be_is_told_with_its_place(text, complaint):
    with pytest.raises(ConfigError) as error:
        policy_file(text)

    assert complaint in str(error.value)


def test_the_facts_are_what_was_written():
    one = case(
        "at: 2026-01-02T00:00:00+00:00, spec: day, partition: 2025-12-01, files: [3 of 1MiB, 1 of 64MiB], rows: 1001, "
        "deletes: 50 rows in 3 files, last_write: 45m ago, commits_since: 12, boundary: 2026-01-01T12:00:00, "
        "snapshots: {count: 3, oldest: 2d}, manifests: 9, partitions: 4, metadata_size: 5MiB, metadata_versions: 6, "
        "action: expire, last_done: 1d ago, expect: due"
    )
    view = view_of(one, Policy())
    (state,) = view.partitions.values()

    assert one.at == NOON + 12 * HOUR
    assert view.around.state.boundary_ms == NOON
    assert state.data_total == FileStats(4, 1001, 67 * MIB)
    assert state.deletes[FileKind.POSITION_DELETES].rows == 50
    assert state.last_write_at_ms == one.at - 45 * 60_000
    assert view.around.state.foreign_commits - state.last_write_number == 12
    assert [one.at - snapshot.committed_at_ms for snapshot in view.snapshots] == [2 * DAY, DAY, 0]
    assert (view.facts.manifests, view.facts.metadata_bytes, view.around.state.partitions) == (9, 72 * KIB, 4)
    assert (view.facts.metadata_file_bytes, view.facts.metadata_versions) == (5 * MIB, 6)
    assert dict(view.last_done_ms) == {one.action: one.at - DAY}


@pytest.mark.parametrize(
    ("text", "rules", "verdict"),
    [
        (f"{COLD_HOUR}, intent: true", "", Verdict.HOT),
        (COLD_HOUR, "compact: {enabled: false}", Verdict.OFF),
        (COLD_HOUR, "work: {windows: [{cron: 0 3 * * *, lasts: 1h}]}", Verdict.WAITING),
        (
            f"{COLD_HOUR}, at: 2026-01-02T03:30:00Z",
            "work: {windows: [{cron: 0 3 * * *, lasts: 1h}]}",
            Verdict.DUE,
        ),
        (
            "partition: 2026-01-01-08, files: 40 of 1MiB, at: 2026-01-02T03:30:00Z",
            "work: {schedules: [{name: nightly, cron: 0 3 * * *, lasts: 1h, do: [compact]}]}",
            Verdict.DUE,
        ),
        (
            "spec: identity, field: day, partition: 20251201, files: 120 of 1MiB, boundary: 2025-12-01T12:00:00Z",
            "cold: {epochs: {day: yyyymmdd}}",
            Verdict.HOT,
        ),
        ("action: expire, spec: none, snapshots: {count: 500, oldest: 20d}", "", Verdict.DUE),
        ("action: remove_orphans, spec: none, last_done: 1d ago", "", Verdict.CLEAN),
        ("action: trim_metadata, spec: none, metadata_versions: 150", "", Verdict.CLEAN),
        ("action: rewrite_manifests, spec: none, manifests: 50", "", Verdict.CLEAN),
        ("action: expire, spec: none", "expire: {enabled: false}", Verdict.OFF),
    ],
)
def test_whatever_the_planner_decides_can_be_expected(text, rules, verdict):
    result = judged(f"{text}, expect: '{verdict}'", rules)

    assert (result.verdict, result.ok) == (verdict, True)


def test_a_case_knows_its_line():
    text = "tables: a\ntests:\n- name: one\n  spec: none\n  expect: due\n\n# two\n- name: two\n  spec: none\n  expect: due\n"
    assert [line_of(text, ("tests", number)) for number in (0, 1)] == [3, 8]


RESTED = "partition: 2026-01-01-08, files: 30 of 1MiB, last_write: 1h ago, last_done: {}, expect: resting"


@pytest.mark.parametrize(
    ("last_done", "rules", "verdict"),
    [
        ("2h ago", "", Verdict.RESTING),
        ("2h ago", "compact: {rest: 90m}", Verdict.DUE),
        ("25h ago", "", Verdict.DUE),
        ("30m ago", "", Verdict.DUE),
    ],
    ids=["rests", "a shorter rest", "a day later", "nobody wrote since"],
)
def test_a_case_says_when_its_partition_was_last_compacted(last_done, rules, verdict):
    """Of a partition that nobody wrote to since then, the next part is due."""
    assert judged(RESTED.format(last_done), rules).verdict == verdict
