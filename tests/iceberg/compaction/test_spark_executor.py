"""Rewrites on Spark, asked through a real Spark Connect server: the same files, rows and refusals as on this machine."""

import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import psutil
import pyarrow as pa
import pytest

from iceberg.compaction.test_commit_conflicts import PASSED, REFUSED
from isotherm.core import observations as seen
from isotherm.core.model.jobs import CompactionJob, ExecutorName, OutcomeKind, Rewrite
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction import spark_executor
from isotherm.iceberg.compaction.executors import Executors
from isotherm.iceberg.compaction.rewrite import attempt
from isotherm.iceberg.compaction.spark_answer import answered
from isotherm.iceberg.compaction.spark_executor import ASKED, BEGUN, WAITS, SparkExecutor
from isotherm.iceberg.compaction.spark_task import TASKS, Task, asked, run
from isotherm.parquet.table_description import described
from isotherm.runtime.clock import monotonic_s
from isotherm.runtime.config import ExecutorsConfig, SparkExecutorConfig
from isotherm.runtime.no_pandas import without_pandas
from support.faults import FaultyCatalog
from support.in_process import InProcess
from support.lab import Lab, of, settle
from support.one_partition import NAME, on_disk
from support.rewrites import rewriting_below
from support.rewriting import bound, commit
from support.spark_connect import ConnectServer
from support.two_partitions import OURS, assert_done, assert_failed, contents

KILLS_WITHIN_S = 30
"""Spark waits some seconds for a task that is to end."""


@pytest.fixture
def executor(connect_server: ConnectServer) -> Iterator[SparkExecutor]:
    executor = SparkExecutor(connect_server.remote, jobs_at_once=2, deadline_s=120, memory_bytes=1024**3)
    yield executor
    executor.stop()


def start(executor: Any, catalog: Any, *jobs: CompactionJob) -> None:
    for job in jobs:
        executor.start(job, described(catalog.load_table(NAME).metadata), catalog.properties)


def ended(executor: Any, count: int = 1, within_s: float = 180) -> dict[str, Rewrite | Refusal]:
    found: dict[str, Rewrite | Refusal] = {}
    until_s = monotonic_s() + within_s
    while len(found) < count and monotonic_s() < until_s:
        executor.wait(1)
        found.update(executor.poll())
    assert len(found) == count
    return found


@pytest.mark.stack
def test_spark_writes_what_would_be_written_here_and_it_is_committed(
    catalog: Any, job: CompactionJob, executor: SparkExecutor
) -> None:
    table = catalog.load_table(NAME)
    rows = sorted(table.scan().to_arrow()["id"].to_pylist())
    here = attempt(replace(job, job_id="here"), described(table.metadata), catalog.properties)
    start(executor, catalog, job)
    assert executor.running() == {job.job_id}

    there = ended(executor)[job.job_id]

    assert isinstance(here, Rewrite)
    assert isinstance(there, Rewrite), there
    assert (there.hash_read, there.rows_read, there.rows_written) == (here.hash_read, 60, 60)
    assert there.peak_memory_bytes > 0
    assert executor.running() == frozenset()
    assert commit(catalog, job, there).kind is OutcomeKind.DONE
    assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == rows
    assert [Path(file.path.removeprefix("file://")) for file in there.files] == on_disk(catalog, job)


@pytest.mark.stack
def test_what_is_refused_there_is_told_here_and_the_others_go_on(
    catalog: Any, job: CompactionJob, executor: SparkExecutor
) -> None:
    missing = replace(job.data_files[0], path=f"{job.data_files[0].path}.gone")
    lost = replace(job, job_id="lost", data_files=(missing, *job.data_files[1:]))
    others = [replace(job, job_id=f"other{number}") for number in range(3)]  # one more than run at once
    start(executor, catalog, lost, *others)

    found = ended(executor, 4)

    assert isinstance(refused := found.pop("lost"), Refusal)
    assert refused.reason is Reason.MISSING_FILE
    assert {type(one) for one in found.values()} == {Rewrite}


def processes_of(connect_server: ConnectServer) -> list[psutil.Process]:
    """The rewrites that run in the server's workers."""
    assert connect_server.process is not None
    return rewriting_below(connect_server.process.pid)


def until_it_rewrites(
    connect_server: ConnectServer, executor: SparkExecutor, catalog: Any, job: CompactionJob
) -> None:
    """Start a job, and wait for its process."""
    start(executor, catalog, job)
    until_s = monotonic_s() + 120
    while not processes_of(connect_server):
        executor.wait(0.2)
        assert monotonic_s() < until_s


