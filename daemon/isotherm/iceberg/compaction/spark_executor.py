"""The Spark executor: each rewrite is a task on a Spark cluster, which is asked through Spark Connect.

The daemon has no JVM. It sends a row with the job, and a worker of Spark does the rest (`spark_task`). Nothing is committed
there, and nothing is read by Spark itself: the committer is ours, and so is the proof.

A task that is cancelled is killed by Spark within some seconds; what it wrote until then lies in the job's own files.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import Any

from isotherm.core.model.jobs import CompactionJob, Rewrite
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.spark_task import ANSWERS_OF_SPARK, Task, answered, asked, run
from isotherm.runtime.clock import monotonic_s

INTERRUPTED_EVERY_S, INTERRUPTED_TIMES = 1.0, 60
"""A cancel that comes before Spark knows of the task finds nothing: it is said again until the task has ended."""
RETRIES = 4
"""Of one request, within two seconds or so."""
STOPS_WITHIN_S = 3.0
SLACK_S = 30.0
"""The task ends by itself at its deadline. Where Spark has not begun it, or does not answer, it is given up so much later."""
MISSING = "give Spark's workers the daemon's Python environment (docs/operations.md)"

Connect = Callable[[], Any]
"""Opens a session."""


@dataclass(slots=True)
class _Running:
    began_s: float
    end: Future[Rewrite | Refusal] = field(default_factory=Future)
    is_unwanted: Event = field(default_factory=Event)


class SparkExecutor:
    """Runs rewrites on the cluster behind a Spark Connect server, at most `jobs_at_once` of them; others wait."""

    def __init__(
        self,
        remote: str,
        jobs_at_once: int = 4,
        deadline_s: float = 3600,
        memory_bytes: int | None = None,
        connect: Connect | None = None,
    ) -> None:
        """Nothing is asked yet. `remote` is the server's address, as `sc://host:15002`."""
        self._connect = connect or (lambda: _session(remote))
        self._remote = remote
        self._jobs_at_once = jobs_at_once
        self._deadline_s = deadline_s
        self._memory_bytes = memory_bytes
        self._running: dict[str, _Running] = {}
        self._waiting: dict[str, Task] = {}
        self._session: Any = None
        self._lock = Lock()

    def running(self) -> frozenset[str]:
        """The ids of jobs that were started and not yet reported or cancelled, with those that wait."""
        return frozenset((*self._running, *self._waiting))

    def start(self, job: CompactionJob, description: str, io_properties: Mapping[str, str]) -> None:
        """Start a rewrite of files of the described table, with the properties of its FileIO; where there is no room, later."""
        if job.job_id in self.running():
            raise ValueError(f"job {job.job_id} is running already")
        self._waiting[job.job_id] = Task(
            job, description, dict(io_properties), self._deadline_s, self._memory_bytes
        )
        self._start_waiting()

    def _start_waiting(self) -> None:
        while self._waiting and len(self._running) < self._jobs_at_once:
            job_id = next(iter(self._waiting))
            task, one = self._waiting.pop(job_id), _Running(monotonic_s())
            self._running[job_id] = one
            Thread(
                target=self._do, args=(job_id, task, one), name=f"isotherm-spark-{job_id}", daemon=True
            ).start()

    def _do(self, job_id: str, task: Task, one: _Running) -> None:
        """One task, in a thread of its own."""
        try:
            one.end.set_result(self._answer(job_id, task, one))
        except BaseException as err:  # noqa: BLE001 (whatever Spark, or the way to it, may do)
            self._forget_session()
            one.end.set_result(_refusal(err, self._remote))

    def _answer(self, job_id: str, task: Task, one: _Running) -> Rewrite | Refusal:
        session = self._open()
        if one.is_unwanted.is_set():
            return Refusal(Reason.CANCELLED, "it was cancelled before Spark knew of it")
        session.addTag(_tag(job_id))  # of what this thread asks for
        found = session.createDataFrame(asked(task)).mapInArrow(run, ANSWERS_OF_SPARK).collect()
        return answered(bytes(found[0]["answer"]))

    def _open(self) -> Any:
        with self._lock:
            if self._session is None:
                self._session = self._connect()
            return self._session

    def _forget_session(self) -> None:
        """The next task opens another one: a server that was started again does not know this one."""
        with self._lock:
            self._session = None

    def poll(self) -> list[tuple[str, Rewrite | Refusal]]:
        """What ended since the last call; each job is reported once. Never waits."""
        ended: list[tuple[str, Rewrite | Refusal]] = []
        for job_id, one in list(self._running.items()):
            ran_for_s = monotonic_s() - one.began_s
            if one.end.done():
                ended.append((job_id, one.end.result()))
                del self._running[job_id]
            elif ran_for_s > self._deadline_s + SLACK_S:
                why = f"Spark has not answered after {ran_for_s:.0f}s, the limit is {self._deadline_s:.0f}s"
                ended.append((job_id, Refusal(Reason.DEADLINE, why)))
                self.cancel(job_id)
        self._start_waiting()
        return ended

    def wait(self, timeout_s: float) -> None:
        """Return when a job has answered, or the time is over."""
        if self._running:
            wait([one.end for one in self._running.values()], timeout_s, FIRST_COMPLETED)

    def cancel(self, job_id: str) -> None:
        """Have Spark end a job, within some seconds; `poll` will not report it."""
        self._waiting.pop(job_id, None)
        one = self._running.pop(job_id, None)
        if one is not None:
            one.is_unwanted.set()
            Thread(target=self._interrupt, args=(job_id, one), name="isotherm-interrupt", daemon=True).start()

    def _interrupt(self, job_id: str, one: _Running) -> None:
        for _ in range(INTERRUPTED_TIMES):
            session = self._session
            with suppress(Exception):
                if session is not None:
                    session.interruptTag(_tag(job_id))
            if wait([one.end], INTERRUPTED_EVERY_S).done:
                return

    def stop(self) -> None:
        """Cancel whatever runs or waits."""
        ends = [one.end for one in self._running.values()]
        for job_id in self.running():
            self.cancel(job_id)
        wait(ends, STOPS_WITHIN_S)
        session, self._session = self._session, None
        if session is not None:
            Thread(target=_close, args=(session,), name="isotherm-close", daemon=True).start()


def _session(remote: str) -> Any:
    # A second of CPU, and no daemon without Spark has it.
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(remote).create()
    # The client's own policy tries for ten minutes, also at the end of the process. Jobs are tried again by the planner.
    session.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES, max_backoff=1000)])
    return session


def _close(session: Any) -> None:
    with suppress(Exception):
        session.stop()


def _tag(job_id: str) -> str:
    return f"isotherm-{job_id}"


def _refusal(err: BaseException, remote: str) -> Refusal:
    """Why there is no answer."""
    text = next(iter(str(err).strip().splitlines()), "")
    if "No module named 'isotherm" in str(err):
        return Refusal(Reason.UNSUPPORTED, f"Spark at {remote} has no isotherm: {MISSING}")
    if isinstance(err, ImportError):
        return Refusal(Reason.UNSUPPORTED, f"{err}: install isotherm[spark] where the daemon runs")
    return Refusal(Reason.UNAVAILABLE, f"Spark at {remote}: {type(err).__name__}: {text}")
