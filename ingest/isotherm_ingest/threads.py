"""What a thread must know of the one that made it, and where each of them is.

A new thread of Python's begins with an empty context, and Spark calls us from threads of its own. So the fields of
each line of the log are handed on.
"""

import contextvars
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

OURS = Path(__file__).parent
DEEPEST = 4
"""Calls of our own that are told of one thread, the last first."""


def context() -> Callable[[], None]:
    """The present context, as a function that a thread calls first of all."""
    here = contextvars.copy_context()

    def take_over() -> None:
        for variable, value in here.items():
            variable.set(value)

    return take_over


def whereabouts() -> dict[str, str]:
    """Of each thread that is in code of ingest, the calls that it has not come back from, the last first."""
    names = {one.ident: one.name for one in threading.enumerate()}
    found = {}
    for ident, frame in sys._current_frames().items():  # noqa: SLF001 (public, for debuggers as this one)
        calls = traceback.extract_stack(frame)[::-1]
        ours = [one for one in calls if OURS in Path(one.filename).parents]
        if ours and ident != threading.get_ident():
            told = [
                f"{Path(one.filename).name}:{one.lineno} {one.name}" for one in [calls[0], *ours[:DEEPEST]]
            ]
            found[names.get(ident, str(ident))] = " < ".join(dict.fromkeys(told))
    return found
