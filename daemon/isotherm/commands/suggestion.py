"""`isotherm simulate --suggest`: a handful of policies on a table's own history, and the one to take, with its reasons.

An interruption, or a limit of time, ends the search and not the answer: what was tried until then is compared.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from isotherm.commands.inspector import Inspector
from isotherm.commands.options import Output
from isotherm.commands.simulate import IN_FORCE, Basis, pace_ms, past, print_basis, progress
from isotherm.commands.terminal import err, inspector_of, out, plain_errors, print_json, span_option_ms
from isotherm.core.policy.diff import FieldChange, policy_changes
from isotherm.core.policy.precedence import BUILT_IN, PolicyFile, Resolved
from isotherm.core.replay.assumed import Assumed
from isotherm.core.replay.candidates import Candidate, near
from isotherm.core.replay.history import History
from isotherm.core.replay.policy_choice import Advice, Choice, choose, no_end, search, too_little
from isotherm.core.replay.trial import Figures, Trial, watched
from isotherm.core.units import size_text, span_text
from isotherm.runtime.clock import monotonic_s, now_ms
from isotherm.runtime.config import load_config
from isotherm.runtime.exit_codes import EXIT_INTERRUPTED
from isotherm.runtime.yaml_reader import read_yaml
from isotherm.service.ports import UnknownTable

PATIENCE_S = 300
"""No further policy is tried after so long: somebody waits for the answer."""

PLAIN_NAME = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
"""A name of a table that YAML reads as text as it stands."""


INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Tried:
    """One policy, and what it would have made of the history."""

    name: str
    is_current: bool
    is_chosen: bool
    changes: tuple[FieldChange, ...]
    figures: Figures
    price_bytes_a_day: float


@dataclass(frozen=True, slots=True)
class Suggestion(Basis):
    """The answer."""

    reads_a_day: float
    tried: tuple[Tried, ...]
    """The current one first, then the cheapest first."""
    stopped: str | None
    """Why not all were tried, or None where all were."""
    advice: Advice
    why: str
    yaml: str | None
    """What to put into a policy file, or None where nothing should change."""


def show_suggestion(
    table: str,
    policy: Path | None,
    for_: str | None,
    every: str | None,
    reads_a_day: float,
    config: Path,
    output: Output,
) -> None:
    """The policy that a table's own history speaks for."""
    with plain_errors():
        file = None if policy is None else read_yaml(policy, PolicyFile)
        loaded = load_config(config)
        err.print(Text(f"reading the history of {table} …", style="dim"))
        suggestion = suggest(
            inspector_of(config),
            table,
            (IN_FORCE if policy is None else policy.name, file),
            now_ms=now_ms(),
            for_ms=span_option_ms(for_, "--for"),
            every_ms=span_option_ms(every, "--every"),
            plan_every_ms=int(loaded.loop.plan_every_s * 1000),
            reads_a_day=reads_a_day,
            err=err,
            clock_s=monotonic_s,
        )
        if output is Output.JSON:
            print_json(suggestion)
        else:
            print_suggestion(suggestion, out)
        if suggestion.stopped == INTERRUPTED:
            raise typer.Exit(EXIT_INTERRUPTED)


def suggest(
    inspector: Inspector,
    table: str,
    first: tuple[str, PolicyFile | None],
    *,
    now_ms: int,
    for_ms: int | None,
    every_ms: int | None,
    plan_every_ms: int,
    reads_a_day: float,
    err: Console,
    clock_s: Callable[[], float],
) -> Suggestion:
    """Read the table's history, try what is near a policy on it, and choose.

    Args:
        inspector: reads the daemon's stores.
        table: its name.
        first: the policy to begin with, by name; the one in force has no file (None).
        now_ms: the end of the history.
        for_ms: only so much of it.
        every_ms: how often is planned. Without it, as `plan_every_ms` says, but not too often for a long history.
        plan_every_ms: the daemon's own pace.
        reads_a_day: how often the table is read.
        err: for the progress.
        clock_s: tells how long it has taken.

    Raises:
        UnknownTable: the daemon does not know the table, nothing of its history, or no policy for it.
    """
    name, file = first
    resolved = inspector.resolved(table, file)
    if resolved is None:
        raise UnknownTable(f"no policy matches {table}; name one to begin with: --policy FILE")
    if not resolved.policy.compact.enabled:
        raise UnknownTable(f"the policy of {table} does not compact it (compact.enabled: false)")
    history = past(inspector, table, now_ms, for_ms, err)
    assumed = inspector.assumed(table, every_ms or pace_ms(history, plan_every_ms))
    if (choice := too_little(history)) is not None:
        return _suggestion(history, assumed, reads_a_day, resolved, [], None, choice)
    on = watched(history, resolved.policy)
    if (choice := no_end(on)) is not None:
        return _suggestion(history, assumed, reads_a_day, resolved, [], None, choice)
    with progress(err, "trying policies", 1.0 + len(near(resolved.policy, history))) as tell:
        searching = search(on, name, resolved.policy, assumed, reads_a_day, tell)
        trials, stopped = _until_stopped(searching, clock_s)
    choice = choose(trials, on, reads_a_day)
    return _suggestion(history, assumed, reads_a_day, resolved, trials, stopped, choice)


