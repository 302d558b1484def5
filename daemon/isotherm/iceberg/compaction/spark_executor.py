"""The Spark executor: each rewrite is a task on a Spark cluster, which is asked through Spark Connect.

The daemon has no JVM. It sends a row with the job, and a worker of Spark does the rest (`spark_task`). Nothing is committed
there, and nothing is read by Spark itself: the committer is ours, and so is the proof.

Each job has a session of its own: what befalls one is no other's, and none is kept until the server forgets it. A task that is
cancelled is killed by Spark within some seconds; what it wrote until then lies in the job's own files.

Spark lets a task go on for minutes after its client has died. The session's id follows from the job's, so the next daemon, which
finds the job in its ledger, ends the session, and with it the task.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from isotherm.core.model.jobs import CompactionJob, Rewrite
from isotherm.core.model.progress import Progress
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.deadline import overdue
from isotherm.iceberg.compaction.spark_answer import answered
from isotherm.iceberg.compaction.spark_task import ANSWERS_OF_SPARK, Task, asked, run
from isotherm.runtime.clock import monotonic_s
from isotherm.runtime.no_pandas import with_pandas
from isotherm.runtime.secrets import without_secrets

INTERRUPTED_EVERY_S, INTERRUPTED_TIMES = 1.0, 60
"""A cancel that comes before Spark knows of the task finds nothing: it is said again until the task has ended."""
RETRIES = 4
"""Of one request, within two seconds or so."""
STOPS_WITHIN_S = 3.0
SLACK_S = 300.0
"""The task ends by itself at its deadline, and only that says that it was too large. Where Spark does not answer it is given up
so much later: a cluster may have to start executors for it first."""
MISSING = "give Spark's workers the daemon's Python environment (docs/operations.md)"
MOST_HANGING = 64
"""Threads that nobody hears of any more, of a server that takes requests and answers none. With more, no job is begun."""

WAITS = Progress(unknown="it waits until others have ended")
ASKED = Progress(unknown="Spark is asked for a session")
BEGUN = Progress(unknown="Spark has it; how far it is there nobody sees from here")

Connect = Callable[[str], Any]
"""Opens the session of a job, or the one that it has already."""


@dataclass(slots=True)
class _Running:
    began_s: float
    end: Future[Rewrite | Refusal] = field(default_factory=Future)
    is_unwanted: Event = field(default_factory=Event)
    session: Any = None


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
        self._connect = connect or (lambda job_id: _session(remote, job_id))
        self._address = remote.partition("/;")[0].partition(";")[0]
        self._jobs_at_once = jobs_at_once
        self._deadline_s = deadline_s
        self._memory_bytes = memory_bytes
        self._running: dict[str, _Running] = {}
        self._waiting: dict[str, Task] = {}
        self._given_up: list[_Running] = []

    def running(self) -> frozenset[str]:
        """The ids of jobs that were started and not yet reported or cancelled, with those that wait."""
        return frozenset((*self._running, *self._waiting))

    def start(self, job: CompactionJob, description: str, io_properties: Mapping[str, str]) -> None:
        """Have a rewrite of files of the described table begin with the next `poll` or `wait` for which there is room."""
        if job.job_id in self.running():
            raise ValueError(f"job {job.job_id} is running already")
        self._waiting[job.job_id] = Task(
            job, description, dict(io_properties), self._deadline_s, self._memory_bytes
        )

    def _start_waiting(self) -> None:
        """Start those that wait, as far as there is room; one that cannot be started has ended."""
        self._given_up = [one for one in self._given_up if not one.end.done()]
        while self._waiting and len(self._running) < self._jobs_at_once:
            job_id = next(iter(self._waiting))
            task, one = self._waiting.pop(job_id), _Running(monotonic_s())
            self._running[job_id] = one
            if len(self._given_up) >= MOST_HANGING:
                one.end.set_result(self._refusal(TimeoutError(f"{len(self._given_up)} requests hang there")))
                continue
            try:
                Thread(target=self._do, args=(job_id, task, one), name="isotherm-spark", daemon=True).start()
            except RuntimeError as err:  # the system gives no thread now
                one.end.set_result(self._refusal(err))

    def _do(self, job_id: str, task: Task, one: _Running) -> None:
        """One task, in a thread and a session of its own."""
        try:
            result = self._answer(job_id, task, one)
        except BaseException as err:  # noqa: BLE001 (whatever Spark, or the way to it, may do)
            result = self._refusal(err)
        one.end.set_result(result)
        with suppress(Exception):
            if one.session is not None:
                one.session.stop()

    def _answer(self, job_id: str, task: Task, one: _Running) -> Rewrite | Refusal:
        session = one.session = self._connect(job_id)
        if one.is_unwanted.is_set():
            return Refusal(Reason.CANCELLED, "it was cancelled before Spark knew of it")
        session.addTag(_tag(job_id))  # of what this thread asks for
        found = session.createDataFrame(asked(task)).mapInArrow(run, ANSWERS_OF_SPARK).collect()
        return answered(bytes(found[0]["answer"]), task.job, task.description)

    def poll(self) -> list[tuple[str, Rewrite | Refusal]]:
        """What ended since the last call; each job is reported once. Never waits."""
        self._start_waiting()
        ended: list[tuple[str, Rewrite | Refusal]] = []
        for job_id, one in list(self._running.items()):
            if one.end.done():
                ended.append((job_id, one.end.result()))
                del self._running[job_id]
            elif (refusal := self._unanswered(one)) is not None:
                ended.append((job_id, refusal))
                self.cancel(job_id)
        return ended

    def _unanswered(self, one: _Running) -> Refusal | None:
        """Why a job is given up: a task that has begun would have ended itself by then, and have said so."""
        what = f"Spark at {self._address} has not answered"
        ran_for_s = monotonic_s() - one.began_s
        return overdue(ran_for_s, self._deadline_s, what, slack_s=SLACK_S, has_begun=False)

    def progress(self) -> Mapping[str, Progress]:
        """What is known of each job: whether Spark was asked for it."""
        waiting = dict.fromkeys(self._waiting, WAITS)
        return waiting | {
            job_id: ASKED if one.session is None else BEGUN for job_id, one in self._running.items()
        }

    def wait(self, timeout_s: float) -> None:
        """Return when a job has answered, or the time is over."""
        self._start_waiting()
        if self._running:
            wait([one.end for one in self._running.values()], timeout_s, FIRST_COMPLETED)

    def cancel(self, job_id: str) -> None:
        """Have Spark end a job, within some seconds; `poll` will not report it."""
        self._waiting.pop(job_id, None)
        one = self._running.pop(job_id, None)
        if one is not None:
            one.is_unwanted.set()
            self._given_up.append(one)
            with suppress(RuntimeError):  # no thread to be had: the task ends at its deadline
                Thread(target=_interrupt, args=(job_id, one), name="isotherm-interrupt", daemon=True).start()

    def cancel_abandoned(self, job: CompactionJob) -> None:
        """Have Spark end a job that another process has started, within some seconds, if it runs there still."""
        if job.job_id in self.running():
            self.cancel(job.job_id)
        elif len(self._given_up) < MOST_HANGING:
            one = _Running(monotonic_s())
            self._given_up.append(one)
            with suppress(RuntimeError):  # no thread to be had: Spark ends it by itself, minutes later
                Thread(
                    target=self._release, args=(job.job_id, one), name="isotherm-release", daemon=True
                ).start()

    def _release(self, job_id: str, one: _Running) -> None:
        """End the session of a job: whatever runs in it ends too."""
        with suppress(Exception):
            session = self._connect(job_id)
            session.interruptAll()
            session.stop()
        one.end.cancel()

    def stop(self) -> None:
        """Cancel whatever runs or waits."""
        ends = [one.end for one in self._running.values()]
        for job_id in self.running():
            self.cancel(job_id)
        wait(ends, STOPS_WITHIN_S)

    def _refusal(self, err: BaseException) -> Refusal:
        """Why there is no answer."""
        if "No module named 'isotherm" in str(err):
            return Refusal(Reason.UNSUPPORTED, f"Spark at {self._address} has no isotherm: {MISSING}")
        if isinstance(err, ImportError):
            return Refusal(Reason.UNSUPPORTED, f"{err}: install isotherm[spark] where the daemon runs")
        why = without_secrets(f"Spark at {self._address}: {type(err).__name__}: {_line_of(err)}")
        return Refusal(Reason.UNAVAILABLE, why)


def _session(remote: str, job_id: str) -> Any:
    # A second of CPU, and no daemon without Spark has it.
    with_pandas()
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession

    address, _, parameters = remote.partition("/;")
    parameters = ";".join(filter(None, (parameters, f"session_id={uuid5(NAMESPACE_URL, job_id)}")))
    session = SparkSession.builder.remote(f"{address}/;{parameters}").create()
    # The client's own policy tries for ten minutes, also at the end of the process. Jobs are tried again by the planner.
    session.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES, max_backoff=1000)])
    return session


def _interrupt(job_id: str, one: _Running) -> None:
    for _ in range(INTERRUPTED_TIMES):
        with suppress(Exception):
            if one.session is not None:
                one.session.interruptTag(_tag(job_id))
        if wait([one.end], INTERRUPTED_EVERY_S).done:
            return


def _tag(job_id: str) -> str:
    return f"isotherm-{job_id}"


def _line_of(err: BaseException) -> str:
    """The line that says what is wrong: of gRPC's errors it is none of the first ones."""
    lines = str(err).strip().splitlines()
    told = next(
        (line.partition("=")[2].strip() for line in lines if line.strip().startswith("details =")), ""
    )
    return told or next(iter(lines), "")
