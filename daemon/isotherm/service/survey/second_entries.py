"""Which of the tables that a look has found are ours under another name: each is asked about in the loop, some in a turn."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from isotherm.contract.identity import TableId
from isotherm.core.model.refusals import Reason
from isotherm.service.ports import Looked
from isotherm.service.tables.failing_tables import Barrier
from isotherm.store.ledger import Ledger

A_TURN_FOR_S = 5.0
"""Of the loop: each question may wait for a table, and a namespace of hundreds may be registered at once."""
REST = 4
"""So many times as long as that took, no further question is asked: of a table that hangs each takes half a minute."""


@dataclass(slots=True)
class SecondEntries:
    """Those of one piece of a look."""

    ledger: Ledger
    barrier: Barrier
    tell_apart: Callable[[TableId], bool]
    """Halts one of our tables if this is a second entry of it. Returns whether it is another table."""
    known: Callable[[], Mapping[str, str]]
    """The names under which we know tables, by uuid."""
    monotonic_s: Callable[[], float]
    unsettled: dict[str, str] = field(default_factory=dict)
    """The names of which nobody can say whether they are second entries, and why."""
    _names: deque[tuple[str, str]] = field(default_factory=deque)
    """Those still to be asked about, with their uuids."""
    _again_s: float = float("-inf")
    """When further questions may be asked."""

    def begin(self, looked: Looked) -> None:
        """Take what a piece of a look has found."""
        self.unsettled = {}
        self._names = deque(self.others(looked).items())

    def others(self, looked: Looked) -> dict[str, str]:
        """The names under which a look has found tables that we know under another one, and their uuids."""
        known = self.known()
        return {name: lies.uuid for name, lies in looked.found.items() if known.get(lies.uuid, name) != name}

    def names_of_ours(self, looked: Looked) -> dict[str, str]:
        """The names under which a look has found tables that we know, and their uuids."""
        known = self.known()
        return {name: lies.uuid for name, lies in looked.found.items() if lies.uuid in known}

    def first_names(self, looked: Looked) -> set[str]:
        """The names under which a look has found tables that we know under the same."""
        known = self.known()
        return {name for name, lies in looked.found.items() if known.get(lies.uuid) == name}

    def go_on(self) -> bool:
        """Halt each table of ours that has a second name, for some seconds. Returns whether that was all."""
        began_s = self.monotonic_s()
        if not self._names or began_s < self._again_s:
            return not self._names
        known = self.known()
        while self._names and self.monotonic_s() < began_s + A_TURN_FOR_S:
            name, uuid = self._names.popleft()
            is_silent = self.barrier.is_aside(known.get(uuid, name))
            if is_silent or not self._is_settled(name, uuid):
                self.unsettled[name] = f"whether it is a second entry of {known.get(uuid, uuid)} is not known"
        now_s = self.monotonic_s()
        self._again_s = now_s + REST * (now_s - began_s)
        return not self._names

    def _is_settled(self, name: str, uuid: str) -> bool:
        """Halt a table of ours that the catalog has under a second name too; whether it is known by now if it has."""
        halt = self.ledger.halted(uuid)
        if halt is not None and halt.startswith(Reason.TWO_ENTRIES):
            return True
        key = f"{name}/twice"
        if not self.barrier.is_aside(key):
            with self.barrier.around(name, "looking whether the catalog has a table twice", key):
                is_another = self.tell_apart(TableId(uuid, name))
                self.barrier.forget(key)
                # A table that is halted for something else is not halted for this; it waits for the other's end.
                return is_another or halt is None
        return False
