"""`isotherm`: the command line for people.

Commands that ask read the stores beside a running daemon and the catalog; they change nothing. Answers go to standard
output, as a table or as JSON (`-o json`, a documented contract); everything else goes to standard error.
"""

import gc
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from isotherm.commands.at_first import doctor, init
from isotherm.commands.groups import ledger_app, policy_app
from isotherm.commands.options import (
    DEFAULT_CONFIG,
    CatalogOption,
    CatalogUriOption,
    ConfigOption,
    Output,
    OutputOption,
    PropertyOption,
    WarehouseOption,
)
from isotherm.runtime.clean_stream import clean_errors
from isotherm.runtime.no_pandas import without_pandas
from isotherm.runtime.version import versions_text

app = typer.Typer(
    name="isotherm",
    help="Maintain stream-written Apache Iceberg tables, and never get in the stream's way.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Plain text: the boxes of rich take twice the time of everything else that `--help` does.
    rich_markup_mode=None,
)

app.add_typer(policy_app, name="policy")
app.add_typer(ledger_app, name="ledger")
app.command()(init)
app.command()(doctor)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(versions_text())
        raise typer.Exit


@app.callback()
def any_command(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=_say_version,
            help="Print the versions of Isotherm, Python and the main libraries.",
        ),
    ] = False,
) -> None:
    """What holds for each command."""


