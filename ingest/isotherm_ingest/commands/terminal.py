"""How answers of ingest's commands look: tables for people, JSON for programs. The daemon's commands are not shared."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from isotherm.runtime.exit_codes import EXIT_ERROR
from isotherm.runtime.secrets import without_secrets
from isotherm.runtime.text import printable
from isotherm_ingest.failures import CatalogAway
from isotherm_ingest.kafka import BrokerError

out = Console(highlight=False, soft_wrap=False, markup=False, emoji=False)
"""For answers."""
err = Console(stderr=True, highlight=False, markup=False, emoji=False)
"""For everything else."""


@contextmanager
def plain_errors() -> Iterator[None]:
    """What is away is one message, not a traceback."""
    try:
        yield
    except (BrokerError, CatalogAway) as error:
        err.print(told(str(error), "red"), soft_wrap=True)
        raise typer.Exit(EXIT_ERROR) from error


def told(text: str, style: str = "") -> Text:
    """A text that does nothing to a terminal, whoever chose it, and has no secret that a client repeats."""
    return Text(printable(without_secrets(text)), style=style)


def grid(*columns: str, right: tuple[str, ...] = (), folded: tuple[str, ...] = ()) -> Table:
    """An empty table. Columns in `right` hold numbers; those in `folded` may take several lines."""
    found = Table(box=None, pad_edge=False, show_edge=False, expand=False)
    for name in columns:
        found.add_column(
            name,
            justify="right" if name in right else "left",
            overflow="fold",
            no_wrap=name not in folded,
        )
    return found


def print_json(value: Any) -> None:
    """An answer as JSON: a documented contract. What clients repeat of secrets in its texts is taken out of them."""
    sys.stdout.write(json.dumps(_told(value), indent=2) + "\n")


def _told(value: Any) -> Any:
    match value:
        case str():
            return without_secrets(value)
        case dict():
            return {without_secrets(str(name)): _told(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_told(inner) for inner in value]
        case _:
            return value
