"""The fold on disk: tables, partitions with their latest verdicts, the journal, intents and writers' words.

A cache: everything in it can be had again from the tables and the control topic. Rows stay on disk; a planning round
reads those that were touched or whose verdict may have changed by itself. What an event costs here depends on what it
touches: the log of a table's snapshots stands apart, and every question that an event or a round asks has an index.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from isotherm.contract.events import Intent
from isotherm.contract.identity import PartitionKey
from isotherm.core.model.changes import Change
from isotherm.core.model.decisions import Decision, Plan, Verdict
from isotherm.core.model.tables import Snapshot, TableFacts
from isotherm.core.model.writers import Word
from isotherm.core.state import PartitionState, Prior, TableState
from isotherm.store.database import StoreBusy, StoreError, connect, from_json, to_json, transaction

VERSION = 6
JOURNAL_LENGTH = 200
"""Changes kept for each table to undo; a rollback beyond them rebuilds the table."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS tables (
    uuid TEXT PRIMARY KEY, name TEXT NOT NULL, state TEXT NOT NULL, facts TEXT NOT NULL,
    confirmed_head INTEGER, last_event_at_ms INTEGER NOT NULL DEFAULT 0, of_table TEXT NOT NULL DEFAULT '{"of_table":[]}',
    trusted INTEGER NOT NULL DEFAULT 1, touched INTEGER NOT NULL DEFAULT 1, whole_touched INTEGER NOT NULL DEFAULT 1,
    due INTEGER NOT NULL DEFAULT 0, wake_at_ms INTEGER, whole_wake_at_ms INTEGER,
    confirmed_at_ms INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS tables_agenda
    ON tables (touched, trusted, due, wake_at_ms, whole_wake_at_ms, confirmed_at_ms);
