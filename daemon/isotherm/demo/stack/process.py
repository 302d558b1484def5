"""One supervised child process: a server of the stack, or a program of our own.

It runs in a session of its own (Ctrl-C in the terminal reaches us, not it), writes to a log file, and dies with
us, whatever kills us. Nothing is restarted here: `check` says that a process died and shows the end of its log,
and the caller decides.
"""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO

import psutil

from isotherm.demo.stack import lifeline
from isotherm.demo.stack.errors import StackError
from isotherm.runtime.clock import monotonic_s

POLL_S = 0.05
KILL_WITHIN_S = 5
"""What SIGKILL has hit goes when the kernel lets it: at once, or when its input or output is done."""
LOG_LINES = 20
"""Lines of a log that are shown when a process dies; a Java stack trace's head and cause fit."""
LOG_TAIL_BYTES = 16_384


class ProcessDiedError(StackError):
    """A process ended that should run."""


class Process:
    """A child process with a name and a log; it is started by `start`, and may be started again after it ended."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        stop_signal: signal.Signals = signal.SIGTERM,
        death_signal: signal.Signals = signal.SIGKILL,
    ) -> None:
        """`environment` is added to ours; `prefix` is a program that runs the command (setpriv, nice)."""
        self.name = name
        self.log = log
        self._command = [str(part) for part in command]
        self._prefix = list(prefix)
        self._folder = folder
        self._environment = dict(environment or {})
        self._stop_signal = stop_signal
        self._death_signal = death_signal
        self._popen: subprocess.Popen[bytes] | None = None
        self._is_over = False
        self._log_start = 0

    @property
    def pid(self) -> int:
        """Process id, which is its process group's id too."""
        if self._popen is None:
            raise StackError(f"{self.name} was never started")
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs, or before it was started. A negative one is the signal that ended it."""
        return None if self._popen is None else self._popen.poll()

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._popen is not None and self._popen.poll() is None

    def start(self) -> None:
        """Start it; the log is appended to, so that what an earlier life said is not lost."""
        if self.is_running:
            raise StackError(f"{self.name} is running already")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        guard = [
            sys.executable,
            "-I",
            "-S",
            lifeline.__file__,
            str(int(self._death_signal)),
            str(os.getpid()),
        ]
        with self.log.open("ab") as log:
            self._is_over = False
            self._log_start = log.tell()
            self._popen = _spawn(
                [*self._prefix, *guard, *self._command], log, self._folder, self._environment
            )

    def check(self) -> None:
        """See that it lives.

        Raises:
            ProcessDiedError: with its name, its exit code and the end of its log.
        """
        code = self.exit_code
        if code is None:
            return
        how = f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        raise ProcessDiedError(f"{self.name} {how}; the end of {self.log}:\n{self.log_tail()}")

    def log_tail(self, lines: int = LOG_LINES) -> str:
        """The last lines of the log."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
                text = log.read().decode(errors="replace")
        except FileNotFoundError:
            text = ""
        return "\n".join(text.splitlines()[-lines:]) or "(nothing)"

    def has_logged(self, text: bytes) -> bool:
        """Whether its log holds the text, since it was started the last time."""
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return text in log.read()

    def wait_until(self, is_ready: Callable[[], bool], within_s: float, what: str = "is ready") -> None:
        """Wait until the predicate holds, and watch meanwhile that the process lives.

        Raises:
            ProcessDiedError: it ended.
            StackError: the time is over; it goes on running.
        """
        deadline = monotonic_s() + within_s
        while not is_ready():
            self.check()
            if monotonic_s() > deadline:
                raise StackError(
                    f"{self.name} did not get so far that it {what} within {within_s:g} s; "
                    f"the end of {self.log}:\n{self.log_tail()}"
                )
            time.sleep(POLL_S)

    def wait(self, within_s: float) -> int | None:
        """Wait for its end: the exit code, or None if it still runs."""
        if self._popen is None:
            return None
        try:
            return self._popen.wait(within_s)
        except subprocess.TimeoutExpired:
            return None

    def kill(self, sig: signal.Signals = signal.SIGKILL, *, group: bool = True) -> None:
        """Send a signal to it and its children, or to it alone; nothing happens if it has ended."""
        if self._popen is None or self._is_over or (not group and self._popen.poll() is not None):
            return
        try:
            if group:
                os.killpg(self._popen.pid, sig)
            else:
                os.kill(self._popen.pid, sig)
        except ProcessLookupError:
            pass

    def stop(self, within_s: float = 15) -> None:
        """End it: ask it alone (it knows in which order its children go), then kill what is left of its group."""
        if self._popen is None or self._is_over:
            return
        deadline = monotonic_s() + within_s
        self.kill(self._stop_signal, group=False)
        self.wait(within_s)
        while group_members(self._popen.pid) and monotonic_s() < deadline:
            time.sleep(POLL_S)
        self.kill(signal.SIGKILL)
        self._popen.wait()
        deadline = monotonic_s() + KILL_WITHIN_S
        while group_members(self._popen.pid) and monotonic_s() < deadline:
            time.sleep(POLL_S)
        # From now on its number may be another's: no signal goes there any more.
        self._is_over = True


class Server:
    """One of the stack's servers. What it has stored stays in its folder when it is stopped."""

    name: str
    _process: Process | None = None

    @property
    def process(self) -> Process:
        """The process that serves."""
        if self._process is None:
            raise StackError(f"{self.name} was never started")
        return self._process

    def check(self) -> None:
        """See that it lives; raises StackError with the end of its log."""
        self.process.check()

    def stop(self) -> None:
        """Stop it, if it was started."""
        if self._process is not None:
            self._process.stop()


def group_members(group: int) -> list[int]:
    """The processes of a group that live (zombies do not)."""
    found = []
    for pid in psutil.pids():
        try:
            if os.getpgid(pid) == group and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
        except (ProcessLookupError, PermissionError, psutil.Error):
            continue
    return found


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class _Spawner:
    """A thread that starts every child, and never ends.

    Linux sends the parent-death signal when the *thread* that forked ends. A server that some worker thread
    started would be killed as soon as that thread was done.
    """

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[
            tuple[Callable[[], subprocess.Popen[bytes]], Future[subprocess.Popen[bytes]]]
        ]
        self._orders = queue.SimpleQueue()
        threading.Thread(target=self._work, name="spawner", daemon=True).start()

    def run(self, order: Callable[[], "subprocess.Popen[bytes]"]) -> "subprocess.Popen[bytes]":
        answer: Future[subprocess.Popen[bytes]] = Future()
        self._orders.put((order, answer))
        return answer.result()

    def _work(self) -> None:
        while True:
            order, answer = self._orders.get()
            try:
                answer.set_result(order())
            except BaseException as err:  # noqa: BLE001 (the one who asked shall see it)
                answer.set_exception(err)


_spawner: _Spawner | None = None
_spawner_lock = threading.Lock()


def _spawn(
    command: Sequence[str], log: IO[bytes], folder: Path | None, environment: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    global _spawner  # noqa: PLW0603 (one thread per process, made when the first child is)
    with _spawner_lock:
        _spawner = _spawner or _Spawner()

    def order() -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, **environment},
            start_new_session=True,
        )

    return _spawner.run(order)
