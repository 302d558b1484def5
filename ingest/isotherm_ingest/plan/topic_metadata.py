"""What the broker says of some topics, with what nobody but us remembers of them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from isotherm_ingest.plan.cut_backs import Cut, Cuts, Since, left_of, unknown_to
from isotherm_ingest.plan.stretches import Stretches
from isotherm_ingest.plan.topic_partition import Position

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Kafka:
    """What the broker says of some topics."""

    starts: Mapping[Position, int] = field(default_factory=dict)
    """The lowest offset that is still held."""
    ends: Mapping[Position, int] = field(default_factory=dict)
    """The offset after the last one."""
    ids: Mapping[str, str] = field(default_factory=dict)
    damaged: Stretches = field(default_factory=dict)
    """Not by its own word: what was found when it was read."""
    cuts: Cuts = field(default_factory=dict)
    """Nor these: what was seen when it was asked before."""
    asked_ms: int = 0
    """When it was asked; later than every cut."""

    def positions(self, topics: Collection[str]) -> list[Position]:
        """Every partition of these topics."""
        return sorted(position for position in self.ends if position[0] in topics)

    def by_topic(self) -> "dict[str, Kafka]":
        """The same, of each topic by itself."""
        found: dict[str, tuple[dict[Position, int], dict[Position, int]]] = {}
        for which, offsets in enumerate((self.starts, self.ends)):
            for position, offset in offsets.items():
                found.setdefault(position[0], ({}, {}))[which][position] = offset
        return {
            topic: Kafka(
                starts,
                ends,
                {topic: self.ids[topic]} if topic in self.ids else {},
                _those(self.damaged, ends),
                _those(self.cuts, ends),
                self.asked_ms,
            )
            for topic, (starts, ends) in found.items()
        }

    def also(self, other: "Kafka") -> "Kafka":
        """What is said of the topics of both."""
        return Kafka(
            {**self.starts, **other.starts},
            {**self.ends, **other.ends},
            {**self.ids, **other.ids},
            {**self.damaged, **other.damaged},
            {**self.cuts, **other.cuts},
            max(self.asked_ms, other.asked_ms),
        )

    def of(self, topics: Collection[str]) -> "Kafka":
        """What is said of some of the topics."""
        return Kafka(
            {position: offset for position, offset in self.starts.items() if position[0] in topics},
            {position: offset for position, offset in self.ends.items() if position[0] in topics},
            {topic: one for topic, one in self.ids.items() if topic in topics},
            {position: one for position, one in self.damaged.items() if position[0] in topics},
            {position: one for position, one in self.cuts.items() if position[0] in topics},
            self.asked_ms,
        )

    def until(self, later: Mapping[Position, int]) -> "Kafka":
        """The same, with ends that were asked for later. What gave none then has none: it may have got messages since."""
        return replace(
            self, ends={one: max(end, later[one]) for one, end in self.ends.items() if one in later}
        )

    def newest_cuts(self, positions: Iterable[Position]) -> dict[Position, int]:
        """When the newest cut of each of the partitions was seen that has any."""
        return {one: self.cuts[one][-1].seen_ms for one in positions if self.cuts.get(one)}

    def beyond(self, position: Position, seen: int, since: Since) -> "Kafka":
        """The same, with a cut that is seen now, where somebody has seen more of a partition than there is."""
        unknown, end = unknown_to(since, position, self.cuts), self.ends[position]
        if left_of(seen, unknown) <= end:
            return self
        cut = Cut(max(self.asked_ms, since.get(position, 0) + 1), end, seen)
        return replace(self, cuts={**self.cuts, position: (*self.cuts.get(position, ()), cut)})


def _those(some: Mapping[Position, Item], positions: Collection[Position]) -> Mapping[Position, Item]:
    return {position: some[position] for position in positions if position in some} if some else {}
