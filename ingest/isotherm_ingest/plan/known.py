"""What was last known of a table: `resume_or_halt` judges by it where the table goes on."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from isotherm_ingest.plan.cut_backs import Since, left_of, unknown_to
from isotherm_ingest.plan.holes import Hole, Lost
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.plan.topic_partition import Position

CUT = "*"
"""Behind the beginning of a uuid, where no more of it is known: the marks of a topic with very many tables have no room."""


def is_table(known: str, uuid: str) -> bool:
    """Whether a table is the one whose uuid, or the beginning of it, was known."""
    return known == uuid or (known.endswith(CUT) and uuid.startswith(known[:-1]))


@dataclass(frozen=True)
class OfAnother:
    """What a mark says of another table that has had the name."""

    uuid: str
    had: int | None
    """What it had by its own word, or None."""
    through: int
    cut_seen_ms: int = 0
    """When the cut of the topic was seen that these offsets know of; 0 for none."""
    is_halted: bool = False


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
    cuts: Since = field(default_factory=dict)
    """Of which cuts these offsets know."""
    unsaid: frozenset[Position] = frozenset()
    """Of these something may have been known, and found no room in the marks."""
    replaced: Mapping[Position, int] = field(default_factory=dict)
    """How far another table of its name was seen through, where nobody could say yet that this one was made again."""
    doubted: frozenset[Position] = frozenset()
    """Of these the table was found to have less, or was halted, and they could not be judged since."""
    by_others: Mapping[Position, "OfAnother"] = field(default_factory=dict)
    """What marks say of another table of its name: which of the two is newer, only the catalog says (`as_found`)."""

    def as_found(self, uuid: str) -> "Known":
        """The same, of the table that is there: marks of topics that were not listed may be of the one before it."""
        mine = {one: said for one, said in self.by_others.items() if is_table(said.uuid, uuid)}
        if not mine or is_table(self.uuid, uuid):
            return self
        theirs = {
            one: OfAnother(self.uuid, self.vector.get(one), end, self.cuts.get(one, 0), self.is_halted)
            for one, end in self.through.items()
            if one not in self.by_others and one not in self.noted
        }
        others = {one: said.through for one, said in theirs.items() if said.had is not None}
        return replace(
            self,
            uuid=next(said.uuid for said in mine.values()),
            vector={one: said.had for one, said in mine.items() if said.had is not None},
            through={
                **{one: self.through[one] for one in self.noted},
                **dict.fromkeys(others, 0),
                **{one: said.through for one, said in mine.items()},
            },
            is_halted=any(said.is_halted for said in mine.values()),
            cuts={
                **{one: seen_ms for one, seen_ms in self.cuts.items() if one in self.noted},
                **{one: said.cut_seen_ms for one, said in mine.items() if said.cut_seen_ms},
            },
            replaced={**others, **{one: end for one, end in self.replaced.items() if one not in mine}},
            doubted=self.doubted & mine.keys(),
            by_others={**theirs, **{one: said for one, said in self.by_others.items() if one not in mine}},
        )

    @property
    def has_place(self) -> bool:
        """Whether it is known what the table had: a uuid alone, or what is only noted, does not say so."""
        return bool(self.uuid) and not self.unsaid and bool(self.through.keys() - self.noted)

    def of(self, topics: Collection[str]) -> "Known | None":
        """The same, where its marks or those of its topics say anything of it."""
        unsaid = frozenset(one for one in self.unsaid if one[0] in topics)
        return replace(self, unsaid=unsaid) if unsaid or self.through else None

    def is_noted(self, position: Position) -> bool:
        """Whether its place in Kafka is no word of the table."""
        return not self.uuid or position in self.noted

    def lacking(self, kafka: Kafka) -> "Known":
        """The same, where the table cannot be written: it lacks all that Kafka holds of partitions of which nothing is known.

        Noted, because the front goes on without it, and a driver that begins knows of them by nothing else.
        """
        others = {topic for topic in kafka.ids if is_other(self.topic_ids, kafka, topic)}
        through = {one: seen for one, seen in self.through.items() if one[0] not in others}
        new = {
            one: start
            for one, start in kafka.starts.items()
            if one not in through | dict.fromkeys(self.unsaid)
        }
        if not new:
            return self
        return replace(
            self,
            vector={one: had for one, had in self.vector.items() if one[0] not in others},
            through={**through, **new},
            topic_ids={**self.topic_ids, **kafka.of({topic for topic, _ in new}).ids},
            noted=(self.noted & through.keys()) | new.keys(),
            cuts={
                **{one: seen for one, seen in self.cuts.items() if one in through},
                **kafka.newest_cuts(new),
            },
        )

    def recalling(self, said: "Known", topics: Collection[str]) -> "Known":
        """The same, with what marks say of topics that were not listed when this became known."""
        new = {one for one in said.through if one[0] in topics} - self.through.keys()
        came = {one[0] for one in new}
        return replace(
            self,
            uuid=self.uuid or said.uuid,
            vector={**self.vector, **{one: had for one, had in said.vector.items() if one in new}},
            through={**self.through, **{one: said.through[one] for one in new}},
            topic_ids={
                **{topic: one for topic, one in said.topic_ids.items() if topic in came},
                **self.topic_ids,
            },
            is_halted=self.is_halted or (said.is_halted and bool(new)),
            noted=self.noted | (said.noted & new),
            cuts={**self.cuts, **{one: seen for one, seen in said.cuts.items() if one in new}},
            unsaid=self.unsaid | {one for one in said.unsaid if one[0] in topics},
            replaced={**self.replaced, **{one: end for one, end in said.replaced.items() if one in new}},
        )

    def made_anew(self, said: "Known", topics: Collection[str]) -> "Known":
        """The same, where what is said there is of another table of its name: it lacks all that that one had."""
        had = {one for one in said.through if one[0] in topics and not said.is_noted(one)}
        return replace(
            self,
            through={**dict.fromkeys(had, 0), **self.through},
            topic_ids={**{topic: said.topic_ids.get(topic, "") for topic, _ in had}, **self.topic_ids},
            cuts={**{one: seen for one, seen in said.cuts.items() if one in had}, **self.cuts},
            replaced={**{one: said.through[one] for one in had - self.through.keys()}, **self.replaced},
        )

    def raised(self, had: Mapping[Position, int], kafka: Kafka) -> "Known":
        """The same, where its own word has more of partitions that Kafka has now.

        Not where there was a cut: there less may be newer.
        """
        more = {
            one: end
            for one, end in had.items()
            if end > self.vector.get(one, -1)
            and one in kafka.ends
            and one not in kafka.cuts
            and not is_other(self.topic_ids, kafka, one[0])
        }
        # What is noted is where Kafka began.
        seen = {one: through for one, through in self.through.items() if not self.is_noted(one)}
        return replace(
            self,
            vector={**self.vector, **more},
            through={**self.through, **{one: max(end, seen.get(one, 0)) for one, end in more.items()}},
            topic_ids={**kafka.of({topic for topic, _ in more}).ids, **self.topic_ids},
            noted=self.noted - more.keys(),
        )

    def behind_cuts(self, position: Position, kafka: Kafka) -> "Known":
        """The same, no further than what Kafka has left of the messages that these offsets of a partition are of."""
        unknown = unknown_to(self.cuts, position, kafka.cuts)
        if not unknown:
            return self
        vector, through = dict(self.vector), dict(self.through)
        for offsets in (vector, through):
            if position in offsets:
                offsets[position] = left_of(offsets[position], unknown)
        return replace(self, vector=vector, through=through)

    def lost(self, kafka: Kafka) -> tuple[Hole, ...]:
        """What is gone with topics that were made again since, and of which the table itself cannot say so.

        It was noted alone, or the table was still brought what they held, and has had no row of them.
        """
        had = {topic for topic, _ in self.vector}
        return tuple(
            Hole(Lost.TOPIC_MADE_AGAIN, one, self.through[one], kafka.starts.get(one, 0))
            for one in sorted(self.through)
            if (one in self.noted or one[0] not in had) and is_other(self.topic_ids, kafka, one[0])
        )


def is_other(ids: Mapping[str, str], kafka: Kafka, topic: str) -> bool:
    """Whether offsets that were said of a topic are of another one of its name."""
    was, now = ids.get(topic, ""), kafka.ids.get(topic, "")
    return bool(was and now and was != now)
