"""The page that `isotherm look` writes: one file, without scripts, to be sent to whoever decides.

Made as a tree of elements, so that no name of a table becomes a part of the page.
"""

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, SubElement, tostring

from isotherm.commands.look_findings import Lake, Looked, gains, held, notes
from isotherm.commands.plan_lines import verdicts_text
from isotherm.core.units import clock_text, size_text
from isotherm.runtime.text import counted, printable

BAR, HEIGHT, GAP = 360, 14, 4
"""Of the bars, in pixels."""
COLUMN, TALL = 22, 90
"""Of the pictures of file sizes."""
TODAY, THEN = "#b4540a", "#2f6f4f"
STYLE = f"""
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #222; }}
h1 {{ font-size: 1.4rem; }} h2 {{ font-size: 1.1rem; margin: 2.5rem 0 .3rem; overflow-wrap: anywhere; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ text-align: left; padding: .25rem .6rem .25rem 0; vertical-align: top; overflow-wrap: anywhere; }}
th {{ color: #666; font-weight: 500; }} td.number, th.number {{ text-align: right; }} td.number, td.word {{ white-space: nowrap; }}
p {{ margin: .3rem 0; }} .dim {{ color: #666; }} .bad {{ color: #a11; }}
.today {{ color: {TODAY}; }} .then {{ color: {THEN}; }}
"""


def page_of(lake: Lake) -> str:
    """The page, as HTML."""
    html = Element("html", lang="en")
    head = SubElement(html, "head")
    SubElement(head, "meta", charset="utf-8")
    SubElement(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    _text(head, "title", f"Isotherm: catalog {lake.catalog}")
    SubElement(head, "style").text = STYLE
    body = SubElement(html, "body")
    _text(body, "h1", f"Catalog {lake.catalog}, {clock_text(lake.at_ms)} UTC")
    _summary(body, lake)
    for one in lake.tables:
        if one.ails or lake.is_named or len(lake.tables) == 1:
            _table(body, one)
    for other in lake.unread:
        _text(body, "p", str(other), "bad")
    for line in notes(lake):
        _text(body, "p", line, "dim")
    return "<!doctype html>\n" + tostring(html, encoding="unicode", method="html")


def _text(parent: Element, tag: str, text: str, of: str = "") -> Element:
    element = SubElement(parent, tag, {"class": of} if of else {})
    element.text = printable(text)
    return element


def _summary(body: Element, lake: Lake) -> None:
    files = sum(one.examination.files for one in lake.tables)
    then = sum(one.examination.in_the_end.files for one in lake.tables)
    if not files:
        return
    said = SubElement(body, "p")
    said.text = f"{counted(len(lake.tables), 'table')}. Whoever reads all of them opens "
    _text(said, "b", f"{files:,} files", "today").tail = " today, and "
    _text(said, "b", f"{then:,}", "then").tail = " once they are compacted."
    most = max(max(one.examination.files, one.examination.in_the_end.files) for one in lake.tables)
    table = SubElement(body, "table")
    row = SubElement(table, "tr")
    for heading, of in (
        ("table", ""),
        ("files, today and then", ""),
        ("to rewrite", "number"),
        ("snapshots", "number"),
    ):
        _text(row, "th", heading, of)
    for one in lake.tables:
        found = one.examination
        row = SubElement(table, "tr")
        _text(row, "td", one.table)
        _bars(SubElement(row, "td"), ((found.files, TODAY), (found.in_the_end.files, THEN)), most)
        _text(row, "td", size_text(found.in_the_end.work.bytes), "number")
        _text(row, "td", f"{found.snapshots:,} ({found.may_expire:,} may go)", "number")


def _bars(parent: Element, values: Sequence[tuple[int, str]], most: int) -> None:
    """Bars one below the other, with their numbers behind them."""
    height = len(values) * (HEIGHT + GAP)
    picture = SubElement(parent, "svg", width=str(BAR + 80), height=str(height), role="img")
    for place, (value, colour) in enumerate(values):
        width, top = max(round(BAR * value / max(most, 1)), 1), place * (HEIGHT + GAP)
        SubElement(picture, "rect", y=str(top), width=str(width), height=str(HEIGHT), fill=colour)
        _label(picture, width + 6, top + HEIGHT - 2, f"{value:,}")


def _label(picture: Element, left: float, bottom: float, text: str, anchor: str = "start") -> None:
    said = {"x": str(left), "y": str(bottom), "font-size": "12", "fill": "#444", "text-anchor": anchor}
    SubElement(picture, "text", said).text = text


def _table(body: Element, one: Looked) -> None:
    _text(body, "h2", one.table)
    _text(body, "p", ", ".join(held(one)), "dim")
    for line in gains(one.examination):
        _text(body, "p", line)
    _text(body, "p", f"Partitions: {verdicts_text(one.examination.verdicts)}.")
    if one.examination.sizes:
        _sizes(body, one.examination.sizes)
    table = SubElement(body, "table")
    for said in one.lines:
        row = SubElement(table, "tr")
        for text, of in ((str(said.verdict), "word"), (said.subject, ""), (said.why, "")):
            _text(row, "td", text, of)


def _sizes(body: Element, sizes: Iterable[tuple[int, int]]) -> None:
    """How many data files there are of which size: a column for each size class that has some."""
    columns = list(sizes)
    most = max(files for _, files in columns)
    _text(body, "p", "Data files by size:", "dim")
    width = len(columns) * 3 * COLUMN
    picture = SubElement(body, "svg", width=str(width), height=str(TALL + 36), role="img")
    for place, (below, files) in enumerate(columns):
        tall, left = max(round(TALL * files / most), 1), place * 3 * COLUMN + COLUMN
        top = TALL + 16 - tall
        SubElement(picture, "rect", x=str(left), y=str(top), width=str(COLUMN), height=str(tall), fill=TODAY)
        _label(picture, left + COLUMN / 2, top - 3, f"{files:,}", "middle")
        _label(picture, left + COLUMN / 2, TALL + 32, f"< {size_text(below)}", "middle")
