"""Avro with schemas in a registry (`format: avro`): Debezium's change events, or, with `envelope: none`, events of anybody.

A message says the id of its schema: in front of it, or in a header. The driver asks the registry for schemas, once for each
id, and tells the workers; these send back the ids that they do not know. Messages become the JSON that those with a schema
would be, so that behind the door nothing is new: many at once where that can be, by `avro_columns`, else one by one.
"""

import base64
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

from isotherm_ingest.decode import avro_columns
from isotherm_ingest.decode.avro_kinds import column_of
from isotherm_ingest.decode.avro_schema import Node, parsed
from isotherm_ingest.decode.avro_values import BadDatumError, passed_over, reader
from isotherm_ingest.decode.debezium_schema import (
    ChangeSchema,
    Column,
    checked,
    document_schema,
    names_a_table,
    source_of,
    whole_source,
)
from isotherm_ingest.decode.formats import Apart, Identity, Message, Sample
from isotherm_ingest.decode.kinds import SchemaError

Framing = Literal["confluent", "eight-bytes", "headers"]
"""Where a message says its schema: in four bytes behind a zero (Confluent, and Apicurio as it is set by default); in eight
(older ones of Apicurio); or in headers (Apicurio's serializers, where they are told so)."""
FEW = 256
"""Messages that are read one by one as quickly as together."""
KEPT = 1_000
"""Schemas whose readers are kept."""
SOURCE_FIELDS = ("schema", "db", "table", "collection", "ts_ms", "lsn")
_DELETE = b'"op":"d"'
_IDS = {"confluent": 4, "eight-bytes": 8}
_HEADERS = {"apicurio.{}.contentId": 1, "apicurio.{}.globalId": -1}
"""A global id is told as a number below zero, because another schema may have the same id as its content's."""


