"""Stretches of Kafka partitions that no client can unpack. Reading ends before one and goes on behind it.

Whatever needs a message of one lacks changes: a hole, as where retention has passed.
"""

from collections.abc import Mapping

from isotherm_ingest.plan.topic_partition import Position

Stretches = Mapping[Position, Mapping[int, int]]
"""By Kafka partition, the first offset of each stretch and the one after its last."""


def goes_on(stretches: Stretches, position: Position, offset: int) -> int:
    """The offset to read from: the same, or the end of the stretch that it lies in."""
    for first, beyond in sorted(stretches.get(position, {}).items()):
        if first <= offset < beyond:
            offset = beyond
    return offset


def ends_before(stretches: Stretches, position: Position, offset: int, end: int) -> int:
    """Where reading that begins at an offset ends: before the next stretch, or at `end`."""
    return min([end, *(first for first in stretches.get(position, {}) if first > offset)])


def readable(
    spans: Mapping[Position, tuple[int, int]], stretches: Stretches
) -> dict[Position, tuple[int, int]]:
    """Of what is to be read, what comes before the first stretch of each partition."""
    return {
        position: (first, ends_before(stretches, position, first, end))
        for position, (first, end) in spans.items()
    }
