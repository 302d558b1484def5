"""What every command shares: where answers go, how they look, and how errors end."""

import dataclasses
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from isotherm.core.model.decisions import Verdict
from isotherm.core.units import parse_span_ms
from isotherm.runtime.config import load_config
from isotherm.runtime.exit_codes import EXIT_BAD_CONFIG, EXIT_ERROR, EXIT_USAGE
from isotherm.runtime.kafka_client import PropertyError
from isotherm.runtime.secrets import without_secrets
from isotherm.runtime.strict_model import ConfigError
from isotherm.runtime.text import printable
from isotherm.service.ports import TableMissing, Unavailable, UnknownTable
from isotherm.store.database import StoreError, StoreTrouble

if TYPE_CHECKING:
    from isotherm.commands.inspector import Inspector


def span_option_ms(text: str | None, option: str) -> int | None:
    """A span that a person gave with an option; None where none was given."""
    try:
        return None if text is None else parse_span_ms(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


class _Console(Console):
    """A console on which names and values of tables, which anybody may choose, do nothing to the terminal.

    Nor are they read as Rich's own markup: `[error]` is printed, and no link. What clients repeat of secrets is not printed.
    """

    def render_str(self, text: str, **more: Any) -> Text:
        """A text to be laid out, its control characters spelled out before: they have no width."""
        return super().render_str(printable(without_secrets(text), "\n"), **more)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """The segments of something to print, their control characters spelled out.

        Secrets go before it is laid out, because a line may end within one.
        """
        if isinstance(renderable, Text) and (told := without_secrets(renderable.plain)) != renderable.plain:
            renderable = renderable.blank_copy(told)
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text, "\n"), style, control)


out = _Console(highlight=False, soft_wrap=False, markup=False, emoji=False)
"""For answers."""

err = _Console(stderr=True, highlight=False, markup=False, emoji=False)
"""For everything else."""

VERDICT_STYLES = {
    Verdict.DUE: "yellow",
    Verdict.HOT: "red",
    Verdict.CLEAN: "green",
    Verdict.RESTING: "green",
    Verdict.RUNNING: "cyan",
    Verdict.HALTED: "bold red",
    Verdict.WAITING: "cyan",
    Verdict.QUARANTINED: "magenta",
    Verdict.UNSUPPORTED: "magenta",
    Verdict.OFF: "dim",
}


@contextmanager
def plain_errors(config: Path | None = None) -> Iterator[None]:
    """What a person can mend is one message, not a traceback. `config` is the configuration that the command reads."""
    try:
        yield
    except PropertyError as error:
        err.print(Text(f"{config}: {error}", style="red"), soft_wrap=True)
        raise typer.Exit(EXIT_BAD_CONFIG) from error
    except ConfigError as error:
        # Whole lines, however narrow the terminal: editors and CI find the place by them.
        err.print(Text(str(error), style="red"), soft_wrap=True)
        raise typer.Exit(EXIT_BAD_CONFIG) from error
    except UnknownTable as error:
        err.print(Text(str(error), style="red"))
        raise typer.Exit(EXIT_USAGE) from error
    except (Unavailable, TableMissing, StoreError) as error:
        err.print(Text(str(error), style="red"))
        raise typer.Exit(EXIT_ERROR) from error
    except StoreTrouble as error:
        err.print(Text(f"a store cannot be read: {error}", style="red"))
        raise typer.Exit(EXIT_ERROR) from error


def print_complaints(complaints: Iterable[str]) -> None:
    """What is wrong with the policies."""
    for complaint in complaints:
        # Whole lines, however narrow the terminal: editors and CI find the place by them.
        err.print(Text(complaint, style="red"), soft_wrap=True)


def print_json(value: Any) -> None:
    """An answer as JSON: a documented contract. What clients repeat of secrets in its texts is taken out of them."""
    sys.stdout.write(json.dumps(_told(value), indent=2) + "\n")


def _told(value: Any) -> Any:
    """A value as JSON has it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    match value:
        case None | bool() | int() | float():
            return value
        case dict():
            return {_told(key): _told(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_told(inner) for inner in value]
        case frozenset() | set():
            return [_told(inner) for inner in sorted(value)]
        case _:
            # Before JSON escapes letters: what is behind one would be taken for the end of the secret.
            return without_secrets(str(value))


def inspector_of(config: Path) -> "Inspector":
    """Answers from the stores that a configuration names."""
    # `isotherm --help` has no use for it.
    from isotherm.commands.inspector import Inspector

    return Inspector(load_config(config))
