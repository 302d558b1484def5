"""PyIceberg's own file, `.pyiceberg.yaml`: it reads it while it is imported, and complains in its own way."""

from collections.abc import Iterator
from contextlib import contextmanager

from isotherm.service.ports import Unavailable


@contextmanager
def reading_its_own_file() -> Iterator[None]:
    """Import PyIceberg in here. Raises Unavailable: its file cannot be read."""
    try:
        yield
    except ImportError:
        raise
    except Exception as error:
        # Not what it says: a password may be in the line.
        raise Unavailable(
            "PyIceberg cannot read its .pyiceberg.yaml (in the home folder, in this one, or in PYICEBERG_HOME): "
            f"{type(error).__name__}{_line_of(error)}"
        ) from error


def _line_of(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    return "" if mark is None else f" in line {mark.line + 1}"
