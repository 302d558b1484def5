"""One commit of some jobs: its attempts, what it looks at before each, and what its requests came to."""

import contextlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate

from isotherm.clients.manifests.avro import UnreadableError
from isotherm.clients.manifests.reading import read_manifest_list
from isotherm.core.model.jobs import CompactionJob, Outcome, OutcomeKind, Swap
from isotherm.core.model.refusals import Reason, Refusal, RefusalError
from isotherm.iceberg.commit_refusals import is_busy, is_lost_race, is_refusal
from isotherm.iceberg.compaction.commit_checks import check_files, check_main, check_outputs, check_table
from isotherm.iceberg.compaction.commit_outcome import landed
from isotherm.iceberg.compaction.failures import DamagedError, damaged
from isotherm.iceberg.compaction.patient_load import NOT_FOUND, PATIENCE_S, load_table
from isotherm.iceberg.compaction.replace_snapshot import ReplaceSnapshot, beside, made_at, made_for
from isotherm.iceberg.compaction.replaced_manifests import OneRefusedError
from isotherm.iceberg.manifests.live import Known, LiveEntry, by_partition, live_files_of
from isotherm.iceberg.manifests.reachability import last_sequence_number
from isotherm.iceberg.stopping import IsStopped, never
from isotherm.service.tables.failing_tables import FATAL