@dataclass(frozen=True)
class Avro:
    """Avro messages."""

    framing: Framing
    has_envelope: bool = True
    schemas: Mapping[int, str] = field(default_factory=dict)
    """Those that the registry has told, by id."""
    no_keys: frozenset[bytes] = frozenset()
    """Ids in front of keys that are none of Avro, as of any other serializer: a message with one counts as one without a key."""

    def apart(self, value: bytes, key: bytes | None, headers: str | None) -> Apart:
        """By the ids of the schemas. Events of anybody are told apart by that of their value alone."""
        number, body = self._apart(value, headers, "value")
        if number is None:
            return None, value, key
        if not self.has_envelope:
            return (b"avro", number), body, None
        of_key, key_body = (None, None) if key is None else self._apart(key, headers, "key")
        if of_key in self.no_keys:
            of_key = None
        return (b"avro", number, of_key), body, None if of_key is None else key_body

    def _apart(self, message: bytes, headers: str | None, what: str) -> tuple[bytes | None, bytes]:
        if self.framing == "headers":
            return _id_in(headers, what), message
        size = _IDS[self.framing]
        if len(message) <= size or message[0]:
            return None, message
        return str(int.from_bytes(message[1 : size + 1])).encode(), message[size + 1 :]

    def texts(
        self, identity: Identity, bodies: Sequence[bytes], keys: Sequence[bytes | None]
    ) -> tuple[Sequence[bytes], Sequence[bytes | None]]:
        """As JSON, with the keys of deletes and of documents; what is none is empty, and not read by anybody."""
        ids = _ids(identity)
        if any(one not in self.schemas for one in ids):
            raise LookupError(f"of schemas {ids} not all are known")
        values = _texts(self.schemas[ids[0]], self.has_envelope, bodies)
        if len(ids) == 1:
            return values, [None] * len(keys)
        read, are_documents = _key_reader(self.schemas[ids[1]]), _are_documents(self.schemas[ids[0]])
        return values, [
            read(key) if key is not None and (are_documents or _DELETE in value) else None
            for value, key in zip(values, keys, strict=True)
        ]

    def sample(self, messages: Iterable[Message]) -> Sample | None:
        """The ids, with what the driver must know of the source; or the ids alone, where their schemas are not known yet."""
        found: Sample | None = None
        for value, key, headers in messages:
            identity, body, _ = self.apart(value, key, headers)
            ids = _ids(identity)
            if ids[0] not in self.schemas:
                return json.dumps({"ids": ids}), None
            if not _may_be_read(self.schemas[ids[0]], self.has_envelope):
                return json.dumps({"ids": ids, "source": None}), None  # the driver says why
            if any(one not in self.schemas for one in ids):
                bodies = [body, *(self.apart(*one)[1] for one in messages)]
                return json.dumps({"ids": ids, "deletes": self._have_deletes_by_key(ids[0], bodies)}), None
            (text,) = _texts(self.schemas[ids[0]], self.has_envelope, [body])
            payload = json.loads(text)["payload"] if text else {}
            if payload.get("op") is None:
                continue
            source = payload.get("source")
            one = json.dumps({"ids": ids, "source": source}), None
            if not self.has_envelope or names_a_table(source):
                return one
            found = found or one
        return found

    def _have_deletes_by_key(self, number: int, bodies: Sequence[bytes]) -> bool:
        """Whether one of these messages has nothing but its key: a delete without an old row, and whatever happens to a document."""
        if _are_documents(self.schemas[number]):
            return True
        texts = _texts(self.schemas[number], self.has_envelope, bodies)
        return any(_DELETE in one and json.loads(one)["payload"].get("before") is None for one in texts)

    def says_all(self, value: str) -> bool:
        """Whether it names a table; or asks for what nobody has read by yet, or needs what it asks for."""
        told = json.loads(value)
        if "deletes" in told:
            return bool(told["deletes"])
        return not self.has_envelope or "source" not in told or names_a_table(told["source"])

    def is_bookkeeping(self, messages: Iterable[Message]) -> bool:
        """Whether their schema is one of Debezium's own, and no change's."""
        for value, key, headers in messages:
            identity, _, _ = self.apart(value, key, headers)
            name = _name_of(self.schemas.get(_ids(identity)[0], ""))
            return self.has_envelope and name.startswith("io.debezium.") and not name.endswith(".Envelope")
        return False

    def wanted(self, sample: str) -> Sequence[int] | None:
        """Ids of the schemas that a sample asks for; None where it asks for none, but says its source."""
        told = json.loads(sample)
        return None if "source" in told else told["ids"]

    def has_deletes(self, sample: str) -> bool | None:
        """Whether messages like a sample that asks for the schema of their keys need it; None where nobody could tell yet."""
        deletes: bool | None = json.loads(sample).get("deletes")
        return deletes

    def with_schemas(self, schemas: Mapping[int, str], no_keys: Collection[int] = ()) -> "Avro":
        """The same, which knows these schemas, and ids of keys that are none."""
        return replace(self, schemas=schemas, no_keys=frozenset(str(one).encode() for one in no_keys))

    def schema(self, value: str, key: str | None) -> ChangeSchema:  # noqa: ARG002 (of the port)
        """As the registry tells. Raises SchemaError."""
        told = json.loads(value)
        node = parsed(self.schemas[told["ids"][0]])
        if node.type != "record":
            raise SchemaError(f"messages of Avro's type {node.type}, which have no fields")
        if not self.has_envelope:
            return ChangeSchema(_columns(node), (), "", "", frozenset(), ("after",))
        fields = node.fields()
        images = tuple(name for name in ("before", "after") if name in fields)
        row = fields.get("after", fields.get("before", node)).plain
        source = fields.get("source", node).plain
        if (
            not images
            or not (row.type == "record" or _is_document(row, source))
            or source.type != "record"
            or "op" not in fields
            or source is node
        ):
            raise SchemaError(
                "no change event: it lacks `op`, `source` or a row; are these events? Say `envelope: none`"
            )
        if _is_document(row, source):
            return document_schema(told["source"], images)
        source_schema, source_table = source_of(told["source"])
        return ChangeSchema(
            _columns(row),
            tuple(parsed(self.schemas[told["ids"][1]]).fields()) if len(told["ids"]) > 1 else (),
            source_schema,
            source_table,
            frozenset(SOURCE_FIELDS) & frozenset(source.names),
            images,
            source=whole_source(told["source"]),
        )


def _columns(row: Node) -> tuple[Column, ...]:
    if not row.inner:
        raise SchemaError("messages without fields")
    return checked(
        tuple(
            column_of(name, one, row.defaults.get(name), row.aliases.get(name, ()))
            for name, one in row.fields().items()
        )
    )


def _ids(identity: Identity | None) -> list[int]:
    return [int(one) for one in (identity or ())[1:] if one is not None]


