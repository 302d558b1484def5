"""The one committer: swaps the files of a job for those that an executor wrote, in a snapshot that replaces.

Files in, same rows out, and nothing else touched. A commit is refused unless the partition holds, at the head, exactly
the files that the job knew, and it is Iceberg's own compare-and-swap that decides. A lost race is tried again on
metadata alone. There are three ends: *done*; *failed*, when a look at the table's history does not show the job; and
*unknown*, when a request was sent and nobody could look since.

Nothing is deleted here. The outcome says whether a request was sent, and which manifests it leaves behind; what
becomes of them is decided by `deletion`. More about all this is in docs/designs/replace-commit.md.
"""

import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate
from tenacity import Retrying, retry_if_not_exception_type, wait_exponential_jitter
from tenacity.nap import sleep

from isotherm.clients.manifests.reading import read_manifest_list
from isotherm.core.model.jobs import CompactionJob, Outcome, OutcomeKind, Rewrite
from isotherm.core.model.refusals import Reason, Refusal, RefusalError
from isotherm.iceberg.commit_refusals import is_busy, is_lost_race, is_refusal
from isotherm.iceberg.compaction.commit_checks import check_files, check_table
from isotherm.iceberg.compaction.commit_outcome import landed
from isotherm.iceberg.compaction.proof import mismatch
from isotherm.iceberg.compaction.replace_snapshot import ReplaceSnapshot
from isotherm.iceberg.manifests.live import LiveEntry, live_files
from isotherm.iceberg.manifests.reachability import last_sequence_number
from isotherm.runtime.clock import monotonic_s
from isotherm.service.tables.failing_tables import FATAL

