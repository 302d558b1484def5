"""`isotherm plan`: every verdict with its why, what is due first."""

from collections.abc import Iterable
from pathlib import Path

import typer
from rich.table import Table
from rich.text import Text

from isotherm.commands.options import Output
from isotherm.commands.plan_lines import Line, in_order, plan_lines, tally_text
from isotherm.commands.terminal import (
    VERDICT_STYLES,
    err,
    inspector_of,
    out,
    plain_errors,
    print_complaints,
    print_json,
)
from isotherm.core.model.decisions import Plan, Verdict
from isotherm.core.policy.precedence import PolicyFile
from isotherm.core.reads import reads_text
from isotherm.runtime.clock import now_ms
from isotherm.runtime.exit_codes import EXIT_WORK_TO_DO
from isotherm.runtime.yaml_reader import read_yaml


def show_plans(
    table: str | None, policy: Path | None, at: str | None, *, exit_code: bool, config: Path, output: Output
) -> None:
    """What would be done now, and why not the rest."""
    with plain_errors():
        inspector = inspector_of(config)
        override = None if policy is None else read_yaml(policy, PolicyFile)
        at_ms = now_ms() if at is None else _time_ms(at)
        troubles = inspector.troubles(table)
        unseen = sorted(troubles.keys() - inspector.names())
        plans = [] if table in unseen else inspector.plans(table, override, at_ms)
        print_complaints(inspector.policies.complaints)
        due = [decision for one in plans for decision in one.decisions if decision.verdict is Verdict.DUE]
        if output is Output.JSON:
            print_json(
                [
                    {
                        "table": one.table.name,
                        "trouble": troubles.get(one.table.name),
                        "reads_per_day": inspector.verdicts.reads_per_day(one.table.uuid),
                        "note": inspector.policies.stands_in(one.table.name),
                        "decisions": one.decisions,
                    }
                    for one in plans
                ]
                + [
                    {
                        "table": name,
                        "trouble": troubles[name],
                        "reads_per_day": None,
                        "note": "",
                        "decisions": [],
                    }
                    for name in unseen
                ]
            )
        else:
            for name in unseen:
                out.print(Text.assemble((name, "bold"), (f"  not looked at yet: {troubles[name]}", "red")))
                out.print()
            for one in plans:
                waiting = inspector.waiting_files(one.table.uuid, at_ms)
                is_observed = table is not None and inspector.resolved(table, override) is None
                policies = inspector.policies
                note = (policies.why_none if is_observed else policies.stands_in)(one.table.name)
                reads_per_day = inspector.verdicts.reads_per_day(one.table.uuid)
                failing = troubles.get(one.table.name)
                notes = [note, f"as it was last seen: {failing}" if failing else ""]
                _print_plan(one, notes, waiting, reads_per_day, brief=table is None)
            if not plans and not unseen:
                err.print("nothing is maintained: no policy holds for a table that the daemon has seen")
        if exit_code and due:
            raise typer.Exit(EXIT_WORK_TO_DO)


def _time_ms(text: str) -> int:
    from datetime import UTC, datetime

    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no ISO 8601 time, such as 2026-11-21T13:00:00Z") from error
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


FILES = "(files)"
"""What of a table's expired snapshots and failed jobs is to be deleted. No verdict of the planner's: it is marked."""
BRIEF = 12
"""Lines for each table where all are shown; `plan TABLE` shows every one."""


def _print_plan(
    one: Plan, notes: Iterable[str], waiting: str | None, reads_per_day: float | None, *, brief: bool
) -> None:
    name = one.table.name
    reads = "" if reads_per_day is None else f"; {reads_text(reads_per_day)}"
    out.print(Text.assemble((name, "bold"), f"  partitions: {tally_text(one)}{reads}"))
    for note in filter(None, notes):
        out.print(Text(note, style="yellow"))
    lines = plan_lines(one)
    if waiting is not None:
        lines = in_order([*lines, Line(Verdict.WAITING, None, FILES, waiting)])
    shown = lines[:BRIEF] if brief else lines
    grid = Table(box=None, pad_edge=False, show_edge=False, expand=False)
    grid.add_column("verdict")
    grid.add_column("score", justify="right")
    grid.add_column("partition", overflow="fold", max_width=32)
    grid.add_column("why", overflow="fold")
    for line in shown:
        verdict = Text(line.verdict, style="dim" if line.is_missing else VERDICT_STYLES[line.verdict])
        score = "" if line.score is None else f"{line.score:.2f}"
        grid.add_row(verdict, score, line.subject, line.why)
    out.print(grid)
    if len(lines) > len(shown):
        out.print(f"… and {len(lines) - len(shown)} more: isotherm plan {name}")
    out.print()
