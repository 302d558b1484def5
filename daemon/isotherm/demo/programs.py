"""The demo's own programs as processes: ingest and what maintains the tables, supervised; chaos; and how much memory each takes.

What chaos killed is started again, as a supervisor in production would. What died by itself ends the run, with its name
and the end of its log: a demo that papers over a crash proves nothing.
"""

import contextlib
import os
import random
import signal
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import assert_never

import psutil

from isotherm.demo.files import DemoFolder
from isotherm.demo.maintainer import Maintainer
from isotherm.demo.stack.process import Process, group_members
from isotherm.iceberg.compaction import fork_program as rewriter
from isotherm.runtime.clock import monotonic_s

EXPECTED_WITHIN_S = 30
"""A death that comes this soon after a kill of ours is a consequence of it (a JVM whose Python is gone, …)."""
PATIENT_S = 40.0
"""For a batch to be finished, when a run ends as it should."""
HURRIED_S = 8.0
"""When it is broken off: nobody will look at what is left."""
KILLED_WITHIN_S = 5
CHAOS_PAUSE_S = (9.0, 16.0)
SPARE_INGEST_S = 45.0
"""Ingest is left alone this long after it was killed: Spark alone takes half of it to start, and something must be
written that the next kill can interrupt."""


def _maintenance(folder: DemoFolder, maintainer: Maintainer) -> Process | None:
    match maintainer:
        case Maintainer.ISOTHERM:
            return _python(
                folder, "the daemon", "isotherm", "isotherm.cli", "run", "--config", folder.isotherm_yaml
            )
        case Maintainer.TIMER:
            return _python(folder, "the timer", "timer", "isotherm.demo.timer", folder.timer_yaml)
        case Maintainer.NOBODY:
            return None
        case _:
            assert_never(maintainer)


def _python(
    folder: DemoFolder, name: str, log: str, module: str, *arguments: str | Path, **environment: str
) -> Process:
    command = [sys.executable, "-m", module, *arguments]
    return Process(name, command, folder.logs / f"{log}.log", folder=folder.root, environment=environment)


