"""A plan in few lines: what says the same is one line, what is due comes first, what is clean last."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.commands.plan_lines import plan_lines, tally_text
from isotherm.contract.identity import TableId
from isotherm.core.model.decisions import Decision, Plan, Verdict
from isotherm.core.model.jobs import Action


def of(label, verdict, why, score=0.5):
    return Decision(Action.COMPACT, label, label, verdict, score, why)


def hour(number):
    return f"at_hour=2026-10-{27 + number // 24}-{number % 24:02}"


def a_plan(*of_partitions, of_table=()):
    return Plan(TableId("u", "shop.orders"), tuple(of_table), of_partitions, ())


def shown(plan):
    return [(str(line.verdict), line.score, line.subject, line.why) for line in plan_lines(plan)]


def test_a_day_of_clean_hours_is_one_line():
    clean = "cold and clean: 1 of 2 files below 12.0 MiB"
    plan = a_plan(*(of(hour(number), Verdict.CLEAN, clean) for number in range(15, 37)))

    assert shown(plan) == [
        ("clean", 0.5, "at_hour=2026-10-27-15 … 2026-10-28-12 (22 partitions)", clean),
    ]


def test_what_is_due_is_first_and_what_is_clean_last_in_one_line():
    expiry = Decision(Action.EXPIRE, None, "(snapshots)", Verdict.CLEAN, 0.4, "4 of 61 snapshots may go")
    plan = a_plan(
        of(hour(1), Verdict.CLEAN, "cold and clean: 1 of 3 files below 12.0 MiB", 0.33),
        of(hour(2), Verdict.CLEAN, "cold and clean: 2 of 3 files below 12.0 MiB", 0.67),
        of(hour(3), Verdict.HOT, "hot: quiet for 5m of 15m; debt 3.00: 9 of 3 files", 3),
        of(hour(4), Verdict.DUE, "cold and due: 3 of 3 files", 1),
        of(hour(5), Verdict.DUE, "cold and due: 6 of 3 files", 2),
        of_table=[expiry],
    )

    assert shown(plan) == [
        ("due", 2, hour(5), "cold and due: 6 of 3 files"),
        ("due", 1, hour(4), "cold and due: 3 of 3 files"),
        ("hot", 3, hour(3), "quiet for 5m of 15m; debt 3.00: 9 of 3 files"),
        (
            "clean",
            0.67,
            f"{hour(1)} … 2026-10-27-02 (2 partitions), (snapshots)",
            f"nearest to due is {hour(2)}: cold and clean: 2 of 3 files below 12.0 MiB",
        ),
    ]
    assert tally_text(plan) == "2 due, 1 hot, 2 clean"


def test_hot_partitions_whose_sentences_differ_in_numbers_share_a_line_and_due_ones_do_not():
    behind = "hot: ends {} behind the stream (boundary 2026-10-27 {}:00:00), 2h needed; debt {}: 1 of 3 files below 96.0 MiB"
    hot = [
        of(hour(1), Verdict.HOT, behind.format("1h 5m", "03", "0.33"), 0.33),
        of(hour(2), Verdict.HOT, behind.format("5m", "03", "0.33"), 0.33),
        of(hour(3), Verdict.HOT, "hot: no open window names it; debt 0.00: no files", 0),
    ]
    due = [of(hour(n), Verdict.DUE, f"cold and due: {n} of 3 files", n / 3) for n in (5, 6)]
    lines = shown(a_plan(*hot, *due))

    assert [line[2] for line in lines] == [
        hour(6),
        hour(5),
        f"{hour(1)} … 2026-10-27-02 (2 partitions)",
        hour(3),
    ]
    assert lines[2][3].startswith(f"for instance {hour(1)}: ends 1h 5m behind the stream")


@pytest.mark.parametrize(
    ("chosen", "others", "text"),
    [
        (["bucket=8", "bucket=10", "bucket=12"], ["bucket=9"], "bucket=8 … 12 (3 of 4 partitions)"),
        (["bucket=8", "bucket=10"], ["bucket=1", "bucket=11"], "bucket=8 … 10 (2 partitions)"),
        (["a=1/b=2", "a=1/b=3"], [], "a=1/b=2 … 3 (2 partitions)"),
        (["a=1/b=2", "c=1"], [], "a=1/b=2 … c=1 (2 partitions)"),
    ],
)
def test_partitions_are_named_by_the_first_and_the_last_and_how_many_are_between(chosen, others, text):
    hot = [of(label, Verdict.HOT, "hot: now") for label in chosen]
    (line, *_) = plan_lines(a_plan(*hot, *(of(label, Verdict.CLEAN, "clean") for label in others)))

    assert line.subject == text


WHYS = st.sampled_from(
    ["cold and clean: 1 of 3", "cold and clean: 2 of 3", "hot: 5m of 15m", "hot: writer w"]
)


@given(st.lists(st.tuples(st.sampled_from(list(Verdict)), WHYS, st.floats(0, 9)), max_size=30))
def test_every_partition_is_in_exactly_one_line_and_none_is_hidden(chosen):
    plan = a_plan(
        *(of(hour(number), verdict, why, score) for number, (verdict, why, score) in enumerate(chosen))
    )
    lines = plan_lines(plan)
    told = dict.fromkeys(Verdict, 0)
    for line in lines:
        count = re.search(r"\((\d+) (?:of \d+ )?partitions\)", line.subject)
        told[line.verdict] += int(count[1]) if count else 1

    assert told == {verdict: sum(one[0] is verdict for one in chosen) for verdict in Verdict}
    assert [line.verdict for line in lines].count(Verdict.CLEAN) <= 1
    if chosen:
        highest = max(score for verdict, _, score in chosen if verdict is lines[0].verdict)
        assert lines[0].score == highest


def test_a_value_of_more_digits_than_a_number_may_have_has_its_place():
    labels = [f"what={'1' * 5000}", "what=10", f"what={'0' * 5000}9", "what=9"]
    plan = a_plan(*(of(label, Verdict.CLEAN, "clean") for label in labels))
    ((_, _, subject, _),) = shown(plan)

    assert subject == f"what={'0' * 5000}9 … {'1' * 5000} (4 partitions)"
