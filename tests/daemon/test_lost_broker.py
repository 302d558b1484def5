"""A broker that vanishes under a running daemon: the log says so now and then, and the daemon still stops in good order."""

import uuid
from collections import Counter

import pytest

from isotherm.demo.stack.kafka import Kafka
from support.daemon_process import Daemon
from support.lab import EAGER, Lab

pytestmark = pytest.mark.stack

KINDS = 12
"""What can be told of a broker that is gone: that connecting fails, that all are down, and what each question comes to."""


@pytest.fixture
def kafka(tmp_path):
    (tmp_path / "broker").mkdir()
    kafka = Kafka(tmp_path / "broker", heap_mb=200, say=lambda *_: None)
    kafka.start()
    yield kafka
    kafka.stop()


def test_a_broker_that_vanishes_is_told_now_and_then_and_the_daemon_stops_in_good_order(tmp_path, kafka):
    daemon = Daemon(Lab(tmp_path, policy=EAGER), kafka.bootstrap_servers, f"control-{uuid.uuid4()}")
    try:
        daemon.until("started")
        kafka.stop()
        for _ in range(3):  # five seconds, and ten, lie between them
            daemon.until("try_soon", what="what is held back")
        code = daemon.stop()
    finally:
        daemon.end()

    told = Counter(line["what"] for line in daemon.lines if line["event"] == "try_soon")
    assert told["the broker"] <= 3 * KINDS, told
    assert daemon.lines[-1]["event"] == "stopped", (daemon.lines[-3:], daemon.other[-60:])
    assert code == 0
