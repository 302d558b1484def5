"""The ledger: the durable record of every operation, deletion, halt and quarantine, with the whys.

Small, and the only thing that tables cannot give back: back it up. What must be known after a crash stands in it
before it is done: a job before it starts, a file before it is deleted.

What holds tables back (halts, pauses, quarantines) stands on a topic too, so that it follows a table to another daemon
(`holds`); here is what was read there, and what is still to be told.
"""

from collections.abc import Mapping
from pathlib import Path

from isotherm.core.observations import PoliciesLoaded
from isotherm.store.database import connect, from_json, to_json
from isotherm.store.ledger.accounts import Accounts
from isotherm.store.ledger.deletions import Deletions
from isotherm.store.ledger.holds import Holds
from isotherm.store.ledger.operations import Operations
from isotherm.store.ledger.schema import VERSIONS

KEEP_MS = 90 * 86_400_000
"""Finished operations, deletions and accounts are kept this long."""
KEEP_DELETIONS_MS = 7 * 86_400_000
"""Which files went is kept this long; how many stands with the operation."""
PRUNED_AT_ONCE = 2000
"""Rows of each kind that one call forgets: some 20 ms."""
KEEP_CHANGES_MS = 31 * 86_400_000
"""Recorded changes are kept this long: a month is what `simulate` replays."""

_TAKEN_IS_OVER = """
NOT EXISTS (SELECT 1 FROM operations WHERE operations.job_id = taken.job_id AND started_at_ms > ?)
AND NOT EXISTS (
    SELECT 1 FROM deletions WHERE deletions.job_id = taken.job_id AND state IN ('marked', 'waiting')
)
"""
"""While files of an expiry wait, it must be known which snapshots it took: one that is back keeps them."""


class Ledger(Operations, Deletions, Accounts, Holds):
    """The ledger of all tables."""

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        self._db = connect(path, VERSIONS, read_only=read_only, is_durable=True)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    @property
    def id(self) -> str:
        """What tells this ledger from others; a lost one does not come back under its name."""
        return str(self._db.execute("SELECT value FROM facts WHERE name = 'id'").fetchone()[0])

    @property
    def is_new(self) -> bool:
        """Whether nobody has found out yet if it took the place of a lost one."""
        return bool(int(self._db.execute("SELECT value FROM facts WHERE name = 'is_new'").fetchone()[0]))

    @property
    def acts(self) -> int:
        """How many things that cannot be undone this ledger knows of."""
        return int(self._db.execute("SELECT value FROM facts WHERE name = 'acts'").fetchone()[0])

    def act(self, at_least: int = 0) -> int:
        """Count one more, before it is done; gives the count, which is then above `at_least`."""
        acts = max(self.acts, at_least) + 1
        self._db.execute("UPDATE facts SET value = ? WHERE name = 'acts'", (acts,))
        return acts

    def settle_in(self) -> None:
        """It is known whether it took the place of a lost one."""
        self._db.execute("UPDATE facts SET value = 0 WHERE name = 'is_new'")

    def deletions_held(self) -> str | None:
        """Why nothing is deleted; None: it may be."""
        return next((hold.why for hold in self.holds(self.id)), None)

    # Policies

    def reloaded(self, loaded: PoliciesLoaded, texts: Mapping[str, str], now_ms: int) -> None:
        """The policies were read anew: what it meant, and the files that are in force now, by name."""
        with self.transaction():
            self._db.execute("INSERT INTO reloads (at_ms, value) VALUES (?, ?)", (now_ms, to_json(loaded)))
            self._db.execute("DELETE FROM policies")
            self._db.executemany("INSERT INTO policies VALUES (?, ?)", texts.items())

    def policies(self) -> dict[str, str]:
        """The files that were in force when they were last read, by name."""
        return dict(self._db.execute("SELECT name, text FROM policies ORDER BY name").fetchall())

    def reloads(self, limit: int = 100) -> list[tuple[int, PoliciesLoaded]]:
        """When the policies became different, and how; newest first."""
        rows = self._db.execute("SELECT at_ms, value FROM reloads ORDER BY number DESC LIMIT ?", (limit,))
        return [(at_ms, from_json(PoliciesLoaded, value)) for at_ms, value in rows]

    def prune(self, now_ms: int, limit: int = PRUNED_AT_ONCE) -> bool:
        """Forget some of what is long over; whether there is more of it."""
        before_ms = now_ms - KEEP_MS
        old = {
            "operations": ("job_id", "started_at_ms < ? AND state IN ('done', 'failed')", before_ms),
            "deletions": ("uuid, path", "ended_at_ms < ?", now_ms - KEEP_DELETIONS_MS),
            "reloads": ("number", "at_ms < ?", before_ms),
            "accounts": ("uuid, snapshot_id", "announced AND received_at_ms < ?", before_ms),
            "changes": ("uuid, snapshot_id", "received_at_ms < ?", now_ms - KEEP_CHANGES_MS),
            "taken": (
                "job_id, snapshot_id",
                _TAKEN_IS_OVER,
                before_ms,
            ),
        }
        has_more = False
        with self.transaction():
            for table, (key, condition, than_ms) in old.items():
                found = self._db.execute(
                    f"DELETE FROM {table} WHERE ({key}) IN "  # noqa: S608 (our own words)
                    f"(SELECT {key} FROM {table} WHERE {condition} LIMIT ?)",
                    (than_ms, limit),
                )
                has_more = has_more or found.rowcount >= limit
        self._db.execute("PRAGMA incremental_vacuum(1000)")
        return has_more
