"""Avro values read one by one, in plain Python, strictly: a message says what it says to its last byte, or it is refused.

For few messages, for keys, for schemas that DataFusion does not read, and to find the bad ones among many. Values are as
JSON has them; bytes are base64.

Of what no producer writes, DataFusion takes any byte but 0 for true, and any branch of two but the first for the second. So
does this: a message says the same whichever way it is read.
"""

import base64
import struct
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from isotherm_ingest.decode.avro_schema import Node, written_length

_Read = Callable[["_Bytes"], Any]
_LONGEST = 10
"""Bytes of a number of 64 bits."""
MOST_GROWTH, ROOM = 100, 1024 * 1024
"""Names of fields and symbols of a message's text: so many characters for each of its bytes, and so many besides. An item of a
list may take one byte, and have a thousand fields."""
_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")


class BadDatumError(ValueError):
    """The bytes are no value of the type."""


class _Bytes:
    """Bytes, and how far they were read."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.room = MOST_GROWTH * len(data) + ROOM

    def grow(self, size: int) -> None:
        self.room -= size
        if self.room < 0:
            raise BadDatumError(f"{len(self.data)} bytes become too long a text")

    def take(self, size: int) -> bytes:
        end = self.at + size
        if size < 0 or end > len(self.data):
            raise BadDatumError(f"{size} bytes are wanted at {self.at} of {len(self.data)}")
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def number(self, bits: int = 64) -> int:
        value = shift = 0
        for one in self.data[self.at : self.at + _LONGEST]:
            self.at += 1
            value |= (one & 0x7F) << shift
            shift += 7
            if one < 0x80:
                break
        else:
            raise BadDatumError("a number without end")
        number = (value >> 1) ^ -(value & 1)
        if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise BadDatumError(f"a number of more than {bits} bits")
        return number


def reader(node: Node) -> Callable[[bytes], Any]:
    """Reads a message of a type.

    The reader raises BadDatumError where the message is no value of it, or goes on behind it.
    """
    read = _reader(node)

    def whole(data: bytes) -> Any:
        given = _Bytes(data)
        value = read(given)
        if given.at != len(data):
            raise BadDatumError(f"{len(data) - given.at} bytes are left behind the value")
        return value

    return whole


def passed_over(node: Node) -> Node:
    """A type of the same bytes, where nobody reads the value: a text need be no UTF-8, and any number is a symbol.

    DataFusion passes over such fields. If this did not, a bad one would be a dead letter alone, and a row among many.
    """
    inner = tuple(map(passed_over, node.inner))
    match node.type:
        case "string":
            return Node("bytes")
        case "enum":
            return Node("int")
        case "map":
            return Node("array", inner=(Node("record", names=("k", "v"), inner=(Node("bytes"), inner[0])),))
        case _:
            return replace(node, inner=inner)


def _reader(node: Node) -> _Read:
    if node.type == "record":
        fields = [(name, _reader(one)) for name, one in node.fields().items()]
        return partial(_record, fields=fields, size=written_length(node.names))
    if node.is_nullable:
        return partial(_either, first=_reader(node.inner[0]), second=_reader(node.inner[1]))
    if node.type == "union":
        return partial(_one_of, choices=[_reader(one) for one in node.inner])
    if node.type in {"array", "map"}:
        return partial(_list if node.type == "array" else _map, item=_reader(node.inner[0]))
    if node.type == "fixed":
        return lambda given: base64.b64encode(given.take(node.size)).decode()
    if node.type == "enum":
        return partial(_symbol, symbols=node.names)
    return _PLAIN[node.type]


def longest_names(node: Node) -> int:
    """What the text of a value grows by for its names, without the items of its lists and maps."""
    match node.type:
        case "record":
            return written_length(node.names) + sum(map(longest_names, node.inner))
        case "enum":
            return max(map(len, node.names), default=0)
        case "union":
            return max(map(longest_names, node.inner))
        case _:
            return 0


def _record(given: _Bytes, fields: list[tuple[str, _Read]], size: int) -> dict[str, Any]:
    given.grow(size)
    return {name: read(given) for name, read in fields}


def _one_of(given: _Bytes, choices: list[_Read]) -> Any:
    place = given.number()
    if not 0 <= place < len(choices):
        raise BadDatumError(f"choice {place} of {len(choices)}")
    return choices[place](given)


def _either(given: _Bytes, first: _Read, second: _Read) -> Any:
    return first(given) if given.number() == 0 else second(given)


def _symbol(given: _Bytes, symbols: tuple[str, ...]) -> str:
    place = given.number()
    if not 0 <= place < len(symbols):
        raise BadDatumError(f"symbol {place} of {len(symbols)}")
    given.grow(len(symbols[place]))
    return symbols[place]


def _blocks(given: _Bytes) -> int:
    """How many items come next; a block may say its bytes, too."""
    count = given.number()
    if count < 0:
        given.number()
    return abs(count)


def _list(given: _Bytes, item: _Read) -> list[Any]:
    found: list[Any] = []
    while count := _blocks(given):
        for _ in range(count):
            found.append(item(given))  # noqa: PERF401 (each may raise, long before so many are in memory)
    return found


def _map(given: _Bytes, item: _Read) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while count := _blocks(given):
        for _ in range(count):
            key = _text(given)
            found[key] = item(given)
    return found


def _text(given: _Bytes) -> str:
    try:
        return given.take(given.number()).decode()
    except UnicodeDecodeError as err:
        raise BadDatumError("a string that is no UTF-8") from err


_PLAIN: dict[str, _Read] = {
    "null": lambda _: None,
    "boolean": lambda given: given.take(1) != b"\0",
    "int": lambda given: given.number(32),
    "long": lambda given: given.number(),
    "float": lambda given: _FLOAT.unpack(given.take(4))[0],
    "double": lambda given: _DOUBLE.unpack(given.take(8))[0],
    "bytes": lambda given: base64.b64encode(given.take(given.number())).decode(),
    "string": _text,
}
