"""The report of a run: values that become JSON, and a table for people.

The keys of the JSON are a contract: tests and CI read them. They are the fields of `Report`, with all that is below.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from isotherm.audit.evidence import Judged, Judgement, Promise
from isotherm.demo.maintainer import Maintainer
from isotherm.demo.referee import Compared
from isotherm.demo.witness import SeenTable

EVIDENCE_SHOWN = 8


@dataclass(frozen=True, slots=True)
class TableReport:
    """One table."""

    name: str
    source_rows: int
    lake_rows: int
    checksums_equal: bool
    partitions_compacted: int
    """Different partitions that at least one commit of ours rewrote."""
    files_before: int
    """Live data files of those partitions before each commit of ours, summed."""
    files_after: int
    snapshots: int
    """Every snapshot that was ever seen."""
    announced: int
    unannounced: tuple[int, ...]
    snapshots_expired: int
    commits_of_ours: int
    """Of the maintainer, where that is not the daemon."""
    data_files: int = 0
    """When the stream had ended, as readers met them then: before maintenance had its last word."""
    delete_files: int = 0


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Half of the values are below the first, 99 of 100 below the second."""

    p50: float | None
    p99: float | None
    count: int


@dataclass(frozen=True, slots=True)
class Report:
    """The whole run."""

    seed: int
    maintained_by: str
    promises: Mapping[str, bool]
    evidence: Mapping[str, tuple[str, ...]]
    """For each promise that is not proved: what speaks against it."""
    tables: tuple[TableReport, ...]
    latency_s: Mapping[str, Quantiles]
    merges_recomputed: int
    merges_recomputed_by_maintenance: int
    """Of these: with a commit of the maintainer between what they began on and the head that they ran into."""
    appends_repeated: int
    batches_failed: int
    bytes_ingested: int
    """Data and delete files that ingest committed."""
    bytes_rewritten: int
    """Those that maintenance committed."""
    read_s: float
    """A full read of all tables by PyIceberg, when the stream had ended and before maintenance had its last word."""
    snapshots_expired: int
    files_deleted: int
    hot_partitions_touched: int
    partitions_compacted: int
    rows_written: int
    seconds: float
    startup_seconds: float
    peak_memory_mb: Mapping[str, float]
    kills: tuple[str, ...] = ()
    restarts: Mapping[str, int] = field(default_factory=dict)
    keys_moved: int = 0
    """Rows of the source that were given another primary key."""
    truncates: int = 0
    """Times that a table of the source was emptied by one, and filled again."""
    altered: tuple[str, ...] = ()
    """How tables of the source were altered while rows came, in this order."""
    drivers_fenced: int = 0
    """Drivers of ingest that ended because a second one had begun."""
    jobs: Mapping[str, int] = field(default_factory=dict)
    """Operations in the ledger, or calls of the timer, by action and end."""
    full_scans: Mapping[str, int] = field(default_factory=dict)
    """How often the daemon had to read a whole table, by its own reasons; in steady state it reads none."""
    complaints: tuple[str, ...] = ()
    """What our processes logged as errors."""

    @property
    def is_clean(self) -> bool:
        """Whether every promise held. Whoever promised nothing owes the rows alone."""
        if self.maintained_by == Maintainer.ISOTHERM:
            return all(self.promises.values())
        return bool(self.tables) and all(table.checksums_equal for table in self.tables)

    def as_json(self) -> dict[str, Any]:
        """As it is written."""
        return asdict(self)


def quantiles(values: Iterable[float]) -> Quantiles:
    """Nearest rank."""
    ordered = sorted(values)
    if not ordered:
        return Quantiles(None, None, 0)

    def at(part: float) -> float:
        return round(ordered[min(int(part * len(ordered)), len(ordered) - 1)], 3)

    return Quantiles(at(0.5), at(0.99), len(ordered))


def table_report(
    seen: SeenTable, compared: Compared | None, announced: Mapping[int, int], files_read: tuple[int, int]
) -> TableReport:
    """One table, from what the witness saw and the referee compared; `files_read` are data and delete files."""
    return TableReport(
        name=seen.name,
        source_rows=compared.source[0] if compared else 0,
        lake_rows=compared.lake[0] if compared else 0,
        checksums_equal=compared is not None and compared.is_equal,
        partitions_compacted=len({one.partition for one in seen.rewritten}),
        files_before=sum(one.files_before for one in seen.rewritten),
        files_after=sum(one.files_after for one in seen.rewritten),
        snapshots=len(seen.commits),
        announced=len(set(seen.commits) & set(announced)),
        unannounced=tuple(sorted(set(seen.commits) - set(announced))),
        snapshots_expired=seen.expired,
        commits_of_ours=sum(commit.is_ours for commit in seen.commits.values()),
        data_files=files_read[0],
        delete_files=files_read[1],
    )


