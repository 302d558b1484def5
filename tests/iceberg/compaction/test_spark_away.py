"""What the daemon does and says by itself about a cluster: without one, or before it answers."""

import pickle
import subprocess
import sys
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from isotherm.core.model.jobs import CompactionJob
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.part_size import TOO_LARGE
from isotherm.iceberg.compaction.spark_executor import ASKED, BEGUN, WAITS, SparkExecutor
from isotherm.runtime.no_pandas import without_pandas
from support.executors import ended, start


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


def test_a_job_that_spark_never_answers_is_given_up_and_is_not_too_large(
    catalog: Any, job: CompactionJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full cluster may not have begun it. What has begun ends by itself at its deadline, and says so."""
    monkeypatch.setattr("isotherm.iceberg.compaction.spark_executor.SLACK_S", 0)
    may_end = Event()

    class Silent:
        def __init__(self, _: str) -> None:
            may_end.wait(20)
            raise ConnectionError

    executor = SparkExecutor("sc://silent", deadline_s=0, connect=Silent)
    start(executor, catalog, job)

    ((_, refused),) = executor.poll()

    why = "Spark at sc://silent has not answered after 0s, the limit is 0s"
    assert refused == Refusal(Reason.UNAVAILABLE, why)
    assert Reason.UNAVAILABLE not in TOO_LARGE
    may_end.set()


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
