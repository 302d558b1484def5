"""The local executor: each rewrite in a process of its own.

So it can be cancelled at once, its memory goes back to the system, and its crash is its own. A child is spawned
(a fork would copy locks that threads of the daemon hold), runs with low priority, and dies with the thread that started
it, by the kernel's hand. It gets values and gives values; files it writes under names that follow from the job id.

Nothing here waits for a child to get on: the caller polls at its own pace.
"""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

from isotherm.clock import monotonic_s
from isotherm.model import CompactionJob, Rewrite

from .rewrite import Failure, FailureKind, RewriteError, rewrite

NICENESS = 10
"""Below everything that serves: a rewrite has time."""
GRACE_S = 0.3
"""After SIGTERM; a child that sits in a C library does not hear it, and has nothing to put in order."""
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class _Running:
    process: SpawnProcess
    answer: Connection
    started_s: float


class LocalExecutor:
    """Runs rewrites in child processes, at most `jobs_at_once` of them."""

    def __init__(
        self, io_properties: Mapping[str, str], jobs_at_once: int = 1, deadline_s: float = 3600
    ) -> None:
        self._io_properties = dict(io_properties)
        self._jobs_at_once = jobs_at_once
        self._deadline_s = deadline_s
        self._running: dict[str, _Running] = {}

    def has_room(self) -> bool:
        """Whether another job may start."""
        return len(self._running) < self._jobs_at_once

    def running(self) -> frozenset[str]:
        """The ids of jobs that were started and not yet reported or cancelled."""
        return frozenset(self._running)

    def start(self, job: CompactionJob, metadata_location: str) -> None:
        """Start a rewrite of files that the metadata at this location knows.

        Call it from a thread that lives as long as its jobs may: the kernel ends a child with the thread that made it.
        """
        if job.job_id in self._running:
            raise ValueError(f"job {job.job_id} is running already")
        if not self.has_room():
            raise ValueError(f"{len(self._running)} of {self._jobs_at_once} jobs are running")
        spawn = multiprocessing.get_context("spawn")
        ours, theirs = spawn.Pipe(duplex=False)
        process = spawn.Process(
            target=_child,
            args=(theirs, os.getpid(), job, metadata_location, self._io_properties),
            name=f"isotherm-{job.job_id}",
            daemon=True,
        )
        process.start()
        theirs.close()
        self._running[job.job_id] = _Running(process, ours, monotonic_s())

    def poll(self) -> list[tuple[str, Rewrite | Failure]]:
        """What ended since the last call; each job is reported once. Never waits."""
        ended = []
        for job_id, running in list(self._running.items()):
            result = self._result(running)
            if result is not None:
                self._end(job_id)
                ended.append((job_id, result))
        return ended

    def cancel(self, job_id: str) -> None:
        """End a job: when this returns its process is gone, and `poll` will not report it."""
        if job_id in self._running:
            self._end(job_id)

    def stop(self) -> None:
        """Cancel whatever runs."""
        for running in self._running.values():
            running.process.terminate()
        for job_id in list(self._running):
            self._end(job_id)

    def _result(self, running: _Running) -> Rewrite | Failure | None:
        # Whether it lives is asked before whether it answered: an answer between the two is seen the next time.
        alive = running.process.is_alive()
        if running.answer.poll():
            try:
                answer: Rewrite | Failure = running.answer.recv()
            except (EOFError, OSError):
                # The pipe closes a moment before the process can be waited for.
                running.process.join(GRACE_S)
                return _death(running.process.exitcode)
            return answer
        if not alive:
            return _death(running.process.exitcode)
        ran_for_s = monotonic_s() - running.started_s
        if ran_for_s > self._deadline_s:
            return Failure(
                FailureKind.DEADLINE, f"not done after {ran_for_s:.0f}s, the limit is {self._deadline_s:.0f}s"
            )
        return None

    def _end(self, job_id: str) -> None:
        running = self._running.pop(job_id)
        running.answer.close()
        if running.process.is_alive():
            running.process.terminate()
            running.process.join(GRACE_S)
        if running.process.is_alive():
            running.process.kill()
        running.process.join()
        running.process.close()


def _death(exit_code: int | None) -> Failure:
    """Why a child without an answer is gone."""
    if exit_code == -signal.SIGKILL:
        why = "killed by SIGKILL from outside; where memory is short, the kernel does that"
        return Failure(FailureKind.KILLED, why)
    if exit_code is not None and exit_code < 0:
        return Failure(FailureKind.KILLED, f"ended by signal {-exit_code}")
    return Failure(FailureKind.UNEXPECTED, f"ended without an answer, exit code {exit_code}")


# --- in the child --------------------------------------------------------------------------------------------


def _child(
    answer: Connection,
    parent: int,
    job: CompactionJob,
    metadata_location: str,
    io_properties: Mapping[str, str],
) -> None:
    _die_with_parent(parent)
    # The terminal's Ctrl-C is for the parent, which then decides; SIGTERM ends us on the spot.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    answer.send(attempt(job, metadata_location, io_properties))


def _die_with_parent(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It died before we asked.
        os._exit(1)


def attempt(
    job: CompactionJob, metadata_location: str, io_properties: Mapping[str, str]
) -> Rewrite | Failure:
    """The rewrite, or why there is none; raises nothing."""
    import duckdb
    import pyarrow as pa

    pa.set_cpu_count(1)
    try:
        return rewrite(job, metadata_location, io_properties)
    except RewriteError as err:
        return err.failure
    except (MemoryError, duckdb.OutOfMemoryException) as err:
        return Failure(FailureKind.OUT_OF_MEMORY, f"out of memory: {err}")
    except Exception as err:  # noqa: BLE001 (the process ends here, and the reason must get out)
        return Failure(FailureKind.UNEXPECTED, f"{type(err).__name__}: {err}")
