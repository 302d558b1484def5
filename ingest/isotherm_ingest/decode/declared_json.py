"""JSON without schemas, whose columns the stream declares (`format: json`).

Either Debezium's change events, as Connect writes them with `schemas.enable=false`, or events of anybody (`envelope:
none`), each of which is a row.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from isotherm_ingest.decode.bare_json import SOURCE_FIELDS
from isotherm_ingest.decode.debezium_schema import (
    OTHERS_COLUMN,
    ChangeSchema,
    Column,
    Others,
    checked,
    json_object,
    key_fields,
    name_of_column,
    names_a_table,
    source_of,
    whole_source,
)
from isotherm_ingest.decode.declared_types import declared
from isotherm_ingest.decode.formats import Apart, Identity, Message, Sample
from isotherm_ingest.decode.kinds import SchemaError


@dataclass(frozen=True)
class DeclaredJson:
    """JSON objects."""

    columns: tuple[tuple[str, str], ...]
    """Names, and types as they are declared."""
    has_envelope: bool = True
    others: Others = "ignore"

    def apart(self, value: bytes, key: bytes | None, headers: str | None) -> Apart:  # noqa: ARG002 (of the port)
        """All values are of one kind. Change events with keys of other fields are of another: a table has one key."""
        if not self.has_envelope:
            return (b"row",), value, None
        return (b"envelope", _named(key)), value, key

    def texts(
        self,
        identity: Identity,  # noqa: ARG002 (of the port)
        bodies: Sequence[bytes],
        keys: Sequence[bytes | None],
    ) -> tuple[Sequence[bytes], Sequence[bytes | None]]:
        """As they are."""
        return bodies, keys

    def sample(self, messages: Iterable[Message]) -> Sample | None:
        """One that is an object; of change events, if there is any, one whose source names a table."""
        found: Sample | None = None
        for value, key, _ in messages:
            try:
                text = value.decode()
                message = json.loads(text)
                if not isinstance(message, dict):
                    continue
                if self.has_envelope and message.get("op") is None:
                    continue
            except (ValueError, RecursionError):
                continue
            one = text, None if key is None else key.decode(errors="replace")
            if not self.has_envelope or names_a_table(message.get("source")):
                return one
            found = found or one
        return found

    def says_all(self, value: str) -> bool:
        """Whether it names a table, where it is a change event."""
        return not self.has_envelope or names_a_table(json.loads(value).get("source"))

    def is_bookkeeping(self, messages: Iterable[Message]) -> bool:  # noqa: ARG002 (of the port)
        """Nothing tells them apart; who writes them to a topic of changes has them among the dead letters."""
        return False

    def schema(self, value: str, key: str | None) -> ChangeSchema:
        """What is declared; only the key, and the source's name, come from the message. Raises SchemaError."""
        found = columns_of(self.columns, self.others)
        if not self.has_envelope:
            return ChangeSchema(found, (), "", "", frozenset(), ("after",), shape="row", others=self.others)
        source = json_object(value).get("source")
        source_schema, source_table = source_of(source)
        return ChangeSchema(
            found,
            _fields(key),
            source_schema,
            source_table,
            frozenset(SOURCE_FIELDS),
            ("before", "after"),
            shape="envelope",
            others=self.others,
            source=whole_source(source),
        )


def columns_of(columns: Iterable[tuple[str, str]], others: Others) -> tuple[Column, ...]:
    """The columns that are declared, with the one of all other fields.

    Raises:
        ValueError: one has no type, or no name, that a column can have; or a table cannot have them all.
    """
    found = []
    for name, text in columns:
        kind, is_optional = declared(text)
        found.append(Column(name_of_column(name), kind, is_optional))
    if others == "text":
        found.append(Column(OTHERS_COLUMN, declared("STRING")[0]))
    return checked(tuple(found))


def _named(key: bytes | None) -> bytes | None:
    """The fields of a message key: bare, or beside its schema."""
    if key is None:
        return None
    try:
        return json.dumps(_fields(key.decode())).encode()
    except ValueError:
        return b"[]"


def _fields(key: str | None) -> tuple[str, ...]:
    try:
        data = json_object(key or "")
        if data.keys() == {"schema", "payload"}:
            return key_fields(key)
        return tuple(map(name_of_column, data))
    except SchemaError:
        return ()
