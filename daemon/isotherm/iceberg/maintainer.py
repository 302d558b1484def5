"""What changes tables, as the service wants it: executors, committer, expiry and remover behind one port.

Nothing is decided here. Errors of the catalog become the two that the service knows; everything else has an outcome.
"""

from collections.abc import Callable, Mapping, Sequence

from pyiceberg.catalog import Catalog as PyIcebergCatalog
from pyiceberg.table import Table
from tenacity.nap import sleep

from isotherm.clients.storage import plain_properties
from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.model.jobs import CompactionJob, Outcome, Rewrite, Swap, Take
from isotherm.core.model.progress import Progress
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.orphan_findings import Found, Refused
from isotherm.core.policy.sort_text import NONE
from isotherm.iceberg import expiry, orphan_search
from isotherm.iceberg.asking import Asking, Asks
from isotherm.iceberg.clean_metadata import read_with_unused, with_cleaned
from isotherm.iceberg.compaction import commit_outcome, committer
from isotherm.iceberg.compaction.binding import bind
from isotherm.iceberg.compaction.executors import Executor
from isotherm.iceberg.compaction.names import leftovers
from isotherm.iceberg.errors import binding_refused, error_text, translated
from isotherm.iceberg.lost_refs_search import LostRefs
from isotherm.iceberg.remover import deleted, sweep
from isotherm.iceberg.stopping import IsStopped
from isotherm.iceberg.store_clock import skew_ms
from isotherm.iceberg.threads import THREADS, Beside, Threads
from isotherm.iceberg.values import loaded_table
from isotherm.iceberg.waited_for import WAIT_S, WaitedFor
from isotherm.parquet.table_description import described
from isotherm.runtime.clock import monotonic_s
from isotherm.service.ports import (
    Bound,
    Expired,
    ExpiryReading,
    GoOn,
    LoadedTable,
    MayCommit,
    Search,
    Sweep,
    Swept,
    Unavailable,
)

BINDING_LIMIT_S = 600.0
"""For one step of the reading of a partition's manifests."""
LIMIT_S = 600.0
"""For one step of an expiry's reading, and of a sweep: a store that hangs in a request must not stop all tables. As
long as files are read or deleted they go on: the proof for a week of commits takes as long as the store takes."""
COMMIT_LIMIT_S = 600.0
"""For a commit, or an expiry, from one question to the next: a commit reads and writes a manifest for each that its files are in."""
COMMIT_WAIT_S = 5.0
"""For which the loop waits for either before it goes on with its turns. Nearly every one takes less."""
BESIDE_OTHERS_S = 0.02
"""The same where rewrites run: the next ones begin meanwhile, and what ends goes in the next commit."""


_ToCommit = tuple[Table, Sequence[CompactionJob]]
"""Of which it is asked last whether it may be committed."""
_ToExpire = tuple[Table, bool]
"""The same of an expiry, and whether it is done, so that only schemas and specs would follow."""


