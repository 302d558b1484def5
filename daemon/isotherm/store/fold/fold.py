"""The fold on disk: tables, partitions with their latest verdicts, the journal, intents and writers' words.

A cache: everything in it can be had again from the tables and the control topic. Rows stay on disk; a planning round
reads those that were touched or whose verdict may have changed by itself. What an event costs here depends on what it
touches: the log of a table's snapshots stands apart, and every question that an event or a round asks has an index.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.tables import Astray, Snapshot, TableFacts
from isotherm.core.partition_state import PartitionState
from isotherm.core.state import TableState
from isotherm.store.database import StoreBusy, StoreError, connect
from isotherm.store.fold.journal import Journal
from isotherm.store.fold.partitions import Partitions
from isotherm.store.fold.schema import SCHEMA, VERSION
from isotherm.store.fold.tables import Tables
from isotherm.store.fold.troubles import Troubles
from isotherm.store.fold.writers import Writers


class Fold(Tables, Partitions, Journal, Writers, Troubles):
    """The fold of all tables."""

    def __init__(self, path: Path | None, *, read_only: bool = False, is_suspect: bool = False) -> None:
        self.path, self.is_read_only = path, read_only
        self.db = connect(path, (SCHEMA,), VERSION, read_only=read_only, is_suspect=is_suspect)

    @classmethod
    def open_or_rebuild(cls, path: Path, *, is_suspect: bool = False) -> tuple["Fold", str | None]:
        """The fold, made again where the file is corrupt or of another version; then also why.

        Args:
            path: the file.
            is_suspect: look thoroughly whether it is corrupt.

        Raises:
            StoreError: it is locked, the disk is full, or it cannot be opened: that is no reason to delete it.
        """
        try:
            return cls(path, is_suspect=is_suspect), None
        except StoreError as err:
            if isinstance(err.__cause__, StoreBusy):
                raise
            for leftover in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
                leftover.unlink(missing_ok=True)
            return cls(path), str(err)

    def close(self) -> None:
        """Let go of the file."""
        self.db.close()

    @property
    def ledger(self) -> str | None:
        """The id of the ledger beside which this fold grew, or None where it has not begun to."""
        row = self.db.execute("SELECT ledger FROM about").fetchone()
        return None if row is None or row[0] is None else str(row[0])

    @property
    def rules(self) -> str | None:
        """By which rules its verdicts were made, or None where none were."""
        row = self.db.execute("SELECT rules FROM about").fetchone()
        return None if row is None else row[0]

    def decide_by(self, rules: str) -> None:
        """Have every verdict made again if it was made by other rules: another default, another planner."""
        if self.rules == rules:
            return
        with self.transaction():
            self._note(self.ledger, rules)
            for uuid in self.names():
                self.touch(uuid, None)

    def _note(self, ledger: str | None, rules: str | None) -> None:
        self.db.execute("DELETE FROM about")
        self.db.execute("INSERT INTO about VALUES (?, ?)", (ledger, rules))

    def grow_beside(self, ledger: str) -> None:
        """From now on this ledger is beside it."""
        with self.transaction():
            self._note(ledger, self.rules)

    def drop(self, uuid: str) -> None:
        """Forget a table, but for what writers said of it: a table that comes back is still theirs to write."""
        for name in ("tables", "partitions", "snapshots", "astray", "journal"):
            self.db.execute(f"DELETE FROM {name} WHERE uuid = ?", (uuid,))  # noqa: S608 (our own table names)

    def replace(
        self,
        state: TableState,
        facts: TableFacts,
        partitions: Mapping[PartitionKey, PartitionState],
        snapshots: Sequence[Snapshot],
        astray: Sequence[Astray] = (),
    ) -> None:
        """A table after a full scan: its partitions and journal are new, intents and words stay."""
        uuid = state.table.uuid
        with self.transaction():
            self.db.execute("DELETE FROM partitions WHERE uuid = ?", (uuid,))
            self.db.execute("DELETE FROM journal WHERE uuid = ?", (uuid,))
            self.save_table(state, facts, state.head, snapshots, astray)
            self.begin_partitions(uuid, partitions)
