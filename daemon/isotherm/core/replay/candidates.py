"""Policies to try on a table's history: those that differ in one field from the one that is there, and in several.

A field is tried in both directions, and only where the history can show an effect: no limits on deletes where nobody
deletes, no rule of event time where no partition is about time. Fields that each
saved something alone are then tried together. Fields that had no effect alone are tried once more, on top of the best
policy so far.

Three things are left out, because a history does not tell what would decide them: how large files should be (what
readers read), what to expire (who looks back how far), and windows (when others need the machines).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any

from pydantic import ValidationError

from isotherm.core.model.files import FileKind
from isotherm.core.partitions import time_span, with_epochs
from isotherm.core.policy.cold_after import LEARNED
from isotherm.core.policy.fields import RULES
from isotherm.core.policy.learned_counts import DELETES_ALONE, enough_deletes, enough_files
from isotherm.core.policy.policy import Policy
from isotherm.core.replay.history import History
from isotherm.core.units import HOUR_MS, Unit

MOST = 20
"""Replays, with that of the policy that is there: some minutes for a busy month."""

SINGLE = 16
"""So many policies at most differ in one field."""

MOST_VALUES = 3
"""Of one field."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy to try."""

    name: str
    """`min_files 10, rest 6h`."""
    policy: Policy
    changes: Mapping[str, Any]
    """The fields in which it differs from the policy that is there, with their values: `compact.min_files`."""


@dataclass(frozen=True, slots=True)
class Step:
    """A field, and the values to try for it, given its own. What needs no trial is left out later."""

    field: str
    values: Callable[[Any], tuple[Any, ...]]
    needs_time: bool = False
    """Means something only where partitions are about time."""
    needs: FileKind | None = None
    """Means something only where there are such files."""


def _around(after: float | timedelta | str) -> tuple[float | timedelta, ...]:
    """Values of `cold.after` to try; what is learned is two intervals at most."""
    match after:
        case str():
            return 0, 1, 6
        case timedelta():
            return after / 2, 0, 3 * after
        case intervals:
            return intervals / 2, 0, 3 * intervals


def _fewer_and_more(min_files: int | str) -> tuple[int, ...]:
    """Values of `compact.min_files` to try; beside what is learned, what that is elsewhere."""
    files = enough_files(min_files, is_late=False)
    return (files, files // 2, 2 * files) if min_files == LEARNED else (files // 2, files // 4, 2 * files)


def _fewer_and_more_deletes(limit: int | str) -> tuple[int, ...]:
    """Values of `compact.max_position_deletes` to try."""
    files = enough_deletes(limit, are_alone=False)
    return (DELETES_ALONE, files // 2, 2 * files) if limit == LEARNED else (files // 2, 2 * files)


STEPS = (
    Step("cold.after", _around, needs_time=True),
    Step("cold.silent_for", lambda span_ms: (span_ms // 4,), needs_time=True),
    Step("compact.min_files", _fewer_and_more),
    Step("cold.quiet_for", lambda span_ms: (span_ms // 3, 4 * span_ms)),
    Step("compact.rest", lambda span_ms: (span_ms // 4, 3 * span_ms) if span_ms else (6 * HOUR_MS,)),
    Step("compact.max_position_deletes", _fewer_and_more_deletes, needs=FileKind.POSITION_DELETES),
    Step("compact.max_equality_deletes", lambda n: (n // 2, 4 * n), needs=FileKind.EQUALITY_DELETES),
    Step(
        "compact.max_deletion_vectors",
        lambda n: (n // 2, 2 * n) if n else (100,),
        needs=FileKind.DELETION_VECTORS,
    ),
    Step("cold.quiet_commits", lambda _: (0,)),
    Step("cold.late_write_risk", lambda risk: (min(4 * risk, 1.0),), needs_time=True),
)
"""The fields in the order in which they are tried, the most telling first."""


def near(policy: Policy, history: History) -> tuple[Candidate, ...]:
    """The policies that differ in one field, what goes back to a built-in default before all others."""
    fields = with_epochs(history.facts.fields, policy.cold.epochs)
    keys = {*history.partitions, *(key for one in history.recorded for key in one.change.partitions)}
    has_time = any(time_span(key, fields) for key in keys)
    kinds = _kinds(history)
    found = [
        candidate
        for step in STEPS
        if (has_time or not step.needs_time) and (step.needs is None or step.needs in kinds)
        for candidate in islice(_stepped(policy, step), MOST_VALUES)
    ]
    found.sort(
        key=lambda one: any(_value(one.policy, field) != _value(Policy(), field) for field in one.changes)
    )
    return tuple(found[:SINGLE])


def _value(policy: Policy, field: str) -> Any:
    rule = RULES[field]
    return getattr(getattr(policy, rule.section), rule.name)


def _stepped(policy: Policy, step: Step) -> Iterator[Candidate]:
    """The built-in default first: whoever is far from it may have to go further than one step."""
    default, held = (_value(one, step.field) for one in (Policy(), policy))
    for value in dict.fromkeys((default, *step.values(held))):
        if (candidate := changed(policy, {step.field: value})) is not None:
            yield candidate


def together(policy: Policy, paying: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The policies that differ in several fields.

    Args:
        policy: what is there.
        paying: what differs in one field and costs less, the cheapest first.
    """
    best: dict[str, Any] = {}
    for candidate in paying:
        for field, value in candidate.changes.items():
            best.setdefault(field, value)
    fields = list(best)
    counts = sorted({min(count, len(fields)) for count in (2, 3, len(fields))} - {0, 1})
    several = [changed(policy, {field: best[field] for field in fields[:count]}) for count in counts]
    return tuple(one for one in several if one is not None)


def beside(policy: Policy, best: Candidate, idle: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """What had no effect by itself, on the best that was found; its own fields stay."""
    if not best.changes:
        return ()
    several = [
        changed(policy, {**best.changes, **one.changes})
        for one in idle
        if not one.changes.keys() & best.changes.keys()
    ]
    return tuple(one for one in several if one is not None)


def changed(policy: Policy, changes: Mapping[str, Any]) -> Candidate | None:
    """A policy with other values, or None where these are not allowed, or are those that it has."""
    names = []
    for field, value in changes.items():
        rule = RULES[field]
        written = rule.written(value)
        try:
            # As a file would say it, so that what is proposed is what was tried.
            as_written = rule.unit in _SAID or not isinstance(value, int | float)
            said = Policy.model_validate({rule.section: {rule.name: written if as_written else value}})
        except ValidationError:
            return None
        section = getattr(policy, rule.section)
        held = getattr(getattr(said, rule.section), rule.name)
        if held == getattr(section, rule.name):
            return None
        policy = policy.model_copy(update={rule.section: section.model_copy(update={rule.name: held})})
        names.append(f"{rule.name} {written}")
    return Candidate(", ".join(names), policy, dict(changes))


_SAID = (Unit.SPAN, Unit.SIZE)
"""What a file says with a unit."""


def _kinds(history: History) -> Collection[FileKind]:
    """The kinds of delete files that are there, or come."""
    kinds = {kind for one in history.partitions.values() for kind in one.deletes}
    for recorded in history.recorded:
        for delta in recorded.change.partitions.values():
            kinds |= delta.deletes.keys()
    return kinds
