"""The local executor: exact deletes, honest sums, failures that name the file, and processes that leave nothing."""

import os
import pickle
import re
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from isotherm.contract.identity import PartitionKey
from isotherm.contract.paths import normalised
from isotherm.core.model.files import FileKind, LiveFile
from isotherm.core.model.jobs import CompactionJob, OutcomeKind, Rewrite
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.deleted_rows import deleted_rows
from isotherm.iceberg.compaction.executor import (
    GRACE_S,
    LAST_WAIT_S,
    LocalExecutor,
    exit_code_of,
    until_let_go,
)
from isotherm.iceberg.compaction.local_copy import nearby
from isotherm.iceberg.compaction.projection import nodes, project
from isotherm.iceberg.compaction.rewrite import attempt
from isotherm.iceberg.compaction.row_sums import RowSums
from isotherm.iceberg.compaction.source import BATCH_BYTES, BATCH_ROWS, Source
from isotherm.parquet.table_description import described
from support.rewrites import fork_servers_of, rewrites_of, until_it_rewrites
from support.rewriting import bound, cleaned, commit, rewritten

NAME = "db.t"
OURS = PartitionKey('{"1000":"a b/c"}')


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    found = load_catalog(
        "lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w"
    )
    found.create_namespace("db")
    schema = Schema(
        NestedField(1, "id", LongType(), required=False), NestedField(2, "part", StringType(), required=False)
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
    table = found.create_table(NAME, schema, partition_spec=spec, properties={"format-version": "2"})
    for start in range(0, 60, 20):
        ids = list(range(start, start + 20))
        table.append(pa.table({"id": ids, "part": ["a b/c"] * 20}))
    return found


@pytest.fixture
def job(catalog: Any) -> CompactionJob:
    return bound(catalog.load_table(NAME), OURS)


def run(executor: LocalExecutor, table: Table, job: CompactionJob) -> Rewrite | Refusal:
    executor.start(job, described(table.metadata), catalog.properties)
    return finished(executor, job)


def finished(executor: LocalExecutor, job: CompactionJob) -> Rewrite | Refusal:
    """Wait for the child's answer, or its end."""
    executor.wait(60)
    ((job_id, result),) = executor.poll()
    assert job.job_id == job_id
    assert frozenset() == executor.running()
    return result


def on_disk(catalog: Any, job: CompactionJob) -> list[Path]:
    folder = Path(catalog.load_table(NAME).metadata.location.removeprefix("file://")) / "data"
    return sorted(folder.rglob(f"*isotherm-{job.job_id}-*"))


# --- processes -----------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _only_programs_of_this_test() -> None:
    """An executor that nobody stopped, because its test has failed, keeps its program for a while."""
    for one in fork_servers_of(os.getpid()):
        one.kill()
        one.wait(60)


@pytest.fixture
def stuck(catalog: Any, job: CompactionJob, tmp_path: Path) -> CompactionJob:
    """A job whose process waits for a pipe that nobody writes. Any other may be over before somebody looks."""
    fifo = tmp_path / "data.parquet"
    os.mkfifo(fifo)
    return replace(job, data_files=(replace(job.data_files[0], path=str(fifo)),))


def test_a_job_runs_in_a_process_of_its_own(catalog: Any, stuck: CompactionJob) -> None:
    executor = LocalExecutor(jobs_at_once=1)
    executor.start(stuck, described(catalog.load_table(NAME).metadata), catalog.properties)
    (process,) = until_it_rewrites(os.getpid())
    assert not executor.has_room()
    with pytest.raises(ValueError, match="running already"):
        executor.start(stuck, "", catalog.properties)

    executor.cancel(stuck.job_id)

    assert executor.has_room()
    assert not process.is_running()
    executor.stop()


def test_it_tells_what_it_read_and_wrote_and_is_gone(catalog: Any, job: CompactionJob) -> None:
    executor = LocalExecutor(jobs_at_once=1)
    executor.start(job, described(catalog.load_table(NAME).metadata), catalog.properties)

    result = finished(executor, job)

    assert isinstance(result, Rewrite)
    assert (60, 60, result.hash_read) == (result.rows_read, result.rows_written, result.hash_written)
    assert result.peak_memory_bytes > 0
    assert [Path(file.path.removeprefix("file://")) for file in result.files] == on_disk(catalog, job)
    assert executor.has_room()
    assert rewrites_of(os.getpid()) == []


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


def test_a_job_that_takes_too_long_is_ended(catalog: Any, job: CompactionJob) -> None:
    executor = LocalExecutor(deadline_s=0)
    executor.start(job, described(catalog.load_table(NAME).metadata), catalog.properties)

    ((_, result),) = executor.poll()

    assert isinstance(result, Refusal)
    assert Reason.DEADLINE is result.reason
    assert rewrites_of(os.getpid()) == []


def test_a_child_dies_with_its_parent(catalog: Any, job: CompactionJob, tmp_path: Path) -> None:
    """The parent is killed while its child waits for a pipe that nobody writes: only the kernel can end it."""
    fifo = tmp_path / "data.parquet"
    os.mkfifo(fifo)
    stuck = replace(job, data_files=(replace(job.data_files[0], path=str(fifo)),))
    location = described(catalog.load_table(NAME).metadata)
    program = tmp_path / "parent.py"
    program.write_text(
        textwrap.dedent(f"""
        import pickle, sys
        from isotherm.iceberg.compaction.executor import LocalExecutor
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
    # Opening the pipe for writing waits until the child reads: it is in the middle of its job.
    with fifo.open("wb"):
        watch = os.pidfd_open(child.pid)
        parent.kill()
        parent.wait()
        import select

        ready, _, _ = select.select([watch], [], [], 10)

    assert ready


def test_a_rewrite_stands_back_behind_everything_else(catalog: Any, stuck: CompactionJob) -> None:
    executor = LocalExecutor(memory_bytes=1024**3)
    executor.start(stuck, described(catalog.load_table(NAME).metadata), catalog.properties)
    (process,) = until_it_rewrites(os.getpid())
    proc = Path(f"/proc/{process.pid}")
    # Opening the pipe for writing waits until the child reads: it is in the middle of its job.
    with Path(stuck.data_files[0].path).open("wb"):
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


class Held:
    """The end of a pipe that a job answers, and lets go after that."""

    def __init__(self, *, is_let_go: bool) -> None:
        self.left = [True, is_let_go]
        self.asked: list[float] = []

    def poll(self, timeout: float) -> bool:
        self.asked.append(timeout)
        return self.left.pop(0)

    def recv_bytes(self) -> bytes:
        if not self.left:
            raise EOFError
        return b"done"


@pytest.mark.parametrize("is_let_go", [True, False])
def test_a_job_is_gone_when_nobody_can_answer_for_it(is_let_go: bool) -> None:
    answer: Any = Held(is_let_go=is_let_go)

    until_let_go(answer)

    assert answer.asked == [LAST_WAIT_S] * 2


def test_nothing_runs_after_stop(catalog: Any, stuck: CompactionJob) -> None:
    table = catalog.load_table(NAME)
    executor = LocalExecutor(jobs_at_once=2)
    for one in (stuck, replace(stuck, job_id="other")):
        executor.start(one, described(table.metadata), catalog.properties)
    assert until_it_rewrites(os.getpid())

    executor.stop()

    assert fork_servers_of(os.getpid()) == []
    assert frozenset() == executor.running()


# --- the program that they are forked from -------------------------------------------------------------------


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
        from isotherm.iceberg.compaction import child
        child.warm_up()
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


def test_it_is_kept_for_a_while_after_the_last_job_and_no_longer(
    catalog: Any, job: CompactionJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = LocalExecutor()
    executor.start(job, described(catalog.load_table(NAME).metadata), catalog.properties)
    assert isinstance(finished(executor, job), Rewrite)
    executor.poll()
    assert len(fork_servers_of(os.getpid())) == 1

    monkeypatch.setattr("isotherm.iceberg.compaction.executor.WARM_S", 0)
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
    monkeypatch.setattr("isotherm.iceberg.compaction.executor.LAST_WAIT_S", 0)
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


def test_one_that_cannot_begin_is_told_of(
    catalog: Any, job: CompactionJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os; os._exit(3)")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    executor = LocalExecutor()
    executor.start(job, described(catalog.load_table(NAME).metadata), catalog.properties)

    result = finished(executor, job)

    assert result == Refusal(Reason.UNEXPECTED, "ended without an answer, exit code 3")


# --- bad input -----------------------------------------------------------------------------------------------


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def overwritten(path: Path) -> None:
    """Damage in a page: the footer is sound, the rows are not."""
    content = bytearray(path.read_bytes())
    content[4:60] = b"\xff" * 56
    path.write_bytes(bytes(content))


def shortened(path: Path) -> None:
    pq.write_table(pq.read_table(path).slice(1), path)


BAD = {
    "missing": (Reason.MISSING_FILE, Path.unlink),
    "empty": (Reason.CORRUPT_FILE, lambda path: path.write_bytes(b"")),
    "truncated": (Reason.CORRUPT_FILE, truncated),
    "damaged": (Reason.CORRUPT_FILE, overwritten),
    "other rows": (Reason.CORRUPT_FILE, shortened),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_input_file_is_named(catalog: Any, job: CompactionJob, what: str) -> None:
    kind, spoil = BAD[what]
    victim = job.data_files[1].path
    spoil(Path(victim.removeprefix("file://")))

    result = attempt(job, described(catalog.load_table(NAME).metadata), catalog.properties)

    assert isinstance(result, Refusal)
    assert kind is result.reason
    assert victim in result.why
    cleaned(catalog.load_table(NAME), job)
    assert on_disk(catalog, job) == []


def test_a_store_that_refuses_is_not_blamed_on_the_file(catalog: Any, job: CompactionJob) -> None:
    folder = Path(job.data_files[0].path.removeprefix("file://")).parent
    location = f"file://{folder.parent}/not-a-folder"
    Path(location.removeprefix("file://")).write_text("a file")
    table = catalog.load_table(NAME)
    table.transaction().set_properties({"write.data.path": location}).commit_transaction()
    job = bound(table.refresh(), OURS)

    result = attempt(job, described(table.metadata), catalog.properties)

    assert isinstance(result, Refusal)
    assert result.reason is Reason.STORAGE
    assert not any(file.path in result.why for file in job.data_files)


class Starved(PyArrowFileIO):
    """A store under whose files no memory is left."""

    def new_input(self, location: str) -> Any:
        errors = {"python": MemoryError, "arrow": pa.ArrowMemoryError, "duckdb": duckdb.OutOfMemoryException}
        raise errors[self.properties["starved"]](f"not enough for {location}")


@pytest.mark.parametrize(
    ("engine", "why"),
    [
        ("python", "out of memory: not enough for far://lake/data.parquet"),
        ("arrow", "out of memory: not enough for far://lake/data.parquet"),
        (
            "duckdb",
            r"out of memory: to verify \d+ columns takes more than 256 MiB; raise executors\.local\.memory_bytes",
        ),
    ],
)
def test_a_lack_of_memory_is_not_blamed_on_the_file(
    catalog: Any, job: CompactionJob, engine: str, why: str
) -> None:
    """A file that is called corrupt is looked for by a person; with more memory it is rewritten."""
    far = replace(job, data_files=(replace(job.data_files[0], path="far://lake/data.parquet"),))
    properties = {**catalog.properties, "py-io-impl": f"{__name__}.{Starved.__name__}", "starved": engine}

    result = attempt(far, described(catalog.load_table(NAME).metadata), properties)

    assert isinstance(result, Refusal)
    assert result.reason is Reason.OUT_OF_MEMORY
    assert re.match(why, result.why)


def test_a_rewrite_that_takes_too_much_memory_ends_alone_and_says_so(
    catalog: Any, job: CompactionJob, tmp_path: Path
) -> None:
    """Sixty rows share one text of thirty megabytes: a kilobyte on disk, two gigabytes when they are read."""
    large = pa.DictionaryArray.from_arrays(pa.array([0] * 60, pa.int32()), pa.array(["x" * 30 * 2**20]))
    field = pa.field("part", large.type, metadata={"PARQUET:field_id": "2"})
    path = tmp_path / "large.parquet"
    pq.write_table(pa.Table.from_arrays([large], schema=pa.schema([field])), path, compression="zstd")
    file = replace(job.data_files[0], path=str(path), rows=60, size_bytes=path.stat().st_size)
    executor = LocalExecutor(memory_bytes=2**20)
    description = described(catalog.load_table(NAME).metadata)

    executor.start(replace(job, data_files=(file,)), description, catalog.properties)
    result = finished(executor, job)
    assert isinstance(result, Refusal)
    assert result.reason is Reason.OUT_OF_MEMORY
    cleaned(catalog.load_table(NAME), job)
    assert on_disk(catalog, job) == []
    executor.start(job, description, catalog.properties)
    assert isinstance(finished(executor, job), Rewrite)
    executor.stop()


# --- the proof -----------------------------------------------------------------------------------------------


def flipped(path: Path) -> None:
    table = pq.read_table(path, partitioning=None)
    ids = table.column("id").to_pylist()
    ids[17] ^= 1
    changed = table.set_column(0, table.schema.field("id"), pa.array(ids, table.schema.field("id").type))
    pq.write_table(changed, path)


def test_one_wrong_value_is_a_mismatch_and_commits_nothing(catalog: Any, job: CompactionJob) -> None:
    """The sums are of what storage gives back: here storage gives back another value."""
    from isotherm.iceberg.compaction.row_sums import RowSums

    table = catalog.load_table(NAME)
    honest = rewritten(table, job)
    path = Path(honest.files[0].path.removeprefix("file://"))
    flipped(path)
    tally = RowSums(table.schema(), None, locations=[honest.files[0].path]).verified(
        table.io, honest.files[0]
    )
    assert (tally.rows, honest.hash_written == tally.hash) == (60, False)

    outcome = commit(catalog, job, replace(honest, hash_written=tally.hash))

    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, "mismatch")
    assert job.base_snapshot_id == catalog.load_table(NAME).metadata.current_snapshot_id


LIES: dict[str, Callable[[Rewrite], Rewrite]] = {
    "rows read": lambda one: replace(one, rows_read=one.rows_read - 1),
    "rows deleted": lambda one: replace(one, rows_deleted=1),
    "rows written": lambda one: replace(one, rows_written=one.rows_written + 1),
    "files": lambda one: replace(one, files=()),
    "hash": lambda one: replace(one, hash_written=one.hash_written ^ 1),
    "a row left out": lambda one: replace(
        one,
        rows_read=one.rows_read - 1,
        rows_written=one.rows_written - 1,
        files=(replace(one.files[0], rows=one.files[0].rows - 1), *one.files[1:]),
    ),
    "job": lambda one: replace(one, job_id="another"),
    "deletes read": lambda one: replace(one, merged=replace(one.merged, positions_read=1)),
    "deletes written": lambda one: replace(one, merged=replace(one.merged, positions_written=1)),
    "hash of deletes": lambda one: replace(one, merged=replace(one.merged, hash_written=1)),
    "delete files": lambda one: replace(one, merged=replace(one.merged, files=one.files)),
}


@pytest.mark.parametrize("what", LIES)
def test_sums_that_do_not_agree_commit_nothing(catalog: Any, job: CompactionJob, what: str) -> None:
    rewrite = LIES[what](rewritten(catalog.load_table(NAME), job))

    outcome = commit(catalog, job, rewrite)

    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, "mismatch")
    assert job.base_snapshot_id == catalog.load_table(NAME).metadata.current_snapshot_id


# --- deletes -------------------------------------------------------------------------------------------------


def delete_file(folder: Path, sequence_number: int, positions: dict[str, list[int]]) -> LiveFile:
    path = folder / f"deletes-{sequence_number}-{len(list(folder.iterdir()))}.parquet"
    paths = [name for name, found in positions.items() for _ in found]
    numbers = [one for found in positions.values() for one in found]
    pq.write_table(pa.table({"file_path": paths, "pos": pa.array(numbers, pa.int64())}), path)
    return LiveFile(str(path), FileKind.POSITION_DELETES, path.stat().st_size, len(paths), sequence_number)


def test_deletes_apply_by_path_position_and_sequence_number(
    catalog: Any, job: CompactionJob, tmp_path: Path
) -> None:
    folder = tmp_path / "deletes"
    folder.mkdir()
    first, second, third = (file.path for file in job.data_files)
    assert [file.sequence_number for file in job.data_files] == [1, 2, 3]
    deletes = (
        # Twice the same position, one behind the end, one of a file that is not ours.
        delete_file(folder, 4, {first: [0, 0, 3, 99], "file:///elsewhere.parquet": [1]}),
        # The same position again, in another file.
        delete_file(folder, 5, {first: [3, 19]}),
        # As old as the data: applies. Older than the data: does not.
        delete_file(folder, 2, {second: [5], third: [5]}),
    )
    job = replace(job, delete_files=deletes)

    result = rewritten(catalog.load_table(NAME), job)

    assert (result.rows_read, result.rows_deleted, result.rows_written) == (60, 4, 56)
    assert result.hash_read == result.hash_written
    found = pq.read_table(result.files[0].path.removeprefix("file://"), partitioning=None)
    gone = {0, 3, 19, 25}
    assert [one for one in range(60) if one not in gone] == found.column("id").to_pylist()


def test_deletes_that_spell_a_path_in_another_way_are_neither_applied_nor_dropped(
    catalog: Any, job: CompactionJob, tmp_path: Path
) -> None:
    """Every reader compares paths letter by letter, and shows these rows."""
    folder = tmp_path / "deletes"
    folder.mkdir()
    name = job.data_files[0].path.replace("file:///", "file:/")
    table = catalog.load_table(NAME)
    job = replace(job, delete_files=(delete_file(folder, 5, {name: [3]}),))

    result = attempt(job, described(table.metadata), catalog.properties)

    assert isinstance(result, Refusal)
    assert result.reason is Reason.TWO_SPELLINGS
    assert name in result.why


def test_a_deleted_position_takes_a_few_bytes_however_long_the_names_of_its_file_are(
    catalog: Any, job: CompactionJob, tmp_path: Path
) -> None:
    """Of 400,000 positions, in four files with names of two hundred characters, by two delete files that overlap."""
    files = tuple(
        replace(file, path=f"file:///{'x' * 200}/{number}", rows=400_000)
        for number, file in enumerate(job.data_files)
    )
    deletes = []
    for number in range(2):
        path = tmp_path / f"deletes-{number}.parquet"
        names = pa.array([files[one % 2].path for one in range(200_000)])
        positions = pc.multiply(pa.arange(0, 200_000), 1 + number)
        pq.write_table(pa.table({"file_path": names, "pos": positions}), path)
        deletes.append(LiveFile(str(path), FileKind.POSITION_DELETES, path.stat().st_size, 200_000, 9))
    job = replace(job, data_files=files, delete_files=tuple(deletes))
    sums = RowSums(catalog.load_table(NAME).schema(), None, files, [delete.path for delete in deletes])
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        table = catalog.load_table(NAME)
        deleted = deleted_rows(table.io, job, table.metadata, {}, sums)
    finally:
        pa.set_memory_pool(before)

    wanted = [
        set(range(start, 200_000, 2)) | {2 * one for one in range(start, 200_000, 2)} for start in (0, 1)
    ]
    assert [sorted(one) for one in wanted] == [list(found) for found in deleted.by_path.values()]
    held = sum(sys.getsizeof(found) for found in deleted.by_path.values())
    assert held <= 10 * 400_000
    # While they are read, and put in order.
    assert pool.max_memory() <= 50 * 400_000


# --- size ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("files", [1, 2, 3, 7])
@pytest.mark.parametrize("values", ["unique", "few"])
def test_files_come_out_within_a_tenth_of_the_target_size(catalog: Any, files: int, values: str) -> None:
    table, chance = catalog.load_table(NAME), Random(7)
    for _ in range(24):
        ids = [
            chance.getrandbits(62) if values == "unique" else chance.randrange(1000) for _ in range(20_000)
        ]
        table.append(pa.table({"id": ids, "part": ["a b/c"] * 20_000}))
    (whole,) = rewritten(table, bound(table, OURS)).files
    job = bound(table, OURS, target_size_bytes=whole.size_bytes // files)

    result = rewritten(table, job)

    assert result.rows_written == 480_060
    target = job.target_size_bytes
    sizes = [file.size_bytes for file in result.files]
    assert max(sizes) <= 1.1 * min(sizes)
    if values == "unique":
        assert files == len(sizes)
        assert [one / target for one in sizes if not 0.9 * target <= one <= 1.1 * target] == []
    # Small row groups take more for the same values.
    assert [one / target for one in sizes if not 0.8 * target <= one <= 1.6 * target] == []
    assert sizes == [Path(file.path.removeprefix("file://")).stat().st_size for file in result.files]
    cleaned(table, job)
    assert on_disk(catalog, job) == []


def test_a_dictionary_is_made_only_where_it_pays(catalog: Any) -> None:
    """Of a column of keys it would be as large as the keys, and thrown away when it is full."""
    table = catalog.load_table(NAME)
    for number in range(2):
        ids = [(number * 100_000 + one) * 2654435761 % 2**62 for one in range(100_000)]
        table.append(pa.table({"id": ids, "part": ["a b/c"] * 100_000}))

    (file,) = rewritten(table, bound(table, OURS)).files

    group = pq.ParquetFile(file.path.removeprefix("file://")).metadata.row_group(0)
    assert [False, True] == [group.column(number).has_dictionary_page for number in range(2)]


def test_properties_of_the_table_are_honoured(catalog: Any, tmp_path: Path) -> None:
    table = catalog.load_table(NAME)
    properties = {
        "write.parquet.compression-codec": "gzip",
        "write.parquet.row-group-limit": "25",
        "write.metadata.metrics.default": "none",
        "write.metadata.metrics.column.id": "full",
        "write.data.path": f"file://{tmp_path}/elsewhere",
    }
    table.transaction().set_properties(properties).commit_transaction()
    job = bound(table.refresh(), OURS)

    (file,) = rewritten(table, job).files

    assert f"file://{tmp_path}/elsewhere/part=a+b%2Fc/isotherm-{job.job_id}-00000.parquet" == file.path
    parquet = pq.ParquetFile(file.path.removeprefix("file://")).metadata
    assert parquet.row_group(0).column(0).compression == "GZIP"
    assert [parquet.row_group(number).num_rows for number in range(parquet.num_row_groups)] == [25, 25, 10]
    assert ({1}, {1}) == (set(file.lower_bounds), set(file.value_counts))


def test_rows_that_a_dictionary_makes_small_are_read_a_few_at_a_time(
    catalog: Any, job: CompactionJob, tmp_path: Path
) -> None:
    """Two documents that are shared by all rows: half a megabyte on disk, gigabytes when it is read at once."""
    documents = pa.array([letter * 20_000 for letter in "ab"])
    # The first rows are small, so what is learnt of them is wrong.
    places = pa.array([None] * 5_000 + [one % 2 for one in range(60_000)], pa.int32())
    field = pa.field("part", pa.string(), metadata={"PARQUET:field_id": "2"})
    path = tmp_path / "small.parquet"
    table = pa.Table.from_arrays([pa.DictionaryArray.from_arrays(places, documents)], names=["part"])
    pq.write_table(table.cast(pa.schema([field.with_type(pa.dictionary(pa.int32(), pa.string()))])), path)
    assert path.stat().st_size < 1024 * 1024
    columns = catalog.load_table(NAME).schema().field_ids

    sizes = [
        (batch.num_rows, batch.nbytes)
        for batch in Source(
            str(path), replace(job.data_files[0], path=str(path), rows=65_000), columns, None
        ).batches()
    ]

    assert sum(rows for rows, _ in sizes) == 65_000
    # Once, where the rows become large, a batch is of as many as there were before.
    large = sorted(size for _, size in sizes if size > 2 * BATCH_BYTES)
    assert len(large) <= 1
    assert max(large, default=0) <= BATCH_ROWS * 20_100


def large_source(
    catalog: Any, job: CompactionJob, path: Path, column: pa.Array, store_schema: bool
) -> Source:
    """A file of one row group whose column `part` is this."""
    field = pa.field("part", column.type, metadata={"PARQUET:field_id": "2"})
    table = pa.Table.from_arrays([column], schema=pa.schema([field]))
    is_dictionary = pa.types.is_dictionary(column.type)
    pq.write_table(table, path, compression="none", use_dictionary=is_dictionary, store_schema=store_schema)
    file = replace(job.data_files[0], path=str(path), rows=len(column))
    return Source(str(path), file, catalog.load_table(NAME).schema().field_ids, None)


@pytest.mark.parametrize("store_schema", [False, True])
def test_rows_that_are_large_from_the_first_on_never_take_much(
    catalog: Any, job: CompactionJob, tmp_path: Path, store_schema: bool
) -> None:
    """With Arrow's schema too, which says that these are a dictionary: they are texts when they are written."""
    values = pa.DictionaryArray.from_arrays(pa.array([0] * BATCH_ROWS, pa.int32()), pa.array(["x" * 20_000]))
    source = large_source(catalog, job, tmp_path / "large.parquet", values, store_schema)

    sizes = [(batch.num_rows, batch.column(0).cast(pa.string()).nbytes) for batch in source.batches()]

    assert sum(rows for rows, _ in sizes) == BATCH_ROWS
    assert max(size for _, size in sizes) <= 2 * BATCH_BYTES


def test_rows_that_become_large_are_not_read_twice(catalog: Any, job: CompactionJob, tmp_path: Path) -> None:
    path = tmp_path / "later.parquet"
    small = [str(one) for one in range(33_000)]
    large = [str(one) * 2_500 for one in range(10_000, 13_000)]
    source = large_source(catalog, job, path, pa.array(small + large + small[:10_000]), True)
    before = bytes_read()

    rows = [batch.num_rows for batch in source.batches()]

    assert (sum(rows), max(rows)) == (46_000, BATCH_ROWS)
    assert bytes_read() - before < 1.3 * path.stat().st_size


def bytes_read() -> int:
    """What this process has read so far, as the kernel counts it."""
    return int(Path("/proc/self/io").read_text().split("rchar: ")[1].split()[0])


WRITTEN = {
    "UNCOMPRESSED": "UNCOMPRESSED",
    "Gzip": "GZIP",
    "lz4": "LZ4",
    "lzo": "ZSTD",
}


@pytest.mark.parametrize("asked", WRITTEN)
def test_what_a_table_asks_of_its_files_is_written(catalog: Any, asked: str) -> None:
    table = catalog.load_table(NAME)
    properties = {
        "write.parquet.compression-codec": asked,
        # As zstd knows it, and none of these.
        "write.parquet.compression-level": "19",
        "write.parquet.bloom-filter-enabled.column.id": "true",
        "write.parquet.bloom-filter-enabled.column.nowhere": "true",
    }
    table.transaction().set_properties(properties).commit_transaction()

    (file,) = rewritten(table.refresh(), bound(table, OURS)).files

    path = file.path.removeprefix("file://")
    group = pq.ParquetFile(path).metadata.row_group(0)
    assert [WRITTEN[asked]] * 2 == [group.column(place).compression for place in (0, 1)]
    assert [True] * 2 == [group.column(place).has_offset_index for place in (0, 1)]
    found = duckdb.sql(
        f"SELECT path_in_schema FROM parquet_metadata('{path}') WHERE bloom_filter_offset IS NOT NULL"
    ).fetchall()
    assert found == [("id",)]


@pytest.mark.parametrize("value", ["", "128mb", "-1", "0", "1.5", "9" * 30, "\u0663"])
def test_a_number_that_is_none_is_passed_over(catalog: Any, value: str) -> None:
    table = catalog.load_table(NAME)
    names = (
        *("row-group-size-bytes", "row-group-limit", "page-size-bytes", "page-row-limit", "dict-size-bytes"),
        *("compression-level", "bloom-filter-max-bytes", "bloom-filter-fpp.column.id"),
    )
    properties = {f"write.parquet.{name}": value for name in names}
    properties["write.parquet.bloom-filter-enabled.column.id"] = "true"
    table.transaction().set_properties(properties).commit_transaction()

    (file,) = rewritten(table.refresh(), bound(table, OURS)).files

    assert pq.read_metadata(file.path.removeprefix("file://")).num_rows == file.rows


# --- projection ----------------------------------------------------------------------------------------------

OLD = Schema(
    NestedField(1, "a", IntegerType(), required=False),
    NestedField(2, "A", FloatType(), required=False),
    NestedField(3, "gone", StringType(), required=False),
    NestedField(
        4,
        "l",
        ListType(5, StructType(NestedField(6, "x y", IntegerType(), required=False)), element_required=False),
        required=False,
    ),
    NestedField(
        7,
        "m",
        MapType(
            8,
            StringType(),
            9,
            StructType(NestedField(10, "v'", DecimalType(4, 1), required=False)),
            value_required=False,
        ),
        required=False,
    ),
    NestedField(
        11,
        "s",
        StructType(
            NestedField(
                12,
                "p",
                ListType(13, ListType(14, IntegerType(), element_required=False), element_required=False),
                required=False,
            ),
            NestedField(15, "q", StringType(), required=False),
        ),
        required=False,
    ),
)
NEW = Schema(
    NestedField(20, "added", TimestamptzType(), required=False),
    NestedField(2, "A", DoubleType(), required=False),
    NestedField(1, "b", LongType(), required=False),
    NestedField(
        11,
        "s",
        StructType(
            NestedField(21, "new", UUIDType(), required=False),
            NestedField(
                12,
                "p",
                ListType(13, ListType(14, LongType(), element_required=False), element_required=False),
                required=False,
            ),
        ),
        required=False,
    ),
    NestedField(
        4,
        "l",
        ListType(
            5,
            StructType(
                NestedField(22, "f", FixedType(3), required=False),
                NestedField(6, "z", LongType(), required=False),
            ),
            element_required=False,
        ),
        required=False,
    ),
    NestedField(
        7,
        "m",
        MapType(
            8,
            StringType(),
            9,
            StructType(NestedField(10, "w", DecimalType(9, 1), required=False)),
            value_required=False,
        ),
        required=False,
    ),
    NestedField(23, "t", TimeType(), required=False),
    NestedField(24, "n", ListType(25, TimestampType(), element_required=False), required=False),
    NestedField(26, "raw", BinaryType(), required=False),
    NestedField(27, "d", DateType(), required=False),
    NestedField(28, "yes", BooleanType(), required=False),
    NestedField(29, "k", StringType(), required=False),
)
ROWS: list[dict[str, Any]] = [
    {
        "a": 1,
        "A": 0.5,
        "gone": "x",
        "l": [{"x y": 1}, None, {"x y": None}],
        "m": [("k", {"v'": None}), ("n", None)],
        "s": {"p": [[1], [], None], "q": "z"},
    },
    {"a": None, "A": None, "gone": None, "l": None, "m": None, "s": None},
    {"a": -1, "A": float("nan"), "gone": "", "l": [], "m": [], "s": {"p": None, "q": None}},
    {"a": 2**31 - 1, "A": float("inf"), "gone": "y", "l": [None], "m": [("", None)], "s": {"p": [], "q": ""}},
]


def projected(rows: list[dict[str, Any]], start: int = 0) -> pa.RecordBatch:
    batch = pa.RecordBatch.from_pylist(rows, schema=schema_to_pyarrow(OLD))
    batch = batch.slice(start)
    return project(batch, nodes(batch.schema), NEW, schema_to_pyarrow(NEW), {29: "const"})


def hashed(batch: pa.RecordBatch, folder: Path, constants: dict[int, Any]) -> list[int]:
    """The hash of each row, as the proof reads it from a file of its own."""
    found = []
    for place in range(batch.num_rows):
        path = folder / "row.parquet"
        pq.write_table(pa.Table.from_batches([batch.slice(place, 1)]), path)
        sums = RowSums(NEW, None, locations=[str(path)])
        with nearby(PyArrowFileIO(), str(path)) as near:
            found.append(sums.sum(near, 0, constants).hash)
    return found


@pytest.mark.parametrize("start", [0, 1, 2])
def test_nulls_empty_lists_and_renamed_fields_survive_at_every_depth(start: int) -> None:
    found = projected(ROWS, start).to_pylist()

    wanted = [
        {"l": [{"f": None, "z": 1}, None, {"f": None, "z": None}], "s": {"new": None, "p": [[1], [], None]}},
        {"l": None, "s": None},
        {"l": [], "s": {"new": None, "p": None}},
        {"l": [None], "s": {"new": None, "p": []}},
    ][start:]
    assert wanted == [{key: row[key] for key in ("l", "s")} for row in found]
    assert [row["a"] for row in ROWS][start:] == [row["b"] for row in found]
    assert [None if row["m"] is None else [key for key, _ in row["m"]] for row in ROWS][start:] == [
        None if row["m"] is None else [key for key, _ in row["m"]] for row in found
    ]
    assert [[value for _, value in row["m"] or []][-1:] for row in found] == [
        [None] if row["m"] else [] for row in ROWS[start:]
    ]
    assert {"const"} == {row["k"] for row in found}
    assert {None} == {row["added"] for row in found}


def twins(number: int, name: str) -> StructType:
    """Two fields whose names differ by their case only."""
    return StructType(
        NestedField(number, name, LongType(), required=False),
        NestedField(number + 1, name.upper(), DoubleType(), required=False),
    )


def test_fields_whose_names_differ_by_case_only_are_told_apart_at_every_depth(catalog: Any) -> None:
    """DuckDB takes their names for one. The older files have them in another order."""
    schema = Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "s", twins(3, "a"), required=False),
        NestedField(5, "l", ListType(6, twins(7, "x"), element_required=False), required=False),
        NestedField(
            9, "m", MapType(10, StringType(), 11, twins(12, "v"), value_required=False), required=False
        ),
    )
    table = catalog.create_table("db.twins", schema, properties={"format-version": "2"})
    rows = [
        {"s": {"a": 1, "A": 0.5}, "l": [{"x": 2, "X": 1.5}, None], "m": [("k", {"v": 3, "V": 2.5})]},
        {"s": None, "l": [{"x": None, "X": 4.0}], "m": [("k", {"v": 9, "V": None}), ("n", None)]},
        {"s": {"a": None, "A": 7.0}, "l": [], "m": []},
        {"s": {"a": 5, "A": None}, "l": [{"x": 6, "X": None}], "m": [("k", {"v": None, "V": 8.0})]},
    ]
    for number, row in enumerate(rows):
        if number == 2:
            with table.update_schema() as update:
                for path in ("s.A", "l.X", "m.V"):
                    update.move_first(path)
        table.append(pa.Table.from_pylist([{"id": number, **row}], schema=table.schema().as_arrow()))
    job = bound(table.refresh(), PartitionKey("{}"))

    outcome = commit(catalog, job, rewritten(table, job))

    assert (outcome.kind, len(list(table.refresh().scan().plan_files()))) == (OutcomeKind.DONE, 1)
    found = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: int(row["id"]))
    assert found == [{"id": number, **row} for number, row in enumerate(rows)]


