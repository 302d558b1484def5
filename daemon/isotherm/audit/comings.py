"""How often those who write into a partition come back, by the history alone."""

from collections.abc import Sequence
from itertools import pairwise

from isotherm.audit.evidence import Commit
from isotherm.contract.identity import PartitionKey

ONE_VISIT_MS = 5 * 60_000
"""Commits that follow each other within this time are one visit."""
ENOUGH_VISITS = 3
"""So many pauses between visits show that writers come rarely."""


def comes_rarely(key: PartitionKey, before: Sequence[Commit], silent_for_ms: int) -> bool | None:
    """Whether its writers stayed away for longer than half of a span, the last three times.

    Args:
        key: the partition.
        before: the commits before the one that is judged, the newest first.
        silent_for_ms: the span.

    Returns: None where the history does not reach back so far, and says nothing else.
    """
    times, is_whole = [], not before or before[-1].parent_id is None
    for one in before:
        if one.is_write and one.touches is None:
            is_whole = False
            break
        if one.is_write and any(touch.partition == key for touch in one.touches or ()):
            times.append(one.committed_at_ms)
    pauses = [later - earlier for later, earlier in pairwise(times) if later - earlier >= ONE_VISIT_MS]
    last = pauses[:ENOUGH_VISITS]
    if any(pause_ms <= silent_for_ms // 2 for pause_ms in last):
        return False
    if len(last) == ENOUGH_VISITS:
        return True
    return False if is_whole else None
