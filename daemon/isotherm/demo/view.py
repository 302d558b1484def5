"""The live view: what happens now, in 80 columns.

Draws a `Picture`, a value; where the picture comes from is not its business.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from rich.console import Group, RenderableType
from rich.text import Text

STRIP = 56
"""Partitions in a strip; the newest are shown."""
NAME = 12


class Heat(Enum):
    """How a partition stands: glyph (for terminals without colour), style, word."""

    HOT = ("▓", "red", "hot")
    COLD = ("░", "blue", "cold")
    DUE = ("▒", "yellow", "due")
    COMPACTING = ("◆", "bold cyan", "compacting")
    COMPACTED = ("■", "green", "compacted")


@dataclass(frozen=True, slots=True)
class Strip:
    """One table."""

    name: str
    partitions: Sequence[Heat]
    """In the order of time."""
    files: int
    files_before: int
    """Data files of what was compacted, before and after each job, summed."""
    files_after: int


@dataclass(frozen=True, slots=True)
class Picture:
    """All that the view shows."""

    phase: str
    elapsed_s: float
    left_s: float | None
    rows: int
    rows_per_s: float
    lag_s: float | None
    strips: Sequence[Strip] = ()
    jobs: Sequence[str] = ()
    last_job: str = ""
    promises: Mapping[str, tuple[bool, str]] = field(default_factory=dict)
    """Holds so far, and its counters."""
    news: Sequence[str] = ()
    """Kills, restarts, complaints."""
    unseen: str = ""
    """What the witness has missed: then the rest may be old, or too good."""


def draw(picture: Picture) -> RenderableType:
    """The picture for a terminal."""
    left = "" if picture.left_s is None else f", {max(picture.left_s, 0):.0f} s left"
    lag = "unknown" if picture.lag_s is None else f"{picture.lag_s:.1f} s"
    lines: list[RenderableType] = [
        Text.assemble(("isotherm demo", "bold"), f"  {picture.phase}  {picture.elapsed_s:.0f} s{left}"),
        Text(f"{picture.rows_per_s:.0f} rows/s, {picture.rows:,} so far; change → readable {lag}"),
        Text(),
    ]
    lines += [_strip(strip) for strip in picture.strips]
    lines += [_legend(), Text()]
    lines += [_one_line(f"job   {job}", "cyan") for job in picture.jobs[:2]] or [
        Text("job   none", style="dim")
    ]
    lines += [_one_line(f"last  {picture.last_job}", "dim"), Text()]
    lines += [_promise(name, holds, counters) for name, (holds, counters) in picture.promises.items()]
    lines += [_one_line(line, "magenta") for line in picture.news[-3:]]
    if picture.unseen:
        lines.append(_one_line(picture.unseen, "bold red"))
    return Group(*lines)


def plain(picture: Picture) -> str:
    """The picture in one line, where there is no terminal."""
    left = "" if picture.left_s is None else f", {max(picture.left_s, 0):.0f} s left"
    lag = "" if picture.lag_s is None else f", change → readable {picture.lag_s:.1f} s"
    compacted = sum(heat is Heat.COMPACTED for strip in picture.strips for heat in strip.partitions)
    before = sum(strip.files_before for strip in picture.strips)
    after = sum(strip.files_after for strip in picture.strips)
    broken = [name for name, (holds, _) in picture.promises.items() if not holds]
    trouble = f", BROKEN: {', '.join(broken)}" if broken else ""
    trouble += f"; {' '.join(picture.unseen.split())}" if picture.unseen else ""
    return (
        f"[{picture.elapsed_s:4.0f} s] {picture.phase}{left}: {picture.rows:,} rows, {picture.rows_per_s:.0f}/s{lag}, "
        f"{compacted} partitions compacted ({before} → {after} files){trouble}"
    )


def _strip(strip: Strip) -> Text:
    text = Text(f"{strip.name[:NAME]:<{NAME}} ")
    shown = strip.partitions[-STRIP:]
    for heat in shown:
        glyph, style, _ = heat.value
        text.append(glyph, style)
    text.append(" " * (STRIP - len(shown)))
    text.append(f"{strip.files:>4} files", "dim")
    if strip.files_before:
        text.append(
            f"\n{'':<{NAME}} compacted so far: {strip.files_before} files → {strip.files_after}", "dim"
        )
    return text


def _legend() -> Text:
    text = Text(f"{'':<{NAME}} ")
    for heat in Heat:
        glyph, style, word = heat.value
        text.append(glyph, style)
        text.append(f" {word}  ", "dim")
    return text


def _promise(name: str, holds: bool, counters: str) -> Text:
    mark = ("✓", "green") if holds else ("✗", "bold red")
    text = Text.assemble(mark, f" {name.replace('_', ' '):<23} ", (counters, "dim"))
    text.truncate(79, overflow="ellipsis")
    return text


def _one_line(line: str, style: str) -> Text:
    text = Text(line.replace("\n", " "), style=style)
    text.truncate(79, overflow="ellipsis")
    return text
