"""The control topic of Iceberg's sink for Kafka Connect: Avro, each message with its schema in front.

A message is `C2 01`, the length of the schema (two bytes), the schema as JSON, and the event. Its parts are told by
field ids, as everywhere in Iceberg, so names may change. Of the five kinds of event only `CommitToTable` says where
to look; the others (`DataWritten` may be megabytes) are recognised by their schema and not read.

The schema comes from whoever wrote the message, and Avro lets a few bytes mean anything: a list of a billion nothings,
a record within itself. So we hand the library a schema of our own making: the writer's, checked to be of the plain
shapes that Iceberg writes, with logical types and defaults left out and each field named after its id. (It has to be
so anyway: of a type in the empty namespace the library does not find the second mention.)

`valid_through_ts` is not taken over: it is the time of Kafka's records, while our boundary is the event time of the
partition column. The boundary of such a table follows from its data.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from io import BytesIO
from typing import Annotated, Any
from uuid import UUID

from fastavro import parse_schema, schemaless_reader
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from isotherm.contract.events import EventError, Long
from isotherm.contract.first_fault import AtFirstFault
from isotherm.contract.identity import name_from
from isotherm.service.ports import Announced

MAGIC = b"\xc2\x01"
HEADER = 4
EVENT_TYPE, PAYLOAD, TABLE_REFERENCE = 10_501, 10_504, 10_401
PRIMITIVES = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})
MAX_BODY_BYTES = 16_384
"""The event behind the schema: some ids and the name of one table. It bounds what a forged one can make of it."""
MAX_DEPTH = 10
"""Of a schema. The deepest of the real ones that we read is the list of a table's namespaces, at 6."""


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class _TableReference(_Part):
    namespace: Annotated[list[str], AtFirstFault()] = Field(alias="f10601", min_length=1)
    name: str = Field(alias="f10603", min_length=1)
    uuid: bytes | None = Field(None, alias="f10604", min_length=16, max_length=16)


class _CommitToTable(_Part):
    table: _TableReference = Field(alias="f10401")
    snapshot_id: Long | None = Field(None, alias="f10402")


class _Event(_Part):
    group_id: str = Field(alias="f10503")
    payload: _CommitToTable = Field(alias="f10504")


def decode(value: bytes | None) -> Announced | None:
    """The commit that a message announces; None where it is another of the sink's events.

    Raises:
        EventError: the message is none of the sink's.
    """
    if not value or not value.startswith(MAGIC):
        raise EventError("not an event of Iceberg's sink: it does not begin with C2 01")
    end = HEADER + int.from_bytes(value[2:HEADER], "big")
    if len(value) <= end:
        raise EventError("it ends within its schema, or right after it")
    schema = _readable(value[HEADER:end])
    if schema is None:
        return None
    if len(value) - end > MAX_BODY_BYTES:
        raise EventError(f"{len(value) - end} bytes behind the schema, more than {MAX_BODY_BYTES}")
    event = _read(schema, value[end:])
    table = event.payload.table
    return Announced(
        table=name_from((*table.namespace, table.name)),
        uuid=None if table.uuid is None else str(UUID(bytes=table.uuid)),
        snapshot_id=event.payload.snapshot_id,
        writer=event.group_id,
    )


def _read(schema: Any, body: bytes) -> _Event:
    rest = BytesIO(body)
    try:
        event = _Event.model_validate(schemaless_reader(rest, schema, None))
    except ValidationError as err:
        first = err.errors()[0]
        raise EventError(f"field {first['loc'][-1]}: {first['msg']}") from err
    except Exception as err:  # the library raises whatever a broken message makes it stumble over
        raise EventError(f"not what its schema says: {type(err).__name__}") from err
    if rest.tell() != len(body):
        raise EventError(f"{len(body) - rest.tell()} bytes left over")
    return event


@lru_cache(maxsize=16)
def _readable(text: bytes) -> Any:
    """The schema to read a `CommitToTable` with; None where the schema is that of another kind of event.

    A sink sends the same few schemas all its life, so they are worth remembering.
    """
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as err:
        raise EventError(f"its schema is not JSON: {err}") from err
    kinds = _kinds(schema)
    if not {EVENT_TYPE, PAYLOAD} <= kinds.keys():
        raise EventError("its schema is not that of an event")
    if TABLE_REFERENCE not in _kinds(kinds[PAYLOAD]):
        return None
    return parse_schema(_Shapes().plain(schema))


def _kinds(record: object) -> Mapping[int, object]:
    """The types of a record's fields by field id; empty where it is no record."""
    match record:
        case {"type": "record", "fields": list(fields)}:
            return {
                field["field-id"]: field.get("type")
                for field in fields
                if isinstance(field, dict) and isinstance(field.get("field-id"), int)
            }
        case _:
            return {}


class _Shapes:
    """Rebuilds a schema out of the plain shapes, each item at least a byte long and no type within itself."""

    def __init__(self) -> None:
        self._records = 0
        self._sizes: dict[str, int] = {}

    def plain(self, kind: object, depth: int = 0) -> Any:
        """The same type, plain. Raises EventError where it is of no shape that Iceberg writes."""
        if depth > MAX_DEPTH:
            raise EventError(f"its schema is deeper than {MAX_DEPTH}")
        match kind:
            case str() if kind in PRIMITIVES:
                return kind
            case str() if _bare(kind) in self._sizes:
                return self._fixed(self._sizes[_bare(kind)])
            case {"type": "fixed", "name": str(name), "size": int(size)} if 0 < size <= MAX_BODY_BYTES:
                self._sizes[_bare(name)] = size
                return self._fixed(size)
            case {"type": "array", "items": items}:
                return {"type": "array", "items": self.plain(items, depth + 1)}
            case {"type": "record", "fields": list(fields)} if fields:
                return self._record([self._field(field, depth + 1) for field in fields])
            case {"type": str(name)} if name in PRIMITIVES:
                return name
            case ["null", other] if not isinstance(other, list):
                return ["null", self.plain(other, depth + 1)]
            case _:
                raise EventError("its schema has a type that no event of the sink has")

    def _field(self, field: object, depth: int) -> dict[str, Any]:
        match field:
            case {"field-id": int(number), "type": kind}:
                return {"name": f"f{number}".replace("-", "_"), "type": self.plain(kind, depth)}
            case _:
                raise EventError("its schema has a field without an id")

    def _record(self, fields: list[dict[str, Any]]) -> dict[str, Any]:
        self._records += 1
        return {"type": "record", "name": f"r{self._records}", "fields": fields}

    def _fixed(self, size: int) -> dict[str, Any]:
        self._records += 1
        return {"type": "fixed", "name": f"x{self._records}", "size": size}


def _bare(name: str) -> str:
    """A type's name without its namespace; whether it is written differs between versions of Avro."""
    return name.rpartition(".")[2]
