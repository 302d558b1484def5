"""How far the messages of the sources are done: what need not come again after a restart.

Messages are done in any order, and a group keeps one number for each Kafka partition. So the oldest message that is still
open says how far the partition is done, whatever came of those behind it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple


class Place(NamedTuple):
    """Where a message came from."""

    topic: str
    partition: int
    offset: int


@dataclass(slots=True)
class Progress:
    """Which messages were heard, and which of them are done."""

    _open: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    """By topic and Kafka partition: offsets."""
    _next: dict[tuple[str, int], int] = field(default_factory=dict)
    """The offset behind the message that was heard last. It may go back: a partition that was lost comes again."""

    def heard(self, places: Iterable[Place]) -> None:
        """Messages came, and are open."""
        for topic, partition, offset in places:
            self._open.setdefault((topic, partition), set()).add(offset)
            self._next[topic, partition] = offset + 1

    def done(self, places: Iterable[Place]) -> None:
        """Nothing is owed for these any more."""
        for topic, partition, offset in places:
            self._open[topic, partition].discard(offset)

    def offsets(self) -> dict[tuple[str, int], int]:
        """By topic and Kafka partition, the offset before which everything is done."""
        return {part: min((*self._open[part], following)) for part, following in self._next.items()}
