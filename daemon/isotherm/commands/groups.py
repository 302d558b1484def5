"""`isotherm policy …` and `isotherm ledger …`: the commands that have commands, each with what it takes.

What they do is imported when they are called.
"""

from pathlib import Path
from typing import Annotated

import typer

from isotherm.commands.options import DEFAULT_CONFIG, ConfigOption, FilesArgument, Output, OutputOption

policy_app = typer.Typer(help="Look at policies, test them, compare them.", no_args_is_help=True)
ledger_app = typer.Typer(help="Copy the daemon's durable record.", no_args_is_help=True)


@ledger_app.callback()
def _ledger() -> None:
    """Keep `backup` a command of its own, as long as it is the only one."""


@ledger_app.command("backup")
def backup(
    file: Annotated[Path, typer.Argument(help="The file to write; it must not exist.")],
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Copy the ledger as it is now, beside a running daemon."""
    from isotherm.commands.ledger import back_up_ledger

    back_up_ledger(file, config)


@policy_app.command("validate")
def validate(
    files: FilesArgument = None,
    config: ConfigOption = DEFAULT_CONFIG,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check policy files. A complaint names file, line and column."""
    from isotherm.commands.policy import validate_files

    validate_files(files, config, output)


@policy_app.command("test")
def try_out(
    files: FilesArgument = None,
    config: ConfigOption = DEFAULT_CONFIG,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run the `tests:` of policy files, with the daemon's planner."""
    from isotherm.commands.policy import run_tests

    run_tests(files, config, output)


@policy_app.command("show")
def show(
    table: Annotated[str, typer.Argument(help="The table.")],
    config: ConfigOption = DEFAULT_CONFIG,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a table's policy, and where each value comes from."""
    from isotherm.commands.policy import show_policy

    show_policy(table, config, output)


@policy_app.command("diff")
def diff(
    before: Annotated[Path, typer.Argument(help="A file, or a folder of files.")],
    after: Annotated[Path, typer.Argument(help="Another one.")],
    table: Annotated[
        str | None, typer.Argument(help="A table. Without it: all names and patterns in the files.")
    ] = None,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan", help="Also show which verdicts would change, for the daemon's tables as they are."
        ),
    ] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what another version of the policies would change."""
    from isotherm.commands.policy import show_differences

    show_differences(before, after, table, plan=plan, config=config, output=output)


@policy_app.command("schema")
def schema() -> None:
    """Print the JSON Schema of a policy file, for editors."""
    from isotherm.commands.policy import print_schema

    print_schema()
