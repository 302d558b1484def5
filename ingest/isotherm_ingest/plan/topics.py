"""One topic as the driver knows it: how far it was seen through, and what waits in it.

`through` is the topic's own cursor, the front: what stands below it was looked at once, for every table that was in
step. A table that was not is behind, and is brought up to the front by itself.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from isotherm_ingest.plan.retries import less, more, pause_s
from isotherm_ingest.plan.shares import Waiting, Window
from isotherm_ingest.plan.stretches import goes_on, readable
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.plan.topic_partition import Position

COMPACTED = (
    "compaction takes deletes away, and a mirror that is behind by then keeps the rows: set cleanup.policy=delete, and "
    "retention.ms to longer than ingest may ever be behind"
)
NOT_MULTIPLIED = (
    "of keys that moved between partitions that were there, an older change may be written after a newer one; build the "
    "mirrors anew, and next time multiply the number of partitions"
)


@dataclass
class Topic:
    """What this driver knows of one topic."""

    name: str
    window: Window
    topic_id: str = ""
    through: dict[Position, int] = field(default_factory=dict)
    begun_s: float | None = None
    has_more: bool = False
    failures: int = 0
    retry_at_s: float = 0.0
    at_most: int | None = None
    """So many messages are read at once, since more have failed."""
    at_first: frozenset[Position] = frozenset()
    """Partitions of which nothing was known when it was first listed: what Kafka had dropped of them by then nobody missed."""
    closed: dict[Position, bool] = field(default_factory=dict)
    """Partitions that came when others were there, and are not read yet; whether each had messages when it was seen last."""
    gate: dict[Position, int] = field(default_factory=dict)
    """Where those that are read ended, after the first messages of some new ones had been seen."""
    gated: frozenset[Position] = frozenset()
    """The new ones that wait for that, and are read then."""

    told: dict[Position, int] = field(default_factory=dict)
    """Of new ones that wait, what Kafka dropped below this is told. They stay at 0: a mark above it says that they wait no more."""

    def meet(
        self, kafka: Kafka, marked: Mapping[Position, int], listed: Collection[int] = ()
    ) -> dict[Position, tuple[int, int]]:
        """Take up what the broker says of it alone: another topic under the name, new partitions, a lost beginning or end.

        `listed`: the numbers of its partitions, with those without a leader, of which Kafka tells no end.

        Returns what was lost unread: from where on it was to be read, and from where on Kafka has what can be read.

        A key may move to a new partition. Its older changes stand in an old one, so the new partitions wait until
        the old ones were read to where they ended once the new ones had messages: a producer may write to the old ones
        for minutes before it hears of new ones. It moves to no other old one where their number was multiplied. So do
        those of which nothing was read yet, by their numbers. A new one begins at 0: what Kafka holds no more of it was
        lost unread.
        """
        now = kafka.ids.get(self.name, "")
        if now and self.topic_id and now != self.topic_id:
            self.through, self.closed, self.gate, self.gated, self.told = {}, {}, {}, frozenset(), {}
        self.topic_id = now or self.topic_id
        self._take_up(kafka, marked)
        self._open(kafka, listed)
        lost: dict[Position, tuple[int, int]] = {}
        for position, seen in self.through.items():
            if position in kafka.ends:
                told = max(seen, self.told.pop(position, 0))
                start = goes_on(kafka.damaged, position, max(told, kafka.starts.get(position, 0)))
                if told < start:
                    lost[position] = (told, start)
                if position in self.closed:
                    self.told[position] = start
                else:
                    self.through[position] = min(start, kafka.ends[position])
        # Kafka may have lost what a new partition waits for.
        self.gate = {position: min(end, kafka.ends.get(position, end)) for position, end in self.gate.items()}
        return lost

    def _take_up(self, kafka: Kafka, marked: Mapping[Position, int]) -> None:
        """Take up partitions that are new to this driver; those that may hold newer changes of a key are closed at first."""
        recalled = {position: seen for position, seen in marked.items() if position not in self.through}
        self.through |= recalled
        if any(self.through.values()):
            # One of which nothing was read may have come when the others were there.
            self.closed |= {position: False for position, seen in recalled.items() if not seen}
        is_known = bool(self.through)
        for position in sorted(kafka.ends.keys() - self.through.keys()):
            came_later = is_known and position not in self.at_first
            self.through[position] = 0 if came_later else kafka.starts.get(position, 0)
            if is_known:
                self.closed[position] = False

    def _open(self, kafka: Kafka, listed: Collection[int]) -> None:
        """Have new partitions read once the others were read to the gate."""
        self._pass()
        # Ends are asked for one by one: those count that were asked for after the first messages had been seen. And what
        # has no leader now may hold older changes.
        if not self.gated and (next_ones := self._next(kafka, listed)) is not None:
            old = self.through.keys() - self.closed.keys()
            if old <= kafka.ends.keys():
                self.gate, self.gated = {position: kafka.ends[position] for position in old}, next_ones
                self._pass()
        for position in self.closed.keys() & kafka.ends.keys():
            self.closed[position] = self._holds(position, kafka)

    def _next(self, kafka: Kafka, listed: Collection[int]) -> frozenset[Position] | None:
        """Which new partitions are read next, or None.

        A key goes from one to another where they came one after the other (2, 4, 8 partitions), so the lower ones come
        first. Where the number was multiplied it goes to no partition below twice its number and one, so those up to twice
        the lowest have no key of each other.
        """
        ready = [number for (_, number), had in self.closed.items() if had]
        if not ready:
            return None
        lowest = min(ready)
        # One that never had a leader since this driver began may hold older changes, too.
        if any(number < lowest and (self.name, number) not in self.through for number in listed):
            return None
        for position in self.closed:
            if position[1] < lowest and (position not in kafka.ends or self._holds(position, kafka)):
                return None
        return frozenset((self.name, number) for number in ready if number <= 2 * lowest)

    def _holds(self, position: Position, kafka: Kafka) -> bool:
        return kafka.ends[position] > self.through[position]

    def _pass(self) -> None:
        if all(self.through[position] >= end for position, end in self.gate.items()):
            for position in self.gated:
                del self.closed[position]
            self.gate, self.gated = {}, frozenset()

    @property
    def wants_later_ends(self) -> bool:
        """Whether new partitions have messages, and where the others end was not asked for since these were seen."""
        return not self.gated and any(self.closed.values())

    def has_changed(self, kafka: Kafka) -> bool:
        """Whether Kafka, asked about this topic alone, has more partitions than are read, or ends before what was seen."""
        return any(
            end < self.through.get(position, end + 1) or (position in self.closed and end > 0)
            for position, end in kafka.ends.items()
        )

    def waiting(self, kafka: Kafka) -> Waiting:
        """What waits beyond the front."""
        unread = {
            position: (seen, kafka.ends[position])
            for position, seen in self.through.items()
            if kafka.ends.get(position, 0) > seen and position not in self.closed
        }
        unread = readable(unread, kafka.damaged)
        return Waiting(self.name, self.window, unread, self.begun_s, self.has_more, self.at_most)

    def unread(self, kafka: Kafka, needs: Mapping[Position, int]) -> int:
        """How many messages wait, at most, for who needs most: a table that is behind may need some below the front."""
        return sum(
            max(kafka.ends[one] - min(seen, needs.get(one, seen)), 0)
            for one, seen in self.through.items()
            if one in kafka.ends
        )

    def unread_share(self, kafka: Kafka, needs: Mapping[Position, int]) -> float:
        """Of what Kafka holds in the fullest partition, the share that somebody needs still: 1 is the brink of a loss."""
        return max(
            (
                min(max(end - min(seen, needs.get(one, seen)), 0) / (end - start), 1.0)
                for one, seen in self.through.items()
                # What begins at 0 has lost nothing yet: how soon it will, nobody can say.
                if (end := kafka.ends.get(one, 0)) > (start := kafka.starts.get(one, 0)) > 0
            ),
            default=0.0,
        )

    def was_read(self, ranges: Mapping[Position, tuple[int, int]], kafka: Kafka, now_s: float) -> None:
        """The front moves to the end of the ranges of this topic."""
        for position, (_, end) in ranges.items():
            if position in self.through:
                self.through[position] = end
        self.begun_s, self.failures, self.retry_at_s = now_s, 0, 0.0
        self.at_most = more(self.at_most)
        self.has_more = bool(self.waiting(kafka).messages)

    def fail(self, tried: int, now_s: float) -> None:
        """So many messages could not be read, with no other topic beside it; 0 where fewer would not have been, either."""
        self.failures += 1
        self.at_most = less(tried) if tried else self.at_most
        self.retry_at_s = now_s + pause_s(self.failures)
