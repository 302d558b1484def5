"""How work beside the loop is asked to end."""

from collections.abc import Callable

IsStopped = Callable[[], bool]
"""Asked between two steps, by any thread: true ends the work. Whoever asks has got on."""


class Stopped(Exception):  # noqa: N818 (it is no error)
    """The caller does not want the answer any more."""


def never() -> bool:
    """Go on to the end."""
    return False