def test_both_engines_say_the_same_of_older_rows(tmp_path: Path) -> None:
    raw = pa.RecordBatch.from_pylist(ROWS, schema=schema_to_pyarrow(OLD))

    by_duckdb = hashed(raw, tmp_path, {29: "const"})
    by_arrow = hashed(projected(ROWS), tmp_path, {})

    assert by_arrow == by_duckdb
    assert len(ROWS) == len(set(by_duckdb))


NEARLY = [
    {**ROWS[0], "l": [{"x y": 1}, None]},
    {**ROWS[0], "l": [{"x y": 1}, {"x y": None}, {"x y": None}]},
    {**ROWS[0], "s": {"p": [[1], None, []], "q": "z"}},
    {**ROWS[0], "s": {"p": [[1], [], [None]], "q": "z"}},
    {**ROWS[1], "l": []},
    {**ROWS[1], "l": [None]},
    {**ROWS[1], "m": []},
    {**ROWS[1], "m": [("", None)]},
    {**ROWS[1], "s": {"p": None, "q": None}},
    {**ROWS[1], "s": {"p": [], "q": None}},
    {**ROWS[1], "s": {"p": [[]], "q": None}},
    {**ROWS[1], "a": 0},
    {**ROWS[1], "A": 0.0},
]


def test_rows_that_are_nearly_the_same_have_other_hashes(tmp_path: Path) -> None:
    raw = pa.RecordBatch.from_pylist(ROWS + NEARLY, schema=schema_to_pyarrow(OLD))

    found = hashed(raw, tmp_path, {29: "const"})

    assert len(ROWS + NEARLY) == len(set(found))


def test_the_proof_may_open_nothing_but_the_files_of_the_job(tmp_path: Path) -> None:
    ours, other = tmp_path / "ours.parquet", tmp_path / "other.parquet"
    for path in (ours, other):
        pq.write_table(pa.table({"id": [1]}), path)
    sums = RowSums(Schema(NestedField(1, "id", LongType())), None, locations=[str(ours)])

    with nearby(PyArrowFileIO(), str(ours)) as near:
        assert sums.sum(near, 0, {}).rows == 1
    with nearby(PyArrowFileIO(), str(other)) as near, pytest.raises(duckdb.PermissionException):
        sums.sum(near, 0, {})
