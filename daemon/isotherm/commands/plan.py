"""`isotherm plan`: every verdict with its why, what is due first."""

from collections import Counter
from pathlib import Path

import typer
from rich.table import Table
from rich.text import Text

from isotherm.commands.options import Output
from isotherm.commands.terminal import (
    EXIT_WORK_TO_DO,
    VERDICT_STYLES,
    err,
    inspector_of,
    out,
    plain_errors,
    print_json,
)
from isotherm.core.model.decisions import Plan, Verdict
from isotherm.core.policy.precedence import PolicyFile
from isotherm.runtime.clock import now_ms
from isotherm.runtime.yaml_reader import read_yaml


def show_plans(
    table: str | None, policy: Path | None, at: str | None, *, exit_code: bool, config: Path, output: Output
) -> None:
    """What would be done now, and why not the rest."""
    with plain_errors():
        inspector = inspector_of(config)
        override = None if policy is None else read_yaml(policy, PolicyFile)
        plans = inspector.plans(table, override, now_ms() if at is None else _time_ms(at))
        due = [decision for one in plans for decision in one.decisions if decision.verdict is Verdict.DUE]
        if output is Output.JSON:
            print_json([{"table": one.table.name, "decisions": one.decisions} for one in plans])
        else:
            for one in plans:
                _print_plan(one, brief=table is None)
            if not plans:
                err.print("nothing is maintained: no policy matches a table that the daemon has seen")
        if exit_code and due:
            raise typer.Exit(EXIT_WORK_TO_DO)


def _time_ms(text: str) -> int:
    from datetime import UTC, datetime

    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no ISO 8601 time, such as 2026-11-21T13:00:00Z") from error
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


BRIEF = 12
"""Rows for each table where all are shown; `plan TABLE` shows every one."""


def _print_plan(one: Plan, *, brief: bool) -> None:
    name = one.table.name
    counts = Counter(decision.verdict for decision in one.of_partitions)
    summary = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    out.print(Text.assemble((name, "bold"), f"  partitions: {summary or 'none'}"))
    ordered = sorted(
        one.decisions, key=lambda d: (d.verdict is not Verdict.DUE, d.verdict, -d.score, d.label)
    )
    shown = ordered[:BRIEF] if brief else ordered
    grid = Table(box=None, pad_edge=False, show_edge=False, expand=False)
    grid.add_column("verdict")
    grid.add_column("score", justify="right")
    grid.add_column("partition", overflow="fold", max_width=32)
    grid.add_column("why", overflow="fold")
    for decision in shown:
        # What no version could do yet is nothing that is wrong with the table.
        is_missing = decision.partition is None and decision.verdict is Verdict.UNSUPPORTED
        verdict = Text(decision.verdict, style="dim" if is_missing else VERDICT_STYLES[decision.verdict])
        grid.add_row(verdict, f"{decision.score:.2f}", decision.label, decision.why)
    out.print(grid)
    if len(ordered) > len(shown):
        out.print(f"… and {len(ordered) - len(shown)} more: isotherm plan {name}")
    out.print()
