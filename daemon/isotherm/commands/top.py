"""`isotherm top`: a running daemon on one screen, drawn again each second from its own port.

Nothing is asked of the stores, the catalog or the broker, so it may stay open for as long as somebody likes to look.
"""

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import typer
from rich.live import Live

from isotherm.commands.running_daemon import ask_daemon
from isotherm.commands.terminal import out, plain_errors
from isotherm.commands.top_screen import screen
from isotherm.runtime.clock import now_ms
from isotherm.runtime.config import IsothermConfig, load_config
from isotherm.runtime.exit_codes import EXIT_ERROR

EVERY_S = 1.0
QUITS = frozenset("qQ\x03\x04")


def watch(config: Path, *, once: bool) -> None:
    """Show the daemon of a configuration until a person has seen enough, or once where nobody looks on."""
    with plain_errors():
        loaded = load_config(config)
        if once or not (sys.stdin.isatty() and sys.stdout.isatty()):
            answer = ask_daemon(loaded)
            out.print(screen(answer, now_ms(), out.width, out.height if out.is_terminal else None))
            raise typer.Exit(EXIT_ERROR if answer.why_not else 0)
        _live(loaded)


def _live(config: IsothermConfig) -> None:
    with _keys() as pressed, Live(console=out, screen=True, auto_refresh=False) as live:
        while True:
            # The last line stays empty: a terminal would scroll behind it.
            drawn = screen(ask_daemon(config, EVERY_S), now_ms(), out.width, out.height)
            live.update(drawn, refresh=True)
            if pressed(EVERY_S) & QUITS:
                return


@contextmanager
def _keys() -> Iterator["_Pressed"]:
    """Read keys one by one, and leave the terminal as it was, however this ends."""
    # There is none on Windows, where `--once` still works.
    import termios
    import tty

    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    ended = signal.signal(signal.SIGTERM, _end)
    try:
        tty.setcbreak(file)
        yield _Pressed(file)
    except KeyboardInterrupt:
        pass
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)
        signal.signal(signal.SIGTERM, ended)


def _end(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


class _Pressed:
    """The keys that are pressed within a time."""

    def __init__(self, file: int) -> None:
        self._file = file

    def __call__(self, within_s: float) -> set[str]:
        """Wait for keys for so long; none is an answer too."""
        ready, _, _ = select.select([self._file], [], [], within_s)
        if not ready:
            return set()
        pressed = os.read(self._file, 1024)
        return set(pressed.decode(errors="replace")) if pressed else {"q"}  # the terminal is gone
