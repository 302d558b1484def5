"""`isotherm orphans`: files in a table's folders that nothing needs, and its quarantine, listed now. Nothing is changed.

The search is the daemon's own, with the table's policy. What the daemon has marked already is told beside it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.status import Status
from rich.table import Table
from rich.text import Text

from isotherm.commands.inspector import Inspector
from isotherm.commands.options import Output
from isotherm.commands.terminal import err, inspector_of, out, plain_errors, print_json
from isotherm.core.deletion import Cause
from isotherm.core.model.jobs import Action
from isotherm.core.model.refusals import Refusal
from isotherm.core.orphan_findings import TOLD, Found, Orphan, Refused, finding_text, too_many
from isotherm.core.policy.policy import Mode, Policy
from isotherm.core.quarantine import origin_of
from isotherm.core.units import clock_text, size_text
from isotherm.runtime.clock import now_ms as wall_clock_ms
from isotherm.runtime.exit_codes import EXIT_ERROR
from isotherm.runtime.text import counted
from isotherm.store.ledger.quarantine import Quarantined

SHOWN = 20
"""Files that are told; `-o json` has all."""
NOT_LOOKED_AT = "Whether the table needs some of these was not looked at"


@dataclass(frozen=True, slots=True)
class InQuarantine:
    """A file that was an orphan, and can be restored."""

    path: str
    """Where it was, and will be if it is restored."""
    place: str
    """Where it is."""
    size_bytes: int
    since_ms: int
    """By the daemon, or by the store, where the daemon does not know it."""
    until_ms: int | None
    """Until when it can be restored. None where the daemon does not know it: then it stays until a search has found it, and
    for `orphans.keep_for` from then on."""


@dataclass(frozen=True, slots=True)
class OrphansAnswer:
    """What nothing needs in a table's folders."""

    table: str
    location: str
    """Where the table's folders are."""
    cause: Cause
    """What was looked for."""
    listed: int
    files: int
    bytes: int
    orphans: tuple[Orphan, ...]
    """The oldest first."""
    waiting: int
    """Files that the daemon has marked: they go once their grace is over, if they are still not needed then."""
    first_due_at_ms: int | None
    quarantine: tuple[InQuarantine, ...]
    """What lies in the table's quarantine, what goes first first."""
    notes: tuple[str, ...]
    """What becomes of them, in words."""


def show_orphans(table: str, *, versions: bool, config: Path, output: Output) -> None:
    """Look for what nothing needs in a table's folders, and tell of it."""
    with plain_errors(config):
        answer, refusal = _answer(inspector_of(config), table, versions=versions)
        if answer is not None and output is Output.JSON:
            print_json(answer)
        elif answer is not None:
            _print(answer)
        if refusal is not None:
            err.print(Text(refusal.why, style="red"))
            raise typer.Exit(EXIT_ERROR)


def _answer(
    inspector: Inspector, table: str, *, versions: bool
) -> tuple[OrphansAnswer | None, Refusal | None]:
    """What there is to be told, and why nothing was looked for. Then only what lies in quarantine is told, if any does."""
    action, cause = Action.REMOVE_ORPHANS, Cause.ORPHAN
    if versions:
        action, cause = Action.TRIM_METADATA, Cause.OLD_VERSION
    with Status(Text(f"listing the folders of {table}"), console=err):
        found, policy, location = inspector.unneeded(table, action, wall_clock_ms())
    waiting, due_at_ms = inspector.waiting_for(table, cause)
    quarantine = tuple(_in_quarantine(found.quarantine or (), location, inspector.files_in_quarantine(table)))
    not_put_back = inspector.not_put_back(inspector.row(table).state.table.uuid, wall_clock_ms())
    if isinstance(found, Refused):
        notes = (*_size_note(table, quarantine), _note_of_refused(found, not_put_back))
        answer = OrphansAnswer(table, location, cause, 0, 0, 0, (), waiting, due_at_ms, quarantine, notes)
        return answer if quarantine else None, found.refusal
    notes = (
        *_notes(found, policy, cause, waiting, due_at_ms),
        *_size_note(table, quarantine),
        *_notes_of_quarantine(table, found, not_put_back),
    )
    answer = OrphansAnswer(
        table,
        location,
        cause,
        found.listed,
        found.files,
        found.bytes,
        found.orphans,
        waiting,
        due_at_ms,
        quarantine,
        notes,
    )
    return answer, None


