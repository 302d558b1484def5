"""How the daemon's process begins and ends, without a broker: what a person has to mend is one line and a code."""

import socket
import sqlite3

import pytest

from integration.daemon_process import Daemon
from isotherm.config import EXIT_BAD_CONFIG

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


def test_the_port_is_a_number_in_the_log(start):
    assert isinstance(start().until("http_listening")["port"], int)


def test_a_ledger_of_a_newer_version_is_one_line_and_no_reason_to_try_again(lab, start):
    folder = lab.root / "one" / "state"
    folder.mkdir(parents=True)
    with sqlite3.connect(folder / "ledger.db") as ledger:
        ledger.execute("PRAGMA user_version=999")
    ledger.close()

    assert "a newer one wrote it" in ended(start(), "bad_state")["why"]


def test_a_state_folder_that_cannot_be_made_is_one_line(lab, start):
    (lab.root / "a file").write_text("")

    assert "a file" in ended(start(state={"path": str(lab.root / "a file" / "state")}), "bad_state")["why"]
