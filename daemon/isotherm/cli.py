"""`isotherm`: the command line for people.

Commands that ask read the stores beside a running daemon and the catalog; they change nothing. Answers go to standard
output, as a table or as JSON (`-o json`, a documented contract); everything else goes to standard error.
"""

import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from isotherm.clock import now_ms
from isotherm.config import EXIT_BAD_CONFIG, ConfigError, load_config, read_yaml
from isotherm.partitions import clock_text, size_text, span_text
from isotherm.planner import Plan, Verdict
from isotherm.policy_files import PolicyFolder
from isotherm.ports import NoSuchTableError, TableMissing, Unavailable
from isotherm.precedence import PolicyFile
from isotherm.store.database import StoreError
from isotherm.units import parse_span_ms

if TYPE_CHECKING:
    from isotherm.answers import Inspector

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_WORK_TO_DO = 3

app = typer.Typer(
    name="isotherm",
    help="Maintenance for Apache Iceberg tables that streams write, which never gets in the stream's way.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
policy_app = typer.Typer(help="Look at policies.", no_args_is_help=True)
app.add_typer(policy_app, name="policy")


class Output(StrEnum):
    """How answers are written."""

    TABLE = "table"
    JSON = "json"


ConfigOption = Annotated[
    Path,
    typer.Option("--config", "-c", envvar="ISOTHERM_CONFIG", help="The file for the process, isotherm.yaml."),
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="A table for people, or JSON.")]
DEFAULT_CONFIG = Path("isotherm.yaml")
out = Console(highlight=False, soft_wrap=False)
err = Console(stderr=True, highlight=False)


@contextmanager
def _plain_errors() -> Iterator[None]:
    """What a person can mend is one message, not a traceback."""
    try:
        yield
    except ConfigError as error:
        err.print(Text(str(error), style="red"))
        raise typer.Exit(EXIT_BAD_CONFIG) from error
    except NoSuchTableError as error:
        err.print(Text(str(error), style="red"))
        raise typer.Exit(EXIT_USAGE) from error
    except (Unavailable, TableMissing, StoreError) as error:
        err.print(Text(str(error), style="red"))
        raise typer.Exit(EXIT_ERROR) from error


def _json(value: Any) -> None:
    def plain(one: Any) -> Any:
        if dataclasses.is_dataclass(one) and not isinstance(one, type):
            return dataclasses.asdict(one)
        if isinstance(one, frozenset | set):
            return sorted(one)
        return str(one)

    sys.stdout.write(json.dumps(value, default=plain, indent=2) + "\n")


def _inspector(config: Path) -> "Inspector":
    # PyIceberg takes seconds to import, and `isotherm --help` has no use for it.
    from isotherm.answers import Inspector

    return Inspector(load_config(config))


