"""The ledger: the durable record of every operation, deletion, halt and quarantine, with the whys.

Small, and the only thing that tables cannot give back: back it up. What must be known after a crash stands in it
before it is done: a job before it starts, a file before it is deleted.

What holds tables back (halts, pauses, quarantines) stands on a topic too, so that it follows a table to another daemon
(`holds`); here is what was read there, and what is still to be told.
"""

import json
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.deletion import Cause, Mark, Seen, pause_ms
from isotherm.core.lateness import Lateness
from isotherm.core.model.changes import Change
from isotherm.core.model.holds import Hold, HoldKind, Quarantine
from isotherm.core.model.jobs import Action, CompactionJob, Outcome, Rewrite
from isotherm.core.observations import PoliciesLoaded
from isotherm.store.database import connect, from_json, to_json, transaction

KEEP_MS = 90 * 86_400_000
"""Finished operations, deletions and accounts are kept this long."""
PASSING = frozenset({"stale", "owner", "stopped", "halted", "paused", "policy"})
"""Ends of an expiry that say nothing against the next one."""
KEEP_DELETIONS_MS = 7 * 86_400_000
"""Which files went is kept this long; how many stands with the operation."""
PRUNED_AT_ONCE = 2000
"""Rows of each kind that one call forgets: some 20 ms."""
KEEP_CHANGES_MS = 31 * 86_400_000
"""Recorded changes are kept this long: a month is what `simulate` replays."""

