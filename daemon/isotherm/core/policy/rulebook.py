"""The policies of a whole folder at one moment, quick to ask: thousands of files, thousands of tables.

A rulebook does not change; a reload makes another one. What it once answered it remembers.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property

from isotherm.core.policy.patterns import Patterns, matches, specificity
from isotherm.core.policy.precedence import PROPERTIES, PolicyFile, Resolved, resolve

MAX_REMEMBERED = 10_000
"""Answers that are kept; where there are more tables, they are found anew."""


ANY = specificity("*")


class Rulebook:
    """Policy files by name, and which of them hold for a table."""

    def __init__(
        self, files: Mapping[str, PolicyFile], unruled: Iterable[str] = (), *, has_unknown: bool = False
    ) -> None:
        """A book of these files.

        Args:
            files: those in force, by name.
            unruled: patterns of tables that are left alone, because what was said of them cannot be read.
            has_unknown: something cannot be read at all: it may be about any table that no file names by more than `*`.
        """
        self.files = dict(sorted(files.items()))
        self.unruled = frozenset(unruled)
        self.has_unknown = has_unknown
        self._answers: dict[tuple[str, tuple[str | None, ...]], Resolved | None] = {}

    @property
    def gaps(self) -> tuple[frozenset[str], bool]:
        """What the book cannot say."""
        return self.unruled, self.has_unknown

    def resolve(self, table: str, properties: Mapping[str, str]) -> Resolved | None:
        """A table's policy, or None where no file matches it: it is then only observed."""
        key = (table, tuple(properties.get(name) for name in PROPERTIES))
        if key not in self._answers:
            if len(self._answers) >= MAX_REMEMBERED:
                self._answers.clear()
            self._answers[key] = (
                None if self._is_unruled(table) else resolve(table, properties, self._that_may_name(table))
            )
        return self._answers[key]

    def _is_unruled(self, table: str) -> bool:
        if any(matches(pattern, table) for pattern in self.unruled):
            return True
        return self.has_unknown and not any(
            (file.specificity(table) or ANY) > ANY for _, file in self._that_may_name(table)
        )

    def _that_may_name(self, table: str) -> Iterable[tuple[str, PolicyFile]]:
        names = dict.fromkeys(name for _, name in self._by_pattern.that_may_match(table))
        return [(name, self.files[name]) for name in names]

    @cached_property
    def _by_pattern(self) -> Patterns[str]:
        return Patterns((pattern, name) for name, file in self.files.items() for pattern in file.tables)