CREATE INDEX IF NOT EXISTS tables_name ON tables (name);
CREATE TABLE IF NOT EXISTS snapshots (
    uuid TEXT NOT NULL, place INTEGER NOT NULL, snapshot_id INTEGER NOT NULL, sequence_number INTEGER NOT NULL,
    committed_at_ms INTEGER NOT NULL, token TEXT NOT NULL, is_pinned INTEGER NOT NULL, kept_until_ms INTEGER NOT NULL,
    PRIMARY KEY (uuid, place)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS partitions (
    uuid TEXT NOT NULL, key TEXT NOT NULL, state TEXT NOT NULL,
    touched INTEGER NOT NULL DEFAULT 1, verdict TEXT, score REAL NOT NULL DEFAULT 0, files INTEGER NOT NULL DEFAULT 0,
    due_since_ms INTEGER, wake_at_ms INTEGER, wake_boundary_ms INTEGER, wake_commits INTEGER,
    PRIMARY KEY (uuid, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS partitions_touched ON partitions (uuid) WHERE touched;
CREATE INDEX IF NOT EXISTS partitions_due ON partitions (uuid) WHERE verdict = 'due';
CREATE INDEX IF NOT EXISTS partitions_at ON partitions (uuid, wake_at_ms) WHERE wake_at_ms IS NOT NULL;
CREATE INDEX IF NOT EXISTS partitions_boundary ON partitions (uuid, wake_boundary_ms) WHERE wake_boundary_ms IS NOT NULL;
CREATE INDEX IF NOT EXISTS partitions_commits ON partitions (uuid, wake_commits) WHERE wake_commits IS NOT NULL;
CREATE INDEX IF NOT EXISTS partitions_tally ON partitions (uuid, verdict, score, files, due_since_ms);
CREATE TABLE IF NOT EXISTS journal (
    number INTEGER PRIMARY KEY, uuid TEXT NOT NULL, snapshot_id INTEGER NOT NULL,
    change TEXT NOT NULL, prior TEXT NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS journal_snapshot ON journal (uuid, snapshot_id);
CREATE TABLE IF NOT EXISTS intents (
    uuid TEXT NOT NULL, intent_id TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (uuid, intent_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS announcers (uuid TEXT NOT NULL, writer TEXT NOT NULL, PRIMARY KEY (uuid, writer)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS words (
    uuid TEXT NOT NULL, writer TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (uuid, writer)
) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class TableRow:
    """A table in the fold."""

    state: TableState
    facts: TableFacts
    confirmed_head: int | None
    """The head that the catalog confirmed last; None: never."""
    last_event_at_ms: int
    of_table: tuple[Decision, ...] = ()
    """The latest verdicts on the table as a whole; empty: not decided yet."""
    is_trusted: bool = True
    """False: something did not add up, the table is scanned when it is confirmed next."""
    is_whole_touched: bool = True
    """Whether the verdicts on the table as a whole must be made anew."""
    whole_wake_at_ms: int | None = None
    """When they could change by themselves."""


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition in the fold, with its latest verdict (None: not decided yet)."""

    key: PartitionKey
    state: PartitionState
    verdict: Verdict | None
    due_since_ms: int | None


@dataclass(frozen=True, slots=True)
class _Decisions:
    """How the verdicts on a table as a whole are kept."""

    of_table: tuple[Decision, ...]


_NOT_OWED = (Verdict.OFF, Verdict.CLEAN)
"""Verdicts on partitions that nobody waits for, whatever their debt."""
_SNAPSHOT = "snapshot_id, sequence_number, committed_at_ms, token, is_pinned, kept_until_ms"
_COLUMNS = (
    "state, facts, confirmed_head, last_event_at_ms, of_table, trusted, whole_touched, whole_wake_at_ms"
)


@dataclass(frozen=True, slots=True)
class Tally:
    """A table's partitions, counted by verdict."""

    verdicts: Mapping[str, int]
    highest_score: float
    most_files: int
    oldest_due_at_ms: int | None


class Fold:
    """The fold of all tables."""

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        self.path = path
        self._db = connect(path, (_SCHEMA,), VERSION, read_only=read_only)

    @classmethod
    def open_or_rebuild(cls, path: Path) -> tuple["Fold", str | None]:
        """The fold, made again where the file is corrupt or of another version; then also why.

        Raises:
            StoreError: it is locked, the disk is full, or it cannot be opened: that is no reason to delete it.
        """
        try:
            return cls(path), None
        except StoreError as err:
            if isinstance(err.__cause__, StoreBusy):
                raise
            for leftover in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
                leftover.unlink(missing_ok=True)
            return cls(path), str(err)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def transaction(self) -> AbstractContextManager[None]:
        """What is written inside is saved as a whole, or not at all."""
        return transaction(self._db)

    # Tables

    def tables(self) -> dict[str, TableRow]:
        """Every table by uuid."""
        return {
            row[0]: self._table_row(row[1:])
            for row in self._db.execute(
                f"SELECT uuid, {_COLUMNS} FROM tables ORDER BY name"  # noqa: S608 (our own column names)
            )
        }

    def names(self) -> dict[str, str]:
        """The name of every table, by uuid."""
        return dict(self._db.execute("SELECT uuid, name FROM tables ORDER BY name").fetchall())

    def agenda(self, now_ms: int, silent_since_ms: int) -> list[str]:
        """The uuids of the tables that a planning round must look at, by name.

        Those that were touched, that have something due or newly come due, that are not trusted, and those whose head
        was confirmed last before `silent_since_ms`.
        """
        rows = self._db.execute(
            "SELECT uuid, name FROM tables WHERE touched OR NOT trusted OR due > 0 OR wake_at_ms <= ? "
            "OR whole_wake_at_ms <= ? OR confirmed_at_ms <= ?",
            (now_ms, now_ms, silent_since_ms),
        )
        return [uuid for uuid, _ in sorted(rows, key=lambda row: (row[1], row[0]))]

    def looked_at(self, uuid: str) -> None:
        """A planning round has looked at the table; it comes back when something touches it or comes due."""
        self._db.execute("UPDATE tables SET touched = 0 WHERE uuid = ?", (uuid,))

    def named(self, name: str) -> list[str]:
        """The uuids of the tables that have, or had, this name."""
        return [row[0] for row in self._db.execute("SELECT uuid FROM tables WHERE name = ?", (name,))]

    def table(self, uuid: str) -> TableRow | None:
        """One table."""
        row = self._db.execute(
            f"SELECT {_COLUMNS} FROM tables WHERE uuid = ?",  # noqa: S608 (our own column names)
            (uuid,),
        ).fetchone()
        return None if row is None else self._table_row(row)

    @staticmethod
    def _table_row(row: tuple[str, str, int | None, int, str, int, int, int | None]) -> TableRow:
        state, facts, confirmed, last_event_at_ms, of_table, trusted, whole_touched, whole_wake_at_ms = row
        return TableRow(
            from_json(TableState, state),
            from_json(TableFacts, facts),
            confirmed,
            last_event_at_ms,
            from_json(_Decisions, of_table).of_table,
            bool(trusted),
            bool(whole_touched),
            whole_wake_at_ms,
        )

    def save_table(
        self,
        state: TableState,
        facts: TableFacts,
        confirmed_head: int | None,
        snapshots: Sequence[Snapshot],
    ) -> None:
        """Keep a table's state, and what its metadata said when its head was confirmed."""
        uuid = state.table.uuid
        self._db.execute(
            "INSERT INTO tables (uuid, name, state, facts, confirmed_head, confirmed_at_ms) VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (uuid) DO UPDATE SET name = excluded.name, state = excluded.state, facts = excluded.facts, "
            "confirmed_head = excluded.confirmed_head, confirmed_at_ms = excluded.confirmed_at_ms, trusted = 1, "
            "touched = 1, whole_touched = 1",
            (uuid, state.table.name, to_json(state), to_json(facts), confirmed_head, facts.confirmed_at_ms),
        )
        self._save_snapshots(uuid, snapshots)

    def save_state(self, state: TableState) -> None:
        """Keep a table's state alone: the steady path of an event."""
        self._db.execute(
            "UPDATE tables SET state = ?, touched = 1 WHERE uuid = ?", (to_json(state), state.table.uuid)
        )

    def _save_snapshots(self, uuid: str, snapshots: Sequence[Snapshot]) -> None:
        """Keep the log of snapshots, writing only what is new, gone or different."""
        # Plain rows on both sides: logs are long, and most of the time there is nothing to write.
        rows = self._db.execute(
            f"SELECT place, {_SNAPSHOT} FROM snapshots WHERE uuid = ? ORDER BY place",  # noqa: S608 (our own names)
            (uuid,),
        )
        places = {tuple(entry): place for place, *entry in rows}
        log = [
            (s.snapshot_id, s.sequence_number, s.committed_at_ms, s.token, s.is_pinned, s.kept_until_ms)
            for s in snapshots
        ]
        if log == list(places):
            return
        known = set(log)
        kept = [entry for entry in places if entry in known]
        if log[: len(kept)] == kept:
            gone = [place for entry, place in places.items() if entry not in known]
            fresh, following = log[len(kept) :], max(places.values(), default=-1) + 1
        else:
            # Not the old log with something gone and something new at its end: written as a whole.
            gone, fresh, following = list(places.values()), log, 0
        self._db.executemany(
            "DELETE FROM snapshots WHERE uuid = ? AND place = ?", [(uuid, place) for place in gone]
        )
        self._db.executemany(
            "INSERT INTO snapshots VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [(uuid, place, *entry) for place, entry in enumerate(fresh, start=following)],
        )

    def snapshots(self, uuid: str) -> tuple[Snapshot, ...]:
        """The ancestors of the confirmed head that still exist, oldest first."""
        rows = self._db.execute(
            f"SELECT {_SNAPSHOT} FROM snapshots WHERE uuid = ? ORDER BY place",  # noqa: S608 (our own names)
            (uuid,),
        )
        return tuple(
            Snapshot(snapshot_id, sequence_number, at_ms, token, bool(is_pinned), kept_until_ms)
            for snapshot_id, sequence_number, at_ms, token, is_pinned, kept_until_ms in rows
        )

    def note_event(self, uuid: str, at_ms: int) -> None:
        """An event of this table came."""
        self._db.execute("UPDATE tables SET last_event_at_ms = ? WHERE uuid = ?", (at_ms, uuid))

    def distrust(self, uuid: str) -> None:
        """Have the table scanned when it is confirmed next; until then its verdicts stand still."""
        self._db.execute("UPDATE tables SET trusted = 0 WHERE uuid = ?", (uuid,))

    def drop(self, uuid: str) -> None:
        """Forget a table, but for what writers said of it: a table that comes back is still theirs to write."""
        for name in ("tables", "partitions", "snapshots", "journal"):
            self._db.execute(f"DELETE FROM {name} WHERE uuid = ?", (uuid,))  # noqa: S608 (our own table names)

    def replace(
        self,
        state: TableState,
        facts: TableFacts,
        partitions: Mapping[PartitionKey, PartitionState],
        snapshots: Sequence[Snapshot],
    ) -> None:
        """A table after a full scan: its partitions and journal begin anew, intents and words stay."""
        uuid = state.table.uuid
        with self.transaction():
            self._db.execute("DELETE FROM partitions WHERE uuid = ?", (uuid,))
            self._db.execute("DELETE FROM journal WHERE uuid = ?", (uuid,))
            self.save_table(state, facts, state.head, snapshots)
            self.save_partitions(uuid, partitions)

    # Partitions

    def states(self, uuid: str, keys: Iterable[PartitionKey]) -> dict[PartitionKey, PartitionState]:
        """The states of some partitions; those that do not exist are left out."""
        found = {}
        for key in keys:
            row = self._db.execute(
                "SELECT state FROM partitions WHERE uuid = ? AND key = ?", (uuid, key)
            ).fetchone()
            if row is not None:
                found[key] = from_json(PartitionState, row[0])
        return found

    def sample(self, uuid: str, after: PartitionKey | None, limit: int) -> dict[PartitionKey, PartitionState]:
        """Some partitions of a table, those that follow a key."""
        rows = self._db.execute(
            "SELECT key, state FROM partitions WHERE uuid = ? AND key > ? ORDER BY key LIMIT ?",
            (uuid, after or "", limit),
        )
        return {PartitionKey(key): from_json(PartitionState, state) for key, state in rows}

    def save_partitions(self, uuid: str, partitions: Mapping[PartitionKey, PartitionState | None]) -> None:
        """Keep new states, to be decided at the next round; None: the partition is gone."""
        for key, state in partitions.items():
            if state is None:
                self._db.execute("DELETE FROM partitions WHERE uuid = ? AND key = ?", (uuid, key))
            else:
                self._db.execute(
                    "INSERT INTO partitions (uuid, key, state, files) VALUES (?, ?, ?, ?) ON CONFLICT (uuid, key) "
                    "DO UPDATE SET state = excluded.state, files = excluded.files, touched = 1",
                    (uuid, key, to_json(state), state.data_total.files),
                )

    def touch(self, uuid: str, keys: Iterable[PartitionKey] | None) -> None:
        """Decide these partitions anew at the next round; None: all of the table's, and the table as a whole."""
        if keys is None:
            self._db.execute("UPDATE tables SET touched = 1, whole_touched = 1 WHERE uuid = ?", (uuid,))
            self._db.execute("UPDATE partitions SET touched = 1 WHERE uuid = ?", (uuid,))
            return
        self._db.execute("UPDATE tables SET touched = 1 WHERE uuid = ?", (uuid,))
        for key in keys:
            self._db.execute("UPDATE partitions SET touched = 1 WHERE uuid = ? AND key = ?", (uuid, key))

    def touch_whole(self, uuid: str) -> None:
        """Decide of the table as a whole again at the next round."""
        self._db.execute("UPDATE tables SET touched = 1, whole_touched = 1 WHERE uuid = ?", (uuid,))

    def undecided(
        self, uuid: str, now_ms: int, boundary_ms: int | None, commits: int, *, with_due: bool
    ) -> dict[PartitionKey, PartitionState]:
        """The partitions whose verdict may be another now: touched, or awake by time, boundary or commits.

        Those that are due wait for a round that has room for them; an event need not look at them again.
        """
        # One question for each index: an OR over all of them would read every partition of the table. So would
        # SQLite, without being told, where an index says no more than the primary key does.
        rows = self._db.execute(
            "SELECT key, state FROM partitions INDEXED BY partitions_touched WHERE uuid = ?1 AND touched "
            "UNION SELECT key, state FROM partitions INDEXED BY partitions_due "
            "WHERE uuid = ?1 AND verdict = 'due' AND ?5 "
            "UNION SELECT key, state FROM partitions WHERE uuid = ?1 AND wake_at_ms <= ?2 "
            "UNION SELECT key, state FROM partitions WHERE uuid = ?1 AND wake_boundary_ms <= ?3 "
            "UNION SELECT key, state FROM partitions WHERE uuid = ?1 AND wake_commits <= ?4",
            (uuid, now_ms, boundary_ms, commits, with_due),
        )
        return {PartitionKey(key): from_json(PartitionState, state) for key, state in rows}

    def partitions(self, uuid: str) -> Iterator[PartitionRow]:
        """Every partition of a table, in the order of their keys."""
        for key, state, verdict, due_since_ms in self._db.execute(
            "SELECT key, state, verdict, due_since_ms FROM partitions WHERE uuid = ? ORDER BY key", (uuid,)
        ):
            yield PartitionRow(
                PartitionKey(key),
                from_json(PartitionState, state),
                None if verdict is None else Verdict(verdict),
                due_since_ms,
            )

    def save_decisions(self, uuid: str, planned: Plan, now_ms: int) -> None:
        """Keep verdicts until they could change."""
        self._db.executemany(
            "UPDATE partitions SET touched = 0, verdict = ?, score = ?, wake_at_ms = ?, wake_boundary_ms = ?, "
            "wake_commits = ?, due_since_ms = CASE WHEN ? THEN COALESCE(due_since_ms, ?) END WHERE uuid = ? AND key = ?",
            [
                (
                    decision.verdict,
                    decision.score,
                    decision.wake.at_ms,
                    decision.wake.boundary_ms,
                    decision.wake.commits,
                    # Through everything that it waits for: a job, a failure, the stream that came back.
                    decision.score >= 1 and decision.verdict not in _NOT_OWED,
                    now_ms,
                    uuid,
                    decision.partition,
                )
                for decision in planned.of_partitions
            ],
        )
        if planned.of_table:
            times = [at_ms for one in planned.of_table if (at_ms := one.wake.at_ms) is not None]
            self._db.execute(
                "UPDATE tables SET of_table = ?, whole_touched = 0, whole_wake_at_ms = ? WHERE uuid = ?",
                (to_json(_Decisions(planned.of_table)), min(times, default=None), uuid),
            )
        whole_is_due = any(decision.verdict is Verdict.DUE for decision in planned.of_table)
        self._db.execute(
            "UPDATE tables SET wake_at_ms = (SELECT MIN(wake_at_ms) FROM partitions WHERE uuid = ?1 AND wake_at_ms NOT NULL), "
            "due = EXISTS (SELECT 1 FROM partitions WHERE uuid = ?1 AND verdict = 'due') "
            "OR CASE WHEN ?2 THEN ?3 ELSE due END WHERE uuid = ?1",
            (uuid, bool(planned.of_table), whole_is_due),
        )

    def tally(self, uuid: str) -> Tally:
        """How a table's partitions stand."""
        verdicts = dict(
            self._db.execute(
                "SELECT COALESCE(verdict, 'undecided'), COUNT(*) FROM partitions WHERE uuid = ? GROUP BY 1",
                (uuid,),
            ).fetchall()
        )
        score, files, oldest = self._db.execute(
            "SELECT MAX(CASE WHEN verdict <> 'hot' THEN score END), MAX(files), MIN(due_since_ms) "
            "FROM partitions WHERE uuid = ?",
            (uuid,),
        ).fetchone()
        return Tally(verdicts, score or 0.0, files or 0, oldest)

    # Journal

    def record(self, uuid: str, change: Change, prior: Prior) -> None:
        """Remember a change, so that it can be undone and held against the manifest list."""
        self._db.execute(
            "INSERT OR REPLACE INTO journal (uuid, snapshot_id, change, prior) VALUES (?, ?, ?, ?)",
            (uuid, change.snapshot_id, to_json(change), to_json(prior)),
        )
        self._db.execute(
            "DELETE FROM journal WHERE uuid = ? AND number <= "
            "(SELECT number FROM journal WHERE uuid = ? ORDER BY number DESC LIMIT 1 OFFSET ?)",
            (uuid, uuid, JOURNAL_LENGTH),
        )

    def recorded(self, uuid: str, snapshot_id: int) -> tuple[Change, Prior] | None:
        """A change in the journal."""
        row = self._db.execute(
            "SELECT change, prior FROM journal WHERE uuid = ? AND snapshot_id = ?", (uuid, snapshot_id)
        ).fetchone()
        return None if row is None else (from_json(Change, row[0]), from_json(Prior, row[1]))

    def forget(self, uuid: str, snapshot_id: int) -> None:
        """Take a change out of the journal: it was undone."""
        self._db.execute("DELETE FROM journal WHERE uuid = ? AND snapshot_id = ?", (uuid, snapshot_id))

    # Intents and words

    def save_intent(self, intent: Intent) -> None:
        """Keep an open intent, or forget a closed one."""
        if intent.state == "closed":
            self._db.execute(
                "DELETE FROM intents WHERE uuid = ? AND intent_id = ?", (intent.table_uuid, intent.intent_id)
            )
            return
        self._db.execute(
            "INSERT OR REPLACE INTO intents (uuid, intent_id, value) VALUES (?, ?, ?)",
            (intent.table_uuid, intent.intent_id, intent.model_dump_json()),
        )

    def intents(self, uuid: str) -> tuple[Intent, ...]:
        """The intents of a table that were not closed, expired ones too."""
        rows = self._db.execute("SELECT value FROM intents WHERE uuid = ? ORDER BY intent_id", (uuid,))
        return tuple(Intent.model_validate_json(value) for (value,) in rows)

    def note_intent(self, uuid: str, writer: str) -> None:
        """A writer says beforehand what it will touch."""
        self._db.execute("INSERT OR IGNORE INTO announcers (uuid, writer) VALUES (?, ?)", (uuid, writer))

    def announces(self, uuid: str, writer: str) -> bool:
        """Whether a writer was ever heard to say beforehand what it will touch."""
        rows = self._db.execute("SELECT 1 FROM announcers WHERE uuid = ? AND writer = ?", (uuid, writer))
        return rows.fetchone() is not None

    def save_word(self, uuid: str, word: Word) -> None:
        """Keep a writer's newest word."""
        self._db.execute(
            "INSERT OR REPLACE INTO words (uuid, writer, value) VALUES (?, ?, ?)",
            (uuid, word.writer, to_json(word)),
        )

    def words(self, uuid: str) -> tuple[Word, ...]:
        """The newest word of each writer of a table."""
        rows = self._db.execute("SELECT value FROM words WHERE uuid = ? ORDER BY writer", (uuid,))
        return tuple(from_json(Word, value) for (value,) in rows)
