"""Names under which one of our tables was seen, its own and others, kept over a restart.

When such a name gives no answer later, somebody must know of which table it may be an entry. The name under which the fold knows
a table is one of them: a fold that was lost may meet the table under another name first.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from isotherm.service.ports import Looked
from isotherm.store.ledger import Ledger

TWICE_S = 300.0
"""What says that a name is not there counts once another one says it so long after: replicas lag, and catalogs are restarted."""


@dataclass(slots=True)
class SeenNames:
    """Until a look shows another table, or none."""

    ledger: Ledger
    _uuids: dict[str, str] = field(init=False)
    _names: dict[str, dict[str, None]] = field(default_factory=dict)
    """By uuid, in the order in which they were seen: each confirmation asks for those of its table."""
    _away_s: dict[str, float] = field(default_factory=dict)
    """By name: when the first list was asked for that did not have it, and none has had it since."""
    missing_s: dict[tuple[str, str], float] = field(default_factory=dict)
    """By name and uuid: when the catalog had no table under a name that no list shows (`HiddenNames`)."""

    def __post_init__(self) -> None:
        self._uuids = self.ledger.seen_names()
        for name, uuid in self._uuids.items():
            self._names.setdefault(uuid, {})[name] = None

    def of(self, uuid: str) -> list[str]:
        """The names that were this table."""
        return list(self._names.get(uuid, ()))

    def keep(self, uuids: Mapping[str, str]) -> None:
        """These were seen to be tables of ours."""
        new = {name: uuid for name, uuid in uuids.items() if self._uuids.get(name) != uuid}
        self.ledger.keep_seen_names(new)
        self._let_go(self._uuids.keys() & new)
        for name, uuid in new.items():
            self._uuids[name] = uuid
            self._names.setdefault(uuid, {})[name] = None

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
        self.ledger.end_seen_names(over)
        self._let_go(over)

    def _let_go(self, names: Collection[str]) -> None:
        for name in names:
            uuid = self._uuids.pop(name)
            self._away_s.pop(name, None)
            del self._names[uuid][name]
            if not self._names[uuid]:
                del self._names[uuid]

    def end_but(self, names: Collection[str], is_hidden: Callable[[str], bool], asked_s: float) -> None:
        """A list has these names, and was asked for then. Those that it does not have are over once another one says so.

        That one was asked for minutes later, and none between had them: a catalog that is restarted, or a replica that lags,
        leaves out what is there. Nor does a list without any name say something, or one that hides a name.
        """
        self.missing_s = {key: at_s for key, at_s in self.missing_s.items() if key[0] not in names}
        away = {name for name in self._uuids.keys() - names if not is_hidden(name)} if names else set()
        self._away_s = {name: self._away_s.get(name, asked_s) for name in away}
        self._end([name for name, since_s in self._away_s.items() if asked_s - since_s >= TWICE_S])
