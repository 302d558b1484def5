"""What systemd is told, and what is said of a process that hangs."""

import socket
from threading import Event

import pytest

from isotherm.runtime.systemd import LOOKS_EVERY_S, Supervisor

WITHIN_S = 20
LIVES = b"READY=1\nWATCHDOG=1"


@pytest.fixture
def listening(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(f"{tmp_path}/notify")
        heard.settimeout(WITHIN_S)
        yield heard, {"NOTIFY_SOCKET": f"{tmp_path}/notify", "WATCHDOG_USEC": "20000"}


def test_systemd_is_told_what_is_said(listening):
    heard, environ = listening
    Supervisor(environ).tell("READY=1")

    assert heard.recv(100) == b"READY=1"


def test_a_socket_without_a_file_is_one_too():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind("\0isotherm-test-notify")
        heard.settimeout(WITHIN_S)
        Supervisor({"NOTIFY_SOCKET": "@isotherm-test-notify"}).tell("STOPPING=1")

        assert heard.recv(100) == b"STOPPING=1"


@pytest.mark.parametrize("environ", [{}, {"NOTIFY_SOCKET": "/nowhere/notify"}])
def test_who_does_not_listen_is_not_waited_for(environ):
    Supervisor(environ).tell("READY=1")


@pytest.mark.parametrize(
    ("said", "every_s"),
    [
        ("20000", 0.01),
        ("", LOOKS_EVERY_S),
        ("soon", LOOKS_EVERY_S),
        ("0", LOOKS_EVERY_S),
        ("9" * 12, LOOKS_EVERY_S),
    ],
)
def test_it_looks_twice_in_the_time_that_systemd_waits(said, every_s):
    assert Supervisor({"WATCHDOG_USEC": said}).every_s == every_s


def test_it_is_told_that_we_live_until_we_hang_and_where_is_said_once(listening, capfd):
    heard, environ = listening
    alive, hangs, ended, said = Event(), Event(), Event(), []
    alive.set()

    def on_hang():
        said.append("hangs")
        hangs.set()

    Supervisor(environ).watch(alive.is_set, on_hang, ended)
    assert [heard.recv(100) for _ in range(3)] == [LIVES] * 3

    alive.clear()
    assert hangs.wait(WITHIN_S)
    alive.set()
    assert heard.recv(100) == LIVES
    ended.set()
    assert b"STOPPING=1" in iter(lambda: heard.recv(100), None)

    assert said == ["hangs"]
    assert "test_it_is_told_that_we_live" in capfd.readouterr().err
