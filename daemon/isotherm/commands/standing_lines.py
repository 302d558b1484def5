"""Lines of `isotherm tables` and `isotherm top`: one table a line, its why below it, within 80 columns.

Laid out by hand: Rich takes a second for the table of a thousand rows.
"""

from collections.abc import Iterator

from rich.text import Text

from isotherm.core.standings import Standing, Word
from isotherm.core.units import span_text
from isotherm.runtime.text import printable

STYLES = {
    Word.FAILING: "bold red",
    Word.HALTED: "bold red",
    Word.JOBS_FAIL: "magenta",
    Word.DUE: "yellow",
    Word.RUNNING: "cyan",
    Word.WAITING: "cyan",
    Word.HOT: "red",
    Word.PAUSED: "cyan",
    Word.UNSUPPORTED: "magenta",
    Word.UNDECIDED: "dim",
    Word.CLEAN: "green",
    Word.LEFT_ALONE: "dim",
    Word.ELSEWHERE: "dim",
}
STATE = 11
NUMBERS = 22
"""Of debt, due, hot and seen."""
LEAST_NAME = 16


def name_width(names: list[str], width: int, beside: int) -> int:
    """How much of a line the names have: as much as the longest, or what is left beside the other columns."""
    return min(max([len("table"), *map(len, names)]), max(width - beside, LEAST_NAME))


def cut(text: str, width: int) -> str:
    """A text on one line; of a longer one the beginning and the end: tables differ at the end, mostly."""
    text = printable(" ".join(text.split()))
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def short_span(span_ms: int | None) -> str:
    """A span in its largest unit: `3m`."""
    return "" if span_ms is None else span_text(max(span_ms, 0)).partition(" ")[0]


def heading(names: int) -> str:
    """What the columns are."""
    return f"{'table':<{names}}  {'state':<{STATE}} {'debt':>5} {'due':>4} {'hot':>4} {'seen':>4}"


def line_of(one: Standing, names: int, now_ms: int) -> Text:
    """A table in one line."""
    debt = max(one.score, one.hot_score)
    seen = short_span(None if one.looked_at_ms is None else now_ms - one.looked_at_ms)
    is_known = one.looked_at_ms is not None and one.partitions >= 0
    return Text.assemble(
        f"{cut(one.table, names):<{names}}  ",
        (f"{one.word:<{STATE}}", STYLES[one.word]),
        f" {_debt(debt) if is_known else '':>5} {_count(one.due):>4} {_count(one.hot):>4} {seen:>4}",
    )


def why_lines(one: Standing, width: int, indent: str = "    ") -> Iterator[Text]:
    """Why it is held back, as whole words in as many lines as that takes."""
    if not one.why:
        return
    line = indent
    for word in printable(" ".join(one.why.split())).split():
        if len(line) + len(word) + 1 > width and line.strip():
            yield Text(line, style="dim")
            line = indent
        line += f"{'' if line == indent else ' '}{word}"
    yield Text(line, style="dim")


def _debt(score: float) -> str:
    return f"{score:.2f}" if score < 100 else f"{score:.0f}"


def _count(number: int) -> str:
    return "" if not number else str(number) if number < 10_000 else f"{number // 1000}k"
