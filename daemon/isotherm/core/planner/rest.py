"""How long a partition rests from its last job: who is written on and on is not rewritten on and on."""

from isotherm.contract.identity import PartitionKey
from isotherm.core.partition_state import PartitionState
from isotherm.core.partitions import time_span
from isotherm.core.planner.view import Surroundings
from isotherm.core.policy.policy import Policy
from isotherm.core.units import clock_text

REST_SCORE = 20.0
"""From this score on a partition is due even while it rests from its last job."""


def rest_text(until_ms: int, score: float) -> str:
    """How long a partition rests, in words."""
    return f"rests from its last job until {clock_text(until_ms)}, unless its score reaches {REST_SCORE:g} (it is {score:.2f})"


def rests_until(
    key: PartitionKey,
    partition: PartitionState,
    around: Surroundings,
    policy: Policy,
    now_ms: int,
    *,
    is_hot: bool,
) -> int | None:
    """Until when a partition rests from its last job, or None where it does not.

    Once it is cold and its time is over, a job from before that, beside its writers, does not count.
    """
    since_ms, written_ms = partition.compacted_at_ms, partition.last_write_at_ms
    # What nobody wrote to since then is still to be done: of a large partition a job does a part.
    if since_ms is None or written_ms is None or written_ms <= since_ms:
        return None
    span = time_span(key, around.fields)
    is_over = span is not None and _end_ahead(key, around) is None
    if not is_hot and is_over and span is not None and since_ms < span.end_ms:
        return None
    # A time that is ahead was told by another clock.
    return since_ms + policy.compact.rest if 0 <= now_ms - since_ms < policy.compact.rest else None


def _end_ahead(key: PartitionKey, around: Surroundings) -> int | None:
    """The end of a partition's time where the stream has not passed it. None where it has, or where it carries none."""
    span, boundary_ms = time_span(key, around.fields), around.state.boundary_ms
    if span is None or (boundary_ms is not None and boundary_ms >= span.end_ms):
        return None
    return span.end_ms


def ends(key: PartitionKey, partition: PartitionState, around: Surroundings) -> int | None:
    """The end of a partition's time, from which on its last job does not count. None where there was none, or it is over."""
    return None if partition.compacted_at_ms is None else _end_ahead(key, around)
