"""The local executor: each job in a process of its own, which answers, ends with its parent, and leaves nothing."""

import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from isotherm.contract.paths import normalised
from isotherm.core.model.files import LiveFile
from isotherm.core.model.jobs import CompactionJob, Rewrite
from isotherm.core.model.progress import Progress
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.fork_program import DONE
from isotherm.iceberg.compaction.process_executor import (
    GRACE_S,
    LAST_WAIT_S,
    SMALL_BYTES,
    WAITS,
    LocalExecutor,
    exit_code_of,
    until_let_go,
)
from isotherm.iceberg.compaction.rewrite import attempt
from isotherm.parquet.table_description import described
from support.one_partition import NAME, OURS, finished, on_disk
from support.rewrites import fork_servers_of, rewrites_of, until_it_rewrites
from support.rewriting import bound, cleaned

pytestmark = pytest.mark.usefixtures("only_programs_of_this_test")


def test_a_job_runs_in_a_process_of_its_own(catalog: Any, stuck: CompactionJob) -> None:
    executor = LocalExecutor(jobs_at_once=1)
    executor.start(stuck, described(catalog.load_table(NAME).metadata), catalog.properties)
    (process,) = until_it_rewrites(os.getpid())
    assert executor.running() == {stuck.job_id}
    with pytest.raises(ValueError, match="running already"):
        executor.start(stuck, "", catalog.properties)

    executor.cancel(stuck.job_id)

    assert executor.running() == frozenset()
    assert not process.is_running()
    executor.stop()


def test_how_far_a_job_is_can_be_seen_without_waiting(
    catalog: Any, job: CompactionJob, stuck: CompactionJob
) -> None:
    described_table = described(catalog.load_table(NAME).metadata)
    executor = LocalExecutor(jobs_at_once=1)
    executor.start(job, described_table, catalog.properties)
    executor.start(replace(stuck, job_id="next"), described_table, catalog.properties)
    assert executor.progress()["next"] == WAITS
    executor.wait(60)

    far = executor.progress()[job.job_id]
    result = dict(executor.poll())[job.job_id]

    assert isinstance(result, Rewrite)
    assert (far.rows_read, far.bytes_read) == (result.rows_read, job.read_bytes)
    assert (far.rows_written, far.bytes_written) == (result.rows_written, result.bytes_written)
    assert executor.progress() == {"next": Progress()}
    executor.stop()
    assert executor.progress() == {}


def test_one_that_cannot_be_started_takes_no_answer_of_another_with_it(
    catalog: Any, job: CompactionJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = LocalExecutor(jobs_at_once=1)
    executor.start(job, described(catalog.load_table(NAME).metadata), catalog.properties)
    executor.start(replace(job, job_id="next"), "", {})
    assert executor.running() == {job.job_id, "next"}

    def fails(*_: Any) -> None:
        raise MemoryError("no memory")

    monkeypatch.setattr(executor, "_start", fails)
    executor.wait(60)
    ended = dict(executor.poll())

    assert isinstance(ended[job.job_id], Rewrite)
    assert ended["next"] == Refusal(Reason.UNEXPECTED, "it could not be started: no memory")
    assert executor.running() == frozenset()
    executor.stop()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"no pickle", "its answer cannot be read: UnpicklingError: "),
        (pickle.dumps(7), "its answer is a int"),
    ],
    ids=["no pickle", "another value"],
)
def test_an_answer_that_cannot_be_read_takes_no_other_with_it(
    catalog: Any,
    job: CompactionJob,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: bytes,
    why: str,
) -> None:
    lines = f"""
        import pickle
        dump = pickle.dump
        def another(value, file):
            file.write({answer!r}) if getattr(value, "job_id", "") == "odd" else dump(value, file)
        pickle.dump = another
        """
    (tmp_path / "sitecustomize.py").write_text(textwrap.dedent(lines))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    executor, description = LocalExecutor(jobs_at_once=3), described(catalog.load_table(NAME).metadata)
    for job_id in ("first", "odd", "last"):
        executor.start(replace(job, job_id=job_id), description, catalog.properties)
    ended: dict[str, Rewrite | Refusal] = {}
    while executor.running():
        executor.wait(60)
        ended.update(executor.poll())
    executor.stop()

    odd = ended.pop("odd")
    assert isinstance(odd, Refusal)
    assert (Reason.UNEXPECTED, True) == (odd.reason, odd.why.startswith(why))
    assert {"first": Rewrite, "last": Rewrite} == {job_id: type(one) for job_id, one in ended.items()}


def test_it_tells_what_it_read_and_wrote_and_is_gone(catalog: Any, job: CompactionJob) -> None:
    executor = LocalExecutor(jobs_at_once=1)
    executor.start(job, described(catalog.load_table(NAME).metadata), catalog.properties)

    result = finished(executor, job)

    assert isinstance(result, Rewrite)
    assert (60, 60, result.hash_read) == (result.rows_read, result.rows_written, result.hash_written)
    assert result.peak_memory_bytes > 0
    assert [Path(file.path.removeprefix("file://")) for file in result.files] == on_disk(catalog, job)
    assert executor.running() == frozenset()


