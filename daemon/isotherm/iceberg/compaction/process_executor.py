"""The local executor: each rewrite in a process of its own, which it ends where it is cancelled or past its deadline.

So it can be cancelled at once, its memory goes back to the system, and its crash is its own. Each is forked from a program
that has imported everything already (`fork_program`; a fork of the daemon would copy locks that its threads hold). That one runs
while jobs come, and dies with the thread that started it, by the kernel's hand, and with it each job. A job runs with low
priority. It gets values and gives values; files it writes under names that follow from the job id.

Small jobs follow each other in one process: what a fork costs, and what engines do at their first use, is a third of such
a job. One that read more ends with its process.

Nothing here waits for a child to get on: the caller polls at its own pace. Job and answer go through files in memory,
because a socket takes only so much from one side while the other does not read. The line says that the answer is there.
"""

import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from mmap import mmap
from multiprocessing import connection
from typing import IO, Any

import isotherm
from isotherm.core.model.jobs import CompactionJob, Rewrite
from isotherm.core.model.progress import Progress
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.counters import NUMBERS, seen
from isotherm.iceberg.compaction.deadline import overdue
from isotherm.iceberg.compaction.fork_program import OTHER_CODE
from isotherm.iceberg.compaction.forks import LAST_WAIT_S, ForkServer, Worker
from isotherm.runtime.clock import monotonic_s
from isotherm.runtime.code_on_disk import is_other_code

GRACE_S = 0.3
"""After SIGTERM; there is nothing to put in order, and what does not hear it gets SIGKILL."""
WARM_S = 60
"""So long after the last job the program is kept that the next one would be forked from. It holds some 120 MB."""
SMALL_BYTES = 16 * 1024**2
"""A job that reads no more leaves its process to the next of its kind."""
MOST_JOBS = 100
"""Then a process is replaced: what libraries keep of each job goes back to the system."""
UPGRADED = (
    "isotherm was upgraded, or changed, on this machine while the daemon runs, and no job runs with other code than the "
    "daemon's: restart the daemon (where this happens on a cluster, Spark's Python workers)"
)
ANOTHER_COPY = (
    "another copy of isotherm is imported where rewrites run than the daemon's own, which is from {ours}: have a single one on "
    "the path, or start the daemon as `isotherm daemon`, and not by `python -m` from a folder with a copy; standard error says "
    "where the other one is"
)
WAITS = Progress(unknown="it waits until others have ended")
IDLE_S = 2
"""So long a process waits for another job. It holds some 100 MB."""


@dataclass(frozen=True, slots=True)
class _Running:
    worker: Worker
    result: IO[bytes]
    shared: mmap
    """In which its process says how far it is."""
    started_s: float
    is_small: bool


