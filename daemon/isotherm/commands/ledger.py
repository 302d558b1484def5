"""`isotherm ledger`: the daemon's durable record, as a file to be kept."""

from pathlib import Path

from rich.text import Text

from isotherm.commands.terminal import out, plain_errors
from isotherm.core.units import size_text
from isotherm.runtime.config import load_config
from isotherm.store.backup import back_up
from isotherm.store.folder import LEDGER


def back_up_ledger(file: Path, config: Path) -> None:
    """Copy the ledger beside a running daemon, as it is at one moment."""
    with plain_errors():
        size = back_up(load_config(config).state.path / LEDGER, file)
        out.print(Text(f"{file}: {size_text(size)}"))
