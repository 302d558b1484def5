"""The part of the ledger about what is read, so that a restart knows it still."""

from collections.abc import Mapping

from isotherm.core.reads import Reads
from isotherm.store.database import Part


class ReadTables(Part):
    """The tables of which scans were reported."""

    def reads(self, uuid: str) -> Reads | None:
        """How often a table is read, or None where nobody has reported a scan of it."""
        row = self.db.execute("SELECT scans, at_ms, since_ms FROM reads WHERE uuid = ?", (uuid,)).fetchone()
        return None if row is None else Reads(*row)

    def keep_reads(self, reads: Mapping[str, Reads]) -> None:
        """Remember how often some tables are read, by uuid."""
        rows = [(uuid, one.scans, one.at_ms, one.since_ms) for uuid, one in reads.items()]
        with self.transaction():
            self.db.executemany("INSERT OR REPLACE INTO reads VALUES (?, ?, ?, ?)", rows)

    def forget_reads(self) -> None:
        """Nobody reports scans any more."""
        self.db.execute("DELETE FROM reads")
