"""What a reader tells the daemons: up to where it has read a table, so that expiry keeps what follows."""

from pathlib import Path

import typer
from pydantic import ValidationError

from isotherm.commands.terminal import out, plain_errors
from isotherm.contract.events import complaint
from isotherm.runtime.clock import now_ms
from isotherm.runtime.config import load_config


def say_position(
    table: str, reader: str, snapshot_id: int | None, checkpoint: str | None, *, done: bool, config: Path
) -> None:
    """Say up to where a reader has read, or that it is none any more."""
    with plain_errors(config):
        if sum((snapshot_id is not None, checkpoint is not None, done)) > 1:
            raise typer.BadParameter("--at, --checkpoint and --done exclude each other")
        loaded = load_config(config)
        from isotherm.commands import reader_orders

        try:
            if done:
                reader_orders.take_back(loaded, table, reader)
                out.print(f"{reader} is no reader of {table} any more")
                return
            position = reader_orders.say(loaded, table, reader, now_ms(), snapshot_id, checkpoint)
        except ValidationError as error:
            raise typer.BadParameter(f"{reader}: {complaint(error)}") from error
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
        out.print(f"{reader} has read {table} up to snapshot {position.snapshot_id}: what follows stays")
