"""The package is upgraded while a daemon runs: no job runs with other code than the daemon's, and each says what to do."""

import os
import pickle
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import isotherm
from isotherm.core.model.jobs import CompactionJob
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.code_on_disk import code_of_ours, code_on_disk
from isotherm.iceberg.compaction.process_executor import ANOTHER_COPY, UPGRADED, LocalExecutor
from isotherm.parquet.table_description import described
from support.one_partition import NAME, finished, on_disk

PACKAGE = Path(isotherm.__path__[0])
NULLS, NANS = "    null_value_counts: Mapping[int, int]\n", "    nan_value_counts: Mapping[int, int]\n"
DAEMON = f"""
    import pickle, sys
    from pathlib import Path
    from isotherm.iceberg.compaction.process_executor import LocalExecutor
    from isotherm.core.model import jobs
    with open(sys.argv[1], "rb") as file:
        job, description, properties = pickle.load(file)

    def come_to():
        executor = LocalExecutor()
        executor.start(job, description, properties)
        ended = []
        while not ended:
            executor.wait(60)
            ended = executor.poll()
        executor.stop()
        return str(getattr(ended[0][1], "reason", "done"))

    code = Path(jobs.__file__)
    good = code.read_text()
    # As a later release may have them: both are numbers by column.
    code.write_text(good.replace({NULLS + NANS!r}, {NANS + NULLS!r}))
    print(come_to())
    code.write_text(good)
    print(come_to())
    """


def test_no_job_runs_with_other_code_than_the_daemon_has(
    catalog: Any, job: CompactionJob, tmp_path: Path
) -> None:
    """Values are pickled by place: counts of NaN arrived as counts of nulls, and were committed."""
    shutil.copytree(PACKAGE, tmp_path / "isotherm", ignore=shutil.ignore_patterns("__pycache__"))
    assert NULLS + NANS in (tmp_path / "isotherm/core/model/jobs.py").read_text()
    asked = (job, described(catalog.load_table(NAME).metadata), dict(catalog.properties))
    (tmp_path / "job").write_bytes(pickle.dumps(asked))
    said = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(DAEMON), str(tmp_path / "job")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        check=True,
        text=True,
    )

    assert said.stdout.split() == ["upgraded", "done"]
    assert (
        said.stderr
        == f"isotherm in {tmp_path / 'isotherm'} is other code than the daemon's; no rewrite runs\n"
    )
    assert len(on_disk(catalog, job)) == 1, "the first of them has written nothing"


def test_of_a_job_that_cannot_begin_in_the_middle_of_an_upgrade_it_is_told_what_to_do(
    catalog: Any, job: CompactionJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os; os._exit(1)")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.setattr(isotherm, "__path__", [str(tmp_path), *isotherm.__path__])
    executor = LocalExecutor()
    executor.start(job, described(catalog.load_table(NAME).metadata), catalog.properties)

    assert finished(executor, job) == Refusal(Reason.UPGRADED, UPGRADED)
    assert "restart the daemon" in UPGRADED


def test_where_another_copy_is_imported_for_rewrites_it_says_which_and_what_to_do(
    catalog: Any,
    job: CompactionJob,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """`python -m` has its folder first on the path, and the program in which rewrites run has not."""
    copy = tmp_path / "isotherm"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    with (copy / "core/model/jobs.py").open("a") as file:
        file.write("# a commit ahead\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    executor = LocalExecutor()
    executor.start(job, described(catalog.load_table(NAME).metadata), catalog.properties)

    assert finished(executor, job) == Refusal(Reason.UPGRADED, ANOTHER_COPY.format(ours=PACKAGE))
    assert f"isotherm in {copy} is other code than the daemon's; no rewrite runs\n" in capfd.readouterr().err


@pytest.mark.parametrize("suffix", ["py", "pyc"])
def test_whatever_a_rewrite_runs_makes_it_other_code(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = (".", "contract", "core/model", "iceberg/manifests/deep", "clients")
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / f"one.{suffix}").write_text("x = 1")
    monkeypatch.setattr(isotherm, "__path__", [str(tmp_path)])
    seen = {code_on_disk()}
    for folder in folders:
        (tmp_path / folder / f"one.{suffix}").write_text("x = 2")
        seen.add(code_on_disk())
        (tmp_path / folder / f"one.{suffix}").rename(tmp_path / folder / f"two.{suffix}")
        seen.add(code_on_disk())

    assert len(seen) == 1 + 2 * len(folders)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "two.cpython-313.pyc").write_text("made of what is there")
    assert code_on_disk() in seen


def test_where_no_code_lies_as_files_nothing_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade would go unnoticed."""
    monkeypatch.setattr(isotherm, "__path__", [str(tmp_path)])

    assert code_on_disk() == ""
    with pytest.raises(ImportError, match="install it into a folder"):
        code_of_ours()


def test_while_files_come_and_go_it_is_nobodys_code_and_nothing_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A folder is taken away between being listed and being looked into: so pip does."""

    def gone(*_: object) -> None:
        raise FileNotFoundError("a folder that is gone by now")

    ours = code_on_disk()
    monkeypatch.setattr(Path, "rglob", gone)

    assert code_on_disk() not in {ours, ""}
    with pytest.raises(ImportError, match="being installed just now"):
        code_of_ours()


def test_a_file_of_an_editor_is_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one.py").write_text("x = 1")
    monkeypatch.setattr(isotherm, "__path__", [str(tmp_path)])
    before = code_on_disk()
    (tmp_path / ".#one.py").symlink_to("nobody@nowhere")
    (tmp_path / "._one.py").write_bytes(b"of another system")

    assert code_on_disk() == before


def test_code_is_the_same_as_long_as_nobody_changes_it() -> None:
    assert code_on_disk() == code_on_disk()
