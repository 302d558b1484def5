"""Names under which one of our tables was seen once more, kept over a restart.

When such a name gives no answer later, somebody must know of which table it may be an entry.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from isotherm.service.ports import Looked
from isotherm.store.ledger import Ledger


@dataclass(slots=True)
class SecondNames:
    """Until a look shows another table, or none."""

    ledger: Ledger
    _uuids: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self._uuids = self.ledger.second_names()

    def of(self, uuid: str) -> list[str]:
        """The names that were this table."""
        return [name for name, theirs in self._uuids.items() if theirs == uuid]

    def keep(self, uuids: Mapping[str, str]) -> None:
        """These were seen to be tables of ours."""
        self._uuids |= uuids
        self.ledger.keep_second_names(uuids)

    def end_of(self, looked: Looked, first: Collection[str]) -> None:
        """A look has found names: `first` are not second, nor is what is another table by now.

        Of a table that we do not know at present (its first scan is still to come) nobody can say which is the first.
        """
        found = {name: lies.uuid for name, lies in looked.found.items()}
        self.end([name for name, uuid in found.items() if name in first or self._uuids.get(name) != uuid])

    def end(self, names: Collection[str]) -> None:
        """These are something else, or not there any more."""
        over = self._uuids.keys() & names
        for name in over:
            del self._uuids[name]
        self.ledger.end_second_names(over)

    def end_but(self, names: Collection[str], is_hidden: Callable[[str], bool]) -> None:
        """Only these may still be second entries, and those of which the list did not say whether they are there."""
        self.end([name for name in self._uuids.keys() - names if not is_hidden(name)])
