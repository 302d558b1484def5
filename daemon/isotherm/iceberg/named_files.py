"""Files of certain names that a table names: where each lies, and how large it is.

A name is not enough to know a file by. A stream that plays an epoch again may give one a name of before, and two
partitions may have files of one name. A location is not always enough either, because a folder may have an alias. So a
file counts as the one at a location where they are the same by spelling. Where a table names none there, all files of
that name may be meant, unless each of them lies where the table says.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from isotherm.contract.paths import normalised, taken_for
from isotherm.core.deletion import name_of
from isotherm.core.quarantine import fits


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """What a table names, of some names."""

    _by_name: dict[str, dict[str, set[int]]] = field(default_factory=dict)
    """By name and location: the sizes that manifests say; none where they say none."""

    def add(self, location: str, size_bytes: int | None = None) -> None:
        """Take in a location, and what a manifest says of its size."""
        sizes = self._by_name.setdefault(name_of(location), {}).setdefault(location, set())
        if size_bytes is not None:
            sizes.add(size_bytes)

    def has(self, path: str) -> bool:
        """Whether the table names a file at this very place."""
        return any(_is_same(path, location) for location in self._by_name.get(name_of(path), {}))

    def sizes_at(self, path: str) -> frozenset[int]:
        """The sizes that a file must have to be the one which the table names here, or, where it names none here, anywhere."""
        there = self._by_name.get(name_of(path), {})
        here = [sizes for location, sizes in there.items() if _is_same(path, location)]
        return frozenset().union(*(here or there.values()))

    def are_elsewhere(self, path: str, size_of: Callable[[str], int | None]) -> bool:
        """Whether the table names files of this name in other places alone, and each of them is there.

        Where one is missing, the other place may be an alias of this one.

        Args:
            path: where a file of this name would lie.
            size_of: gives the size of a file, or None where there is none; may raise what a store says.
        """
        there = self._by_name.get(name_of(path), {})
        if not there or self.has(path):
            return False
        found = ((size_of(location), sizes) for location, sizes in there.items())
        return all(size_bytes is not None and fits(size_bytes, sizes) for size_bytes, sizes in found)


def _is_same(path: str, location: str) -> bool:
    return normalised(path) in taken_for(location)
