"""The stretches of topics that nobody can unpack, as far as this driver knows: where they are, and whether they still are.

They are written down nowhere. A driver that begins comes upon them again when a table needs them; where none does, they
are of no concern.
"""

from collections.abc import Callable, Iterable, Mapping

from isotherm_ingest.plan.shares import Ranges
from isotherm_ingest.plan.stretches import Stretches
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.plan.topic_partition import Position
from isotherm_ingest.workers.reading import damage_in


class Damage:
    """Found where reading failed; forgotten with the messages, with the topic, and where they can be read again."""

    def __init__(self, first_readable: Callable[[Position, int, int], int | None]) -> None:
        """`first_readable` asks the broker from where on a partition can be read: a position, an offset, the end."""
        self._first_readable = first_readable
        self._found: dict[Position, dict[int, int]] = {}
        self._ids: dict[str, str] = {}

    def stretches(self) -> Stretches:
        """All that are known."""
        return self._found

    def of(self, kafka: Kafka) -> Stretches:
        """Those of some topics, as the broker has them now."""
        for topic, one in kafka.ids.items():
            if self._ids.get(topic, one) != one:
                self._found = {position: old for position, old in self._found.items() if position[0] != topic}
        for position, start in kafka.starts.items():
            for first, beyond in list(self._found.get(position, {}).items()):
                if beyond <= start or first >= kafka.ends.get(position, beyond):
                    del self._found[position][first]
        return {position: dict(one) for position, one in self._found.items() if position in kafka.ends}

    def explains(self, error: BaseException, ranges: Ranges, kafka: Kafka) -> bool:
        """Whether a batch failed on messages that cannot be unpacked; they are known then."""
        told = damage_in(error)
        if told is None or told[0] not in ranges or told[0] not in kafka.ends:
            return False
        position, offset = told
        if not ranges[position][0] <= offset < ranges[position][1]:
            return False
        beyond = self._first_readable(position, offset, kafka.ends[position])
        if beyond is None or beyond == offset:
            return False
        self._ids[position[0]] = kafka.ids.get(position[0], "")
        self._found.setdefault(position, {})[offset] = beyond
        return True

    def try_again(self, needs: Iterable[Mapping[Position, int]]) -> None:
        """Forget what somebody needs and can be read by now: a broker's disk is restored, another replica leads."""
        for position, offset in {one for each in needs for one in each.items()}:
            for first, beyond in list(self._found.get(position, {}).items()):
                if first <= offset < beyond and self._first_readable(position, first, first + 1) == first:
                    del self._found[position][first]
