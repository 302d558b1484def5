"""How tables stand, for people on call: one word for each, worst first.

`isotherm tables` makes these of what the stores have, the daemon's port of what it has told since it began; both in one order.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Word(StrEnum):
    """How a table stands, the worst first."""

    FAILING = "failing"
    """It cannot be looked at, or something that is done to it fails by our mistake."""
    HALTED = "halted"
    """A person must look."""
    JOBS_FAIL = "jobs fail"
    """Some partition, or some action on the table, waits after jobs that failed."""
    DUE = "due"
    RUNNING = "running"
    WAITING = "waiting"
    """Something is due, and must wait: for a window, a budget."""
    HOT = "hot"
    """Something owes enough, and is written."""
    PAUSED = "paused"
    UNSUPPORTED = "unsupported"
    """Something would be due, and this version cannot do it."""
    UNDECIDED = "undecided"
    """Nothing was decided yet."""
    CLEAN = "clean"
    LEFT_ALONE = "left alone"
    """No policy matches it."""
    ELSEWHERE = "elsewhere"
    """Another daemon of the group has it."""


ORDER = {word: place for place, word in enumerate(Word)}


@dataclass(frozen=True, slots=True)
class Standing:
    """One table."""

    table: str
    word: Word
    why: str = ""
    """In a few words: why it fails, or is held back."""
    score: float = 0.0
    """The highest of what is not hot; 1 or more is due."""
    hot_score: float = 0.0
    """The highest of what is hot."""
    partitions: int = 0
    due: int = 0
    hot: int = 0
    waiting: int = 0
    running: int = 0
    """Jobs."""
    failed: int = 0
    """Partitions and actions that wait after jobs that failed."""
    due_since_ms: int | None = None
    """Since when the partition that has waited longest owes enough."""
    looked_at_ms: int | None = None
    """When the catalog was last asked for it, or a round has last planned it."""
    next_what: str = ""
    """What is done next, or what is waited for."""
    next_at_ms: int | None = None
    """When that is, at the soonest. None: now, or nobody knows."""


def word_of(
    *,
    trouble: bool = False,
    halted: bool = False,
    paused: bool = False,
    failed: int = 0,
    running: int = 0,
    due: int = 0,
    waiting: int = 0,
    owes_hot: bool = False,
    unsupported: int = 0,
    is_decided: bool = True,
) -> Word:
    """The worst that is true of a table."""
    true = (
        (trouble, Word.FAILING),
        (halted, Word.HALTED),
        (failed > 0, Word.JOBS_FAIL),
        (paused, Word.PAUSED),  # nothing of it begins, whatever is due
        (due > 0, Word.DUE),
        (running > 0, Word.RUNNING),
        (waiting > 0, Word.WAITING),
        (owes_hot, Word.HOT),
        (unsupported > 0, Word.UNSUPPORTED),
        (not is_decided, Word.UNDECIDED),
    )
    return next((word for holds, word in true if holds), Word.CLEAN)


def worst_first(standings: Iterable[Standing]) -> list[Standing]:
    """By word; among equals by debt, and by how long it is owed."""
    return sorted(
        standings,
        key=lambda one: (
            ORDER[one.word],
            -max(one.score, one.hot_score if one.word is Word.HOT else 0),
            one.due_since_ms is None,
            one.due_since_ms or 0,
            one.table,
        ),
    )


def summary_text(standings: Iterable[Standing]) -> str:
    """How many there are of each: `40 tables: 1 failing, 2 due, 37 clean`."""
    counts = Counter(one.word for one in standings)
    total = sum(counts.values())
    said = ", ".join(f"{counts[word]:,} {word}" for word in Word if counts[word])
    return f"{total:,} {'table' if total == 1 else 'tables'}{': ' if said else ''}{said}"
