"""Policy files that are as specific as each other, and disagree.

Nobody should have to find that out from a table: both files are named. Whether two patterns can name the same table
is decided for all names that there could be, so that the answer does not wait for such a table to appear.
"""

import fnmatch
import re
import string
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from isotherm.policy import RULES
from isotherm.precedence import PolicyFile, specificity


def conflicts(files: Iterable[tuple[str, PolicyFile]]) -> list[str]:
    """One line for each field of which two files say different things, of the same tables, equally specifically."""
    by_specificity: dict[tuple[bool, int], list[tuple[str, str, PolicyFile]]] = {}
    for name, file in sorted(files):
        for pattern in file.tables:
            by_specificity.setdefault(specificity(pattern), []).append((pattern, name, file))
    found = []
    for (is_exact, _), patterns in sorted(by_specificity.items()):
        for one, other in _rivals(patterns, is_exact=is_exact):
            found += [
                f"{other[1]}: {clash} (for {_both(one[0], other[0])}): say it in one of them, or more specifically; "
                f"until then {other[1]} holds, the later name"
                for clash in _clashes(one[1], one[2], other[2])
            ]
    return list(dict.fromkeys(found))


_Named = tuple[str, str, PolicyFile]


def _rivals(patterns: Sequence[_Named], *, is_exact: bool) -> Iterator[tuple[_Named, _Named]]:
    """Pairs of different files that can name the same table."""
    if is_exact:
        by_name: dict[str, list[_Named]] = {}
        for one in patterns:
            by_name.setdefault(one[0], []).append(one)
        for same in by_name.values():
            yield from ((one, other) for one, other in combinations(same, 2) if one[1] != other[1])
    else:
        for one, other in combinations(patterns, 2):
            if one[1] != other[1] and overlap(one[0], other[0]):
                yield one, other


def _both(pattern: str, other: str) -> str:
    return pattern if pattern == other else f"tables that are both {pattern} and {other}"


def _clashes(name: str, file: PolicyFile, other: PolicyFile) -> Iterator[str]:
    theirs = other.rules()
    for section, fields in file.rules().items():
        for rule, value in fields.items():
            against = theirs.get(section, {}).get(rule, value)
            if against != value:
                written = RULES[f"{section}.{rule}"].written
                yield f"{section}.{rule} is {written(against)}, and {written(value)} in {name}"


def overlap(one: str, other: str) -> bool:
    """Whether some name could match both patterns."""
    if _apart(one, other):
        return False
    left, right = _pieces(one), _pieces(other)
    # Which prefixes of `right` can be used up, for each prefix of `left`: the usual table of two globs.
    reached = [piece == "*" for piece in right]
    row = [True] + [all(reached[: count + 1]) for count in range(len(right))]
    for piece in left:
        above, row = row, [row[0] and piece == "*"]
        for count, against in enumerate(right):
            if piece == "*" or against == "*":
                row.append(above[count + 1] or row[count])
            else:
                row.append(above[count] and _meet(piece, against))
    return row[-1]


def _apart(one: str, other: str) -> bool:
    """Whether the text before the first wildcard already tells them apart: nearly always, and it costs nothing."""
    left, right = (re.split(r"[*?\[]", pattern, maxsplit=1)[0] for pattern in (one, other))
    length = min(len(left), len(right))
    return left[:length] != right[:length]


def _pieces(pattern: str) -> list[str]:
    return re.findall(r"\[!?\]?[^\]]*\]|.", pattern, flags=re.DOTALL)


def _meet(one: str, other: str) -> bool:
    """Whether two pieces for one character each have a character in common."""
    characters = {*string.printable, *one, *other}
    return any(fnmatch.fnmatchcase(c, one) and fnmatch.fnmatchcase(c, other) for c in characters)
