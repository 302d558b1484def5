"""Rewrites on Spark, asked through a real Spark Connect server: the same files, rows and refusals as on this machine."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from iceberg.compaction import test_moving as moving
from isotherm.core import observations as seen
from isotherm.core.model.jobs import CompactionJob, OutcomeKind, Rewrite
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.executors import Executors
from isotherm.iceberg.compaction.rewrite import attempt
from isotherm.iceberg.compaction.spark_executor import SparkExecutor
from isotherm.parquet.table_description import described
from isotherm.runtime.clock import monotonic_s
from isotherm.runtime.config import ExecutorsConfig, SparkExecutorConfig
from support.executors import ended, start
from support.lab import Lab, of, settle
from support.one_partition import NAME, on_disk
from support.rewrites import rewriting_below
from support.rewriting import commit
from support.spark_connect import ConnectServer

KILLS_WITHIN_S = 30
"""Spark waits some seconds for a task that is to end."""


@pytest.fixture
def executor(connect_server: ConnectServer) -> Iterator[SparkExecutor]:
    executor = SparkExecutor(connect_server.remote, jobs_at_once=2, deadline_s=120, memory_bytes=1024**3)
    yield executor
    executor.stop()


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
def test_what_is_moved_into_another_spec_is_written_there_too(
    empty_catalog: Any, executor: SparkExecutor
) -> None:
    table = moving.hours_to_days(empty_catalog, moving.some(0, [1, 2]), moving.some(10, [1]))
    before = moving.rows(table)
    job = moving.moved(table, moving.hour(1))
    assert isinstance(job, CompactionJob)
    start(executor, empty_catalog, job)

    there = ended(executor)[job.job_id]

    assert isinstance(there, Rewrite), there
    assert {moving.day(0)} == {file.partition for file in there.files}
    assert commit(empty_catalog, job, there).kind is OutcomeKind.DONE
    assert before == moving.rows(table)


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
