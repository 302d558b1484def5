"""`isotherm simulate`: a table's history under one or two policies, compared in a table and in pictures.

Tells what it assumes and what it cannot know in plain words, for its numbers look more exact than they are.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from isotherm.commands.inspector import Inspector
from isotherm.commands.options import Output
from isotherm.commands.terminal import (
    err,
    inspector_of,
    out,
    plain_errors,
    print_json,
    span_option_ms,
)
from isotherm.core.policy.policy import Policy
from isotherm.core.policy.precedence import PolicyFile
from isotherm.core.replay.account import Sample, SimulatedJob, Totals
from isotherm.core.replay.assumed import Assumed
from isotherm.core.replay.history import History
from isotherm.core.replay.replay import replay
from isotherm.core.units import DAY_MS, clock_text, size_text, span_text
from isotherm.runtime.clock import now_ms
from isotherm.runtime.config import load_config
from isotherm.runtime.text import counted
from isotherm.runtime.yaml_reader import read_yaml
from isotherm.service.ports import UnknownTable


def show_simulation(
    table: str,
    policy: Path | None,
    against: Path | None,
    for_: str | None,
    every: str | None,
    config: Path,
    output: Output,
) -> None:
    """What other rules would have made of the table's own history."""
    with plain_errors():
        files: list[tuple[str, PolicyFile | None]] = [(IN_FORCE, None)]
        if against is not None:
            files = [(against.name, read_yaml(against, PolicyFile))]
        if policy is not None:
            files.append((policy.name, read_yaml(policy, PolicyFile)))
        loaded = load_config(config)
        err.print(Text(f"reading the history of {table} …", style="dim"))
        simulation = simulate(
            inspector_of(config),
            table,
            files,
            now_ms=now_ms(),
            for_ms=span_option_ms(for_, "--for"),
            every_ms=span_option_ms(every, "--every"),
            plan_every_ms=int(loaded.loop.plan_every_s * 1000),
            err=err,
        )
        if output is Output.JSON:
            print_json(simulation)
        else:
            print_simulation(simulation, out)


IN_FORCE = "in force"

ROUNDS = 5000
"""Where nobody says how often is planned: as the daemon does, but no more often than makes so many rounds."""

WIDTH = 80

MOST_WIDTH = 120

APPROXIMATE = (
    "Appended files are exact. What others removed is taken from the files that would have been there, by share of "
    "rows. What rewriting larger files would have cost them is not counted."
)

UNSEEN = (
    "Intents and open windows are not in the history. Jobs that these would have held back end as conflicts."
)

SMOOTH = "Each change is known from when the daemon heard of it. No job fails but by a conflict."

LEFT_OUT = "Manifests, metadata files and orphans are not replayed."

ASSUMED = (APPROXIMATE, UNSEEN, SMOOTH, LEFT_OUT)
"""What the numbers rest on, and what nobody can know afterwards."""


@dataclass(frozen=True, slots=True)
class Run:
    """One policy, and what it would have made of the history."""

    name: str
    policy_hash: str | None
    """None where no policy matches, and the table is left alone."""
    totals: Totals
    samples: tuple[Sample, ...]
    jobs: tuple[SimulatedJob, ...]


@dataclass(frozen=True, slots=True)
class Basis:
    """Which history an answer is about, and what it rests on."""

    table: str
    from_ms: int
    to_ms: int
    changes: int
    assumed: Assumed
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Simulation(Basis):
    """A history under one or two policies."""

    runs: tuple[Run, ...]


def simulate(
    inspector: Inspector,
    table: str,
    files: list[tuple[str, PolicyFile | None]],
    *,
    now_ms: int,
    for_ms: int | None,
    every_ms: int | None,
    plan_every_ms: int,
    err: Console,
) -> Simulation:
    """Read the table's history, and replay it under each of the policies.

    Args:
        inspector: reads the daemon's stores.
        table: its name.
        files: by name; the policy in force has no file (None).
        now_ms: the end of the history.
        for_ms: only so much of it.
        every_ms: how often is planned. Without it, as `plan_every_ms` says, but not too often for a long history.
        plan_every_ms: the daemon's own pace.
        err: for the progress.

    Raises:
        UnknownTable: the daemon does not know the table, or nothing of its history.
    """
    policies = [(name, inspector.resolved(table, file)) for name, file in files]
    history = past(inspector, table, now_ms, for_ms, err)
    assumed = inspector.assumed(table, every_ms or pace_ms(history, plan_every_ms))
    by_name = [(name, None if resolved is None else resolved.policy) for name, resolved in policies]
    return compared(history, by_name, assumed, err)