@app.command()
def run(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """The daemon: follow the stream's commits, and maintain what it has left behind."""
    from isotherm.run import run as run_daemon

    with _plain_errors():
        raise typer.Exit(run_daemon(load_config(config)))


@app.command()
def demo(
    for_: Annotated[
        str, typer.Option("--for", help="How long, from the first row in Iceberg: 2m, 90s.")
    ] = "3m",
    report: Annotated[Path | None, typer.Option(help="Write the report here, as JSON.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave it running until Ctrl-C.")] = False,
    chaos: Annotated[str | None, typer.Option(help="`kill`: SIGKILL at random moments.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of the workload and the chaos; a new one without it.")
    ] = None,
) -> None:
    """The whole system, embedded, on a live PostgreSQL; everything under .isotherm/demo."""
    from isotherm.demo.run import run_demo

    try:
        for_ms = parse_span_ms(for_)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--for") from error
    if chaos not in (None, "kill"):
        raise typer.BadParameter("the only chaos is `kill`", param_hint="--chaos")
    raise typer.Exit(run_demo(for_ms / 1000, report, keep, chaos == "kill", seed=seed))


@app.command()
def audit(
    table: Annotated[str, typer.Argument(help="The table.")],
    config: ConfigOption = DEFAULT_CONFIG,
    output: OutputOption = Output.TABLE,
) -> None:
    """Do the promises hold? From the table's own history, the ledger and the control topic."""
    from isotherm.audit import Verdict as Judged
    from isotherm.audit import judge
    from isotherm.audit_reader import read_history

    with _plain_errors():
        judgements = judge(read_history(load_config(config), table))
        if output is Output.JSON:
            _json(judgements)
        else:
            styles = {Judged.PROVED: "green", Judged.BROKEN: "bold red", Judged.NOT_PROVABLE: "yellow"}
            for one in judgements:
                out.print(
                    Text.assemble(
                        (one.promise, "bold"), ": ", (one.verdict, styles[one.verdict]), f": {one.why}"
                    )
                )
                if one.from_ms is not None and one.to_ms is not None:
                    covers = f"  covers {clock_text(one.from_ms)} to {clock_text(one.to_ms)}"
                    out.print(Text(covers, style="dim"))
                for line in one.evidence:
                    out.print(Text(f"  {line}"))
        if any(one.verdict is Judged.BROKEN for one in judgements):
            raise typer.Exit(EXIT_ERROR)


@app.command()
def plan(
    table: Annotated[
        str | None, typer.Argument(help="One table; all that are maintained without it.")
    ] = None,
    policy: Annotated[Path | None, typer.Option(help="Plan by this policy file instead.")] = None,
    at: Annotated[str | None, typer.Option(help="Plan as of this time (ISO 8601, UTC).")] = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 3 when there is work.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    output: OutputOption = Output.TABLE,
) -> None:
    """What would be done now, and why not the rest."""
    with _plain_errors():
        inspector = _inspector(config)
        override = None if policy is None else read_yaml(policy, PolicyFile)
        plans = inspector.plans(table, override, now_ms() if at is None else _time_ms(at))
        due = [decision for one in plans for decision in one.decisions if decision.verdict is Verdict.DUE]
        if output is Output.JSON:
            _json([{"table": one.table.name, "decisions": one.decisions} for one in plans])
        else:
            for one in plans:
                _print_plan(one, brief=table is None)
        if exit_code and due:
            raise typer.Exit(EXIT_WORK_TO_DO)


def _time_ms(text: str) -> int:
    from datetime import UTC, datetime

    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no ISO 8601 time, such as 2026-11-21T13:00:00Z") from error
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


STYLES = {
    Verdict.DUE: "yellow",
    Verdict.HOT: "red",
    Verdict.CLEAN: "green",
    Verdict.RUNNING: "cyan",
    Verdict.HALTED: "bold red",
    Verdict.WAITING: "cyan",
    Verdict.QUARANTINED: "magenta",
    Verdict.UNSUPPORTED: "magenta",
    Verdict.OFF: "dim",
}
BRIEF = 12
"""Rows for each table where all are shown; `plan TABLE` shows every one."""


def _print_plan(one: Plan, *, brief: bool) -> None:
    name = one.table.name
    counts = Counter(decision.verdict for decision in one.of_partitions)
    summary = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    out.print(Text.assemble((name, "bold"), f"  partitions: {summary or 'none'}"))
    ordered = sorted(
        one.decisions, key=lambda d: (d.verdict is not Verdict.DUE, d.verdict, -d.score, d.label)
    )
    shown = ordered[:BRIEF] if brief else ordered
    grid = Table(box=None, pad_edge=False, show_edge=False, expand=False)
    grid.add_column("verdict")
    grid.add_column("score", justify="right")
    grid.add_column("partition", overflow="fold", max_width=32)
    grid.add_column("why", overflow="fold")
    for decision in shown:
        verdict = Text(decision.verdict, style=STYLES[decision.verdict])
        grid.add_row(verdict, f"{decision.score:.2f}", decision.label, decision.why)
    out.print(grid)
    if len(ordered) > len(shown):
        out.print(f"… and {len(ordered) - len(shown)} more: isotherm plan {name}")
    out.print()


@app.command()
def explain(
    table: Annotated[str, typer.Argument(help="The table.")],
    partition: Annotated[
        str | None, typer.Argument(help="A partition, as `plan` shows it; the table as a whole without it.")
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    output: OutputOption = Output.TABLE,
) -> None:
    """Each condition: value, limit, where the limit comes from, and when it could change."""
    with _plain_errors():
        explanation = _inspector(config).explain(table, partition, now_ms())
        if output is Output.JSON:
            _json(explanation)
            return
        out.print(Text.assemble((explanation.table, "bold"), f"  {explanation.subject}"))
        out.print(Text(explanation.why, style=STYLES[explanation.verdict]))
        grid = Table(box=None, pad_edge=False, show_edge=False)
        for heading in ("", "condition", "what is", "limit from"):
            grid.add_column(heading, overflow="fold")
        for condition in explanation.conditions:
            mark = Text("✓", "green") if condition.holds else Text("✗", "red")
            grid.add_row(mark, condition.name, condition.text, condition.origin)
        out.print(grid)
        if explanation.next_at:
            out.print(f"next: {explanation.next_at}")
        for line in explanation.history:
            out.print(Text(line, style="dim"))


@app.command()
def state(
    table: Annotated[str, typer.Argument(help="The table.")],
    verify: Annotated[bool, typer.Option("--verify", help="Scan the whole table and compare.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    output: OutputOption = Output.TABLE,
) -> None:
    """What the daemon believes of a table, against a full scan."""
    with _plain_errors():
        answer = _inspector(config).state(table, verify=verify)
        if output is Output.JSON:
            _json(answer)
        else:
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
            out.print(f"head {answer.head}, sequence {answer.sequence_number}, boundary {answer.boundary}")
            for line in answer.differences:
                out.print(Text(line, style="red"))
            if verify:
                out.print(Text(answer.verified, style="red" if answer.differences else "green"))
        if answer.differences:
            raise typer.Exit(EXIT_ERROR)


@policy_app.command("validate")
def policy_validate(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Files; those of isotherm.yaml without it.")
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Whether policy files are good; each complaint names file, line and column."""
    with _plain_errors():
        paths = files or sorted(load_config(config).policies.glob("*.yaml"))
        complaints = []
        for path in paths:
            try:
                read_yaml(path, PolicyFile)
            except ConfigError as error:
                complaints.append(str(error))
        for complaint in complaints:
            err.print(Text(complaint, style="red"))
        if complaints:
            raise typer.Exit(EXIT_BAD_CONFIG)
        out.print(f"{len(paths)} policy files are good")


@policy_app.command("show")
def policy_show(
    table: Annotated[str, typer.Argument(help="The table.")],
    config: ConfigOption = DEFAULT_CONFIG,
    output: OutputOption = Output.TABLE,
) -> None:
    """A table's policy, each value with where it comes from."""
    with _plain_errors():
        loaded = load_config(config)
        resolved = _inspector(config).policy(table)
        if resolved is None:
            folder = PolicyFolder(loaded.policies)
            folder.reload()
            names = ", ".join(name for name, _ in folder.files()) or "none"
            err.print(f"no policy matches {table} (files: {names}); it is only observed")
            raise typer.Exit(EXIT_ERROR)
        values = resolved.policy.model_dump(mode="json")
        if output is Output.JSON:
            _json({"policy": values, "origins": resolved.origins, "hash": resolved.policy.hash})
            return
        grid = Table(box=None, pad_edge=False, show_edge=False)
        for heading in ("field", "value", "from"):
            grid.add_column(heading)
        for section, fields in values.items():
            for name, value in fields.items():
                grid.add_row(
                    f"{section}.{name}",
                    _policy_text(name, value),
                    resolved.origins.get(f"{section}.{name}", "built-in"),
                )
        out.print(grid)
        out.print(f"hash {resolved.policy.hash}")


def _policy_text(name: str, value: Any) -> str:
    """A value as people write it in a policy."""
    if isinstance(value, str) and value.endswith("ms"):
        return span_text(parse_span_ms(value)).replace(" ", "")
    return size_text(value) if name == "target_file_size" else str(value).lower()


def main() -> None:
    """The entry point."""
    app()


if __name__ == "__main__":
    main()
