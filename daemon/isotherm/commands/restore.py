"""`isotherm orphans TABLE --restore`: orphans come back from a table's quarantine to where they were.

What is there is found by listing, so it works beside a running daemon, and without its ledger. Nothing is written over.
A restored file is young again by the store, so the daemon leaves it alone for `orphans.older_than`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import typer
from rich.status import Status
from rich.text import Text

from isotherm.commands.options import Output
from isotherm.commands.terminal import err, out, plain_errors, print_json
from isotherm.commands.unknown_table import in_the_catalog
from isotherm.contract.paths import normalised
from isotherm.iceberg.catalog import IcebergCatalog, connect_to_read
from isotherm.iceberg.errors import translated
from isotherm.iceberg.restoring import Restorable, restorable, restore
from isotherm.runtime.clock import now_ms
from isotherm.runtime.config import IsothermConfig, load_config
from isotherm.runtime.exit_codes import EXIT_ERROR, EXIT_USAGE
from isotherm.runtime.text import counted
from isotherm.service.ports import LoadedTable
from isotherm.store.database import StoreError, StoreTrouble
from isotherm.store.folder import LEDGER
from isotherm.store.ledger import Ledger

ALL = "all"
YOUNG_MS = 3_600_000
"""Clocks of stores and machines differ by less."""
SHOWN = 20
"""Files that are told of each kind; `-o json` has all."""


@dataclass(frozen=True, slots=True)
class RestoreAnswer:
    """What came back, and what did not."""

    table: str
    restored: tuple[str, ...]
    """Where the files are again."""
    failed: dict[str, str] = field(default_factory=dict)
    """By the place in quarantine: why a file is there still, or is gone."""
    old: tuple[str, ...] = ()
    """Of those that came back, or were there, the ones whose time stayed what it was."""
    there: tuple[str, ...] = ()
    """Files that were there already. Each is in quarantine too, for its time."""


def restore_orphans(table: str, wanted: Sequence[str], *, config: Path, output: Output) -> None:
    """Move files from a table's quarantine to where they were."""
    with plain_errors(config):
        loaded = load_config(config)
        with in_the_catalog(table, loaded):
            answer = _restored(loaded, table, wanted)
    if output is Output.JSON:
        print_json(answer)
    else:
        _print(answer)
    if answer.failed:
        raise typer.Exit(EXIT_ERROR)


def _restored(config: IsothermConfig, table: str, wanted: Sequence[str]) -> RestoreAnswer:
    loaded = IcebergCatalog(connect_to_read(config.catalog)).load(table)
    with Status(Text(f"listing the quarantine of {table}"), console=err), translated(f"table {table}"):
        files = restorable(loaded, _homes(config, loaded))
    if ALL not in wanted:
        files = _chosen(table, files, wanted)
    with Status(Text(f"putting files of {table} back"), console=err), translated(f"table {table}"):
        done = restore(loaded, files)
    times = (done.restored | done.there).items()
    old = tuple(sorted(path for path, at_ms in times if at_ms < now_ms() - YOUNG_MS))
    return RestoreAnswer(table, tuple(done.restored), done.failed, old, tuple(done.there))


def _homes(config: IsothermConfig, loaded: LoadedTable) -> list[str]:
    """Where the table's quarantine may be: below the location that it was first seen with, or that it has now."""
    homes = [loaded.facts.location]
    try:
        ledger = Ledger(config.state.path / LEDGER, read_only=True)
        first = ledger.home(loaded.table.uuid)
        ledger.close()
    except (StoreError, StoreTrouble):
        return homes  # it was lost, perhaps, and the listing is enough
    return homes if first is None else list(dict.fromkeys((first, *homes)))


def _chosen(table: str, files: Sequence[Restorable], wanted: Sequence[str]) -> list[Restorable]:
    """Those that are wanted: each by where it was, whole or below the table's location, or by where it is."""
    chosen: list[Restorable] = []
    for name in wanted:
        found = [
            one
            for one in files
            if normalised(name) in {normalised(one.origin), normalised(one.place)}
            or name == one.origin.removeprefix(one.home.rstrip("/") + "/")
        ]
        if not found:
            text = f"there is no {name} in the quarantine of {table}; `isotherm orphans {table}` lists what is there"
            err.print(Text(text, style="red"))
            raise typer.Exit(EXIT_USAGE)
        # Of several that had one name the newest: another one is named by its place.
        chosen.append(max(found, key=lambda one: one.written_at_ms))
    return list(dict.fromkeys(chosen))


def _print(answer: RestoreAnswer) -> None:
    if not answer.restored and not answer.failed and not answer.there:
        out.print(f"nothing is in the quarantine of {answer.table}")
        return
    for path in answer.restored[:SHOWN]:
        out.print(Text(f"restored {path}"))
    if len(answer.restored) > SHOWN:
        out.print(f"… and {len(answer.restored) - SHOWN} more: -o json has them")
    for path in answer.there[:SHOWN]:
        out.print(Text(f"already there: {path}; the other one stays in quarantine for its time"))
    if len(answer.there) > SHOWN:
        out.print(f"… and {len(answer.there) - SHOWN} more: -o json has them")
    for place, why in list(answer.failed.items())[:SHOWN]:
        err.print(Text(f"could not be restored: {place}: {why}", style="red"))
    if answer.failed:
        err.print(f"{counted(len(answer.failed), 'file')} could not be restored")
    if answer.restored or answer.there:
        out.print(
            Text(
                "The daemon leaves them alone while they are younger than orphans.older_than. If the table needs none of them "
                "by then, it takes them away again: to keep them, say orphans.mode: report, or move them elsewhere."
            )
        )
    if answer.old:
        text = (
            f"{counted(len(answer.old), 'file')} kept their old time, because they belong to another user, or were there "
            "already: the daemon may take them away again at once, also just now. Look again (isotherm orphans "
            f"{answer.table}), and `touch` them on a disk: {answer.old[0]}"
        )
        err.print(Text(text, style="red"))
