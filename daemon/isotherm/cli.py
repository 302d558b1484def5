"""`isotherm`: the command line for people.

Commands that ask read the stores beside a running daemon and the catalog; they change nothing. Answers go to standard
output, as a table or as JSON (`-o json`, a documented contract); everything else goes to standard error.
"""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from isotherm.commands.policy import policy_app
from isotherm.commands.terminal import (
    DEFAULT_CONFIG,
    EXIT_ERROR,
    EXIT_WORK_TO_DO,
    VERDICT_STYLES,
    ConfigOption,
    Output,
    OutputOption,
    err,
    inspector_of,
    out,
    plain_errors,
    print_json,
)
from isotherm.core.model.decisions import Plan, Verdict
from isotherm.core.policy.precedence import PolicyFile
from isotherm.core.units import clock_text, parse_span_ms, size_text, span_text
from isotherm.runtime.clock import now_ms
from isotherm.runtime.config import load_config
from isotherm.runtime.yaml_reader import read_yaml

app = typer.Typer(
    name="isotherm",
    help="Maintenance for Apache Iceberg tables that streams write, which never gets in the stream's way.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(policy_app, name="policy")


@app.command()
def run(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """The daemon: follow the stream's commits, and maintain what it has left behind."""
    from isotherm.daemon import run as run_daemon

    with plain_errors():
        raise typer.Exit(run_daemon(load_config(config)))


@app.command()
def demo(
    for_: Annotated[
        str, typer.Option("--for", help="How long, from the first row in Iceberg: 2m, 90s.")
    ] = "3m",
    report: Annotated[Path | None, typer.Option(help="Write the report here, as JSON.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave it running until Ctrl-C.")] = False,
    chaos: Annotated[str | None, typer.Option(help="`kill`: SIGKILL at random moments.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of the workload and the chaos; a new one without it.")
    ] = None,
) -> None:
    """The whole system, embedded, on a live PostgreSQL; everything under .isotherm/demo."""
    from isotherm.demo.run import run_demo

    try:
        for_ms = parse_span_ms(for_)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--for") from error
    if chaos not in (None, "kill"):
        raise typer.BadParameter("the only chaos is `kill`", param_hint="--chaos")
    raise typer.Exit(run_demo(for_ms / 1000, report, keep, chaos == "kill", seed=seed))


@app.command()
def audit(
    table: Annotated[str, typer.Argument(help="The table.")],
    config: ConfigOption = DEFAULT_CONFIG,
    output: OutputOption = Output.TABLE,
) -> None:
    """Do the promises hold? From the table's own history, the ledger and the control topic."""
    from isotherm.audit.promises import Verdict as Judged
    from isotherm.audit.promises import judge
    from isotherm.audit.reader import read_history

    with plain_errors():
        judgements = judge(read_history(load_config(config), table))
        if output is Output.JSON:
            print_json(judgements)
        else:
            styles = {Judged.PROVED: "green", Judged.BROKEN: "bold red", Judged.NOT_PROVABLE: "yellow"}
            for one in judgements:
                out.print(
                    Text.assemble(
                        (one.promise, "bold"), ": ", (one.verdict, styles[one.verdict]), f": {one.why}"
                    )
                )
                if one.from_ms is not None and one.to_ms is not None:
                    covers = f"  covers {clock_text(one.from_ms)} to {clock_text(one.to_ms)}"
                    out.print(Text(covers, style="dim"))
                for line in one.evidence:
                    out.print(Text(f"  {line}"))
        if any(one.verdict is Judged.BROKEN for one in judgements):
            raise typer.Exit(EXIT_ERROR)


@app.command()
def plan(
    table: Annotated[
        str | None, typer.Argument(help="One table; all that are maintained without it.")
    ] = None,
    policy: Annotated[Path | None, typer.Option(help="Plan by this policy file instead.")] = None,
    at: Annotated[str | None, typer.Option(help="Plan as of this time (ISO 8601, UTC).")] = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 3 when there is work.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    output: OutputOption = Output.TABLE,
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
        verdict = Text(decision.verdict, style=VERDICT_STYLES[decision.verdict])
        grid.add_row(verdict, f"{decision.score:.2f}", decision.label, decision.why)
    out.print(grid)
    if len(ordered) > len(shown):
        out.print(f"… and {len(ordered) - len(shown)} more: isotherm plan {name}")
    out.print()


@app.command()
def explain(
    table: Annotated[str, typer.Argument(help="The table.")],
    partition: Annotated[
        str | None, typer.Argument(help="A partition, as `plan` shows it; the table as a whole without it.")
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    output: OutputOption = Output.TABLE,
) -> None:
    """Each condition: value, limit, where the limit comes from, and when it could change."""
    with plain_errors():
        explanation = inspector_of(config).explain(table, partition, now_ms())
        if output is Output.JSON:
            print_json(explanation)
            return
        out.print(Text.assemble((explanation.table, "bold"), f"  {explanation.subject}"))
        out.print(Text(explanation.why, style=VERDICT_STYLES[explanation.verdict]))
        grid = Table(box=None, pad_edge=False, show_edge=False)
        for heading in ("", "condition", "what is", "limit from"):
            grid.add_column(heading, overflow="fold")
        for condition in explanation.conditions:
            mark = Text("✓", "green") if condition.holds else Text("✗", "red")
            grid.add_row(mark, condition.name, condition.text, condition.origin)
        out.print(grid)
        if explanation.next_at:
            out.print(f"next: {explanation.next_at}")
        for line in explanation.history:
            out.print(Text(line, style="dim"))


@app.command()
def simulate(
    table: Annotated[str, typer.Argument(help="The table.")],
    policy: Annotated[Path | None, typer.Option(help="The policy file to try.")] = None,
    against: Annotated[
        Path | None, typer.Option(help="Compare with this file, instead of with the policy in force.")
    ] = None,
    for_: Annotated[str | None, typer.Option("--for", help="Only the last so long: 12h, 7d.")] = None,
    every: Annotated[
        str | None, typer.Option(help="How often is planned: 10m; as the daemon does without it.")
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    output: OutputOption = Output.TABLE,
) -> None:
    """What other rules would have made of the table's own history."""
    from isotherm.commands.simulate import print_simulation
    from isotherm.commands.simulate import simulate as run_simulation

    with plain_errors():
        files: list[tuple[str, PolicyFile | None]] = [("in force", None)]
        if against is not None:
            files = [(against.name, read_yaml(against, PolicyFile))]
        if policy is not None:
            files.append((policy.name, read_yaml(policy, PolicyFile)))
        loaded = load_config(config)
        simulation = run_simulation(
            inspector_of(config),
            table,
            files,
            now_ms=now_ms(),
            for_ms=_span_ms(for_, "--for"),
            every_ms=_span_ms(every, "--every"),
            plan_every_ms=int(loaded.loop.plan_every_s * 1000),
            err=err,
        )
        if output is Output.JSON:
            print_json(simulation)
        else:
            print_simulation(simulation, out)


def _span_ms(text: str | None, option: str) -> int | None:
    try:
        return None if text is None else parse_span_ms(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


@app.command()
def state(
    table: Annotated[str, typer.Argument(help="The table.")],
    verify: Annotated[bool, typer.Option("--verify", help="Scan the whole table and compare.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    output: OutputOption = Output.TABLE,
) -> None:
    """What the daemon believes of a table, against a full scan."""
    with plain_errors():
        answer = inspector_of(config).state(table, verify=verify)
        if output is Output.JSON:
            print_json(answer)
        else:
            grid = Table(box=None, pad_edge=False, show_edge=False)
            grid.add_column("partition", overflow="fold")
            for heading in ("files", "rows", "size", "deletes", "rows", "verdict"):
                grid.add_column(heading, justify="right", no_wrap=True)
            for row in answer.partitions:
                grid.add_row(
                    row.label,
                    str(row.data.files),
                    str(row.data.rows),
                    size_text(row.data.bytes),
                    str(row.deletes.files),
                    str(row.deletes.rows),
                    row.verdict,
                )
            out.print(grid)
            out.print(f"head {answer.head}, sequence {answer.sequence_number}, boundary {answer.boundary}")
            for line in answer.differences:
                out.print(Text(line, style="red"))
            if verify:
                out.print(Text(answer.verified, style="red" if answer.differences else "green"))
        if answer.differences:
            raise typer.Exit(EXIT_ERROR)


@app.command()
def pause(
    table: Annotated[str, typer.Argument(help="The table.")],
    for_: Annotated[
        str | None, typer.Option("--for", help="How long: 2h, 3d; until `resume` without it.")
    ] = None,
    why: Annotated[str, typer.Option(help="For whoever wonders later.")] = "a person said so",
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Leave a table alone, for a time or until `resume`; whichever daemon maintains it."""
    for_ms = _span_ms(for_, "--for")
    with plain_errors():
        from isotherm.commands.pause import Orders

        at_ms = now_ms()
        Orders(load_config(config)).pause(table, why, at_ms, None if for_ms is None else at_ms + for_ms)
        until = "until `isotherm resume`" if for_ms is None else f"for {span_text(for_ms)}"
        out.print(f"{table} is paused {until}; it takes effect within a planning round")


@app.command()
def resume(
    table: Annotated[
        str | None,
        typer.Argument(help="The table; without it: daemons whose ledger was lost may delete again."),
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Lift whatever holds a table back: a halt, a pause, quarantines. Look at `explain` before."""
    with plain_errors():
        from isotherm.commands.pause import Orders

        lifted = Orders(load_config(config)).resume(table)
        for hold in lifted:
            out.print(Text(f"{hold.kind} lifted: {hold.partition or ''} {hold.why}"))
        if not lifted:
            out.print("nothing was held back")


def main() -> None:
    """The entry point."""
    app()


if __name__ == "__main__":
    main()
