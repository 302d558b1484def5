"""`isotherm simulate --suggest` on the stores of a daemon that has followed a table: it chooses, and says why."""

import io
import json
import signal

import pytest
from rich.console import Console
from typer.testing import CliRunner

from isotherm.cli import app
from isotherm.commands.inspector import Inspector
from isotherm.commands.simulate import IN_FORCE
from isotherm.commands.suggestion import INTERRUPTED, PATIENCE_S, print_suggestion, suggest
from isotherm.commands.terminal import print_json
from isotherm.core.policy.diff import policy_changes
from isotherm.core.policy.precedence import PolicyFile, resolve
from isotherm.core.replay.policy_choice import Advice
from isotherm.runtime.clock import now_ms
from isotherm.runtime.config import load_config
from isotherm.runtime.yaml_reader import parse_yaml
from isotherm.service.ports import UnknownTable
from support.builders import DAY, HOUR, MIB, MINUTE
from support.lab import Lab
from support.past import followed
from support.worked import configured
from workloads.appends import nightly_batch
from workloads.writing import DAYS, Writer, wrote

HISTORY = nightly_batch(25)
NEVER = 'tables: "shop.*"\ncompact: {min_files: 100}\n'
"""A batch of the night never has so many files."""


@pytest.fixture(scope="module")
def nightly(tmp_path_factory):
    return followed(tmp_path_factory.mktemp("nightly"), HISTORY, NEVER)


def run(lab, *, file=None, clock_s=lambda: 0.0, **fields):
    fields = {"now_ms": HISTORY.ends_at_ms, "for_ms": None, "every_ms": None, "reads_a_day": 0.3, **fields}
    return suggest(
        Inspector(load_config(lab.root / "isotherm.yaml")),
        "shop.orders",
        (IN_FORCE, None) if file is None else ("mine.yaml", parse_yaml(file, "mine.yaml", PolicyFile)),
        plan_every_ms=1000,
        err=Console(file=io.StringIO()),
        clock_s=clock_s,
        **fields,
    )


def printed(suggestion, width=80):
    out = io.StringIO()
    print_suggestion(suggestion, Console(file=out, width=width, highlight=False))
    return out.getvalue()


def test_it_chooses_and_says_why_in_80_columns(nightly):
    suggestion = run(nightly)
    text = printed(suggestion)
    flat = " ".join(text.split())
    current, best = (next(one for one in suggestion.tried if ask(one)) for ask in (is_current, is_chosen))

    assert max(map(len, text.splitlines())) <= 80
    assert suggestion.advice is Advice.CHANGE
    assert f"now in force {current.figures.files_mean:.1f} {current.figures.files_p95}" in flat
    assert f"best min_files learned, {best.figures.files_mean:.1f} {best.figures.files_p95}" in flat
    assert f"Readers meet {best.figures.files_mean:.1f} files in a partition" in flat
    assert "No difference here:" in flat
    assert text.isascii()


def test_what_makes_no_difference_has_no_row_of_its_own(nightly):
    suggestion = run(nightly)
    text = printed(suggestion)
    rows = text[text.index("policy") : text.index("No difference here")].splitlines()[1:]
    different = {one.figures for one in suggestion.tried}

    assert len([row for row in rows if "iB" in row]) == len(different) < len(suggestion.tried)
    assert all(one.name.split(",")[0] in " ".join(text.split()) for one in suggestion.tried)


def is_current(one):
    return one.is_current


def is_chosen(one):
    return one.is_chosen


def test_what_it_prints_to_paste_is_the_policy_that_it_tried(nightly):
    suggestion = run(nightly)
    (chosen,) = filter(is_chosen, suggestion.tried)
    pasted = parse_yaml(suggestion.yaml, "orders.yaml", PolicyFile)
    inspector = Inspector(load_config(nightly.root / "isotherm.yaml"))
    files = [*inspector.policies.files(), ("orders.yaml", pasted)]
    now = inspector.policy("shop.orders").policy
    then = resolve("shop.orders", {}, files).policy

    assert suggestion.yaml == (
        "tables: shop.orders\n"
        "cold:\n"
        "  silent_for: 6h  # was 1d (built-in)\n"
        "compact:\n"
        "  min_files: learned  # was 100 (all.yaml)"
    )
    assert policy_changes(now, then) == chosen.changes
    # And where it is tried again, nothing else comes of it.
    again = run(nightly, file=suggestion.yaml)
    assert again.tried[0].figures == chosen.figures


def test_the_file_says_where_each_value_came_from(nightly):
    text = run(nightly, file=NEVER.replace("100", "2000")).yaml

    assert "  min_files: learned  # was 2000 (--policy)" in text


def test_how_often_it_is_read_decides_what_may_be_paid(nightly):
    never = run(nightly, reads_a_day=0.0)

    assert never.tried[0].price_bytes_a_day == never.tried[0].figures.rewritten_bytes_a_day
    assert all(
        one.price_bytes_a_day == 10 * one.figures.read_bytes + one.figures.rewritten_bytes_a_day
        for one in run(nightly, reads_a_day=10.0).tried
    )


