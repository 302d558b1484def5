"""`isotherm ledger`: the daemon's durable record, as a file to be kept."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from isotherm.commands.terminal import DEFAULT_CONFIG, ConfigOption, out, plain_errors
from isotherm.core.units import size_text
from isotherm.runtime.config import load_config
from isotherm.store.backup import back_up

ledger_app = typer.Typer(help="The daemon's durable record.", no_args_is_help=True)


@ledger_app.callback()
def _ledger() -> None:
    """The daemon's durable record."""


@ledger_app.command("backup")
def backup(
    file: Annotated[Path, typer.Argument(help="The file to write; it must not exist.")],
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Copy the ledger beside a running daemon, as it is at one moment."""
    with plain_errors():
        size = back_up(load_config(config).state.path / "ledger.db", file)
        out.print(Text(f"{file}: {size_text(size)}"))
