"""Partitions that somebody has emptied, and may fill again at once: a load that deletes first, and inserts then.

Between its two snapshots such a partition is not there. That we had compacted it is remembered here, so that it rests
as one that is overwritten in a single snapshot does.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import islice

from isotherm.contract.identity import PartitionKey
from isotherm.core.units import DAY_MS
from isotherm.core.visits import NO_VISITS, Visits

MOST = 100
"""Of a table, the latest: its state is written with each commit."""
KEPT_MS = 2 * DAY_MS
"""After this no rest is left to keep."""


@dataclass(frozen=True, slots=True)
class Emptied:
    """What was known of a partition that we had compacted."""

    at_ms: int
    """When it was emptied."""
    compacted_at_ms: int
    """From when on it rested; no later than its last write before it was emptied."""
    last_write_at_ms: int | None
    pauses_ms: tuple[int, ...]
    visits: Visits = NO_VISITS


def emptied_after(
    before: Mapping[PartitionKey, Emptied],
    gone: Mapping[PartitionKey, Emptied],
    touched: Collection[PartitionKey],
    at_ms: int,
) -> Mapping[PartitionKey, Emptied]:
    """Those that are remembered after a change, the latest last.

    Args:
        before: those that were.
        gone: those that it has emptied.
        touched: all that it has touched: whatever is filled again is there.
        at_ms: when it came.
    """
    if not before and not gone:
        return before
    left = {key: one for key, one in before.items() if key not in touched and one.at_ms > at_ms - KEPT_MS}
    left.update(gone)
    return dict(islice(left.items(), max(len(left) - MOST, 0), None))
