"""Whether a driver of a pipeline runs, for commands that must not write beside it.

A thread of the driver says so once a minute in the compacted topic of what was announced, and once more, in other words, when
it ends. It has nothing to do with turns: a batch may take many minutes, and a driver that waits for its catalog runs, too.
"""

import json
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from isotherm.runtime import clock, logs
from isotherm_ingest.kafka import Broker, BrokerError, Record
from isotherm_ingest.threads import context

BEATS = b"driver "
"""Before the pipeline's name, in keys. Other keys of the topic are uuids."""
EVERY_S = 60.0
DEAD_AFTER_MS = 180_000
"""A driver that has been silent for so long has crashed: three beats, and more than a broker's restart takes."""


class Heartbeat:
    """Says that this driver runs."""

    def __init__(self, broker: Broker, topic: str, pipeline: str, every_s: float = EVERY_S) -> None:
        """Nothing is said before `start`."""
        self._broker = broker
        self._topic = topic
        self._pipeline = pipeline
        self._every_s = every_s
        self._by = uuid.uuid4().hex[:12]
        self._done = threading.Event()
        self._context = context()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Say it now, and from now on."""
        self._say(is_running=True)
        self._thread.start()

    def stop(self) -> None:
        """Say that it has ended."""
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()
            self._say(is_running=False)

    def _run(self) -> None:
        self._context()
        while not self._done.wait(self._every_s):
            self._say(is_running=True)

    def _say(self, *, is_running: bool) -> None:
        said = {
            "pipeline": self._pipeline,
            "by": self._by,
            "at_ms": clock.now_ms(),
            "is_running": is_running,
        }
        key = BEATS + self._pipeline.encode()
        try:
            self._broker.send([Record(self._topic, key, json.dumps(said).encode())])
        except BrokerError as err:  # a driver that cannot say it cannot write either
            logs.get().warning("heartbeat_not_sent", error=str(err))


@dataclass(frozen=True, slots=True)
class Beat:
    """What a driver said last of itself."""

    at_ms: int
    is_running: bool


def last_beat(newest: Mapping[bytes | None, bytes | None], pipeline: str) -> Beat | None:
    """What a pipeline's driver said last, of the newest value of each key of the topic. None where it is none that is understood."""
    value = newest.get(BEATS + pipeline.encode())
    try:
        data = json.loads(value or b"")
        return Beat(int(data["at_ms"]), bool(data["is_running"]))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def why_not_alone(beat: Beat | None, now_ms: int) -> str:
    """Why a driver may be running, for people; empty where none is."""
    if beat is None:
        return "no driver has said whether it runs: those of before this version do not"
    if not beat.is_running or now_ms - beat.at_ms > DEAD_AFTER_MS:
        return ""
    age_s = max(now_ms - beat.at_ms, 0) // 1000
    return f"a driver of the pipeline said {age_s} s ago that it runs"
