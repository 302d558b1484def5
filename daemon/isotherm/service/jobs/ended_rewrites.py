"""Rewrites that are over and wait for their commit: those of one table go together."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from isotherm.contract.identity import UNPARTITIONED
from isotherm.core.model.jobs import CompactionJob, Rewrite, Swap
from isotherm.core.model.refusals import Refusal
from isotherm.store.ledger import Operation

SMALL_BYTES = 16 * 1024**2
SMALL_FILES = 200
"""What reads no more is done in a fraction of a second; each file takes some ten milliseconds."""
MOST_WAITING = 64
"""So many wait while others begin: more would be begun in vain where commits do not come through."""
WAITS_S = 1.0
"""So long a small one waits for others of its table that are under way: each commit is a snapshot that readers plan by, and
costs more than a small rewrite."""
MOST_JOBS = 32
MOST_FILES = 10_000
"""Of one commit: whatever stands against it is found out for all of them, and what is live of their partitions is held at
once."""


def is_small(operation: Operation) -> bool:
    """Whether a compaction shares a slot with others, and waits for them with its commit."""
    return operation.bytes_planned <= SMALL_BYTES and operation.files_planned <= SMALL_FILES


@dataclass(slots=True)
class Ended:
    """What was written by each job, or why nothing was, in the order in which they ended."""

    _results: dict[str, tuple[Rewrite | Refusal, float]] = field(default_factory=dict)
    """With the time at which each was heard of, by the monotonic clock."""

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def extend(self, results: Iterable[tuple[str, Rewrite | Refusal]], now_s: float) -> None:
        """Take in what has ended just now, by the ids of the jobs."""
        self._results.update((job_id, (result, now_s)) for job_id, result in results)

    def ready(
        self, running: Mapping[str, tuple[Operation, CompactionJob]], under_way: Collection[str], now_s: float
    ) -> str | None:
        """The job that has waited longest and waits for no other.

        Args:
            running: the jobs that are not over, by id.
            under_way: the tables, by uuid, of which small jobs will soon be here.
            now_s: the monotonic time.
        """
        of_table = Counter(running[job_id][1].table.uuid for job_id in self._results if job_id in running)
        for job_id, (result, heard_s) in self._results.items():
            if job_id not in running or isinstance(result, Refusal) or now_s - heard_s >= WAITS_S:
                return job_id
            operation, _ = running[job_id]
            uuid = operation.table.uuid
            if not is_small(operation) or uuid not in under_way or of_table[uuid] >= MOST_JOBS:
                return job_id
        return None

    def pop(self, job_id: str) -> Rewrite | Refusal:
        """What came of a job, which waits no more."""
        return self._results.pop(job_id)[0]

    def forget(self, job_id: str) -> None:
        """Let a job go, if it is one of them."""
        self._results.pop(job_id, None)

    def pop_beside(
        self, job: CompactionJob, running: Mapping[str, tuple[Operation, CompactionJob]]
    ) -> list[Swap]:
        """What goes in one commit with a job; it waits no more.

        Of a table without partitions nothing does: deletes of its files may apply to others, too.
        """
        found: list[Swap] = []
        partitions, files, outputs = {UNPARTITIONED, job.partition}, _files(job), set(job.outputs)
        if job.partition == UNPARTITIONED:
            return found
        for job_id, (result, _) in tuple(self._results.items()):
            if job_id not in running or isinstance(result, Refusal):
                continue
            other = running[job_id][1]
            is_alike = (job.table.uuid, job.policy_hash) == (other.table.uuid, other.policy_hash)
            # Two may move rows into one partition, but none into one that another rewrites.
            is_apart = other.partition not in partitions | outputs and partitions.isdisjoint(other.outputs)
            if not (is_alike and is_apart):
                continue
            files += _files(other)
            if len(found) + 1 >= MOST_JOBS or files > MOST_FILES:
                break
            partitions.add(other.partition)
            outputs.update(other.outputs)
            found.append(Swap(other, result))
            del self._results[job_id]
        return found


def _files(job: CompactionJob) -> int:
    """What is known to be live of a job's partition."""
    return len(job.data_files) + len(job.delete_files) + len(job.bystanders)