def compared(
    history: History, policies: Iterable[tuple[str, Policy | None]], assumed: Assumed, err: Console
) -> Simulation:
    """A history under some policies, by name; None where the table is left alone."""
    runs = []
    for file, policy in policies:
        name = "no policy" if policy is None else file
        with progress(err, f"replaying: {name}", 1.0) as tell:
            replayed = replay(history, policy, assumed, tell=tell)
        hashed = None if policy is None else policy.hash
        runs.append(Run(name, hashed, replayed.totals, replayed.samples, replayed.jobs))
    return Simulation(
        table=history.table.name,
        from_ms=history.starts_at_ms,
        to_ms=history.ends_at_ms,
        changes=len(history.recorded),
        assumed=assumed,
        remarks=history.remarks,
        runs=tuple(runs),
    )


def past(inspector: Inspector, table: str, now_ms: int, for_ms: int | None, err: Console) -> History:
    """The table's history, or the last part of it.

    Raises:
        UnknownTable: the daemon does not know the table, or nothing of its history.
    """
    with progress(err, "reading the history", None) as tell:
        history = inspector.history(table, 0 if for_ms is None else now_ms - for_ms, now_ms, tell)
    if not history.recorded:
        raise UnknownTable(f"neither the ledger nor {table} itself has a commit in this time")
    return history


