"""The one committer: swaps the files of jobs for those that an executor wrote, in a snapshot that replaces.

Files in, same rows out, and nothing else touched. A job is refused unless its partition holds, at the head, exactly
the files that it knew, and it is Iceberg's own compare-and-swap that decides. A lost race is tried again on
metadata alone. There are three ends: *done*; *failed*, when a look at the table's history does not show the job; and
*unknown*, when a request was sent and nobody could look since.

Several jobs of a table go in one commit. What stands against one of them takes that one out, and the others go on with a
request of their own.

The requests of one commit are in `one_commit`, the snapshot that they send in `replace_snapshot`.

Nothing is deleted here. The outcome says whether a request was sent, and which manifests it leaves behind; what
becomes of them is decided by `deletion`. More about all this is in docs/designs/replace-commit.md.
"""

from collections.abc import Callable, Sequence

from pyiceberg.catalog import Catalog
from tenacity.nap import sleep

from isotherm.core.model.jobs import NOTHING_WRITTEN, CompactionJob, Outcome, OutcomeKind, Swap
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.failures import DamagedError
from isotherm.iceberg.compaction.one_commit import Commit, MayCommit
from isotherm.iceberg.compaction.proof import mismatch
from isotherm.iceberg.stopping import IsStopped, never
from isotherm.runtime.clock import monotonic_s


def commit_compactions(
    catalog: Catalog,
    swaps: Sequence[Swap],
    may_commit: MayCommit,
    now_ms: int,
    pause: Callable[[float], None] = sleep,
    clock_s: Callable[[], float] = monotonic_s,
) -> list[Outcome]:
    """Put what jobs wrote in the place of what they read; never raises for what the world may do.

    Args:
        catalog: PyIceberg's catalog.
        swaps: of one table, each of a partition of its own.
        may_commit: asked before each request.
        now_ms: the time, for the snapshot, and of what is later by the monotonic clock.
        pause: waits so many seconds between two attempts.
        clock_s: the monotonic clock.

    Returns:
        What came of each.
    """
    ends = {
        swap.job.job_id: Outcome(swap.job.job_id, OutcomeKind.FAILED, Reason.MISMATCH, problem)
        for swap in swaps
        if (problem := mismatch(swap.job, swap.rewrite))
    }
    proved = [swap for swap in swaps if swap.job.job_id not in ends]
    if ends:
        # The next partition may have the same. A person looks before anything more of the table is rewritten.
        why = f"the rows of job {next(iter(ends))} of the same table are not those that were read"
        others = (Outcome.refused(swap.job.job_id, Refusal(Reason.HALTED, why)) for swap in proved)
        ends |= {one.job_id: one for one in others}
    elif proved:
        arguments = may_commit, now_ms, pause, clock_s
        commit = Commit(catalog, proved, *arguments)
        try:
            ends |= commit.run()
        except DamagedError:
            # It may be of one partition alone. What was written for all of them is told with the first that is left.
            written = commit.written
            for swap in tuple(commit.swaps):
                commit.ends |= Commit(catalog, [swap], *arguments, written=list(written)).run()
                written = []
            ends |= commit.ends
    return [ends[swap.job.job_id] for swap in swaps]


def commit_manifests(
    catalog: Catalog,
    job: CompactionJob,
    may_commit: MayCommit,
    now_ms: int,
    pause: Callable[[float], None] = sleep,
    clock_s: Callable[[], float] = monotonic_s,
    *,
    is_stopped: IsStopped = never,
    written: list[str] | None = None,
) -> Outcome:
    """Make fewer of a table's manifests, by the same protocol; never raises for what the world may do.

    Every entry says what it said before, and what was written is read back and compared.

    Args:
        catalog: PyIceberg's catalog.
        job: on the manifests of a table (`job_on_manifests`).
        may_commit: asked before each request.
        now_ms: the time, for the snapshot.
        pause: waits so many seconds between two attempts.
        clock_s: the monotonic clock.
        is_stopped: asked between two manifests.
        written: is given the path of each file, before that is written.
    """
    swap = Swap(job, NOTHING_WRITTEN)
    written = [] if written is None else written
    commit = Commit(
        catalog, [swap], may_commit, now_ms, pause, clock_s, written=written, is_stopped=is_stopped
    )
    return commit.run()[job.job_id]