ATTEMPTS = 10
"""Races that a commit may lose before it gives way: a stream that commits every 100 ms leaves room for one."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.01, 1.0
"""Between two attempts, at most: twice as long each time."""
SENDS = 3
"""Times that one and the same request is sent when its answer is lost. The catalog lets in one of them at most."""
FRESH_S = 1.0
"""Where reading and writing manifests took longer, the table is looked at again before anybody is asked about it."""

MayCommit = Callable[[Table, Sequence[CompactionJob]], Mapping[str, Refusal]]
"""Asked last, with the newest metadata: which of the jobs must not be committed, by their ids, and why."""


@dataclass
class Commit:
    """The attempts of one commit, and what they share."""

    catalog: Catalog
    swaps: list[Swap]
    """Those that are not refused yet. Each was in every request that was sent."""
    may_commit: MayCommit
    began_ms: int
    pause: Callable[[float], None]
    clock_s: Callable[[], float]
    began_s: float = field(init=False)
    snapshot: ReplaceSnapshot = field(init=False)
    asserted_head_id: int | None = None
    """The head that a request of unknown end asserts. None where every request that was sent has been looked up."""
    asserted_beside: tuple[int | None, ...] = ()
    """What else it asserts."""
    asserted_number: int = 0
    """The table's last sequence number when the last request was sent, whatever its end."""
    was_sent: bool = False
    lost_s: float = 0.0
    """What requests without success have taken."""
    known: Known = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    """Every manifest and list of every attempt, and of a commit with others that came to nothing."""
    is_stopped: IsStopped = never
    """Asked between two manifests, where many are read."""
    ends: dict[str, Outcome] = field(default_factory=dict)
    """By job: what came of those that were refused while others went on."""
    discarded: int = field(init=False)
    """So many of `written` are of requests that were given up, with a job that was refused."""
    has_dropped: bool = False
    """Whether the last attempt ended with that, and not with a race."""

    def __post_init__(self) -> None:
        self.began_s = self.clock_s()
        self.snapshot, self.discarded = self._new_snapshot(), len(self.written)

    @property
    def now_ms(self) -> int:
        """The time: manifests may be read for seconds, and races lost for a minute."""
        return self.began_ms + int((self.clock_s() - self.began_s) * 1000)

    def _new_snapshot(self) -> ReplaceSnapshot:
        is_metastore = isinstance(self.catalog, MetastoreCatalog)
        return ReplaceSnapshot(tuple(self.swaps), is_metastore, self.known, self.written, self.is_stopped)

    @property
    def is_on_manifests(self) -> bool:
        """Whether its one job is about the table's manifests, and no file comes or leaves."""
        return self.swaps[0].job.is_on_manifests

    @property
    def name(self) -> str:
        """The table's."""
        return self.swaps[0].job.table.name

    def run(self) -> dict[str, Outcome]:
        """Try until each job is done, refused, or in doubt.

        Raises:
            DamagedError: of several jobs none was committed, and each may be tried by itself.
        """
        try:
            end = self._attempts()
        except DamagedError as err:
            if len(self.swaps) > 1 and not self.was_sent:
                raise
            end = self._refused(err.refusal)
        except RefusalError as err:
            end = self._refused(err.refusal)
        except FATAL:
            raise
        except Exception as err:  # noqa: BLE001 (whatever the world, or a mistake of ours, may do)
            end = self._refused(Refusal(Reason.UNEXPECTED, f"{type(err).__name__}: {err}"))
        # What the requests leave behind is the first one's: nothing of it is left behind twice.
        for place, swap in enumerate(self.swaps):
            leftovers = () if place else end.leftovers
            self.ends[swap.job.job_id] = replace(end, job_id=swap.job.job_id, leftovers=leftovers)
        return self.ends

    def _refused(self, refusal: Refusal) -> Outcome:
        if self.asserted_head_id is not None:
            return self._unknown(refusal.why)
        return self._outcome(OutcomeKind.FAILED, refusal.reason, refusal.why)

    def _drop(self, refusals: Mapping[str, Refusal]) -> bool:
        """Let some jobs go, and go on without them; whether there were any. Raises the refusal of the last one."""
        for swap in tuple(self.swaps):
            job_id = swap.job.job_id
            if (refusal := refusals.get(job_id)) is None:
                continue
            if len(self.swaps) == 1:
                raise RefusalError(refusal.reason, refusal.why)
            self.ends[job_id] = replace(self._refused(refusal), job_id=job_id, leftovers=())
            self.swaps.remove(swap)
        if refusals:
            self._begin_anew()
            self.has_dropped = True
        return bool(refusals)

    def _begin_anew(self) -> None:
        """Nothing that was written is used again."""
        self.snapshot, self.discarded = self._new_snapshot(), len(self.written)

    def _attempts(self) -> Outcome:
        lost = 0
        for attempt in count():
            if self.lost_s >= PATIENCE_S or lost == ATTEMPTS:
                break
            if lost and not self.has_dropped:
                # Another commit was faster, or a replica of the catalog is behind: a moment later it may be seen.
                self.pause(random.uniform(0, min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**lost)))  # noqa: S311 (jitter)
            if done := self._attempt(attempt):
                return done
            lost += not self.has_dropped  # that is no race, and there are no more of them than jobs
        if done := self._already(self._load()):
            return done
        why = (
            "lost too many races in a row; the table is committed to too often, or the catalog takes too long"
        )
        raise RefusalError(Reason.CONTENTION, why)

    def _attempt(self, attempt: int) -> Outcome | None:
        """The end, or None where it is to be tried again."""
        table = self._load()
        began_s = self.clock_s()
        if done := self._already(table):
            return done
        if self._is_older(table.metadata):
            return None
        live = self._live(table)
        if done := self._live_already(live):
            return done
        self._drop(self._against(table, live))
        self.has_dropped = False
        if self.snapshot.is_of_another_format(table.metadata):
            self._begin_anew()
        try:
            requirements, updates = self._request(table, live, attempt)
        except OneRefusedError as err:
            self._drop({err.job_id: err.refusal})
            return None
        if self.clock_s() - began_s > FRESH_S and made_for(self._load().metadata) != made_for(table.metadata):
            return None  # whoever is asked knows what came meanwhile, and would have to go back for this
        return self._send(table, requirements, updates)

    # --- looking

    def _load(self) -> Table:
        name = self.name
        try:
            # After a request "not found" is trouble like any other: it may come from a proxy, or a rename.
            table = load_table(self.catalog, name, self.pause, self.clock_s, believes=not self.was_sent)
        except NOT_FOUND as err:
            raise RefusalError(Reason.GONE, f"the catalog has no table {name}") from err
        except Exception as err:
            raise RefusalError(Reason.CATALOG, f"{name} cannot be loaded: {err}") from err
        if str(table.metadata.table_uuid) != self.swaps[0].job.table.uuid:
            raise RefusalError(
                Reason.GONE, f"{name} is another table now: its uuid is {table.metadata.table_uuid}"
            )
        return table

    def _already(self, table: Table) -> Outcome | None:
        """DONE if a request of these jobs has landed; else what is known of a request whose answer was lost."""
        if done := landed(table.metadata, self.swaps[0].job):
            return self._done(table, done)
        metadata = table.metadata
        now = metadata.current_snapshot_id, beside(metadata)[: len(self.asserted_beside)]
        if (self.asserted_head_id, self.asserted_beside) != now and not self._is_older(metadata):
            # The table has moved on without us. What was sent can land only if it comes back to where it was, by a
            # rollback; that is why what a request named is never deleted at once.
            self.asserted_head_id = None
        return None

    def _is_older(self, metadata: TableMetadata) -> bool:
        """Whether this is the table from before our last request: a replica that lags says nothing of that."""
        return (last_sequence_number(metadata) or 0) < self.asserted_number

    def _live(self, table: Table) -> list[LiveEntry]:
        """The live files of the jobs' partitions."""
        metadata = table.metadata
        head = metadata.current_snapshot()
        if head is None:
            raise RefusalError(Reason.CONFLICT, f"{self.name} has no current snapshot any more")
        if self.is_on_manifests:
            return []
        try:
            keys = {key for swap in self.swaps for key in swap.job.touched}
            return live_files_of(metadata, table.io, head, keys, self.known)
        except (FileNotFoundError, UnreadableError) as err:
            raise damaged(f"reading the manifests of snapshot {head.snapshot_id}", err) from err
        except OSError as err:
            raise RefusalError(
                Reason.STORAGE, f"reading the manifests of snapshot {head.snapshot_id}: {err}"
            ) from err

    def _live_already(self, live: list[LiveEntry]) -> Outcome | None:
        """The snapshot of a commit may have been expired before anyone looked; its files are live all the same."""
        ours = {file.path for swap in self.swaps for file in swap.rewrite.all_files}
        if not any(entry.path in ours for entry in live):
            return None
        return self._outcome(
            OutcomeKind.DONE, Reason.COMMITTED, "its files are live; its snapshot is expired", leftovers=()
        )

    def _against(self, table: Table, live: list[LiveEntry]) -> dict[str, Refusal]:
        """What stands against each job that must not be committed, as the table and its files are."""
        found = {}
        of_partition = by_partition(live, (swap.job.partition for swap in self.swaps))
        for swap in self.swaps:
            job, rewrite = swap.job, swap.rewrite
            try:
                if self.is_on_manifests:
                    check_main(job, table.metadata, self.now_ms)
                    continue
                check_table(job, rewrite, table.metadata, of_partition[job.partition], self.now_ms)
                check_outputs(job, rewrite, table.metadata, live)
                check_files(rewrite, table.io)
            except RefusalError as err:
                found[job.job_id] = err.refusal
        return found

    # --- sending

    def _request(
        self, table: Table, live: list[LiveEntry], attempt: int
    ) -> tuple[tuple[TableRequirement, ...], tuple[TableUpdate, ...]]:
        """The request, with its manifests written."""
        try:
            return self.snapshot.request(table, live, attempt, self.now_ms)
        except (FileNotFoundError, UnreadableError) as err:
            raise damaged("writing the manifests", err) from err
        except OSError as err:
            raise RefusalError(Reason.STORAGE, f"writing the manifests: {err}") from err

    def _send(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> Outcome | None:
        """Swap, and find out what came of it. Returns None where another commit was faster, or a job was let go: begin
        again.

        When an answer is lost and the history does not have us, the request may still be on its way. The same
        request is sent again, but for its time: it asserts the same head, so the catalog lets in one of the two at most.
        """
        error: Exception | None = None
        base = table.metadata
        sent = busy = 0
        while sent < SENDS and self.lost_s < PATIENCE_S:
            if self._drop(self._ask(table)):
                return None
            sent, began_s = sent + 1, self.clock_s()
            # From here on the request may land, whatever is answered and whenever.
            self.asserted_head_id, self.was_sent = base.current_snapshot_id, True
            self.asserted_beside = beside(base)[: 3 if self.snapshot.moves else 2]
            self.asserted_number = last_sequence_number(base) or 0
            try:
                answer = self.catalog.commit_table(table, requirements, made_at(updates, self.now_ms))
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

    def _ask(self, table: Table) -> Mapping[str, Refusal]:
        """The last question before the swap."""
        try:
            return self.may_commit(table, [swap.job for swap in self.swaps])
        except FATAL:
            raise
        except Exception as err:
            why = f"whether it may be committed cannot be told now: {err}"
            raise RefusalError(Reason.UNAVAILABLE, why) from err

    # --- ends

    def _landed(self) -> Outcome:
        why, snapshot_id = self.snapshot.told(), self.snapshot.snapshot_id
        return self._outcome(OutcomeKind.DONE, Reason.COMMITTED, why, snapshot_id=snapshot_id)

    def _done(self, table: Table, outcome: Outcome) -> Outcome:
        """The outcome, with what lost attempts wrote and the snapshot does not use."""
        with contextlib.suppress(Exception):
            metadata = self.catalog.load_table(self.name).metadata
            snapshot = metadata.snapshot_by_id(outcome.snapshot_id) if outcome.snapshot_id else None
            if snapshot is not None:
                used = {one.manifest_path for one in read_manifest_list(table.io, snapshot.manifest_list)}
                used.add(snapshot.manifest_list)
                unused = tuple(path for path in self.written if path not in used)
                return replace(outcome, was_sent=True, leftovers=unused)
        is_newest = outcome.snapshot_id == self.snapshot.snapshot_id
        return replace(
            outcome, was_sent=True, leftovers=tuple(self.written[: self.discarded]) if is_newest else ()
        )

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
            self.swaps[0].job.job_id,
            kind,
            reason,
            why,
            snapshot_id=snapshot_id,
            was_sent=self.was_sent,
            leftovers=tuple(self.written) if leftovers is None else leftovers,
        )
