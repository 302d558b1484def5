"""How many partitions each topic had, because a mirror's keys move where their number changes."""

from isotherm.runtime import logs
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.plan.topics import NOT_MULTIPLIED
from isotherm_ingest.streams import Stream


class PartitionCounts:
    """As this driver has seen them."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._counts: dict[str, int] = {}

    def seen(self, topic: str, count: int, stream: Stream | None) -> None:
        """Tell where a mirror's keys may have moved between partitions that were there."""
        if not count:
            return  # the broker could not say
        was = self._counts.get(topic, count)
        self._counts[topic] = count
        if was < count and count % was and stream is not None and stream.mode == "mirror":
            logs.get().error(
                "partitions_not_multiplied", topic=topic, was=was, now=count, hint=NOT_MULTIPLIED
            )
            self._metrics.holes.labels(stream.table, "partitions_not_multiplied").inc()

    def of(self, topic: str) -> int:
        """How many a topic has, those without a leader too; 0 where the broker could never say."""
        return self._counts.get(topic, 0)

    def forget(self, topic: str) -> None:
        """The topic is gone."""
        self._counts.pop(topic, None)