@pytest.mark.stack
def test_a_job_that_is_cancelled_ends_there_and_writes_nothing_more(
    catalog: Any, stuck: CompactionJob, connect_server: ConnectServer, executor: SparkExecutor
) -> None:
    until_it_rewrites(connect_server, executor, catalog, stuck)

    executor.cancel(stuck.job_id)

    assert executor.running() == frozenset()
    _, alive = psutil.wait_procs(processes_of(connect_server), KILLS_WITHIN_S)
    assert alive == []
    assert executor.poll() == []
    assert on_disk(catalog, stuck) == []


@pytest.mark.stack
def test_a_job_of_a_daemon_that_is_no_more_is_ended_by_the_next_one(
    catalog: Any, stuck: CompactionJob, connect_server: ConnectServer, executor: SparkExecutor
) -> None:
    until_it_rewrites(connect_server, executor, catalog, stuck)
    later = SparkExecutor(connect_server.remote)

    later.cancel_abandoned(stuck)

    _, alive = psutil.wait_procs(processes_of(connect_server), KILLS_WITHIN_S)
    assert alive == []
    later.stop()


@pytest.mark.stack
def test_what_befalls_one_job_is_no_others(
    catalog: Any, stuck: CompactionJob, connect_server: ConnectServer, executor: SparkExecutor
) -> None:
    """The second cancel finds its job, whatever became of the first; so does a stop."""
    jobs = [replace(stuck, job_id=f"stuck{number}") for number in range(2)]
    start(executor, catalog, *jobs)
    until_s = monotonic_s() + 120
    while len(processes_of(connect_server)) < 2:
        executor.wait(0.2)
        assert monotonic_s() < until_s
    executor.cancel("stuck0")
    _, alive = psutil.wait_procs(processes_of(connect_server)[:1], KILLS_WITHIN_S)

    executor.stop()

    _, alive = psutil.wait_procs(processes_of(connect_server), KILLS_WITHIN_S)
    assert alive == []


@pytest.mark.stack
def test_a_server_that_ends_is_trouble_of_its_jobs_and_the_next_ones_find_it_again(
    catalog: Any,
    job: CompactionJob,
    stuck: CompactionJob,
    connect_server: ConnectServer,
    executor: SparkExecutor,
) -> None:
    until_it_rewrites(connect_server, executor, catalog, stuck)
    connect_server.stop()

    refused = ended(executor)[stuck.job_id]

    assert isinstance(refused, Refusal)
    assert refused.reason is Reason.UNAVAILABLE
    assert connect_server.remote in refused.why
    connect_server.start()
    start(executor, catalog, replace(job, job_id="after"))
    assert isinstance(ended(executor)["after"], Rewrite)


@pytest.mark.stack
def test_workers_without_isotherm_are_told_with_a_remedy(
    catalog: Any, job: CompactionJob, tmp_path: Path
) -> None:
    (tmp_path / "isotherm").mkdir()  # hides the real one
    (tmp_path / "isotherm" / "__init__.py").write_text("")
    server = ConnectServer(tmp_path, python_path=str(tmp_path))
    server.start()
    executor = SparkExecutor(server.remote)
    start(executor, catalog, job)

    refused = ended(executor)[job.job_id]

    executor.stop()
    server.stop()
    assert isinstance(refused, Refusal)
    assert (refused.reason, "give Spark's workers" in refused.why) == (Reason.UNSUPPORTED, True)


@pytest.fixture(scope="module")
def warm(connect_server: ConnectServer) -> Iterator[SparkExecutor]:
    executor = SparkExecutor(connect_server.remote, jobs_at_once=2, deadline_s=120, memory_bytes=1024**3)
    yield executor
    executor.stop()


@pytest.mark.stack
@pytest.mark.parametrize("what", [*REFUSED, *PASSED])
def test_who_wins_a_race_against_what_spark_wrote_is_who_wins_it_here(
    two_partitions: Any, warm: SparkExecutor, what: str
) -> None:
    table = two_partitions.load_table(NAME)
    job, seen_there = bound(table, OURS), list[Any]()
    start(warm, two_partitions, job)
    rewrite = ended(warm)[job.job_id]
    assert isinstance(rewrite, Rewrite), rewrite

    def racing(real: Any, *arguments: Any) -> Any:
        if not seen_there:
            happens = PASSED[what] if what in PASSED else REFUSED[what][1]
            happens(two_partitions.load_table(NAME))
            head = two_partitions.load_table(NAME).metadata.current_snapshot_id
            seen_there.extend([head, contents(two_partitions)])
        return real(*arguments)

    outcome = commit(FaultyCatalog(two_partitions, racing), job, rewrite)

    if what in PASSED:
        assert_done(two_partitions, outcome, seen_there[1])
    else:
        assert_failed(two_partitions, outcome, REFUSED[what][0], job, seen_there[0])


