"""`isotherm`: the command line for people.

Commands that ask read the stores beside a running daemon and the catalog; they change nothing. Answers go to standard
output, as a table or as JSON (`-o json`, a documented contract); everything else goes to standard error.
"""

from pathlib import Path
from typing import Annotated

import typer

from isotherm.commands.groups import ledger_app, policy_app
from isotherm.commands.options import DEFAULT_CONFIG, ConfigOption, Output, OutputOption

app = typer.Typer(
    name="isotherm",
    help="Maintenance for Apache Iceberg tables that streams write, which never gets in the stream's way.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    # Plain text: the boxes of rich take twice the time of everything else that `--help` does.
    rich_markup_mode=None,
)

app.add_typer(policy_app, name="policy")
app.add_typer(ledger_app, name="ledger")


@app.command()
def run(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """The daemon: follow the stream's commits, and maintain what it has left behind."""
    from isotherm.commands.terminal import plain_errors
    from isotherm.runtime.config import load_config

    with plain_errors():
        loaded = load_config(config)
        # Takes seconds: a mistake in the configuration is reported before.
        from isotherm.daemon import run as run_daemon

        raise typer.Exit(run_daemon(loaded))


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
    from isotherm.core.units import parse_span_ms

    try:
        for_ms = parse_span_ms(for_)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--for") from error
    if chaos not in (None, "kill"):
        raise typer.BadParameter("the only chaos is `kill`", param_hint="--chaos")
    from isotherm.demo.run import run_demo

    raise typer.Exit(run_demo(for_ms / 1000, report, keep, chaos == "kill", seed=seed))


@app.command()
def audit(
    table: Annotated[str, typer.Argument(help="The table.")],
    config: ConfigOption = DEFAULT_CONFIG,
    output: OutputOption = Output.TABLE,
) -> None:
    """Do the promises hold? From the table's own history, the ledger and the control topic."""
    from isotherm.commands.audit import show_audit

    show_audit(table, config, output)


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
    from isotherm.commands.plan import show_plans

    show_plans(table, policy, at, exit_code=exit_code, config=config, output=output)


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
    from isotherm.commands.explain import show_explanation

    show_explanation(table, partition, config, output)


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
    from isotherm.commands.simulate import show_simulation

    show_simulation(table, policy, against, for_, every, config, output)


@app.command()
def state(
    table: Annotated[str, typer.Argument(help="The table.")],
    verify: Annotated[bool, typer.Option("--verify", help="Scan the whole table and compare.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    output: OutputOption = Output.TABLE,
) -> None:
    """What the daemon believes of a table, against a full scan."""
    from isotherm.commands.state import show_state

    show_state(table, verify=verify, config=config, output=output)


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
    from isotherm.commands.pause import pause_table

    pause_table(table, for_, why, config)


@app.command()
def resume(
    table: Annotated[
        str | None,
        typer.Argument(help="The table; without it: daemons whose ledger was lost may delete again."),
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Lift whatever holds a table back: a halt, a pause, quarantines. Look at `explain` before."""
    from isotherm.commands.pause import resume_tables

    resume_tables(table, config)


def main() -> None:
    """The entry point."""
    app()


if __name__ == "__main__":
    main()
