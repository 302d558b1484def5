"""Programs of ours have no pandas: PyArrow would import it where it is installed, to ask it what our values are not.

That is a fifth of the start of a daemon, and half of the start of a rewrite. A library must not decide this for the
program that uses it, so only what starts a process of ours says so.
"""

import sys


class _NoPandas:
    """Says that there is none."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ImportError("not needed here")


def without_pandas() -> None:
    """From now on this process does not find it."""
    sys.meta_path.insert(0, _NoPandas())
