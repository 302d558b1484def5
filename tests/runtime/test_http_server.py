"""The port: probes are answered whatever else its visitors do."""

import errno
import os
import resource
import socket
import threading
from contextlib import ExitStack

import pytest
import waitress.wasyncore
from prometheus_client import CollectorRegistry, Gauge

from isotherm.runtime.http_server import KEPT_CONNECTIONS, METRICS_AT_ONCE, THREADS, serve
from support.http_client import get


class Slow:
    """Metrics that take until they are let go."""

    def __init__(self):
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Event()

    def collect(self):
        self.begun.release()
        self.may_end.wait(60)
        return []


@pytest.fixture
def registry():
    registry = CollectorRegistry()
    Gauge("isotherm_test", "A number.", registry=registry).set(7)
    return registry


@pytest.fixture
def port(registry):
    return serve("127.0.0.1", 0, registry, {"/livez": lambda: ""})


@pytest.mark.parametrize("says", [b"", b"GET /livez HTTP/1.1\r\nX-Slow: "])
def test_connections_that_say_nothing_whole_do_not_shut_a_probe_out(port, says):
    with ExitStack() as stack:
        trickling = []
        for _ in range(4 * KEPT_CONNECTIONS):
            trickling.append(stack.enter_context(socket.create_connection(("127.0.0.1", port))))
            trickling[-1].sendall(says)

            assert get(port, "/livez") == (200, "ok\n")
        assert trickling[0].recv(1) == b"", "the oldest made room"
        assert get(port, "/metrics")[0] == 200


SELECT_TAKES = 1024


@pytest.fixture
def many_files():
    """More open files than select() takes, until the end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        while (held := os.open(os.devnull, os.O_RDONLY)) < SELECT_TAKES:
            stack.callback(os.close, held)
        stack.callback(os.close, held)
        yield


def test_probes_are_answered_however_many_files_the_process_has_open(port, many_files):
    assert [get(port, "/livez") for _ in range(3)] == [(200, "ok\n")] * 3


def test_a_server_that_breaks_off_begins_again(registry, monkeypatch, capsys):
    poll = waitress.wasyncore.poll2
    faults = [ValueError("nobody knows why")]

    def broken_once(*args):
        if faults:
            raise faults.pop()
        poll(*args)

    monkeypatch.setattr(waitress.wasyncore, "poll2", broken_once)
    port = serve("127.0.0.1", 0, registry, {"/livez": lambda: ""})

    assert get(port, "/livez") == (200, "ok\n")
    assert "nobody knows why" in "".join(capsys.readouterr())


def test_without_descriptors_visitors_wait_and_it_is_said_once(registry, monkeypatch, capsys):
    accept, refused = socket.socket.accept, [OSError(errno.EMFILE, "Too many open files")] * 4

    def short(self):
        if refused:
            raise refused.pop()
        return accept(self)

    monkeypatch.setattr(socket.socket, "accept", short)
    port = serve("127.0.0.1", 0, registry, {"/livez": lambda: ""})

    assert get(port, "/livez") == (200, "ok\n")
    assert "".join(capsys.readouterr()).count("Too many open files") == 1


def test_a_request_that_trickles_in_is_given_up(port):
    with socket.create_connection(("127.0.0.1", port)) as slow:
        slow.settimeout(0.2)
        slow.sendall(b"GET /livez HTTP/1.1\r\nX-Slow: ")
        ended = False
        for _ in range(300):
            try:
                ended = slow.recv(100) == b""
                break
            except TimeoutError:
                slow.sendall(b"x")
            except ConnectionError:
                ended = True
                break

    assert ended


def test_clients_that_ask_much_and_read_nothing_do_not_shut_a_probe_out(registry, port):
    Gauge("isotherm_large", "x" * 1_000_000, registry=registry)
    with ExitStack() as stack:
        for _ in range(2 * THREADS):
            deaf = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            deaf.sendall(b"GET /metrics HTTP/1.1\r\n\r\n" * 300)

            assert deaf.recv(1, socket.MSG_PEEK) == b"H", "it is being answered"
        for _ in range(20):
            assert get(port, "/livez") == (200, "ok\n")
        assert get(port, "/metrics")[0] == 200


@pytest.mark.parametrize("wish", [b"", b"Connection: keep-alive\r\n"])
def test_a_connection_is_answered_once(port, wish):
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET /livez HTTP/1.1\r\n" + wish + b"\r\n" + b"GET /metrics HTTP/1.1\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(65536), b""))

    assert answer.count(b"HTTP/1.1 200 OK") == 1
    assert b"Connection: close" in answer
    assert answer.endswith(b"ok\n")


def test_scrapes_that_take_long_leave_a_thread_for_the_probes(registry, port):
    slow = Slow()
    registry.register(slow)
    answers = []
    scrapes = [
        threading.Thread(target=lambda: answers.append(get(port, "/metrics"))) for _ in range(METRICS_AT_ONCE)
    ]
    for scrape in scrapes:
        scrape.start()
        slow.begun.acquire(timeout=30)

    assert get(port, "/metrics") == (503, "/metrics is being read already\n")
    assert get(port, "/livez") == (200, "ok\n")
    slow.may_end.set()
    for scrape in scrapes:
        scrape.join(30)
    assert [status for status, _ in answers] == [200] * METRICS_AT_ONCE
    assert "isotherm_test 7.0" in get(port, "/metrics")[1]