def pace_ms(history: History, plan_every_ms: int) -> int:
    """The daemon's own pace; for a long history whole minutes, as few as give no more than `ROUNDS` rounds."""
    needed_ms = (history.ends_at_ms - history.starts_at_ms) // ROUNDS
    return plan_every_ms if needed_ms <= plan_every_ms else -(-needed_ms // 60_000) * 60_000


@contextmanager
def progress(err: Console, what: str, total: float | None) -> Iterator[Callable[[float], None]]:
    """A bar on a terminal, for as long as something takes; what it yields is told how much is done."""
    with Progress(console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(what, total=total)

        def tell(done: float) -> None:
            bar.update(task, completed=done)

        yield tell


def print_simulation(one: Simulation, out: Console) -> None:
    """What it rests on, the pictures, and last, so that it stays on a small screen, the comparison."""
    ascii_only = "utf" not in out.encoding.lower()
    width = max(min(out.width, MOST_WIDTH), WIDTH)
    print_basis(one, (), out)
    for title, value, text in _PICTURES:
        if any(value(sample) for run in one.runs for sample in run.samples):
            picture = _picture(one, title, value, text, width, out, ascii_only=ascii_only)
            out.print()
            out.print(Text.from_ansi(picture), soft_wrap=True)
    out.print()
    out.print(_comparison(one.runs))


def print_basis(one: Basis, more: Iterable[str], out: Console) -> None:
    """Which history an answer is about, what it rests on, and what nobody can know."""
    span = span_text(one.to_ms - one.from_ms)
    out.print(Text.assemble((one.table, "bold"), f"  {counted(one.changes, 'commit')} in {span}"))
    out.print(Text(f"from {clock_text(one.from_ms)} to {clock_text(one.to_ms)}", style="dim"))
    out.print()
    out.print(Text("What this rests on, and cannot know:", style="dim"))
    remarks = (f"{text[0].upper()}{text[1:]}." for text in one.remarks)
    for line in (_pace(one.assumed), *ASSUMED, *more, *remarks):
        out.print(Padding(Text(line, style="dim"), (0, 0, 0, 2), expand=False))


def _pace(assumed: Assumed) -> str:
    every, overhead = span_text(assumed.plan_every_ms), span_text(assumed.job_overhead_ms)
    jobs = counted(assumed.jobs_at_once, "job")
    second = size_text(assumed.bytes_per_s)
    said = (
        f"Planning runs every {every}, and when a job ends. {jobs} at a time; each takes {overhead}, and a second "
        f"more for every {second}."
    )
    if assumed.writers_announce:
        said += " Writers announce what they touch, so late writes are no reason to wait."
    return said


_Value = float | int | None


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _ratio(value: float) -> str:
    return f"{value:.2f}"


def _span(value: float) -> str:
    return span_text(round(value))


_ROWS: tuple[tuple[str, Callable[[Totals], _Value], Callable[[float], str]], ...] = (
    ("compactions", lambda t: t.jobs, _count),
    ("thrown away: conflicts", lambda t: t.conflicts, _count),
    ("read in vain", lambda t: t.wasted_bytes, size_text),
    ("bytes rewritten", lambda t: t.rewritten_bytes, size_text),
    ("bytes ingested", lambda t: t.ingested_bytes, size_text),
    ("write amplification", lambda t: t.write_amplification, _ratio),
    ("data files, on average", lambda t: t.mean_files, _count),
    ("data files, at the end", lambda t: t.files, _count),
    ("  of these small", lambda t: t.small_files, _count),
    ("most in one partition", lambda t: t.most_files, _count),
    ("delete rows, on average", lambda t: t.mean_delete_rows, _count),
    ("from due to done, on average", lambda t: t.mean_lag_ms, _span),
    ("  at the longest", lambda t: t.longest_lag_ms, _span),
    ("partitions still due", lambda t: t.still_due, _count),
    ("expiries", lambda t: t.expiries, _count),
    ("snapshots, at the end", lambda t: t.snapshots, _count),
)


def _comparison(runs: tuple[Run, ...]) -> Table:
    grid = Table(box=None, pad_edge=False, show_edge=False, padding=(0, 2))
    grid.add_column("")
    for run in runs:
        grid.add_column(_short(run.name), justify="right", no_wrap=True)
    if len(runs) == 2:
        grid.add_column("difference", justify="right", no_wrap=True)
    for name, value, text in _ROWS:
        values = [value(run.totals) for run in runs]
        if name == "delete rows, on average" and not any(values):
            continue
        cells = ["-" if one is None else text(one) for one in values]
        grid.add_row(name, *cells, *([_difference(values, text)] if len(runs) == 2 else []))
    return grid


def _difference(values: list[_Value], text: Callable[[float], str]) -> str:
    before, after = values
    if before is None or after is None:
        return ""
    said = text(abs(after - before))
    if said == text(0):
        return "="
    return f"{'+' if after > before else '-'}{said}"


def _short(name: str) -> str:
    return name if len(name) <= 16 else f"..{name[-14:]}"


_PICTURES: tuple[tuple[str, Callable[[Sample], float], Callable[[float], str]], ...] = (
    ("data files", lambda s: s.files, _count),
    ("delete rows", lambda s: s.delete_rows, _count),
    ("bytes rewritten", lambda s: s.rewritten_bytes, size_text),
)


def _picture(
    one: Simulation,
    title: str,
    value: Callable[[Sample], float],
    text: Callable[[float], str],
    width: int,
    out: Console,
    *,
    ascii_only: bool,
) -> str:
    # plotext is large, and whoever wants JSON looks at no picture.
    from isotherm.commands.chart import Series, Ticks, draw

    series = [Series(_short(run.name), [value(s) for s in run.samples]) for run in one.runs]
    top = max(max(line.values) for line in series)
    middle = (one.from_ms + one.to_ms) // 2
    span_ms = one.to_ms - one.from_ms
    part = slice(5, 16) if span_ms > DAY_MS else slice(11, 19)
    times = Ticks(
        (one.from_ms, middle, one.to_ms),
        [clock_text(at_ms)[part] for at_ms in (one.from_ms, middle, one.to_ms)],
    )
    return draw(
        title,
        [sample.at_ms for sample in one.runs[0].samples],
        series,
        times=times,
        amounts=Ticks((0, top / 2, top), [text(0), text(top / 2), text(top)]),
        width=width,
        colour=out.color_system is not None and out.is_terminal and not out.no_color,
        ascii_only=ascii_only,
    )
