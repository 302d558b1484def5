"""Operations in the ledger: what was begun, and what came of it."""

from dataclasses import dataclass, replace
from itertools import takewhile

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.deletion import pause_ms
from isotherm.core.model.holds import Quarantine
from isotherm.core.model.job_limits import JOB_BYTES_PER_S
from isotherm.core.model.jobs import Action, CompactionJob, ExecutorName, Outcome, Rewrite
from isotherm.core.model.refusals import Reason
from isotherm.runtime.secrets import without_secrets
from isotherm.store.database import Part, to_json
from isotherm.store.ledger.rows import from_row

PASSING = frozenset({Reason.STALE, Reason.OWNER, Reason.STOPPED, Reason.HALTED, Reason.PAUSED, Reason.POLICY})
"""Ends of an expiry that say nothing against the next one."""


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
    files_planned: int = 0
    executor: ExecutorName = ExecutorName.LOCAL
    """Where it runs, of a compaction."""
    asserted_head_id: int | None = None
    """The head that the request for the swap asserts, or None where this ledger knows of no request."""
    base_metadata: str = ""
    """The metadata that an expiry's last request was based on, or empty where this ledger knows of no request."""
    sent_at_ms: int | None = None
    """When its last request went out, or None where this ledger knows of no request."""
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

    @property
    def bytes_charged(self) -> int:
        """What budgets count: what was read, and before that is known what it means to read.

        Of a job that was ended while it read nobody knows how far it came; the assumed speed says it.
        """
        if self.bytes_read or self.ended_at_ms is None:
            return self.bytes_read or self.bytes_planned
        passed_ms = max(self.ended_at_ms - self.started_at_ms, 0)
        return min(self.bytes_planned, passed_ms * JOB_BYTES_PER_S // 1000)

    @property
    def unheard_since_ms(self) -> int:
        """Since when its last request may be on its way. An older version noted no more than when that was given up."""
        for at_ms in (self.sent_at_ms, self.ended_at_ms):
            if at_ms is not None:
                return at_ms
        return self.started_at_ms

    def ended(self, outcome: Outcome, now_ms: int) -> "Operation":
        """The operation with its end."""
        return replace(
            self,
            state=str(outcome.kind),
            reason=outcome.reason,
            outcome_why=without_secrets(outcome.why),
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


class Operations(Part):
    """The operations of all tables."""

    def save(self, operation: Operation, job: CompactionJob | None = None) -> None:
        """Keep an operation; the bound job, without its files, stays with it until it has ended for good."""
        self.db.execute(
            "INSERT INTO operations (job_id, uuid, name, action, partition, state, started_at_ms, value, bytes, job) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (job_id) DO UPDATE SET state = excluded.state, "
            "value = excluded.value, bytes = excluded.bytes, job = CASE WHEN excluded.state IN ('running', 'unknown') "
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
                operation.bytes_charged,
                None if job is None else to_json(job.without_files),
            ),
        )

    def forget_operation(self, job_id: str) -> None:
        """An operation came to nothing before it read or wrote anything that counts."""
        self.db.execute("DELETE FROM operations WHERE job_id = ?", (job_id,))

    def open_jobs(self, uuid: str | None = None) -> dict[str, str]:
        """What a crash left behind, and outcomes that nobody knows yet, of one table or of all, the oldest first.

        Returns the names of their tables by job id. Nothing is read that may be damaged.
        """
        rows = self.db.execute(
            "SELECT job_id, name FROM operations WHERE state IN ('running', 'unknown') "
            "AND (?1 IS NULL OR uuid = ?1) ORDER BY started_at_ms",
            (uuid,),
        )
        return dict(rows.fetchall())

    def begun(self, job_id: str) -> tuple[Operation, CompactionJob | None] | None:
        """An operation, with its bound job while its end is open; None where it was forgotten.

        Raises:
            StoreError: its row cannot be read.
        """
        found = self.db.execute(
            "SELECT CAST(value AS BLOB), CAST(job AS BLOB) FROM operations WHERE job_id = ?", (job_id,)
        ).fetchone()
        if found is None:
            return None
        value, job = found
        return from_row(Operation, value), None if job is None else from_row(CompactionJob, job)

    def unfinished(self, uuid: str | None = None) -> list[tuple[Operation, CompactionJob | None]]:
        """Everything of which the end is open, of one table or of all. Raises StoreError where a row cannot be read."""
        # A daemon may forget one while a command looks.
        return [found for job_id in self.open_jobs(uuid) if (found := self.begun(job_id)) is not None]

    def operations(self, uuid: str | None = None, limit: int = 1000) -> list[Operation]:
        """The newest operations, newest first, of one table or of all."""
        rows = self.db.execute(
            "SELECT CAST(value AS BLOB) FROM operations WHERE ? IS NULL OR uuid = ? ORDER BY started_at_ms DESC LIMIT ?",
            (uuid, uuid, limit),
        )
        return [from_row(Operation, value) for (value,) in rows]

    def compacted(self, uuid: str, before_ms: int) -> dict[PartitionKey, int]:
        """When the data of each partition was last rewritten before a time, as far as the number of its files tells it."""
        rows = self.db.execute(
            "SELECT partition, MAX(json_extract(value, '$.ended_at_ms')) FROM operations WHERE uuid = ? "
            "AND action = ? AND state = 'done' AND partition IS NOT NULL AND json_valid(value) "
            "AND json_extract(value, '$.ended_at_ms') < ? "
            "AND json_extract(value, '$.files_before') <> json_extract(value, '$.files_after') GROUP BY partition",
            (uuid, Action.COMPACT, before_ms),
        )
        return dict(rows.fetchall())

    def with_failures(self) -> set[str]:
        """The uuids of the tables of which something has failed, or nobody knows: others have no setbacks."""
        rows = self.db.execute("SELECT DISTINCT uuid FROM operations WHERE state IN ('failed', 'unknown')")
        return {uuid for (uuid,) in rows}

    def setbacks(self, uuid: str, latest_ms: int) -> dict[Action, Quarantine]:
        """How often in a row each action on a table as a whole has failed, and until when it is left alone.

        An end that nobody knows counts too: to begin again at once would leave one more of them open each time. What a
        clock that was ahead has stamped, with a time after `latest_ms`, says nothing: it would be the newest, and the
        table left alone, until that time has come.
        """
        found: dict[Action, Quarantine] = {}
        for action in Action:
            if action is Action.COMPACT:
                continue
            rows = self.db.execute(
                "SELECT state, CAST(value AS BLOB) FROM operations WHERE uuid = ? AND action = ? AND state IN ('done', 'failed', 'unknown') "
                "AND started_at_ms <= ? ORDER BY started_at_ms DESC LIMIT 20",
                (uuid, action, latest_ms),
            )
            # Nearly always the last one was done: then no row is taken apart.
            ended = (from_row(Operation, value) for _, value in takewhile(lambda row: row[0] != "done", rows))
            failed = list(takewhile(lambda one: one.reason not in PASSING, ended))
            if failed:
                ended_at_ms = failed[0].ended_at_ms or 0
                if ended_at_ms > latest_ms:
                    ended_at_ms = failed[0].started_at_ms
                until_ms = ended_at_ms + pause_ms(len(failed) - 1)
                why = f"{failed[0].reason}: {failed[0].outcome_why}"
                found[action] = Quarantine(until_ms, len(failed), why)
        return found

    def bytes_read_within(self, span_ms: int, now_ms: int, uuid: str | None = None) -> int:
        """Bytes that compactions of one table or of all have read, or mean to read, in a span until now; for budgets.

        What a clock that was ahead has stamped counts for as long as the span, and not until that time has come.
        """
        # One question for each index: a condition that may be none keeps SQLite from either.
        of_table = "" if uuid is None else "AND uuid = ?4"
        row = self.db.execute(
            f"SELECT TOTAL(bytes) FROM operations WHERE started_at_ms BETWEEN ?1 AND ?2 AND action = ?3 {of_table}",  # noqa: S608
            (now_ms - span_ms, now_ms + span_ms, Action.COMPACT, *(() if uuid is None else (uuid,))),
        ).fetchone()
        return int(row[0])

    def name_of(self, uuid: str) -> str | None:
        """The name of a table when something was done to it last, or None where nothing was."""
        row = self.db.execute(
            "SELECT name FROM operations WHERE uuid = ? ORDER BY started_at_ms DESC LIMIT 1", (uuid,)
        ).fetchone()
        return None if row is None else str(row[0])

    def has_job(self, job_id: str) -> bool:
        """Whether this ledger knows of a job."""
        return self.db.execute("SELECT 1 FROM operations WHERE job_id = ?", (job_id,)).fetchone() is not None

    def is_open(self, uuid: str, action: Action) -> bool:
        """Whether something was begun of which nobody knows the end."""
        row = self.db.execute(
            "SELECT 1 FROM operations WHERE state IN ('running', 'unknown') AND uuid = ? AND action = ?",
            (uuid, action),
        )
        return row.fetchone() is not None

    def last_done(self, uuid: str, latest_ms: int) -> dict[Action, int]:
        """When each action was last done to a table, in milliseconds since the epoch, `latest_ms` at most.

        What a clock that was ahead has stamped is left out: one expiry more is done, and not none until that time.
        """
        rows = self.db.execute(
            "SELECT action, MAX(started_at_ms) FROM operations "
            "WHERE uuid = ? AND state = 'done' AND started_at_ms <= ? GROUP BY action",
            (uuid, latest_ms),
        )
        return {Action(action): at_ms for action, at_ms in rows}
