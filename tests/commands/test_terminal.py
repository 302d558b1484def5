"""What is printed is what is there: names and values of tables are anybody's to choose."""

import json
import subprocess
import sys
import textwrap

import pytest
from rich.table import Table
from rich.text import Text

from isotherm.commands.terminal import err, out, print_json

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


SIGNED = "POST http://user:huntér2@host/v1?sig=hunter2%3D (403)"
CLEAN = "POST http://***@host/v1?*** (403)"


@pytest.mark.parametrize("console", [out, err], ids=["answers", "the rest"])
def test_no_secret_is_printed_however_narrow_the_terminal_is(console):
    """A line that ends within one would show what is before, or behind."""
    grid = Table(show_header=False, box=None)
    grid.add_column(width=20, overflow="fold")
    grid.add_row(SIGNED)
    grid.add_row(Text(SIGNED, style="red"))
    with console.capture() as printed:
        console.print(SIGNED, Text(SIGNED), grid)

    assert "".join(printed.get().split()) == 4 * "".join(CLEAN.split())


def test_no_secret_is_in_an_answer_as_json(capsys):
    print_json(
        {"why": SIGNED, "rows": [{"told": (SIGNED,), "count": 2, "share": 0.5, "is": True, "no": None}]}
    )

    assert json.loads(capsys.readouterr().out) == {
        "why": CLEAN,
        "rows": [{"told": [CLEAN], "count": 2, "share": 0.5, "is": True, "no": None}],
    }


@pytest.mark.parametrize("main", ["isotherm.cli", "isotherm_ingest.cli"])
def test_what_ends_a_program_by_surprise_repeats_no_secret(main):
    """Nor what a library warns of, where no log is set up."""
    program = f"""
        import logging
        from {main} import app, main

        @app.command()
        def fail():
            logging.getLogger("urllib3").warning("retrying %s", {SIGNED!r})
            raise OSError({SIGNED!r})

        main()
        """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), "fail"], capture_output=True, check=False, text=True
    )

    assert ended.returncode == 1
    assert f"retrying {CLEAN}" in ended.stderr
    assert f"OSError: {CLEAN}" in ended.stderr
    assert "hunt" not in ended.stderr
