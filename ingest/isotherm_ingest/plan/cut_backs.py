"""Cuts: where Kafka lost the newest messages of a partition, and gives their offsets to others.

So it is after an unclean election of a leader, a lost disk, or a restored cluster. Below a cut each offset is of the
message that it was of; from there on it is of another one. An offset that is written down, in a vector or a mark, says
of which cut it knows, by when that was seen. Of what knows of no later cut, only what lies below that cut counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from isotherm_ingest.plan.topic_partition import Position

MOST = 10
"""Of one partition. Who has not looked at a table for so many cuts finds those of before together with the oldest of them."""


@dataclass(frozen=True, slots=True)
class Cut:
    """One of them."""

    seen_ms: int
    """When it was seen. Of one partition, a later cut has a later time."""
    end: int
    """Where the partition ended when it was seen. What came between the loss and that moment cannot be told from it."""
    front: int
    """Up to where it had been read by then."""


Cuts = Mapping[Position, Sequence[Cut]]
"""Of each Kafka partition that has any, the oldest first."""

Since = Mapping[Position, int]
"""By Kafka partition, when the newest cut was seen that an offset knows of."""


def unknown_to(since: Since, position: Position, cuts: Cuts) -> Sequence[Cut]:
    """The cuts of a partition of which an offset does not know."""
    return [cut for cut in cuts.get(position, ()) if cut.seen_ms > since.get(position, 0)]


def newest_of(one: Since, other: Since) -> dict[Position, int]:
    """Of each partition, the later of two times. Either may be behind: a table may know of a cut that no mark tells of."""
    return {position: max(one.get(position, 0), other.get(position, 0)) for position in {**one, **other}}


def left_of(offset: int, cuts: Sequence[Cut]) -> int:
    """The offset, or where the lowest of the cuts is that are below it."""
    return min([offset, *(cut.end for cut in cuts)])


def unread(through: int, cuts: Sequence[Cut]) -> Cut | None:
    """The first cut that took messages from whom had seen a partition through to this offset only; None where none did."""
    for cut in cuts:
        if through < cut.front:
            return cut
        through = min(through, cut.end)
    return None


def with_cut(cuts: Sequence[Cut], new: Cut) -> tuple[Cut, ...]:
    """One cut more. Those behind it are of no use any more: who does not know of them goes back to the new one."""
    return (*(cut for cut in cuts if cut.end < new.end), new)[-MOST:]
