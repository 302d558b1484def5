"""What `isotherm top` draws: what runs, and the tables that need most, in as many lines as there are. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from rich.text import Text

from isotherm.commands.running_daemon import Answer
from isotherm.commands.standing_lines import (
    STYLES,
    cut,
    heading,
    line_of,
    name_width,
    short_span,
    why_lines,
)
from isotherm.core.standings import Standing, Word
from isotherm.core.units import clock_text, size_text
from isotherm.runtime.text import counted

HELD = frozenset({Word.FAILING, Word.HALTED, Word.JOBS_FAIL, Word.PAUSED})
"""Their whys are shown."""
BESIDE = 34
JOB_NUMBERS = 41
"""Of rows, bytes, the share, and what is left."""
MOST_JOBS = 8
"""Of a screen of 24 lines; of a larger one a third."""
QUIT = "q ends it"


def screen(answer: Answer, at_ms: int, width: int, height: int | None) -> Text:
    """One screen of so many columns and lines; without a height, everything."""
    if answer.why_not:
        title = Text.assemble(("isotherm top", "bold"), f"  {answer.at}")
        wrong = Text(f"no daemon answers: {answer.why_not}", style="red")
        return _joined([_fit(title, width), Text(), _fit(wrong, width)])
    said = answer.said
    head = _head(said, answer.at, at_ms, width)
    jobs = [Job(one) for one in said["jobs"]]
    room = None if height is None else max(height - 1 - len(head), 4)
    shown = jobs if room is None else jobs[: max(room // 3, min(MOST_JOBS, room // 2))]
    lines = [*head, *_job_lines(shown, len(jobs), width, at_ms)]
    left = None if height is None else max(height - 1 - len(lines), 2)
    lines += _table_lines([standing_from(one) for one in said["tables"]], left, width, at_ms)
    return _joined(lines if height is None else lines[: height - 1])


def standing_from(row: Mapping[str, Any]) -> Standing:
    """A table of the answer; what another version says beside is passed over."""
    known = {one.name for one in fields(Standing)}
    values = {name: value for name, value in row.items() if name in known}
    return Standing(**values | {"word": Word(values["word"])})


class Job:
    """A job of the answer."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        self.row = row

    def line(self, names: int, width: int, at_ms: int) -> Text:
        """One line: what it works on, and how far it is."""
        row = self.row
        share, left_s = row["share"], row["seconds_left"]
        numbers = f"{'':<29}"
        if share is not None:
            rows = f"{_short(row['rows_read'])}/{_short(row['rows'])}"
            numbers = f"{rows:>11} {_sizes(row['bytes_read'], row['bytes']):>12} {share:>4.0%}"
        elif row["bytes"]:
            numbers = f"{'':>11} {size_text(row['bytes']):>12} {'':>4}"
        left = "" if left_s is None else f"{short_span(left_s * 1000)}"
        ran = short_span(at_ms - row["began_at_ms"])
        what = row["label"] if row["action"] == "compact" else row["action"]
        room = max(width - names - JOB_NUMBERS - 4, 6)
        if len(what) > room:  # the values tell partitions apart, and the names of their fields do not
            what = "/".join(part.rpartition("=")[2] for part in what.split("/"))
        label = cut(what, room)
        table = cut(row["table"], names)
        return Text.assemble(
            f"{table:<{names}}  ",
            (f"{label:<{room}}", "cyan"),
            f" {numbers:<29} {left:>5} {ran:>5}",
        )


def _head(said: Mapping[str, Any], at: str, at_ms: int, width: int) -> list[Text]:
    host = at.removeprefix("http://").removesuffix("/tables")
    there = len(said["tables_elsewhere"])
    here = counted(said["tables_here"], "table")
    title = f"isotherm top  {host}  {here}{f' here, {there} elsewhere' if there else ''}"
    clock = clock_text(at_ms)[11:]
    first = Text(f"{cut(title, width - len(clock) - 2):<{width - len(clock)}}{clock}", style="bold")
    counts = said["counts"]
    told = [Text(f"{counts[word]} {word}", style=STYLES[word]) for word in Word if counts.get(word)]
    at_rest = max(said["tables_here"] - sum(counts.values()), 0)
    told += [Text(f"{at_rest} at rest", style="dim")] if at_rest else []
    return [first, _fit(Text(", ").join(told), width), *_loop_lines(said, at_ms, width), Text()]


