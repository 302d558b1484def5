"""One table, as this driver knows it: where it stands, and how it fares."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from isotherm_ingest.plan.cut_backs import Since
from isotherm_ingest.plan.holes import Hole
from isotherm_ingest.plan.known import Known, is_table
from isotherm_ingest.plan.resume_or_halt import OnHole, Place
from isotherm_ingest.plan.retries import more
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.plan.topic_partition import Position
from isotherm_ingest.tables.portion import Portion
from isotherm_ingest.tables.writer import TableWriter

Front = Mapping[str, Mapping[Position, int]]
"""By topic, where the next batch of its tables begins."""
Knows = Callable[[Since, Collection[Position]], bool]
"""Whether who knows of these cuts knows of all that there were of some partitions."""


@dataclass
class TableState:
    """One table, as this driver knows it."""

    writer: TableWriter
    on_hole: OnHole
    topics: set[str] = field(default_factory=set)
    known: Known | None = None
    failures: int = 0
    untold: int = 0
    """Failures since it was last in step: it has recovered once it has all that it lacks."""
    retry_at_s: float = 0.0
    at_most: int | None = None
    """So many messages are brought forward at once, since more have failed."""
    new_topics: set[str] = field(default_factory=set)
    """Nobody knew of anything of it in these, and its first message came just now."""
    passed: dict[Position, int] = field(default_factory=dict)
    """Below these offsets the front has been, and had nothing for it: until it is brought up to the front."""
    must_look: bool = False
    """A hole was told of some of its topics; the others are still to be judged."""
    window_until_s: float = 0.0
    """Until then it is left alone, because the daemon has asked for it."""
    served_s: float = 0.0
    """When it was last brought forward while it was behind."""

    def is_behind(self, front: Mapping[Position, int]) -> bool:
        """Whether it needs anything below the front of a topic."""
        return any((needs := self.needs(one)) is not None and needs < end for one, end in front.items())

    def lacks_below(self, front: Front) -> dict[Position, tuple[int, int]]:
        """What it needs below the front of its topics."""
        return {
            position: (needs, end)
            for topic in self.topics
            for position, end in front.get(topic, {}).items()
            if (needs := self.needs(position)) is not None and needs < end
        }

    def needs(self, position: Position) -> int | None:
        """The next offset that it needs, or None where nothing is known yet."""
        return None if self.known is None else self.known.through.get(position)

    @property
    def is_halted(self) -> bool:
        """Whether a hole was told that a person must decide about."""
        return self.known is not None and self.known.is_halted

    def is_left_out(self, now_s: float) -> bool:
        """Whether it failed, and is not to be tried yet; or is left alone for the daemon."""
        return (self.failures > 0 and now_s < self.retry_at_s) or now_s < self.window_until_s

    def is_doubted(self, kafka: Kafka, now_s: float) -> bool:
        """Whether partitions can be judged now that could not be when it had less, or a hole had halted it."""
        doubted = frozenset[Position]() if self.known is None else self.known.doubted
        return not doubted.isdisjoint(kafka.ends) and not self.is_left_out(now_s)

    def is_tried_again(self, now_s: float) -> bool:
        """Whether it failed, and has waited for long enough."""
        return self.failures > 0 and not self.is_left_out(now_s)

    def is_due_again(self, now_s: float) -> bool:
        """Whether it failed and is to be tried again, or its other topics are to be judged. Not while it is left alone."""
        return now_s >= self.window_until_s and (self.must_look or self.is_tried_again(now_s))

    def stands_at(self, place: Place, through: Mapping[Position, int]) -> None:
        """Keep where it stands, now that everything below `through` was seen for it."""
        new, old = place.known(through), self._as_found(place)
        is_same = old is not None and is_table(old.uuid, new.uuid)
        self.passed = dict(place.passed)
        if old is not None and (is_same or not old.uuid or self.on_hole == "accept"):
            # Only of the topics that were judged: what others lack must not be taken for what they had. And nothing of
            # a topic that was made again since. A replacement that is accepted goes on where the table before it was.
            same = {
                topic: one
                for topic, one in old.topic_ids.items()
                if new.topic_ids.get(topic, one) in {one, ""}
            }
            through = {one: reached for one, reached in old.through.items() if one[0] in same}
            had = old.vector if is_same else {}
            others = {one: had[one] for one in had if one[0] in same and one not in place.next}
            begun = {
                one for one in place.next if one in place.vector or new.through[one] != old.through.get(one)
            } | {hole.position for hole in place.told}  # what was told is not noted any more
            judged = {one: had for one, had in place.vector.items() if one in place.next}
            less = {one for one, end in others.items() if place.vector.get(one, 0) < end}
            doubted = old.doubted | (old.through.keys() if old.is_halted else frozenset()) | less
            new = replace(
                new,
                vector={**others, **judged},
                through={**through, **new.through},
                topic_ids={**same, **new.topic_ids},
                unsaid=old.unsaid - place.next.keys(),
                doubted=frozenset(
                    one
                    for one in doubted
                    if one[0] in same and one[0] in self.topics and one not in place.next
                ),
                replaced={
                    one: end for one, end in old.replaced.items() if one[0] in same and one not in place.next
                },
                noted=frozenset(one for one in old.noted if one[0] in same and one not in begun),
                cuts={
                    **{one: seen for one, seen in old.cuts.items() if one[0] in same},
                    **{one: seen for one, seen in new.cuts.items() if one in place.next},
                },
            )
        elif old is not None:
            # Topics that are not listed, and partitions without a leader, are filled once they are there. What Kafka has
            # dropped of them by then does not halt the table: it was told.
            later = {hole.position: hole for hole in place.told if hole.position not in place.next}
            ids = {topic: old.topic_ids[topic] for topic, _ in later if topic in old.topic_ids}
            through = {**{one: hole.needs for one, hole in later.items()}, **new.through}
            new = replace(new, through=through, topic_ids={**ids, **new.topic_ids})
            self.passed |= {one: hole.resumes for one, hole in later.items()}
        self.must_look |= bool(place.told)
        self.known = new

    def _as_found(self, place: Place) -> Known | None:
        """What is known of it, if marks speak of two tables of its name, as of the one that is there."""
        return None if self.known is None else self.known.as_found(place.uuid)

    def lost(self, kafka: Kafka) -> tuple[Hole, ...]:
        """What it lacks of topics that were made again before it had anything of them."""
        return () if self.known is None else self.known.lost(kafka)

    def lacks(self, kafka: Kafka) -> None:
        """Keep that it gets nothing of a batch of these topics."""
        self.known = (self.known or Known("", {}, {})).lacking(kafka)

    def halts(self, place: Place, kafka: Kafka) -> None:
        """Keep that a person must decide about it, and what it has by its own word: that may be gone by then."""
        self.known = self._as_found(place)
        self.lacks(kafka)
        assert self.known is not None  # noqa: S101 (it lacks something now)
        is_same = is_table(self.known.uuid, place.uuid)
        known = self.known.raised(place.vector, kafka) if is_same else self.known
        self.known = replace(known, is_halted=True)
        self.passed = dict(place.passed)

    def recalls(self, said: Known, topics: Collection[str]) -> None:
        """Take up what marks say of it in topics that were not listed when it was taken up itself."""
        known = self.known or Known("", {}, {})
        is_same = (
            not (known.uuid and said.uuid)
            or is_table(known.uuid, said.uuid)
            or is_table(said.uuid, known.uuid)
        )
        self.known = known.recalling(said, topics) if is_same else known.made_anew(said, topics)
        if not is_same and self.on_hole == "backfill":  # what Kafka has dropped cannot be filled
            self.passed |= {one: said.through[one] for one in self.known.through.keys() & said.through.keys()}
        self.must_look = True

    def links(self, topic: str) -> None:
        """It has rows from this topic."""
        had = () if self.known is None else self.known.through
        if topic not in self.topics and topic not in {one for one, _ in had}:
            self.new_topics.add(topic)
        self.topics.add(topic)

    def meets(self, front: Front) -> None:
        """A batch begins at this front, and has its first message of topics that are new: what lies below had none for it."""
        for topic in self.new_topics & front.keys():
            self.passed |= front[topic]
            self.new_topics.discard(topic)

    def passes_by(self, ranges: Mapping[Position, tuple[int, int]], front: Front, knows: Knows) -> None:
        """Nothing in these ranges was for it: where it was in step, it still is.

        Not where it may lack something before them: one that is halted, or that has not said yet what a cut took from it.
        Nor where one lacks something of the topic below the front: it would count as having begun another partition, and be
        brought that beside what is older.
        """
        if self.known is None or self.is_halted:
            return
        mine = [one for one in ranges if one[0] in self.topics and one in self.known.through]
        if not knows(self.known.cuts, mine):
            return
        through = dict(self.known.through)
        for position, (first, end) in ranges.items():
            is_next = position[0] in self.topics and first <= through.get(position, first - 1) < end
            if is_next and not self.is_behind(front.get(position[0], {})):
                through[position] = end
        if through != self.known.through:
            self.at_most = more(self.at_most)
        self.known = replace(self.known, through=through)

    def fails(self) -> None:
        """It could not be written."""
        self.failures += 1
        self.untold += 1

    def is_in_step(self, portion: Portion, front: Front) -> bool:
        """Whether the portion begins no higher than what the table needs; of an unknown table its writer will say.

        What the table lacks of other partitions counts too: a key may have moved from one of them to one of these. And where
        changes are missing, whichever topic they came from, it is looked at before it is written.
        """
        if self.is_halted:
            return False
        begins = {one: first for topic in portion.topics for one, first in front.get(topic, {}).items()}
        begins |= {position: first for position, (first, _) in portion.ranges.items()}
        return all(
            (needs := self.needs(position)) is None or needs >= first for position, first in begins.items()
        )


def least(tables: Iterable[Known], topic: str, topic_id: str) -> dict[Position, int]:
    """The least offset that any of some tables needs, of each partition of a topic that one has read."""
    found: dict[Position, int] = {}
    for one in tables:
        if one.topic_ids.get(topic, "") == topic_id:
            for position, has in one.vector.items():
                if position[0] == topic:
                    through = one.through.get(position, has)
                    found[position] = min(through, found.get(position, through))
    return found


def needs(tables: Iterable[Known], topic: str, topic_id: str) -> dict[Position, int]:
    """The least that any of some tables needs next of each partition. What it has of another topic of that name is nothing."""
    found: dict[Position, int] = {}
    for known in tables:
        is_other = known.topic_ids.get(topic, topic_id) not in {topic_id, ""}
        for position, through in known.through.items():
            if position[0] == topic:
                needed = 0 if is_other else through
                found[position] = min(needed, found.get(position, needed))
    return found
