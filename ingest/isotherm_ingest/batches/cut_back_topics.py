"""Every cut of the topics, as the marks and this driver know them: found where Kafka ends before what was read.

They are kept beside the offsets of the marks, because the end says nothing any more once Kafka has given the offsets to
other messages.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from isotherm.runtime import clock, logs
from isotherm_ingest.mark_text import Mark
from isotherm_ingest.plan.cut_backs import Cut, Since, with_cut
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.plan.topic_partition import Position
from isotherm_ingest.plan.topics import Topic


def seen_of(kafka: Kafka, marks: Mapping[Position, Mark], topics: Mapping[str, Topic]) -> dict[Position, int]:
    """How far these partitions were seen through, of the topics that they are of now.

    A partition that answers for the first time was seen through as far as its mark says.
    """
    seen = {
        one: mark.through
        for one in kafka.ends
        if (mark := marks.get(one)) is not None and mark.is_of(kafka.ids.get(one[0], ""))
    }
    for topic in (topics[name] for name in {name for name, _ in kafka.ends} & topics.keys()):
        if kafka.ids.get(topic.name, topic.topic_id) == topic.topic_id:
            seen |= {one: through for one, through in topic.through.items() if one in kafka.ends}
    return seen


class CutTopics:
    """Knows the cuts of each topic, and forgets them with the topic."""

    def __init__(self, ask: Callable[[Collection[str]], Kafka]) -> None:
        """Knows of none yet.

        Args:
            ask: asks the broker now where some topics end, and which they are.
        """
        self._ask = ask
        self._ids: dict[str, str] = {}
        """By topic, its id when the broker was last asked."""
        self._found: dict[Position, tuple[str, tuple[Cut, ...]]] = {}
        """The cuts of a partition, and the id of the topic that it was of."""
        self._newest_ms = 0
        """The latest time that was heard of as that of a cut, also of one that is known by nothing else."""

    def recall(self, marks: Mapping[Position, Mark]) -> None:
        """Take up what marks say of their partitions. A cut that is known here may not be in them yet."""
        for position, mark in marks.items():
            known_id, known = self._found.get(position, ("", ()))
            newest_ms = known[-1].seen_ms if known and mark.is_of(known_id) else 0
            if mark.cuts and mark.cuts[-1].seen_ms >= newest_ms:
                self._found[position] = mark.topic_id, mark.cuts
            self._is_later_than(one.seen_ms for one in mark.cuts)
            self._is_later_than(mark.since.values())

    def told(self, kafka: Kafka, fronts: Mapping[Position, int]) -> tuple[Kafka, set[Position]]:
        """What the broker says with the cuts that are known, and which partitions it says it of for the first time.

        Args:
            kafka: as the broker said it just now. An end before what was read is believed once it says so again: a leader
                that the others have left behind may have answered, or there is none to answer.
            fronts: up to where its partitions were read, of the topics that are there.
        """
        kafka = self._asked_again(kafka, {topic for topic, _ in _beyond(kafka, fronts)})
        self._ids |= {topic: one for topic, one in kafka.ids.items() if one}
        self._found = {
            position: (topic_id, cuts)
            for position, (topic_id, cuts) in self._found.items()
            if self._ids.get(position[0], topic_id) == topic_id or not topic_id
        }
        # Also where the clock was set back: a later cut has a later time.
        kafka = replace(kafka, asked_ms=max(clock.now_ms(), self._newest_ms + 1))
        new = _beyond(kafka, fronts)
        for position in sorted(new):
            self._add(position, Cut(kafka.asked_ms, kafka.ends[position], fronts[position]))
        return replace(kafka, cuts={one: cuts for one in kafka.ends if (cuts := self.of(one))}), new

    def heard(self, since: Since) -> None:
        """Take up of which cuts a table knows: where the marks are lost, the next one must have a later time all the same."""
        self._is_later_than(since.values())

    def note(self, seen: Mapping[Position, Cut]) -> set[str]:
        """Keep the cuts that a table shows, which has more than Kafka; gives the topics of those that nobody knew of."""
        new = {
            one: cut for one, cut in seen.items() if all(old.seen_ms < cut.seen_ms for old in self.of(one))
        }
        for position, cut in new.items():
            self._add(position, cut)
        return {topic for topic, _ in new}

    def of(self, position: Position) -> tuple[Cut, ...]:
        """Those of one partition, the oldest first."""
        return self._found.get(position, ("", ()))[1]

    def are_known(self, since: Since, positions: Iterable[Position]) -> bool:
        """Whether offsets know of the newest cut of each of these partitions."""
        return all(cuts[-1].seen_ms <= since.get(one, 0) for one in positions if (cuts := self.of(one)))

    def unmarked(self, marks: Mapping[Position, Mark]) -> set[Position]:
        """The partitions whose marks do not tell of all their cuts yet, or that have none."""
        none = Mark(0)
        return {one for one, (_, cuts) in self._found.items() if marks.get(one, none).cuts != cuts}

    def marks(self, marks: Mapping[Position, Mark]) -> dict[Position, Mark]:
        """Those of the marks that do not tell of all cuts yet, with these, and no further than the last of them."""
        return {
            one: replace(marks[one], through=min(marks[one].through, self.of(one)[-1].end), cuts=self.of(one))
            for one in self.unmarked(marks) & marks.keys()
            if marks[one].is_of(self._found[one][0])
        }

    def _asked_again(self, kafka: Kafka, doubtful: Collection[str]) -> Kafka:
        """The same, with the ends of some topics as they are said now; nothing of those partitions that do not answer."""
        if not doubtful:
            return kafka
        now = self._ask(doubtful)
        untold = {
            one
            for one in kafka.positions(doubtful)
            if one not in now.ends or now.ids.get(one[0]) != kafka.ids.get(one[0])
        }
        return replace(
            kafka,
            starts={one: start for one, start in kafka.starts.items() if one not in untold},
            ends={one: now.ends.get(one, end) for one, end in kafka.ends.items() if one not in untold},
        )

    def _is_later_than(self, times: Iterable[int]) -> None:
        self._newest_ms = max([self._newest_ms, *times])

    def _add(self, position: Position, cut: Cut) -> None:
        self._is_later_than([cut.seen_ms])
        topic, partition = position
        self._found[position] = self._ids.get(topic, ""), with_cut(self.of(position), cut)
        logs.get().error(
            "topic_cut_back", topic=topic, partition=partition, read_to=cut.front, ends_at=cut.end
        )


def _beyond(kafka: Kafka, fronts: Mapping[Position, int]) -> set[Position]:
    """The partitions that end before where they were read to."""
    return {one for one, end in kafka.ends.items() if fronts.get(one, 0) > end}
