"""What is told of how far rewrites are, when, and to whom."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.contract.identity import TableId
from isotherm.core.model.files import FileKind, LiveFile
from isotherm.core.model.jobs import Action, CompactionJob, job_on_manifests
from isotherm.core.model.progress import Progress, left_s, share_of
from isotherm.core.observations import JobGoesOn, JobStarted, RewritesRun
from isotherm.service.jobs.job_progress import JobProgress
from isotherm.store.ledger import Operation
from support.held import due_table
from support.in_process import InProcess
from support.lab import of, started, until_a_job_runs, uuid_of

TABLE, OTHER = TableId("u", "shop.orders"), TableId("v", "shop.clicks")


def a_job(job_id: str, table: TableId = TABLE, size: int = 1000) -> tuple[Operation, CompactionJob]:
    job = job_on_manifests(job_id, table, 1, 1, "hash", "due")
    file = LiveFile("a", FileKind.DATA, 1, 100, size)
    operation = Operation(
        job_id, table, Action.COMPACT, job.partition, "day=1", "due", "hash", 1, 0, bytes_planned=size
    )
    return operation, replace(job, data_files=(file,))


def told(progress: JobProgress, running: Any, far: Any, now_s: float) -> list[Any]:
    return list(progress.turn(running, lambda: far, now_s))


def test_the_metrics_have_the_sums_of_a_table_every_few_seconds_and_its_end() -> None:
    progress, running = JobProgress(), [a_job("a"), a_job("b"), a_job("c", OTHER), a_job("d", OTHER)]
    far = {"a": Progress(10, 100, 9, 80), "b": Progress(50, 500, 40, 400), "c": Progress(unknown="it waits")}

    assert told(progress, running, far, 0) == [RewritesRun(TABLE, 2, 200, 2000, 60, 600, 49, 480)]
    assert told(progress, running, far, 4.9) == []
    assert told(progress, running[:1], far, 5) == [RewritesRun(TABLE, 1, 100, 1000, 10, 100, 9, 80)]
    assert told(progress, running[:1], {}, 10) == [RewritesRun(TABLE, 0)]
    assert told(progress, [], {}, 15) == []


def test_a_job_that_takes_long_is_in_the_log_once_a_minute() -> None:
    progress, far = JobProgress(), {"a": Progress(25, 250, 20, 200)}
    lines = [
        (now_s, one)
        for now_s in range(0, 185, 5)
        for one in told(progress, [a_job("a")], far, now_s)
        if isinstance(one, JobGoesOn)
    ]

    assert [now_s for now_s, _ in lines] == [60, 120, 180]
    assert lines[0][1] == JobGoesOn(
        TABLE, Action.COMPACT, "a", "day=1", 60, 25, 100, 250, 1000, 20, 200, 0.25, 180
    )


@pytest.mark.parametrize(
    "before", [Progress(unknown="it waits"), Progress()], ids=["its turn", "its process"]
)
def test_the_time_for_which_a_job_waited_says_nothing_of_its_pace(before: Progress) -> None:
    progress = JobProgress()
    for now_s in range(0, 3601, 5):
        told(progress, [a_job("a")], {"a": before}, now_s)
    lines = [
        one
        for now_s in range(3605, 3721, 5)
        for one in told(progress, [a_job("a")], {"a": Progress(0, 5 * (now_s - 3600), 0, 0)}, now_s)
        if isinstance(one, JobGoesOn)
    ]

    assert [(one.seconds - 3600, one.seconds_left) for one in lines] == [(60, 140), (120, 80)]


def test_of_a_job_that_does_not_say_how_far_it_is_the_log_says_why() -> None:
    progress, far = JobProgress(), {"a": Progress(unknown="Spark has it")}
    told(progress, [a_job("a")], far, 0)
    (line,) = told(progress, [a_job("a")], far, 60)

    assert (line.share, line.seconds_left, line.why) == (None, None, "Spark has it")


@pytest.mark.parametrize(
    ("read", "of_all", "seconds", "share", "left"),
    [
        (0, 1000, 60, 0.0, None),
        (9, 1000, 60, 0.009, None),
        (250, 1000, 60, 0.25, 180.0),
        (1000, 1000, 60, 1.0, 0.0),
        (1200, 1000, 60, 1.0, 0.0),
        (0, 0, 60, 0.0, None),
    ],
    ids=[
        "it has begun",
        "too little to say",
        "a quarter",
        "all",
        "more than manifests say",
        "nothing to read",
    ],
)
def test_what_is_left_is_as_fast_as_what_was_done(
    read: int, of_all: int, seconds: float, share: float, left: float | None
) -> None:
    assert share_of(read, of_all) == share
    assert left_s(share, seconds) == left


@given(st.integers(0, 2**50), st.integers(0, 2**50), st.floats(0, 10**6))
def test_a_share_is_a_share_and_no_time_is_negative(read: int, of_all: int, seconds: float) -> None:
    share = share_of(read, of_all)
    left = left_s(share, seconds)

    assert 0 <= share <= 1
    assert left is None or left >= 0


class Long(InProcess):
    """Rewrites that do not end, half done."""

    def start(self, job, description, io_properties):
        del description, io_properties
        self._done[job.job_id] = None

    def poll(self):
        return []

    def progress(self):
        return dict.fromkeys(self._done, Progress(3, 300, 2, 200))


def test_the_daemon_tells_how_far_a_rewrite_is_and_when_it_is_gone(lab):
    table = due_table(lab)
    lab.executor = Long()
    service = started(lab)
    until_a_job_runs(service)
    lab.ahead_ms += 5_000
    service.step(0)
    (one,) = of(lab, RewritesRun)
    (begun,) = of(lab, JobStarted)
    assert (one.table.uuid, one.jobs, one.rows_read, one.bytes_read) == (uuid_of(table), 1, 3, 300)
    assert one.bytes == begun.bytes

    for _ in range(7):
        lab.ahead_ms += 10_000
        service.step(0)
    (line,) = of(lab, JobGoesOn)
    assert (line.job_id, line.rows_read, line.bytes) == (begun.job_id, 3, begun.bytes)

    service.compactions.stop()
    lab.ahead_ms += 10_000
    service.step(0)
    assert of(lab, RewritesRun)[-1] == RewritesRun(one.table, 0)
    service.stop()
