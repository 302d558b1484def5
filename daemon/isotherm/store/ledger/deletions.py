"""Deletions in the ledger: files that are wanted gone, and what came of them."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from isotherm.core.deletion import Cause, Mark, Seen, pause_ms
from isotherm.runtime.secrets import without_secrets
from isotherm.store.database import Part


@dataclass(frozen=True, slots=True)
class Overdue:
    """Files of a table that should be gone by now, and are not."""

    files: int
    due_at_ms: int
    """When the first of them may go, or may be looked at again."""
    why: str
    """Why one of them had to wait when it was looked at. Empty: none was looked at."""


OBSTACLE = "obstacle/"
"""Before the name of a fact that says why deletions of all tables wait."""
CLOCK = "clock"
"""This machine's clock is not to be believed."""
SURVEY = "survey"
"""Not every table was looked at that may share files with ours."""
SEARCH = "search"
"""Tables that hold files back cannot be looked for in the whole catalog."""

_TEXT, _NUMBER, _NUMBER_IF_ANY = "('text')", "('integer')", "('integer', 'null')"
_BEFORE = {
    "job_id": _TEXT,
    "state": _TEXT,
    "cause": _TEXT,
    "seen_through": _NUMBER_IF_ANY,
    "seen_snapshot": _NUMBER_IF_ANY,
    "marked_at_ms": _NUMBER,
    "due_at_ms": _NUMBER,
    "looks": _NUMBER,
    "why": _TEXT,
    "ended_at_ms": _NUMBER_IF_ANY,
}
"""What an expiry that comes to nothing gives back of a file that was marked, kept or deleted before, and of which types."""
_IN_BEFORE = {column: f"json_extract(before, '$[{place}]')" for place, column in enumerate(_BEFORE)}
HAS_BEFORE = (
    f"CASE WHEN json_valid(before) THEN json_array_length(before) = {len(_BEFORE)} AND "
    + " AND ".join(f"typeof({_IN_BEFORE[column]}) IN {kinds}" for column, kinds in _BEFORE.items())
    + " ELSE FALSE END"
)
"""Whether that is there and whole. What is no JSON would be an error of SQLite's, for the files of all tables."""
JOB_BEFORE = _IN_BEFORE["job_id"]
"""What wanted the file gone before."""
_MARK = (
    "INSERT INTO deletions (uuid, path, job_id, state, cause, seen_through, seen_snapshot, marked_at_ms, due_at_ms) "  # noqa: S608
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (uuid, path) DO UPDATE SET "
    f"before = CASE excluded.state WHEN 'marked' THEN json_array({', '.join(_BEFORE)}) END, "
    "job_id = excluded.job_id, state = excluded.state, cause = excluded.cause, seen_through = excluded.seen_through, "
    "seen_snapshot = excluded.seen_snapshot, marked_at_ms = excluded.marked_at_ms, due_at_ms = excluded.due_at_ms, "
    "looks = 0, why = '', ended_at_ms = NULL"
)
_MARK_FOUND = f"{_MARK} WHERE deletions.state NOT IN ('marked', 'waiting')"
"""What waits already goes on to wait for what it was marked for."""
_WITH_FILES = (
    "WITH RECURSIVE found (uuid) AS (SELECT MIN(uuid) FROM deletions WHERE state = 'waiting' UNION ALL "
    "SELECT (SELECT MIN(uuid) FROM deletions WHERE state = 'waiting' AND uuid > found.uuid) "
    "FROM found WHERE found.uuid IS NOT NULL)"
)
"""The tables that have files which wait, one after the other: the files of none are counted."""
SETTLED_AT_ONCE = 5000
"""Marked files that are confirmed or dropped together, in a tenth of a second."""
ASKED_AT_ONCE = 5000
"""Files of which one question asks. Their names are one text, of which SQLite takes a gigabyte at most: all that a search
of large folders finds would be more, and is in memory once already."""