class IcebergMaintainer:
    """The real maintainer behind the port `Maintainer`."""

    def __init__(
        self,
        catalog: PyIcebergCatalog,
        executor: Executor,
        now_ms: Callable[[], int],
        clock_s: Callable[[], float] = monotonic_s,
        pause: Callable[[float], None] = sleep,
        threads: Threads = THREADS,
        commit_wait_s: float = COMMIT_WAIT_S,
        store_wait_s: float = WAIT_S,
    ) -> None:
        """Nothing runs yet.

        Args:
            catalog: PyIceberg's catalog.
            executor: where rewrites run.
            now_ms: the wall clock.
            clock_s: the monotonic clock.
            pause: waits so many seconds between two attempts of a request.
            threads: how work is done beside the loop.
            commit_wait_s: for which the loop waits for a commit.
            store_wait_s: for which it waits for a store to delete or show what a job wrote.
        """
        self._catalog = catalog
        self._executor = executor
        self._now_ms = now_ms
        self._clock_s = clock_s
        self._pause = pause
        self._threads = threads
        self._waited_for = WaitedFor(threads, clock_s, store_wait_s)
        self._bindings: Beside[Bound | Refusal] = threads.beside(BINDING_LIMIT_S)
        self._readings: Beside[ExpiryReading] = threads.beside(LIMIT_S)
        self._sweeps: Beside[Swept] = threads.beside(LIMIT_S)
        self._looks: Beside[Found | Refused] = threads.beside(LIMIT_S)
        self._commits: Asking[_ToCommit, Mapping[str, Refusal], Sequence[Outcome]] = threads.asking(
            COMMIT_LIMIT_S, commit_wait_s
        )
        self._manifests: Asking[_ToCommit, Mapping[str, Refusal], Outcome] = threads.asking(
            COMMIT_LIMIT_S, commit_wait_s
        )
        self._manifests_written: Sequence[str] = ()
        self._expiries: Asking[_ToExpire, Refusal | None, Expired] = threads.asking(
            COMMIT_LIMIT_S, commit_wait_s
        )
        self._lost_refs = LostRefs(catalog, threads)
        self._wanted: dict[str, Sweep] = {}
        self._expiring: set[str] = set()
        """Jobs whose thread expires snapshots now."""

    def start_binding(
        self,
        loaded: LoadedTable,
        partition: PartitionKey,
        job_id: str,
        label: str,
        take: Take,
        target_bytes: int,
        policy_hash: str,
        why: str,
        *,
        sort: str = NONE,
    ) -> None:
        """Begin to find the files of a partition for a job."""
        table: Table = loaded.handle

        def work(is_stopped: IsStopped) -> Bound | Refusal:
            head = table.current_snapshot()
            if head is None:
                return Refusal(Reason.NOTHING_TO_DO, "the table has no snapshot")
            with translated(f"the manifests of {loaded.table}"):
                return bind(
                    table.metadata,
                    table.io,
                    head,
                    partition,
                    job_id=job_id,
                    table=loaded.table,
                    partition_label=label,
                    take=take,
                    target_size_bytes=target_bytes,
                    policy_hash=policy_hash,
                    why=why,
                    sort=sort,
                    is_stopped=is_stopped,
                )

        self._bindings.start(job_id, work, f"{loaded.table.uuid} {partition}")

    def bound(self) -> Sequence[tuple[str, Bound | Refusal | Unavailable]]:
        """Bindings that ended since the last call. What cannot be read, or is our mistake, is the partition's own trouble."""
        return [
            (job_id, binding_refused(result) if isinstance(result, BaseException) else result)
            for job_id, result in self._bindings.ended()
        ]

    def start(self, loaded: LoadedTable, job: CompactionJob) -> None:
        """Begin to rewrite, in a process of its own."""
        table: Table = loaded.handle
        self._executor.start(job, described(table.metadata), plain_properties(table.io))

    def finished(self) -> Sequence[tuple[str, Rewrite | Refusal]]:
        """Rewrites that ended since the last call."""
        return self._executor.poll()

    def progress(self) -> Mapping[str, Progress]:
        """How far each rewrite is."""
        return self._executor.progress()

    def cancel(self, job_id: str) -> None:
        """Stop a binding, a rewrite, a reading, or a search."""
        self._executor.cancel(job_id)
        for part in (self._bindings, self._readings, self._looks):
            part.forget(job_id)

    def cancel_abandoned(self, job: CompactionJob) -> None:
        """Stop a rewrite that a daemon before this one has begun."""
        self._executor.cancel_abandoned(job)

    def start_commit(self, swaps: Sequence[Swap]) -> None:
        """Begin to swap the files of some jobs in."""

        def work(ask: Asks[_ToCommit, Mapping[str, Refusal]]) -> Sequence[Outcome]:
            return committer.commit_compactions(
                self._catalog,
                swaps,
                lambda table, jobs: ask((table, jobs)),
                self._now_ms(),
                self._pause,
                self._clock_s,
            )

        self._commits.start(work)

    def committed(
        self, name: str, may_commit: MayCommit, *, others_run: bool = False
    ) -> Sequence[Outcome] | BaseException | None:
        """What the commit came to for each job, or None where it goes on."""
        first_s = BESIDE_OTHERS_S if others_run else COMMIT_WAIT_S
        return self._commits.go_on(
            lambda asked: may_commit(loaded_table(asked[0], name), asked[1]), first_s=first_s
        )

    def start_rewriting_manifests(self, job: CompactionJob) -> None:
        """Begin to make fewer of a table's manifests."""
        written: list[str] = []

        def work(ask: Asks[_ToCommit, Mapping[str, Refusal]]) -> Outcome:
            return committer.commit_manifests(
                self._catalog,
                job,
                lambda table, jobs: ask((table, jobs)),
                self._now_ms(),
                self._pause,
                self._clock_s,
                is_stopped=ask.is_stopped,
                written=written,
            )

        self._manifests_written = written

        self._manifests.start(work)

    def manifests_rewritten(self, name: str, may_commit: MayCommit) -> Outcome | BaseException | None:
        """What came of the manifests, or None where it goes on: they are read for seconds, which nobody waits for."""
        return self._manifests.go_on(
            lambda asked: may_commit(loaded_table(asked[0], name), asked[1]), first_s=BESIDE_OTHERS_S
        )

    def give_up_manifests(self) -> Sequence[str]:
        """Have what rewrites manifests end soon, and send nothing more. Returns what it may have written."""
        self._manifests.close()
        return tuple(self._manifests_written)

    def settled(
        self,
        load: Callable[[str], LoadedTable],
        names: Sequence[str],
        job: CompactionJob,
        asserted_head_id: int | None,
        *,
        may_land: bool,
        go_on: GoOn,
    ) -> Outcome | None:
        """What came of a commit whose answer is missing."""
        return commit_outcome.settled(load, names, job, asserted_head_id, may_land=may_land, go_on=go_on)

    def leftovers(self, loaded: LoadedTable, job: CompactionJob) -> Sequence[str]:
        """The data files that a job has written so far."""
        table: Table = loaded.handle
        with translated(f"what job {job.job_id} wrote"):
            return self._waited_for.ask(
                table.metadata.location, lambda _: leftovers(table.io, table.metadata, job)
            )

    def delete_at_once(self, loaded: LoadedTable, paths: Sequence[str]) -> Mapping[str, str]:
        """Delete files of which it was decided that they may go at once; gives those that stay, and why."""
        table: Table = loaded.handle
        _, failed = self._waited_for.ask(
            table.metadata.location, lambda is_stopped: deleted(table.io, paths, is_stopped, self._threads)
        )
        return failed

    def start_reading(
        self, loaded: LoadedTable, job_id: str, snapshots: Sequence[int], *, cleans: bool = False
    ) -> None:
        """Begin to find out what an expiry would leave without a reader."""
        table: Table = loaded.handle
        begin = read_with_unused if cleans else expiry.read
        self._readings.start(
            job_id,
            lambda is_stopped: begin(table, snapshots, self._now_ms(), is_stopped, self._threads),
            loaded.table.uuid,
        )

    def read(self) -> Sequence[tuple[str, ExpiryReading | Refusal]]:
        """Readings that ended since the last call."""
        return [
            (
                job_id,
                result if isinstance(result, ExpiryReading) else Refusal(Reason.STORAGE, error_text(result)),
            )
            for job_id, result in self._readings.ended()
        ]

    def start_expiring(self, table: TableId, reading: ExpiryReading, job_id: str) -> None:
        """Begin to expire snapshots."""

        def work(may_send: Asks[_ToExpire, Refusal | None]) -> Expired:
            about, pause = (self._catalog, table.name, table.uuid), self._pause
            self._expiring.add(job_id)
            try:
                done = expiry.expire(
                    *about, reading, job_id, lambda one: may_send((one, False)), self._now_ms(), pause
                )
                return with_cleaned(
                    done,
                    *about,
                    reading.unused_specs,
                    lambda one: may_send((one, True)),
                    pause,
                    self._threads,
                )
            finally:
                self._expiring.discard(job_id)

        self._expiries.start(work)

    def is_expiring(self, job_id: str) -> bool:
        """Whether the thread of an expiry goes on, also of one that was given up."""
        return job_id in self._expiring

    def expired(
        self, name: str, may_send: Callable[[LoadedTable, bool], Refusal | None]
    ) -> Expired | BaseException | None:
        """What the expiry came to, or None where it goes on."""
        return self._expiries.go_on(lambda asked: may_send(loaded_table(asked[0], name), asked[1]))

    def lost_refs(
        self, job_id: str, loaded: LoadedTable, base: str, taken: Sequence[int]
    ) -> Sequence[str] | None:
        """Branches and tags that a catalog dropped with the snapshots that an expiry took, since that metadata."""
        table: Table = loaded.handle
        return self._lost_refs.of(job_id, table, base, taken)

    def start_search(self, loaded: LoadedTable, job_id: str, search: Search) -> None:
        """Begin to look for files that nothing needs."""
        table: Table = loaded.handle
        self._looks.start(
            job_id,
            lambda is_stopped: orphan_search.find(table, search, is_stopped, self._threads),
            f"{search.uuid} {search.cause}",
        )

    def searched(self) -> Sequence[tuple[str, Found | Refused]]:
        """Searches that ended since the last call."""
        return [
            (
                job_id,
                Refused(Refusal(Reason.STORAGE, error_text(result)))
                if isinstance(result, BaseException)
                else result,
            )
            for job_id, result in self._looks.ended()
        ]

    def start_sweep(self, loaded: LoadedTable, wanted: Sweep) -> None:
        """Begin to prove and delete."""
        self._wanted[wanted.uuid] = wanted
        self._sweeps.start(
            wanted.uuid,
            lambda is_stopped: sweep(
                loaded.handle, wanted, is_stopped, self._clock_s, self._threads, loaded.seen_through
            ),
        )

    def swept(self) -> Sequence[Swept]:
        """Sweeps that ended since the last call."""
        found = []
        for uuid, result in self._sweeps.ended():
            wanted = self._wanted.pop(uuid)
            broken = Swept(uuid, postponed={mark.path: error_text(result) for mark in wanted.marks})
            found.append(result if isinstance(result, Swept) else broken)
        return found

    def stop_sweep(self, uuid: str) -> None:
        """End the sweep of a table before its next file."""
        self._sweeps.stop(uuid)

    def clock_skew_ms(self, loaded: LoadedTable) -> int | None:
        """How far this machine's clock is ahead of the store's, as a file written now shows."""
        return skew_ms(loaded, self._now_ms, self._threads)

    def wait(self, timeout_s: float) -> None:
        """Return when something that runs has ended, or the time is over."""
        beside = (self._bindings, self._executor, self._readings, self._sweeps, self._looks, self._lost_refs)
        for part in beside:
            part.wait(timeout_s)

    def stop(self) -> None:
        """End everything that runs."""
        self._bindings.close()
        self._executor.stop()
        self._commits.close()
        self._manifests.close()
        self._expiries.close()
        self._readings.close()
        self._sweeps.close()
        self._looks.close()
        self._lost_refs.close()
