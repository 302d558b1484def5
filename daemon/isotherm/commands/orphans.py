"""`isotherm orphans`: files in a table's folders that nothing needs, listed now. Nothing is changed.

The search is the daemon's own, with the table's policy. What the daemon has marked already is told beside it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.status import Status
from rich.table import Table
from rich.text import Text

from isotherm.commands.inspector import Inspector
from isotherm.commands.options import Output
from isotherm.commands.terminal import EXIT_ERROR, err, inspector_of, out, plain_errors, print_json
from isotherm.core.deletion import Cause
from isotherm.core.model.jobs import Action
from isotherm.core.model.refusals import Refusal
from isotherm.core.orphans import Found, Orphan, finding_text, too_many
from isotherm.core.policy.policy import Mode, Policy
from isotherm.core.units import clock_text, size_text
from isotherm.runtime.clock import now_ms as wall_clock_ms
from isotherm.runtime.text import counted

SHOWN = 20
"""Files that are told; `-o json` has all."""


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
    notes: tuple[str, ...]
    """What becomes of them, in words."""


def show_orphans(table: str, *, versions: bool, config: Path, output: Output) -> None:
    """Look for what nothing needs in a table's folders, and tell of it."""
    with plain_errors(config):
        answer = _answer(inspector_of(config), table, versions=versions)
        if isinstance(answer, Refusal):
            err.print(Text(answer.why, style="red"))
            raise typer.Exit(EXIT_ERROR)
        if output is Output.JSON:
            print_json(answer)
        else:
            _print(answer)


def _answer(inspector: Inspector, table: str, *, versions: bool) -> OrphansAnswer | Refusal:
    action, cause = Action.REMOVE_ORPHANS, Cause.ORPHAN
    if versions:
        action, cause = Action.TRIM_METADATA, Cause.OLD_VERSION
    with Status(Text(f"listing the folders of {table}"), console=err):
        found, policy, location = inspector.unneeded(table, action, wall_clock_ms())
    if isinstance(found, Refusal):
        return found
    waiting, due_at_ms = inspector.waiting_for(table, cause)
    notes = tuple(_notes(found, policy, cause, waiting, due_at_ms))
    return OrphansAnswer(
        table,
        location,
        cause,
        found.listed,
        found.files,
        found.bytes,
        found.orphans,
        waiting,
        due_at_ms,
        notes,
    )


def _notes(found: Found, policy: Policy, cause: Cause, waiting: int, due_at_ms: int | None) -> Iterable[str]:
    what = "are reached by nothing" if cause is Cause.ORPHAN else "are versions that nothing names any more"
    yield finding_text(found, f"{what}, and old enough")
    if cause is Cause.OLD_VERSION and not policy.metadata.enabled:
        yield "Nothing is deleted: the policy, or the table itself, looks after them (metadata.enabled)."
    elif cause is Cause.ORPHAN and policy.orphans.mode is not Mode.APPLY:
        yield f"Nothing is deleted: the policy says orphans.mode: {policy.orphans.mode}."
    elif cause is Cause.ORPHAN and (why := too_many(found, policy.orphans.max_share)) is not None:
        yield f"Nothing is deleted: {why}"
    if waiting and due_at_ms is not None:
        yield f"{counted(waiting, 'file')} wait to be deleted, the first until {clock_text(due_at_ms)} UTC."


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
    for line in answer.notes:
        out.print(Text(line))
