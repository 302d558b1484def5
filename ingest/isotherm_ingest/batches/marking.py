"""What a driver keeps in the marks: how far each topic was seen, and what was known of its tables then."""

from collections.abc import Callable, Collection, Mapping

from isotherm_ingest.batches.cut_back_topics import CutTopics
from isotherm_ingest.batches.tables import Tables
from isotherm_ingest.known_in_marks import known_of, named, of_topics, with_known
from isotherm_ingest.mark_text import Mark
from isotherm_ingest.marks import Marks
from isotherm_ingest.plan.known import Known
from isotherm_ingest.plan.topic_partition import Position
from isotherm_ingest.plan.topics import Topic

REMIND_EVERY_S = 3_600.0
"""All marks are committed again after this: brokers forget offsets that nobody renews (after a week by default)."""


class Marking:
    """The marks as they were read and committed last."""

    def __init__(
        self,
        marks: Marks,
        cuts: CutTopics,
        announced: Callable[[str], str | None],
        names: Callable[[str], str],
    ) -> None:
        """Nothing is read yet. `names` gives the letters of a topic's table names (`mark_text.names_of`)."""
        self._marks, self._cuts, self._announced, self._names = marks, cuts, announced, names
        self.marked: dict[Position, Mark] = {}
        self._reminded_s = float("-inf")
        self._unsaid: set[str] = set()
        """Topics whose marks are still to be committed."""

    def take_over(self) -> None:
        """As `Marks.take_over`."""
        self._marks.take_over()

    def read(self, positions: list[Position]) -> dict[Position, Mark]:
        """What Kafka has."""
        return self._marks.read(positions)

    def take_up(self, marks: Mapping[Position, Mark], ids: Mapping[str, str]) -> None:
        """Believe what was read, of topics that have these ids now."""
        self.marked |= of_topics(marks, ids)
        self._cuts.recall(marks)

    def forget(self, topic: str) -> None:
        """A topic is not listed any more."""
        self.marked = {position: mark for position, mark in self.marked.items() if position[0] != topic}

    def names(self, topics: Collection[str] | None = None) -> set[str]:
        """Every table that the marks name, or those of some topics."""
        return named(self._of(topics))

    def known(self, name: str, topics: Collection[str] | None = None) -> Known | None:
        """What the marks say of a table, or those of some topics."""
        return known_of(self._of(topics), name, self._announced)

    def _of(self, topics: Collection[str] | None) -> Mapping[Position, Mark]:
        if topics is None:
            return self.marked
        return {position: mark for position, mark in self.marked.items() if position[0] in topics}

    def is_of(self, position: Position, topic_id: str) -> bool:
        """Whether there is a mark, and not one of a topic of that name that is gone."""
        mark = self.marked.get(position)
        return mark is not None and mark.is_of(topic_id)

    def repeat(self) -> None:
        """Commit all that was read, under the name of this driver."""
        self._commit(self.marked)

    def remember(self, names: set[str], topics: Mapping[str, Topic], tables: Tables, now_s: float) -> None:
        """Commit how far the topics of these names were seen through; from time to time, all of them."""
        all_again = now_s - self._reminded_s >= REMIND_EVERY_S
        self._unsaid |= names | (topics.keys() if all_again else set())
        known = tables.known()
        marks = {
            position: mark
            for name in self._unsaid & topics.keys()
            for position, mark in self._marks_of(topics[name], tables.of_topic(name), known).items()
            if all_again or self.marked.get(position) != mark
        }
        self._commit(marks)
        self._unsaid.clear()
        if all_again:
            self._reminded_s = now_s

    def keep_cuts(self) -> None:
        """Commit the cuts that no mark tells of yet: before anybody writes behind them, or forgets them."""
        self._commit(self._cuts.marks(self.marked))

    def close(self) -> None:
        """Leave."""
        self._marks.close()

    def _commit(self, marks: Mapping[Position, Mark]) -> None:
        for committed in self._marks.write(marks):
            self.marked |= committed

    def _marks_of(
        self, topic: Topic, tables: Collection[str], known: Mapping[str, Known]
    ) -> dict[Position, Mark]:
        """How far the topic was seen through, with what is known of its tables, also of those that are gone."""
        readers = {name: known[name] for name in tables & known.keys()}
        names = self._names(topic.name)
        new = {
            one: Mark(seen, topic.topic_id, cuts=self._cuts.of(one), names=names)
            for one, seen in topic.through.items()
        }
        return {one: with_known(mark, self.marked.get(one), one, readers) for one, mark in new.items()}