def test_json_holds_everything(nightly, capsys):
    suggestion = run(nightly)
    print_json(suggestion)
    answer = json.loads(capsys.readouterr().out)

    assert answer["advice"] == "change"
    assert answer["yaml"] == suggestion.yaml
    assert answer["tried"][0]["is_current"]
    assert [one["changes"] for one in answer["tried"] if one["is_chosen"]] == [
        [
            {"field": "cold.silent_for", "before": "1d", "after": "6h"},
            {"field": "compact.min_files", "before": "100", "after": "learned"},
        ]
    ]
    assert {"files_mean", "files_p95", "write_amplification", "in_vain", "delay_ms"} <= answer["tried"][0][
        "figures"
    ].keys()
    assert {"table", "from_ms", "to_ms", "changes", "assumed", "remarks"} <= answer.keys()


def at_look(number, then):
    """A clock of which the look with this number does something else first."""
    looks = iter(range(1000))
    return lambda: then() if next(looks) >= number else 0.0


def test_an_interruption_leaves_what_is_known_so_far(nightly):
    def interrupted():
        signal.raise_signal(signal.SIGINT)

    suggestion = run(nightly, clock_s=at_look(4, interrupted))

    assert suggestion.stopped == INTERRUPTED
    assert len(suggestion.tried) == 4
    assert suggestion.advice in (Advice.CHANGE, Advice.KEEP)
    assert "Interrupted: 4 policies were tried, others may be better." in printed(suggestion)


def test_it_takes_minutes_at_most(nightly):
    suggestion = run(nightly, clock_s=at_look(2, lambda: PATIENCE_S + 1.0))

    assert len(suggestion.tried) == 2
    assert "Stopped after 5m: 2 policies were tried" in printed(suggestion)
    assert run(nightly).stopped is None


def test_where_the_first_policy_takes_all_the_time_nothing_is_said_of_others(nightly):
    suggestion = run(nightly, clock_s=at_look(1, lambda: PATIENCE_S + 1.0))

    assert (len(suggestion.tried), suggestion.advice) == (1, Advice.KEEP)
    assert "Stopped after 5m: 1 policy was tried, others may be better." in printed(suggestion)
    assert "no other policy was tried" in suggestion.why


def test_a_policy_that_compacts_nothing_is_nothing_to_begin_with(nightly):
    with pytest.raises(UnknownTable, match="does not compact it"):
        run(nightly, file='tables: "*"\ncompact: {enabled: false}')


def test_a_table_without_a_policy_needs_one_to_begin_with(tmp_path):
    lab = followed(tmp_path, nightly_batch(3), 'tables: "other.*"')

    with pytest.raises(UnknownTable, match="name one to begin with: --policy FILE"):
        run(lab)
    assert run(lab, file=NEVER, now_ms=HISTORY.ends_at_ms).advice is Advice.TOO_LITTLE


@pytest.fixture
def ask(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")

    def ask(lab, *more):
        words = ["simulate", "shop.orders", "--suggest", "--config", str(lab.root / "isotherm.yaml")]
        return CliRunner().invoke(app, [*words, *more])

    return ask


def test_the_command_chooses_on_a_table_of_today(tmp_path, ask):
    today = now_ms() // DAY
    writer = Writer(DAYS, is_ingest=False)
    for day in range(today - 24, today):
        writer.commit(day * DAY + 3 * HOUR, {day - 1: wrote(40, 2 * MIB)})
    lab = followed(tmp_path, writer.history(1), NEVER)
    result = ask(lab, "--reads-a-day", "0.3")
    text = " ".join(result.output.split())
    answer = json.loads(ask(lab, "--reads-a-day", "5", "-o", "json").stdout)

    assert result.exit_code == 0, result.output
    assert "best min_files learned" in text
    assert "min_files: learned # was 100 (all.yaml)" in text
    assert (answer["advice"], answer["reads_a_day"]) == ("change", 5)


def test_one_snapshot_is_too_little_history(tmp_path, ask):
    lab = Lab(tmp_path)
    lab.append(lab.create(), 1)
    lab.settled().stop()
    configured(lab)
    result = ask(lab)

    assert result.exit_code == 0, result.output
    assert "There is too little history: 1 commit of writers" in result.output
    assert "It takes 20 of them and 1d 12h" in " ".join(result.output.split())


def test_no_history_is_no_answer(tmp_path, ask):
    lab = Lab(tmp_path)
    lab.create()
    lab.settled().stop()
    configured(lab)
    result = ask(lab)

    assert result.exit_code == 2
    assert "has a commit in this time" in " ".join(result.output.split())


def test_two_policies_are_not_suggested_from(tmp_path, ask):
    result = ask(Lab(tmp_path), "--against", "other.yaml")

    assert result.exit_code == 2
    assert "--suggest begins with one policy" in " ".join(result.output.split())


def test_a_table_that_never_cools_gets_plain_words(tmp_path):
    writer = Writer((), is_ingest=False)
    for number in range(720):
        writer.commit(HISTORY.starts_at_ms + number * 4 * MINUTE, {None: wrote(1, MIB)})
    lab = followed(tmp_path, writer.history(2), NEVER)
    suggestion = run(lab, now_ms=HISTORY.starts_at_ms + 2 * DAY)

    assert suggestion.advice is Advice.NEVER_COLD
    assert suggestion.yaml is None
    assert "writers come back to one every 4m" in " ".join(printed(suggestion).split())
