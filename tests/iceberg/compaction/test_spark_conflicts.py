"""Who wins a race against what Spark has written: whoever wins it against what was written on this machine."""

from collections.abc import Iterator
from typing import Any

import pytest

from iceberg.compaction.test_commit_conflicts import PASSED, REFUSED
from isotherm.core.model.jobs import Rewrite
from isotherm.iceberg.compaction.spark_executor import SparkExecutor
from support.executors import ended, start
from support.faults import FaultyCatalog
from support.one_partition import NAME
from support.rewriting import bound, commit
from support.spark_connect import ConnectServer
from support.two_partitions import OURS, assert_done, assert_failed, contents


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
