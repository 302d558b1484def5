"""How long a partition's writers will leave it alone, as they did before: a job that would not end in time is not begun.

The quiet rule waits until a pause has lasted; this asks how long such a pause goes on. A bucket that is written every
twenty minutes is quiet for fifteen of them again and again, and a job of ten minutes never ends.
"""

from isotherm.core.model.jobs import JOB_BYTES_PER_S, JOB_OVERHEAD_MS
from isotherm.core.state import PartitionState

ENOUGH_PAUSES = 3
"""So many pauses that were longer than the present one must be known, before they say anything."""


def are_longer(partition: PartitionState, span_ms: int) -> bool:
    """Whether all pauses of a partition's writers that are known were longer than a span, and enough of them are."""
    return len(partition.pauses_ms) >= ENOUGH_PAUSES and min(partition.pauses_ms) > span_ms


def left_ms(partition: PartitionState, now_ms: int) -> int | None:
    """How long its writers will stay away from now on, in half of the pauses that lasted for as long as this one.

    Returns None where too little is known.
    """
    longer = _longer(partition, now_ms)
    if partition.last_write_at_ms is None or len(longer) < ENOUGH_PAUSES:
        return None
    return longer[(len(longer) - 1) // 2] - (now_ms - partition.last_write_at_ms)


def next_ms(partition: PartitionState, quiet_ms: int) -> int | None:
    """How long its writers will stay away in their next pause, once it has lasted for so long, in half of them.

    Returns None where too little is known.
    """
    longer = sorted(pause_ms for pause_ms in partition.pauses_ms if pause_ms > quiet_ms)
    return None if len(longer) < ENOUGH_PAUSES else longer[(len(longer) - 1) // 2] - quiet_ms


def next_end_ms(partition: PartitionState, now_ms: int) -> int | None:
    """When the pause will have lasted longer than one more of those that are known, or None where none was longer."""
    longer = _longer(partition, now_ms)
    return (
        None if not longer or partition.last_write_at_ms is None else partition.last_write_at_ms + longer[0]
    )


def most_bytes(span_ms: int) -> int:
    """What a job can read in a span, so that it ends in it."""
    return max(span_ms - JOB_OVERHEAD_MS, 0) * JOB_BYTES_PER_S // 1000


def _longer(partition: PartitionState, now_ms: int) -> list[int]:
    """The pauses that lasted longer than the present one so far, the shortest first."""
    if partition.last_write_at_ms is None:
        return []
    passed_ms = now_ms - partition.last_write_at_ms
    return sorted(pause_ms for pause_ms in partition.pauses_ms if pause_ms > passed_ms)
