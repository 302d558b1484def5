"""Where a table stands in its topics, judged from what it says now, what was known of it, and what Kafka holds.

The table's own vector is the truth of what it has. It cannot say what it lacks: a table that was rolled back, or made
again, says honestly that it has less, and nobody who reads only the vector sees the hole. So what was last known of
it is held against what is found, by one rule, whether the driver lived through it or begins.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from isotherm_ingest.plan.stretches import Stretches, goes_on
from isotherm_ingest.tables.offsets import Position

OnHole = Literal["halt", "backfill", "accept"]

CUT = "*"
"""Behind the beginning of a uuid, where no more of it is known: the marks of a topic with very many tables have no room."""


def is_table(known: str, uuid: str) -> bool:
    """Whether a table is the one whose uuid, or the beginning of it, was known."""
    return known == uuid or (known.endswith(CUT) and uuid.startswith(known[:-1]))


class Lost(StrEnum):
    """How changes came to be missing."""

    ROLLED_BACK = "table_rolled_back"
    """The table has less than it had: a rollback, or a restored backup."""
    MADE_AGAIN = "table_made_again"
    """Another table stands under the name, or none."""
    TOPIC_MADE_AGAIN = "topic_made_again"
    """Another topic stands under the name: its offsets are not those that the table speaks of."""
    RETENTION = "retention"
    """Kafka no longer holds what the table needs next."""
    CUT_BACK = "topic_cut_back"
    """Kafka ends before what the table has: it lost its newest messages, and gives their offsets to others."""
    DAMAGED = "topic_damaged"
    """Kafka holds what the table needs next, and no client can unpack it."""


@dataclass(frozen=True, slots=True)
class Known:
    """What was last known of a table."""

    uuid: str
    """Or its beginning, and `CUT`. Empty where it was never written: then its place in Kafka alone is known."""
    vector: Mapping[Position, int]
    """What it had, by its own word."""
    through: Mapping[Position, int]
    """Below these offsets nothing is left for it: what it had not, held no row for it."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """Of which topics these offsets are."""
    is_halted: bool = False
    """A hole was told that a person must decide about, and nobody has decided yet."""
    noted: frozenset[Position] = frozenset()
    """Of these it has said nothing: they came when it could not be written, and `through` is where Kafka began then."""

    def is_noted(self, position: Position) -> bool:
        """Whether its place in Kafka is no word of the table."""
        return not self.uuid or position in self.noted

    def lacking(self, kafka: "Kafka") -> "Known":
        """The same, where the table cannot be written: it lacks all that Kafka holds of partitions of which nothing is known.

        Noted, because the front goes on without it, and a driver that begins knows of them by nothing else.
        """
        others = {topic for topic in kafka.ids if _is_other(self.topic_ids, kafka, topic)}
        through = {one: seen for one, seen in self.through.items() if one[0] not in others}
        new = {one: start for one, start in kafka.starts.items() if one not in through}
        if not new:
            return self
        return replace(
            self,
            vector={one: had for one, had in self.vector.items() if one[0] not in others},
            through={**through, **new},
            topic_ids={**self.topic_ids, **kafka.of({topic for topic, _ in new}).ids},
            noted=(self.noted & through.keys()) | new.keys(),
        )

    def lost(self, kafka: "Kafka") -> "tuple[Hole, ...]":
        """What was noted of topics that were made again since: it is gone, and the table itself cannot say so."""
        return tuple(
            Hole(Lost.TOPIC_MADE_AGAIN, one, self.through[one], kafka.starts.get(one, 0))
            for one in sorted(self.noted)
            if _is_other(self.topic_ids, kafka, one[0])
        )


@dataclass(frozen=True, slots=True)
class Found:
    """What the table says of itself now."""

    uuid: str = ""
    """Empty where there is no table."""
    vector: Mapping[Position, int] | None = None
    """None where no token is found."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    history_is_cut: bool = False
    """Snapshots have expired, so a token may have gone with them."""


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
        )

    def of(self, topics: Collection[str]) -> "Kafka":
        """What is said of some of the topics."""
        return Kafka(
            {position: offset for position, offset in self.starts.items() if position[0] in topics},
            {position: offset for position, offset in self.ends.items() if position[0] in topics},
            {topic: one for topic, one in self.ids.items() if topic in topics},
            {position: one for position, one in self.damaged.items() if position[0] in topics},
        )


def _those(damaged: Stretches, positions: Collection[Position]) -> Stretches:
    return {position: damaged[position] for position in positions if position in damaged} if damaged else {}


@dataclass(frozen=True, slots=True)
class Hole:
    """Changes that the table lacks, or may lack."""

    why: Lost
    position: Position
    needs: int
    """The offset that the table would go on from."""
    resumes: int
    """The offset to go on from if the loss is accepted."""

    def __str__(self) -> str:
        topic, partition = self.position
        return f"{self.why} ({topic}/{partition}: needs {self.needs}, could go on from {self.resumes})"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table goes on."""

    uuid: str
    vector: Mapping[Position, int]
    next: Mapping[Position, int]
    """The next offset of each partition."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    told: tuple[Hole, ...] = ()
    """Holes that are filled or accepted, by the stream's `on_hole`."""
    halted: tuple[Hole, ...] = ()
    """Holes that a person must decide about."""

    def known(self, through: Mapping[Position, int]) -> Known:
        """The place, once everything below `through` was seen."""
        ahead = {position: max(end, self.next.get(position, 0)) for position, end in through.items()}
        return Known(self.uuid, self.vector, {**self.next, **ahead}, self.topic_ids)


