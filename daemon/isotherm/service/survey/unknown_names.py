"""Names that the catalog lists, and of which a look does not show which table they are.

Each is asked for again, ever more rarely. When its patience is over it counts as looked at all the same, so that a
table that nobody can read does not keep files waiting for ever.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from math import inf

from isotherm.service.survey.silences import Silences

SILENT_AGAIN_S = 60.0
"""A name that was not answered for is asked for again after this; twice as long each time."""
LONGEST_PAUSE_S = 3600.0
"""A name that answers again has kept files waiting for so much longer than it was silent, at most."""
ALIVE_S = 3600.0
"""A catalog by which a table was found within this time answers."""


@dataclass(frozen=True, slots=True)
class _Silence:
    """A name of which it is not known which table it is."""

    patience_s: float
    """After this, of one kind of answer, it counts as looked at."""
    since_s: float
    """When it gave an answer of this kind first, and no other since."""
    silent_since_s: float | None
    """When it gave no answer for the first time. None where it always gave one."""
    again_s: float
    pause_s: float
    why: str


@dataclass(slots=True)
class UnknownNames:
    """What is known of the names without an answer."""

    monotonic_s: Callable[[], float]
    silences: Silences
    """What the ledger keeps of those that gave no answer."""
    _names: dict[str, _Silence] = field(default_factory=dict)
    _found_s: float = float("-inf")
    """When a look found anything."""

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def why(self, name: str) -> str:
        """Why nobody knows which table a name is."""
        return self._names[name].why

    def first(self, looked_at: Collection[str]) -> str | None:
        """A name for which files wait. Returns None where each one counts as looked at."""
        return next((name for name in self._names if name not in looked_at), None)

    def is_due(self, name: str) -> bool:
        """Whether a name may be asked for now."""
        return name not in self._names or self.monotonic_s() >= self._names[name].again_s

    def found(self) -> None:
        """Some table was found: the catalog answers."""
        self._found_s = self.monotonic_s()

    def answered(self, name: str) -> None:
        """It is known which table a name is."""
        self._names.pop(name, None)

    def save(self, unknown: Collection[str], others: Collection[str]) -> None:
        """Keep in the ledger since when some names gave no answer that helps; the others gave one."""
        now_s = self.monotonic_s()
        self.silences.end(others)
        known = {name: self._names[name] for name in unknown}
        self.silences.keep(
            {
                name: (now_s - one.silent_since_s, one.pause_s)
                for name, one in known.items()
                if one.silent_since_s is not None
            }
        )

    def keep(self, names: Collection[str]) -> None:
        """Forget all but these."""
        self._names = {name: silence for name, silence in self._names.items() if name in names}
        self.silences.end_but(names)

    def note(self, name: str, why: str, patience_s: float, asked_s: float) -> bool:
        """Note that a look did not show which table a name is. Returns whether the patience for it is over.

        One that is silent and refused by turns has the patience of a silence, since it was silent first.

        Args:
            name: the name.
            why: what was answered, for people.
            patience_s: how long files wait for a name with such an answer; inf where it gave none.
            asked_s: when it was asked for, or earlier. The first answer came when it is noted, which may be much later.
        """
        now_s, before = self.monotonic_s(), self._names.get(name)
        since_s, silent_since_s, pause_s = now_s, None, SILENT_AGAIN_S
        if before is not None:
            silent_since_s, pause_s = before.silent_since_s, min(2 * before.pause_s, LONGEST_PAUSE_S)
            since_s = before.since_s if before.patience_s == patience_s else now_s
        if silent_since_s is None and patience_s == inf:
            silent_since_s = now_s - self.silences.before_s(name)
        until_s = since_s + patience_s
        if silent_since_s is not None:
            until_s = min(until_s, silent_since_s + self.silences.patience_s)
        # Where nothing at all was found lately, it is the catalog, and not this name.
        is_over = asked_s >= until_s and now_s - self._found_s <= ALIVE_S
        if is_over:
            # Whatever makes it count as not looked at has it asked for at once.
            again_s = now_s
        else:
            again_s = min(now_s + pause_s, until_s if now_s < until_s else now_s + SILENT_AGAIN_S)
        self._names[name] = _Silence(patience_s, since_s, silent_since_s, again_s, pause_s, why)
        return is_over
