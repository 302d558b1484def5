"""Estimates how long a partition's writers will leave it alone, so that no job begins that would not end in time.

The quiet rule waits until a pause has lasted. This module asks how much longer it lasts, from the earlier pauses. A
bucket that is written every twenty minutes is quiet for fifteen of them again and again: a job of ten minutes would
never end there.
"""

from isotherm.core.model.job_limits import JOB_BYTES_PER_S, JOB_OVERHEAD_MS
from isotherm.core.partition_state import PartitionState

ENOUGH_PAUSES = 3
"""At least so many earlier pauses must have been longer than the present one. Fewer say nothing."""


def are_longer(partition: PartitionState, span_ms: int) -> bool:
    """Whether enough pauses of a partition's writers are known, and all of them were longer than a span."""
    return len(partition.pauses_ms) >= ENOUGH_PAUSES and min(partition.pauses_ms) > span_ms


def left_ms(partition: PartitionState, now_ms: int) -> int | None:
    """How long its writers will stay away from now on, by the median of the earlier pauses longer than this one.

    Returns None where too little is known.
    """
    longer = _longer(partition, now_ms)
    if partition.last_write_at_ms is None or len(longer) < ENOUGH_PAUSES:
        return None
    return longer[(len(longer) - 1) // 2] - (now_ms - partition.last_write_at_ms)


def are_sure(partition: PartitionState, span_ms: int, now_ms: int) -> bool:
    """Whether its writers stay away for a span from now on, by the shortest of the earlier pauses longer than this one."""
    longer = _longer(partition, now_ms)
    if partition.last_write_at_ms is None or len(longer) < ENOUGH_PAUSES:
        return False
    return longer[0] - (now_ms - partition.last_write_at_ms) >= span_ms


def next_ms(partition: PartitionState, quiet_ms: int) -> int | None:
    """How long their next pause goes on once it has lasted for `quiet_ms`, by the median of the longer ones.

    Returns None where too little is known.
    """
    longer = sorted(pause_ms for pause_ms in partition.pauses_ms if pause_ms > quiet_ms)
    return None if len(longer) < ENOUGH_PAUSES else longer[(len(longer) - 1) // 2] - quiet_ms


def next_end_ms(partition: PartitionState, now_ms: int) -> int | None:
    """When the present pause overtakes the next longer one that is known. Returns None where none was longer."""
    longer = _longer(partition, now_ms)
    return (
        None if not longer or partition.last_write_at_ms is None else partition.last_write_at_ms + longer[0]
    )


def most_bytes(span_ms: int) -> int:
    """The most that a job can read and still end within a span."""
    return max(span_ms - JOB_OVERHEAD_MS, 0) * JOB_BYTES_PER_S // 1000


def _longer(partition: PartitionState, now_ms: int) -> list[int]:
    """The earlier pauses that lasted longer than the present one has so far, the shortest first."""
    if partition.last_write_at_ms is None:
        return []
    passed_ms = now_ms - partition.last_write_at_ms
    return sorted(pause_ms for pause_ms in partition.pauses_ms if pause_ms > passed_ms)
