"""The program from which the executor forks its jobs: there is one, it is warm, and another follows when it is gone."""

import os
import pickle
import resource
import subprocess
import sys
import textwrap
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any

import psutil
import pytest

from isotherm.core.model.jobs import CompactionJob, Rewrite
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.partition_backoff import EXCUSED
from isotherm.iceberg.compaction.process_executor import LocalExecutor
from isotherm.parquet.table_description import described
from support.one_partition import NAME, OURS, finished, on_disk
from support.rewrites import fork_servers_of, rewrites_of, until_it_rewrites
from support.rewriting import bound

pytestmark = pytest.mark.usefixtures("only_programs_of_this_test")


def test_all_jobs_are_forked_from_one_program_which_has_no_threads(catalog: Any) -> None:
    """Two at once, and one after them. A thread may hold a lock while the others are forked."""
    table = catalog.load_table(NAME)
    executor = LocalExecutor(jobs_at_once=2)
    servers = set()
    for at_once in (2, 1):
        for _ in range(at_once):
            executor.start(bound(table, OURS), described(table.metadata), catalog.properties)
        (server,) = fork_servers_of(os.getpid())
        servers.add(server.pid)
        while executor.running():
            executor.wait(60)
            assert all(isinstance(result, Rewrite) for _, result in executor.poll())
        assert server.num_threads() == 1
    executor.stop()

    assert len(servers) == 1


def test_a_job_imports_nothing_more(catalog: Any, job: CompactionJob, tmp_path: Path) -> None:
    asked = (job, described(catalog.load_table(NAME).metadata), dict(catalog.properties))
    (tmp_path / "job").write_bytes(pickle.dumps(asked))
    program = """
        import pickle, sys
        from isotherm.iceberg.compaction import fork_program
        fork_program.warm_up()
        before = set(sys.modules)
        from isotherm.iceberg.compaction.rewrite import attempt
        with open(sys.argv[1], "rb") as file:
            result = attempt(*pickle.load(file))
        print(type(result).__name__, sorted(sys.modules.keys() - before))
        """
    said = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "job")],
        capture_output=True,
        check=True,
        text=True,
    )

    assert said.stdout == "Rewrite []\n"


class _Fails:
    """A job that cannot be taken out of its file: the address is no file's name."""

    def __reduce__(self) -> Any:
        return open, ("http://user:hunter2@host/a?sig=hunter2",)


def test_a_job_that_fails_by_surprise_repeats_no_secret(tmp_path: Path) -> None:
    (tmp_path / "job").write_bytes(pickle.dumps(_Fails()))
    program = """
        import sys
        from isotherm.iceberg.compaction.forks import ForkServer
        files = [open(sys.argv[1], "rb"), *(open(sys.argv[1] + end, "wb") for end in (".result", ".counters"))]
        server = ForkServer(None)
        worker = server.start()
        worker.do(*[file.fileno() for file in files])
        print(worker.wait(60))
        server.close()
        """
    said = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "job")],
        capture_output=True,
        check=True,
        text=True,
    )

    assert said.stdout == "1\n"
    assert "FileNotFoundError" in said.stderr
    assert "'http://***@host/a?***'" in said.stderr
    assert "hunter2" not in said.stderr


