"""The quarantine in the ledger: orphans that were moved, each as a file that waits for its deletion.

A file in quarantine is a row of `deletions` like any other, under the path that it has there, with a cause of its own. So
everything that keeps a deletion waiting keeps it too. `marked_at_ms` is when it was moved, and `until_ms` until when it can
be restored. `due_at_ms` is its next look, which comes early where the table may need the file. So what was promised
holds, whatever the policy says by then.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from isotherm.core.deletion import Seen
from isotherm.runtime.secrets import without_secrets
from isotherm.store.database import Part

_THERE = "cause = 'quarantined' AND state = 'waiting'"
"""In the words of the index."""
_AMONG = "path IN (SELECT value FROM json_each(?))"
_UNTIL = "MAX(marked_at_ms + ?, COALESCE(until_ms, 0))"
"""Until when a file can be restored, where the policy says so many milliseconds by now."""


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A file in quarantine."""

    place: str
    """Where it lies."""
    size_bytes: int
    since_ms: int
    until_ms: int
    """Until then it can be restored."""


class Quarantine(Part):
    """The files in quarantine of all tables."""

    def files_in_quarantine(self, uuid: str, after: str = "", limit: int = -1) -> list[Quarantined]:
        """The files of a table that are in quarantine as far as is known, by their places; so many behind one of them."""
        rows = self.db.execute(
            "SELECT path, size_bytes, marked_at_ms, COALESCE(until_ms, due_at_ms) FROM deletions "  # noqa: S608
            f"INDEXED BY deletions_quarantined WHERE uuid = ? AND path > ? AND {_THERE} ORDER BY path LIMIT ?",
            (uuid, after, limit),
        )
        return [Quarantined(*row) for row in rows]

    def quarantines(self) -> dict[str, tuple[int, int]]:
        """By table, how many files are in quarantine, and their bytes."""
        rows = self.db.execute(
            f"SELECT uuid, COUNT(*), SUM(size_bytes) FROM deletions WHERE {_THERE} GROUP BY uuid"  # noqa: S608
        )
        return {uuid: (files, size_bytes) for uuid, files, size_bytes in rows}

    def moved(self, uuid: str, moves: Mapping[str, tuple[str, int]], now_ms: int, until_ms: int) -> None:
        """These orphans were moved into quarantine: by path, where they lie now, and their sizes."""
        with self.transaction():
            for path, (place, size_bytes) in moves.items():
                # A search may have found it there first, and have promised more.
                (promised_ms,) = self.db.execute(
                    "SELECT COALESCE(MAX(until_ms), 0) FROM deletions WHERE uuid = ? AND path = ?",
                    (uuid, place),
                ).fetchone()
                stays_ms = max(until_ms, promised_ms)
                self.db.execute(
                    "INSERT OR REPLACE INTO deletions (uuid, path, job_id, state, cause, seen_through, seen_snapshot, "
                    "marked_at_ms, due_at_ms, until_ms, size_bytes) SELECT uuid, ?, job_id, 'waiting', 'quarantined', "
                    "seen_through, seen_snapshot, ?, ?, ?, ? FROM deletions WHERE uuid = ? AND path = ?",
                    (place, now_ms, stays_ms, stays_ms, size_bytes, uuid, path),
                )
                self.db.execute(
                    "UPDATE deletions SET state = 'moved', ended_at_ms = ? WHERE uuid = ? AND path = ?",
                    (now_ms, uuid, path),
                )

    def there_by_now(self, uuid: str, places: Collection[str], now_ms: int) -> None:
        """These files were moved by now, whatever a clock has said that was ahead: else nobody would look at them for so long."""
        self.db.execute(
            f"UPDATE deletions SET marked_at_ms = MIN(marked_at_ms, ?) WHERE uuid = ? AND {_THERE} AND {_AMONG}",  # noqa: S608
            (now_ms, uuid, json.dumps(list(places))),
        )

    def restored(self, uuid: str, whys: Mapping[str, str], now_ms: int) -> None:
        """These files are in quarantine no more, and were not deleted; by place, why."""
        with self.transaction():
            self.db.executemany(
                f"UPDATE deletions SET state = 'restored', why = ?, ended_at_ms = ? WHERE uuid = ? AND path = ? AND {_THERE}",  # noqa: S608
                [(without_secrets(why), now_ms, uuid, place) for place, why in whys.items()],
            )

    def adopt(
        self,
        uuid: str,
        job_id: str,
        sizes: Mapping[str, int],
        seen: Seen,
        now_ms: int,
        until_ms: int,
        listed_at_ms: int,
    ) -> int:
        """Files that a search has found in quarantine, by place: those that nothing waits for stay for the whole time.

        So it is where the ledger was lost, another daemon moved them, or somebody has put them back into quarantine. What
        came to its end after it was listed is left alone. What was promised before of one still holds. Gives how many there
        were of these.
        """
        rows = [
            (
                uuid,
                place,
                job_id,
                seen.sequence_number,
                seen.snapshot_id,
                now_ms,
                until_ms,
                until_ms,
                size_bytes,
                listed_at_ms,
            )
            for place, size_bytes in sizes.items()
        ]
        with self.transaction():
            return self.db.executemany(
                "INSERT INTO deletions (uuid, path, job_id, state, cause, seen_through, seen_snapshot, "
                "marked_at_ms, due_at_ms, until_ms, size_bytes) VALUES (?, ?, ?, 'waiting', 'quarantined', ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (uuid, path) DO UPDATE SET job_id = excluded.job_id, state = excluded.state, "
                "cause = excluded.cause, seen_through = excluded.seen_through, seen_snapshot = excluded.seen_snapshot, "
                "marked_at_ms = excluded.marked_at_ms, due_at_ms = MAX(excluded.due_at_ms, COALESCE(until_ms, 0)), "
                "until_ms = MAX(excluded.until_ms, COALESCE(until_ms, 0)), "
                "size_bytes = excluded.size_bytes, "
                "looks = 0, why = '', ended_at_ms = NULL, before = NULL "
                "WHERE deletions.state NOT IN ('marked', 'waiting') AND deletions.ended_at_ms < ?",
                rows,
            ).rowcount

    def not_over(self, uuid: str, places: Collection[str], now_ms: int, keep_for_ms: int) -> frozenset[str]:
        """Of these files those that can still be restored: by what was promised, or because they are not there for so long."""
        rows = self.db.execute(
            f"SELECT path FROM deletions WHERE uuid = ? AND {_THERE} AND {_UNTIL} > ? AND {_AMONG}",  # noqa: S608
            (uuid, keep_for_ms, now_ms, json.dumps(list(places))),
        )
        return frozenset(path for (path,) in rows)

    def keep_longer(self, uuid: str, places: Collection[str], keep_for_ms: int) -> None:
        """These files stay until what was promised, and for so long at least since they were moved: that is promised now.

        That they were looked at before counts for nothing.
        """
        self.db.execute(
            f"UPDATE deletions SET due_at_ms = {_UNTIL}, until_ms = {_UNTIL}, looks = 0, why = '' "  # noqa: S608
            f"WHERE uuid = ? AND {_THERE} AND {_AMONG}",
            (keep_for_ms, keep_for_ms, uuid, json.dumps(list(places))),
        )

    def look_soon(self, uuid: str, places: Iterable[str], now_ms: int) -> None:
        """These files are looked at now, before their time is over: they seem to be needed where they were."""
        self.db.execute(
            f"UPDATE deletions SET due_at_ms = MIN(due_at_ms, ?) WHERE uuid = ? AND {_THERE} AND {_AMONG}",  # noqa: S608
            (now_ms, uuid, json.dumps(list(places))),
        )
