"""The journal in the fold: the newest changes of each table, so that they can be undone."""

from collections.abc import Sequence

from isotherm.core.model.changes import Change
from isotherm.core.state import Prior
from isotherm.store.database import Part, to_json
from isotherm.store.fold.rows import from_row

JOURNAL_LENGTH = 200
"""Changes kept for each table to undo; a rollback beyond them rebuilds the table."""
JOURNAL_BYTES = 64 * 1024**2
"""And of wide ones fewer: a mirror of six thousand partitions may write all of them in each commit."""
BYTES_OF_PARTITION = 600
"""What a change and the state before it take for each partition that it touched."""


class Journal(Part):
    """The journals of all tables."""

    def record(self, uuid: str, changes: Sequence[tuple[Change, Prior]], on_faith: int = 0) -> None:
        """Remember changes, so that they can be undone and held against the manifest list.

        The newest `on_faith` stay, however large they are: what cannot be held against it would count for true.
        """
        rows = [(change.snapshot_id, to_json(change), to_json(prior)) for change, prior in changes]
        self.db.executemany(
            "INSERT OR REPLACE INTO journal (uuid, snapshot_id, bytes, change, prior) VALUES (?, ?, ?, ?, ?)",
            [
                (uuid, snapshot_id, len(change) + len(prior), change, prior)
                for snapshot_id, change, prior in rows
            ],
        )
        kept_bytes = 0
        newest = self.db.execute(
            "SELECT number, bytes FROM journal WHERE uuid = ? ORDER BY number DESC", (uuid,)
        )
        for place, (number, size_bytes) in enumerate(newest):
            kept_bytes += size_bytes
            if place >= JOURNAL_LENGTH or (place >= on_faith and kept_bytes > JOURNAL_BYTES):
                self.db.execute("DELETE FROM journal WHERE uuid = ? AND number <= ?", (uuid, number))
                break

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
