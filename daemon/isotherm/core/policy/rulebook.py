"""The policies of a whole folder at one moment, quick to ask: thousands of files, thousands of tables.

A rulebook does not change; a reload makes another one. What it once answered it remembers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from isotherm.core.policy.patterns import Names, specificity
from isotherm.core.policy.policy import Mode
from isotherm.core.policy.precedence import PROPERTIES, PolicyFile, Resolved, Weighed, resolve_weighed

MAX_REMEMBERED = 10_000
"""Answers that are kept; where there are more tables, they are found again."""
NO_MATCH = "no policy matches the table, so it is left alone"


@dataclass(frozen=True, slots=True)
class Gap:
    """The tables of which a broken file may have said something; nobody can tell what."""

    tables: tuple[str, ...] = ()
    is_whole: bool = False
    """It names no others."""

    def __or__(self, other: "Gap") -> "Gap":
        """What two versions of a file name together; a version that cannot be read adds nothing to one that can."""
        return Gap(tuple(dict.fromkeys((*self.tables, *other.tables))), self.is_whole or other.is_whole)


class Rulebook:
    """Policy files by name, and which of them hold for a table.

    A table is left alone where a broken file names it as specifically as any good one does, or more. Where a broken
    file is more general, or may be about any table, what it would have said about deletion is missing: nothing is
    deleted, unless a good file names that very table and says itself how long to keep.
    """

    def __init__(self, files: Mapping[str, PolicyFile], gaps: Mapping[str, Gap] | None = None) -> None:
        """A book of the files in force, and of what the broken ones are about; each by file name."""
        self.files = dict(sorted(files.items()))
        self.gaps = dict(sorted((gaps or {}).items()))
        self._answers: dict[tuple[str, tuple[str | None, ...]], Resolved | None] = {}

    def resolve(self, table: str, properties: Mapping[str, str]) -> Resolved | None:
        """A table's policy, or None where it is left alone: `why_none` says why."""
        key = (table, tuple(properties.get(name) for name in PROPERTIES))
        if key not in self._answers:
            if len(self._answers) >= MAX_REMEMBERED:
                self._answers.clear()
            self._answers[key] = self._resolve(table, properties)
        return self._answers[key]

    def has_policy(self, table: str) -> bool:
        """Whether a table has a policy, of whatever properties it is: a catalog may have a hundred thousand names."""
        return any(True for _ in self._by_pattern.that_match(table)) and self.that_stops(table) is None

    def names_of(self, table: str) -> set[str]:
        """The files that match a table."""
        return {name for _, name in self._by_pattern.that_match(table)}

    def why_none(self, table: str) -> str:
        """Why a table has no policy."""
        broken = self.that_stops(table)
        return NO_MATCH if broken is None else f"{broken} names the table and is broken, so it is left alone"

    def _resolve(self, table: str, properties: Mapping[str, str]) -> Resolved | None:
        if self.that_stops(table) is not None:
            return None
        files = self._weighed(table)
        found = resolve_weighed(properties, files)
        broken = None if found is None else self._that_may_say_more(table)
        if found is None or broken is None or _says_by_name(files):
            return found
        return _without_deletion(found, broken)

    def that_stops(self, table: str) -> str | None:
        """A broken file that names a table as specifically as any good one, or more."""
        broken = self._broken_by_weight(table)
        if not broken:
            return None
        weight, name = max(broken)
        good = (how for how, _, _ in self._weighed(table))
        return name if weight >= max(good, default=weight) else None

    def _that_may_say_more(self, table: str) -> str | None:
        """A broken file that may have said something of a table, more generally than a good one."""
        unknown = [name for name, gap in self.gaps.items() if not gap.is_whole]
        return min([*unknown, *(name for _, name in self._broken_by_weight(table))], default=None)

    def _broken_by_weight(self, table: str) -> list[tuple[tuple[bool, int], str]]:
        found = self._gap_by_pattern.that_match(table) if self.gaps else ()
        return [(specificity(pattern), name) for pattern, name in found]

    @cached_property
    def _gap_by_pattern(self) -> Names[str]:
        return Names((pattern, name) for name, gap in self.gaps.items() for pattern in gap.tables)

    def _weighed(self, table: str) -> list[Weighed]:
        """The files that match a table, and how specifically each names it."""
        best: dict[str, tuple[bool, int]] = {}
        for pattern, name in self._by_pattern.that_match(table):
            how = specificity(pattern)
            best[name] = max(best.get(name, how), how)
        return [(how, name, self.files[name]) for name, how in best.items()]

    @cached_property
    def _by_pattern(self) -> Names[str]:
        return Names((pattern, name) for name, file in self.files.items() for pattern in file.tables)


def _says_by_name(files: Iterable[Weighed]) -> bool:
    """Whether a file names that very table, and says how long to keep."""
    return any(is_exact and "keep_for" in file.rules().get("expire", {}) for (is_exact, _), _, file in files)


def _without_deletion(found: Resolved, broken: str) -> Resolved:
    """A policy that deletes nothing, because a broken file may forbid it."""
    policy, origin = found.policy, f"{broken} is broken"
    kept = policy.model_copy(
        update={
            "expire": policy.expire.model_copy(update={"enabled": False}),
            "metadata": policy.metadata.model_copy(update={"enabled": False}),
            "orphans": policy.orphans.model_copy(update={"mode": Mode.OFF}),
        }
    )
    origins = dict.fromkeys(("expire.enabled", "metadata.enabled", "orphans.mode"), origin)
    note = f"nothing is deleted until {broken} is mended: it may say more about the table"
    return replace(found, policy=kept, origins={**found.origins, **origins}, notes=(*found.notes, note))
