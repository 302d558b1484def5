"""`isotherm state`: what the daemon believes of a table, and how a full scan differs."""

from pathlib import Path

import typer
from rich.table import Table
from rich.text import Text

from isotherm.commands.inspector import UNKNOWN, StateAnswer
from isotherm.commands.options import Output
from isotherm.commands.terminal import inspector_of, out, plain_errors, print_json
from isotherm.core.reads import reads_text
from isotherm.core.units import size_text
from isotherm.runtime.exit_codes import EXIT_ERROR


def show_state(table: str, *, verify: bool, config: Path, output: Output) -> None:
    """What the daemon believes of a table, against a full scan."""
    with plain_errors():
        inspector = inspector_of(config)
        believed, answer = inspector.state(table)
        if output is Output.TABLE:
            _print_believed(answer)
        if verify:
            # After what is believed: a scan takes its time.
            answer = inspector.compared(believed, answer)
        if output is Output.JSON:
            print_json(answer)
        else:
            _print_compared(answer)
        if answer.differences:
            raise typer.Exit(EXIT_ERROR)


def _print_believed(answer: StateAnswer) -> None:
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
    reached = "how far the stream has come is unknown"
    if answer.boundary != UNKNOWN:
        reached = f"the stream has reached {answer.boundary}"
    out.print(f"snapshot {answer.head}, sequence number {answer.sequence_number}; {reached}")
    if answer.reads_per_day is not None:
        out.print(reads_text(answer.reads_per_day))


def _print_compared(answer: StateAnswer) -> None:
    for line in answer.differences:
        out.print(Text(line, style="red"))
    if answer.verified:
        out.print(Text(answer.verified, style="red" if answer.differences else "green"))
