"""`isotherm policy`: are the files good, do they lead to what they say, what holds for a table, what would change.

All but `show` and `diff --plan` work on files alone, in the CI of whoever keeps policies in a repository.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from isotherm.commands.options import Output
from isotherm.commands.terminal import (
    VERDICT_STYLES,
    err,
    inspector_of,
    out,
    plain_errors,
    print_complaints,
    print_json,
)
from isotherm.core.model.decisions import Decision
from isotherm.core.planner.run_policy_tests import Judged, judge_case
from isotherm.core.policy.diff import FieldChange, policy_changes
from isotherm.core.policy.fields import RULES
from isotherm.core.policy.json_schema import schema
from isotherm.core.policy.patterns import example_table, specificity
from isotherm.core.policy.policy import Policy
from isotherm.core.policy.precedence import BUILT_IN, Resolved, resolve
from isotherm.core.policy.rulebook import NO_MATCH
from isotherm.runtime.clock import now_ms
from isotherm.runtime.config import load_config
from isotherm.runtime.exit_codes import EXIT_BAD_CONFIG, EXIT_ERROR, EXIT_USAGE
from isotherm.runtime.text import counted
from isotherm.runtime.yaml_reader import line_of
from isotherm.service.policies.policy_folder import in_force
from isotherm.service.policies.policy_set import PolicySet, read_policies
from isotherm.service.ports import UnknownTable
from isotherm.store.database import StoreError


def _named(files: list[Path] | None, config: Path) -> PolicySet:
    return read_policies(files or [load_config(config).policies])


def validate_files(files: list[Path] | None, config: Path, output: Output) -> None:
    """Whether policy files are good; each complaint names file, line and column."""
    with plain_errors():
        found = _named(files, config)
        if output is Output.JSON:
            complaints = [line for text in found.complaints for line in text.splitlines()]
            print_json({"files": [name for name, _ in found.files], "complaints": complaints})
        else:
            print_complaints(found.complaints)
            if not found.complaints:
                out.print(f"{counted(len(found.files), 'policy file')}, nothing wrong")
            if not found.files and not found.complaints:
                err.print(Text("without a policy no table is maintained", style="yellow"))
        if found.complaints:
            raise typer.Exit(EXIT_BAD_CONFIG)


@dataclass(frozen=True, slots=True)
class Tested:
    """One case of a file, and what came of it."""

    file: str
    line: int
    table: str
    judged: Judged


def run_tests(files: list[Path] | None, config: Path, output: Output) -> None:
    """Run the `tests:` of policy files, with the planner of the daemon."""
    with plain_errors():
        tested = list(_tested(_named(files, config).checked()))
        wrong = [one for one in tested if not one.judged.ok]
        if output is Output.JSON:
            print_json(tested)
        else:
            for one in wrong:
                _print_wrong(one)
            out.print(
                f"{counted(len(tested), 'test')}, {f'{len(wrong)} not' if wrong else 'all'} as expected"
            )
        if wrong:
            raise typer.Exit(EXIT_ERROR)


def _tested(found: PolicySet) -> Iterator[Tested]:
    for name, file in found.files:
        for number, case in enumerate(file.tests):
            table = case.table or example_table(file.tables)
            resolved = resolve(table, case.properties, found.files)
            judged = judge_case(case, None if resolved is None else resolved.policy)
            yield Tested(name, line_of(found.texts[name], ("tests", number)), table, judged)


def _print_wrong(one: Tested) -> None:
    judged = one.judged
    out.print(Text.assemble((f"{one.file}:{one.line}: ", "bold"), judged.name))
    grid = Table(box=None, pad_edge=False, show_edge=False, show_header=False)
    grid.add_column()
    grid.add_column(overflow="fold")
    because = f", because … {judged.expected_why} …" if judged.expected_why else ""
    grid.add_row("expected", Text(f"{judged.expected}{because}", style="green"))
    grid.add_row("got", Text(f"{judged.verdict}, because {judged.why}", style="red"))
    out.print(Padding(grid, (0, 0, 0, 2)))


def show_policy(table: str, config: Path, output: Output) -> None:
    """A table's policy, each value with where it comes from."""
    with plain_errors():
        history: tuple[str, ...] = ()
        is_unknown = False
        try:
            inspector = inspector_of(config)
            folder, resolved = inspector.policies, inspector.policy(table)
            history = inspector.policy_history(table)
            inspector.row(table)
        except UnknownTable as error:
            is_unknown = True
            _not_considered(str(error))
        except StoreError as error:
            _not_considered(str(error))
            folder = in_force(load_config(config).policies, {})
            resolved = folder.resolve(table, {})
        print_complaints(folder.complaints)
        if resolved is None:
            names = ", ".join(name for name, _ in folder.files()) or "none"
            why = folder.why_none(table)
            said = f"no policy matches {table} (files: {names}); it is left alone"
            err.print(said if why == NO_MATCH else f"{table}: {why}")
            raise typer.Exit(EXIT_USAGE if is_unknown else EXIT_ERROR)
        if output is Output.JSON:
            print_json(
                {
                    "policy": resolved.policy.model_dump(mode="json"),
                    "origins": resolved.origins,
                    "notes": resolved.notes,
                    "hash": resolved.policy.hash,
                    "history": history,
                }
            )
            return
        _print_policy(resolved)
        for line in history:
            out.print(Text(line, style="dim"))


