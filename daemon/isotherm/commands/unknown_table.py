"""What a person is told who names a table that there is not: the names that there are, as far as they are known.

It is a mistake in what was typed (exit code 2), whether the daemon or the catalog says so.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from isotherm.runtime.config import IsothermConfig
from isotherm.service.ports import TableMissing, UnknownTable
from isotherm.store.database import StoreError, StoreTrouble
from isotherm.store.fold import Fold
from isotherm.store.folder import FOLD

SHOWN = 5
"""Tables that are named where one is not known."""


def nearest(table: str, names: Collection[str]) -> str:
    """The names that are nearest to one that was typed, else the first ones."""
    near = get_close_matches(table, names, SHOWN) or sorted(names)[:SHOWN]
    more = f", and {len(names) - len(near)} more" if len(names) > len(near) else ""
    return ", ".join(near) + more if names else "none yet"


@contextmanager
def in_the_catalog(table: str, config: IsothermConfig) -> Iterator[None]:
    """For a table that a person named and that is asked of the catalog.

    Raises:
        UnknownTable: the catalog has no such table.
    """
    try:
        yield
    except TableMissing as err:
        names = _names_known(config)
        hint = "" if names is None else f"; the daemon knows: {nearest(table, names)}"
        raise UnknownTable(f"{err}{hint}") from err


def _names_known(config: IsothermConfig) -> set[str] | None:
    """The tables in the daemon's fold, or None where there is none to read."""
    try:
        fold = Fold(config.state.path / FOLD, read_only=True)
    except (StoreError, StoreTrouble):
        return None
    try:
        return {row.state.table.name for row in fold.tables().values()}
    except StoreTrouble:
        return None
    finally:
        fold.close()
