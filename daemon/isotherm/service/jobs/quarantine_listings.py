"""Quarantines of tables whose folders no search may look into: each is listed by itself, once a day.

With `gc.enabled=false` nothing of a table is deleted, so nothing is looked for. But files may lie in its quarantine that the
table has come to need, and a ledger that was lost, or is another daemon's, does not know them. What a listing shows is
known again, and all of it is proved: what the table needs is put back. A search that is refused lists by itself.
"""

from dataclasses import dataclass, field

from isotherm.core.deletion import Cause
from isotherm.core.units import DAY_MS
from isotherm.service.jobs.folder_searches import Searches

EVERY_S = DAY_MS / 1000
AGAIN_AFTER_S = 3600.0
"""A table whose listing could not begin has its turn again then."""
LOOKED_AT = 50
"""Tables in a turn: for each its row and its policy are asked for."""
ASKED_EVERY_S = 60.0
"""So often it is asked which tables there are: of thousands the fold gives those few in some milliseconds."""


@dataclass(slots=True)
class Listings:
    """When each quarantine is listed."""

    searches: Searches
    """What lists them, and knows all that there is to be asked."""
    _next_s: dict[str, float] = field(default_factory=dict)
    """By uuid of a table: not before this. A process after this one begins again from scratch."""
    _asked_again_s: float = float("-inf")

    def turn(self) -> None:
        """Begin with the next one that is due. A search and a listing are never under way together."""
        now_s, barrier = self.searches.monotonic_s(), self.searches.barrier
        may_begin = self.searches.deletions.may_sweep and self.searches.has_room
        if now_s < self._asked_again_s or not may_begin:
            return
        uuids = self.searches.fold.with_property("gc.enabled")
        self._next_s = {uuid: at_s for uuid, at_s in self._next_s.items() if uuid in uuids}
        waiting = [one for one in uuids if self._next_s.get(one, float("-inf")) <= now_s]
        uuid = None
        for one in waiting[:LOOKED_AT]:
            if self._may_be_listed(one):
                uuid = one
                break
            self._next_s[one] = now_s + AGAIN_AFTER_S
        if uuid is None:
            if len(waiting) <= LOOKED_AT:
                self._asked_again_s = now_s + ASKED_EVERY_S
            return
        self._next_s[uuid] = now_s + AGAIN_AFTER_S
        key = f"{uuid}/quarantine"
        with barrier.around(self.searches.fold.names()[uuid], "listing its quarantine", key):
            if self.searches.list_quarantine(uuid):
                self._next_s[uuid] = now_s + EVERY_S
            barrier.forget(key)

    def _may_be_listed(self, uuid: str) -> bool:
        deletions = self.searches.deletions
        return (
            self.searches.events.owns(uuid)
            and not deletions.is_searched(uuid)
            and deletions.why_not(uuid, Cause.QUARANTINED) is None
        )