def _not_considered(why: str) -> None:
    err.print(Text(f"the table's own properties are not considered: {why}", style="yellow"))


def _print_policy(resolved: Resolved) -> None:
    grid = Table(box=None, pad_edge=False, show_edge=False)
    grid.add_column("field", no_wrap=True)
    grid.add_column("value", overflow="fold")
    grid.add_column("from", overflow="fold")
    for name, rule in RULES.items():
        origin = resolved.origins.get(name, BUILT_IN)
        value = rule.written(getattr(getattr(resolved.policy, rule.section), rule.name))
        grid.add_row(name, value, Text(origin, style="dim" if origin == BUILT_IN else ""))
    out.print(grid)
    for note in resolved.notes:
        out.print(Text(note, style="yellow"))
    out.print(f"hash {resolved.policy.hash}")


@dataclass(frozen=True, slots=True)
class Difference:
    """What is different for one table, or for all that a pattern names."""

    subject: str
    maintained_before: bool
    maintained_after: bool
    fields: tuple[FieldChange, ...]


@dataclass(frozen=True, slots=True)
class Changed:
    """A verdict that would be another one."""

    label: str
    before: str
    after: str
    why: str


def show_differences(
    before: Path, after: Path, table: str | None, *, plan: bool, config: Path, output: Output
) -> None:
    """Which fields of which tables change from one version of policies to another."""
    with plain_errors():
        old, new = (read_policies([path]).checked() for path in (before, after))
        subjects = [table] if table is not None else _subjects(old, new)
        differences = [one for subject in subjects if (one := _difference(subject, old, new)) is not None]
        verdicts = _changed_verdicts(old, new, table, config) if plan else {}
        if output is Output.JSON:
            print_json({"policies": differences, "verdicts": verdicts} if plan else {"policies": differences})
            return
        for one in differences:
            _print_difference(one)
        if not differences:
            out.print("nothing changes")
        for name, changed in verdicts.items():
            _print_changed(name, changed)


def _subjects(old: PolicySet, new: PolicySet) -> list[str]:
    """Every name and pattern in the files, from the most general to the most specific."""
    patterns = {pattern for found in (old, new) for _, file in found.files for pattern in file.tables}
    return sorted(patterns, key=lambda pattern: (specificity(pattern), pattern))


def _difference(subject: str, old: PolicySet, new: PolicySet) -> Difference | None:
    name = example_table([subject])
    before, after = (resolve(name, {}, found.files) for found in (old, new))
    fields = policy_changes(*(one.policy if one else Policy() for one in (before, after)))
    if not fields and (before is None) == (after is None):
        return None
    return Difference(subject, before is not None, after is not None, fields)


def _print_difference(one: Difference) -> None:
    told = {(False, True): "  maintained from now on", (True, False): "  left alone from now on"}
    what = told.get((one.maintained_before, one.maintained_after), "")
    out.print(Text.assemble((one.subject, "bold"), what))
    if one.maintained_after:
        grid = Table(box=None, pad_edge=False, show_edge=False, show_header=False)
        for overflow in ("ignore", "fold", "ignore", "fold"):
            grid.add_column(overflow=overflow)
        for change in one.fields:
            grid.add_row(change.field, change.before, "→", change.after)
        if one.fields:
            out.print(Padding(grid, (0, 0, 0, 2)))


def _changed_verdicts(
    old: PolicySet, new: PolicySet, table: str | None, config: Path
) -> dict[str, list[Changed]]:
    inspector, at_ms = inspector_of(config), now_ms()
    before, after = (inspector.plans_under(found.files, table, at_ms) for found in (old, new))
    return {
        name: changed
        for name in before
        if (changed := list(_changed(before[name].decisions, after[name].decisions)))
    }


def _changed(before: Sequence[Decision], after: Iterable[Decision]) -> Iterator[Changed]:
    verdicts = {(one.action, one.partition): str(one.verdict) for one in before}
    for one in after:
        was = verdicts[one.action, one.partition]
        if was != one.verdict:
            yield Changed(one.label, was, str(one.verdict), one.why)


def _print_changed(name: str, changed: Sequence[Changed]) -> None:
    out.print(Text.assemble((name, "bold"), f"  {counted(len(changed), 'verdict')} would change"))
    grid = Table(box=None, pad_edge=False, show_edge=False)
    grid.add_column("was", no_wrap=True)
    grid.add_column("is", no_wrap=True)
    grid.add_column("partition", overflow="fold", max_width=32)
    grid.add_column("why", overflow="fold")
    styles = {str(verdict): style for verdict, style in VERDICT_STYLES.items()}
    for one in changed:
        grid.add_row(
            Text(one.before, styles[one.before]), Text(one.after, styles[one.after]), one.label, one.why
        )
    out.print(grid)


def print_schema() -> None:
    """The JSON Schema of a policy file, for editors."""
    print_json(schema())
