"""The journal in the fold: the newest changes of each table, so that they can be undone."""

from collections.abc import Sequence

from isotherm.core.model.changes import Change
from isotherm.core.state import Prior
from isotherm.store.database import Part, to_json
from isotherm.store.fold.rows import from_row

JOURNAL_LENGTH = 200
"""Changes kept for each table to undo; a rollback beyond them rebuilds the table."""


class Journal(Part):
    """The journals of all tables."""

    def record(self, uuid: str, changes: Sequence[tuple[Change, Prior]]) -> None:
        """Remember changes, so that they can be undone and held against the manifest list."""
        self.db.executemany(
            "INSERT OR REPLACE INTO journal (uuid, snapshot_id, change, prior) VALUES (?, ?, ?, ?)",
            [(uuid, change.snapshot_id, to_json(change), to_json(prior)) for change, prior in changes],
        )
        self.db.execute(
            "DELETE FROM journal WHERE uuid = ? AND number <= "
            "(SELECT number FROM journal WHERE uuid = ? ORDER BY number DESC LIMIT 1 OFFSET ?)",
            (uuid, uuid, JOURNAL_LENGTH),
        )

    def recorded(self, uuid: str, snapshot_id: int) -> tuple[Change, Prior] | None:
        """A change in the journal."""
        row = self.db.execute(
            "SELECT CAST(change AS BLOB), CAST(prior AS BLOB) FROM journal WHERE uuid = ? AND snapshot_id = ?",
            (uuid, snapshot_id),
        ).fetchone()
        return None if row is None else (from_row(Change, row[0]), from_row(Prior, row[1]))

    def forget(self, uuid: str, snapshot_id: int) -> None:
        """Take a change out of the journal: it was undone."""
        self.db.execute("DELETE FROM journal WHERE uuid = ? AND snapshot_id = ?", (uuid, snapshot_id))
