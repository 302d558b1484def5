"""What is printed is what is there: names and values of tables are anybody's to choose."""

import pytest
from rich.table import Table

from isotherm.commands.terminal import err, out

ODD = ("[/x]", "[error]", "urn:id:5", "[link=http://evil.example]click", "[bold]b[/bold]")


@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize("console", [out, err], ids=["answers", "the rest"])
def test_nothing_is_markup_and_nothing_a_picture(console, text):
    grid = Table(show_header=False, box=None)
    grid.add_column()
    grid.add_row(text)
    with console.capture() as printed:
        console.print(grid)
        console.print(text)

    assert printed.get().split() == [*text.split(), *text.split()]


def test_control_characters_are_spelled_out_before_anything_is_laid_out():
    grid = Table(show_header=False, box=None)
    grid.add_column()
    grid.add_column()
    grid.add_row("k=\x1b1", "one")
    grid.add_row("k=\x1b2", "two")
    with out.capture() as printed:
        out.print(grid)

    assert printed.get().split() == ["k=\\x1b1", "one", "k=\\x1b2", "two"]