def test_a_small_job_leaves_its_process_to_the_next_one_for_a_moment(
    catalog: Any, job: CompactionJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor, table = LocalExecutor(), catalog.load_table(NAME)
    executor.start(job, described(table.metadata), catalog.properties)
    assert isinstance(finished(executor, job), Rewrite)
    (process,) = rewrites_of(os.getpid())
    again = replace(job, job_id="again")
    executor.start(again, described(table.metadata), catalog.properties)
    assert isinstance(finished(executor, again), Rewrite)
    assert [process] == rewrites_of(os.getpid())

    monkeypatch.setattr("isotherm.iceberg.compaction.process_executor.IDLE_S", 0)
    executor.poll()

    psutil.wait_procs([process], 60)
    assert rewrites_of(os.getpid()) == []
    executor.stop()


def test_the_loop_does_not_wait_for_a_process_that_is_sent_home(
    catalog: Any, job: CompactionJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = LocalExecutor()
    executor.start(job, described(catalog.load_table(NAME).metadata), catalog.properties)
    assert isinstance(finished(executor, job), Rewrite)
    (process,) = rewrites_of(os.getpid())
    process.suspend()
    monkeypatch.setattr("isotherm.iceberg.compaction.process_executor.IDLE_S", 0)

    def waits(*_: Any) -> int:
        raise AssertionError("it waited")

    with monkeypatch.context() as patched:
        patched.setattr("isotherm.iceberg.compaction.process_executor.exit_code_of", waits)
        assert executor.poll() == executor.poll() == []
    executor.stop()

    assert rewrites_of(os.getpid()) == []


@pytest.mark.parametrize(("limit", "value"), [("SMALL_BYTES", 0), ("MOST_JOBS", 1)])
def test_a_large_job_and_the_last_of_many_end_with_their_process(
    catalog: Any, job: CompactionJob, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(f"isotherm.iceberg.compaction.process_executor.{limit}", value)
    executor = LocalExecutor()
    executor.start(job, described(catalog.load_table(NAME).metadata), catalog.properties)

    assert isinstance(finished(executor, job), Rewrite)
    assert rewrites_of(os.getpid()) == []
    executor.stop()


def test_a_large_job_takes_no_process_of_small_ones(catalog: Any, job: CompactionJob) -> None:
    executor, table = LocalExecutor(), catalog.load_table(NAME)
    executor.start(job, described(table.metadata), catalog.properties)
    finished(executor, job)
    (small,) = rewrites_of(os.getpid())
    large = replace(bound(table, OURS), data_files=tuple(map(_said_to_be_large, job.data_files)))
    executor.start(large, described(table.metadata), catalog.properties)

    assert small in until_it_rewrites(os.getpid())
    finished(executor, large)
    assert [small] == rewrites_of(os.getpid())
    executor.stop()


def _said_to_be_large(file: LiveFile) -> LiveFile:
    """As Spark did before 0.11."""
    return replace(file, size_bytes=SMALL_BYTES)


def test_a_process_that_died_while_it_waited_is_replaced(catalog: Any, job: CompactionJob) -> None:
    executor, table = LocalExecutor(), catalog.load_table(NAME)
    executor.start(job, described(table.metadata), catalog.properties)
    finished(executor, job)
    (process,) = rewrites_of(os.getpid())
    process.kill()
    psutil.wait_procs([process], 60)
    again = replace(job, job_id="again")
    executor.start(again, described(table.metadata), catalog.properties)

    assert isinstance(finished(executor, again), Rewrite)
    executor.stop()


def test_a_job_that_failed_leaves_no_process_to_others(catalog: Any, job: CompactionJob) -> None:
    executor, table = LocalExecutor(), catalog.load_table(NAME)
    Path(normalised(job.data_files[0].path)).unlink()
    executor.start(job, described(table.metadata), catalog.properties)

    assert isinstance(finished(executor, job), Refusal)
    assert rewrites_of(os.getpid()) == []
    executor.stop()


def test_a_job_that_is_cancelled_is_gone_at_once_and_leaves_nothing(catalog: Any) -> None:
    """Cancelled at every moment of its life, the first and the last file included."""
    table = catalog.load_table(NAME)
    executor = LocalExecutor()
    for patience_s in (0, 0.4, 0.8, 1.2, 3):
        job = bound(table, OURS)
        executor.start(job, described(table.metadata), catalog.properties)
        executor.wait(patience_s)

        executor.cancel(job.job_id)

        assert rewrites_of(os.getpid()) == []
        assert executor.poll() == []
        cleaned(table, job)
        assert on_disk(catalog, job) == []
    executor.cancel("never heard of")


def test_a_table_that_drops_its_old_metadata_files_is_rewritten(catalog: Any, job: CompactionJob) -> None:
    """`delete-after-commit` on a busy table: the file that was the newest when the job began is gone a second later."""
    table = catalog.load_table(NAME)
    description = described(table.metadata)
    Path(normalised(table.metadata_location)).unlink()

    result = attempt(job, description, catalog.properties)

    assert isinstance(result, Rewrite), result
    assert result.rows_written == 60
    assert len(description) < 4096


def test_a_child_that_is_killed_is_reported(catalog: Any, stuck: CompactionJob) -> None:
    executor = LocalExecutor()
    executor.start(stuck, described(catalog.load_table(NAME).metadata), catalog.properties)
    (process,) = until_it_rewrites(os.getpid())
    process.kill()

    result = finished(executor, stuck)

    assert isinstance(result, Refusal)
    assert Reason.KILLED is result.reason
    assert "SIGKILL" in result.why


def test_a_job_that_takes_too_long_is_ended(catalog: Any, stuck: CompactionJob) -> None:
    executor = LocalExecutor(deadline_s=0)
    executor.start(stuck, described(catalog.load_table(NAME).metadata), catalog.properties)
    assert until_it_rewrites(os.getpid())

    ((_, result),) = executor.poll()

    assert isinstance(result, Refusal)
    assert Reason.DEADLINE is result.reason
    assert rewrites_of(os.getpid()) == []


def test_a_child_dies_with_its_parent(
    catalog: Any, stuck: CompactionJob, silent_store: socket.socket, tmp_path: Path
) -> None:
    """The parent is killed while its child waits for a store that never answers: only the kernel can end it."""
    location = described(catalog.load_table(NAME).metadata)
    program = tmp_path / "parent.py"
    program.write_text(
        textwrap.dedent(f"""
        import pickle, sys
        from isotherm.iceberg.compaction.process_executor import LocalExecutor
        if __name__ == "__main__":
            executor = LocalExecutor()
            job = pickle.loads({pickle.dumps(stuck)!r})
            executor.start(job, {location!r}, {catalog.properties!r})
            print(len(executor.running()), flush=True)
            sys.stdin.read()
        """)
    )
    parent = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"1\n"
    (child,) = until_it_rewrites(parent.pid)
    # It asks the store: it is in the middle of its job.
    with silent_store.accept()[0]:
        watch = os.pidfd_open(child.pid)
        parent.kill()
        parent.wait()
        import select

        ready, _, _ = select.select([watch], [], [], 10)

    assert ready


def test_a_rewrite_stands_back_behind_everything_else(
    catalog: Any, stuck: CompactionJob, silent_store: socket.socket
) -> None:
    executor = LocalExecutor(memory_bytes=1024**3)
    executor.start(stuck, described(catalog.load_table(NAME).metadata), catalog.properties)
    (process,) = until_it_rewrites(os.getpid())
    proc = Path(f"/proc/{process.pid}")
    # It asks the store: it is in the middle of its job.
    with silent_store.accept()[0]:
        limits = (proc / "limits").read_text()
        score = (proc / "oom_score_adj").read_text()
        executor.stop()

    assert int(score) == 900
    assert re.search(rf"Max address space +{3 * 1024**3} ", limits)


def test_a_large_job_does_not_wait_for_its_process_to_read_it(
    catalog: Any, job: CompactionJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far more than a pipe takes, to a process that does not get beyond its first line until it is let go."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    (tmp_path / "sitecustomize.py").write_text(f"open({str(gate)!r}).read()")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    large = replace(job, why="x" * 5_000_000)
    executor = LocalExecutor()
    executor.start(large, described(catalog.load_table(NAME).metadata), catalog.properties)

    assert executor.poll() == []
    gate.write_text("go")
    assert isinstance(finished(executor, job), Rewrite)


class Undying:
    """A process in the kernel's hands: it ends when a dead disk answers, whatever anyone does."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.was_killed = self.was_given_up = False

    def wait(self, timeout: float) -> int:
        self.asked.append(timeout)
        raise subprocess.TimeoutExpired("child", timeout)

    def kill(self) -> None:
        self.was_killed = True

    def give_up(self) -> None:
        self.was_given_up = True


def test_a_process_that_does_not_die_is_waited_for_so_long_and_no_longer() -> None:
    process: Any = Undying()

    assert exit_code_of(process) == -signal.SIGKILL
    assert (True, True) == (process.was_killed, process.was_given_up)
    assert process.asked == [GRACE_S, LAST_WAIT_S]


def test_a_job_is_gone_when_nobody_can_answer_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is it waited for without end, where the kernel does not let its process go."""
    monkeypatch.setattr("isotherm.iceberg.compaction.process_executor.LAST_WAIT_S", 0.1)
    ours, theirs = socket.socketpair()
    theirs.send(DONE)

    until_let_go(ours)

    with pytest.raises(TimeoutError):
        ours.recv(1)
    theirs.send(DONE)
    theirs.close()
    until_let_go(ours)
    assert ours.recv(1) == b""


def test_nothing_runs_after_stop(catalog: Any, stuck: CompactionJob) -> None:
    table = catalog.load_table(NAME)
    executor = LocalExecutor(jobs_at_once=2)
    for one in (stuck, replace(stuck, job_id="other")):
        executor.start(one, described(table.metadata), catalog.properties)
    assert until_it_rewrites(os.getpid())

    executor.stop()

    assert fork_servers_of(os.getpid()) == []
    assert frozenset() == executor.running()
