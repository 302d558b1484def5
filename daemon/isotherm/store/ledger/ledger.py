"""The ledger: the durable record of every operation, deletion, halt and quarantine, with the whys.

Small, and the only thing that tables cannot give back: back it up. What must be known after a crash stands in it
before it is done: a job before it starts, a file before it is deleted.

What holds tables back (halts, pauses, quarantines) stands on a topic too, so that it follows a table to another daemon
(`holds`); here is what was read there, and what is still to be told.
"""

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from isotherm.core.observations import PoliciesLoaded
from isotherm.store.database import StoreError, connect, to_json
from isotherm.store.ledger.accounts import Accounts
from isotherm.store.ledger.deletions import HAS_BEFORE, JOB_BEFORE, Deletions
from isotherm.store.ledger.holds import Holds
from isotherm.store.ledger.operations import Operations
from isotherm.store.ledger.places import Places
from isotherm.store.ledger.quarantine import Quarantine
from isotherm.store.ledger.reader_positions import ReadPositions
from isotherm.store.ledger.reads import ReadTables
from isotherm.store.ledger.rows import from_row
from isotherm.store.ledger.schema import VALUES, VERSIONS
from isotherm.store.ledger.silences import Silences

KEEP_MS = 90 * 86_400_000
"""Finished operations, deletions and accounts are kept this long, and what was read last so long ago."""
KEEP_DELETIONS_MS = 7 * 86_400_000
"""Which files went is kept this long; how many stands with the operation."""
PRUNED_AT_ONCE = 2000
"""Rows of each kind that one call forgets: some 20 ms."""
KEEP_CHANGES_MS = 31 * 86_400_000
"""Recorded changes are kept this long: a month is what `simulate` replays."""

MAX_BYTES = 4 * 1024**3
"""Above this size the oldest history goes before its time: which files were deleted, accounts, changes. At 1,000 tables
with a commit a minute that is a gigabyte a day. What is open (jobs, marks, holds) is never forgotten."""
GIVEN_BACK_AT_ONCE = 1000
"""Pages of the file that one call gives back."""
_IS_FOLLOWED = (
    "announced AND EXISTS (SELECT 1 FROM accounts AS later INDEXED BY accounts_told WHERE later.uuid = accounts.uuid "
    "AND later.announced AND (later.sequence_number, later.received_at_ms, later.committed_at_ms, later.snapshot_id) > "
    "(accounts.sequence_number, accounts.received_at_ms, accounts.committed_at_ms, accounts.snapshot_id))"
)
"""Of the newest announced snapshot of a table the account stays, however old, for as long as the table is there: up to
it everything was announced. In tables of version 1 every snapshot has the number 0, and a scan receives all of a table at
one moment: then the time of the commit tells, because ids are drawn by chance."""
_HISTORY = (
    ("deletions", "uuid, path", "ended_at_ms", "TRUE"),
    ("accounts", "uuid, snapshot_id", "received_at_ms", _IS_FOLLOWED),
    ("changes", "uuid, snapshot_id", "received_at_ms", "TRUE"),
)
"""What only says what was: table, key, its time, and which rows."""
JOBS_AT_ONCE = 500
"""Expiries of which one call looks whether what they took may be forgotten: some 5 ms. In a week a thousand tables have
7,000 of them, each with as many rows as it took snapshots."""
_SOME_THAT_TOOK = (
    "WITH RECURSIVE found (job_id) AS (SELECT MIN(job_id) FROM taken WHERE job_id > ?1 UNION ALL "
    "SELECT (SELECT MIN(job_id) FROM taken WHERE job_id > found.job_id) "
    "FROM found WHERE found.job_id IS NOT NULL LIMIT ?2) SELECT job_id FROM found WHERE job_id IS NOT NULL"
)
"""The next expiries that took something, one after the other: their rows are not counted."""
_IS_OVER = (
    "SELECT job.value FROM json_each(?2) AS job WHERE "  # noqa: S608 (our own words)
    "NOT EXISTS (SELECT 1 FROM operations WHERE operations.job_id = job.value AND started_at_ms > ?1) "
    "AND NOT EXISTS (SELECT 1 FROM deletions WHERE deletions.job_id = job.value "
    "AND state IN ('marked', 'waiting')) "
    f"AND job.value NOT IN (SELECT {JOB_BEFORE} FROM deletions WHERE {HAS_BEFORE} "
    "AND state = 'marked' AND state IN ('marked', 'waiting') AND job_id IN "
    "(SELECT job_id FROM operations WHERE state IN ('running', 'unknown') UNION SELECT job_id FROM settled))"
)
"""While files of an expiry wait, it must be known which snapshots it took: one that is back keeps them. So it must while
another expiry, which has not ended, may give them back."""