ATTEMPTS = 10
"""Races that a commit may lose before it gives way: a stream that commits every 100 ms leaves room for one."""
LOOKS = 4
"""Times that the catalog is asked for the table before it counts as away."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.01, 1.0
"""Between two attempts, at most: twice as long each time."""
SENDS = 3
"""Times that one and the same request is sent when its answer is lost. The catalog lets in one of them at most."""
PATIENCE_S = 10.0
"""Once requests without success have taken so long, no other is sent: other commits wait for them, and each may cost
a time-out. The same of looking at the table."""
FRESH_S = 1.0
"""Where reading and writing manifests took longer, the table is looked at again before anybody is asked about it."""

MayCommit = Callable[[Table], Refusal | None]
"""Asked last, with the newest metadata: None, or why it must not be."""

_NOT_FOUND = (NoSuchTableError, NoSuchNamespaceError)


def commit_compaction(
    catalog: Catalog,
    job: CompactionJob,
    rewrite: Rewrite,
    may_commit: MayCommit,
    now_ms: int,
    pause: Callable[[float], None] = sleep,
    clock_s: Callable[[], float] = monotonic_s,
) -> Outcome:
    """Put what a job wrote in the place of what it read; never raises for what the world may do.

    Args:
        catalog: PyIceberg's catalog.
        job: what was read.
        rewrite: what was written.
        may_commit: asked before each request.
        now_ms: the time, for the snapshot.
        pause: waits so many seconds between two attempts.
        clock_s: the monotonic clock.
    """
    if problem := mismatch(job, rewrite):
        return Outcome(job.job_id, OutcomeKind.FAILED, Reason.MISMATCH, problem)
    return _Commit(catalog, job, rewrite, may_commit, now_ms, pause, clock_s).run()


def _place(metadata: TableMetadata) -> tuple[int | None, ...]:
    """What a request is made for: where it differs by now, the request comes too late."""
    return metadata.current_snapshot_id, metadata.current_schema_id, last_sequence_number(metadata)


def _loaded(
    catalog: Catalog,
    name: str,
    pause: Callable[[float], None],
    clock_s: Callable[[], float],
    *,
    believes: bool,
) -> Table:
    """The table now; a catalog that is away for two seconds is no reason to throw a compaction away.

    Where the catalog is believed, "not found" is an answer; else it is trouble like any other.
    """
    until_s = clock_s() + PATIENCE_S
    retrying = Retrying(
        stop=lambda state: state.attempt_number >= LOOKS or clock_s() >= until_s,
        wait=wait_exponential_jitter(multiplier=0.2, max=2, jitter=0.2),
        retry=retry_if_not_exception_type(_NOT_FOUND if believes else ()),
        sleep=pause,
        reraise=True,
    )
    return retrying(catalog.load_table, name)


# --- one commit ----------------------------------------------------------------------------------------------


@dataclass
class _Commit:
    """The attempts of one commit, and what they share."""

    catalog: Catalog
    job: CompactionJob
    rewrite: Rewrite
    may_commit: MayCommit
    now_ms: int
    pause: Callable[[float], None]
    clock_s: Callable[[], float]
    snapshot: ReplaceSnapshot = field(init=False)
    asserted_head_id: int | None = None
    """The head that a request of unknown end asserts. None where every request that was sent has been looked up."""
    asserted_schema_id: int | None = None
    asserted_number: int = 0
    """The table's last sequence number when the last request was sent, whatever its end."""
    was_sent: bool = False
    lost_s: float = 0.0
    """What requests without success have taken."""

    def __post_init__(self) -> None:
        is_metastore = isinstance(self.catalog, MetastoreCatalog)
        self.snapshot = ReplaceSnapshot(self.job, self.rewrite, is_metastore, self.now_ms)

    def run(self) -> Outcome:
        """Try until it is done, refused, or in doubt."""
        try:
            return self._attempts()
        except RefusalError as err:
            refusal = err.refusal
        except FATAL:
            raise
        except Exception as err:  # noqa: BLE001 (whatever the world, or a mistake of ours, may do)
            refusal = Refusal(Reason.UNEXPECTED, f"{type(err).__name__}: {err}")
        if self.asserted_head_id is not None:
            return self._unknown(refusal.why)
        return self._outcome(OutcomeKind.FAILED, refusal.reason, refusal.why)

    def _attempts(self) -> Outcome:
        for attempt in range(ATTEMPTS):
            if self.lost_s >= PATIENCE_S:
                break
            if attempt:
                # Another commit was faster, or a replica of the catalog is behind: a moment later it may be seen.
                self.pause(random.uniform(0, min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**attempt)))  # noqa: S311 (jitter)
            table = self._load()
            began_s = self.clock_s()
            if done := self._already(table):
                return done
            if self._is_older(table.metadata):
                continue
            live = self._live(table)
            if done := self._live_already(live):
                return done
            check_table(self.job, self.rewrite, table.metadata, live, self.now_ms)
            check_files(self.rewrite, table.io)
            requirements, updates = self._request(table, live, attempt)
            if self.clock_s() - began_s > FRESH_S and _place(self._load().metadata) != _place(table.metadata):
                continue  # whoever is asked knows what came meanwhile, and would have to go back for this
            if done := self._send(table, requirements, updates):
                return done
        if done := self._already(self._load()):
            return done
        why = (
            "lost too many races in a row; the table is committed to too often, or the catalog takes too long"
        )
        raise RefusalError(Reason.CONTENTION, why)

    # --- looking

    def _load(self) -> Table:
        name = self.job.table.name
        try:
            # After a request "not found" is trouble like any other: it may come from a proxy, or a rename.
            table = _loaded(self.catalog, name, self.pause, self.clock_s, believes=not self.was_sent)
        except _NOT_FOUND as err:
            raise RefusalError(Reason.GONE, f"the catalog has no table {name}") from err
        except Exception as err:
            raise RefusalError(Reason.CATALOG, f"{name} cannot be loaded: {err}") from err
        if str(table.metadata.table_uuid) != self.job.table.uuid:
            raise RefusalError(
                Reason.GONE, f"{name} is another table now: its uuid is {table.metadata.table_uuid}"
            )
        return table

    def _already(self, table: Table) -> Outcome | None:
        """DONE if a request of this job has landed; else what is known of a request whose answer was lost."""
        if done := landed(table.metadata, self.job):
            return self._done(table, done)
        metadata = table.metadata
        asserted = self.asserted_head_id, self.asserted_schema_id
        if asserted != (metadata.current_snapshot_id, metadata.current_schema_id) and not self._is_older(
            metadata
        ):
            # The table has moved on without us. What was sent can land only if it comes back to where it was, by a
            # rollback; that is why what a request named is never deleted at once.
            self.asserted_head_id = None
        return None

    def _is_older(self, metadata: TableMetadata) -> bool:
        """Whether this is the table from before our last request: a replica that lags says nothing of that."""
        return (last_sequence_number(metadata) or 0) < self.asserted_number

    def _live(self, table: Table) -> list[LiveEntry]:
        metadata = table.metadata
        head = metadata.current_snapshot()
        if head is None:
            raise RefusalError(Reason.CONFLICT, f"{self.job.table.name} has no current snapshot any more")
        try:
            return live_files(metadata, table.io, head, self.job.partition, self.snapshot.known)
        except OSError as err:
            raise RefusalError(
                Reason.STORAGE, f"reading the manifests of snapshot {head.snapshot_id}: {err}"
            ) from err

    def _live_already(self, live: list[LiveEntry]) -> Outcome | None:
        """The snapshot of a commit may have been expired before anyone looked; its files are live all the same."""
        ours = {file.path for file in self.rewrite.all_files}
        if not any(entry.path in ours for entry in live):
            return None
        return self._outcome(
            OutcomeKind.DONE, Reason.COMMITTED, "its files are live; its snapshot is expired", leftovers=()
        )

    # --- sending

    def _request(
        self, table: Table, live: list[LiveEntry], attempt: int
    ) -> tuple[tuple[TableRequirement, ...], tuple[TableUpdate, ...]]:
        """The request, with its manifests written."""
        try:
            return self.snapshot.request(table, live, attempt)
        except OSError as err:
            raise RefusalError(Reason.STORAGE, f"writing the manifests: {err}") from err

    def _send(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> Outcome | None:
        """Swap, and find out what came of it. Returns None where another commit was faster: begin again.

        When an answer is lost and the history does not have us, the request may still be on its way. The very
        same request is sent again: it asserts the same head, so the catalog lets in one of the two at most.
        """
        error: Exception | None = None
        base = table.metadata
        sent = busy = 0
        while sent < SENDS and self.lost_s < PATIENCE_S:
            self._ask(table)
            sent, began_s = sent + 1, self.clock_s()
            # From here on the request may land, whatever is answered and whenever.
            self.asserted_head_id, self.was_sent = base.current_snapshot_id, True
            self.asserted_schema_id, self.asserted_number = (
                base.current_schema_id,
                last_sequence_number(base) or 0,
            )
            try:
                answer = self.catalog.commit_table(table, requirements, updates)
            except Exception as err:  # noqa: BLE001 (whatever it was, the request may have been heard)
                if is_refusal(err):
                    return self._after_refusal(err)
                error = err
                is_refused = is_lost_race(err)
                busy += is_busy(err)
            else:
                # What answers may be a proxy: done is what the answer's own metadata shows.
                if any(one.snapshot_id == self.snapshot.snapshot_id for one in answer.metadata.snapshots):
                    return self._done(table, self._landed())
                error = ValueError(
                    "the catalog said that it is done, and its answer does not show the snapshot"
                )
                is_refused = False
            self.lost_s += self.clock_s() - began_s
            table = self._load()
            if done := self._already(table):
                return done
            if self.asserted_head_id is None or is_refused:
                return None
        if error is not None and busy == sent:
            return self._after_refusal(error)
        times = "once" if sent == 1 else f"{sent} times"
        return self._unknown(f"sent {times}; the last error was {type(error).__name__}: {error}")

    def _after_refusal(self, refused: Exception) -> Outcome | None:
        """The catalog refused. A look shows whether it let an earlier copy in; one at an older table does not: None."""
        table = self._load()
        done = self._already(table)
        if done or self._is_older(table.metadata):
            return done
        self.asserted_head_id = None
        raise RefusalError(Reason.REFUSED, f"the catalog refused the request: {refused}") from refused

    def _ask(self, table: Table) -> None:
        """The last question before the swap."""
        try:
            answer = self.may_commit(table)
        except FATAL:
            raise
        except Exception as err:
            why = f"whether it may be committed cannot be told now: {err}"
            raise RefusalError(Reason.UNAVAILABLE, why) from err
        if answer is not None:
            raise RefusalError(answer.reason, answer.why)

    # --- ends

    def _landed(self) -> Outcome:
        why, snapshot_id = self.snapshot.told(), self.snapshot.snapshot_id
        return self._outcome(OutcomeKind.DONE, Reason.COMMITTED, why, snapshot_id=snapshot_id)

    def _done(self, table: Table, outcome: Outcome) -> Outcome:
        """The outcome, with what lost attempts wrote and the snapshot does not use."""
        with contextlib.suppress(Exception):
            metadata = self.catalog.load_table(self.job.table.name).metadata
            snapshot = metadata.snapshot_by_id(outcome.snapshot_id) if outcome.snapshot_id else None
            if snapshot is not None:
                used = {one.manifest_path for one in read_manifest_list(table.io, snapshot.manifest_list)}
                used.add(snapshot.manifest_list)
                unused = tuple(path for path in self.snapshot.written if path not in used)
                return replace(outcome, was_sent=True, leftovers=unused)
        return replace(outcome, was_sent=True, leftovers=())

    def _unknown(self, why: str) -> Outcome:
        return replace(
            self._outcome(
                OutcomeKind.UNKNOWN,
                Reason.UNKNOWN,
                f"a request to commit on top of snapshot {self.asserted_head_id} was sent and its end is not known: "
                f"{why}",
                snapshot_id=self.snapshot.snapshot_id,
            ),
            asserted_head_id=self.asserted_head_id,
        )

    def _outcome(
        self,
        kind: OutcomeKind,
        reason: Reason,
        why: str,
        snapshot_id: int | None = None,
        leftovers: tuple[str, ...] | None = None,
    ) -> Outcome:
        return Outcome(
            self.job.job_id,
            kind,
            reason,
            why,
            snapshot_id=snapshot_id,
            was_sent=self.was_sent,
            leftovers=tuple(self.snapshot.written) if leftovers is None else leftovers,
        )
