"""Names and patterns of tables: `shop.orders`, `shop.*`; which match, which is more specific, which could meet."""

import fnmatch
import re
import string
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Generic, TypeVar

Value = TypeVar("Value")


def matches(pattern: str, table: str) -> bool:
    """Whether a pattern names a table; `*` crosses dots, case counts."""
    return table.startswith(prefix(pattern)) and _compiled(pattern).match(table) is not None


@lru_cache(maxsize=100_000)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))


def prefix(pattern: str) -> str:
    """The text before the first wildcard: it tells nearly all patterns apart, and costs nothing."""
    return re.split(r"[*?\[]", pattern, maxsplit=1)[0]


def specificity(pattern: str) -> tuple[bool, int]:
    """Orders patterns from the most general to the most specific: exact names last, then by literal characters."""
    literal = re.sub(r"[*?\[\]]", "", pattern)
    return literal == pattern, len(literal)


def example_table(patterns: Sequence[str]) -> str:
    """A name that the first of some patterns matches: `shop.*` → `shop.any`."""
    name = patterns[0].replace("*", "any").replace("?", "x")
    classes = re.compile(r"\[(!?)(\]?[^\]]*)\]")
    return classes.sub(
        lambda found: next((c for c in string.printable if fnmatch.fnmatchcase(c, found[0])), ""), name
    )


class Patterns(Generic[Value]):
    """Many patterns, each with something, found by their prefixes."""

    def __init__(self, entries: Iterable[tuple[str, Value]]) -> None:
        self._by_prefix: dict[str, list[tuple[str, Value]]] = {}
        for pattern, value in entries:
            self._by_prefix.setdefault(prefix(pattern), []).append((pattern, value))

    def that_may_match(self, text: str) -> Iterator[tuple[str, Value]]:
        """The patterns whose prefix the text begins with; no other can match it."""
        for length in range(len(text) + 1):
            yield from self._by_prefix.get(text[:length], ())


def overlap(one: str, other: str) -> bool:
    """Whether some name could match both patterns."""
    left, right = _pieces(one), _pieces(other)
    # Which prefixes of `right` can be used up, for each prefix of `left`: the usual table of two globs.
    row = [all(piece == "*" for piece in right[:count]) for count in range(len(right) + 1)]
    for piece in left:
        above, row = row, [row[0] and piece == "*"]
        for count, against in enumerate(right):
            if "*" in (piece, against):
                row.append(above[count + 1] or row[count])
            else:
                row.append(above[count] and _meet(piece, against))
    return row[-1]


def _pieces(pattern: str) -> list[str]:
    return re.findall(r"\[!?\]?[^\]]*\]|.", pattern, flags=re.DOTALL)


def _meet(one: str, other: str) -> bool:
    """Whether two pieces for one character each have a character in common."""
    characters = {*string.printable, *one, *other}
    return any(fnmatch.fnmatchcase(c, one) and fnmatch.fnmatchcase(c, other) for c in characters)
