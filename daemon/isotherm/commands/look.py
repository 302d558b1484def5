"""`isotherm look`: what the tables of a lake suffer from, worst first, and what a policy would make of them.

Read only, and without a daemon, Kafka or a configuration: for whoever meets Isotherm for the first time. The catalog is
described as for PyIceberg. The planner is the daemon's own; what only a daemon learns (how late rows come, how long
writers pause, who intends to write) it does not know here, and says so.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from isotherm.commands.look_findings import Lake, Looked, Unread, gains, held, notes
from isotherm.commands.look_page import page_of
from isotherm.commands.options import Output
from isotherm.commands.plan_lines import plan_lines, verdicts_text
from isotherm.commands.pyiceberg_file import reading_its_own_file
from isotherm.commands.terminal import VERDICT_STYLES, err, out, plain_errors, print_json
from isotherm.core.model.decisions import Verdict
from isotherm.core.partitions import with_epochs
from isotherm.core.planner.examination import examined
from isotherm.core.planner.view import Surroundings, View
from isotherm.core.policy.precedence import BUILT_IN, PolicyFile, resolve
from isotherm.core.rewriters import Watch, known_since_ms
from isotherm.core.state import built
from isotherm.core.units import size_text
from isotherm.runtime.clock import now_ms as wall_clock_ms
from isotherm.runtime.config import CatalogConfig
from isotherm.runtime.exit_codes import EXIT_ERROR, EXIT_USAGE
from isotherm.runtime.yaml_reader import read_yaml
from isotherm.service.ports import TableMissing, Unavailable

if TYPE_CHECKING:
    from isotherm.iceberg.catalog import IcebergCatalog

WORST = 5
"""Tables of which all is told, where none is named."""
FORMS = "http://… or https://… (REST), thrift://… (Hive), sqlite:////path/to/catalog.db or postgresql+psycopg2://… (SQL)"
BRIEF = 6
"""Lines of a plan that are told of one table."""


def show_lake(
    tables: Sequence[str],
    *,
    catalog: str,
    properties: Sequence[str],
    policy: Path | None,
    page: Path | None,
    output: Output,
) -> None:
    """Examine the tables of a catalog, and tell of them."""
    if not catalog:
        raise typer.BadParameter("a catalog has a name", param_hint="--catalog")
    if page is not None and not page.parent.is_dir():
        # Before a lake is read for nothing.
        raise typer.BadParameter(f"there is no folder {page.parent}", param_hint="--page")
    config = CatalogConfig(name=catalog, properties=dict(pair(one) for one in properties))
    with plain_errors():
        file = PolicyFile(tables=["*"]) if policy is None else read_yaml(policy, PolicyFile)
        found = connected(config)
        lake = look(
            found, tables, catalog, file, BUILT_IN if policy is None else policy.name, wall_clock_ms()
        )
        if output is Output.JSON:
            print_json(lake)
        else:
            _print(lake)
        if page is not None:
            # Last: what was read in an hour is told, whatever becomes of the page.
            _write_page(lake, page)
        if tables and any(one.is_unknown for one in lake.unread):
            raise typer.Exit(EXIT_USAGE)
        if lake.unread and (tables or not lake.tables):
            raise typer.Exit(EXIT_ERROR)


def _write_page(lake: Lake, page: Path) -> None:
    try:
        page.write_text(page_of(lake), encoding="utf-8")
    except OSError as error:
        raise Unavailable(f"{page} cannot be written: {error.strerror}") from error
    err.print(Text(f"written: {page}", style="dim"))


def connected(config: CatalogConfig) -> "IcebergCatalog":
    """The catalog. Raises Unavailable: it does not answer, or nobody can say where it is."""
    # PyIceberg, Arrow and DataFusion take seconds to import: a mistake in a file is reported before.
    with reading_its_own_file():
        from isotherm.iceberg.catalog import IcebergCatalog, connect_to_read
    try:
        return IcebergCatalog(connect_to_read(config))
    except Unavailable as error:
        if why := _where(str(error), config):
            raise Unavailable(why) from error
        raise


def _where(complaint: str, config: CatalogConfig) -> str | None:
    """What to say where the catalog could not be found, in the words of our own options; None where that is not why."""
    from isotherm.iceberg.catalog import described

    if "uri" in config.properties:
        return (
            f"{complaint}; forms of --catalog-uri: {FORMS}" if "infer the catalog type" in complaint else None
        )
    if "URI missing" not in complaint:
        return (
            f"{complaint}; give --catalog-uri, or describe the catalog in ~/.pyiceberg.yaml as PyIceberg does"
        )
    names = ", ".join(described())
    named = f"name it with --catalog; described there: {names}" if names else "none is described there"
    return (
        f"nothing says where catalog {config.name} is: give --catalog-uri ({FORMS}), "
        f"or describe it in ~/.pyiceberg.yaml as PyIceberg does ({named}). The configuration of a daemon is not read"
    )


def pair(text: str) -> tuple[str, str]:
    """Name and value of a property that was given as NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        # The value may be a password.
        raise typer.BadParameter(f"{name!r} is no NAME=VALUE", param_hint="--property")
    return name, value