# One step for each version that was ever written; what a released version has is never changed, only added to by
# another step.
_VERSION_1 = """
CREATE TABLE operations (
    job_id TEXT PRIMARY KEY, uuid TEXT NOT NULL, name TEXT NOT NULL, action TEXT NOT NULL, partition TEXT,
    state TEXT NOT NULL, started_at_ms INTEGER NOT NULL, value TEXT NOT NULL, job TEXT
);
CREATE INDEX operations_table ON operations (uuid, started_at_ms);
CREATE INDEX operations_state ON operations (state);
CREATE TABLE deletions (
    uuid TEXT NOT NULL, path TEXT NOT NULL, job_id TEXT NOT NULL, state TEXT NOT NULL,
    marked_at_ms INTEGER NOT NULL, due_at_ms INTEGER NOT NULL, ended_at_ms INTEGER, PRIMARY KEY (uuid, path)
) WITHOUT ROWID;
CREATE INDEX deletions_due ON deletions (state, due_at_ms);
CREATE TABLE expired (
    uuid TEXT NOT NULL, snapshot_id INTEGER NOT NULL, job_id TEXT NOT NULL, PRIMARY KEY (uuid, snapshot_id)
) WITHOUT ROWID;
CREATE TABLE accounts (
    uuid TEXT NOT NULL, snapshot_id INTEGER NOT NULL, sequence_number INTEGER NOT NULL, origin TEXT NOT NULL,
    committed_at_ms INTEGER NOT NULL, received_at_ms INTEGER NOT NULL, decided_at_ms INTEGER, announced INTEGER NOT NULL,
    PRIMARY KEY (uuid, snapshot_id)
) WITHOUT ROWID;
CREATE TABLE halts (uuid TEXT PRIMARY KEY, reason TEXT NOT NULL, why TEXT NOT NULL, at_ms INTEGER NOT NULL);
CREATE TABLE quarantine (
    uuid TEXT NOT NULL, partition TEXT NOT NULL, until_ms INTEGER NOT NULL, failures INTEGER NOT NULL, why TEXT NOT NULL,
    PRIMARY KEY (uuid, partition)
) WITHOUT ROWID;
"""
_VERSION_2 = """
CREATE INDEX IF NOT EXISTS accounts_open ON accounts (uuid, sequence_number) WHERE NOT announced;
CREATE INDEX IF NOT EXISTS accounts_told ON accounts (uuid, sequence_number) WHERE announced;
CREATE INDEX IF NOT EXISTS accounts_undecided ON accounts (uuid) WHERE decided_at_ms IS NULL;
CREATE TABLE IF NOT EXISTS changes (
    uuid TEXT NOT NULL, snapshot_id INTEGER NOT NULL, received_at_ms INTEGER NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (uuid, snapshot_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS changes_received ON changes (received_at_ms);
CREATE TABLE IF NOT EXISTS lateness (uuid TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE policies (name TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE reloads (number INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, value TEXT NOT NULL);
CREATE TABLE holds (key TEXT PRIMARY KEY, uuid TEXT NOT NULL, value TEXT, told INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX holds_table ON holds (uuid);
CREATE INDEX holds_untold ON holds (key) WHERE NOT told;
INSERT INTO holds SELECT uuid || '/halt', uuid, json_object('kind', 'halt', 'uuid', uuid, 'name', '',
    'why', reason || ': ' || why, 'at_ms', at_ms), 0 FROM halts;
INSERT INTO holds SELECT uuid || '/quarantine/' || partition, uuid, json_object('kind', 'quarantine', 'uuid', uuid,
    'name', '', 'why', why, 'at_ms', until_ms, 'partition', partition, 'until_ms', until_ms, 'failures', failures), 0
    FROM quarantine;
DROP TABLE halts;
DROP TABLE quarantine;
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO facts VALUES ('id', lower(hex(randomblob(16))));
INSERT INTO facts SELECT 'is_new', NOT EXISTS (SELECT 1 FROM accounts) AND NOT EXISTS (SELECT 1 FROM operations);
"""
"""A hold without a value is one that was lifted, and that the topic does not know yet."""
_VERSION_3 = """
ALTER TABLE deletions ADD COLUMN cause TEXT NOT NULL DEFAULT 'expired';
ALTER TABLE deletions ADD COLUMN seen_through INTEGER;
ALTER TABLE deletions ADD COLUMN seen_snapshot INTEGER;
ALTER TABLE deletions ADD COLUMN looks INTEGER NOT NULL DEFAULT 0;
ALTER TABLE deletions ADD COLUMN why TEXT NOT NULL DEFAULT '';
DROP INDEX deletions_due;
CREATE INDEX deletions_waiting ON deletions (uuid, due_at_ms) WHERE state = 'waiting';
CREATE INDEX deletions_job ON deletions (job_id) WHERE state = 'marked';
CREATE TABLE taken (
    job_id TEXT NOT NULL, snapshot_id INTEGER NOT NULL, uuid TEXT NOT NULL, PRIMARY KEY (job_id, snapshot_id)
) WITHOUT ROWID;
INSERT INTO taken SELECT job_id, snapshot_id, uuid FROM expired;
DROP TABLE expired;
CREATE TABLE locations (uuid TEXT NOT NULL, location TEXT NOT NULL, at_ms INTEGER NOT NULL, gone INTEGER NOT NULL,
    PRIMARY KEY (uuid, location)) WITHOUT ROWID;
CREATE INDEX deletions_ended ON deletions (ended_at_ms) WHERE ended_at_ms IS NOT NULL;
CREATE INDEX accounts_received ON accounts (received_at_ms) WHERE announced;
CREATE INDEX operations_started ON operations (started_at_ms, action);
INSERT INTO facts VALUES ('acts', 0);
"""
"""`acts` counts what was done that cannot be undone; the topic with holds knows the newest count too."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that was begun, and what came of it."""

    job_id: str
    table: TableId
    action: Action
    partition: PartitionKey | None
    label: str
    why: str
    policy_hash: str
    base_snapshot_id: int
    started_at_ms: int
    bytes_planned: int = 0
    asserted_head_id: int | None = None
    """The head that the request for the swap asserts. None: this ledger knows of no request."""
    base_metadata: str = ""
    """For an expiry: the metadata that its last request was based on; empty: this ledger knows of no request."""
    written: tuple[str, ...] = ()
    """Manifests and manifest lists that were written for it and that its snapshot, if there is one, does not name."""
    state: str = "running"
    """`running`, `done`, `failed`, `unknown`."""
    reason: str = ""
    outcome_why: str = ""
    ended_at_ms: int | None = None
    snapshot_id: int | None = None
    files_before: int = 0
    """Live data files of the partition before (for an expiry: snapshots)."""
    files_after: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    rows: int = 0
    seconds: float = 0
    peak_memory_bytes: int = 0
    expired: int = 0
    """Snapshots that an expiry took."""
    files_marked: int = 0
    """Files that an expiry left without a reader."""

    def ended(self, outcome: Outcome, now_ms: int) -> "Operation":
        """The operation with its end."""
        return replace(
            self,
            state=str(outcome.kind),
            reason=outcome.reason,
            outcome_why=outcome.why,
            ended_at_ms=now_ms,
            snapshot_id=outcome.snapshot_id,
            written=outcome.leftovers,
        )

    def with_rewrite(self, rewrite: Rewrite) -> "Operation":
        """The operation with what an executor made."""
        return replace(
            self,
            bytes_read=rewrite.bytes_read,
            bytes_written=rewrite.bytes_written,
            rows=rewrite.rows_written,
            seconds=rewrite.seconds,
            peak_memory_bytes=rewrite.peak_memory_bytes,
        )


