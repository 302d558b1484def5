"""A plan as few lines as possible: what says the same is one line, what is due comes first, what is clean last.

Nothing is decided here. Every verdict is in the plan; `-o json` prints each of them.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from isotherm.core.model.decisions import Decision, Plan, Verdict

ORDER = (
    Verdict.DUE,
    Verdict.RUNNING,
    Verdict.WAITING,
    Verdict.HALTED,
    Verdict.QUARANTINED,
    Verdict.HOT,
    Verdict.RESTING,
    Verdict.UNSUPPORTED,
    Verdict.OFF,
    Verdict.CLEAN,
)
"""From what happens now to what needs nothing."""

IN_OTHER_NUMBERS = frozenset({Verdict.HOT, Verdict.UNSUPPORTED, Verdict.OFF, Verdict.RESTING})
"""Partitions with these verdicts share a line also if their sentences differ in numbers: nothing is done to them now."""

_NUMBERS = re.compile(r"(?:\d+(?:\.\d+)?(?: ?(?:ms|[smhd]|B|[KMGT]iB|%)(?!\w))?(?:[ :,-]*(?=\d))?)+")
"""A number with its unit, or several one after the other: `5m`, `1h 5m`, `2026-11-21 13:00:00`, `96.0 MiB`."""

Place = tuple[tuple[int, int, str], ...]
"""Where a label stands among others."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a plan."""

    verdict: Verdict
    score: float | None
    """The highest, or None where there is none."""
    subject: str
    why: str
    is_missing: bool = False
    """No version can do it yet: nothing is wrong with the table."""


def tally_text(plan: Plan) -> str:
    """How many partitions have which verdict: `2 hot, 31 clean`."""
    return verdicts_text(Counter(decision.verdict for decision in plan.of_partitions))


def verdicts_text(counts: Mapping[Verdict, int]) -> str:
    """The same, of what was counted."""
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in ORDER if counts.get(verdict)) or "none"


def plan_lines(plan: Plan) -> list[Line]:
    """Every verdict of a plan, in as few lines as possible."""
    groups: dict[object, list[Decision]] = {}
    for decision in plan.decisions:
        groups.setdefault(_kind(decision), []).append(decision)
    places = sorted(_natural(one.label) for one in plan.of_partitions)
    return in_order(_line(group, places) for group in groups.values())


def in_order(lines: Iterable[Line]) -> list[Line]:
    """What is due first, what is clean last; among equals the highest score."""
    return sorted(
        lines, key=lambda line: (ORDER.index(line.verdict), -(line.score or 0), _natural(line.subject))
    )


def _kind(decision: Decision) -> object:
    if decision.verdict is Verdict.CLEAN:
        return Verdict.CLEAN
    if decision.partition is None:
        return decision.action
    if decision.verdict in IN_OTHER_NUMBERS:
        return decision.verdict, _NUMBERS.sub("#", decision.why)
    return decision.verdict, decision.why


def _line(group: Sequence[Decision], places: Sequence[Place]) -> Line:
    first = min(group, key=lambda one: (-one.score, _natural(one.label)))
    of_partitions = [one.label for one in group if one.partition is not None]
    of_table = [one.label for one in group if one.partition is None]
    subject = ", ".join([*([partitions_text(of_partitions, places)] if of_partitions else []), *of_table])
    why = first.why.removeprefix(f"{first.verdict}: ")
    if len({one.why for one in group}) > 1:
        nearest = first.verdict is Verdict.CLEAN
        why = f"nearest to due is {first.label}: {why}" if nearest else f"for instance {first.label}: {why}"
    is_missing = first.partition is None and first.verdict is Verdict.UNSUPPORTED
    return Line(first.verdict, first.score, subject, why, is_missing)


def partitions_text(chosen: Sequence[str], places: Sequence[Place]) -> str:
    """Some partitions by the first and the last of them, and their number.

    Args:
        chosen: their labels.
        places: those of all partitions of the table, in order.
    """
    if len(chosen) == 1:
        return chosen[0]
    first, last = min(chosen, key=_natural), max(chosen, key=_natural)
    between = bisect_right(places, _natural(last)) - bisect_left(places, _natural(first))
    count = f"{len(chosen)}" if len(chosen) == between else f"{len(chosen)} of {between}"
    name, _, value = last.rpartition("=")
    rest = value if first.rpartition("=")[0] == name else last
    return f"{first} … {rest} ({count} partitions)"


def _natural(label: str) -> Place:
    """The place by which `bucket=9` comes before `bucket=10`.

    Numbers are compared as texts: a value of a partition may have more digits than Python reads as a number.
    """
    return tuple(
        (1, len(part.lstrip("0")), part.lstrip("0")) if part.isdecimal() else (0, 0, part)
        for part in re.split(r"(\d+)", label)
    )
