"""A check, what it finds, and how checks are made: one after the other, each with an end.

A check runs in a thread of its own. Where nothing comes of it for `LIMIT_S` it is given up, its thread is left to itself,
and the next one begins. Whatever a check raises is what it has found.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from queue import Empty, SimpleQueue
from threading import Thread

from isotherm.runtime.clock import monotonic_s
from isotherm.runtime.strict_model import ConfigError
from isotherm.service.ports import TableMissing, Unavailable
from isotherm.store.database import StoreError, StoreTrouble

LIMIT_S = 10.0
"""For one check to find something, and for the next thing that it finds."""
IMPORT_WITHIN_S = 120.0
"""For importing large libraries, which a busy machine does slowly, and which says nothing of anything."""


class Mark(StrEnum):
    """What was found, in one word."""

    WELL = "well"
    WRONG = "wrong"
    """A person should do something."""
    UNKNOWN = "unknown"
    """It cannot be told, or there is nothing to be told yet, or it is only worth knowing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the answer."""

    mark: Mark
    found: str
    remedy: str = ""
    """What a person can do."""


@dataclass(frozen=True, slots=True)
class Check:
    """One question."""

    subject: str
    """What is looked at: `configuration`, `namespace shop`."""
    ask: Callable[[], Iterator[Finding]]
    remedy: str = ""
    """What to do where nothing comes of it, or it raises what is away."""
    limit_s: float = LIMIT_S


@dataclass(frozen=True, slots=True)
class Found:
    """A finding, with its check."""

    subject: str
    mark: Mark
    found: str
    remedy: str
    took_ms: int
    """Since the check began, or since what it found before."""
    is_hanging: bool = False
    """Nothing came of the check any more."""


def well(found: str) -> Finding:
    """All is as it should be."""
    return Finding(Mark.WELL, found)


def wrong(found: str, remedy: str) -> Finding:
    """A person should do something."""
    return Finding(Mark.WRONG, found, remedy)


def unknown(found: str, remedy: str = "") -> Finding:
    """It cannot be told, or is only worth knowing."""
    return Finding(Mark.UNKNOWN, found, remedy)


def made(check: Check, clock_s: Callable[[], float] = monotonic_s) -> Iterator[Found]:
    """What a check finds, as it comes."""
    came: SimpleQueue[Finding | None] = SimpleQueue()

    def run() -> None:
        try:
            for finding in check.ask():
                came.put(finding)
        except Exception as err:  # noqa: BLE001 (no check stops another)
            came.put(wrong(*_told(err, check.remedy)))
        came.put(None)

    Thread(target=run, name="isotherm-check", daemon=True).start()
    since_s = clock_s()
    while True:
        try:
            finding = came.get(timeout=check.limit_s)
        except Empty:
            given_up = f"given up: nothing came in {check.limit_s:.0f} s"
            yield Found(check.subject, Mark.WRONG, given_up, check.remedy, int(check.limit_s * 1000), True)
            return
        if finding is None:
            return
        now_s = clock_s()
        yield Found(
            check.subject, finding.mark, finding.found, finding.remedy, round((now_s - since_s) * 1000)
        )
        since_s = now_s


def _told(err: Exception, remedy: str) -> tuple[str, str]:
    """What an error says, and what to do."""
    if isinstance(err, ConfigError):
        return str(err), ""  # it says where, and what would be right
    if isinstance(err, Unavailable | TableMissing | StoreError):
        return str(err), remedy
    if isinstance(err, StoreTrouble):
        return f"a store cannot be read: {err}", remedy
    if isinstance(err, OSError):
        return f"{type(err).__name__}: {err}", remedy
    return f"{type(err).__name__}: {err}", remedy or "please report it: this check did not expect that"
