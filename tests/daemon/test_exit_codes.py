"""How the daemon's process begins and ends, without a broker: what a person has to mend is one line and a code."""

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from isotherm.runtime.exit_codes import EXIT_BAD_CONFIG
from support.daemon_process import Daemon

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def start(lab):
    started = []

    def run(**parts):
        started.append(Daemon(lab, NOWHERE, "control", **parts))
        return started[-1]

    yield run
    for daemon in started:
        daemon.end()


def ended(daemon, event):
    line = daemon.until(event)

    assert daemon.process.wait(60) == EXIT_BAD_CONFIG
    assert "Traceback" not in "".join(daemon.other)
    return line


def test_a_port_that_is_taken_is_one_line_and_no_reason_to_try_again(start):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = ended(start(http={"port": port}), "http_failed")

    assert (line["port"], line["level"]) == (port, "error")
    assert "Address already in use" in line["why"]
    assert "http.port" in line["hint"]


def test_a_property_that_kafka_does_not_know_is_one_line_and_no_reason_to_try_again(start):
    line = ended(start(client={"no.such.property": "1"}), "bad_config")

    assert "no.such.property" in line["why"]


def test_the_port_is_a_number_in_the_log(start):
    assert isinstance(start().until("http_listening")["port"], int)


def test_a_ledger_of_a_newer_version_is_one_line_and_no_reason_to_try_again(lab, start):
    folder = lab.root / "one" / "state"
    folder.mkdir(parents=True)
    with sqlite3.connect(folder / "ledger.db") as ledger:
        ledger.execute("PRAGMA user_version=999")
    ledger.close()

    assert "a newer one wrote it" in ended(start(), "bad_state")["why"]


def test_who_may_not_use_a_newer_ledger_leaves_the_fold_beside_it_as_it_is(lab, start):
    folder = lab.root / "one" / "state"
    folder.mkdir(parents=True)
    for name in ("ledger.db", "fold.db"):
        with contextlib.closing(sqlite3.connect(folder / name)) as store:
            store.execute("PRAGMA user_version=999")
    before = (folder / "fold.db").read_bytes()
    daemon = start()
    ended(daemon, "bad_state")

    assert (folder / "fold.db").read_bytes() == before
    assert "fold_rebuilt" not in [line["event"] for line in daemon.lines]


def test_a_state_folder_that_cannot_be_made_is_one_line(lab, start):
    (lab.root / "a file").write_text("")

    path = str(lab.root / "a file" / "state")
    line = ended(start(state={"path": path}), "bad_state")

    assert "a file" in line["why"]
    assert line["state"] == path
    assert "state.path" in line["hint"]


def test_a_second_daemon_on_a_state_folder_is_told_what_to_do(lab, start):
    start().until("try_soon", what="the broker")
    waiting = start().until("try_soon", what="the state folder")

    assert "is held by process" in waiting["error"]
    assert "each daemon needs a state.path of its own" in waiting["error"]


def test_a_sigterm_while_the_program_is_still_being_imported_ends_it(tmp_path):
    """Process 1 of a container would lose it; here the exit code tells a handler from the system's default."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    (tmp_path / "typer.py").write_text(f"open({str(gate)!r}).read()")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    process = subprocess.Popen(
        [sys.executable, "-m", "isotherm.entry_point", "run"], env={**os.environ, "PYTHONPATH": path}
    )
    # It opens only when the other side reads: in the middle of the imports.
    with gate.open("wb"):
        process.terminate()

        assert process.wait(60) == 128 + signal.SIGTERM


def test_the_program_that_is_installed_begins_with_those_first_lines():
    scripts = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]

    assert scripts["isotherm"] == "isotherm.entry_point:main"


def test_what_does_not_fit_into_memory_goes_into_the_state_folder(lab, start):
    spool = lab.root / "one" / "state" / "spool"
    spool.mkdir(parents=True)
    (spool / "left by a daemon that was killed").write_bytes(bytes(10))
    start().until("try_soon")

    assert list(spool.iterdir()) == []


def test_large_files_are_spooled_where_it_is_said_by_children_too(tmp_path):
    program = f"""
import subprocess, sys, tempfile
from pathlib import Path
from isotherm.clients.storage import spool_in
folder = Path({str(tmp_path / "spool")!r})
spool_in(folder)
assert folder.stat().st_mode & 0o777 == 0o700
print(tempfile.gettempdir(), flush=True)
subprocess.run([sys.executable, "-c", "import tempfile; print(tempfile.gettempdir())"], check=True)
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert answer.stdout.split() == [str(tmp_path / "spool")] * 2