@dataclass(frozen=True, slots=True)
class Account:
    """A snapshot that the daemon took into its state."""

    snapshot_id: int
    sequence_number: int
    origin: str
    committed_at_ms: int
    received_at_ms: int
    decided_at_ms: int | None
    """When the verdicts of what it touched were made."""
    announced: bool
    """Whether an event brought it; else it was found in the catalog."""


class Ledger:
    """The ledger of all tables."""

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        self._db = connect(path, (_VERSION_1, _VERSION_2, _VERSION_3), read_only=read_only, is_durable=True)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def transaction(self) -> AbstractContextManager[None]:
        """What is written inside is saved as a whole, or not at all."""
        return transaction(self._db)

    # Operations

    def save(self, operation: Operation, job: CompactionJob | None = None) -> None:
        """Keep an operation; the bound job stays with it until it has ended for good."""
        self._db.execute(
            "INSERT INTO operations (job_id, uuid, name, action, partition, state, started_at_ms, value, job) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (job_id) DO UPDATE SET state = excluded.state, "
            "value = excluded.value, job = CASE WHEN excluded.state IN ('running', 'unknown') "
            "THEN COALESCE(excluded.job, job) END",
            (
                operation.job_id,
                operation.table.uuid,
                operation.table.name,
                operation.action,
                operation.partition,
                operation.state,
                operation.started_at_ms,
                to_json(operation),
                None if job is None else to_json(job),
            ),
        )

    def unfinished(self) -> list[tuple[Operation, CompactionJob | None]]:
        """What a crash left behind, and outcomes that nobody knows yet."""
        return [
            (from_json(Operation, value), None if job is None else from_json(CompactionJob, job))
            for value, job in self._db.execute(
                "SELECT value, job FROM operations WHERE state IN ('running', 'unknown') ORDER BY started_at_ms"
            )
        ]

    def operations(self, uuid: str | None = None, limit: int = 1000) -> list[Operation]:
        """The newest operations, newest first; None: of all tables."""
        rows = self._db.execute(
            "SELECT value FROM operations WHERE ? IS NULL OR uuid = ? ORDER BY started_at_ms DESC LIMIT ?",
            (uuid, uuid, limit),
        )
        return [from_json(Operation, value) for (value,) in rows]

    def setbacks(self, uuid: str) -> dict[Action, Quarantine]:
        """How often in a row each action on a table as a whole has failed, and until when it is left alone."""
        found: dict[Action, Quarantine] = {}
        for action in (Action.EXPIRE,):
            rows = self._db.execute(
                "SELECT value FROM operations WHERE uuid = ? AND action = ? AND state IN ('done', 'failed') "
                "ORDER BY started_at_ms DESC LIMIT 20",
                (uuid, action),
            )
            ended = (from_json(Operation, value) for (value,) in rows)
            failed = list(takewhile(lambda one: one.state == "failed" and one.reason not in PASSING, ended))
            if failed:
                until_ms = (failed[0].ended_at_ms or 0) + pause_ms(len(failed) - 1)
                why = f"{failed[0].reason}: {failed[0].outcome_why}"
                found[action] = Quarantine(until_ms, len(failed), why)
        return found

    def bytes_read_since(self, since_ms: int, uuid: str | None = None) -> int:
        """Bytes that compactions have read, or mean to read, since a time; for budgets. None: of all tables."""
        rows = self._db.execute(
            "SELECT value FROM operations WHERE started_at_ms >= ? AND action = ? AND (?3 IS NULL OR uuid = ?3)",
            (since_ms, Action.COMPACT, uuid),
        )
        operations = (from_json(Operation, value) for (value,) in rows)
        return sum(max(operation.bytes_read, operation.bytes_planned) for operation in operations)

    # Deletions

    def mark(
        self,
        uuid: str,
        job_id: str,
        marks: Iterable[Mark],
        now_ms: int,
        *,
        snapshots: Sequence[int] = (),
        due_at_ms: int | None = None,
    ) -> None:
        """Write down files that are wanted gone, in the place of what was written of them before.

        Args:
            uuid: the table.
            job_id: what wants them gone.
            marks: the files.
            now_ms: the time.
            snapshots: what an expiry is about to take, which makes the files unreachable.
            due_at_ms: when they may go. None: when `confirm_marks` says so.
        """
        state, due = ("marked", 0) if due_at_ms is None else ("waiting", due_at_ms)
        rows = [
            (
                uuid,
                mark.path,
                job_id,
                state,
                mark.cause,
                None if mark.seen is None else mark.seen.sequence_number,
                None if mark.seen is None else mark.seen.snapshot_id,
                now_ms,
                due,
            )
            for mark in marks
        ]
        with self.transaction():
            self._db.executemany(
                "INSERT OR REPLACE INTO deletions "
                "(uuid, path, job_id, state, cause, seen_through, seen_snapshot, marked_at_ms, due_at_ms) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
            self._db.executemany(
                "INSERT OR IGNORE INTO taken (uuid, snapshot_id, job_id) VALUES (?, ?, ?)",
                [(uuid, snapshot_id, job_id) for snapshot_id in snapshots],
            )

    def confirm_marks(self, job_id: str, due_at_ms: int) -> None:
        """The expiry is committed: its files may go at this time."""
        self._db.execute(
            "UPDATE deletions SET state = 'waiting', due_at_ms = ? WHERE job_id = ? AND state = 'marked'",
            (due_at_ms, job_id),
        )

    def drop_marks(self, job_id: str) -> None:
        """The expiry did not happen."""
        with self.transaction():
            self._db.execute("DELETE FROM deletions WHERE job_id = ? AND state = 'marked'", (job_id,))
            self._db.execute("DELETE FROM taken WHERE job_id = ?", (job_id,))

    def tables_to_sweep(self, now_ms: int) -> list[str]:
        """The uuids of tables with files whose grace is over."""
        # From table to table: the files of one are never counted.
        rows = self._db.execute(
            "WITH RECURSIVE found (uuid) AS ("
            "SELECT MIN(uuid) FROM deletions WHERE state = 'waiting' UNION ALL "
            "SELECT (SELECT MIN(uuid) FROM deletions WHERE state = 'waiting' AND uuid > found.uuid) "
            "FROM found WHERE found.uuid IS NOT NULL) "
            "SELECT uuid FROM found WHERE uuid IS NOT NULL AND EXISTS (SELECT 1 FROM deletions "
            "WHERE state = 'waiting' AND deletions.uuid = found.uuid AND due_at_ms <= ?)",
            (now_ms,),
        )
        return [uuid for (uuid,) in rows]

    def due_deletions(
        self, uuid: str, now_ms: int, limit: int, causes: Iterable[Cause] = tuple(Cause)
    ) -> list[Mark]:
        """Files of a table whose grace is over, those that wait longest first."""
        rows = self._db.execute(
            "SELECT path, job_id, cause, seen_through, seen_snapshot, looks FROM deletions WHERE state = 'waiting' AND uuid = ? "
            "AND due_at_ms <= ? AND cause IN (SELECT value FROM json_each(?)) ORDER BY due_at_ms LIMIT ?",
            (uuid, now_ms, json.dumps(list(causes)), limit),
        )
        return [
            Mark(path, job_id, Cause(cause), None if anchor is None else Seen(anchor, number), looks)
            for path, job_id, cause, number, anchor, looks in rows
        ]

    def deleted(self, uuid: str, paths: Iterable[str], now_ms: int) -> None:
        """These files are gone."""
        self._db.executemany(
            "UPDATE deletions SET state = 'deleted', ended_at_ms = ? WHERE uuid = ? AND path = ?",
            [(now_ms, uuid, path) for path in paths],
        )

    def kept(self, uuid: str, whys: Mapping[str, str], now_ms: int) -> None:
        """These files are not deleted after all; by path, why."""
        self._db.executemany(
            "UPDATE deletions SET state = 'kept', why = ?, ended_at_ms = ? WHERE uuid = ? AND path = ?",
            [(why, now_ms, uuid, path) for path, why in whys.items()],
        )

    def postponed(self, uuid: str, whys: Mapping[str, str], now_ms: int) -> None:
        """These files wait longer, each for longer than the time before; by path, why."""
        looks = self._db.execute(
            "SELECT path, looks FROM deletions WHERE uuid = ? AND path IN (SELECT value FROM json_each(?))",
            (uuid, json.dumps(list(whys))),
        )
        self._db.executemany(
            "UPDATE deletions SET looks = looks + 1, due_at_ms = ?, why = ? WHERE uuid = ? AND path = ?",
            [(now_ms + pause_ms(count), whys[path], uuid, path) for path, count in looks.fetchall()],
        )

    def deletions(self, uuid: str) -> dict[str, int]:
        """How many files stand in which state: `marked`, `waiting`, `deleted`, `kept`."""
        return dict(
            self._db.execute(
                "SELECT state, COUNT(*) FROM deletions WHERE uuid = ? GROUP BY state", (uuid,)
            ).fetchall()
        )

    def expired_by(self, job_id: str) -> list[int]:
        """The snapshots that one expiry took, or was about to take."""
        return [
            row[0] for row in self._db.execute("SELECT snapshot_id FROM taken WHERE job_id = ?", (job_id,))
        ]

    def place(self, uuid: str, location: str, now_ms: int) -> None:
        """A table was seen at a location. It is remembered for as long as the ledger lives, whatever becomes of it."""
        self._db.execute(
            "INSERT INTO locations VALUES (?, ?, ?, 0) ON CONFLICT DO UPDATE SET gone = 0 WHERE gone",
            (uuid, location, now_ms),
        )

    def left(self, uuid: str) -> None:
        """The catalog does not have the table any more, as far as we know; another may be made in its place."""
        self._db.execute("UPDATE locations SET gone = 1 WHERE uuid = ?", (uuid,))

    def places(self) -> list[tuple[str, str, bool]]:
        """The uuid of every table that was ever known, with each location, first to last, and whether it is gone."""
        rows = self._db.execute("SELECT uuid, location, gone FROM locations ORDER BY at_ms")
        return [(uuid, location, bool(gone)) for uuid, location, gone in rows]

    # Accounts

    def account(self, uuid: str, account: Account) -> None:
        """A snapshot became part of the state."""
        self._db.execute(
            "INSERT INTO accounts VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (uuid, snapshot_id) "
            "DO UPDATE SET announced = MAX(announced, excluded.announced)",
            (
                uuid,
                account.snapshot_id,
                account.sequence_number,
                account.origin,
                account.committed_at_ms,
                account.received_at_ms,
                account.decided_at_ms,
                account.announced,
            ),
        )

    def decided(self, uuid: str, now_ms: int) -> None:
        """The verdicts for everything accounted for so far are made."""
        # The index is named: without it SQLite would read every account of the table, by the primary key.
        self._db.execute(
            "UPDATE accounts INDEXED BY accounts_undecided SET decided_at_ms = ? "
            "WHERE uuid = ? AND decided_at_ms IS NULL",
            (now_ms, uuid),
        )

    def accounts_since(self, uuid: str) -> int | None:
        """The commit time of the oldest snapshot of a table of which there is an account; None: there is none."""
        row = self._db.execute("SELECT MIN(committed_at_ms) FROM accounts WHERE uuid = ?", (uuid,)).fetchone()
        return None if row[0] is None else int(row[0])

    def is_known(self, uuid: str, snapshot_id: int) -> bool:
        """Whether a snapshot was accounted for before."""
        row = self._db.execute(
            "SELECT 1 FROM accounts WHERE uuid = ? AND snapshot_id = ?", (uuid, snapshot_id)
        )
        return row.fetchone() is not None

    def announced(self, uuid: str, snapshot_id: int) -> None:
        """An event of this snapshot was consumed, though it was known before."""
        self._db.execute(
            "UPDATE accounts SET announced = 1 WHERE uuid = ? AND snapshot_id = ?", (uuid, snapshot_id)
        )

    def unannounced(self, uuid: str, before_ms: int) -> list[int]:
        """Snapshots found in the catalog before a time, that no event has brought yet; oldest first."""
        rows = self._db.execute(
            "SELECT snapshot_id FROM accounts INDEXED BY accounts_open "
            "WHERE uuid = ? AND NOT announced AND received_at_ms <= ? "
            "ORDER BY sequence_number",
            (uuid, before_ms),
        )
        return [row[0] for row in rows]

    def announced_through(self, uuid: str) -> int | None:
        """The highest sequence number below which every snapshot that we know was announced; None: none was."""
        first_open = self._db.execute(
            "SELECT MIN(sequence_number) FROM accounts WHERE uuid = ? AND NOT announced", (uuid,)
        ).fetchone()[0]
        row = self._db.execute(
            "SELECT MAX(sequence_number) FROM accounts WHERE uuid = ? AND announced AND (? IS NULL OR sequence_number < ?)",
            (uuid, first_open, first_open),
        ).fetchone()
        return None if row[0] is None else int(row[0])

    def accounts(self, uuid: str) -> list[Account]:
        """Every snapshot accounted for, in the table's order."""
        rows = self._db.execute(
            "SELECT snapshot_id, sequence_number, origin, committed_at_ms, received_at_ms, decided_at_ms, announced "
            "FROM accounts WHERE uuid = ? ORDER BY sequence_number",
            (uuid,),
        )
        return [Account(*row) for row in rows]

    # What tables cannot give back

    def record(self, uuid: str, change: Change, received_at_ms: int) -> None:
        """Remember what a snapshot did, and when it was heard of: its metadata will expire."""
        # Which manifests it was read from means nothing later, and would be half of it.
        text = to_json(replace(change, manifests=(), totals={}))
        self._db.execute(
            "INSERT OR REPLACE INTO changes (uuid, snapshot_id, received_at_ms, value) VALUES (?, ?, ?, ?)",
            (uuid, change.snapshot_id, received_at_ms, zlib.compress(text.encode())),
        )

    def forget_change(self, uuid: str, snapshot_id: int) -> None:
        """A snapshot is not in the table's history any more."""
        self._db.execute("DELETE FROM changes WHERE uuid = ? AND snapshot_id = ?", (uuid, snapshot_id))

    def changes(self, uuid: str) -> list[tuple[Change, int]]:
        """The recorded changes of a table with the time at which each was heard of, in the table's order."""
        rows = self._db.execute("SELECT value, received_at_ms FROM changes WHERE uuid = ?", (uuid,))
        found = [(from_json(Change, zlib.decompress(value).decode()), at_ms) for value, at_ms in rows]
        return sorted(found, key=lambda one: (one[0].sequence_number, one[0].committed_at_ms))

    def learn(self, uuid: str, lateness: Lateness) -> None:
        """Keep what a table has taught about late writes."""
        self._db.execute("INSERT OR REPLACE INTO lateness VALUES (?, ?)", (uuid, to_json(lateness)))

    def learnt(self, uuid: str) -> Lateness:
        """What a table has taught about late writes; nothing, where it is new."""
        row = self._db.execute("SELECT value FROM lateness WHERE uuid = ?", (uuid,)).fetchone()
        return Lateness() if row is None else from_json(Lateness, row[0])

    def last_done(self, uuid: str) -> dict[Action, int]:
        """When each action was last done to a table, in milliseconds since the epoch."""
        rows = self._db.execute(
            "SELECT action, MAX(started_at_ms) FROM operations WHERE uuid = ? AND state = 'done' GROUP BY action",
            (uuid,),
        )
        return {Action(action): at_ms for action, at_ms in rows}

    # The ledger itself

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

    # Holds

    def hold(self, hold: Hold, *, told: bool) -> None:
        """Keep a hold, in the place of one with the same key; `told`: the topic has it."""
        self._db.execute(
            "INSERT OR REPLACE INTO holds VALUES (?, ?, ?, ?)", (hold.key, hold.uuid, to_json(hold), told)
        )

    def lift(self, key: str, *, told: bool) -> None:
        """Forget a hold; what the topic does not know yet is kept until it does."""
        if told:
            self._db.execute("DELETE FROM holds WHERE key = ?", (key,))
        else:
            self._db.execute("UPDATE holds SET value = NULL, told = 0 WHERE key = ?", (key,))

    def holds(self, uuid: str | None = None) -> list[Hold]:
        """What holds a table back; None: everything that holds anything."""
        where, values = ("TRUE", ()) if uuid is None else ("uuid = ?", (uuid,))
        rows = self._db.execute(
            f"SELECT value FROM holds WHERE value IS NOT NULL AND {where} ORDER BY key",  # noqa: S608 (our own words)
            values,
        )
        return [from_json(Hold, value) for (value,) in rows]

    def untold(self) -> list[tuple[str, str | None]]:
        """Keys and values that the topic does not have yet; None as value: lifted."""
        return self._db.execute("SELECT key, value FROM holds WHERE NOT told ORDER BY key").fetchall()

    def told(self, key: str, value: str | None) -> None:
        """The topic has this value by now."""
        if value is None:
            self._db.execute("DELETE FROM holds WHERE key = ? AND value IS NULL", (key,))
        else:
            self._db.execute("UPDATE holds SET told = 1 WHERE key = ? AND value = ?", (key, value))

    def tell_again(self, but: Collection[str]) -> None:
        """The topic was read from its beginning: what it does not have, except for these keys, is told to it."""
        known = [key for (key,) in self._db.execute("SELECT key FROM holds WHERE told")]
        self._db.executemany(
            "UPDATE holds SET told = 0 WHERE key = ?", [(key,) for key in known if key not in but]
        )

    def halted(self, uuid: str) -> str | None:
        """Why a table stands still until a person has looked; None: it does not."""
        return next((hold.why for hold in self.holds(uuid) if hold.kind is HoldKind.HALT), None)

    def paused(self, uuid: str) -> Hold | None:
        """A person's wish that a table be left alone, perhaps one that is over; None: there is none."""
        return next((hold for hold in self.holds(uuid) if hold.kind is HoldKind.PAUSE), None)

    def deletions_held(self) -> str | None:
        """Why nothing is deleted; None: it may be."""
        return next((hold.why for hold in self.holds(self.id)), None)

    def quarantined(self, uuid: str) -> dict[PartitionKey, Quarantine]:
        """The partitions whose jobs fail, and until when they are left alone."""
        return {
            hold.partition: Quarantine(hold.until_ms or 0, hold.failures, hold.why)
            for hold in self.holds(uuid)
            if hold.kind is HoldKind.QUARANTINE and hold.partition is not None
        }

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
                "NOT EXISTS (SELECT 1 FROM operations WHERE operations.job_id = taken.job_id AND started_at_ms > ?)",
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