def test_it_is_kept_for_a_while_after_the_last_job_and_no_longer(
    catalog: Any, job: CompactionJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = LocalExecutor()
    executor.start(job, described(catalog.load_table(NAME).metadata), catalog.properties)
    assert isinstance(finished(executor, job), Rewrite)
    executor.poll()
    assert len(fork_servers_of(os.getpid())) == 1

    monkeypatch.setattr("isotherm.iceberg.compaction.process_executor.WARM_S", 0)
    executor.poll()

    assert fork_servers_of(os.getpid()) == []


def test_with_it_its_jobs_are_gone_and_the_next_one_has_another(
    catalog: Any, job: CompactionJob, stuck: CompactionJob
) -> None:
    executor = LocalExecutor()
    description = described(catalog.load_table(NAME).metadata)
    executor.start(stuck, description, catalog.properties)
    (running,) = until_it_rewrites(os.getpid())
    (server,) = fork_servers_of(os.getpid())
    server.kill()

    result = finished(executor, stuck)

    assert isinstance(result, Refusal)
    assert Reason.KILLED is result.reason
    psutil.wait_procs([running], 60)
    assert not running.is_running()
    executor.start(job, description, catalog.properties)
    assert isinstance(finished(executor, job), Rewrite)
    executor.stop()


def test_a_daemon_may_have_more_files_open_than_select_takes(catalog: Any, job: CompactionJob) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    executor = LocalExecutor()
    with ExitStack() as opened:
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1100):
            opened.enter_context(Path(os.devnull).open())
        executor.start(job, described(catalog.load_table(NAME).metadata), catalog.properties)
        result = finished(executor, job)
        executor.stop()

    assert isinstance(result, Rewrite)


def test_it_may_have_ended_while_nothing_ran(catalog: Any) -> None:
    table, executor = catalog.load_table(NAME), LocalExecutor()
    for _ in range(2):
        job = bound(table, OURS)
        executor.start(job, described(table.metadata), catalog.properties)
        assert isinstance(finished(executor, job), Rewrite)
        (server,) = fork_servers_of(os.getpid())
        server.kill()
        server.wait(60)


def test_it_may_have_ended_unheard_while_another_job_ran(
    catalog: Any, job: CompactionJob, stuck: CompactionJob
) -> None:
    """The next job gets a new program. The job of the old one is reported as killed."""
    executor, description = LocalExecutor(jobs_at_once=2), described(catalog.load_table(NAME).metadata)
    executor.start(stuck, description, catalog.properties)
    until_it_rewrites(os.getpid())
    (server,) = fork_servers_of(os.getpid())
    server.kill()
    server.wait(60)
    other = replace(job, job_id="other")

    executor.start(other, description, catalog.properties)
    ended = dict(executor.poll())
    while executor.running():
        executor.wait(60)
        ended.update(executor.poll())

    killed, done = ended[stuck.job_id], ended[other.job_id]
    assert isinstance(killed, Refusal)
    assert Reason.KILLED is killed.reason
    assert isinstance(done, Rewrite)
    executor.stop()


