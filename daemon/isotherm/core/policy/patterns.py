"""Names and patterns of tables: `shop.orders`, `shop.*`; which match, which is more specific, which could meet."""

import fnmatch
import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Generic, TypeVar

Value = TypeVar("Value")

MAX_LENGTH = 1000
"""Of a name or pattern, in characters."""
_SEVERAL = re.compile(r"^-|[\s,;]+-?")
"""What stands between names where somebody forgot to make a list of them; YAML folds wrong indentation into it."""


def trouble_of(pattern: str) -> str | None:
    """Why a name or pattern is not accepted, or None where it is."""
    if not is_bounded(pattern):
        return f"not 1 to {MAX_LENGTH} characters, or `[` without a `]` behind it"
    if _SEVERAL.search(pattern):
        return (
            "looks like several names: make each an item of the list, and look at the indentation. "
            "Where white space, a comma or a dash is part of the name, write `?` for it"
        )
    return None


def is_bounded(pattern: str) -> bool:
    """Whether a pattern is compiled in a time that its length bounds: `[[[[…` takes the square of it."""
    return 0 < len(pattern) <= MAX_LENGTH and "[" not in pattern[pattern.rfind("]") + 1 :]


def words(pattern: str) -> list[str]:
    """The names that stand in what should be one: `shop.orders - shop.items`. Empty where it is one."""
    return [word for word in _SEVERAL.split(pattern) if word] if _SEVERAL.search(pattern) else []


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


class Names(Generic[Value]):
    """Many patterns, each with something, found by the names that they match: by any literal text in them.

    Each stands under that piece of its text that fewest others have, so that ten thousand patterns which begin alike,
    or all begin with a wildcard, are not held against each name one by one.
    """

    def __init__(self, entries: Iterable[tuple[str, Value]]) -> None:
        """Nothing is compiled yet: most patterns are never held against a name."""
        known = [(pattern, value, _texts(pattern)) for pattern, value in entries]
        shared = Counter(text for _, _, texts in known for text in texts)
        self._by_text: dict[str, list[tuple[str, Value]]] = {}
        for pattern, value, texts in known:
            rarest = min(texts, key=lambda text: (shared[text], -len(text)), default="")
            self._by_text.setdefault(rarest, []).append((pattern, value))
        self._lengths = sorted({len(text) for text in self._by_text})

    def that_match(self, name: str) -> Iterator[tuple[str, Value]]:
        """The patterns that match a name."""
        texts = {
            name[start : start + length]
            for length in self._lengths
            for start in range(len(name) - length + 1 if length else 1)
        }
        for text in texts & self._by_text.keys():
            for pattern, value in self._by_text[text]:
                if matches(pattern, name):
                    yield pattern, value


LONGEST_TEXT = 32
"""Of a literal text by which a pattern is found: a name of a thousand characters has this many thousand pieces."""
_WILDCARDS = re.compile(r"\[!?\]?[^\]]*\]|[*?]")


def _texts(pattern: str) -> set[str]:
    """Literal texts that each name has which a pattern matches; of a long one its two ends."""
    texts = [text for text in _WILDCARDS.split(pattern) if text]
    return {end for text in texts for end in (text[:LONGEST_TEXT], text[-LONGEST_TEXT:])}


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


@lru_cache(maxsize=10_000)
def _meet(one: str, other: str) -> bool:
    """Whether two pieces for one character each have a character in common.

    Names are made of few characters. So the answers are kept: two folders of wildcards ask for some million of them.
    """
    characters = {*string.printable, *one, *other}
    return any(fnmatch.fnmatchcase(c, one) and fnmatch.fnmatchcase(c, other) for c in characters)