@pytest.mark.stack
def test_a_daemon_compacts_on_spark_as_it_does_here(tmp_path: Path, executor: SparkExecutor) -> None:
    lab = Lab(tmp_path)
    table = lab.create()
    for hour in (1, 1, 1, 2, 2, 2, 9, 10, 11):
        lab.append(table, hour)
    rows = sorted(table.refresh().scan().to_arrow()["id"].to_pylist())
    spark = SparkExecutorConfig(remote="sc://there", from_bytes=0)
    lab.config = lab.config.model_copy(update={"executors": ExecutorsConfig(spark=spark)})
    service = lab.service(executor=Executors(lab.executor, executor))
    service.start()

    settle(service)

    assert [one.outcome for one in of(lab, seen.JobEnded)] == [OutcomeKind.DONE] * 2
    assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == rows
    assert len(table.inspect.files()) == 5
    service.stop()


def test_where_nobody_answers_a_job_is_given_up(catalog: Any, job: CompactionJob) -> None:
    class Away:
        def __init__(self, _: str) -> None:
            pass

        def addTag(self, tag: str) -> None:  # noqa: N802 (Spark's)
            raise ConnectionError(f"nobody there for {tag}")

    executor = SparkExecutor("sc://away", connect=Away)
    start(executor, catalog, job)

    refused = ended(executor)[job.job_id]

    assert refused == Refusal(
        Reason.UNAVAILABLE,
        f"Spark at sc://away: ConnectionError: nobody there for isotherm-{job.job_id}",
    )


def test_of_a_job_on_a_cluster_it_is_said_whether_it_was_begun(catalog: Any, job: CompactionJob) -> None:
    is_opened, may_go_on = Event(), Event()

    class Slow:
        def __init__(self, _: str) -> None:
            is_opened.set()
            may_go_on.wait(20)

        def addTag(self, tag: str) -> None:  # noqa: N802 (Spark's)
            is_opened.set()
            may_go_on.wait(20)
            raise ConnectionError(tag)

    executor = SparkExecutor("sc://slow", jobs_at_once=1, connect=Slow)
    start(executor, catalog, job, replace(job, job_id="next"))
    assert executor.progress() == {job.job_id: WAITS, "next": WAITS}
    executor.poll()
    assert is_opened.wait(20)
    assert executor.progress() == {job.job_id: ASKED, "next": WAITS}
    is_opened.clear()
    may_go_on.set()
    assert is_opened.wait(20)
    assert executor.progress() == {job.job_id: BEGUN, "next": WAITS}
    executor.stop()
    assert executor.progress() == {}


PROGRAM = """
import pickle, sys
from isotherm.iceberg.compaction.spark_executor import SparkExecutor
from isotherm.runtime.no_pandas import without_pandas

without_pandas()
executor = SparkExecutor("sc://127.0.0.1:1")
executor.start(pickle.load(sys.stdin.buffer), "{}", {})
while not (ended := executor.poll()):
    executor.wait(1)
print(ended[0][1].reason)
"""


