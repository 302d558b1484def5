"""Where a table stands in its topics, judged from what it says now, what was known of it, and what Kafka holds.

The table's own vector is the truth of what it has. It cannot say what it lacks: a table that was rolled back, or made
again, says honestly that it has less, and nobody who reads only the vector sees the hole. So what was last known of
it is held against what is found, by one rule, whether the driver lived through it or begins.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from isotherm_ingest.plan.cut_backs import Cut, Since, left_of, newest_of, unknown_to, unread
from isotherm_ingest.plan.holes import Hole, Lost
from isotherm_ingest.plan.known import Known, is_other, is_table
from isotherm_ingest.plan.stretches import goes_on
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.plan.topic_partition import Position

OnHole = Literal["halt", "backfill", "accept"]


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
    cuts: Since = field(default_factory=dict)
    """Of which cuts the vector knows."""
    is_unknown: bool = False
    """It said once what it has, and was rolled back to where no token is left: the vector is empty, the table need not be."""


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
    cuts: Since = field(default_factory=dict)
    """Of which cuts these offsets know."""
    seen: Mapping[Position, Cut] = field(default_factory=dict)
    """Cuts that nobody knew of before: the table has, or has seen, more than there is."""
    passed: Mapping[Position, int] = field(default_factory=dict)
    """Below these offsets the front had nothing for it: as far as that still holds, and of what it reads once more."""

    def known(self, through: Mapping[Position, int]) -> Known:
        """The place, once everything below `through` was seen."""
        ahead = {position: max(end, self.next.get(position, 0)) for position, end in through.items()}
        return Known(self.uuid, self.vector, {**self.next, **ahead}, self.topic_ids, cuts=self.cuts)


def place(
    found: Found,
    known: Known | None,
    kafka: Kafka,
    topics: Collection[str],
    on_hole: OnHole,
    *,
    passed: Mapping[Position, int] | None = None,
) -> Place:
    """Where the table goes on in each partition of its topics. Below `passed` the front had nothing for it."""
    going_on: dict[Position, int] = {}
    told: list[Hole] = []
    halted: list[Hole] = []
    known = None if known is None else known.as_found(found.uuid)
    found = recalled(found, known)
    missing = _of_other_topics(found, known, kafka, topics)
    before = kafka.cuts
    for position in (judged := kafka.positions(topics)):
        kafka = _with_new_cut(position, found, known, kafka)
        after, holes = _after(position, found, known, kafka, on_hole)
        going_on[position] = after
        missing += holes
    passed = {
        one: end
        for one, end in (passed or {}).items()
        if not _is_stale(one, known, kafka) and not _is_its_own_word(one, found, known)
    }
    for hole in missing:
        (halted if _stands(hole, found, on_hole, passed) else told).append(hole)
    filled = {hole.position[0] for hole in told if hole.why is Lost.ROLLED_BACK and on_hole == "backfill"}
    for position in judged:
        if position[0] in filled and position not in (found.vector or {}):
            # It has nothing of it. A key may have moved there from one that is filled, and would be older than what came.
            passed[position] = going_on[position]
            going_on[position] = goes_on(kafka.damaged, position, kafka.starts.get(position, 0))
    of_others = {topic for topic in topics if is_other(found.topic_ids, kafka, topic)}
    vector = {one: has for one, has in (found.vector or {}).items() if one[0] not in of_others}
    left = {one: has for one in judged if (has := _left(one, vector.get(one), found, kafka)) is not None}
    since = {one: seen for one, seen in found.cuts.items() if one[0] not in of_others}
    return Place(
        found.uuid,
        {**vector, **left},
        going_on,
        kafka.of(topics).ids,
        tuple(told),
        tuple(halted),
        newest_of(since, kafka.newest_cuts(judged)),
        {one: cuts[-1] for one, cuts in kafka.cuts.items() if len(cuts) > len(before.get(one, ()))},
        passed,
    )


def exceeded(found: Found, known: Known | None, kafka: Kafka, topics: Collection[str]) -> set[str]:
    """The topics of which more was read than there was when Kafka was asked.

    They were cut back, or have grown since, and somebody else has written the table: who asks again knows.
    """
    more = set()
    for position in kafka.positions(topics):
        seen = _with_new_cut(position, found, known, kafka)
        if seen.cuts != kafka.cuts:
            more.add(position[0])
    return more


def recalled(found: Found, known: Known | None) -> Found:
    """What a table has whose token went with its snapshot: what it had, of all its topics, which its next token must say again.

    Not where it was known to have less by then, or where only a part of what was known found room in the marks.
    """
    is_same = (
        known is not None
        and is_table(known.uuid, found.uuid)
        and not (known.is_halted or known.doubted or known.unsaid)
    )
    if known is None or not is_same or found.vector is not None or not found.history_is_cut:
        return found
    had = {topic for topic, _ in known.vector}
    ids = {topic: one for topic, one in known.topic_ids.items() if topic in had}
    return replace(found, vector=known.vector, topic_ids=ids, cuts=known.cuts)


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
        and (found.vector or {}).get(position, -1) < through
        and not known.is_noted(position)
        and (through > 0 or position in known.vector)
    ]


def _is_stale(position: Position, known: Known | None, kafka: Kafka) -> bool:
    """Whether an offset that was noted with what is known of a table is of a topic that is gone, or of before a cut."""
    return known is not None and (
        is_other(known.topic_ids, kafka, position[0]) or bool(unknown_to(known.cuts, position, kafka.cuts))
    )


def _is_its_own_word(position: Position, found: Found, known: Known | None) -> bool:
    """Whether only the table itself says that it is no new one in a partition: what the front has passed had its rows."""
    is_known = known is not None and position in known.through and not known.is_noted(position)
    return position in (found.vector or {}) and not is_known


def _stands(hole: Hole, found: Found, on_hole: OnHole, passed: Mapping[Position, int]) -> bool:
    """Whether a hole is left to a person. What Kafka no longer holds cannot be filled, only accepted.

    Not so what goes of what the front has passed, and had nothing in for the table.
    Nor can a hole whose table does not say any more what it has, as one that was halted until its token expired: all
    that it has would be written once more.
    """
    if hole.why in {Lost.RETENTION, Lost.DAMAGED} and hole.resumes <= passed.get(hole.position, 0):
        return False
    is_untold = found.is_unknown or (found.vector is None and found.history_is_cut)
    fillable = hole.why in {Lost.MADE_AGAIN, Lost.TOPIC_MADE_AGAIN, Lost.CUT_BACK} or (
        hole.why == Lost.ROLLED_BACK and not is_untold
    )
    return on_hole == "halt" or (on_hole == "backfill" and not fillable)


def _after(
    position: Position, found: Found, known: Known | None, kafka: Kafka, on_hole: OnHole
) -> tuple[int, list[Hole]]:
    """The next offset of one partition, and what is missing before it."""
    if (
        known is not None
        and is_other(known.topic_ids, kafka, position[0])
        and position in known.vector
        and position not in (found.vector or {})
        and position[0] not in found.topic_ids
    ):
        # It was rolled back as well, to where it says nothing of the topic: neither would be seen by itself.
        start = goes_on(kafka.damaged, position, kafka.starts.get(position, 0))
        return start, [Hole(Lost.TOPIC_MADE_AGAIN, position, 0, start)]
    return _in_its_topic(position, found, known, kafka, on_hole)


def _in_its_topic(
    position: Position, found: Found, known: Known | None, kafka: Kafka, on_hole: OnHole
) -> tuple[int, list[Hole]]:
    """The same, where what is known of another topic of its name says nothing."""
    topic = position[0]
    held = kafka.starts.get(position, 0)
    start = goes_on(kafka.damaged, position, held)
    has = (found.vector or {}).get(position)
    if known is not None and is_other(known.topic_ids, kafka, topic):
        known = None
    if is_other(found.topic_ids, kafka, topic):
        # What was noted of a table of which nothing was known is no word that this hole is told: it is where Kafka begins.
        if known is None or known.is_noted(position) or position not in known.through:
            return start, [Hole(Lost.TOPIC_MADE_AGAIN, position, has or 0, start)]
        has = None  # it is known already, and has committed nothing of the new topic since
    holes = []
    if (cut := _cut_back(position, has, found, known, kafka)) is not None:
        holes.append(cut)
    after = has = _left(position, has, found, kafka)
    if known is not None and (position in known.through or position in known.unsaid):
        after, hole = _since(position, has, found, known.behind_cuts(position, kafka), start)
        if hole is not None:
            holes.append(hole)
            after = hole.resumes if on_hole == "accept" else after
    if after is None:  # it never read this partition
        return start, holes
    if after < held:
        holes.append(Hole(Lost.RETENTION, position, after, start))
        return start, holes
    if (beyond := goes_on(kafka.damaged, position, after)) > after:
        holes.append(Hole(Lost.DAMAGED, position, after, beyond))
        return beyond, holes
    return after, holes


def _with_new_cut(position: Position, found: Found, known: Known | None, kafka: Kafka) -> Kafka:
    """What Kafka says, with the cut of a partition that its end shows now: the table has, or has seen, more than there is."""
    has = (found.vector or {}).get(position)
    if has is not None and not is_other(found.topic_ids, kafka, position[0]):
        kafka = kafka.beyond(position, has, found.cuts)
    if known is not None and position in known.through and not is_other(known.topic_ids, kafka, position[0]):
        kafka = kafka.beyond(position, known.through[position], known.cuts)
    return kafka


def _left(position: Position, has: int | None, found: Found, kafka: Kafka) -> int | None:
    """What a table has of a partition, below the cuts of which its vector does not know."""
    return None if has is None else left_of(has, unknown_to(found.cuts, position, kafka.cuts))


def _cut_back(
    position: Position, has: int | None, found: Found, known: Known | None, kafka: Kafka
) -> Hole | None:
    """The hole where Kafka lost newer messages: those that the table has, or some that it was still to get.

    Told until it is known that the table went on behind the cut, though it may have committed nothing since.
    """
    unknown = unknown_to(found.cuts, position, kafka.cuts)
    lost = None
    if known is not None and position in known.through:
        new = unknown_to(known.cuts, position, kafka.cuts)
        if not new and is_table(known.uuid, found.uuid) and not known.is_noted(position):
            return None
        lost = unread(known.through[position], new)
    if has is not None and (end := left_of(has, unknown)) < has:
        return Hole(Lost.CUT_BACK, position, has, end)
    return None if lost is None else Hole(Lost.CUT_BACK, position, lost.front, lost.end)


def _since(
    position: Position, has: int | None, found: Found, known: Known, start: int
) -> tuple[int | None, Hole | None]:
    """What is found of one partition, held against what was known of it."""
    through = known.through.get(position)
    if (
        through is None
    ):  # that there was a table is all that is known; one that has a token is ours by its own word
        is_gone = bool(known.uuid) and found.vector is None and not is_table(known.uuid, found.uuid)
        return has, Hole(Lost.MADE_AGAIN, position, start, start) if is_gone else None
    if known.is_noted(position):
        return (through if has is None else has), None
    needs = start if has is None else has
    if (reached := known.replaced.get(position, 0)) > (has or 0):
        return has, Hole(Lost.MADE_AGAIN, position, needs, reached)
    if not is_table(known.uuid, found.uuid) and (has is None or has < through):
        return has, Hole(Lost.MADE_AGAIN, position, needs, through)
    if (has or 0) >= known.vector.get(position, 0):
        return max(has or 0, through), None
    return has, Hole(Lost.ROLLED_BACK, position, needs, through)
