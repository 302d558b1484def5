"""Raw messages, told apart by topic and schema.

Connect's converter writes the schema first, so the bytes before the payload tell schemas apart. They are most of a
message: what is decoded begins behind them.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from isotherm_ingest.decode import debezium_schema
from isotherm_ingest.decode.debezium_messages import MESSAGES

RAW = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.string()),
        ("timestamp", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)
"""Messages as they are read. Headers are JSON, with values in base64; the timestamp is in milliseconds since 1970."""
_MOVED = '"key":"__debezium.oldkey"'
"""In the headers of the insert by which Debezium says that a row has got another key."""
_OWN, _ENVELOPE = "io.debezium.", ".Envelope"
"""How the schemas of Debezium's own messages are named, and how that of a change ends, whatever its topic is called."""
NO_SCHEMA = 0
"""Stands for no schema at all."""
_SCHEMA, _PAYLOAD = debezium_schema.SCHEMA.encode(), debezium_schema.PAYLOAD.encode()
_DELETE = b'"op":"d"'
_KNOWN = 10_000
"""Schemas whose numbers are kept; garbage may bring any number of them."""


@dataclass(frozen=True, slots=True)
class Group:
    """The messages of one topic and one schema in a batch."""

    topic: str
    schema: int
    rows: pa.RecordBatch
    """As they came."""
    bodies: list[bytes]
    """Their values; without the schema, where that comes first."""
    is_cut: list[bool]
    """Whether it came first."""

    def to_decode(self) -> pa.RecordBatch:
        """As the decoder takes them. Of the keys, those of deletes, and all where the schema is not known to be first."""
        keys = [
            None if is_cut and _DELETE not in body else key
            for key, body, is_cut in zip(
                self.rows.column("key").to_pylist(), self.bodies, self.is_cut, strict=True
            )
        ]
        return pa.RecordBatch.from_arrays(
            [
                pa.array(self.bodies, pa.binary()),
                pa.array(keys, pa.binary()),
                _moved(self.rows.column("headers")),
                *(self.rows.column(name) for name in ("topic", "partition", "offset")),
            ],
            schema=MESSAGES,
        )


class Sorter:
    """Numbers the schemas that it meets; the same schema has the same number everywhere."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[bytes | None, bytes | None], int] = {}

    def groups(self, batch: pa.RecordBatch) -> Iterator[Group]:
        """The messages of a batch by topic and schema, in the order of their first ones; tombstones are left out."""
        places: dict[tuple[str, int], list[int]] = {}
        bodies: dict[tuple[str, int], list[bytes]] = {}
        is_cut: dict[tuple[str, int], list[bool]] = {}
        columns = [batch.column(name).to_pylist() for name in ("topic", "value", "key")]
        for place, (topic, value, key) in enumerate(zip(*columns, strict=True)):
            if value is None:
                continue
            schema, body = _apart(value)
            group = (topic, self._number(schema, key))
            places.setdefault(group, []).append(place)
            bodies.setdefault(group, []).append(body)
            is_cut.setdefault(group, []).append(body is not value)
        for group, mine in places.items():
            rows = batch if len(mine) == batch.num_rows else batch.take(pa.array(mine, pa.int64()))
            yield Group(*group, rows, bodies[group], is_cut[group])

    def _number(self, schema: bytes | None, key: bytes | None) -> int:
        if schema is None:
            return NO_SCHEMA
        known = (schema, None if key is None else _apart(key)[0])
        if known not in self._numbers:
            if len(self._numbers) >= _KNOWN:
                self._numbers.clear()
            text = b"\0".join(one if one is not None else b"\1" for one in known)
            digest = hashlib.blake2b(text, digest_size=8).digest()
            self._numbers[known] = int.from_bytes(digest, signed=True) or 1
        return self._numbers[known]


def sample(group: Group) -> tuple[str, str | None] | None:
    """The value and the key of a message that says what those of its group look like, as text; None where none does."""
    for value, key in zip(
        group.rows.column("value").to_pylist(), group.rows.column("key").to_pylist(), strict=True
    ):
        try:
            text = value.decode()
            message = json.loads(text)
            payload = message["payload"]
            if payload["op"] is None or not isinstance(payload["source"], dict):
                continue
        except (ValueError, RecursionError, KeyError, TypeError):
            continue
        return text, None if key is None else key.decode(errors="replace")
    return None


def is_bookkeeping(group: Group) -> bool:
    """Whether a group is Debezium's own: begins and ends of transactions, changes of schemas, heartbeats, notifications."""
    for value in group.rows.column("value").to_pylist():
        try:
            name = json.loads(value)["schema"]["name"]
            return isinstance(name, str) and name.startswith(_OWN) and not name.endswith(_ENVELOPE)
        except (ValueError, RecursionError, KeyError, TypeError):
            continue
    return False


def _apart(message: bytes) -> tuple[bytes | None, bytes]:
    """The schema in a value or a key, and what comes behind it; the whole where the schema is not first."""
    if message.startswith(_SCHEMA):
        found = message.find(_PAYLOAD)
        if found > 0:
            return message[:found], b"{" + message[found + 1 :]
    try:
        data = json.loads(message)
    except (ValueError, RecursionError):
        return None, message
    schema = data.get("schema") if isinstance(data, dict) else None
    return None if schema is None else json.dumps(schema).encode(), message


def _moved(headers: pa.Array) -> pa.Array:
    """Of each message whether it came by a change of its row's key."""
    if headers.null_count == len(headers):
        return pa.array([False] * len(headers), pa.bool_())
    return pc.fill_null(pc.match_substring(headers, _MOVED), fill_value=False)
