"""A driver says that it runs, and commands that must not write beside it believe that."""

import json
import threading
from typing import Any

import pytest
from structlog.testing import capture_logs

from isotherm.runtime import clock
from isotherm_ingest.announce.heartbeat import BEATS, DEAD_AFTER_MS, Beat, Heartbeat, last_beat, why_not_alone
from isotherm_ingest.announce.watermarks import recalled
from isotherm_ingest.kafka import BrokerError


class Topic:
    """A broker of one compacted topic."""

    def __init__(self, wanted: int = 0) -> None:
        self.newest: dict[bytes | None, bytes | None] = {}
        self.count, self.wanted, self.reached = 0, wanted, threading.Event()
        self.is_away = False

    def send(self, records: Any) -> None:
        self.count += 1
        if self.count >= self.wanted:
            self.reached.set()
        if self.is_away:
            raise BrokerError("away")
        self.newest |= {one.key: one.value for one in records}


def heartbeat(topic: Any, every_s: float = 60.0) -> Heartbeat:
    return Heartbeat(topic, "control.announced", "p", every_s)


def test_a_driver_says_that_it_runs_until_it_ends() -> None:
    topic = Topic()
    beating = heartbeat(topic)
    beating.start()
    beat = last_beat(topic.newest, "p")

    assert beat is not None
    assert "said 0 s ago" in why_not_alone(beat, beat.at_ms)
    beating.stop()
    assert why_not_alone(last_beat(topic.newest, "p"), clock.now_ms()) == ""
    assert last_beat(topic.newest, "another") is None


def test_it_says_so_again_and_goes_on_while_the_broker_is_away() -> None:
    topic = Topic(wanted=4)
    topic.is_away = True
    beating = heartbeat(topic, 0.001)
    beating.start()

    assert topic.reached.wait(10)
    beating.stop()


@pytest.mark.parametrize(
    ("beat", "word"),
    [
        (None, "before this version"),
        (Beat(1_000_000, True), "100 s ago"),
        (Beat(1_200_000, True), "0 s ago"),
        (Beat(1_099_000, False), ""),
        (Beat(1_100_000 - DEAD_AFTER_MS, True), "180 s ago"),
        (Beat(1_100_000 - DEAD_AFTER_MS - 1, True), ""),
    ],
)
def test_whether_a_driver_may_be_running(beat: Beat | None, word: str) -> None:
    """A clock that is behind that of the driver makes it no older."""
    why = why_not_alone(beat, 1_100_000)

    assert (word in why) if word else why == ""


@pytest.mark.parametrize("value", [None, b"", b"{}", b"[]", b'{"at_ms": "x", "is_running": true}'])
def test_what_is_not_understood_says_nothing(value: bytes | None) -> None:
    assert last_beat({BEATS + b"p": value}, "p") is None


def test_a_beat_is_no_watermark() -> None:
    """And none that cannot be read, of which a driver would warn at each start."""
    with capture_logs() as told:
        assert recalled({BEATS + b"p": json.dumps({"at_ms": 1}).encode()}, "t", "p") == {}
    assert told == []
