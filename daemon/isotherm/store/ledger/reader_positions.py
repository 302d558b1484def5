"""The part of the ledger about readers of tables: a copy of what stands on their topic, for who asks beside the daemon."""

from collections.abc import Iterable

from isotherm.contract.readers import ReadPosition
from isotherm.store.database import Part


class ReadPositions(Part):
    """Up to where readers have read."""

    def positions(self, uuid: str) -> tuple[ReadPosition, ...]:
        """The readers of a table."""
        rows = self.db.execute(
            "SELECT reader, name, snapshot_id, at_ms FROM positions WHERE uuid = ? ORDER BY reader", (uuid,)
        ).fetchall()
        return tuple(
            ReadPosition(table_uuid=uuid, table=name, reader=reader, snapshot_id=snapshot_id, at_ms=at_ms)
            for reader, name, snapshot_id, at_ms in rows
        )

    def why_readers_unknown(self) -> str | None:
        """Why the daemon does not know now who reads what, or None: it does."""
        row = self.db.execute("SELECT value FROM facts WHERE name = 'readers_unknown'").fetchone()
        return None if row is None else str(row[0])

    def doubt_readers(self, why: str | None) -> None:
        """Note why nobody knows who reads what; None: it is known."""
        if why is None:
            self.db.execute("DELETE FROM facts WHERE name = 'readers_unknown'")
        else:
            self.db.execute("INSERT OR REPLACE INTO facts VALUES ('readers_unknown', ?)", (why,))

    def position_keys(self) -> set[str]:
        """The keys of all readers, as on the topic."""
        return {f"{uuid}/{reader}" for uuid, reader in self.db.execute("SELECT uuid, reader FROM positions")}

    def keep_position(self, position: ReadPosition) -> None:
        """Keep where a reader is, in the place of where it was."""
        self.db.execute(
            "INSERT OR REPLACE INTO positions (uuid, reader, name, snapshot_id, at_ms) VALUES (?, ?, ?, ?, ?)",
            (
                position.table_uuid,
                position.reader,
                position.table,
                position.snapshot_id,
                position.at_ms,
            ),
        )

    def forget_positions(self, keys: Iterable[str]) -> None:
        """Some are readers no more."""
        split = [tuple(key.rsplit("/", 1)) for key in keys]
        self.db.executemany("DELETE FROM positions WHERE uuid = ? AND reader = ?", split)