class Ledger(Operations, Deletions, Quarantine, Places, Accounts, Holds, Silences, ReadTables, ReadPositions):
    """The ledger of all tables."""

    def __init__(self, path: Path | None, *, read_only: bool = False, is_suspect: bool = False) -> None:
        self.db = connect(
            path, VERSIONS, read_only=read_only, is_durable=True, is_suspect=is_suspect, values=VALUES
        )
        self._looked_through = ""
        """The expiry up to which was looked whether what they took may be forgotten."""

    def close(self) -> None:
        """Let go of the file."""
        self.db.close()

    @property
    def id(self) -> str:
        """What tells this ledger from others; a lost one does not come back under its name."""
        return str(self.db.execute("SELECT value FROM facts WHERE name = 'id'").fetchone()[0])

    @property
    def is_new(self) -> bool:
        """Whether nobody has found out yet if it took the place of a lost one."""
        return bool(int(self.db.execute("SELECT value FROM facts WHERE name = 'is_new'").fetchone()[0]))

    @property
    def acts(self) -> int:
        """How many things that cannot be undone this ledger knows of."""
        return int(self.db.execute("SELECT value FROM facts WHERE name = 'acts'").fetchone()[0])

    def act(self, at_least: int = 0) -> int:
        """Count one more, before it is done; gives the count, which is then above `at_least`."""
        acts = max(self.acts, at_least) + 1
        self.db.execute("UPDATE facts SET value = ? WHERE name = 'acts'", (acts,))
        return acts

    def settle_in(self) -> None:
        """It is known whether it took the place of a lost one."""
        self.db.execute("UPDATE facts SET value = 0 WHERE name = 'is_new'")

    def deletions_held(self) -> str | None:
        """Why nothing is deleted, or None where deletions may go ahead."""
        try:
            return next((hold.why for hold in self.holds(self.id)), None)
        except StoreError as err:
            return f"why it was held back cannot be read: {err}"

    def is_hold_damaged(self) -> bool:
        """Whether the row cannot be read that says why nothing is deleted."""
        try:
            self.holds(self.id)
        except StoreError:
            return True
        return False

    # Policies

    def reloaded(self, loaded: PoliciesLoaded, texts: Mapping[str, str], now_ms: int) -> None:
        """The policies were read again: what it meant, and the files that are in force now, by name."""
        with self.transaction():
            self.db.execute("INSERT INTO reloads (at_ms, value) VALUES (?, ?)", (now_ms, to_json(loaded)))
            self.db.execute("DELETE FROM policies")
            self.db.executemany("INSERT INTO policies VALUES (?, ?)", texts.items())

    def policies(self) -> dict[str, str]:
        """The files that were in force when they were last read, by name. One that is damaged is no YAML any more."""
        rows = self.db.execute("SELECT name, CAST(text AS BLOB) FROM policies ORDER BY name")
        return {name: _readable(text) for name, text in rows}

    def reloads(self, limit: int = 100) -> list[tuple[int, PoliciesLoaded]]:
        """When the policies became different, and how; newest first."""
        rows = self.db.execute(
            "SELECT at_ms, CAST(value AS BLOB) FROM reloads ORDER BY number DESC LIMIT ?", (limit,)
        )
        return [(at_ms, from_row(PoliciesLoaded, value)) for at_ms, value in rows]

    @property
    def size_bytes(self) -> int:
        """What it holds, without the room that was given back and not taken again."""
        pages, free, size = (
            int(self.db.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size

    def prune(self, now_ms: int, limit: int = PRUNED_AT_ONCE, max_bytes: int = MAX_BYTES) -> bool:
        """Forget some of what is long over, or of the oldest where it grows too large; whether there is more of it."""
        before_ms, week_ms = now_ms - KEEP_MS, now_ms - KEEP_DELETIONS_MS
        # While it may be that the ledger took the place of a lost one, what it does not know are the other's jobs.
        ended = "FALSE" if self.is_new else "state IN ('done', 'failed')"
        with self.transaction():
            counts = [
                self._forget("operations", "job_id", "started_at_ms", ended, before_ms, limit),
                self._forget("reloads", "number", "at_ms", "TRUE", before_ms, limit),
                self._forget("reads", "uuid", "at_ms", "TRUE", before_ms, limit),
            ]
            has_more = self._forget_taken(week_ms, limit)
            too_large = self.size_bytes > max_bytes
            for kind, than_ms in zip(_HISTORY, (week_ms, before_ms, now_ms - KEEP_CHANGES_MS), strict=True):
                counts.append(self._forget(*kind, now_ms if too_large else than_ms, limit))
        # It gives back a page in each step, and Python takes one step of a statement without columns, but in a script.
        self.db.executescript(f"PRAGMA incremental_vacuum({GIVEN_BACK_AT_ONCE})")
        return has_more or any(count >= limit for count in counts)

    def prune_gone(self, tables: Collection[str], now_ms: int, limit: int = PRUNED_AT_ONCE) -> bool:
        """Forget some of what is kept of each table for as long as it is there; whether there is more of it.

        What proofs rest on stays: where tables lie, and files that wait.

        Args:
            tables: the uuids of those that are there.
            now_ms: the time.
            limit: rows of each kind.
        """
        gone = "uuid NOT IN (SELECT value FROM json_each(?3))"
        kinds = (
            ("lateness", "uuid", "at_ms", "TRUE"),
            ("seen", "uuid", "at_ms", "TRUE"),
            ("accounts", "uuid, snapshot_id", "received_at_ms", "announced"),
            ("accounts", "uuid, snapshot_id", "received_at_ms", "NOT announced"),
        )
        there = json.dumps(list(tables))
        with self.transaction():
            counts = [
                self.db.execute(
                    f"DELETE FROM {table} WHERE ({key}) IN "  # noqa: S608 (our own words)
                    f"(SELECT {key} FROM {table} WHERE {time} < ?1 AND {which} AND {gone} LIMIT ?2)",
                    (now_ms - KEEP_MS, limit, there),
                ).rowcount
                for table, key, time, which in kinds
            ]
        return any(count >= limit for count in counts)

    def _forget_taken(self, than_ms: int, limit: int) -> bool:
        """Forget some of what expiries took that are long over; whether there is more of it, or may be."""
        rows = self.db.execute(_SOME_THAT_TOOK, (self._looked_through, JOBS_AT_ONCE))
        jobs = [job_id for (job_id,) in rows]
        over = [job_id for (job_id,) in self.db.execute(_IS_OVER, (than_ms, json.dumps(jobs)))]
        forgotten = self.db.execute(
            "DELETE FROM taken WHERE (job_id, snapshot_id) IN (SELECT job_id, snapshot_id FROM taken "
            "WHERE job_id IN (SELECT value FROM json_each(?)) LIMIT ?)",
            (json.dumps(over), limit),
        ).rowcount
        has_more = len(jobs) == JOBS_AT_ONCE
        if forgotten < limit:
            self._looked_through = jobs[-1] if has_more else ""
        return has_more or forgotten >= limit

    def _forget(self, table: str, key: str, time: str, which: str, than_ms: int, limit: int) -> int:
        """Forget some rows, the oldest first; how many."""
        found = self.db.execute(
            f"DELETE FROM {table} WHERE ({key}) IN "  # noqa: S608 (our own words)
            f"(SELECT {key} FROM {table} WHERE {time} < ?1 AND {which} ORDER BY {time} LIMIT ?2)",
            (than_ms, limit),
        )
        return found.rowcount


def _readable(text: bytes) -> str:
    """The text of a file, where bytes that are no UTF-8 are a character that YAML does not have."""
    return re.sub("[\udc80-\udcff]", "\x01", text.decode("utf-8", "surrogateescape"))
