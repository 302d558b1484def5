"""A stream to which whatever is written loses what clients repeat of secrets, whoever worded it.

Tracebacks go by no logger, nor do warnings of libraries where no log is set up: in a command, and in the program in which
rewrites run. Python asks for `sys.stderr` each time, so to put one in its place is enough.
"""

import sys
from collections.abc import Iterable
from typing import Any, TextIO

from isotherm.runtime.secrets import without_secrets


class CleanStream:
    """Any stream of text; all but writing is done by it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write what may be read; gives the length of what was asked for, as its callers expect."""
        self._stream.write(without_secrets(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of them."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def clean_errors() -> None:
    """Have nothing that this process writes to standard error repeat a secret."""
    # None where it was closed before the process began: then nothing is written to it.
    if sys.stderr is not None and not isinstance(sys.stderr, CleanStream):
        sys.stderr = CleanStream(sys.stderr)