class Programs:
    """Ingest, and the daemon or what is in its place."""

    def __init__(self, folder: DemoFolder, maintainer: Maintainer = Maintainer.ISOTHERM) -> None:
        self._folder = folder
        # A stopped ingest finishes its batch; a stopped daemon, its step; a stopped timer, its call.
        self.maintenance = _maintenance(folder, maintainer)
        self.ingest = self._driver()
        self.second: Process | None = None
        """Another driver of ingest, from its start until one of the two is fenced."""
        self.fenced: list[int | None] = []
        """Exit codes of the drivers that were fenced."""
        self.restarts: dict[str, int] = {}
        self._killed_at_s: dict[str, float] = {}
        self._old_groups: set[int] = set()
        self._lock = threading.Lock()
        self._is_stopping = False

    def start(self) -> None:
        """Start all."""
        for program in self._all():
            program.start()

    def _all(self) -> list[Process]:
        return [one for one in (self.maintenance, self.ingest, self.second) if one is not None]

    def _driver(self, **environment: str) -> Process:
        return _python(
            self._folder,
            "ingest",
            "ingest",
            "isotherm_ingest.cli",
            "run",
            self._folder.streams_yaml,
            **environment,
        )

    def start_second(self) -> bool:
        """Start ingest once more, beside the one that runs, as a mistaken operator would on another machine.

        Returns whether it was started: there must be one that runs.
        """
        with self._lock:
            if not self.ingest.is_running:
                return False
            self.second = self._driver(ISOTHERM_INGEST_HTTP__PORT="0")
            self.second.start()
            return True

    def _part_drivers(self) -> None:
        """One of two drivers has ended: the other one is ingest from now on."""
        if self.second is None or (self.ingest.is_running and self.second.is_running):
            return
        ended, stays = self.ingest, self.second
        if self.ingest.is_running:
            ended, stays = stays, ended
        self.fenced.append(ended.exit_code)
        self._old_groups.add(ended.pid)
        self.ingest, self.second = stays, None

    def check(self) -> None:
        """Start again what was killed.

        Raises:
            StackError: one has died by itself.
        """
        with self._lock:
            if self._is_stopping:
                return
            self._part_drivers()
            for program in (self.maintenance, self.ingest):
                if program is None or program.is_running or program.exit_code is None:
                    continue
                if monotonic_s() - self._killed_at_s.get(program.name, float("-inf")) > EXPECTED_WITHIN_S:
                    program.check()
                self._old_groups.add(program.pid)
                program.start()
                self.restarts[program.name] = self.restarts.get(program.name, 0) + 1

    def kill(self, name: str, *, group: bool) -> bool:
        """SIGKILL, to a program and its children or to it alone; `check` starts it again.

        Returns whether it was killed: of two drivers of ingest, none is, nor what does not run here.
        """
        with self._lock:
            if name == self.ingest.name and self.second is not None:
                return False
            program = next((one for one in self._all() if one.name == name), None)
            if program is None:
                return False
            self._killed_at_s[program.name] = monotonic_s()
            program.kill(signal.SIGKILL, group=group)
            program.wait(KILLED_WITHIN_S)
            return True

    def stop(self, within_s: float = HURRIED_S) -> None:
        """End all: ask, wait so long, kill; then whatever an earlier life of theirs has left."""
        with self._lock:
            self._is_stopping = True
        threads = [threading.Thread(target=program.stop, args=(within_s,)) for program in self._all()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for group in self._old_groups:
            if group_members(group):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(group, signal.SIGKILL)

    def jobs(self) -> list[psutil.Process]:
        """The daemon's running jobs: the children in which its executor works."""
        return [process for process in _children(self.maintenance) if _is_job(process)]


def _children(program: Process | None) -> list[psutil.Process]:
    if program is None or not program.is_running:
        return []
    try:
        return psutil.Process(program.pid).children(recursive=True)
    except psutil.Error:
        return []


def _is_job(process: psutil.Process) -> bool:
    try:
        return rewriter.__file__ in process.cmdline()
    except psutil.Error:
        return False


@dataclass(slots=True)
class Kill:
    """One deed of chaos."""

    at_s: float
    """Since chaos began."""
    target: str


class Chaos:
    """Kills at random, seeded moments: never twice the same within a short time, each kind as often as the other."""

    TARGETS = ("ingest and its JVM", "the daemon", "ingest's Python", "a running job")

    def __init__(self, programs: Programs, seed: int) -> None:
        self.kills: list[Kill] = []
        self._programs = programs
        self._random = random.Random(seed)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """No more kills."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=30)

    def _run(self) -> None:
        began_s = monotonic_s()
        ingest_killed_s = float("-inf")
        waiting: list[str] = []
        while not self._stopping.wait(self._random.uniform(*CHAOS_PAUSE_S)):
            if not waiting:
                waiting = self._random.sample(self.TARGETS, len(self.TARGETS))
            is_spared = monotonic_s() - ingest_killed_s < SPARE_INGEST_S
            target = next((one for one in waiting if not (is_spared and one.startswith("ingest"))), None)
            if target is None:
                continue
            waiting.remove(target)
            if not self._strike(target):
                waiting.append(target)  # nothing to kill now: its turn comes again
            else:
                self.kills.append(Kill(monotonic_s() - began_s, target))
                if target.startswith("ingest"):
                    ingest_killed_s = monotonic_s()

    def _strike(self, target: str) -> bool:
        """Kill it; whether there was anything to kill."""
        match target:
            case "the daemon":
                return self._programs.kill("the daemon", group=True)
            case "ingest and its JVM":
                return self._programs.kill("ingest", group=True)
            case "ingest's Python":
                return self._programs.kill("ingest", group=False)
            case _:
                return self._strike_job()

    def _strike_job(self) -> bool:
        """A job lives a second or two: wait for one, for a while."""
        deadline_s = monotonic_s() + 8
        while monotonic_s() < deadline_s and not self._stopping.wait(0.1):
            for process in self._programs.jobs():
                self._stopping.wait(self._random.uniform(0, 1))
                with contextlib.suppress(psutil.Error):
                    process.kill()
                    return True
        return False


@dataclass(slots=True)
class Memory:
    """Peak resident memory by process, sampled."""

    peaks: dict[str, float] = field(default_factory=dict)
    """Megabytes; the processes of one name that live at the same time are summed up."""

    def sample(self, pids: Mapping[str, Iterable[int]], programs: Programs) -> None:
        """Look once."""
        now: dict[str, float] = {}
        for name, numbers in pids.items():
            for number in numbers:
                _add(now, name, number)
        maintenance = programs.maintenance
        if maintenance is not None and maintenance.name == "the daemon":
            _add(now, "daemon", maintenance.pid)
            for job in programs.jobs():
                _add(now, "jobs", job.pid)
        else:
            _add_spark(now, "timer", maintenance)
        for driver in (programs.ingest, programs.second):
            _add_spark(now, "ingest", driver)
        now["demo"] = _rss_mb(os.getpid())
        for name, megabytes in now.items():
            self.peaks[name] = max(self.peaks.get(name, 0.0), round(megabytes, 1))


def _add_spark(sums: dict[str, float], name: str, program: Process | None) -> None:
    """A Python program, and the JVM that it started."""
    if program is None or not program.is_running:
        return
    _add(sums, f"{name}_python", program.pid)
    for child in _children(program):
        with contextlib.suppress(psutil.Error):
            _add(sums, f"{name}_{'jvm' if 'java' in child.name() else 'python'}", child.pid)


def _add(sums: dict[str, float], name: str, pid: int) -> None:
    sums[name] = sums.get(name, 0.0) + _rss_mb(pid)


def _rss_mb(pid: int) -> float:
    try:
        return float(psutil.Process(pid).memory_info().rss) / 1e6
    except psutil.Error:
        return 0.0


def tree(pid: int) -> list[int]:
    """A process and its descendants."""
    try:
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.Error:
        return []