def _id_in(headers: str | None, what: str) -> bytes | None:
    """The id of a schema in the headers of a message, as `workers.reading` has them."""
    if headers is None:
        return None
    said = {one["key"]: one.get("value") for one in json.loads(headers)}
    for name, sign in _HEADERS.items():
        value = said.get(name.format(what))
        if value is not None and len(number := base64.b64decode(value)) in {4, 8}:
            return str(sign * int.from_bytes(number)).encode()
    return None


def _may_be_read(schema: str, has_envelope: bool) -> bool:
    """Whether messages of a schema may be any that are wanted."""
    try:
        node, _, _ = _value_readers(schema, has_envelope)
    except SchemaError:
        return False
    return not has_envelope or "source" in node.names


@lru_cache(KEPT)
def _are_documents(schema: str) -> bool:
    """Whether messages of a schema are changes of documents, whose ids are in their keys."""
    try:
        node = parsed(schema)
    except SchemaError:
        return False
    fields = node.fields() if node.type == "record" else {}
    row, source = (fields.get("after") or fields.get("before")), fields.get("source")
    return row is not None and source is not None and _is_document(row.plain, source.plain)


def _is_document(row: Node, source: Node) -> bool:
    return row.type == "string" and "collection" in source.names


def _name_of(schema: str) -> str:
    try:
        return str(parsed(schema).said.get("connect.name", ""))
    except SchemaError:
        return ""


@lru_cache(KEPT)
def _value_readers(schema: str, has_envelope: bool) -> tuple[Node, Any, list[list[str]]]:
    """By schema: its type, what reads one message, and the fields that are read."""
    node = parsed(schema)
    fields = node.fields()
    if not has_envelope:
        return node, reader(node), [[name] for name in fields]
    source = fields["source"].plain.fields() if "source" in fields else {}
    paths: list[list[str]] = [[name] for name in ("before", "after", "op") if name in fields]
    paths += [["source", name] for name in SOURCE_FIELDS if name in source]
    wanted = {path[0] for path in paths}
    whole = zip(node.names, node.inner, strict=True)
    inner = tuple(one if name in wanted else passed_over(one) for name, one in whole)
    return node, reader(replace(node, inner=inner)), paths


def _texts(schema: str, has_envelope: bool, bodies: Sequence[bytes]) -> list[bytes]:
    """Messages as the JSON of a change; empty where one is no message of the schema."""
    try:
        node, read, paths = _value_readers(schema, has_envelope)
    except SchemaError:
        return [b""] * len(bodies)
    around = ('{"payload":', "}") if has_envelope else ('{"payload":{"after":', ',"op":"c"}}')
    if not paths or not avro_columns.can_read(node):
        return [_one(read, paths, around, body) for body in bodies]

    found: list[bytes] = []
    size = avro_columns.at_once(node)
    left = [bodies[first : first + size] for first in range(0, len(bodies), size)][::-1]
    while left:
        some = left.pop()
        if len(some) <= FEW:
            found += [_one(read, paths, around, body) for body in some]
            continue
        good = avro_columns.texts(node, paths, around, some)
        found += [
            _one(read, paths, around, body) if text is None else text
            for text, body in zip(good, some, strict=False)  # perhaps of the first ones only
        ]
        if rest := some[len(good) :]:  # one of the next few is none
            few = min(max(len(rest) // 2, 1), avro_columns.BATCH_ROWS)
            left += [rest[few:], rest[:few]]
    return found


def _one(read: Any, paths: Sequence[Sequence[str]], around: tuple[str, str], body: bytes) -> bytes:
    try:
        value = read(body)
    except BadDatumError:
        return b""
    if not isinstance(value, dict):
        return b""
    found: dict[str, Any] = {}
    for path in paths:
        if len(path) == 1:
            found[path[0]] = value[path[0]]
        elif value[path[0]] is not None:
            found.setdefault(path[0], {})[path[1]] = value[path[0]][path[1]]
        else:
            found[path[0]] = None
    text = json.dumps(found, separators=(",", ":"), ensure_ascii=False)
    return f"{around[0]}{text}{around[1]}".encode()


@lru_cache(KEPT)
def _key_reader(schema: str) -> Any:
    """What makes JSON of a key, or nothing where it is none."""
    try:
        read = reader(parsed(schema))
    except SchemaError:
        return lambda _: None

    def text(key: bytes) -> bytes | None:
        try:
            return json.dumps({"payload": read(key)}, ensure_ascii=False).encode()
        except BadDatumError:
            return None

    return text
