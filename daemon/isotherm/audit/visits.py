"""Whether those who write into a partition come in visits, with long pauses between them: by the history alone."""

from collections.abc import Sequence
from itertools import pairwise

from isotherm.audit.evidence import Commit
from isotherm.contract.identity import PartitionKey

ONE_COMMIT_MS = 5 * 60_000
"""Commits that follow each other within this time count as one."""
ENOUGH_LONG = 3
"""So many long pauses, of the last `LOOKED_AT`, show that writers come in visits."""
LOOKED_AT = 8
LONG_PART = 6
"""A pause is long that lasts longer than this part of `silent_for`."""


def visit_is_over(
    key: PartitionKey, before: Sequence[Commit], silent_ms: float, silent_for_ms: int
) -> bool | None:
    """Whether writers come to a partition in visits, and the last one was over.

    A visit is over after a silence as long as the longest pause within visits. The daemon waits for twice as long. But it
    measures from when it heard of a commit, which may be later.

    Args:
        key: the partition.
        before: the commits before the one that is judged, the newest first.
        silent_ms: for how long nobody had written to it.
        silent_for_ms: `cold.silent_for`.

    Returns: None where the history does not reach back so far, and says nothing else.
    """
    times, is_whole = [], not before or before[-1].parent_id is None
    for one in before:
        if one.is_write and one.touches is None:
            is_whole = False
            break
        if one.is_write and any(touch.partition == key for touch in one.touches or ()):
            times.append(one.committed_at_ms)
    pauses = [later - earlier for later, earlier in pairwise(times) if later - earlier >= ONE_COMMIT_MS]
    last = pauses[:LOOKED_AT]
    within = [pause_ms for pause_ms in last if pause_ms <= silent_for_ms // LONG_PART]
    if silent_ms < max([ONE_COMMIT_MS, *within]):
        return False
    if len(last) - len(within) >= ENOUGH_LONG:
        return True
    return False if is_whole or len(last) == LOOKED_AT else None
