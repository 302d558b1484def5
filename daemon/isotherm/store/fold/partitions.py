"""Partitions in the fold: their states, their latest verdicts, and when these may change."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.decisions import Plan, Verdict
from isotherm.core.partition_state import PartitionState
from isotherm.store.database import Part, to_json
from isotherm.store.fold.rows import from_row
from isotherm.store.fold.tables import Decisions

_NOT_OWED = (Verdict.OFF, Verdict.CLEAN, Verdict.RESTING)
"""Verdicts on partitions that nobody waits for, whatever their debt."""

_OWED = (Verdict.DUE, Verdict.WAITING, Verdict.RUNNING, Verdict.QUARANTINED)
"""Verdicts on partitions that wait for their job, however small their debt: under a schedule less than 1 is due."""


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition in the fold, with its latest verdict, or None where it is not decided yet."""

    key: PartitionKey
    state: PartitionState
    verdict: Verdict | None
    due_since_ms: int | None


@dataclass(frozen=True, slots=True)
class Tally:
    """A table's partitions, counted by verdict."""

    verdicts: Mapping[str, int]
    highest_score: float
    most_files: int
    oldest_due_at_ms: int | None
    hot_score: float = 0.0
    """The highest of those that are hot, which `highest_score` leaves out."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """Some partitions that are to be decided."""

    states: Mapping[PartitionKey, PartitionState]
    has_more: bool
    """Whether there may be others."""
    through: PartitionKey | None
    """How far the slices have come once these are decided. None where all are done, or there were none."""


class Partitions(Part):
    """The partitions of all tables."""

    def states(self, uuid: str, keys: Iterable[PartitionKey]) -> dict[PartitionKey, PartitionState]:
        """The states of some partitions; those that do not exist are left out."""
        rows = self.db.execute(
            "SELECT key, CAST(state AS BLOB) FROM partitions WHERE uuid = ? AND key IN (SELECT value FROM json_each(?))",
            (uuid, json.dumps(list(keys))),
        )
        return {PartitionKey(key): from_row(PartitionState, state) for key, state in rows}

    def sample(self, uuid: str, after: PartitionKey | None, limit: int) -> dict[PartitionKey, PartitionState]:
        """Some partitions of a table, those that follow a key."""
        rows = self.db.execute(
            "SELECT key, CAST(state AS BLOB) FROM partitions WHERE uuid = ? AND key > ? ORDER BY key LIMIT ?",
            (uuid, after or "", limit),
        )
        return {PartitionKey(key): from_row(PartitionState, state) for key, state in rows}

    def save_partitions(self, uuid: str, partitions: Mapping[PartitionKey, PartitionState | None]) -> None:
        """Keep new states, to be decided at the next round. None removes the partition."""
        gone = [(uuid, key) for key, state in partitions.items() if state is None]
        if gone:
            self.db.executemany("DELETE FROM partitions WHERE uuid = ? AND key = ?", gone)
        self.db.executemany(
            "INSERT INTO partitions (uuid, key, state, files) VALUES (?, ?, ?, ?) ON CONFLICT (uuid, key) "
            "DO UPDATE SET state = excluded.state, files = excluded.files, touched = 1",
            (
                (uuid, key, to_json(state), state.data_total.files)
                for key, state in partitions.items()
                if state is not None
            ),
        )

    def begin_partitions(self, uuid: str, partitions: Mapping[PartitionKey, PartitionState]) -> None:
        """The partitions of a table that has none yet; all are to be decided."""
        self.db.executemany(
            "INSERT INTO partitions (uuid, key, state, files, touched) VALUES (?, ?, ?, ?, 0)",
            ((uuid, key, to_json(state), state.data_total.files) for key, state in partitions.items()),
        )
        self.touch(uuid, None)

    def touch(self, uuid: str, keys: Iterable[PartitionKey] | None) -> None:
        """Decide these partitions again at the next round. None means all of the table's, and the table as a whole."""
        if keys is None:
            # Noted at the table: to write it at each of a million partitions takes seconds.
            self.db.execute(
                "UPDATE tables SET touched = 1, whole_touched = 1, anew_after = '' WHERE uuid = ?", (uuid,)
            )
            return
        self.db.execute("UPDATE tables SET touched = 1 WHERE uuid = ?", (uuid,))
        for key in keys:
            self.db.execute("UPDATE partitions SET touched = 1 WHERE uuid = ? AND key = ?", (uuid, key))

    def touch_whole(self, uuid: str) -> None:
        """Decide of the table as a whole again at the next round."""
        self.db.execute("UPDATE tables SET touched = 1, whole_touched = 1 WHERE uuid = ?", (uuid,))

    def undecided(
        self, uuid: str, now_ms: int, boundary_ms: int | None, commits: int, limit: int, *, anew: bool
    ) -> "Undecided":
        """Some partitions whose verdict may be another now: touched, or awake by time, boundary or commits.

        With `anew` also the next slice of a table that is decided again as a whole.
        """
        # One question for each index: an OR over all of them would read every partition of the table. So would
        # SQLite, without being told, where an index says no more than the primary key does.
        rows = self.db.execute(
            "SELECT key, CAST(state AS BLOB) FROM partitions INDEXED BY partitions_touched WHERE uuid = ?1 AND touched "
            "UNION ALL SELECT key, CAST(state AS BLOB) FROM partitions WHERE uuid = ?1 AND wake_at_ms <= ?2 "
            "UNION ALL SELECT key, CAST(state AS BLOB) FROM partitions WHERE uuid = ?1 AND wake_boundary_ms <= ?3 "
            "UNION ALL SELECT key, CAST(state AS BLOB) FROM partitions WHERE uuid = ?1 AND wake_commits <= ?4 LIMIT ?5",
            (uuid, now_ms, boundary_ms, commits, limit),
        ).fetchall()
        (after,) = self.db.execute("SELECT anew_after FROM tables WHERE uuid = ?", (uuid,)).fetchone() or (
            None,
        )
        has_more, through = len(rows) >= limit, after
        if anew and after is not None and not has_more:
            some = self.db.execute(
                "SELECT key, CAST(state AS BLOB) FROM partitions WHERE uuid = ? AND key > ? ORDER BY key LIMIT ?",
                (uuid, after, limit),
            ).fetchall()
            has_more, through = len(some) >= limit, PartitionKey(some[-1][0]) if len(some) >= limit else None
            rows += some
        states = {PartitionKey(key): from_row(PartitionState, state) for key, state in dict(rows).items()}
        return Undecided(states, has_more, through)

    def due(self, uuid: str, limit: int) -> dict[PartitionKey, PartitionState]:
        """Some of the partitions that are due: half of them with the highest scores, half waiting the longest."""
        half = limit // 2
        rows = self.db.execute(
            "SELECT key, CAST(state AS BLOB) FROM (SELECT key, state FROM partitions INDEXED BY partitions_due "
            "WHERE uuid = ?1 AND verdict = 'due' ORDER BY score DESC LIMIT ?2) UNION "
            "SELECT key, CAST(state AS BLOB) FROM (SELECT key, state FROM partitions INDEXED BY partitions_waiting "
            "WHERE uuid = ?1 AND verdict = 'due' ORDER BY waits_since_ms LIMIT ?3)",
            (uuid, limit - half, half),
        )
        return {PartitionKey(key): from_row(PartitionState, state) for key, state in rows}

    def hot(self, uuid: str, limit: int, offset: int = 0) -> dict[PartitionKey, PartitionState]:
        """Some of the hot partitions that owe anything: those that owe most, but for the first ones of them."""
        rows = self.db.execute(
            "SELECT key, CAST(state AS BLOB) FROM partitions WHERE uuid = ? AND verdict = 'hot' AND score > 0 "
            "ORDER BY score DESC, key LIMIT ? OFFSET ?",
            (uuid, limit, offset),
        )
        return {PartitionKey(key): from_row(PartitionState, state) for key, state in rows}

    def hot_ones(self, uuid: str) -> list[PartitionKey]:
        """The keys of all partitions that were hot when they were decided last."""
        rows = self.db.execute("SELECT key FROM partitions WHERE uuid = ? AND verdict = 'hot'", (uuid,))
        return [PartitionKey(key) for (key,) in rows]

    def due_since(self, uuid: str, keys: Iterable[PartitionKey]) -> dict[PartitionKey, int]:
        """Since when some partitions have waited for their turn; those that do not are left out."""
        rows = self.db.execute(
            "SELECT key, waits_since_ms FROM partitions WHERE uuid = ? AND waits_since_ms IS NOT NULL "
            "AND key IN (SELECT value FROM json_each(?))",
            (uuid, json.dumps(list(keys))),
        )
        return {PartitionKey(key): at_ms for key, at_ms in rows}

    def partitions(self, uuid: str) -> Iterator[PartitionRow]:
        """Every partition of a table, in the order of their keys."""
        for key, state, verdict, due_since_ms in self.db.execute(
            "SELECT key, CAST(state AS BLOB), verdict, due_since_ms FROM partitions WHERE uuid = ? ORDER BY key",
            (uuid,),
        ):
            yield PartitionRow(
                PartitionKey(key),
                from_row(PartitionState, state),
                None if verdict is None else Verdict(verdict),
                due_since_ms,
            )

    def save_decisions(
        self, uuid: str, planned: Plan, now_ms: int, through: PartitionKey | None = None
    ) -> None:
        """Keep verdicts until they could change; `through`: how far a table is that is decided slice by slice."""
        self.db.executemany(
            "UPDATE partitions SET touched = 0, verdict = ?1, score = ?2, wake_at_ms = ?3, wake_boundary_ms = ?4, "
            "wake_commits = ?5, due_since_ms = CASE WHEN ?6 THEN COALESCE(MIN(due_since_ms, ?8), ?8) END, "
            "waits_since_ms = CASE WHEN ?7 THEN COALESCE(MIN(waits_since_ms, ?8), ?8) "
            "WHEN ?6 THEN MIN(waits_since_ms, ?8) END WHERE uuid = ?9 AND key = ?10",
            [
                (
                    decision.verdict,
                    decision.score,
                    decision.wake.at_ms,
                    decision.wake.boundary_ms,
                    decision.wake.commits,
                    # Through everything that it waits for: a job, a failure, the stream that came back.
                    decision.verdict in _OWED or (decision.score >= 1 and decision.verdict not in _NOT_OWED),
                    # While the stream is still there nobody waits for a turn; where it comes back the wait goes on.
                    decision.verdict in _OWED,
                    now_ms,  # it was not due before, or by a clock that was ahead
                    uuid,
                    decision.partition,
                )
                for decision in planned.of_partitions
            ],
        )
        if planned.of_table:
            times = [at_ms for one in planned.of_table if (at_ms := one.wake.at_ms) is not None]
            self.db.execute(
                "UPDATE tables SET of_table = ?, whole_touched = 0, whole_wake_at_ms = ? WHERE uuid = ?",
                (to_json(Decisions(planned.of_table)), min(times, default=None), uuid),
            )
        whole_is_due = any(decision.verdict is Verdict.DUE for decision in planned.of_table)
        self.db.execute(
            "UPDATE tables SET wake_at_ms = (SELECT MIN(wake_at_ms) FROM partitions WHERE uuid = ?1 AND wake_at_ms NOT NULL), "
            "due = EXISTS (SELECT 1 FROM partitions WHERE uuid = ?1 AND verdict = 'due') "
            "OR CASE WHEN ?2 THEN ?3 ELSE due END, anew_after = ?4 WHERE uuid = ?1",
            (uuid, bool(planned.of_table), whole_is_due, through),
        )

    def tally(self, uuid: str) -> Tally:
        """How a table's partitions stand."""
        rows = self.db.execute(
            f"SELECT {_TALLY} FROM partitions WHERE uuid = ? GROUP BY verdict",  # noqa: S608 (our own words)
            (uuid,),
        )
        return _tally(rows.fetchall())

    def tallies(self) -> dict[str, Tally]:
        """The same of all tables, by uuid: one question, which the index answers."""
        rows: dict[str, list[_Row]] = {}
        for uuid, *row in self.db.execute(
            f"SELECT uuid, {_TALLY} FROM partitions GROUP BY uuid, verdict"  # noqa: S608 (our own words)
        ):
            rows.setdefault(uuid, []).append((row[0], row[1], row[2], row[3], row[4]))
        return {uuid: _tally(found) for uuid, found in rows.items()}


_TALLY = "verdict, COUNT(*), MAX(score), MAX(files), MIN(due_since_ms)"
_Row = tuple[str | None, int, float, int, int | None]


def _tally(rows: Sequence[_Row]) -> Tally:
    verdicts = {verdict or "undecided": count for verdict, count, *_ in rows}
    score = max((highest for verdict, _, highest, *_ in rows if verdict not in (None, "hot")), default=0.0)
    files = max((most for *_, most, _ in rows), default=0)
    oldest = min((at_ms for *_, at_ms in rows if at_ms is not None), default=None)
    hot = max((highest for verdict, _, highest, *_ in rows if verdict == "hot"), default=0.0)
    return Tally(verdicts, score or 0.0, files or 0, oldest, hot)
