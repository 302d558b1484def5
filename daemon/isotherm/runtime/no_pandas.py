"""Programs of ours have no pandas: PyArrow would import it where it is installed, to ask it what our values are not.

That is a fifth of the start of a daemon, and half of the start of a rewrite. A library must not decide this for the
program that uses it, so only what starts a process of ours says so. Spark's client does not work without pandas: a daemon that
asks a cluster has it from then on.
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


def with_pandas() -> None:
    """From now on this process finds it again, if it is installed."""
    sys.meta_path[:] = [one for one in sys.meta_path if not isinstance(one, _NoPandas)]
