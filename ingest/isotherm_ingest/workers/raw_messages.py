"""Raw messages, told apart by topic and schema."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from isotherm_ingest.decode.debezium_json import DebeziumJson
from isotherm_ingest.decode.debezium_messages import MESSAGES
from isotherm_ingest.decode.formats import Format, Identity, Message, Sample
from isotherm_ingest.decode.routed import Routed

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
NO_SCHEMA = 0
"""Stands for no schema at all."""
_KNOWN = 10_000
"""Schemas whose numbers are kept; garbage may bring any number of them."""
_DEFAULT = DebeziumJson()


@dataclass(frozen=True, slots=True)
class Group:
    """The messages of one topic and one schema in a batch."""

    topic: str
    schema: int
    rows: pa.RecordBatch
    """As they came."""
    format: Format
    identity: Identity | None
    bodies: Sequence[bytes]
    """What of their values is decoded."""
    keys: Sequence[bytes | None]
    """Those that are decoded."""
    problem: str | None = None
    """Why they go nowhere, where what they say themselves decides that."""

    def to_decode(self) -> pa.RecordBatch:
        """As the decoder takes them."""
        bodies, keys = self.bodies, self.keys
        if self.identity is not None:
            bodies, keys = self.format.texts(self.identity, bodies, keys)
        return pa.RecordBatch.from_arrays(
            [
                pa.array(bodies, pa.binary()),
                pa.array(keys, pa.binary()),
                _moved(self.rows.column("headers")),
                *(self.rows.column(name) for name in ("topic", "partition", "offset")),
            ],
            schema=MESSAGES,
        )

    def sample(self) -> Sample | None:
        """What a message says of what those of the group look like; None where none does."""
        return self.format.sample(self._messages())

    def is_bookkeeping(self) -> bool:
        """Whether it is what a source says of itself."""
        return self.format.is_bookkeeping(self._messages())

    def _messages(self) -> Iterator[Message]:
        columns = (self.rows.column(name).to_pylist() for name in ("value", "key", "headers"))
        return zip(*columns, strict=True)


class Sorter:
    """Numbers the schemas that it meets; the same schema has the same number everywhere."""

    def __init__(self, formats: Mapping[str, Format] | None = None) -> None:
        """Of some topics the format is told; all others are Debezium's JSON."""
        self._formats = formats or {}
        self._numbers: dict[Identity, int] = {}

    def groups(self, batch: pa.RecordBatch) -> Iterator[Group]:
        """The messages of a batch by topic and schema, in the order of their first ones; tombstones are left out."""
        found: dict[tuple[str, int], tuple[Identity | None, list[int], list[bytes], list[bytes | None]]] = {}
        columns = [batch.column(name).to_pylist() for name in ("topic", "value", "key", "headers")]
        for place, (topic, value, key, headers) in enumerate(zip(*columns, strict=True)):
            if value is None:
                continue
            identity, body, wanted_key = self._formats.get(topic, _DEFAULT).apart(value, key, headers)
            _, places, bodies, keys = found.setdefault(
                (topic, self._number(identity)), (identity, [], [], [])
            )
            places.append(place)
            bodies.append(body)
            keys.append(wanted_key)
        for (topic, schema), (identity, places, bodies, keys) in found.items():
            rows = batch if len(places) == batch.num_rows else batch.take(pa.array(places, pa.int64()))
            form = self._formats.get(topic, _DEFAULT)
            group = Group(topic, schema, rows, form, identity, bodies, keys)
            yield from self._routed(group, form) if isinstance(form, Routed) else [group]

    def _routed(self, group: Group, form: Routed) -> Iterator[Group]:
        """The messages of a group, told apart by where each of them says that it goes."""
        if group.identity is None:
            yield group
            return
        for part in form.parts(group.identity, group.bodies, group.keys):
            rows = group.rows.take(pa.array(part.places, pa.int64()))
            number = self._number(part.identity)
            yield Group(
                group.topic, number, rows, part.format, part.identity, part.bodies, part.keys, part.problem
            )

    def _number(self, identity: Identity | None) -> int:
        if identity is None:
            return NO_SCHEMA
        if identity not in self._numbers:
            if len(self._numbers) >= _KNOWN:
                self._numbers.clear()
            text = b"\0".join(one if one is not None else b"\1" for one in identity)
            digest = hashlib.blake2b(text, digest_size=8).digest()
            self._numbers[identity] = int.from_bytes(digest, signed=True) or 1
        return self._numbers[identity]


def _moved(headers: pa.Array) -> pa.Array:
    """Of each message whether it came by a change of its row's key."""
    if headers.null_count == len(headers):
        return pa.array([False] * len(headers), pa.bool_())
    return pc.fill_null(pc.match_substring(headers, _MOVED), fill_value=False)
