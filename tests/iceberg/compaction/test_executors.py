"""Each job runs where it says: on this machine or on the cluster, and trouble of one place is none of the other."""

from dataclasses import replace
from typing import Any

import pytest

from isotherm.core.model.jobs import CompactionJob, ExecutorName, Rewrite
from isotherm.core.model.refusals import Refusal
from isotherm.iceberg.compaction import spark_executor
from isotherm.iceberg.compaction.executors import Executors
from isotherm.iceberg.compaction.spark_executor import SparkExecutor
from support.executors import start
from support.in_process import InProcess


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
