"""Messages that cannot be written to their table: sent on, whole, with the reason.

They are acknowledged before the table's commit moves its vector past them, so none is lost; a replay may send one
twice, told apart by its headers (topic, partition, offset). Key, value and headers are the original bytes.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from pyspark.sql import DataFrame

from isotherm_ingest.kafka import Broker, Record
from isotherm_ingest.metrics import Metrics

COLUMNS = ("key", "value", "headers", "timestamp", "topic", "partition", "offset", "problem")
CHUNK = 500
"""Messages in memory at once."""


class DeadLetters:
    """The dead-letter topic."""

    def __init__(self, broker: Broker, topic: str, pipeline: str, metrics: Metrics) -> None:
        """Send to `topic` in the name of `pipeline`."""
        self._broker = broker
        self._topic = topic
        self._pipeline = pipeline
        self._metrics = metrics

    def send(self, messages: DataFrame) -> int:
        """Send every message of a frame; gives their number.

        The frame has the columns of Spark's Kafka source, headers included, and `problem`.

        Raises:
            BrokerError: not all of them were acknowledged.
        """
        rows = messages.select(*COLUMNS)
        count = 0
        for chunk in _chunks(rows.toLocalIterator()):
            self._broker.send([self._record(row) for row in chunk])
            for row in chunk:
                self._metrics.dead_letters.labels(_label(row["problem"])).inc()
            count += len(chunk)
        return count

    def _record(self, row: Any) -> Record:
        kept = [(header["key"], _plain(header["value"])) for header in row["headers"] or ()]
        ours = {
            "isotherm.reason": _label(row["problem"]),
            "isotherm.error": row["problem"],
            "isotherm.pipeline": self._pipeline,
            "isotherm.topic": row["topic"],
            "isotherm.partition": str(row["partition"]),
            "isotherm.offset": str(row["offset"]),
            "isotherm.timestamp": str(row["timestamp"]),
        }
        headers = [*kept, *((name, text.encode()) for name, text in ours.items())]
        return Record(self._topic, _plain(row["key"]), _plain(row["value"]), headers)


def _plain(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def _label(problem: str) -> str:
    """The reason without its details, from a closed list."""
    return problem.partition(":")[0]


def _chunks(rows: Iterator[Any]) -> Iterable[list[Any]]:
    while chunk := list(islice(rows, CHUNK)):
        yield chunk
