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
from isotherm.iceberg.compaction.process_executor import ANOTHER_COPY, UPGRADED, LocalExecutor
from isotherm.parquet.table_description import described
from isotherm.runtime.exit_codes import EXIT_ERROR
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


CONFIG = """
catalog: {{properties: {{type: sql, uri: "sqlite:///{folder}/catalog.db", warehouse: "file://{folder}/lake"}}}}
kafka: {{properties: {{bootstrap.servers: "127.0.0.1:1"}}}}
"""
FLIP = """
    import sys
    from pathlib import Path
    link, other = Path(sys.argv[1]), Path(sys.argv[2])

    class Flips:
        def find_spec(self, name, path=None, target=None):
            if name == "isotherm.core.model.jobs" and link.resolve() != other:
                link.unlink()
                link.symlink_to(other)

    sys.meta_path.insert(0, Flips())
    sys.argv[1:] = ["run", "--config", sys.argv[3]]
    from isotherm.entry_point import main
    main()
    """


def test_a_daemon_does_not_start_where_its_code_was_exchanged_while_it_was_imported(tmp_path: Path) -> None:
    """A link to the current version, turned by a deployment: what was imported by then is of the old one."""
    for name, more in (("old", ""), ("new", "# a commit ahead\n")):
        shutil.copytree(PACKAGE, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        with (tmp_path / name / "core/model/jobs.py").open("a") as file:
            file.write(more)
    link = tmp_path / "path" / "isotherm"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "old")
    (tmp_path / "isotherm.yaml").write_text(CONFIG.format(folder=tmp_path))
    told = link, tmp_path / "new", tmp_path / "isotherm.yaml"
    said = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(FLIP), *map(str, told)],
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(link.parent), *sys.path])},
        capture_output=True,
        text=True,
        timeout=100,
    )

    assert link.resolve() == tmp_path / "new"
    assert said.returncode == EXIT_ERROR, said.stderr
    assert "code_changed" in said.stdout + said.stderr
