"""`isotherm doctor` itself: makes the checks, tells each finding as it comes, and writes the bundle."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import typer
from rich.padding import Padding
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.text import Text

from isotherm.commands.doctor import daemon_answers, lake, this_machine, topics
from isotherm.commands.doctor.bundle import refused, write_bundle
from isotherm.commands.doctor.checks import Check, Found, Mark, made
from isotherm.commands.doctor.hidden import Secrets, flat, shown
from isotherm.commands.doctor.subject import Subject
from isotherm.commands.options import Output
from isotherm.commands.terminal import err, out, plain_errors, print_json
from isotherm.runtime.config import load_config
from isotherm.runtime.exit_codes import EXIT_ERROR
from isotherm.runtime.text import counted

SIGNS = {Mark.WELL: ("✓", "green"), Mark.WRONG: ("✗", "bold red"), Mark.UNKNOWN: ("\N{EN DASH}", "dim")}
IN_A_ROW = 3
"""So many checks of which nothing came, one after the other: the rest of their kind would not come either."""
SLOW_MS = 10
"""What took longer is told with its time."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was found; its JSON is documented (docs/operations.md)."""

    config: str
    at_ms: int
    is_well: bool
    write_test: bool
    keys: dict[str, str]
    """Every key of the configuration, without a secret."""
    findings: tuple[Found, ...]


def examine(config: Path, *, write_test: bool, bundle: Path | None, output: Output) -> int:
    """Make every check; gives the exit code."""
    if bundle is not None and (why := refused(bundle)) is not None:
        # Before minutes are spent on it.
        raise typer.BadParameter(why, param_hint="--bundle")
    with plain_errors(config):
        loaded = load_config(config)
    subject = Subject(config, loaded, Secrets(loaded), write_test)
    at_ms = subject.now_ms()
    findings = []
    for found in _findings(subject):
        findings.append(found)
        if output is Output.TABLE:
            _print(found)
            if len(findings) == 1:
                _print_keys(subject)
    wrong = [one for one in findings if one.mark is Mark.WRONG]
    keys = dict(flat(subject.secrets.without_all(shown(loaded))))
    report = Report(str(config), at_ms, not wrong, write_test, keys, tuple(findings))
    if output is Output.JSON:
        print_json(report)
    else:
        out.print()
        told = f"{len(wrong)} for a person" if wrong else "nothing for a person to do"
        out.print(Text(f"{counted(len(findings), 'finding')}, {told}", style="red" if wrong else "green"))
    if bundle is not None:
        with plain_errors():
            write_bundle(bundle, subject, report)
        err.print(Text(f"written: {bundle}; look through it before you send it", style="dim"))
    return EXIT_ERROR if wrong else 0


def _findings(subject: Subject) -> Iterator[Found]:
    recent: deque[bool] = deque(maxlen=IN_A_ROW)
    checks: Iterator[Check] = chain(
        this_machine.checks(subject),
        topics.checks(subject),
        lake.checks(subject, lambda: len(recent) == IN_A_ROW and all(recent)),
        iter([daemon_answers.check(subject.config.http)]),
    )
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("")
        for check in checks:
            bar.update(task, description=f"looking at {check.subject}")
            is_hanging = False
            for found in made(check):
                is_hanging = found.is_hanging
                yield _without_secrets(found, subject.secrets)
            recent.append(is_hanging)


def _without_secrets(found: Found, secrets: Secrets) -> Found:
    return Found(
        secrets.without(found.subject),
        found.mark,
        secrets.without(found.found),
        secrets.without(found.remedy),
        found.took_ms,
        found.is_hanging,
    )


def _print(one: Found) -> None:
    sign, style = SIGNS[one.mark]
    took = f" ({one.took_ms / 1000:.2f} s)" if one.took_ms >= SLOW_MS and not one.is_hanging else ""
    line = Text.assemble((sign, style), f" {one.subject}: {one.found}", (took, "dim"))
    # The second line and those after it are below the first one's words.
    for number, part in enumerate(line.wrap(out, out.width - 2)):
        out.print(part if number == 0 else Padding(part, (0, 0, 0, 2), expand=False))
    if one.remedy:
        words = Text(f"→ {one.remedy}", style=style if one.mark is Mark.WRONG else "dim")
        out.print(Padding(words, (0, 0, 0, 4), expand=False))


def _print_keys(subject: Subject) -> None:
    """What the file, and the environment, say; in JSON are the defaults too."""
    for name, value in flat(subject.secrets.without_all(shown(subject.config, is_said_only=True))):
        out.print(Padding(Text(f"{name}: {value}", style="dim"), (0, 0, 0, 4), expand=False))
