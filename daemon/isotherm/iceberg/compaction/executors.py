"""Where rewrites run: what an executor is, and which of several takes a job."""

from collections.abc import Mapping
from typing import Protocol

from isotherm.core.model.jobs import CompactionJob, ExecutorName, Rewrite
from isotherm.core.model.progress import Progress
from isotherm.core.model.refusals import Refusal


class Executor(Protocol):
    """Runs rewrites beside the loop. Nothing here waits but `wait`."""

    def start(self, job: CompactionJob, description: str, io_properties: Mapping[str, str]) -> None:
        """Start a rewrite of files of the described table, with the properties of its FileIO; where there is no room, later."""
        ...

    def poll(self) -> list[tuple[str, Rewrite | Refusal]]:
        """What ended since the last call, by job id; each job is reported once."""
        ...

    def wait(self, timeout_s: float) -> None:
        """Return when something has ended, or the time is over."""
        ...

    def running(self) -> frozenset[str]:
        """The ids of jobs that were started and not yet reported or cancelled."""
        ...

    def progress(self) -> Mapping[str, Progress]:
        """How far each of these jobs is, by its id."""
        ...

    def cancel(self, job_id: str) -> None:
        """End a job, if it is one of these; `poll` will not report it."""
        ...

    def cancel_abandoned(self, job: CompactionJob) -> None:
        """End a job that a process before this one has started, and that may run still."""
        ...

    def stop(self) -> None:
        """Cancel whatever runs or waits."""
        ...


class Executors:
    """A machine and a cluster: each job runs where it says."""

    def __init__(self, local: Executor, cluster: Executor) -> None:
        """Nothing is started yet."""
        self._local = local
        self._cluster = cluster

    def start(self, job: CompactionJob, description: str, io_properties: Mapping[str, str]) -> None:
        """Start a rewrite where it belongs."""
        self._of(job).start(job, description, io_properties)

    def poll(self) -> list[tuple[str, Rewrite | Refusal]]:
        """What ended on either."""
        return [*self._local.poll(), *self._cluster.poll()]

    def wait(self, timeout_s: float) -> None:
        """Return when something has ended, or the time is over."""
        running = [part for part in (self._local, self._cluster) if part.running()]
        for part in running:
            part.wait(timeout_s / len(running))

    def running(self) -> frozenset[str]:
        """The ids of jobs on either."""
        return self._local.running() | self._cluster.running()

    def progress(self) -> Mapping[str, Progress]:
        """How far each job on either is."""
        return {**self._local.progress(), **self._cluster.progress()}

    def cancel(self, job_id: str) -> None:
        """End a job, wherever it is."""
        self._local.cancel(job_id)
        self._cluster.cancel(job_id)

    def cancel_abandoned(self, job: CompactionJob) -> None:
        """End it where it was started."""
        self._of(job).cancel_abandoned(job)

    def stop(self) -> None:
        """Cancel whatever runs or waits."""
        self._local.stop()
        self._cluster.stop()

    def _of(self, job: CompactionJob) -> Executor:
        return self._cluster if job.executor is ExecutorName.SPARK else self._local
