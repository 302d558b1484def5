"""Which of the partitions that a table lacks it is brought next.

One that it has not begun may have come later, with keys that were in a lower one before. So it waits until the lower ones
are read to where their front was when it was first seen to be lacking: the front had passed all that is older by then.
To wait until nothing is lacking in them could take for ever, because the front goes on.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from isotherm_ingest.plan.known import Known
from isotherm_ingest.plan.shares import Ranges
from isotherm_ingest.plan.stretches import readable
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.plan.topic_partition import Position

Lacks = Mapping[str, Mapping[Position, tuple[int, int]]]
"""By table, what it lacks of each Kafka partition."""


@dataclass(slots=True)
class CatchingUp:
    """The order of partitions, for the tables that are behind."""

    _fronts: dict[str, dict[Position, Mapping[Position, int]]] = field(default_factory=dict)
    """By table: of each partition that it has not begun, the front of the topic when that was seen first."""

    def note(
        self,
        behind: Lacks,
        front: Mapping[str, Mapping[Position, int]],
        starts: Mapping[Position, int],
        known: Iterable[Known],
    ) -> None:
        """Note where the front is of what tables have not begun.

        Where the marks were lost, it has gone back to where the tables are: then what the others have counts.
        """
        now = {topic: dict(through) for topic, through in front.items()}
        for one in known if behind else ():
            for position, through in one.through.items():
                if through > now.get(position[0], {}).get(position, through):
                    now[position[0]][position] = through
        self._fronts = {
            name: {
                one: self._fronts.get(name, {}).get(one, now[one[0]])
                for one, (first, _) in lacks.items()
                if first <= starts.get(one, 0)
            }
            for name, lacks in behind.items()
        }

    def next(self, behind: Lacks, kafka: Kafka) -> dict[str, Ranges]:
        """What each table may be brought now: what it has begun, and what waits for nothing that is older.

        What has no leader now is read when it has, and has others wait until then.
        """
        allowed = {
            name: readable(
                {
                    one: span
                    for one, span in lacks.items()
                    if one in kafka.ends and not self._waits(name, one, lacks)
                },
                kafka.damaged,
            )
            for name, lacks in behind.items()
        }
        return {name: spans for name, spans in allowed.items() if spans}

    def _waits(self, name: str, position: Position, lacks: Mapping[Position, tuple[int, int]]) -> bool:
        front = self._fronts.get(name, {}).get(position)
        if front is None:
            return False
        topic, number = position
        return any(
            other == topic and lower < number and first < front.get((other, lower), first)
            for (other, lower), (first, _) in lacks.items()
        )