def test_a_program_of_ours_which_has_no_pandas_has_a_client_of_spark(job: CompactionJob) -> None:
    """The real daemon is such a program."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=pickle.dumps(job), capture_output=True, check=True
    )

    assert done.stdout.decode().strip() == Reason.UNAVAILABLE


def test_whoever_asks_a_cluster_finds_pandas_from_then_on(
    catalog: Any, job: CompactionJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    before = list(sys.meta_path)
    without_pandas()
    executor = SparkExecutor("sc://127.0.0.1:1")
    start(executor, catalog, job)
    ended(executor)

    assert sys.meta_path == before


def test_an_abandoned_job_is_ended_in_its_own_session(job: CompactionJob) -> None:
    ended_there, asked_for = Event(), list[str]()

    class Session:
        def __init__(self, job_id: str) -> None:
            asked_for.append(job_id)

        def interruptAll(self) -> None:  # noqa: N802 (Spark's)
            asked_for.append("interrupted")

        def stop(self) -> None:
            ended_there.set()

    SparkExecutor("sc://there", connect=Session).cancel_abandoned(job)

    assert ended_there.wait(20)
    assert asked_for == [job.job_id, "interrupted"]


@pytest.mark.parametrize(("where", "asked"), [(ExecutorName.LOCAL, []), (ExecutorName.SPARK, ["job"])])
def test_an_abandoned_job_is_ended_where_it_runs(
    job: CompactionJob, where: ExecutorName, asked: list[str]
) -> None:
    class Cluster(InProcess):
        def cancel_abandoned(self, job: CompactionJob) -> None:
            told.append(job.job_id)

    told = list[str]()
    Executors(InProcess(), Cluster()).cancel_abandoned(replace(job, job_id="job", executor=where))

    assert told == asked


# --- what runs there


def task(catalog: Any, job: CompactionJob) -> Any:
    table = catalog.load_table(NAME)
    return asked(Task(job, described(table.metadata), dict(catalog.properties), 60, None))


def test_a_row_is_a_rewrite_and_its_answer_holds_values_alone(catalog: Any, job: CompactionJob) -> None:
    (answer,) = run(task(catalog, job).to_batches())

    found = answered(answer["answer"][0].as_py(), job, described(catalog.load_table(NAME).metadata))

    assert isinstance(found, Rewrite)
    assert found.rows_written == 60
    assert commit(catalog, job, found).kind is OutcomeKind.DONE


def test_what_a_rewrite_does_not_ask_for_stays_here(catalog: Any, job: CompactionJob) -> None:
    """A partition may have a million other files."""
    others = frozenset((f"file:///other-{number}.parquet", None) for number in range(10_000))

    beside = task(catalog, replace(job, bystanders=others))

    assert beside.nbytes == task(catalog, replace(job, bystanders=frozenset())).nbytes


def test_another_version_is_told_before_anything_is_read_of_the_task(job: CompactionJob) -> None:
    (answer,) = run(
        [pa.RecordBatch.from_pydict({"version": ["0.0"], "task": [b"not a pickle"]}, schema=TASKS)]
    )

    refused = answered(answer["answer"][0].as_py(), job, "")
    assert isinstance(refused, Refusal)
    assert refused.reason is Reason.UNSUPPORTED
    assert "isotherm 0.0" in refused.why


def test_no_token_of_the_address_is_told(catalog: Any, job: CompactionJob) -> None:
    def away(_: str) -> Any:
        raise ConnectionError("sc://spark:443/;use_ssl=true;token=hunter2 does not answer")

    executor = SparkExecutor("sc://spark:443/;use_ssl=true;token=hunter2", connect=away)
    start(executor, catalog, job)

    refused = ended(executor)[job.job_id]

    assert isinstance(refused, Refusal)
    assert refused.why.startswith("Spark at sc://spark:443: ConnectionError: sc://spark:443/")
    assert "hunter2" not in refused.why


def test_of_an_error_of_grpc_the_line_that_says_something_is_told(catalog: Any, job: CompactionJob) -> None:
    def away(_: str) -> Any:
        raise RuntimeError(
            '<_InactiveRpcError of RPC that terminated with:\n\tdetails = "no route to host"\n>'
        )

    executor = SparkExecutor("sc://away", connect=away)
    start(executor, catalog, job)

    refused = ended(executor)[job.job_id]
    assert isinstance(refused, Refusal)
    assert refused.why.endswith('RuntimeError: "no route to host"')


def test_a_thread_that_is_not_to_be_had_is_that_jobs_trouble(
    catalog: Any, job: CompactionJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    local, cluster = InProcess(), SparkExecutor("sc://away")
    executor = Executors(local, cluster)
    job, other = replace(job, executor=ExecutorName.SPARK), replace(job, job_id="other")
    start(executor, catalog, job, other)

    def fails(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(spark_executor.Thread, "start", fails)
    found = dict(executor.poll())

    assert isinstance(found["other"], Rewrite)
    assert isinstance(found[job.job_id], Refusal)
    assert executor.running() == frozenset()


def test_a_job_runs_where_it_says(catalog: Any, job: CompactionJob) -> None:
    local, cluster = InProcess(), InProcess()
    executor = Executors(local, cluster)
    job, other = replace(job, executor=ExecutorName.SPARK), replace(job, job_id="other")
    start(executor, catalog, job, other)

    assert (local.running(), cluster.running()) == ({"other"}, {job.job_id})
    assert executor.running() == {"other", job.job_id}
    executor.cancel("other")
    assert [job_id for job_id, _ in executor.poll()] == [job.job_id]