def test_one_that_hangs_begins_no_job_that_was_cancelled_and_is_replaced(
    catalog: Any, job: CompactionJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isotherm.iceberg.compaction.process_executor.LAST_WAIT_S", 0)
    executor, description = LocalExecutor(), described(catalog.load_table(NAME).metadata)
    executor.start(job, description, catalog.properties)
    assert isinstance(finished(executor, job), Rewrite)
    (server,) = fork_servers_of(os.getpid())
    server.suspend()
    cancelled, other = replace(job, job_id="cancelled"), replace(job, job_id="other")
    executor.start(cancelled, description, catalog.properties)

    executor.cancel(cancelled.job_id)

    assert not server.is_running()
    executor.start(other, description, catalog.properties)
    assert isinstance(finished(executor, other), Rewrite)
    executor.stop()


def test_what_ran_beside_a_job_for_which_it_was_ended_has_done_nothing_wrong(
    catalog: Any, job: CompactionJob, stuck: CompactionJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isotherm.iceberg.compaction.process_executor.LAST_WAIT_S", 0)
    executor, description = LocalExecutor(jobs_at_once=2), described(catalog.load_table(NAME).metadata)
    executor.start(stuck, description, catalog.properties)
    until_it_rewrites(os.getpid())
    (server,) = fork_servers_of(os.getpid())
    server.suspend()
    executor.start(replace(job, job_id="cancelled"), description, catalog.properties)

    executor.cancel("cancelled")

    result = finished(executor, stuck)
    assert isinstance(result, Refusal)
    assert Reason.STOPPED is result.reason
    assert Reason.STOPPED in EXCUSED
    executor.stop()


def test_what_is_killed_while_the_program_is_too_slow_to_say_so_is_killed_and_what_ran_beside_it_stopped(
    catalog: Any, stuck: CompactionJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where memory is short both happens at once. It was begun again at once as one that had ended beside another, for ever."""
    monkeypatch.setattr("isotherm.iceberg.compaction.process_executor.LAST_WAIT_S", 0)
    executor, description = LocalExecutor(jobs_at_once=2), described(catalog.load_table(NAME).metadata)
    executor.start(stuck, description, catalog.properties)
    (running,) = until_it_rewrites(os.getpid())
    beside = replace(stuck, job_id="beside")
    executor.start(beside, description, catalog.properties)
    while len(rewrites_of(os.getpid())) < 2:  # by then the program has let go of the first one's line
        sleep(0.01)
    (server,) = fork_servers_of(os.getpid())
    server.suspend()
    running.kill()

    ended: dict[str, Any] = {}
    while executor.running():
        executor.wait(60)
        ended.update(executor.poll())

    assert ended[stuck.job_id].reason is Reason.KILLED
    assert ended[beside.job_id].reason is Reason.STOPPED
    executor.stop()


AT_THE_GATE = """
import os, time
parent = os.getppid()
while not os.path.exists({gate!r}) and os.getppid() == parent:
    time.sleep(0.01)
"""


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """It does not get beyond its first line until this file is there: imports may take as long on a busy machine."""
    gate = tmp_path / "gate"
    (tmp_path / "sitecustomize.py").write_text(AT_THE_GATE.format(gate=str(gate)))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    return gate


def test_nobody_waits_for_a_job_that_is_cancelled_while_it_wakes_up_and_the_others_go_on(
    catalog: Any, job: CompactionJob, gate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "isotherm.iceberg.compaction.process_executor.SMALL_BYTES", 0
    )  # each ends with its process
    table, executor = catalog.load_table(NAME), LocalExecutor(jobs_at_once=2)
    cancelled, other = bound(table, OURS), replace(job, job_id="other")
    for one in (cancelled, other):
        executor.start(one, described(table.metadata), catalog.properties)

    def waits(*_: Any) -> int:
        raise AssertionError("it waited")

    with monkeypatch.context() as patched:
        patched.setattr("isotherm.iceberg.compaction.process_executor.exit_code_of", waits)
        executor.cancel(cancelled.job_id)
        assert executor.poll() == []
    gate.touch()

    assert isinstance(finished(executor, other), Rewrite)
    psutil.wait_procs(rewrites_of(os.getpid()), 60)
    assert on_disk(catalog, cancelled) == [], "it has not begun"
    executor.stop()
    assert len(on_disk(catalog, other)) == 1


@pytest.mark.usefixtures("gate")
def test_one_that_never_wakes_up_is_replaced_and_its_job_is_not_too_large(
    catalog: Any, job: CompactionJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor, description = LocalExecutor(deadline_s=0), described(catalog.load_table(NAME).metadata)
    executor.start(job, description, catalog.properties)
    ((_, result),) = executor.poll()

    assert result == Refusal(Reason.UNAVAILABLE, "not begun after 0s, the limit is 0s")
    assert fork_servers_of(os.getpid()) == []
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    executor.start(replace(job, job_id="other"), description, catalog.properties)
    assert until_it_rewrites(os.getpid())
    executor.stop()


def test_one_that_cannot_begin_is_told_of(
    catalog: Any, job: CompactionJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os; os._exit(3)")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    executor = LocalExecutor()
    executor.start(job, described(catalog.load_table(NAME).metadata), catalog.properties)

    result = finished(executor, job)

    assert result == Refusal(Reason.UNEXPECTED, "ended without an answer, exit code 3")