def promises(
    judged: Mapping[str, Sequence[Judgement]], troubles: Sequence[str], of: Iterable[Promise] = Promise
) -> tuple[dict[str, bool], dict[str, tuple[str, ...]]]:
    """Each promise over all tables, and what speaks against it; `troubles` speak against all of them.

    The demo's witness saw everything, so here what cannot be proved does not hold.
    """
    holds: dict[str, bool] = {}
    evidence: dict[str, tuple[str, ...]] = {}
    for promise in of:
        against = list(troubles)
        for table, judgements in judged.items():
            against += [
                f"{table}: {line}"
                for one in judgements
                if one.promise is promise and one.verdict is not Judged.PROVED
                for line in (one.evidence or (one.why,))
            ]
        if not judged:
            against.append("no table was seen")
        holds[promise.value] = not against
        if against:
            evidence[promise.value] = tuple(against)
    return holds, evidence


def render(report: Report, console: Console) -> None:
    """For people."""
    console.print(_tables(report))
    console.print(_numbers(report))
    console.print(_promises(report))


def _tables(report: Report) -> Table:
    grid = Table(box=None, pad_edge=False, title="What came of it", title_justify="left", title_style="bold")
    grid.add_column("table", no_wrap=True)
    for heading in ("source", "lake", "same", "compacted", "files", "snapshots", "expired"):
        grid.add_column(heading, justify="right")
    for table in report.tables:
        grid.add_row(
            table.name,
            f"{table.source_rows:,}",
            f"{table.lake_rows:,}",
            _mark(table.checksums_equal),
            str(table.partitions_compacted),
            f"{table.files_before} → {table.files_after}",
            str(table.snapshots)
            if table.announced == table.snapshots
            else f"{table.announced} of {table.snapshots}",
            str(table.snapshots_expired),
        )
    return grid


def _numbers(report: Report) -> RenderableType:
    latency = ", ".join(
        f"{name.replace('_', ' ')} {_seconds(one.p50)} (p99 {_seconds(one.p99)})"
        for name, one in report.latency_s.items()
    )
    memory = ", ".join(f"{name} {peak:.0f}" for name, peak in sorted(report.peak_memory_mb.items()))
    lines = [
        (
            f"{report.partitions_compacted} partitions compacted, {report.hot_partitions_touched} hot ones touched, "
            f"{report.snapshots_expired} snapshots expired, {report.files_deleted} files deleted"
        ),
        (
            f"{report.batches_failed} batches failed, {report.merges_recomputed} upserts computed again "
            f"({report.merges_recomputed_by_maintenance} because of maintenance), {report.appends_repeated} appends repeated"
        ),
        (
            f"{report.bytes_ingested / 1e6:.1f} MB ingested, {report.bytes_rewritten / 1e6:.1f} MB rewritten; all tables "
            f"are read in {report.read_s:.1f} s"
        ),
        f"latency: {latency}",
        f"peak memory in MB: {memory}",
        f"{report.rows_written:,} rows in {report.seconds:.0f} s after {report.startup_seconds:.0f} s of start-up, seed {report.seed}",
    ]
    if rescans := {why: count for why, count in report.full_scans.items() if why != "first seen"}:
        lines.append(f"full scans: {', '.join(f'{count} times {why}' for why, count in rescans.items())}")
    if report.altered or report.truncates:
        lines.append(f"altered meanwhile: {', '.join([*report.altered, _truncated(report.truncates)])}")
    if report.drivers_fenced:
        lines.append("a second driver of ingest began; one of the two was fenced, and ended")
    if report.maintained_by != Maintainer.ISOTHERM:
        lines.insert(
            0, f"maintained by {report.maintained_by}: what Isotherm promises is held against it below"
        )
        lines += [f"{count} times {what}" for what, count in report.jobs.items()]
    if report.kills:
        lines.append(f"killed: {', '.join(report.kills)}")
    return Text("\n" + "\n".join(lines) + "\n")


def _promises(report: Report) -> RenderableType:
    lines: list[RenderableType] = []
    for promise, holds in report.promises.items():
        lines.append(Text.assemble(_mark(holds), " ", (promise.replace("_", " "), "bold")))
        against = report.evidence.get(promise, ())
        lines += [Text(f"    {line}", style="red") for line in against[:EVIDENCE_SHOWN]]
        if len(against) > EVIDENCE_SHOWN:
            lines.append(Text(f"    … and {len(against) - EVIDENCE_SHOWN} more", style="red"))
    return Group(*lines)


def _truncated(times: int) -> str:
    return f"customers truncated {times} {'time' if times == 1 else 'times'}"


def _seconds(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1f} s"


def _mark(fine: bool) -> Text:
    return Text("✓", "green") if fine else Text("✗", "bold red")
