"""Snapshots whose events came before the catalog could be asked about them: the daemon announces none of them again.

Such an event is believed no more than any other. It counts once the catalog has its snapshot, as does an event of a
snapshot that was found in the catalog first. A restart forgets them: then an event is doubled, which is harmless.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

MOST_EARLY = 50_000
"""Snapshots that are remembered, some 12 MB; the oldest are forgotten first, because events may name any number."""


@dataclass(slots=True)
class HeardEarly:
    """The snapshots of which an event was heard, and which are not in the accounts yet."""

    _heard: dict[tuple[str, int], None] = field(default_factory=dict)
    """By uuid of the table and id, in the order in which they came."""

    def note(self, uuid: str, snapshot_id: int) -> None:
        """An event of a snapshot came that could not be taken in."""
        self._heard[uuid, snapshot_id] = None
        if len(self._heard) > MOST_EARLY:
            del self._heard[next(iter(self._heard))]

    def take(self, uuid: str, snapshot_ids: Iterable[int]) -> list[int]:
        """Those of some snapshots of a table of which an event came; they are forgotten here."""
        heard = [snapshot_id for snapshot_id in snapshot_ids if (uuid, snapshot_id) in self._heard]
        for snapshot_id in heard:
            del self._heard[uuid, snapshot_id]
        return heard
