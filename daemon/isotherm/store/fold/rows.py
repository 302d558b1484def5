"""Values of ours in rows of the fold, which is made again where they cannot be read."""

from typing import TypeVar

from isotherm.store import database

Value = TypeVar("Value")

REMEDY = "the daemon makes its table again; if it is still so, delete fold.db, which it makes again too"


def from_row(kind: type[Value], text: str | bytes) -> Value:
    """A value of ours from a row of the fold. Raises StoreError: it was damaged, or another version wrote it."""
    return database.from_row(kind, text, REMEDY)
