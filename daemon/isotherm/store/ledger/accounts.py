"""What tables cannot give back: which snapshots were announced and when, what each did, how late writes come."""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from isotherm.core.lateness import Lateness
from isotherm.core.model.changes import Change
from isotherm.core.model.tables import Snapshot
from isotherm.core.rewriters import Watch
from isotherm.store.database import Part, StoreError, to_json
from isotherm.store.ledger.rows import from_row


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


_REPLACES = '"operation":"replace"'


class Accounts(Part):
    """The snapshots of all tables."""

    def account(self, uuid: str, accounts: Iterable[Account]) -> None:
        """Snapshots became part of the state."""
        self.db.executemany(
            "INSERT INTO accounts VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (uuid, snapshot_id) "
            "DO UPDATE SET announced = MAX(announced, excluded.announced)",
            [
                (
                    uuid,
                    account.snapshot_id,
                    account.sequence_number,
                    account.origin,
                    account.committed_at_ms,
                    account.received_at_ms,
                    account.decided_at_ms,
                    account.announced,
                )
                for account in accounts
            ],
        )

    def account_found(self, uuid: str, log: Iterable[Snapshot], now_ms: int) -> None:
        """Account for the snapshots that a scan came upon, oldest first.

        What was there before the first of which there is an account counts as announced: its announcement is not ours
        to make. A later one was missed, and what is known already stays as it is known. Which is later the table says:
        the clocks of its writers may differ.
        """
        oldest, is_later = self.oldest_account(uuid), False
        for snapshot in log:
            if self.is_known(uuid, snapshot.snapshot_id):
                is_later = True
                continue
            number, at_ms = place = snapshot.sequence_number, snapshot.committed_at_ms
            was_there = oldest is None or (not is_later and place < oldest)
            account = Account(snapshot.snapshot_id, number, "found", at_ms, now_ms, None, was_there)
            self.account(uuid, [account])

    def forget_account(self, uuid: str, snapshot_id: int) -> None:
        """The catalog has never had the snapshot: somebody made it up."""
        self.db.execute("DELETE FROM accounts WHERE uuid = ? AND snapshot_id = ?", (uuid, snapshot_id))

    def decided(self, uuid: str, now_ms: int) -> None:
        """The verdicts for everything accounted for so far are made."""
        # The index is named: without it SQLite would read every account of the table, by the primary key.
        self.db.execute(
            "UPDATE accounts INDEXED BY accounts_undecided SET decided_at_ms = ? "
            "WHERE uuid = ? AND decided_at_ms IS NULL",
            (now_ms, uuid),
        )

    def oldest_account(self, uuid: str) -> tuple[int, int] | None:
        """The sequence number and commit time of a table's oldest snapshot in the accounts, or None where there is none."""
        row = self.db.execute(
            "SELECT sequence_number, committed_at_ms FROM accounts WHERE uuid = ? "
            "ORDER BY sequence_number, committed_at_ms LIMIT 1",
            (uuid,),
        ).fetchone()
        return None if row is None else (int(row[0]), int(row[1]))

    def is_known(self, uuid: str, snapshot_id: int) -> bool:
        """Whether a snapshot was accounted for before."""
        row = self.db.execute(
            "SELECT 1 FROM accounts WHERE uuid = ? AND snapshot_id = ?", (uuid, snapshot_id)
        )
        return row.fetchone() is not None

    def announced(self, uuid: str, snapshot_id: int) -> None:
        """An event of this snapshot was consumed, though it was known before."""
        self.db.execute(
            "UPDATE accounts SET announced = 1 WHERE uuid = ? AND snapshot_id = ?", (uuid, snapshot_id)
        )

    def unannounced(self, uuid: str, before_ms: int) -> list[int]:
        """Snapshots found in the catalog before a time, that no event has brought yet; oldest first."""
        rows = self.db.execute(
            "SELECT snapshot_id FROM accounts INDEXED BY accounts_open "
            "WHERE uuid = ? AND NOT announced AND received_at_ms <= ? "
            "ORDER BY sequence_number",
            (uuid, before_ms),
        )
        return [row[0] for row in rows]

    def is_unannounced(self, uuid: str, snapshot_id: int, before_ms: int) -> bool:
        """Whether a snapshot was found in the catalog before a time, and no event has brought it yet."""
        row = self.db.execute(
            "SELECT 1 FROM accounts WHERE uuid = ? AND snapshot_id = ? AND NOT announced AND received_at_ms <= ?",
            (uuid, snapshot_id, before_ms),
        )
        return row.fetchone() is not None

    def announced_through(self, uuid: str) -> int | None:
        """The highest sequence number below which every snapshot that we know was announced. None where none was."""
        first_open = self.db.execute(
            "SELECT MIN(sequence_number) FROM accounts WHERE uuid = ? AND NOT announced", (uuid,)
        ).fetchone()[0]
        row = self.db.execute(
            "SELECT MAX(sequence_number) FROM accounts WHERE uuid = ? AND announced AND (? IS NULL OR sequence_number < ?)",
            (uuid, first_open, first_open),
        ).fetchone()
        return None if row[0] is None else int(row[0])

    def see(self, uuid: str, sequence_number: int, now_ms: int) -> None:
        """A table's metadata was read, and had this as its last sequence number."""
        self.db.execute(
            "INSERT INTO seen (uuid, sequence_number, at_ms) VALUES (?, ?, ?) ON CONFLICT (uuid) DO UPDATE SET "
            "sequence_number = MAX(sequence_number, excluded.sequence_number), at_ms = excluded.at_ms",
            (uuid, sequence_number, now_ms),
        )

    def seen_through(self, uuid: str) -> int:
        """The highest sequence number that a table's metadata ever had when it was read; 0 where it never was."""
        row = self.db.execute("SELECT sequence_number FROM seen WHERE uuid = ?", (uuid,)).fetchone()
        return 0 if row is None else int(row[0])

    def follow(self, uuid: str, sequence_number: int) -> None:
        """A table's history was followed as far as this, in a version whose metadata was read (`see`)."""
        self.db.execute("UPDATE seen SET followed_through = ? WHERE uuid = ?", (sequence_number, uuid))

    def followed_through(self, uuid: str) -> int:
        """The last sequence number of the version up to which a table's history was followed last; 0 where it never was."""
        row = self.db.execute("SELECT followed_through FROM seen WHERE uuid = ?", (uuid,)).fetchone()
        return 0 if row is None else int(row[0])

    def watch(self, uuid: str) -> Watch | None:
        """For how long a table was watched for others who rewrite its files, or None where it never was."""
        row = self.db.execute(
            "SELECT watched_since_ms, rewritten_in, rewritten_at_ms FROM seen WHERE uuid = ?", (uuid,)
        ).fetchone()
        return None if row is None or row[0] is None else Watch(*row)

    def keep_watch(self, uuid: str, watch: Watch) -> None:
        """Keep what was seen of a table whose metadata was read (`see`)."""
        self.db.execute(
            "UPDATE seen SET watched_since_ms = ?, rewritten_in = ?, rewritten_at_ms = ? WHERE uuid = ?",
            (watch.since_ms, watch.rewritten_in, watch.rewritten_at_ms, uuid),
        )

    def accounts(self, uuid: str) -> list[Account]:
        """Every snapshot accounted for, in the table's order."""
        rows = self.db.execute(
            "SELECT snapshot_id, sequence_number, origin, committed_at_ms, received_at_ms, decided_at_ms, announced "
            "FROM accounts WHERE uuid = ? ORDER BY sequence_number",
            (uuid,),
        )
        return [Account(*row) for row in rows]

    def record(self, uuid: str, changes: Iterable[tuple[Change, int]]) -> None:
        """Remember what snapshots did, and when each was heard of: their metadata will expire."""
        # Which manifests it was read from means nothing later, and would be half of it.
        rows = [
            (
                uuid,
                change.snapshot_id,
                at_ms,
                zlib.compress(to_json(replace(change, manifests=(), totals={})).encode()),
            )
            for change, at_ms in changes
        ]
        self.db.executemany(
            "INSERT OR REPLACE INTO changes (uuid, snapshot_id, received_at_ms, value) VALUES (?, ?, ?, ?)",
            rows,
        )

    def forget_change(self, uuid: str, snapshot_id: int) -> None:
        """A snapshot is not in the table's history any more."""
        self.db.execute("DELETE FROM changes WHERE uuid = ? AND snapshot_id = ?", (uuid, snapshot_id))

    def changes(self, uuid: str, newest: int = -1) -> list[tuple[Change, int]]:
        """The recorded changes of a table with the time at which each was heard of, in the table's order.

        With `newest` only so many of those that were heard of last. A damaged one is left out.
        """
        rows = self.db.execute(
            "SELECT value, received_at_ms FROM changes WHERE uuid = ? ORDER BY received_at_ms DESC LIMIT ?",
            (uuid, newest),
        )
        read = ((_change(_text(value)), at_ms) for value, at_ms in rows)
        found = [(change, at_ms) for change, at_ms in read if change is not None]
        return sorted(found, key=lambda one: (one[0].sequence_number, one[0].committed_at_ms))

    def recorded_since(self, uuid: str) -> int | None:
        """When the oldest recorded change of a table was heard of, or None where there is none."""
        rows = self.db.execute("SELECT MIN(received_at_ms) FROM changes WHERE uuid = ?", (uuid,))
        found: int | None = rows.fetchone()[0]
        return found

    def recorded_rewrite(self, uuid: str) -> tuple[int | None, bool]:
        """The newest recorded change by which somebody else rewrote data files, or None; and whether each could be read.

        A damaged one stays until it is pruned, and must not keep its table from being looked at.
        """
        newest: Change | None = None
        is_whole = True
        # There may be tens of thousands, and few of them are of that kind.
        for (value,) in self.db.execute("SELECT value FROM changes WHERE uuid = ?", (uuid,)):
            text = _text(value)
            if text is not None and _REPLACES not in text:
                continue
            if (change := _change(text)) is None:
                is_whole = False
            elif change.is_foreign_rewrite and (
                newest is None or newest.sequence_number < change.sequence_number
            ):
                newest = change
        return None if newest is None else newest.snapshot_id, is_whole

    def learn(self, uuid: str, lateness: Lateness, now_ms: int) -> None:
        """Keep what a table has taught about late writes."""
        self.db.execute(
            "INSERT OR REPLACE INTO lateness (uuid, value, at_ms) VALUES (?, ?, ?)",
            (uuid, to_json(lateness), now_ms),
        )

    def learnt(self, uuid: str) -> Lateness:
        """What a table has taught about late writes; nothing, where it is new."""
        row = self.db.execute("SELECT CAST(value AS BLOB) FROM lateness WHERE uuid = ?", (uuid,)).fetchone()
        return Lateness() if row is None else from_row(Lateness, row[0])


def _text(value: bytes) -> str | None:
    """The JSON of a recorded change, or None where its row is damaged."""
    try:
        return zlib.decompress(value).decode()
    except (zlib.error, UnicodeDecodeError, TypeError):
        return None


def _change(text: str | None) -> Change | None:
    """A recorded change, or None where its row is damaged, or another version wrote it."""
    try:
        return None if text is None else from_row(Change, text)
    except StoreError:
        return None
