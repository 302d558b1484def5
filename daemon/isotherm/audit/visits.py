"""Whether those who write into a partition come in visits, with long pauses between them: by the history alone."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

from isotherm.audit.evidence import Commit
from isotherm.contract.identity import PartitionKey

ENOUGH_LONG = 3
"""So many long pauses in a row, but for those within visits, show that writers come in visits."""
LONG_PART = 12
"""A pause is long that lasts longer than this part of `silent_for`."""
ONE_COMMIT_MS = 5 * 60_000
"""After a visit of a single commit it takes a silence of so long, at least, to say that it is over."""
LONGEST_VISIT = 2
"""So many times as long as the pause before it is the longest visit."""


def visit_is_over(
    key: PartitionKey, before: Sequence[Commit], silent_ms: float, silent_for_ms: int
) -> bool | None:
    """Whether writers come to a partition in visits, and the last one was over.

    A visit is over after a silence as long as the longest pause within the latest visits. The daemon waits for half as long
    again, at least, and looks further back.

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
    # Commits that two writers made at once may be stamped a little out of order.
    times = list(accumulate(reversed(times), max))[::-1]
    within, long, ended_ms = ONE_COMMIT_MS, 0, times[0] if times else 0
    for later, earlier in pairwise(times):
        pause_ms = later - earlier
        if pause_ms <= silent_for_ms // LONG_PART:
            within = max(within, pause_ms)
            continue
        if ended_ms - later > LONGEST_VISIT * pause_ms:
            return False
        long, ended_ms = long + 1, earlier
        if long == ENOUGH_LONG:
            break
    if silent_ms < within:
        return False
    if long == ENOUGH_LONG:
        return True
    return False if is_whole else None
