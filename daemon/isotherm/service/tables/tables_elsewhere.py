"""Names under which another daemon's tables were found: they are not looked up again for a while."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

ELSEWHERE_S = 3600.0
"""A name under which another daemon's table was found is looked up again after this: it may be another table then."""


@dataclass(slots=True)
class TablesElsewhere:
    """Remembers these names."""

    owns: Callable[[str], bool]
    """Whether a table is this daemon's, by its uuid."""
    monotonic_s: Callable[[], float]
    _seen: dict[str, tuple[str, float]] = field(default_factory=dict)
    """By name: the table's uuid, and when it was seen."""

    @property
    def names(self) -> Collection[str]:
        """All of them."""
        return self._seen.keys()

    def __contains__(self, name: str) -> bool:
        return name in self._seen

    def add(self, name: str, uuid: str) -> None:
        """Another daemon's table has this name."""
        self._seen[name] = (uuid, self.monotonic_s())

    def forget_old(self) -> None:
        """Forget what was seen too long ago, and what is ours by now."""
        now_s = self.monotonic_s()
        self._seen = {
            name: (uuid, seen_s)
            for name, (uuid, seen_s) in self._seen.items()
            if now_s - seen_s < ELSEWHERE_S and not self.owns(uuid)
        }
