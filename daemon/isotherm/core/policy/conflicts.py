"""Policy files that are as specific as each other, and disagree.

Nobody should have to find that out from a table: both files are named. Whether two patterns can name the same table
is decided for all names that there could be, so that the answer does not wait for such a table to appear.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from isotherm.core.policy.fields import RULES
from isotherm.core.policy.patterns import Patterns, overlap, prefix, specificity
from isotherm.core.policy.precedence import KEEPING, PolicyFile

MOST_STEPS = 5_000_000
"""Characters of patterns that are held against each other: some seconds. Thousands of plain files need few."""


@dataclass(frozen=True, slots=True)
class _Named:
    """A pattern, and the file that has it."""

    pattern: str
    name: str
    file: PolicyFile


def conflicts(files: Iterable[tuple[str, PolicyFile]]) -> list[str]:
    """One line for each field of which two files say different things, of the same tables, equally specifically."""
    by_specificity: dict[tuple[bool, int], list[_Named]] = {}
    for name, file in sorted(files):
        for pattern in file.tables:
            by_specificity.setdefault(specificity(pattern), []).append(_Named(pattern, name, file))
    left = [MOST_STEPS]
    found = [
        f"{later.name}: {clash} (for {_both(earlier.pattern, later.pattern)}): say it in one of them, or more "
        f"specifically; until then {holds}"
        for _, patterns in sorted(by_specificity.items())
        for earlier, later in _rivals(patterns, left)
        for clash, holds in _clashes(earlier, later)
    ]
    if left[0] < 0:
        found.append(
            "the folder: too many patterns could name the same tables to hold each against each; use fewer"
        )
    return list(dict.fromkeys(found))


def _rivals(patterns: Sequence[_Named], left: list[int]) -> Iterator[tuple[_Named, _Named]]:
    """Pairs of patterns of different files that can name the same table, the one of the earlier file name first.

    Ends early when `left`, a count of steps, is used up.
    """
    index = Patterns((one.pattern, one) for one in patterns)
    for one in patterns:
        for _, other in index.that_may_match(prefix(one.pattern)):
            left[0] -= len(one.pattern) * len(other.pattern)
            if left[0] < 0:
                return
            is_told_once = other.name < one.name or prefix(one.pattern) != prefix(other.pattern)
            if one.name != other.name and is_told_once and overlap(one.pattern, other.pattern):
                yield (other, one) if other.name < one.name else (one, other)


def _both(pattern: str, other: str) -> str:
    return pattern if pattern == other else f"tables that are both {pattern} and {other}"


def _clashes(earlier: _Named, later: _Named) -> Iterator[tuple[str, str]]:
    theirs = later.file.rules()
    for section, fields in earlier.file.rules().items():
        for rule, value in fields.items():
            against = theirs.get(section, {}).get(rule, value)
            if against != value:
                name = f"{section}.{rule}"
                written = RULES[name].written
                holds = (
                    f"{written(max(value, against))} holds, which keeps more"
                    if name in KEEPING
                    else f"{later.name} holds, the later name"
                )
                yield f"{name} is {written(against)}, and {written(value)} in {earlier.name}", holds
