"""How much of each topic a batch takes: a fair share, so that a great backlog delays nobody; and how tasks divide it.

Max-min fairness: whoever wants less than an equal share gets all that it wants, and what it leaves is shared by the
others. One rule for topics, and for the partitions of a topic.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from isotherm_ingest.plan.topic_partition import Position

Name = TypeVar("Name")
Ranges = dict[Position, tuple[int, int]]
"""Of each Kafka partition, the first offset that is read, and the one after the last."""


def count_of(ranges: Mapping[Position, tuple[int, int]]) -> int:
    """The messages of some ranges, at most: offsets may have holes."""
    return sum(end - first for first, end in ranges.values())


@dataclass(frozen=True, slots=True)
class Window:
    """How often a class of topics is read."""

    every_s: float
    or_at: int
    """So many messages are read at once, whatever the time."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A topic with what waits in it."""

    topic: str
    window: Window
    unread: Mapping[Position, tuple[int, int]]
    """Of each partition: the next offset, and the one after the last that may be read."""
    begun_s: float | None = None
    """When its last batch began, on the clock that `now_s` is of. None: none has."""
    has_more: bool = False
    """Its last batch left something, for want of room."""
    at_most: int | None = None
    """So many messages are taken, since more have failed."""

    @property
    def messages(self) -> int:
        """How many wait, at most: offsets may have holes."""
        return count_of(self.unread)

    @property
    def wanted(self) -> int:
        """How many of them a batch may take."""
        return self.messages if self.at_most is None else min(self.messages, self.at_most)


def is_due(one: Waiting, now_s: float) -> bool:
    """Whether a batch of this topic begins now. Windows begin at multiples of their length, so that those of a class fall together."""
    if not one.messages:
        return False
    if one.begun_s is None or one.has_more or one.messages >= one.window.or_at:
        return True
    return now_s // one.window.every_s > one.begun_s // one.window.every_s


def batch(waiting: Sequence[Waiting], now_s: float, budget: int) -> Ranges:
    """What the next batch reads, at most `budget` messages; empty where nothing is due.

    Every due topic takes part, unless there are more than `budget`; then those that waited longest.
    """
    due = sorted(
        (one for one in waiting if is_due(one, now_s)),
        key=lambda one: (one.begun_s is not None, one.begun_s or 0.0, one.topic),
    )[:budget]
    taken = shares({one.topic: one.wanted for one in due}, budget)
    ranges: Ranges = {}
    for one in due:
        wanted = {position: end - first for position, (first, end) in one.unread.items()}
        for position, count in shares(wanted, taken[one.topic]).items():
            if count:
                first = one.unread[position][0]
                ranges[position] = (first, first + count)
    return ranges


def shares(wanted: Mapping[Name, int], budget: int) -> dict[Name, int]:
    """The budget shared out; among those that get the same, the first of `wanted` come first."""
    given: dict[Name, int] = {}
    left = budget
    by_size = sorted(wanted.items(), key=lambda item: item[1])
    for place, (name, count) in enumerate(by_size):
        equal = -(-left // (len(by_size) - place))
        given[name] = min(count, equal)
        left -= given[name]
    return given


def divided(ranges: Mapping[Position, tuple[int, int]], parts: int) -> list[Ranges]:
    """The ranges in at most so many parts of like size; a range may be cut."""
    each = -(-count_of(ranges) // parts)
    divided: list[Ranges] = []
    room = 0
    for position, (first, end) in ranges.items():
        at = first
        while at < end:
            if not room:
                divided.append({})
                room = each
            upto = min(end, at + room)
            divided[-1][position] = (at, upto)
            room -= upto - at
            at = upto
    return divided