def _loop_lines(said: Mapping[str, Any], at_ms: int, width: int) -> list[Text]:
    last = said["round"]
    behind = f"{counted(said['events_behind'], 'event')} behind"
    if last is None:
        return [_fit(Text(f"loop: no round is over yet; {behind}", style="yellow"), width)]
    late_ms = at_ms - last["ended_at_ms"]
    text = (
        f"loop: last round {short_span(late_ms)} ago took {last['seconds']:.1f} s: "
        f"{last['due']} due, {last['started']} begun; {behind}"
    )
    lines = [_fit(Text(text, style="yellow" if late_ms > 60_000 else ""), width)]
    wrong = [f"away: {', '.join(last['away'])}"] if last["away"] else []
    wrong += ["deletions are held (docs/runbook.md)"] if last["deletions_held"] else []
    wrong += [f"policies: {said['policies']}"] if said["policies"] else []
    return [*lines, *[_fit(Text("; ".join(wrong), style="red"), width)][: len(wrong)]]


def _job_lines(shown: Iterable[Job], count: int, width: int, at_ms: int) -> list[Text]:
    shown = list(shown)
    if not shown:
        return [Text("no job runs", style="dim"), Text()]
    names = name_width([one.row["table"] for one in shown], width, JOB_NUMBERS + 4 + 14)
    label = max(width - names - JOB_NUMBERS - 4, 6)
    first = f"{'running':<{names}}  {'':<{label}} {'rows':>11} {'read':>12} {'':>4} {'left':>5} {'since':>5}"
    lines = [Text(first, style="bold"), *(one.line(names, width, at_ms) for one in shown)]
    more = count - len(shown)
    return [*lines, *([Text(f"… and {more} more", style="dim")] if more else []), Text()]


def _table_lines(standings: list[Standing], left: int | None, width: int, at_ms: int) -> list[Text]:
    """The worst first, with whys, as far as there is room; the last line says how many are not shown."""
    if not standings:
        return [Text("nothing was told of any table since the daemon began", style="dim")]
    names = name_width([one.table for one in standings], width, BESIDE)
    lines = [Text(heading(names), style="bold")]
    room = None if left is None else left - 1
    for place, one in enumerate(standings):
        block = [line_of(one, names, at_ms)]
        if one.word in HELD:
            block += list(why_lines(one, width))[:2]
        more = len(standings) - place
        if room is not None and len(lines) + len(block) > room and more > 1:
            lines.append(Text(f"… and {more} more: isotherm tables; {QUIT}", style="dim"))
            return lines
        lines += block
    return [*lines, Text(QUIT, style="dim")] if left is not None and len(lines) < left else lines


def _short(number: int) -> str:
    """A count in at most five characters: `1.2M`."""
    for unit in ("", "k", "M", "G"):
        if number < 1000 or unit == "G":
            return f"{number:.0f}{unit}" if not unit or number >= 100 else f"{number:.1f}{unit}"
        number = number / 1000  # type: ignore[assignment]
    raise AssertionError


def _sizes(part: int, whole: int) -> str:
    """Two sizes in the unit of the larger one: `12/30 MiB`."""
    number, unit = size_text(whole).split(" ")
    scale = {"B": 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4}[unit]
    return f"{part / 1024**scale:.0f}/{float(number):.0f} {unit}"


def _fit(text: Text, width: int) -> Text:
    text.truncate(width, overflow="ellipsis")
    return text


def _joined(lines: Iterable[Text]) -> Text:
    return Text("\n", no_wrap=True, overflow="crop").join(lines)
