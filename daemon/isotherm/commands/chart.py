"""Pictures over time in a terminal: lines of one or two series, in plain characters where nothing better is to be had.

The only module that knows plotext. It draws what it is given; what is worth a picture is decided elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from plotext import figure

HEIGHT = 10
"""Lines of one picture, title and times included: two of them and a table fit on a large screen."""
FINE = (("braille", "⠤"), ("hd", "▄"))
"""How the first and the second series are drawn, and how the heading shows it: different also without colour."""
PLAIN = (("*", "*"), ("o", "o"))
SHADES = (94, 92)
"""The colours that plotext's theme `simple` gives the first two series, as SGR codes."""
_TO_ASCII = str.maketrans("─│┌┐└┘├┤┬┴┼", "-|+++++++++")


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a picture."""

    name: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Ticks:
    """Where an axis says something, and what."""

    places: Sequence[float]
    labels: Sequence[str]


def draw(
    title: str,
    at: Sequence[float],
    series: Sequence[Series],
    *,
    times: Ticks,
    amounts: Ticks,
    width: int,
    colour: bool,
    ascii_only: bool,
) -> str:
    """A picture as text; `at` holds the times, rising."""
    marks = PLAIN if ascii_only else FINE
    figure.clear()
    figure.plot_size(width, HEIGHT - 1)
    figure.theme("simple" if colour else "colorless")
    for one, (marker, _) in zip(series, marks, strict=False):
        signal = figure.signal(list(at), list(one.values), marker=marker)
        signal.lines()
        figure.draw(signal)
    figure.ruler("x").ticks(list(times.places), list(times.labels))
    figure.ruler("y").lim(min(amounts.places), max(amounts.places))
    figure.ruler("y").ticks(list(amounts.places), list(amounts.labels))
    names = [f"{mark} {one.name}" for one, (_, mark) in zip(series, marks, strict=False)]
    room = " " * (width - len(title) - len("   ".join(names)))
    if colour:
        names = [f"\x1b[{shade}m{name}\x1b[0m" for name, shade in zip(names, SHADES, strict=False)]
    picture = str(figure.build().string(colorless=not colour))
    if ascii_only:
        picture = picture.translate(_TO_ASCII)
    lines = [f"{title}{room}{'   '.join(names)}", *picture.splitlines()]
    return "\n".join(line.rstrip() for line in lines)
