"""What changes tables, as the service wants it: executors, committer and expiry behind one port.

Nothing is decided here. Errors of the catalog become the two that the service knows; everything else has an outcome.
"""

from collections.abc import Callable, Sequence

from pyiceberg.catalog import Catalog as PyIcebergCatalog
from pyiceberg.table import Table

from isotherm import committer, expiry
from isotherm.catalog import loaded_table, translated
from isotherm.executors import Failure, LocalExecutor, remove_leftovers
from isotherm.manifests import Unsupported, bind
from isotherm.model import CompactionJob, Outcome, PartitionKey, Rewrite
from isotherm.ports import Expired, LoadedTable, Unbound
from isotherm.storage import plain_properties


class IcebergMaintainer:
    """The real maintainer behind the port `Maintainer`."""

    def __init__(self, catalog: PyIcebergCatalog, executor: LocalExecutor, now_ms: Callable[[], int]) -> None:
        self._catalog = catalog
        self._executor = executor
        self._now_ms = now_ms

    def bind(
        self,
        loaded: LoadedTable,
        partition: PartitionKey,
        job_id: str,
        label: str,
        target_bytes: int,
        policy_hash: str,
        why: str,
    ) -> CompactionJob | Unbound:
        """The files of a partition as a job."""
        table: Table = loaded.handle
        head = table.current_snapshot()
        if head is None:
            return Unbound("nothing_to_do", "the table has no snapshot")
        with translated(f"the manifests of {loaded.table}"):
            job = bind(
                table.metadata,
                table.io,
                head,
                partition,
                job_id=job_id,
                table=loaded.table,
                partition_label=label,
                target_size_bytes=target_bytes,
                policy_hash=policy_hash,
                why=why,
            )
        return Unbound(job.reason, job.why) if isinstance(job, Unsupported) else job

    def start(self, loaded: LoadedTable, job: CompactionJob) -> None:
        """Begin to rewrite, in a process of its own."""
        table: Table = loaded.handle
        self._executor.start(job, table.metadata_location, plain_properties(table.io))

    def finished(self) -> Sequence[tuple[str, Rewrite | Unbound]]:
        """Rewrites that ended since the last call."""
        return [
            (job_id, Unbound(result.kind, result.why) if isinstance(result, Failure) else result)
            for job_id, result in self._executor.poll()
        ]

    def cancel(self, job_id: str) -> None:
        """Stop a rewrite."""
        self._executor.cancel(job_id)

    def commit(
        self, name: str, job: CompactionJob, rewrite: Rewrite, may_commit: Callable[[LoadedTable], str | None]
    ) -> Outcome:
        """Swap the files in."""
        with translated(f"table {name}"):
            return committer.commit_compaction(
                self._catalog,
                job,
                rewrite,
                lambda table: may_commit(loaded_table(table, name)),
                self._now_ms(),
            )

    def settled(self, name: str, job: CompactionJob, asserted_head_id: int | None) -> Outcome | None:
        """What came of a commit whose answer is missing."""
        with translated(f"table {name}"):
            return committer.settled(self._catalog, job, asserted_head_id)

    def clean_up(self, loaded: LoadedTable, job: CompactionJob) -> None:
        """Delete what a failed job wrote."""
        table: Table = loaded.handle
        remove_leftovers(table.io, table.metadata, job)

    def expire(
        self, name: str, snapshots: Sequence[int], job_id: str, mark: Callable[[Sequence[str]], None]
    ) -> Expired:
        """Expire snapshots."""
        with translated(f"table {name}"):
            return expiry.expire(self._catalog, name, snapshots, job_id, mark)

    def delete(
        self, loaded: LoadedTable, paths: Sequence[str], expired: Sequence[int]
    ) -> tuple[list[str], list[str]]:
        """Delete files that an expiry left behind."""
        with translated(f"files of {loaded.table}"):
            return expiry.delete(loaded.handle, paths, expired)

    def stop(self) -> None:
        """End every rewrite."""
        self._executor.stop()
