"""Avro schemas as a registry gives them: read whole, with every name in its place, before anything is decoded by them.

Whoever may register a schema chooses it, so it is bounded, and what nobody could decode safely is refused: a record within
itself (a message could nest it without end), and lists of what takes no bytes (a message of ten bytes could have any
number of them).
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from isotherm_ingest.decode.kinds import SchemaError

MAX_NODES = 20_000
"""Of a schema with every name in its place: records that name others twice multiply. `MAX_COST` columns in two images, and
Debezium's own, are a quarter."""
MAX_NAMES = 4 * 1024 * 1024
"""Of the same, the characters of all names of fields and symbols, and eight for each: an enum may be named many times."""
MAX_LEVELS = 40
SAID = (
    "logicalType", "precision", "scale", "connect.name", "connect.type", "connect.parameters",
)  # fmt: skip
"""Attributes that mean something here. A schema may have any number of others, and name their type thousands of times."""
PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


@dataclass(frozen=True)
class Node:
    """A type in a schema."""

    type: str
    """One of `PRIMITIVES`, or record, enum, fixed, array, map, union."""
    said: Mapping[str, Any] = field(default_factory=dict)
    """What else the schema says of it, of `SAID`."""
    names: tuple[str, ...] = ()
    """Of a record's fields, or an enum's symbols."""
    inner: tuple["Node", ...] = ()
    """Of a record's fields, a union's branches; what an array or a map holds."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Of a record's fields, where they have one."""
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of a record's fields, names that they had before, where they had any."""
    size: int = 0
    """Of a fixed."""

    @property
    def plain(self) -> "Node":
        """Without null: of a union of null and one other, that."""
        return self.inner[1 - self.null_at] if self.is_nullable else self

    @property
    def is_nullable(self) -> bool:
        """Whether it is a union of null and one other type."""
        return self.type == "union" and len(self.inner) == 2 and self.null_at in {0, 1}

    @property
    def null_at(self) -> int:
        """The branch of a union that is null; -1 where none is."""
        return next((place for place, one in enumerate(self.inner) if one.type == "null"), -1)

    @property
    def takes_bytes(self) -> bool:
        """Whether each value takes a byte at least."""
        if self.type == "record":
            return any(one.takes_bytes for one in self.inner)
        return self.type != "null" and (self.type != "fixed" or self.size > 0)

    def fields(self) -> dict[str, "Node"]:
        """The fields of a record."""
        return dict(zip(self.names, self.inner, strict=True)) if self.type == "record" else {}


def parsed(text: str) -> Node:
    """A schema.

    Raises:
        SchemaError: it is none, or one by which nobody should decode.
    """
    try:
        return _Reader().read(json.loads(text), "", ())
    except SchemaError:
        raise
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as err:
        raise SchemaError(f"no Avro schema: {err!r}") from err


class _Reader:
    def __init__(self) -> None:
        self._named: dict[str, tuple[Mapping[str, Any], str]] = {}
        """By full name, the definition and the namespace within it."""
        self._shared: dict[str, Node] = {}
        """Those enums and fixeds that were met."""
        self._nodes = self._names = 0

    def read(self, schema: Any, space: str, within: tuple[str, ...], level: int = 0) -> Node:
        self._nodes += 1
        if self._nodes > MAX_NODES or level > MAX_LEVELS:
            raise SchemaError(f"a schema with more than {MAX_NODES} types, or {MAX_LEVELS} levels")
        match schema:
            case str() if schema in PRIMITIVES:
                return Node(schema)
            case str():
                return self._of_name(schema, space, within, level)
            case list():
                branches = tuple(self.read(one, space, within, level + 1) for one in schema)
                if not branches or any(one.type == "union" for one in branches):
                    raise SchemaError("a union without branches, or of unions")
                return Node("union", inner=branches)
            case Mapping():
                return self._of_object(schema, space, within, level)
            case _:
                raise SchemaError(f"{str(schema)[:100]!r} is no Avro type")

    def _of_object(self, schema: Mapping[str, Any], space: str, within: tuple[str, ...], level: int) -> Node:
        match schema["type"]:
            case str(kind) if kind in PRIMITIVES:
                return Node(kind, _said(schema))
            case "array" | "map" as kind:
                items = self.read(schema["items" if kind == "array" else "values"], space, within, level + 1)
                if not items.takes_bytes:
                    raise SchemaError(f"{kind} of what takes no bytes")
                return Node(kind, _said(schema), inner=(items,))
            case "record" | "enum" | "fixed" | "error":
                name = _full_name(schema["name"], schema.get("namespace", space))
                self._named[name] = schema, name.rpartition(".")[0]
                self._shared.pop(name, None)
                return self._defined(name, within, level)
            case inner:
                found = self.read(inner, space, within, level + 1)
                return replace(found, said={**found.said, **_said(schema)})

    def _of_name(self, name: str, space: str, within: tuple[str, ...], level: int) -> Node:
        for one in (_full_name(name, space), name):
            if one in self._named:
                return self._defined(one, within, level)
        raise SchemaError(f"{name!r} is no type that the schema has defined before")

    def _defined(self, name: str, within: tuple[str, ...], level: int) -> Node:
        schema, space = self._named[name]
        if name in within:
            raise SchemaError(f"record {name!r} is within itself, so a message could nest it without end")
        if schema["type"] in {"fixed", "enum"}:
            if name not in self._shared:
                self._shared[name] = _leaf(schema)
            self._count(self._shared[name].names)
            return self._shared[name]
        fields = list(schema["fields"])
        names = tuple(str(one["name"]) for one in fields)
        if len(set(names)) < len(names):
            raise SchemaError(f"record {name!r} has two fields of one name")
        self._count(names)
        inner = tuple(self._field(one, space, (*within, name), level) for one in fields)
        defaults = {str(one["name"]): one["default"] for one in fields if "default" in one}
        aliases = {str(one["name"]): tuple(map(str, one["aliases"])) for one in fields if one.get("aliases")}
        for one in aliases.values():
            self._count(one)
        return Node("record", _said(schema), names, inner, defaults, aliases)

    def _count(self, names: tuple[str, ...]) -> None:
        self._names += written_length(names)
        if self._names > MAX_NAMES:
            raise SchemaError(f"a schema with more than {MAX_NAMES} characters of names and symbols")

    def _field(self, field: Mapping[str, Any], space: str, within: tuple[str, ...], level: int) -> Node:
        return self.read(field["type"], space, within, level + 1)


def written_length(names: Iterable[str]) -> int:
    """About as many characters names take in JSON, each with a null behind it."""
    return sum(len(name) + 8 for name in names)


def _leaf(schema: Mapping[str, Any]) -> Node:
    if schema["type"] == "enum":
        return Node("enum", _said(schema), tuple(map(str, schema["symbols"])))
    size = schema["size"]
    if not isinstance(size, int) or size < 0:
        raise SchemaError(f"a fixed of {size!r} bytes")
    return Node("fixed", _said(schema), size=size)


def _said(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {name: schema[name] for name in SAID if name in schema}


def _full_name(name: str, space: str | None) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def walk(node: Node) -> Iterator[Node]:
    """A type, and all within it."""
    yield node
    for one in node.inner:
        yield from walk(one)