@app.command()
def run(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Run the daemon: follow commits, and maintain what is cold."""
    from isotherm.commands.terminal import plain_errors
    from isotherm.runtime.config import load_config

    with plain_errors():
        loaded = load_config(config)
        # Takes seconds: a mistake in the configuration is reported before. The collector would take a tenth of them, and
        # nothing of what is imported is garbage.
        gc.disable()
        from isotherm.daemon import run as run_daemon

        gc.enable()
        code = run_daemon(loaded, config)
    # Threads of libraries (a broker's, a request that hangs) go on while the interpreter is taken down. After "stopped" one of
    # them had ended the process with SIGSEGV, and everything that had to be put in order was.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@app.command()
def demo(
    for_: Annotated[
        str, typer.Option("--for", help="How long, from the first row in Iceberg: 2m, 90s.")
    ] = "3m",
    report: Annotated[Path | None, typer.Option(help="Write the report here, as JSON.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave it running until Ctrl-C.")] = False,
    chaos: Annotated[str | None, typer.Option(help="`kill`: kill processes at random moments.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the workload and the chaos. Without it: a new one.")
    ] = None,
    maintained_by: Annotated[
        str,
        typer.Option(
            help="`isotherm`; `timer`: Iceberg's own procedures for each whole table every 30 s instead; `nobody`."
        ),
    ] = "isotherm",
) -> None:
    """Run the whole system on this machine for a while, and report.

    PostgreSQL, Kafka, Debezium, Spark and the daemon; everything is written under .isotherm/demo.
    """
    from isotherm.core.units import parse_span_ms

    try:
        for_ms = parse_span_ms(for_)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--for") from error
    if chaos not in (None, "kill"):
        raise typer.BadParameter("the only chaos is `kill`", param_hint="--chaos")
    from isotherm.demo.maintainer import Maintainer

    if maintained_by not in list(Maintainer):
        raise typer.BadParameter(f"one of {', '.join(Maintainer)}", param_hint="--maintained-by")
    if chaos is not None and maintained_by != Maintainer.ISOTHERM:
        raise typer.BadParameter("only with `--maintained-by isotherm`", param_hint="--chaos")
    from isotherm.demo.run import run_demo

    code = run_demo(
        for_ms / 1000, report, keep, chaos == "kill", seed=seed, maintained_by=Maintainer(maintained_by)
    )
    raise typer.Exit(code)


@app.command()
def look(
    tables: Annotated[
        list[str] | None, typer.Argument(help="Tables. Without one: all of the catalog.")
    ] = None,
    catalog: CatalogOption = "default",
    catalog_uri: CatalogUriOption = None,
    warehouse: WarehouseOption = None,
    property_: PropertyOption = None,
    policy: Annotated[
        Path | None, typer.Option(help="Judge by this policy file, not by the built-in default.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write a page with pictures here, as HTML, for whoever decides.")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Look at a lake: what each table suffers from, and what would help.

    Read only; without a daemon, Kafka or a configuration.
    """
    from isotherm.commands.look import show_lake

    named = {"uri": catalog_uri, "warehouse": warehouse}
    given = [f"{name}={value}" for name, value in named.items() if value is not None]
    show_lake(
        tables or [],
        catalog=catalog,
        properties=[*given, *(property_ or [])],
        policy=policy,
        page=page,
        output=output,
    )


@app.command()
def audit(
    table: Annotated[str, typer.Argument(help="The table.")],
    config: ConfigOption = DEFAULT_CONFIG,
    output: OutputOption = Output.TABLE,
) -> None:
    """Judge whether the promises were kept.

    From the table's own history, the ledger and the control topic. Exits with 1 if one was broken, or if a file is missing.
    """
    from isotherm.commands.audit import show_audit

    show_audit(table, config, output)


@app.command()
def tables(config: ConfigOption = DEFAULT_CONFIG, output: OutputOption = Output.TABLE) -> None:
    """Show how every table stands, worst first.

    From the daemon's stores, and from the daemon where it runs.
    """
    from isotherm.commands.tables import show_tables

    show_tables(config, output)


@app.command()
def top(
    once: Annotated[bool, typer.Option("--once", help="Print one screen, and end.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Watch a running daemon: its tables, jobs and rounds.

    Drawn again each second; q or Ctrl-C ends it.
    """
    from isotherm.commands.top import watch

    watch(config, once=once)


@app.command()
def plan(
    table: Annotated[
        str | None, typer.Argument(help="The table. Without it: all that are maintained.")
    ] = None,
    policy: Annotated[
        Path | None, typer.Option(help="Plan by this policy file, not by those in force.")
    ] = None,
    at: Annotated[str | None, typer.Option(help="Plan as of this time (ISO 8601, UTC).")] = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 3 when there is work.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what would be done now, and why not the rest."""
    from isotherm.commands.plan import show_plans

    show_plans(table, policy, at, exit_code=exit_code, config=config, output=output)


@app.command()
def explain(
    table: Annotated[str, typer.Argument(help="The table.")],
    partition: Annotated[
        str | None, typer.Argument(help="A partition, as `plan` writes it. Without it: the table as a whole.")
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show each condition of a verdict, its limit and its origin."""
    from isotherm.commands.explain import show_explanation

    show_explanation(table, partition, config, output)


@app.command()
def simulate(
    table: Annotated[str, typer.Argument(help="The table.")],
    policy: Annotated[Path | None, typer.Option(help="The policy file to try.")] = None,
    against: Annotated[
        Path | None, typer.Option(help="Compare with this file, not with the policy in force.")
    ] = None,
    for_: Annotated[
        str | None, typer.Option("--for", help="Only the last part of the history: 12h, 7d.")
    ] = None,
    every: Annotated[
        str | None, typer.Option(help="Time between two plans: 10m. Without it: as the daemon does.")
    ] = None,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="Try some twenty policies, and choose one, with its reasons.")
    ] = False,
    reads_a_day: Annotated[
        float, typer.Option(min=0, help="With --suggest: how often all of the table is read in a day.")
    ] = 1.0,
    config: ConfigOption = DEFAULT_CONFIG,
    output: OutputOption = Output.TABLE,
) -> None:
    """Replay a table's own history under other rules."""
    if suggest:
        from isotherm.commands.suggestion import show_suggestion

        if against is not None:
            raise typer.BadParameter("--suggest begins with one policy: --policy, or the one in force")
        show_suggestion(table, policy, for_, every, reads_a_day, config, output)
        return
    from isotherm.commands.simulate import show_simulation

    show_simulation(table, policy, against, for_, every, config, output)


@app.command()
def state(
    table: Annotated[str, typer.Argument(help="The table.")],
    verify: Annotated[bool, typer.Option("--verify", help="Scan the whole table, and compare.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what the daemon believes of a table.

    With --verify it is compared with a full scan; exits with 1 if they differ.
    """
    from isotherm.commands.state import show_state

    show_state(table, verify=verify, config=config, output=output)


@app.command()
def orphans(
    table: Annotated[str, typer.Argument(help="The table.")],
    versions: Annotated[
        bool, typer.Option("--versions", help="Old versions of its metadata instead.")
    ] = False,
    restore: Annotated[
        list[str] | None,
        typer.Option(
            "--restore",
            metavar="PATH|all",
            help="Put this file back from quarantine, or all of them. May be given more than once.",
        ),
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the files in a table's folders that nothing needs.

    What is in quarantine is listed too. The folders are listed and all its manifests read; nothing is changed.
    With --restore, files come back from quarantine; exits with 1 if one could not.
    """
    if restore:
        if versions:
            raise typer.BadParameter("old versions of metadata are in no quarantine", param_hint="--versions")
        from isotherm.commands.restore import restore_orphans

        restore_orphans(table, restore, config=config, output=output)
        return
    from isotherm.commands.orphans import show_orphans

    show_orphans(table, versions=versions, config=config, output=output)


@app.command()
def pause(
    table: Annotated[str, typer.Argument(help="The table.")],
    for_: Annotated[
        str | None, typer.Option("--for", help="For how long: 2h, 3d. Without it: until `resume`.")
    ] = None,
    why: Annotated[
        str, typer.Option(help="The reason, for whoever finds the table paused.")
    ] = "a person said so",
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Leave a table alone, for a time or until `resume`."""
    from isotherm.commands.pause import pause_table

    pause_table(table, for_, why, config)


@app.command()
def reader(
    table: Annotated[str, typer.Argument(help="The table.")],
    name: Annotated[str, typer.Argument(help="A stable name: of a job, or of a streaming query.")],
    at: Annotated[
        int | None, typer.Option(help="The snapshot up to which it has read. Without it: the newest.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="The checkpoint of a streaming query of Spark, which says it.")
    ] = None,
    done: Annotated[bool, typer.Option("--done", help="It reads the table no more.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Say up to where a reader has read a table: what follows stays."""
    from isotherm.commands.reader import say_position

    say_position(table, name, at, checkpoint, done=done, config=config)


@app.command()
def resume(
    table: Annotated[
        str | None,
        typer.Argument(
            help="The table. Without it: daemons with a lost, restored or new ledger may delete again."
        ),
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Lift what holds a table back: a halt, a pause, quarantines.

    Look at `explain` before: it says why the table is held back.
    """
    from isotherm.commands.pause import resume_tables

    resume_tables(table, config)


def main() -> None:
    """The entry point."""
    clean_errors()
    without_pandas()
    app()


if __name__ == "__main__":
    main()
