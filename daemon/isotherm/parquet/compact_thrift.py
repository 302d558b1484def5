"""Structures of Thrift's compact protocol as plain values, with all their fields, also those that nobody here knows.

Parquet's footers, indexes and page headers are such structures. Generated code would drop the fields of a newer format
when it writes a structure again. Here a structure is a dictionary by field id, so what was read is written as it was.
The protocol itself is Apache Thrift's own runtime.

Functions over bytes; nothing here knows what a field means.
"""

import io
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TException, TType
from thrift.transport.TTransport import TFileObjectTransport

MOST_DEEP = 32
"""How deep structures may lie in each other: Parquet's own are seven deep, and Python's stack has an end."""
MOST_TEXT_BYTES, MOST_ITEMS = 2**20, 2**20
"""Of one text and of one list: what says that it is longer is damaged."""


class Field(NamedTuple):
    """A value and its type, by Thrift's number."""

    type: int
    value: Any


Struct = dict[int, Field]
"""The fields of a structure by their ids, in the order in which they were written."""


class Items(NamedTuple):
    """A list or a set."""

    type: int
    values: list[Any]


class Pairs(NamedTuple):
    """A map."""

    key_type: int
    value_type: int
    pairs: list[tuple[Any, Any]]


class NotThriftError(ValueError):
    """Some bytes are no structure of Thrift's compact protocol."""


def read_struct(stream: BinaryIO) -> Struct:
    """The structure that begins where the stream is. Behind it the stream is left.

    Raises:
        NotThriftError: there is none.
    """
    protocol = TCompactProtocol(TFileObjectTransport(stream), MOST_TEXT_BYTES, MOST_ITEMS)
    try:
        return _read_struct(protocol, MOST_DEEP)
    except (TException, EOFError, KeyError) as err:
        raise NotThriftError(f"no structure of Thrift: {type(err).__name__} {err}") from err


def struct_of(content: bytes) -> Struct:
    """The structure that these bytes are.

    Raises:
        NotThriftError: they are none, or the same structure would be written as other bytes.
    """
    struct = read_struct(io.BytesIO(content))
    if bytes_of(struct) != content:
        raise NotThriftError("the structure would be written in another way than it was")
    return struct


def bytes_of(struct: Struct) -> bytes:
    """A structure as it is written.

    Raises:
        NotThriftError: a number does not fit its type.
    """
    stream = io.BytesIO()
    try:
        _write_struct(TCompactProtocol(TFileObjectTransport(stream)), struct)
    except TException as err:
        raise NotThriftError(f"a structure cannot be written: {err}") from err
    return stream.getvalue()


def _read_struct(protocol: Any, deep: int) -> Struct:
    if not deep:
        raise NotThriftError(f"structures lie more than {MOST_DEEP} deep in each other")
    struct: Struct = {}
    protocol.readStructBegin()
    while True:
        _, kind, number = protocol.readFieldBegin()
        if kind == TType.STOP:
            break
        if number in struct:
            raise NotThriftError(f"field {number} is there twice")
        struct[number] = Field(kind, _read(protocol, kind, deep - 1))
        protocol.readFieldEnd()
    protocol.readStructEnd()
    return struct


def _read(protocol: Any, kind: int, deep: int) -> Any:
    if (plain := _READ.get(kind)) is not None:
        return plain(protocol)
    if kind == TType.STRUCT:
        return _read_struct(protocol, deep)
    if not deep:
        raise NotThriftError(f"lists lie more than {MOST_DEEP} deep in each other")
    if kind == TType.MAP:
        key_type, value_type, size = protocol.readMapBegin()
        pairs = [
            (_read(protocol, key_type, deep - 1), _read(protocol, value_type, deep - 1)) for _ in range(size)
        ]
        protocol.readMapEnd()
        return Pairs(key_type, value_type, pairs)
    # A set is written as a list is.
    item_type, size = protocol.readListBegin()
    values = [_read(protocol, item_type, deep - 1) for _ in range(size)]
    protocol.readListEnd()
    return Items(item_type, values)


def _write_struct(protocol: Any, struct: Struct) -> None:
    protocol.writeStructBegin("")
    for number, (kind, value) in struct.items():
        protocol.writeFieldBegin("", kind, number)
        _write(protocol, kind, value)
        protocol.writeFieldEnd()
    protocol.writeFieldStop()
    protocol.writeStructEnd()


def _write(protocol: Any, kind: int, value: Any) -> None:
    if (plain := _WRITE.get(kind)) is not None:
        plain(protocol, value)
    elif kind == TType.STRUCT:
        _write_struct(protocol, value)
    elif kind == TType.MAP:
        protocol.writeMapBegin(value.key_type, value.value_type, len(value.pairs))
        for key, one in value.pairs:
            _write(protocol, value.key_type, key)
            _write(protocol, value.value_type, one)
        protocol.writeMapEnd()
    else:
        protocol.writeListBegin(value.type, len(value.values))
        for one in value.values:
            _write(protocol, value.type, one)
        protocol.writeListEnd()


_READ: dict[int, Callable[[Any], Any]] = {
    TType.BOOL: TCompactProtocol.readBool,
    TType.BYTE: TCompactProtocol.readByte,
    TType.I16: TCompactProtocol.readI16,
    TType.I32: TCompactProtocol.readI32,
    TType.I64: TCompactProtocol.readI64,
    TType.DOUBLE: TCompactProtocol.readDouble,
    TType.STRING: TCompactProtocol.readBinary,
    TType.UUID: TCompactProtocol.readUuid,
}
_WRITE: dict[int, Callable[[Any, Any], None]] = {
    TType.BOOL: TCompactProtocol.writeBool,
    TType.BYTE: TCompactProtocol.writeByte,
    TType.I16: TCompactProtocol.writeI16,
    TType.I32: TCompactProtocol.writeI32,
    TType.I64: TCompactProtocol.writeI64,
    TType.DOUBLE: TCompactProtocol.writeDouble,
    TType.STRING: TCompactProtocol.writeBinary,
    TType.UUID: TCompactProtocol.writeUuid,
}
