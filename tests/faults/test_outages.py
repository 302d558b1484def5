"""Each outside thing is away for so long that time-outs show: the daemon says so, lives, and goes on by itself."""

import signal

import pytest

from support.daemon_process import Daemon, eventually
from support.lab import EAGER
from support.object_store import Fault

pytestmark = pytest.mark.stack

POLICY = EAGER.replace("quiet_commits: 2", "quiet_commits: 0")


def due(lab, table, hour):
    """Make one more partition due."""
    for _ in range(3):
        lab.append(table, hour, announce=False)


def test_catalog_store_and_broker_may_each_hang_and_the_daemon_lives_and_goes_on(rest_lab, servers):
    lab = rest_lab(POLICY)
    table = lab.create()
    lab.append(table, 99, announce=False)
    catalog, broker = lab.server.process, servers.process
    # librdkafka would wait for a minute by itself.
    client = {"socket.timeout.ms": 3000, "max.poll.interval.ms": 60_000}
    daemon = Daemon(lab, servers.bootstrap_servers, "outages", client=client, catalog={"timeout_s": 1})

    def lives_and_says(*words):
        """Since the last thing that was waited for."""
        line = daemon.until("try_soon", "table_failed")
        while not all(word in str(line).lower() for word in words):
            line = daemon.until("try_soon", "table_failed")
        assert daemon.get("/livez") == (200, "ok\n")

    try:
        daemon.until("started")
        due(lab, table, 1)
        eventually(lambda: len(lab.ours()) == 1)

        catalog.kill(signal.SIGSTOP)
        lives_and_says("timed out")
        eventually(lambda: daemon.get("/readyz")[0] == 503)
        catalog.kill(signal.SIGCONT)
        due(lab, table, 2)
        eventually(lambda: len(lab.ours()) == 2)

        silence = Fault("*", "/", 10**6, "silence", key="isotherm")
        lab.guard.store.faults.append(silence)
        due(lab, table, 3)
        silence.wait()
        lives_and_says("time")
        lab.guard.store.faults.clear()
        eventually(lambda: len(lab.ours()) == 3)

        broker.kill(signal.SIGSTOP)
        due(lab, table, 4)
        lives_and_says("the broker")
        broker.kill(signal.SIGCONT)
        eventually(lambda: len(lab.ours()) == 4)

        # And while something hangs, it ends when it is told to.
        catalog.kill(signal.SIGSTOP)
        lives_and_says("timed out")
        assert daemon.stop() == 0
    finally:
        catalog.kill(signal.SIGCONT)
        broker.kill(signal.SIGCONT)
        daemon.end()

    assert len(lab.read()) == lab.rows