def look(
    catalog: "IcebergCatalog",
    tables: Sequence[str],
    name: str,
    policy: PolicyFile,
    policy_name: str,
    now_ms: int,
) -> Lake:
    """Examine some tables of a catalog, or all. Raises Unavailable where the catalog does not answer."""
    unread: list[Unread] = []
    names = list(tables)
    if not names:
        listing = catalog.names()
        names = sorted(listing.names)
        unread = [Unread(namespace, why) for namespace, why in sorted(listing.unlisted.items())]
    looked: list[Looked] = []
    for one in _with_progress(names):
        try:
            looked.append(_looked(catalog, one, policy, now_ms))
        except (Unavailable, TableMissing) as error:
            unread.append(Unread(one, str(error), is_unknown=isinstance(error, TableMissing)))
    looked.sort(key=lambda one: (-one.examination.suffers, -one.examination.may_expire, one.table))
    return Lake(name, policy_name, now_ms, tuple(looked), tuple(unread), is_named=bool(tables))


def _with_progress(names: Sequence[str]) -> Iterator[str]:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("", total=len(names))
        for name in names:
            bar.update(task, description=f"reading {name}")
            yield name
            bar.advance(task)


def _looked(catalog: "IcebergCatalog", name: str, policy: PolicyFile, now_ms: int) -> Looked:
    loaded = catalog.load(name)
    # By its own patterns, where one matches: a file that names this very table overrules what the table says.
    files = [("", policy), ("", policy.model_copy(update={"tables": ["*"]}))]
    resolved = next(
        one for file in files if (one := resolve(name, loaded.facts.properties, [file])) is not None
    )
    scan = catalog.scan(loaded)
    state = built(
        loaded.table,
        scan.partitions,
        scan.head,
        boundary_ms=scan.boundary_by(now_ms),
        foreign_commits=scan.foreign_commits,
        appends=scan.appends,
    )
    fields = with_epochs(loaded.facts.fields, resolved.policy.cold.epochs)
    known = Watch(known_since_ms(next(iter(loaded.log()), None), now_ms, is_whole=loaded.is_whole))
    view = View(
        around=Surroundings(state, fields),
        facts=replace(known.told(loaded.facts, now_ms), fields=fields),
        partitions=scan.partitions,
        snapshots=loaded.log(),
        astray=loaded.astray,
        # A daemon keeps what was not announced to it; here nobody announces anything.
        announced_sequence_number=loaded.seen_through,
    )
    examination, planned = examined(view, resolved.policy, now_ms)
    lines = [one for one in plan_lines(planned) if one.verdict is not Verdict.CLEAN and not one.is_missing]
    return Looked(name, loaded.facts.format_version, examination, tuple(lines[:BRIEF]))


# --- in a terminal


def _print(lake: Lake) -> None:
    if lake.tables:
        out.print(_overview(lake.tables))
        out.print()
    ailing = [one for one in lake.tables if lake.is_named or one.ails]
    told = ailing if lake.is_named else ailing[:WORST]
    for one in told:
        _print_table(one)
    if len(ailing) > len(told):
        out.print(f"… and {len(ailing) - len(told)} more: `isotherm look TABLE` tells all of one")
    for other in lake.unread:
        out.print(Text(str(other), style="red"))
    if not lake.tables and not lake.unread:
        out.print(f"catalog {lake.catalog} has no tables (a database keeps those of several: --catalog NAME)")
    for line in notes(lake):
        out.print(Text(line, style="dim"))


def _overview(tables: Iterable[Looked]) -> Table:
    grid = Table(box=None, pad_edge=False, show_edge=False)
    grid.add_column("table", overflow="fold")
    for heading in ("files", "could be", "to rewrite", "snapshots", "may go"):
        grid.add_column(heading, justify="right", no_wrap=True)
    grid.add_column("partitions", overflow="fold")
    for one in tables:
        found = one.examination
        grid.add_row(
            Text(one.table, style="bold" if found.spared else ""),
            f"{found.files:,}",
            f"{found.in_the_end.files:,}",
            size_text(found.in_the_end.work.bytes),
            f"{found.snapshots:,}",
            f"{found.may_expire:,}",
            verdicts_text(found.verdicts),
        )
    return grid


def _print_table(one: Looked) -> None:
    out.print(Text.assemble((one.table, "bold"), f"  {', '.join(held(one))}"))
    for gain in gains(one.examination):
        out.print(Padding(Text(gain), (0, 0, 0, 2)))
    grid = Table(box=None, pad_edge=False, show_edge=False, show_header=False)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold", max_width=28)
    grid.add_column(overflow="fold")
    for line in one.lines:
        grid.add_row(Text(line.verdict, style=VERDICT_STYLES[line.verdict]), line.subject, line.why)
    out.print(Padding(grid, (0, 0, 1, 2)))
