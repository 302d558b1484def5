"""Names that the catalog lists, and of which a look does not show which table they are.

Each is asked for again, ever more rarely. When its patience is over it counts as looked at all the same, so that a
table that nobody can read does not keep files waiting for ever. The two spans that last a day go on over a restart.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from isotherm.service.survey.silences_kept import Silences

SILENT_AGAIN_S = 60.0
"""A name that was not answered for is asked for again after this; twice as long each time."""
LONGEST_PAUSE_S = 3600.0
"""A name that answers again has kept files waiting for so much longer than it was silent, at most."""
ALIVE_S = 3600.0
"""A catalog by which a table was found within this time, before a name was asked for, answers."""
AWAY_S = LONGEST_PAUSE_S + ALIVE_S
"""One by which none was found for so long has not answered since: silent names are asked for each hour, with another."""


class Answer(Enum):
    """How a look has not shown which table a name is."""

    REFUSED = auto()
    """What was answered says nothing, and may never say more to us."""
    SILENT = auto()
    """There was no answer."""
    UNSETTLED = auto()
    """It is one of our tables, and nobody can say whether it is a second entry."""


@dataclass(frozen=True, slots=True)
class _Silence:
    """A name of which it is not known which table it is."""

    answer: Answer
    since_s: float
    """When it gave an answer of this kind first, and no other since."""
    silent_since_s: float | None
    """When it gave no answer for the first time. None where it always gave one."""
    again_s: float
    pause_s: float
    why: str


@dataclass(slots=True)
class UnansweredNames:
    """What is known of the names without an answer."""

    monotonic_s: Callable[[], float]
    refused_s: float
    """After so long a name that refuses counts as looked at."""
    silences: Silences
    """What the ledger keeps of those that gave no answer, and their patience."""
    unsettled: Silences
    """The same of those that may be second entries."""
    _names: dict[str, _Silence] = field(default_factory=dict)
    _found_s: float = float("-inf")
    """When a look found anything."""
    _away_from_s: float = field(init=False)
    """From then on no silence counts, because it is the catalog's, until a look finds anything again."""

    def __post_init__(self) -> None:
        self._away_from_s = self.monotonic_s() + AWAY_S

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def why(self, name: str) -> str:
        """Why nobody knows which table a name is."""
        return self._names[name].why

    def first(self, looked_at: Collection[str]) -> str | None:
        """A name for which files wait. Returns None where each one counts as looked at."""
        return next((name for name in self._names if name not in looked_at), None)

    def due(self, looked_at: Collection[str]) -> list[str]:
        """The names for which files wait and which may be asked for now; first the one that has waited longest."""
        now_s = self.monotonic_s()
        names = [name for name in self._names if name not in looked_at and now_s >= self._names[name].again_s]
        return sorted(names, key=lambda name: self._names[name].again_s)

    def found(self) -> None:
        """Some table was found: the catalog answers. For as long as it was away, it was no name that was silent."""
        now_s, away_from_s = self.monotonic_s(), self._away_from_s
        self._found_s, self._away_from_s = now_s, now_s + AWAY_S
        if now_s <= away_from_s:
            return

        def without(since_s: float) -> float:
            return since_s + now_s - max(away_from_s, since_s)

        for name, one in self._names.items():
            silent_s = None if one.silent_since_s is None else without(one.silent_since_s)
            self._names[name] = replace(one, since_s=without(one.since_s), silent_since_s=silent_s)

    def answered(self, name: str) -> None:
        """It is known which table a name is."""
        self._names.pop(name, None)

    def save(self, unknown: Collection[str], others: Collection[str]) -> None:
        """Keep in the ledger since when some names gave no answer that helps; the others gave one."""
        known = {name: self._names[name] for name in unknown}
        unsettled = {name: one for name, one in known.items() if one.answer is Answer.UNSETTLED}
        self.silences.end(others)
        self.unsettled.end({*others, *known} - unsettled.keys())
        self._keep(self.silences, {name: (one, one.silent_since_s) for name, one in known.items()})
        self._keep(self.unsettled, {name: (one, one.since_s) for name, one in unsettled.items()})

    def _keep(self, silences: Silences, names: Mapping[str, tuple[_Silence, float | None]]) -> None:
        until_s = min(self.monotonic_s(), self._away_from_s)
        silences.keep(
            {
                name: (max(until_s - since_s, 0.0), one.pause_s)
                for name, (one, since_s) in names.items()
                if since_s is not None
            }
        )

    def keep(self, names: Collection[str], is_hidden: Callable[[str], bool]) -> None:
        """Forget all but these. Those that a list hid go on with their silence when it shows them again soon."""
        self._names = {name: silence for name, silence in self._names.items() if name in names}
        self.silences.end_but(names, is_hidden)
        self.unsettled.end_but(names, is_hidden)

    def note(self, name: str, why: str, answer: Answer, asked_s: float) -> bool:
        """Note that a look did not show which table a name is. Returns whether the patience for it is over.

        One that is silent and refused by turns has the patience of a silence, since it was silent first.

        Args:
            name: the name.
            why: what was answered, for people.
            answer: of which kind that is.
            asked_s: when it was asked for, or earlier. The first answer came when it is noted, which may be much later.
        """
        now_s, before = self.monotonic_s(), self._names.get(name)
        silent_since_s, pause_s = None, SILENT_AGAIN_S
        if before is not None:
            silent_since_s, pause_s = before.silent_since_s, min(2 * before.pause_s, LONGEST_PAUSE_S)
        if silent_since_s is None and answer is Answer.SILENT:
            silent_since_s = now_s - self.silences.before_s(name)
        if before is not None and before.answer is answer:
            since_s = before.since_s
        else:
            since_s = now_s - (self.unsettled.before_s(name) if answer is Answer.UNSETTLED else 0.0)
        until_s = since_s + self._patience_s(answer)
        if silent_since_s is not None:
            until_s = min(until_s, silent_since_s + self.silences.patience_s)
        # Where nothing at all was found lately, it is the catalog, and not this name. The look itself may take hours.
        is_over = asked_s >= until_s and asked_s - self._found_s <= ALIVE_S
        if is_over:
            # Whatever makes it count as not looked at has it asked for at once.
            again_s = now_s
        else:
            again_s = min(now_s + pause_s, until_s if now_s < until_s else now_s + SILENT_AGAIN_S)
        self._names[name] = _Silence(answer, since_s, silent_since_s, again_s, pause_s, why)
        return is_over

    def _patience_s(self, answer: Answer) -> float:
        match answer:
            case Answer.REFUSED:
                return self.refused_s
            case Answer.SILENT:
                return self.silences.patience_s
            case Answer.UNSETTLED:
                return self.unsettled.patience_s