class LocalExecutor:
    """Runs rewrites in child processes, at most `jobs_at_once` of them; others wait for their turn."""

    def __init__(
        self, jobs_at_once: int = 1, deadline_s: float = 3600, memory_bytes: int | None = None
    ) -> None:
        self._jobs_at_once = jobs_at_once
        self._deadline_s = deadline_s
        self._memory_bytes = memory_bytes
        self._running: dict[str, _Running] = {}
        self._waiting: dict[str, tuple[CompactionJob, str, Mapping[str, str]]] = {}
        self._idle: list[Worker] = []
        self._leaving: list[Worker] = []
        """Sent home: their lines are closed, and nobody has heard yet that they are gone."""
        self._server: ForkServer | None = None
        self._used_s = 0.0
        """When a job ended last."""

    def running(self) -> frozenset[str]:
        """The ids of jobs that were started and not yet reported or cancelled, with those that wait."""
        return frozenset((*self._running, *self._waiting))

    def start(self, job: CompactionJob, description: str, io_properties: Mapping[str, str]) -> None:
        """Start a rewrite of files of the described table, with the properties of its FileIO; where there is no room, later.

        Call it, and `poll`, from a thread that lives as long as its jobs may: the kernel ends a child with the thread that
        made it.
        """
        if job.job_id in self.running():
            raise ValueError(f"job {job.job_id} is running already")
        if self._waiting or len(self._running) >= self._jobs_at_once:
            self._waiting[job.job_id] = job, description, io_properties
        else:
            self._start(job, description, io_properties)

    def _start_waiting(self) -> list[tuple[str, Refusal]]:
        """Start those that wait, as far as there is room. Returns those that cannot be started, and why."""
        refused = []
        while self._waiting and len(self._running) < self._jobs_at_once:
            job_id = next(iter(self._waiting))
            try:
                self._start(*self._waiting.pop(job_id))
            except Exception as err:  # noqa: BLE001 (no process, or no memory; what has ended is told all the same)
                refused.append((job_id, Refusal(Reason.UNEXPECTED, f"it could not be started: {err}")))
        return refused

    def _start(self, job: CompactionJob, description: str, io_properties: Mapping[str, str]) -> None:
        is_small = job.read_bytes <= SMALL_BYTES
        result = _in_memory()
        with _in_memory((job, description, dict(io_properties))) as task, _in_memory() as numbers:
            numbers.truncate(NUMBERS.size)
            shared = mmap(numbers.fileno(), NUMBERS.size)
            worker = self._given(task.fileno(), result.fileno(), numbers.fileno(), is_small=is_small)
        self._running[job.job_id] = _Running(worker, result, shared, monotonic_s(), is_small)

    def progress(self) -> Mapping[str, Progress]:
        """How far each job is, by its id. Never waits."""
        waiting = dict.fromkeys(self._waiting, WAITS)
        return waiting | {job_id: seen(one.shared) for job_id, one in self._running.items()}

    def _given(self, task: int, result: int, shared: int, *, is_small: bool) -> Worker:
        """A worker that was given a job: one that is there already, for a small one."""
        while is_small and self._idle:
            worker = self._idle.pop()
            if worker.poll() is None:
                with suppress(ConnectionError):
                    worker.do(task, result, shared)
                    return worker
            self._send_home(worker)
        worker = self._forked()
        with suppress(ConnectionError):  # it is gone already, as the next look at it will show
            worker.do(task, result, shared)
        return worker

    def _forked(self) -> Worker:
        if self._server is None or self._server.is_gone:
            self._server = ForkServer(self._memory_bytes)
        try:
            return self._server.start()
        except ConnectionError:
            # It ended, and we have not heard so yet.
            self._server.close()
            self._server = ForkServer(self._memory_bytes)
            return self._server.start()

    def poll(self) -> list[tuple[str, Rewrite | Refusal]]:
        """What ended since the last call; each job is reported once. Never waits."""
        ended: list[tuple[str, Rewrite | Refusal]] = []
        for job_id, running in list(self._running.items()):
            result = self._result(running)
            if result is not None:
                self._end(job_id, is_done=isinstance(result, Rewrite))
                ended.append((job_id, result))
        ended += self._start_waiting()
        idle_s = monotonic_s() - self._used_s
        while self._idle and idle_s > IDLE_S:
            self._send_home(self._idle.pop())
        self._leaving = [worker for worker in self._leaving if worker.poll() is None]
        if self._server is not None and not self._running and idle_s > WARM_S:
            self._cool_down()
        return ended

    def wait(self, timeout_s: float) -> None:
        """Return when a job has answered or is gone, or the time is over."""
        lines = [running.worker.line for running in self._running.values()]
        if lines:
            connection.wait(lines, timeout_s)

    def cancel(self, job_id: str) -> None:
        """End a job: when this returns its process is gone, and `poll` will not report it."""
        self._waiting.pop(job_id, None)
        if job_id in self._running:
            self._end(job_id)

    def cancel_abandoned(self, job: CompactionJob) -> None:
        """The kernel has ended its process, with the one that started it."""

    def stop(self) -> None:
        """Cancel whatever runs or waits."""
        self._waiting.clear()
        for running in self._running.values():
            running.worker.terminate()
        for job_id in list(self._running):
            self._end(job_id)
        while self._idle:
            self._send_home(self._idle.pop())
        while self._leaving:
            exit_code_of(self._leaving.pop())
        self._cool_down()

    def _send_home(self, worker: Worker) -> None:
        """End a process that waits for a job. Nobody waits until it is gone."""
        worker.line.close()
        worker.terminate()
        self._leaving.append(worker)

    def _cool_down(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _result(self, running: _Running) -> Rewrite | Refusal | None:
        # Whether it lives is asked before whether it answered: an answer between the two is seen the next time.
        exit_code = running.worker.poll()
        # Before it is waited for: that may end the program, because of this very job.
        was_beside = running.worker.was_given_up
        if connection.wait([running.worker.line], 0):
            if not running.worker.has_answered():
                # The line closes a moment before the process can be waited for.
                return _death(exit_code_of(running.worker), was_beside=was_beside)
            return _answer_in(running.result)
        if exit_code is not None:
            return _death(exit_code, was_beside=was_beside)
        return self._overdue(running)

    def _overdue(self, running: _Running) -> Refusal | None:
        ran_for_s = monotonic_s() - running.started_s
        late = overdue(ran_for_s, self._deadline_s)
        if late is None or running.worker.is_awake():
            return late
        # It hangs before it has forked anything, and would do so for the next job.
        running.worker.give_up()
        return overdue(ran_for_s, self._deadline_s, "not begun", has_begun=False)

    def _end(self, job_id: str, *, is_done: bool = False) -> None:
        """A job is over, and its process with it, unless another small one may follow."""
        running = self._running.pop(job_id)
        running.result.close()
        running.shared.close()
        self._used_s = monotonic_s()
        if is_done and running.is_small and running.worker.jobs < MOST_JOBS:
            self._idle.append(running.worker)
        else:
            _ended(running.worker)


def _ended(worker: Worker) -> None:
    """End a process; when this returns it is gone, or will never begin its job."""
    if not worker.call_off():
        worker.terminate()
        exit_code_of(worker)
        until_let_go(worker.line)
    worker.line.close()


def exit_code_of(process: Worker) -> int:
    """The exit code of a process that is ending; helped after a while."""
    try:
        return process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
    try:
        return process.wait(LAST_WAIT_S)
    except subprocess.TimeoutExpired:
        # It hangs in the kernel, or what would end it does. The loop has other tables.
        process.give_up()
        return -signal.SIGKILL


def until_let_go(line: socket.socket) -> None:
    """Wait until no process can answer on a line any more.

    Where the program has ended its workers are being killed. One may be in the middle of making a file, which whoever clears
    up after it has to see.
    """
    line.settimeout(LAST_WAIT_S)
    with suppress(OSError):
        while line.recv(1):
            pass


def _in_memory(value: Any = None) -> IO[bytes]:
    """A file without a name, with a value in it; never on a disk where the system can do so, because of the keys."""
    file: IO[bytes]
    if sys.platform == "linux":
        file = os.fdopen(os.memfd_create("isotherm"), "w+b")
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115 (closed by whoever asked for it)
    if value is not None:
        pickle.dump(value, file)
        file.seek(0)
    return file


def _answer_in(file: IO[bytes]) -> Rewrite | Refusal:
    """What a child has answered. One that cannot be read ends its own job, and no other that ended beside it."""
    try:
        file.seek(0)
        answer = pickle.load(file)  # noqa: S301 (from our own child)
    except Exception as err:  # noqa: BLE001 (whatever the bytes make pickle, or what they name, raise)
        return Refusal(Reason.UNEXPECTED, f"its answer cannot be read: {type(err).__name__}: {err}")
    if not isinstance(answer, Rewrite | Refusal):
        return Refusal(Reason.UNEXPECTED, f"its answer is a {type(answer).__name__}")
    return answer


def _death(exit_code: int, *, was_beside: bool) -> Refusal:
    """Why a child without an answer is gone. `was_beside`: its program had been ended because of another one."""
    if was_beside:
        why = "its process was ended with that of another job, which did not end otherwise; it is tried again"
        return Refusal(Reason.STOPPED, why)
    if exit_code == -signal.SIGKILL:
        why = "killed by SIGKILL from outside; where memory is short, the kernel does that"
        return Refusal(Reason.KILLED, why)
    if exit_code < 0:
        return Refusal(Reason.KILLED, f"ended by signal {-exit_code}")
    if is_other_code():
        return Refusal(Reason.UPGRADED, UPGRADED)
    if exit_code == OTHER_CODE:
        return Refusal(Reason.UPGRADED, ANOTHER_COPY.format(ours=isotherm.__path__[0]))
    return Refusal(Reason.UNEXPECTED, f"ended without an answer, exit code {exit_code}")
