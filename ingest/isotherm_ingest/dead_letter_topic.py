"""Messages that cannot be written to their table: sent on, whole, with the reason.

They are acknowledged before the table's commit moves its vector past them, so none is lost. A driver that begins may send
one twice, told apart by its headers (topic, partition, offset). Key, value and headers are the original bytes. Of a
message that the topic does not take for its size, only ours are sent: where it is, its length and its hash.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from isotherm.runtime import logs
from isotherm_ingest.kafka import Broker, Record, TooLargeError
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.plan.topic_partition import Position

_POSITION = ("isotherm.topic", "isotherm.partition", "isotherm.offset")
_OURS = ("isotherm.reason", "isotherm.error", "isotherm.pipeline", *_POSITION, "isotherm.timestamp")
CHUNK = 500
"""Messages in memory at once."""
MAX_PROBLEM = 300
"""Letters of a problem that are kept: it may repeat what the message says, and a topic that refused that is to take this."""


def problem_of(reason: str, why: object) -> str:
    """The problem of messages: a reason from a closed list, and why, for people."""
    return f"{reason}:{why}"[:MAX_PROBLEM].encode(errors="replace").decode()


class DeadLetters:
    """The dead-letter topic."""

    def __init__(self, broker: Broker, topic: str, pipeline: str, metrics: Metrics) -> None:
        """Send to `topic` in the name of `pipeline`."""
        self._broker = broker
        self._topic = topic
        self._pipeline = pipeline
        self._metrics = metrics

    def send(self, messages: Iterable[pa.Table]) -> int:
        """Send every message; gives their number.

        Each table has `workers.raw_messages.RAW` and `problem`.

        Raises:
            BrokerError: not all of them were acknowledged.
        """
        count = 0
        for some in messages:
            for rows in some.to_batches(CHUNK):
                chunk = rows.to_pylist()
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
            said = _of_ours(record)
            place = {name: said[name].decode() for name in _POSITION}
            logs.get().error("dead_letter_too_large", bytes=len(record.value or b""), **place)
            self._broker.send([_without_body(record)])

    def _record(self, row: Any) -> Record:
        kept = [(one["key"], _decoded(one.get("value"))) for one in json.loads(row["headers"] or "[]")]
        ours = {
            "isotherm.reason": _label(row["problem"]),
            "isotherm.error": row["problem"][:MAX_PROBLEM],
            "isotherm.pipeline": self._pipeline,
            "isotherm.topic": row["topic"],
            "isotherm.partition": str(row["partition"]),
            "isotherm.offset": str(row["offset"]),
            "isotherm.timestamp": _moment(row["timestamp"]),
        }
        headers = [*kept, *((name, text.encode()) for name, text in ours.items())]
        return Record(self._topic, row["key"], row["value"], headers)


class Sent:
    """Messages that were sent on, of batches that are not done: one that is tried again sends none of them twice."""

    def __init__(self) -> None:
        # By its timestamp, too, a message is told from one of another topic that came under the name.
        self._sent: set[tuple[str, int, int, int]] = set()

    def unsent(self, letters: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Those of the letters that were not sent. Who asks for the next ones has sent those before."""
        for some in letters:
            columns = (
                some.column(name).to_pylist() for name in ("topic", "partition", "offset", "timestamp")
            )
            those = list(zip(*columns, strict=True))
            yield some.filter(pa.array([one not in self._sent for one in those], pa.bool_()))
            self._sent.update(those)

    def forget(self, ranges: Mapping[Position, tuple[int, int]]) -> None:
        """What is in these ranges was written, or needs no writing."""
        done = {one for one in self._sent if one[2] in range(*ranges.get(one[:2], (0, 0)))}
        self._sent -= done


def _without_body(record: Record) -> Record:
    """Where the message is, and what it was, for a topic that does not take the message itself."""
    body = record.value or b""
    about = {
        "isotherm.value_bytes": str(len(body)),
        "isotherm.value_sha256": hashlib.sha256(body).hexdigest(),
    }
    told = {**_of_ours(record), **{name: text.encode() for name, text in about.items()}}
    return Record(record.topic, None, None, list(told.items()))


def _of_ours(record: Record) -> dict[str, bytes]:
    """What we say of the message. It comes behind the message's own headers, which may have the same names."""
    said = dict(record.headers)
    return {name: said[name] or b"" for name in _OURS}


def _decoded(value: str | None) -> bytes | None:
    return None if value is None else base64.b64decode(value)


def _moment(milliseconds: int) -> str:
    """As ISO 8601 says it; what is beyond Python's years stays a number."""
    try:
        return str(datetime.fromtimestamp(milliseconds / 1000, UTC).replace(tzinfo=None))
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)


def _label(problem: str) -> str:
    """The reason without its details, from a closed list."""
    return problem.partition(":")[0]