def place(found: Found, known: Known | None, kafka: Kafka, topics: Collection[str], on_hole: OnHole) -> Place:
    """Where the table goes on in each partition of its topics."""
    going_on: dict[Position, int] = {}
    told: list[Hole] = []
    halted: list[Hole] = []
    found = recalled(found, known)
    missing = _of_other_topics(found, known, kafka, topics)
    for position in kafka.positions(topics):
        after, holes = _after(position, found, known, kafka, on_hole)
        going_on[position] = after
        missing += holes
    for hole in missing:
        (halted if _stands(hole, on_hole) else told).append(hole)
    of_others = {topic for topic in topics if _is_other(found.topic_ids, kafka, topic)}
    vector = {one: has for one, has in (found.vector or {}).items() if one[0] not in of_others}
    return Place(found.uuid, vector, going_on, kafka.of(topics).ids, tuple(told), tuple(halted))


def recalled(found: Found, known: Known | None) -> Found:
    """What a table has whose token went with its snapshot: what it had, of all its topics, which its next token must say again.

    Not where it was known to have less by then.
    """
    is_same = known is not None and is_table(known.uuid, found.uuid) and not known.is_halted
    if known is None or not is_same or found.vector is not None or not found.history_is_cut:
        return found
    had = {topic for topic, _ in known.vector}
    ids = {topic: one for topic, one in known.topic_ids.items() if topic in had}
    return replace(found, vector=known.vector, topic_ids=ids)


def _of_other_topics(found: Found, known: Known | None, kafka: Kafka, topics: Collection[str]) -> list[Hole]:
    """What a table that was made again lacks of partitions that are not judged now: of its other topics, or without leader.

    They are told before anything is made: the table that is made then knows nothing of the one before it.
    """
    if known is None or not known.uuid or is_table(known.uuid, found.uuid):
        return []
    judged = set(kafka.positions(topics))
    return [
        Hole(Lost.MADE_AGAIN, position, kafka.starts.get(position, 0), through)
        for position, through in sorted(known.through.items())
        if position not in judged
        and not known.is_noted(position)
        and (through > 0 or position in known.vector)
    ]


def _is_other(ids: Mapping[str, str], kafka: Kafka, topic: str) -> bool:
    """Whether offsets that were said of a topic are of another one of its name."""
    was, now = ids.get(topic, ""), kafka.ids.get(topic, "")
    return bool(was and now and was != now)


def _stands(hole: Hole, on_hole: OnHole) -> bool:
    """Whether a hole is left to a person. What Kafka no longer holds cannot be filled, only accepted."""
    fillable = hole.why in {Lost.ROLLED_BACK, Lost.MADE_AGAIN, Lost.TOPIC_MADE_AGAIN}
    return on_hole == "halt" or (on_hole == "backfill" and not fillable)


def _after(
    position: Position, found: Found, known: Known | None, kafka: Kafka, on_hole: OnHole
) -> tuple[int, list[Hole]]:
    """The next offset of one partition, and what is missing before it."""
    topic = position[0]
    held, end = kafka.starts.get(position, 0), kafka.ends[position]
    start = goes_on(kafka.damaged, position, held)
    has = (found.vector or {}).get(position)
    if known is not None and _is_other(known.topic_ids, kafka, topic):
        known = None
    if _is_other(found.topic_ids, kafka, topic):
        # What was noted of a table of which nothing was known is no word that this hole is told: it is where Kafka begins.
        if known is None or known.is_noted(position) or position not in known.through:
            return start, [Hole(Lost.TOPIC_MADE_AGAIN, position, has or 0, start)]
        has = None  # it is known already, and has committed nothing of the new topic since
    after, holes = has, []
    if known is not None and position in known.through:
        after, hole = _since(position, has, found, known, start)
        if hole is not None:
            holes.append(hole)
            after = hole.resumes if on_hole == "accept" else after
    if after is None:  # it never read this partition
        return start, holes
    if after < held:
        holes.append(Hole(Lost.RETENTION, position, after, start))
        return start, holes
    if after > end:
        holes.append(Hole(Lost.CUT_BACK, position, after, end))
        return end, holes
    if (beyond := goes_on(kafka.damaged, position, after)) > after:
        holes.append(Hole(Lost.DAMAGED, position, after, beyond))
        return beyond, holes
    return after, holes


def _since(
    position: Position, has: int | None, found: Found, known: Known, start: int
) -> tuple[int | None, Hole | None]:
    """What is found of one partition, held against what was known of it."""
    through = known.through[position]
    if known.is_noted(position):
        return (through if has is None else has), None
    needs = start if has is None else has
    if not is_table(known.uuid, found.uuid):
        return has, Hole(Lost.MADE_AGAIN, position, needs, through)
    if (has or 0) >= known.vector.get(position, 0):
        return max(has or 0, through), None
    return has, Hole(Lost.ROLLED_BACK, position, needs, through)
