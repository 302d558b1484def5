"""Names that gave the same table, since when: which of them the catalog lists is not known yet.

Most are looked at again until it is. Those that only an event or a list has spoken of may never be.
"""

from dataclasses import dataclass

from isotherm.contract.paths import folder
from isotherm.core.model.refusals import Reason, Refusal

MOST = 1000
"""Of more pairs the oldest is forgotten: if it comes again, the catalog's next list is waited for once more."""


class TwoNames:
    """Pairs of names of which one list must say which it has."""

    def __init__(self) -> None:
        self._since_s: dict[tuple[str, str], float] = {}

    def __len__(self) -> int:
        return len(self._since_s)

    def since_s(self, name: str, known: str, now_s: float) -> float:
        """Since when both give the same table: from now on, where that is new."""
        since_s = self._since_s.setdefault((name, known), now_s)
        if len(self._since_s) > MOST:
            del self._since_s[next(iter(self._since_s))]
        return since_s

    def over(self, name: str, known: str) -> None:
        """It is known now."""
        self._since_s.pop((name, known), None)

    def own(self, name: str) -> None:
        """It gives a table of its own: what it gave before was an answer about another, and the next such is a new one."""
        self._since_s = {names: since_s for names, since_s in self._since_s.items() if names[0] != name}

    def gone(self, name: str) -> None:
        """There is no table under this name any more."""
        self._since_s = {names: since_s for names, since_s in self._since_s.items() if name not in names}


@dataclass(frozen=True, slots=True)
class Entry:
    """A name under which the catalog has a table, and where that one lies."""

    name: str
    location: str


def second_entry(second: Entry, known: Entry) -> Refusal:
    """Why a table is halted of which the catalog lists both names."""
    if folder(second.location) == folder(known.location):
        why = (
            f"the catalog has it twice, as {known.name} and as {second.name}: they share their files. Drop one entry "
            "without purging, then `isotherm resume`"
        )
        return Refusal(Reason.TWO_ENTRIES, why)
    # What is to be done comes first: locations may be long, and a why is cut.
    why = (
        f"the catalog has two tables of this uuid, {known.name} and {second.name}. They lie in different folders, so one was "
        "made of a copy of the other's metadata.json, and may read its files. Nothing is rewritten, expired or deleted in "
        "either. Drop one without purging. Or, where the copy has all its files in its own folder, register it again with "
        f"a `table-uuid` of its own. Then `isotherm resume`. They lie in {known.location} and in {second.location}"
    )
    return Refusal(Reason.TWO_ENTRIES, why)
