"""Debezium's JSON with schemas (`format: debezium-json`).

Connect's converter writes the schema first, so the bytes before the payload tell schemas apart. They are most of a
message: what is decoded begins behind them.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from isotherm_ingest.decode.debezium_schema import PAYLOAD, SCHEMA, ChangeSchema, change_schema, names_a_table
from isotherm_ingest.decode.documents import OF_DOCUMENTS
from isotherm_ingest.decode.formats import Apart, Identity, Message, Sample

_OWN, _ENVELOPE = "io.debezium.", ".Envelope"
"""How the schemas of Debezium's own messages are named, and how that of a change ends, whatever its topic is called."""
_SCHEMA, _PAYLOAD = SCHEMA.encode(), PAYLOAD.encode()
_DELETE = b'"op":"d"'
_WRONG = (ValueError, RecursionError, KeyError, TypeError)


@dataclass(frozen=True)
class DebeziumJson:
    """As Kafka Connect's JsonConverter writes change events."""

    def apart(self, value: bytes, key: bytes | None, headers: str | None) -> Apart:  # noqa: ARG002 (of the port)
        """By the text of the schemas. The key is decoded of deletes, of all where the schema is not first, and of documents."""
        schema, body = _apart(value)
        if schema is None:
            return None, value, key
        identity = schema, None if key is None else _apart(key)[0]
        is_keyless = body is not value and _DELETE not in body and OF_DOCUMENTS not in schema
        return identity, body, None if is_keyless else key

    def texts(
        self,
        identity: Identity,  # noqa: ARG002 (of the port)
        bodies: Sequence[bytes],
        keys: Sequence[bytes | None],
    ) -> tuple[Sequence[bytes], Sequence[bytes | None]]:
        """As they are."""
        return bodies, keys

    def sample(self, messages: Iterable[Message]) -> Sample | None:
        """If there is any, one whose source names a table, from which the name of ours may come."""
        found: Sample | None = None
        for value, key, _ in messages:
            try:
                text = value.decode()
                payload = json.loads(text)["payload"]
                if payload["op"] is None or not isinstance(payload["source"], dict | None):
                    continue
            except _WRONG:
                continue
            one = text, None if key is None else key.decode(errors="replace")
            if names_a_table(payload["source"]):
                return one
            found = found or one
        return found

    def says_all(self, value: str) -> bool:
        """Whether it names a table."""
        return names_a_table(json.loads(value)["payload"]["source"])

    def is_bookkeeping(self, messages: Iterable[Message]) -> bool:
        """Whether they are begins and ends of transactions, changes of schemas, heartbeats, notifications."""
        for value, _, _ in messages:
            try:
                name = json.loads(value)["schema"]["name"]
                return isinstance(name, str) and name.startswith(_OWN) and not name.endswith(_ENVELOPE)
            except _WRONG:
                continue
        return False

    def schema(self, value: str, key: str | None) -> ChangeSchema:
        """As the message tells. Raises SchemaError."""
        return change_schema(value, key)


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
