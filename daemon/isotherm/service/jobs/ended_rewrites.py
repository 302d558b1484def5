"""Rewrites that are over and wait for their commit: those of one table go together."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from isotherm.contract.identity import UNPARTITIONED
from isotherm.core.model.jobs import CompactionJob, Rewrite, Swap
from isotherm.core.model.refusals import Refusal
from isotherm.store.ledger import Operation

MOST_WAITING = 64
"""So many wait while others begin: more would be begun in vain where commits do not come through."""
MOST_JOBS = 32
MOST_FILES = 10_000
"""Of one commit: whatever stands against it is found out for all of them, and what is live of their partitions is held at
once."""


@dataclass(slots=True)
class Ended:
    """What was written by each job, or why nothing was, in the order in which they ended."""

    _results: dict[str, Rewrite | Refusal] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def extend(self, results: Iterable[tuple[str, Rewrite | Refusal]]) -> None:
        """Take in what has ended just now, by the ids of the jobs."""
        self._results.update(results)

    @property
    def first(self) -> str | None:
        """The job that has waited longest."""
        return next(iter(self._results), None)

    def pop(self, job_id: str) -> Rewrite | Refusal:
        """What came of a job, which waits no more."""
        return self._results.pop(job_id)

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
        partitions, files = {UNPARTITIONED, job.partition}, _files(job)
        if job.partition == UNPARTITIONED:
            return found
        for job_id, result in tuple(self._results.items()):
            if job_id not in running or isinstance(result, Refusal):
                continue
            other = running[job_id][1]
            is_alike = (job.table.uuid, job.policy_hash) == (other.table.uuid, other.policy_hash)
            if not is_alike or other.partition in partitions:
                continue
            files += _files(other)
            if len(found) + 1 >= MOST_JOBS or files > MOST_FILES:
                break
            partitions.add(other.partition)
            found.append(Swap(other, result))
            del self._results[job_id]
        return found


def _files(job: CompactionJob) -> int:
    """What is known to be live of a job's partition."""
    return len(job.data_files) + len(job.delete_files) + len(job.bystanders)
