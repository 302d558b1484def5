"""Names under which one of our tables was seen, its own and others, kept over a restart.

When such a name gives no answer later, somebody must know of which table it may be an entry. The name under which the fold knows
a table is one of them: a fold that was lost may meet the table under another name first.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from isotherm.service.ports import Looked
from isotherm.store.ledger import Ledger


@dataclass(slots=True)
class SeenNames:
    """Until a look shows another table, or none."""

    ledger: Ledger
    _uuids: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self._uuids = self.ledger.seen_names()

    def of(self, uuid: str) -> list[str]:
        """The names that were this table."""
        return [name for name, theirs in self._uuids.items() if theirs == uuid]

    def keep(self, uuids: Mapping[str, str]) -> None:
        """These were seen to be tables of ours."""
        new = {name: uuid for name, uuid in uuids.items() if self._uuids.get(name) != uuid}
        self._uuids |= new
        self.ledger.keep_seen_names(new)

    def end_others(self, looked: Looked) -> None:
        """A look has found names: those that are another table by now are over."""
        found = {name: lies.uuid for name, lies in looked.found.items()}
        self._end([name for name, uuid in found.items() if self._uuids.get(name) != uuid])

    def end_of(self, uuid: str, names: Collection[str]) -> None:
        """A table has these names no more. What they are now may be known already."""
        self._end([name for name in names if self._uuids.get(name) == uuid])

    def _end(self, names: Collection[str]) -> None:
        """These are something else, or not there any more."""
        over = self._uuids.keys() & names
        for name in over:
            del self._uuids[name]
        self.ledger.end_seen_names(over)

    def end_but(self, names: Collection[str], is_hidden: Callable[[str], bool]) -> None:
        """Only these may still be entries, and those of which the list did not say whether they are there."""
        self._end([name for name in self._uuids.keys() - names if not is_hidden(name)])
