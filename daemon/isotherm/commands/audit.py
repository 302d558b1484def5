"""`isotherm audit`: the judgement of each promise, its evidence, and the history that it covers."""

from pathlib import Path

import typer
from rich.padding import Padding
from rich.text import Text

from isotherm.audit.evidence import Judged, Judgement
from isotherm.audit.promises import judge
from isotherm.commands.options import Output
from isotherm.commands.terminal import err, out, plain_errors, print_json
from isotherm.commands.unknown_table import in_the_catalog
from isotherm.core.units import clock_text
from isotherm.runtime.config import IsothermConfig, load_config
from isotherm.runtime.exit_codes import EXIT_ERROR
from isotherm.store.database import StoreError
from isotherm.store.folder import LEDGER
from isotherm.store.ledger import Ledger

STYLES = {
    Judged.PROVED: "green",
    Judged.BROKEN: "bold red",
    Judged.NOT_PROVABLE: "yellow",
    Judged.NOT_LOOKED_AT: "yellow",
}


def show_audit(table: str, config: Path, output: Output) -> None:
    """Do the promises hold? From the table's own history, the ledger and the control topic."""
    with plain_errors(config):
        loaded = load_config(config)
        err.print(Text(f"reading the history of {table}, its files and the control topic …", style="dim"))
        # PyIceberg, Arrow and DuckDB take seconds to import, and reading takes longer.
        from isotherm.audit.evidence_reader import read_history

        with in_the_catalog(table, loaded):
            judgements = judge(read_history(loaded, table))
        note_missing_ledger(loaded)
        if output is Output.JSON:
            print_json(judgements)
        else:
            for one in judgements:
                print_judgement(one)
        # Files that somebody else has taken away break no promise of ours, and readers all the same.
        if any(one.verdict is Judged.BROKEN or one.counts.get("missing") for one in judgements):
            raise typer.Exit(EXIT_ERROR)


def note_missing_ledger(config: IsothermConfig) -> None:
    """Say why the ledger says nothing: as a rule `state.path` is not that of the daemon."""
    try:
        Ledger(config.state.path / LEDGER, read_only=True).close()
    except StoreError as error:
        err.print(Text(str(error), style="yellow"))


def print_judgement(one: Judgement) -> None:
    """One promise: what can be said of it and why, of which time, and the evidence."""
    out.print(Text.assemble((one.promise, "bold"), ": ", (one.verdict, STYLES[one.verdict]), f": {one.why}"))
    is_judged = one.verdict in (Judged.PROVED, Judged.BROKEN)
    if is_judged and one.from_ms is not None and one.to_ms is not None:
        covers = f"covers {clock_text(one.from_ms)} to {clock_text(one.to_ms)}"
        out.print(Padding(Text(covers, style="dim"), (0, 0, 0, 2)))
    for line in one.evidence:
        out.print(Padding(Text(line), (0, 0, 0, 2)))
