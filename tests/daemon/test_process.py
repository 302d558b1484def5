"""The daemon as a process beside a real broker: it starts, answers, works, waits for what is away, and stops."""

import signal
import socket
import subprocess
import sys
import uuid

import pytest

from isotherm.contract.paths import normalised
from isotherm.contract.summary import JOB_ID
from isotherm.core.deletion import LEFTOVER_GRACE_MS
from isotherm.runtime.clock import now_ms
from isotherm.store import Fold, Ledger
from support.announcing import ControlTopic
from support.daemon_process import Daemon
from support.lab import EAGER, Lab, counted

pytestmark = pytest.mark.stack


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path, policy=EAGER)


@pytest.fixture
def start(lab, kafka):
    started = []
    topic = f"control-{uuid.uuid4()}"

    def run(servers=kafka.bootstrap_servers):
        daemon = Daemon(lab, servers, topic, client={"group.instance.id": "one"})
        started.append(daemon)
        return daemon

    run.topic = topic
    yield run
    for daemon in started:
        daemon.end()


def test_it_follows_compacts_answers_and_stops(lab, kafka, start, tmp_path, monkeypatch):
    systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    systemd.bind(f"{tmp_path}/notify")
    systemd.settimeout(60)
    monkeypatch.setenv("NOTIFY_SOCKET", f"{tmp_path}/notify")
    table = lab.create()
    daemon = start()
    port = daemon.until("http_listening")["port"]
    assert systemd.recv(100) == b"READY=1"
    daemon.until("started")
    events = [lab.append(table, hour, announce=False) for hour in (1, 1, 1, 2, 3, 4)]
    ControlTopic(kafka.bootstrap_servers, start.topic).announce(*events)
    ended = daemon.until("job_ended", action="compact")
    alive, ready, metrics = (daemon.get(path, port) for path in ("/livez", "/readyz", "/metrics"))

    assert ended["outcome"] == "done"
    assert alive == ready == (200, "ok\n")
    assert metrics[0] == 200
    assert (
        'isotherm_jobs_total{action="compact",outcome="done",reason="committed",table="shop.orders"} 1.0'
        in metrics[1]
    )
    assert daemon.get("/etc/passwd", port)[0] == 404
    assert daemon.stop() == 0
    assert daemon.lines[-1]["event"] == "stopped"
    assert b"STOPPING=1" in iter(lambda: systemd.recv(100), None)
    systemd.close()
    fold = Fold(daemon.folder / "state" / "fold.db", read_only=True)
    believed = {
        p.key: (dict(p.state.data), dict(p.state.deletes))
        for p in fold.partitions(str(table.metadata.table_uuid))
    }
    assert believed == counted(lab.scan())


def test_a_broker_that_is_away_at_the_start_is_waited_for_and_said(lab, start):
    daemon = start(servers="127.0.0.1:1")
    port = daemon.until("http_listening")["port"]
    waiting = daemon.until("try_soon", what="the broker")

    assert "control" in waiting["error"]
    assert daemon.get("/livez", port)[0] == 200
    status, missing = daemon.get("/readyz", port)
    assert status == 503
    assert "the start waits for the broker" in missing
    assert daemon.stop() == 0


def test_killed_in_the_middle_of_a_job_it_goes_on_where_it_was(lab, kafka, start):
    table = lab.create()
    daemon = start()
    daemon.until("started")
    events = [lab.append(table, hour, announce=False) for hour in (1, 1, 1, 2, 3, 4)]
    ControlTopic(kafka.bootstrap_servers, start.topic).announce(*events)
    started = daemon.until("job_started")
    daemon.stop(signal.SIGKILL)
    again = start()
    interrupted = again.until("job_ended", job_id=started["job_id"])
    done = again.until("job_ended", outcome="done")

    assert (interrupted["outcome"], interrupted["reason"]) == ("failed", "crashed")
    assert done["label"] == started["label"]
    assert again.stop() == 0
    ours = [s for s in table.refresh().snapshots() if JOB_ID in s.summary.additional_properties]
    assert [s.summary.additional_properties[JOB_ID] for s in ours] == [done["job_id"]]
    # What it had written waits for a day: only the dead one knew whether a request was on its way.
    ledger = Ledger(again.folder / "state" / "ledger.db", read_only=True)
    left = {normalised(path) for path in map(str, (lab.root / "warehouse").rglob(f"*{started['job_id']}*"))}
    due = ledger.due_deletions(str(table.metadata.table_uuid), now_ms() + LEFTOVER_GRACE_MS, 100)
    assert left == {normalised(mark.path) for mark in due}


def test_what_hangs_keeps_nobody_from_stopping_the_daemon():
    """SIGTERM is heard by the loop; if that hangs in a request, the process ends by itself, and says where it was."""
    program = (
        "import os, signal, threading\n"
        "from isotherm.daemon import stop_on_signals\n"
        "stop_on_signals(threading.Event(), within_s=0.2)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "threading.Event().wait(120)\n"
        "raise SystemExit(3)\n"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )

    assert ended.returncode == 0
    (line,) = [line for line in (ended.stdout + ended.stderr).splitlines() if "stopped_hard" in line]
    assert "hangs_in='wait (" in line
    assert 'File "<string>", line 5' in ended.stderr


@pytest.mark.parametrize(("reader_is_gone", "code"), [(False, 1), (True, 0)])
def test_a_log_that_nobody_reads_does_not_keep_the_process(reader_is_gone, code):
    """What the daemon says at its end goes into a pipe that is full (it is ended in the middle of its last words), or
    that nobody holds any more (a log forgives that)."""
    program = (
        "import contextlib, os, threading\n"
        "from isotherm.daemon import stop_on_signals\n"
        "from isotherm.runtime import logs\n"
        "logs.configure()\n"
        "stop_on_signals(threading.Event(), within_s=0.2)\n"
        "os.set_blocking(2, False)\n"
        "with contextlib.suppress(BlockingIOError):\n"
        "    while os.write(2, b'x'): pass\n"
        "os.set_blocking(2, True)\n"
        "print('hangs', flush=True)\n"
        "threading.Event().wait(120)\n"
        "os._exit(3)\n"
    )
    hanging = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert hanging.stdout.readline() == "hangs\n"
        if reader_is_gone:
            hanging.stderr.close()
        hanging.send_signal(signal.SIGTERM)
        assert hanging.wait(60) == code
    finally:
        hanging.kill()
        hanging.wait()


@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGTERM, signal.SIGINT]])
def test_a_library_that_never_returns_does_not_keep_the_process(signals):
    """No line of Python runs in the main thread then, so none of its handlers does."""
    code = (
        "import ctypes, threading\n"
        "from isotherm.daemon import stop_on_signals\n"
        f"stop_on_signals(threading.Event(), within_s={0.5 if len(signals) == 1 else 600})\n"
        "lock, mutex = ctypes.CDLL(None).pthread_mutex_lock, ctypes.create_string_buffer(64)\n"
        "lock(mutex)\n"
        "print('hangs', flush=True)\n"
        "lock(mutex)\n"
    )
    for _ in range(10):
        hanging = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            assert hanging.stdout.readline() == "hangs\n"
            for number in signals:
                hanging.send_signal(number)
            told, _ = hanging.communicate(timeout=60)
        finally:
            hanging.kill()
            hanging.wait()
        if hanging.returncode < 128:
            break  # else the signals came before it hung, and their handlers ran

    assert hanging.returncode == 0
    assert "stopped_hard" in told
    assert "Current thread" in told
