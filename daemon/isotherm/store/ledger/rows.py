"""Values of ours in rows of the ledger, which nobody can make again."""

from typing import TypeVar

from isotherm.store import database

Value = TypeVar("Value")

REMEDY = "restore ledger.db from a backup (docs/runbook.md#restore-the-ledger)"


def from_row(kind: type[Value], text: str | bytes) -> Value:
    """A value of ours from a row of the ledger. Raises StoreError: it was damaged, or another version wrote it."""
    return database.from_row(kind, text, REMEDY)
