"""Ingest's drivers as processes: started, killed, paused and fenced."""

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from isotherm.demo.logbook import Tail
from isotherm.demo.stack import Process
from isotherm.runtime.exit_codes import EXIT_TAKEN_OVER
from killer.shop import SHAPES
from support.daemon_process import eventually

ORDINARY = {"spark", "dead_lettered", "incompatible_schema", "unchanged_values_not_told", "schema_refused"}
"""What a story brings about by its messages."""
PATIENCE_S = 600
"""A machine that plays other tests, too, has taken five minutes from a start to the first batch."""
BEGUN = ("table_committed", "batch_done")


class Driver:
    """One process of `isotherm-ingest run`, with its JVM and its workers."""

    def __init__(self, config: Path, log: Path) -> None:
        """Start it."""
        command = [sys.executable, "-X", "faulthandler", "-m", "isotherm_ingest.cli", "run", config]
        self.process = Process(log.stem, command, log)
        self._tail = Tail(log)
        self.events = Counter[str]()
        self.troubles: list[str] = []
        self.may_end = False
        """It was killed, or another one has begun."""
        self.process.start()

    def listen(self) -> None:
        """Take in what is new in its log."""
        for line in self._tail.lines():
            event = str(line.get("event"))
            self.events[event] += 1
            if line.get("level") in {"error", "warning"} and event not in ORDINARY:
                said = line.get("error") or line.get("why") or line.get("hole") or ""
                self.troubles.append(f"{event} {line.get('table') or ''}: {str(said)[:200]}")

    @property
    def has_begun(self) -> bool:
        """Whether it has been through a batch."""
        self.listen()
        return any(self.events[one] for one in BEGUN)

    def family(self) -> list[psutil.Process]:
        """Itself and all that it has started; PySpark's workers have a process group of their own."""
        with suppress(psutil.Error):
            mine = psutil.Process(self.process.pid)
            return [mine, *mine.children(recursive=True)]
        return []

    def workers(self) -> list[psutil.Process]:
        """The Python processes that decode and write."""
        found = []
        for one in self.family():
            with suppress(psutil.Error):
                if one.name() != "java" and any("warm_workers" in part for part in one.cmdline()):
                    found.append(one)
        return found

    def kill_jvm(self) -> None:
        """SIGKILL of the JVM, as when it is out of memory: the driver ends, and whoever started it starts it again."""
        self.may_end = True
        for one in self.family():
            with suppress(psutil.Error):
                if one.name() == "java":
                    one.kill()

    def kill(self, *, alone: bool = False) -> None:
        """SIGKILL, to all of them or to the Python alone."""
        self.may_end = True
        for one in self.family()[: 1 if alone else None]:
            with suppress(psutil.Error):
                one.kill()
        self.process.wait(30)

    def tell_what_it_does(self) -> None:
        """Have it write the stacks of all threads to its log, and end: whoever reads it sees what was waited for."""
        _signalled([one for one in self.family() if one.name() == "java"], signal.SIGQUIT)
        os.kill(self.process.pid, signal.SIGABRT)

    def pause(self) -> list[psutil.Process]:
        """SIGSTOP, to all of them; gives who was stopped."""
        return _signalled(self.family(), signal.SIGSTOP)

    def stop(self) -> None:
        """End it, whatever state it is in."""
        self.may_end = True
        _signalled(self.family(), signal.SIGCONT)
        self.process.stop(20)

    def check(self) -> None:
        """A driver that nobody killed, and that no other has followed, runs."""
        if not self.may_end:
            self.process.check()


def go_on(family: Sequence[psutil.Process]) -> None:
    """SIGCONT."""
    _signalled(family, signal.SIGCONT)


def _signalled(family: Sequence[psutil.Process], number: int) -> list[psutil.Process]:
    reached = []
    for one in family:
        with suppress(psutil.Error):
            one.send_signal(number)
            reached.append(one)
    return reached


class Drivers:
    """The drivers of one pipeline, one after the other, or two at a time."""

    def __init__(self, folder: Path, text: str) -> None:
        """`text` is streams.yaml."""
        self._folder = folder
        self._config = folder / "streams.yaml"
        self._config.write_text(text)
        self.all: list[Driver] = []

    @property
    def now(self) -> Driver:
        """The one that was started last."""
        return self.all[-1]

    def start(self) -> Driver:
        """Start one, beside those that run; it will take the pipeline over from them."""
        for one in self.all:
            one.may_end = True
        self.all.append(Driver(self._config, self._folder / f"driver-{len(self.all) + 1}.log"))
        return self.now

    def until_begun(self) -> None:
        """Until the last one has been through a batch."""
        eventually(self._has_begun, PATIENCE_S)

    def _has_begun(self) -> bool:
        self.now.check()
        return self.now.has_begun

    def part(self, one: Driver, other: Driver) -> None:
        """Until one of two that were started at once is fenced; the other one is that of now."""
        eventually(lambda: not (one.process.is_running and other.process.is_running), PATIENCE_S)
        fenced, stays = (other, one) if one.process.is_running else (one, other)
        self.until_fenced(fenced)
        self.all.remove(stays)
        self.all.append(stays)
        fenced.may_end, stays.may_end = True, False

    def until_fenced(self, old: Driver) -> None:
        """Until a driver has seen that another one has begun; it says so by its exit code."""
        code = old.process.wait(PATIENCE_S)
        if code is None:
            old.tell_what_it_does()
        assert code == EXIT_TAKEN_OVER, f"{old.process.name} ended with {code}: {old.process.log_tail(5)}"

    def stop(self) -> None:
        for one in self.all:
            one.stop()
            one.listen()

    def told(self) -> Counter[str]:
        """What all of them have logged, by event."""
        for one in self.all:
            one.listen()
        return sum((one.events for one in self.all), Counter())

    def troubles(self) -> list[str]:
        """What they complained of, each with how often."""
        counts = Counter(line for one in self.all for line in one.troubles)
        return [f"{count} x {line}" for line, count in counts.most_common(12)]


def streams_yaml(
    namespace: str,
    servers: str,
    properties: dict[str, str],
    jars: list[Path],
    on_hole: str = "halt",
    **more: Any,
) -> str:
    """The pipeline of a story."""
    streams = [
        {
            "topics": rf"{namespace}\.public\.{shape.name}",
            "table": f"{namespace}.{shape.name}",
            "mode": shape.mode,
            "partition_by": list(shape.spec),
            "properties": {"format-version": str(shape.version)},
            "on_hole": on_hole,
        }
        for shape in SHAPES
    ]
    config = {
        "pipeline": namespace,
        "catalog": {"name": "lake", "properties": properties},
        "kafka": {
            "properties": {"bootstrap.servers": servers},
            "control_topic": f"{namespace}.control",
            "dead_letter_topic": f"{namespace}.dead",
        },
        "every": "200ms",
        "batch_messages": 400,
        "announce_every": "2s",
        "spark": {"driver_memory": "512m", "jars": [str(jar) for jar in jars]},
        "http": {"port": 0},
        "streams": streams,
        **more,
    }
    return json.dumps(config, indent=1)  # which is YAML