class Deletions(Part):
    """The marked files of all tables."""

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

        An expiry that comes to nothing gives that back (`drop_marks`).

        Args:
            uuid: the table.
            job_id: what wants them gone.
            marks: the files.
            now_ms: the time.
            snapshots: what an expiry is about to take, which makes the files unreachable.
            due_at_ms: when they may go. Without it, when `confirm_marks` says so.
        """
        state, due = ("marked", 0) if due_at_ms is None else ("waiting", due_at_ms)
        rows = self._rows(uuid, job_id, marks, now_ms, state, due)
        with self.transaction():
            self.db.executemany(_MARK, rows)
            self.db.executemany(
                "INSERT OR IGNORE INTO taken (uuid, snapshot_id, job_id) VALUES (?, ?, ?)",
                [(uuid, snapshot_id, job_id) for snapshot_id in snapshots],
            )

    def mark_found(self, uuid: str, job_id: str, marks: Iterable[Mark], now_ms: int, due_at_ms: int) -> int:
        """Write down files that a search has found, and that may go at this time; gives how many did not wait yet."""
        with self.transaction():
            rows = self._rows(uuid, job_id, marks, now_ms, "waiting", due_at_ms)
            return self.db.executemany(_MARK_FOUND, rows).rowcount

    @staticmethod
    def _rows(
        uuid: str, job_id: str, marks: Iterable[Mark], now_ms: int, state: str, due: int
    ) -> list[tuple[object, ...]]:
        return [
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

    def confirm_marks(self, job_id: str, due_at_ms: int, limit: int = SETTLED_AT_ONCE) -> None:
        """The expiry is committed: its files may go at this time."""
        self._settle(job_id, due_at_ms, limit)

    def drop_marks(self, job_id: str, limit: int = SETTLED_AT_ONCE) -> None:
        """The expiry did not happen."""
        self._settle(job_id, None, limit)

    def _settle(self, job_id: str, due_at_ms: int | None, limit: int) -> None:
        with self.transaction():
            self.db.execute("INSERT OR REPLACE INTO settled VALUES (?, ?)", (job_id, due_at_ms))
            if due_at_ms is None:
                self.db.execute("DELETE FROM taken WHERE job_id = ?", (job_id,))
            self._settle_some(job_id, due_at_ms, limit)

    def settle_marks(self, limit: int = SETTLED_AT_ONCE) -> bool:
        """Go on with one of the jobs whose marks are confirmed or dropped; whether there is more to do."""
        row = self.db.execute("SELECT job_id, due_at_ms FROM settled LIMIT 1").fetchone()
        if row is None:
            return False
        with self.transaction():
            self._settle_some(row[0], row[1], limit)
        return True

    def marked_by(self, job_id: str) -> int:
        """How many files an expiry has marked that has not ended."""
        rows = self.db.execute(
            "SELECT COUNT(*) FROM deletions WHERE job_id = ? AND state = 'marked' AND state IN ('marked', 'waiting')",
            (job_id,),
        )
        return int(rows.fetchone()[0])

    def is_settling(self, uuid: str) -> bool:
        """Whether marks of a table are still to be confirmed or dropped."""
        row = self.db.execute(
            "SELECT 1 FROM settled JOIN operations USING (job_id) WHERE operations.uuid = ?", (uuid,)
        )
        return row.fetchone() is not None

    def _settle_some(self, job_id: str, due_at_ms: int | None, limit: int) -> None:
        # In the words of the index on jobs, so that SQLite uses it.
        some = (
            "(uuid, path) IN (SELECT uuid, path FROM deletions "
            "WHERE job_id = ? AND state = 'marked' AND state IN ('marked', 'waiting') LIMIT ?)"
        )
        if due_at_ms is None:
            given_back = ", ".join(f"{column} = {before}" for column, before in _IN_BEFORE.items())
            # The second slice has what the first one leaves, so both together are as many, if there are so many. A file
            # of which nobody can read what was known stays: orphan removal finds it, if nothing needs it.
            done = self.db.execute(
                f"DELETE FROM deletions WHERE NOT {HAS_BEFORE} AND {some}",  # noqa: S608
                (job_id, limit),
            ).rowcount
            done += self.db.execute(
                f"UPDATE deletions SET {given_back}, before = NULL WHERE {HAS_BEFORE} AND {some}",  # noqa: S608
                (job_id, limit),
            ).rowcount
        else:
            done = self.db.execute(
                f"UPDATE deletions SET state = 'waiting', due_at_ms = ?, before = NULL WHERE {some}",  # noqa: S608
                (due_at_ms, job_id, limit),
            ).rowcount
        if done < limit:
            self.db.execute("DELETE FROM settled WHERE job_id = ?", (job_id,))

    def tables_to_sweep(self, now_ms: int) -> list[str]:
        """The uuids of tables with files whose grace is over."""
        rows = self.db.execute(
            f"{_WITH_FILES} SELECT uuid FROM found WHERE uuid IS NOT NULL AND EXISTS (SELECT 1 FROM deletions "  # noqa: S608
            "WHERE state = 'waiting' AND deletions.uuid = found.uuid AND due_at_ms <= ?)",
            (now_ms,),
        )
        return [uuid for (uuid,) in rows]

    def oldest_due_ms(self) -> int | None:
        """When the file may have gone that waits longest of all; None where none waits.

        What is in quarantine does not count: where a policy says `report` again, it stays there as long as that says so.
        """
        row = self.db.execute(
            f"{_WITH_FILES} SELECT MIN((SELECT MIN(due_at_ms) FROM deletions WHERE state = 'waiting' AND deletions.uuid = found.uuid AND cause <> 'quarantined')) "  # noqa: S608
            "FROM found WHERE uuid IS NOT NULL"
        )
        due_at_ms = row.fetchone()[0]
        return None if due_at_ms is None else int(due_at_ms)

    def due_deletions(
        self,
        uuid: str,
        now_ms: int,
        limit: int,
        causes: Iterable[Cause] = tuple(Cause),
        marked_by_ms: int | None = None,
    ) -> list[Mark]:
        """Files of a table whose grace is over, those that wait longest first; of those that were marked by then."""
        rows = self.db.execute(
            "SELECT path, job_id, cause, seen_through, seen_snapshot, looks FROM deletions WHERE state = 'waiting' AND uuid = ? "
            "AND due_at_ms <= ? AND cause IN (SELECT value FROM json_each(?)) AND marked_at_ms <= ? "
            "ORDER BY due_at_ms LIMIT ?",
            (uuid, now_ms, json.dumps(list(causes)), now_ms if marked_by_ms is None else marked_by_ms, limit),
        )
        return [
            Mark(path, job_id, Cause(cause), None if anchor is None else Seen(anchor, number), looks)
            for path, job_id, cause, number, anchor, looks in rows
        ]

    def deleted(self, uuid: str, paths: Iterable[str], now_ms: int) -> None:
        """These files are gone."""
        with self.transaction():
            self.db.executemany(
                "UPDATE deletions SET state = 'deleted', ended_at_ms = ? WHERE uuid = ? AND path = ?",
                [(now_ms, uuid, path) for path in paths],
            )

    def kept(self, uuid: str, whys: Mapping[str, str], now_ms: int) -> None:
        """These files are not deleted after all; by path, why. What an expiry has marked since waits for its end."""
        with self.transaction():
            self.db.executemany(
                "UPDATE deletions SET state = 'kept', why = ?, ended_at_ms = ? "
                "WHERE uuid = ? AND path = ? AND state = 'waiting'",
                [(without_secrets(why), now_ms, uuid, path) for path, why in whys.items()],
            )

    def postponed(self, uuid: str, whys: Mapping[str, str], now_ms: int) -> None:
        """These files wait longer, each for longer than the time before; by path, why."""
        with self.transaction():
            for paths in _in_slices(whys):
                looks = self.db.execute(
                    "SELECT path, looks FROM deletions WHERE uuid = ? AND path IN (SELECT value FROM json_each(?))",
                    (uuid, json.dumps(paths)),
                )
                self.db.executemany(
                    "UPDATE deletions SET looks = looks + 1, due_at_ms = ?, why = ? "
                    "WHERE uuid = ? AND path = ? AND state = 'waiting'",
                    [
                        (now_ms + pause_ms(count), without_secrets(whys[path]), uuid, path)
                        for path, count in looks.fetchall()
                    ],
                )

    def deletions(self, uuid: str) -> dict[str, int]:
        """Count the files by state: `marked`, `waiting`, `deleted`, `kept`, `moved` into quarantine, or `restored` from it."""
        return dict(
            self.db.execute(
                "SELECT state, COUNT(*) FROM deletions WHERE uuid = ? GROUP BY state", (uuid,)
            ).fetchall()
        )

    def removed(self, uuid: str) -> Iterator[tuple[str, int | None]]:
        """Files of a table that were taken away, and when; None where one is only marked to go.

        A process that dies between the deletion of a file and its note leaves it marked.
        """
        yield from self.db.execute(
            "SELECT path, ended_at_ms FROM deletions WHERE uuid = ? "
            "AND state IN ('marked', 'waiting', 'deleted', 'moved')",
            (uuid,),
        )

    def waiting_for(self, uuid: str, cause: Cause) -> tuple[int, int | None]:
        """How many files of a table wait to be deleted for a cause, and when the first of them may go."""
        files, due_at_ms = self.db.execute(
            "SELECT COUNT(*), MIN(due_at_ms) FROM deletions WHERE state = 'waiting' AND uuid = ? AND cause = ?",
            (uuid, cause),
        ).fetchone()
        return files, due_at_ms

    def overdue(self, uuid: str, now_ms: int) -> Overdue | None:
        """Files of a table whose grace is over, or that were looked at and had to wait. None where there are none."""
        files, due_at_ms = self.db.execute(
            "SELECT COUNT(*), MIN(due_at_ms) FROM deletions "
            "WHERE state = 'waiting' AND uuid = ? AND (due_at_ms <= ? OR looks > 0)",
            (uuid, now_ms),
        ).fetchone()
        if not files:
            return None
        said = self.db.execute(
            "SELECT why FROM deletions WHERE state = 'waiting' AND uuid = ? AND looks > 0 "
            "ORDER BY looks DESC, path LIMIT 1",
            (uuid,),
        ).fetchone()
        return Overdue(files, due_at_ms, "" if said is None else said[0])

    def note_obstacle(self, name: str, why: str | None) -> None:
        """Keep, for whoever asks, why deletions of all tables wait. Without a why, this reason is over."""
        why = None if why is None else without_secrets(why)
        if self.obstacles().get(name) == why:
            return
        key = OBSTACLE + name
        if why is None:
            self.db.execute("DELETE FROM facts WHERE name = ?", (key,))
        else:
            self.db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (key, why))

    def obstacles(self) -> dict[str, str]:
        """Why deletions wait, by what keeps them: as the daemon has it, which may have stopped since."""
        found = self.db.execute(
            "SELECT substr(name, ?), value FROM facts WHERE substr(name, 1, ?) = ? ORDER BY name",
            (len(OBSTACLE) + 1, len(OBSTACLE), OBSTACLE),
        )
        return dict(found.fetchall())

    def expired_by(self, job_id: str) -> list[int]:
        """The snapshots that one expiry took, or was about to take."""
        return [
            row[0] for row in self.db.execute("SELECT snapshot_id FROM taken WHERE job_id = ?", (job_id,))
        ]

    def kept_because(self, uuid: str, cause: Cause, reason: str) -> frozenset[str]:
        """Files of a table that were wanted gone for this cause, and are kept for this reason."""
        rows = self.db.execute(
            "SELECT path FROM deletions WHERE uuid = ? AND state = 'kept' AND cause = ? AND why LIKE ?",
            (uuid, cause, f"{reason}: %"),
        )
        return frozenset(path for (path,) in rows)

    def waiting_among(self, uuid: str, paths: Iterable[str]) -> int:
        """How many of these files wait to be deleted, or are marked for an expiry that has not ended."""
        return sum(self._waiting_among(uuid, some) for some in _in_slices(paths))

    def _waiting_among(self, uuid: str, paths: Sequence[str]) -> int:
        rows = self.db.execute(
            # In this order, whatever SQLite makes of it: by the primary key, once for each path.
            "SELECT COUNT(*) FROM json_each(?) AS wanted CROSS JOIN deletions NOT INDEXED "
            "ON uuid = ? AND deletions.path = wanted.value WHERE state IN ('marked', 'waiting')",
            (json.dumps(paths), uuid),
        )
        return int(rows.fetchone()[0])

    def given_up(self, uuid: str, before_ms: int, why: str, now_ms: int, limit: int) -> int:
        """Files of a table that were due so long ago are not deleted any more; gives how many."""
        found = self.db.execute(
            "UPDATE deletions SET state = 'kept', why = ?, ended_at_ms = ? WHERE (uuid, path) IN ("
            "SELECT uuid, path FROM deletions WHERE state = 'waiting' AND uuid = ? AND due_at_ms <= ? LIMIT ?)",
            (why, now_ms, uuid, before_ms, limit),
        )
        return found.rowcount


def _in_slices(paths: Iterable[str]) -> Iterator[list[str]]:
    left = iter(paths)
    while some := list(islice(left, ASKED_AT_ONCE)):
        yield some
