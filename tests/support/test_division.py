"""How the tests are divided between processes, seen at a small suite of its own."""

import os
import re
import subprocess
import sys

import pytest

from support.division import NICENESS

CONFTEST = """
import os
import pytest
from support.division import Division, in_turn, take_place

def pytest_configure(config):
    for name in ("spark", "stack"):
        config.addinivalue_line("markers", name)
    if hasattr(config, "workerinput"):
        take_place(config)

def pytest_xdist_make_scheduler(config, log):
    return Division(config, log)

def pytest_collection_modifyitems(items):
    in_turn(items)
"""
SUITE = {
    "tests/core/test_a.py": "",
    "tests/core/test_b.py": "",
    "tests/daemon/test_c.py": "@pytest.mark.stack",
    "tests/demo/test_demo.py": "@pytest.mark.stack",
    "tests/ingest/test_d.py": "@pytest.mark.spark",
    "tests/ingest/test_e.py": "@pytest.mark.spark",
    "tests/faults/test_g.py": "@pytest.mark.stack\n# connect_server",
    "tests/iceberg/test_h.py": "@pytest.mark.stack\n# connect_server",
    "tests/simulation/test_f.py": "",
    "tests/workloads/test_workloads.py": "",
}
TEST = """
import os
import pytest

{mark}
@pytest.mark.parametrize("number", range(4))
def test_it(number):
    print("niceness", os.nice(0), "session", os.getsid(0))
"""


def played(folder, *options):
    """By which process and in which order the files of the suite were played, test after test."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib -p no:cacheprovider\n")
    for name, mark in SUITE.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(TEST.format(mark=mark))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_one_process_plays_all_with_the_session_and_each_file_whole(tmp_path):
    told = played(tmp_path, "-n", "2", "--no-loadscope-reorder")
    places = re.findall(r"^\[(gw\d)\].* PASSED (\S+?)::", told, re.MULTILINE)

    assert len(places) == 4 * len(SUITE)
    assert {process for process, _ in places} == {"gw0", "gw1"}
    assert len(set(places)) == len(SUITE)
    for shared in ("mark.spark", "connect_server"):
        assert len({process for process, file in places if shared in SUITE[file]}) == 1


@pytest.mark.parametrize("processes", [3, 4])
def test_further_processes_play_what_needs_no_server_and_stand_back(tmp_path, processes):
    told = played(tmp_path, "-n", str(processes), "--no-loadscope-reorder", "-rP")
    places = re.findall(r"^\[(gw\d)\].* PASSED (\S+?)::", told, re.MULTILINE)
    said = set(re.findall(r"^niceness (\d+) session (\d+)", told, re.MULTILINE))

    assert len(places) == 4 * len(SUITE)
    assert {process for process, file in places if SUITE[file]} == {"gw0", "gw1"}
    assert {process for process, _ in places} == {f"gw{number}" for number in range(processes)}
    assert {process for process, file in places if "simulation" in file}.isdisjoint({"gw0", "gw1"})
    assert {int(niceness) - os.nice(0) for niceness, _ in said} == {0, NICENESS}
    assert {session for niceness, session in said if int(niceness) == os.nice(0)} == {str(os.getsid(0))}
    assert len({session for _, session in said}) == processes - 1


def test_where_all_needs_servers_two_processes_play_it(tmp_path):
    told = played(tmp_path, "-n", "4", "--no-loadscope-reorder", "tests/daemon", "tests/demo", "tests/ingest")
    places = re.findall(r"^\[(gw\d)\].* PASSED (\S+?)::", told, re.MULTILINE)

    assert len(places) == 4 * 4
    assert {process for process, _ in places} <= {"gw0", "gw1"}


def test_those_with_servers_begin_first_and_of_each_kind_the_longest(tmp_path):
    files = list(dict.fromkeys(re.findall(r"^(tests/\S+?)::", played(tmp_path), re.MULTILINE)))

    assert files == [
        "tests/ingest/test_d.py",
        "tests/ingest/test_e.py",
        "tests/demo/test_demo.py",
        "tests/daemon/test_c.py",
        "tests/faults/test_g.py",
        "tests/iceberg/test_h.py",
        "tests/simulation/test_f.py",
        "tests/workloads/test_workloads.py",
        "tests/core/test_a.py",
        "tests/core/test_b.py",
    ]
