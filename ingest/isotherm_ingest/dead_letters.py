"""Messages that cannot be written to their table: sent on, whole, with the reason.

They are acknowledged before the table's commit moves its vector past them, so none is lost; a replay may send one
twice, told apart by its headers (topic, partition, offset). Key, value and headers are the original bytes. Of a
message that the topic does not take for its size, only ours are sent: where it is, its length and its hash.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from pyspark.sql import DataFrame

from isotherm.runtime import logs
from isotherm_ingest.kafka import Broker, Record, TooLargeError
from isotherm_ingest.metrics import Metrics

COLUMNS = ("key", "value", "headers", "timestamp", "topic", "partition", "offset", "problem")
_POSITION = ("isotherm.topic", "isotherm.partition", "isotherm.offset")
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
            self._send([self._record(row) for row in chunk])
            for row in chunk:
                self._metrics.dead_letters.labels(_label(row["problem"])).inc()
            count += len(chunk)
        return count

    def _send(self, records: Sequence[Record]) -> None:
        try:
            self._broker.send(records)
        except TooLargeError as err:
            if len(records) > 1:  # a small one may have shared a request with a large one
                for record in err.records:
                    self._send([record])
                return
            (record,) = records
            logs.get().error(
                "dead_letter_too_large",
                bytes=len(record.value or b""),
                **{name: (text or b"").decode() for name, text in record.headers if name in _POSITION},
            )
            self._broker.send([_without_body(record)])

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


def _without_body(record: Record) -> Record:
    """Where the message is, and what it was, for a topic that does not take the message itself."""
    body = record.value or b""
    about = {
        "isotherm.value_bytes": str(len(body)),
        "isotherm.value_sha256": hashlib.sha256(body).hexdigest(),
    }
    kept = [(name, text) for name, text in record.headers if name.startswith("isotherm.")]
    return Record(record.topic, None, None, [*kept, *((name, text.encode()) for name, text in about.items())])


def _plain(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def _label(problem: str) -> str:
    """The reason without its details, from a closed list."""
    return problem.partition(":")[0]


def _chunks(rows: Iterator[Any]) -> Iterable[list[Any]]:
    while chunk := list(islice(rows, CHUNK)):
        yield chunk
