"""`isotherm demo`: one run from the first line to the report.

Only the standard library is imported before the first line is printed. SIGTERM and Ctrl-C, at any moment, stop
everything that was started; a second one changes nothing, for the first is being obeyed.
"""

import fcntl
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from isotherm.demo.maintainer import Maintainer
from isotherm.runtime.clock import monotonic_s

if TYPE_CHECKING:
    from isotherm.demo.report import Report

FIRST_ROW_WITHIN_S = 300
"""From the start of Spark to the first row, on a slow machine that also downloads nothing."""
CATCH_UP_WITHIN_S = 240
SETTLE_WITHIN_S = 90
"""For the daemon to finish what is due, once the stream stands still: seconds as a rule, more where all share a core."""
TOLD_WITHIN_S = 60
"""For the last announcements."""
SECOND_DRIVER_FROM_S = 60
"""Only a demo so long has a second driver of ingest: it takes half a minute to start."""
CHAOS_ENDS_S = 10
"""Chaos ends this long before the workload does."""
TICK_S = 0.5
PLAIN_EVERY_S = 10.0
MARKER = "demo.lock"
ELSEWHERE = "begin this one in another directory (its files go to .isotherm/demo where it begins)"


class _Stopped(BaseException):
    """A signal asked us to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class CannotRunError(Exception):
    """The demo cannot run; the text says why and what to do."""


def run_demo(
    for_s: float = 180,
    report: Path | None = None,
    keep: bool = False,
    chaos: bool = False,
    root: Path = Path(".isotherm/demo"),
    *,
    seed: int | None = None,
    maintained_by: Maintainer = Maintainer.ISOTHERM,
) -> int:
    """The whole system on a live PostgreSQL, and a report of what it did.

    Args:
        for_s: seconds of trade, from the first row that is readable in Iceberg.
        report: where the report is written as JSON. Without it, it is only shown.
        keep: leave everything running after the report, until Ctrl-C.
        chaos: kill with SIGKILL, at random moments, whatever may be killed.
        root: a folder for everything; what an earlier demo left there is deleted.
        seed: of workload and chaos. Without it a new one is drawn and printed.
        maintained_by: the daemon, or what it is held against.

    Returns:
        The exit code: 0, or 1 when a promise is broken or the demo could not run. Only Isotherm's are promises; of the
        others it is 1 when the rows are not those of PostgreSQL.
    """
    from isotherm.demo.needs import lacking
    from isotherm.demo.stack.jars import LISTS_FOLDER

    if (missing := lacking(LISTS_FOLDER)) is not None:
        _say(f"isotherm demo: {missing}")
        return 1
    _say(f"isotherm demo: everything under {root}, logs in {root / 'logs'}")
    try:
        with _stopping_on_signals(), _folder_to_ourselves(root.resolve()) as folder:
            return _Run(folder, for_s, report, keep, chaos, seed, maintained_by).run()
    except _Stopped as stopped:
        _say("stopped; nothing is left running")
        return 128 + stopped.number
    except CannotRunError as err:
        _say(f"isotherm demo: {err}")
        return 1


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


@contextmanager
def _stopping_on_signals() -> Iterator[None]:
    """The first SIGINT or SIGTERM becomes an exception in this thread; later ones are only acknowledged."""
    asked = False

    def stop(number: int, _: FrameType | None) -> None:
        nonlocal asked
        if asked:
            _say("stopping already …")
            return
        asked = True
        raise _Stopped(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _folder_to_ourselves(root: Path) -> Iterator[Path]:
    """An empty folder that no other demo uses; what an earlier demo left is deleted, anything else never is."""
    marker = root / MARKER
    if root.exists() and not marker.exists() and any(root.iterdir()):
        raise CannotRunError(f"{root} holds something that no demo has made: {ELSEWHERE}")
    root.mkdir(parents=True, exist_ok=True)
    with marker.open("a+", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as err:
            raise CannotRunError(f"another demo uses {root}: stop it, or {ELSEWHERE}") from err
        _clear(root)
        yield root


def _clear(root: Path) -> None:
    """Delete everything but the marker, and the stamps that say which jars were checked."""
    for path in sorted(root.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.name != MARKER and not fnmatch(path.name, "jars-*.json"):
            path.unlink()


class _Run:
    """One run."""

    def __init__(
        self,
        folder: Path,
        for_s: float,
        report: Path | None,
        keep: bool,
        chaos: bool,
        seed: int | None,
        maintained_by: Maintainer,
    ) -> None:
        # Heavy: a second of imports, after the first line is out.
        from isotherm.demo.files import DemoFolder
        from isotherm.demo.stage import Stage, new_seed

        self._for_s = for_s
        self._report_path = report
        self._keep = keep
        self._with_chaos = chaos
        self._seed = new_seed() if seed is None else seed
        self._stage: Stage = Stage(DemoFolder(folder), self._seed, _say, maintained_by)
        self._troubles: list[str] = []
        self._startup_s = 0.0
        self._last_plain_s = 0.0
        self._waiting = threading.Event()

    def run(self) -> int:
        """From the first server to the report."""
        from isotherm.demo.stack import StackError

        _say(f"seed {self._seed}")
        try:
            self._stage.start()
            self._wait_for_first_row()
            with self._shown():
                self._trade()
                self._come_to_rest()
            if not self._keep:
                self._stop_programs()
            report = self._judge()
            self._publish(report)
            if self._keep:
                with suppress(_Stopped):
                    self._stay()
        except StackError as err:
            _say(f"isotherm demo: {err}")
            return 1
        else:
            return 0 if report.is_clean else 1
        finally:
            _say("stopping everything …")
            self._stage.stop()

    # The phases

    def _wait_for_first_row(self) -> None:
        deadline_s = monotonic_s() + FIRST_ROW_WITHIN_S
        while self._stage.witness.first_readable_ms is None:
            self._tick()
            if self._stage.witness.error:
                raise CannotRunError(f"the witness cannot read the lake: {self._stage.witness.error}")
            if monotonic_s() - self._last_plain_s >= PLAIN_EVERY_S:
                self._last_plain_s = monotonic_s()
                _say(
                    f"[{self._stage.elapsed_s:4.0f} s] … {self._stage.logbook.newest or 'nothing to be heard yet'}"
                )
            if monotonic_s() > deadline_s:
                log = self._stage.programs.ingest
                raise CannotRunError(
                    f"no row was readable within {FIRST_ROW_WITHIN_S} s; the end of {log.log}:\n{log.log_tail()}"
                )
        self._startup_s = self._stage.elapsed_s
        _say(f"[{self._startup_s:4.0f} s] the first rows are readable; trading for {self._for_s:.0f} s")

    def _trade(self) -> None:
        self._stage.workload.start()
        if self._with_chaos:
            self._stage.begin_chaos()
        ends_s = monotonic_s() + self._for_s
        second_s = self._for_s * 2 / 3 if self._for_s >= SECOND_DRIVER_FROM_S else 0
        while (left_s := ends_s - monotonic_s()) > 0:
            if left_s < second_s and self._stage.programs.start_second():
                second_s = 0
            if self._stage.chaos is not None and left_s < CHAOS_ENDS_S:
                self._stage.chaos.stop()
            self._tick()
            self._show("trading", left_s)
        if self._stage.chaos is not None:
            self._stage.chaos.stop()
        self._stage.workload.hold()

    def _come_to_rest(self) -> None:
        self._wait(self._stage.has_one_driver, CATCH_UP_WITHIN_S, "one of two drivers is fenced", pause_s=1)
        behind: list[str] = []

        def caught_up() -> bool:
            compared = self._stage.referee.compare()
            behind[:] = [name for name, one in compared.items() if not one.is_equal]
            return not behind

        if not self._wait(caught_up, CATCH_UP_WITHIN_S, "waiting for ingest to catch up", pause_s=2):
            _say(
                f"ingest did not catch up within {CATCH_UP_WITHIN_S} s: {', '.join(behind)} differ from PostgreSQL"
            )
        self._stage.read_everything()
        self._wait(self._stage.is_settled, SETTLE_WITHIN_S, "maintenance finishes what is due", pause_s=1)
        if not self._wait(
            self._stage.is_told, TOLD_WITHIN_S, "waiting for the last announcements", pause_s=1
        ):
            _say(f"not every snapshot was announced and accounted for within {TOLD_WITHIN_S} s")

    def _wait(self, is_done: Callable[[], bool], within_s: float, phase: str, pause_s: float) -> bool:
        """Whether something came true in time."""
        deadline_s = monotonic_s() + within_s
        while not is_done():
            if monotonic_s() > deadline_s:
                return False
            next_s = monotonic_s() + pause_s
            while monotonic_s() < next_s:
                self._tick()
                self._show(phase, deadline_s - monotonic_s())
        return True

    def _stop_programs(self) -> None:
        """Before the last look, so that it is a look at something at rest."""
        from isotherm.demo.programs import PATIENT_S

        self._stage.workload.stop()
        self._stage.programs.stop(PATIENT_S)
        self._stage.witness.stop()
        self._stage.logbook.read()

    def _stay(self) -> None:
        from isotherm.demo.stage import relative
        from isotherm.demo.workload import Pace

        config = relative(self._stage.folder.isotherm_yaml)
        self._stage.workload.go_on(Pace(orders_per_s=4))
        if self._stage.maintainer is not Maintainer.ISOTHERM:
            _say("\nEverything stays up, and the shop trades on, gently. Ctrl-C ends it.")
        else:
            _say(
                "\nEverything stays up, and the shop trades on, gently. From a second terminal:\n"
                + "".join(
                    f"  isotherm {command} --config {config}\n"
                    for command in (
                        "explain shop.orders",
                        "plan",
                        "state shop.orders --verify",
                        "audit shop.orders",
                    )
                )
                + "Ctrl-C ends it."
            )
        with self._shown():
            while True:
                self._tick()
                self._show("kept", None)

    def _tick(self) -> None:
        self._stage.look_after()
        self._waiting.wait(TICK_S)

    # What a person sees

    @contextmanager
    def _shown(self) -> Iterator[None]:
        """A live view on a terminal; a line now and then otherwise."""
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True)
        self._live: Live | None = None
        if not console.is_terminal:
            yield
            return
        with Live(console=console, auto_refresh=False, transient=False) as live:
            self._live = live
            try:
                yield
            finally:
                self._live = None

    def _show(self, phase: str, left_s: float | None) -> None:
        from isotherm.demo.view import draw, plain

        if self._live is not None:
            self._live.update(draw(self._stage.picture(phase, left_s)), refresh=True)
        elif monotonic_s() - self._last_plain_s >= PLAIN_EVERY_S:
            self._last_plain_s = monotonic_s()
            _say(plain(self._stage.picture(phase, left_s)))

    def _judge(self) -> "Report":
        from isotherm.demo.final_report import make_report

        _say(f"[{self._stage.elapsed_s:4.0f} s] comparing and judging …")
        return make_report(self._stage, self._startup_s)

    def _publish(self, report: "Report") -> None:
        from rich.console import Console

        from isotherm.demo.report import render

        render(report, Console())
        if self._report_path is not None:
            text = json.dumps(report.as_json(), indent=2, ensure_ascii=False)
            self._report_path.parent.mkdir(parents=True, exist_ok=True)
            self._report_path.write_text(text + "\n", encoding="utf-8")
            _say(f"the report stands in {self._report_path}")