def _until_stopped(
    searching: Iterator[Trial], clock_s: Callable[[], float]
) -> tuple[list[Trial], str | None]:
    """What was tried, and why no more than that, or None where it is all."""
    trials: list[Trial] = []
    began_s = clock_s()
    try:
        for trial in searching:
            trials.append(trial)
            if clock_s() - began_s > PATIENCE_S:
                return trials, f"after {span_text(PATIENCE_S * 1000)}"
    except KeyboardInterrupt:
        if not trials:
            raise
        return trials, INTERRUPTED
    return trials, None


def _suggestion(
    history: History,
    assumed: Assumed,
    reads_a_day: float,
    resolved: Resolved,
    trials: Sequence[Trial],
    stopped: str | None,
    choice: Choice,
) -> Suggestion:
    others = sorted(trials[1:], key=lambda one: one.figures.price(reads_a_day))
    return Suggestion(
        table=history.table.name,
        from_ms=history.starts_at_ms,
        to_ms=history.ends_at_ms,
        changes=len(history.recorded),
        assumed=assumed,
        remarks=history.remarks,
        reads_a_day=reads_a_day,
        tried=tuple(
            Tried(
                name=one.candidate.name,
                is_current=one is trials[0],
                is_chosen=one is choice.chosen,
                changes=policy_changes(resolved.policy, one.candidate.policy),
                figures=one.figures,
                price_bytes_a_day=one.figures.price(reads_a_day),
            )
            for one in (*trials[:1], *others)
        ),
        stopped=stopped,
        advice=choice.advice,
        why=choice.why,
        yaml=None
        if choice.advice is not Advice.CHANGE or choice.chosen is None
        else _yaml(history.table.name, choice.chosen.candidate, resolved),
    )


def _yaml(table: str, candidate: Candidate, resolved: Resolved) -> str:
    """The fields that change, as a policy file says them, each with what it was and where that came from."""
    lines = [f"tables: {table if PLAIN_NAME.fullmatch(table) else json.dumps(table)}"]
    section = None
    for change in policy_changes(resolved.policy, candidate.policy):
        head, _, name = change.field.partition(".")
        if head != section:
            section = head
            lines.append(f"{section}:")
        origin = resolved.origins.get(change.field, BUILT_IN)
        lines.append(f"  {name}: {change.after}  # was {change.before} ({origin})")
    return "\n".join(lines)


def print_suggestion(one: Suggestion, out: Console) -> None:
    """What it rests on, what was tried, and last the answer."""
    print_basis(one, (_priced(one.reads_a_day),), out)
    out.print()
    if one.tried:
        rows = _telling(one.tried)
        out.print(_comparison(rows))
        idle = [row for row in one.tried[1:] if row.figures == one.tried[0].figures]
        doubles = [row for row in one.tried if row not in rows and row not in idle]
        for title, others in (("No difference here", idle), ("The same as a row above", doubles)):
            if others:
                line = f"{title}: {'; '.join(row.name for row in others)}."
                out.print(Padding(Text(line, style="dim"), (1, 0, 0, 0), expand=False))
        out.print()
    if one.stopped is not None:
        tried = f"Stopped {one.stopped}" if one.stopped != INTERRUPTED else "Interrupted"
        out.print(Text(f"{tried}: {_were_tried(len(one.tried))}, others may be better.", style="yellow"))
    out.print(Text(one.why, style="bold"))
    if one.yaml is not None:
        out.print()
        out.print(f"Put this into the policy file that names {one.table}, or into one of its own:")
        out.print()
        out.print(Padding(Text(one.yaml), (0, 0, 0, 4), expand=False), soft_wrap=True)


def _were_tried(number: int) -> str:
    return "1 policy was tried" if number == 1 else f"{number} policies were tried"


def _telling(tried: Sequence[Tried]) -> list[Tried]:
    """Of those with the same figures the simplest one, what is chosen before all others."""
    simplest: dict[Figures, Tried] = {}
    for one in sorted(tried, key=lambda one: (not one.is_current, not one.is_chosen, len(one.changes))):
        simplest.setdefault(one.figures, one)
    return [one for one in tried if one in simplest.values()]


def _priced(reads_a_day: float) -> str:
    times = "once" if reads_a_day == 1 else f"{reads_a_day:g} times"
    return (
        f"The price: all of it is read {times} a day (--reads-a-day). A file too many costs as much as reading 4 MiB; "
        "a rewritten byte is read and written; a commit costs 64 MiB."
    )


def _comparison(rows: Sequence[Tried]) -> Table:
    grid = Table(box=None, pad_edge=False, show_edge=False, padding=(0, 1))
    grid.add_column("")
    grid.add_column("\npolicy", overflow="fold")
    for title in (
        "files per\npartition",
        "\np95",
        "times\nwritten",
        "jobs in\nvain",
        "left to\ndone",
        "price\na day",
    ):
        grid.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        one = row.figures
        mark = "now" if row.is_current else "best" if row.is_chosen else ""
        grid.add_row(
            mark,
            row.name,
            f"{one.files_mean:,.1f}",
            f"{one.files_p95:,}",
            "-" if one.write_amplification is None else f"{one.write_amplification:.2f}",
            f"{one.in_vain:,}",
            "-" if one.delay_ms is None else span_text(one.delay_ms),
            size_text(row.price_bytes_a_day),
            style="bold" if row.is_chosen else "",
        )
    return grid
