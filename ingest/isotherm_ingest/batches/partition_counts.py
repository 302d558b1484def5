"""How many partitions each topic had, because a mirror's keys move where their number changes."""

from collections.abc import Iterable

from isotherm.runtime import logs
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.plan.topics import NOT_MULTIPLIED
from isotherm_ingest.streams import Stream


class PartitionCounts:
    """As this driver has seen them."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._listed: dict[str, frozenset[int]] = {}

    def seen(self, topic: str, partitions: Iterable[int], stream: Stream | None) -> None:
        """Keep their numbers, and tell where a mirror's keys may have moved between partitions that were there."""
        listed = frozenset(partitions)
        if not (count := len(listed)):
            return  # the broker could not say
        was = len(self._listed.get(topic, listed))
        self._listed[topic] = listed
        if was < count and count % was and stream is not None and stream.mode == "mirror":
            logs.get().error(
                "partitions_not_multiplied", topic=topic, was=was, now=count, hint=NOT_MULTIPLIED
            )
            self._metrics.holes.labels(stream.table, "partitions_not_multiplied").inc()

    def of(self, topic: str) -> int:
        """How many a topic has, those without a leader too; 0 where the broker could never say."""
        return len(self.listed(topic))

    def listed(self, topic: str) -> frozenset[int]:
        """The numbers of its partitions, with those without a leader; none where the broker could never say."""
        return self._listed.get(topic, frozenset())

    def forget(self, topic: str) -> None:
        """The topic is gone."""
        self._listed.pop(topic, None)