def _notes(found: Found, policy: Policy, cause: Cause, waiting: int, due_at_ms: int | None) -> Iterable[str]:
    what = "are reached by nothing" if cause is Cause.ORPHAN else "are versions that nothing names any more"
    yield finding_text(found, f"{what}, and old enough")
    if cause is Cause.OLD_VERSION and not policy.metadata.enabled:
        yield "Nothing is deleted: the policy, or the table itself, looks after them (metadata.enabled)."
    elif cause is Cause.ORPHAN and not policy.orphans.mode.takes_away:
        yield f"Nothing is deleted: the policy says orphans.mode: {policy.orphans.mode}."
    elif cause is Cause.ORPHAN and (why := too_many(found, policy.orphans.max_share)) is not None:
        yield f"Nothing is deleted: {why}"
    if waiting and due_at_ms is not None:
        is_moved = cause is Cause.ORPHAN and policy.orphans.mode is Mode.QUARANTINE
        what = "moved into quarantine" if is_moved else "deleted"
        yield f"{counted(waiting, 'file')} wait to be {what}, the first until {clock_text(due_at_ms)} UTC."


def _in_quarantine(
    listed: Iterable[Orphan], home: str, known: Mapping[str, Quarantined]
) -> list[InQuarantine]:
    files = []
    for one in listed:
        origin, of_daemon = origin_of(one.path, home), known.get(one.path)
        since_ms = one.written_at_ms if of_daemon is None else of_daemon.since_ms
        until_ms = None if of_daemon is None else of_daemon.until_ms
        files.append(InQuarantine(origin or one.path, one.path, one.size_bytes, since_ms, until_ms))
    return sorted(files, key=lambda one: (one.until_ms is None, one.until_ms or 0, one.path))


def _size_note(table: str, files: Sequence[InQuarantine]) -> Iterable[str]:
    if files:
        size = size_text(sum(one.size_bytes for one in files))
        yield (
            f"{counted(len(files), 'file')} ({size}) in quarantine: `isotherm orphans {table} --restore PATH` puts one back, "
            "`--restore all` all of them."
        )


def _note_of_refused(refused: Refused, not_put_back: str | None) -> str:
    """What becomes of files in quarantine where nothing was looked for."""
    if not_put_back is not None:
        return f"{NOT_LOOKED_AT}; nobody puts them back{not_put_back}."
    those = "those that it knows" if refused.strangers else "each"
    return f"{NOT_LOOKED_AT}. The daemon proves that of {those}, and puts back what is needed."


def _notes_of_quarantine(table: str, found: Found, not_put_back: str | None) -> Iterable[str]:
    if found.why_not:
        yield f"What is in quarantine cannot be listed: {found.why_not}"
    elif not found.is_whole:
        yield f"More than {TOLD:,} files are in quarantine: listed are those that the daemon does not know, and what is needed."
    needed = "The table needs {} of these where they were"
    if missed := found.missed.difference(found.claimed):
        who = "the daemon puts them back after its next search, if they have the size that the table says"
        if not_put_back is not None:
            who = f"nobody puts them back{not_put_back}"
        yield f"{needed.format(counted(len(missed), 'file'))}; {who}: {min(missed)}"
    if found.claimed:
        place, other = min(found.claimed.items())
        yield (
            f"{needed.format(counted(len(found.claimed), 'file'))}; the daemon puts none back, because another table claims "
            f"{other}. If they are of this table, `isotherm orphans {table} --restore PATH` does: {place}"
        )


def _print(answer: OrphansAnswer) -> None:
    grid = Table(box=None, pad_edge=False, show_edge=False)
    grid.add_column("written (UTC)", no_wrap=True)
    grid.add_column("size", justify="right", no_wrap=True)
    grid.add_column("file", overflow="fold")
    for one in answer.orphans[:SHOWN]:
        name = one.path.removeprefix(answer.location.rstrip("/") + "/")
        grid.add_row(clock_text(one.written_at_ms), size_text(one.size_bytes), name)
    if answer.orphans:
        out.print(f"below {answer.location}:")
        out.print(grid)
    if answer.files > SHOWN:
        out.print(f"… and {answer.files - SHOWN} more: -o json has them")
    _print_quarantine(answer)
    for line in answer.notes:
        out.print(Text(line))


def _print_quarantine(answer: OrphansAnswer) -> None:
    grid = Table(box=None, pad_edge=False, show_edge=False)
    for title in ("in quarantine since", "until (UTC)"):
        grid.add_column(title, no_wrap=True)
    grid.add_column("size", justify="right", no_wrap=True)
    grid.add_column("file", overflow="fold")
    for one in answer.quarantine[:SHOWN]:
        name = one.path.removeprefix(answer.location.rstrip("/") + "/")
        until = "not known" if one.until_ms is None else clock_text(one.until_ms)
        grid.add_row(clock_text(one.since_ms), until, size_text(one.size_bytes), name)
    if answer.quarantine:
        out.print(grid)
    if len(answer.quarantine) > SHOWN:
        out.print(f"… and {len(answer.quarantine) - SHOWN} more: -o json has them")
