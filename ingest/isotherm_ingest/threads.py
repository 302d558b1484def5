"""What a thread must know of the one that made it: the fields that stand in every line of the log.

Python gives a new thread an empty context, and Spark calls us from threads of its own.
"""

import contextvars
from collections.abc import Callable


def context() -> Callable[[], None]:
    """The present context, as a function that a thread calls first of all."""
    here = contextvars.copy_context()

    def take_over() -> None:
        for variable, value in here.items():
            variable.set(value)

    return take_over
