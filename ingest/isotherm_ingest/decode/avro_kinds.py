"""What each Avro type becomes in a table. Connect and Debezium say in names of their own what they mean by a type."""

import base64
from typing import Any

from isotherm_ingest.decode.avro_schema import Node
from isotherm_ingest.decode.debezium_schema import Column, name_of_column, text_of_default
from isotherm_ingest.decode.declared_types import declared
from isotherm_ingest.decode.kinds import MAX_DEPTH, Kind, kind_of, list_of, tells_items

_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_CONNECT = {
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "bytes": "bytes",
    "fixed": "bytes",
    "string": "string",
}
_INSTANTS = {
    "timestamp-millis": "TIMESTAMP(ms)",
    "timestamp-micros": "TIMESTAMP(us)",
    "timestamp-nanos": "TIMESTAMP(ns)",
}
_MEANT = {
    **_INSTANTS,
    **{f"local-{name}": kind.replace("TIMESTAMP", "TIMESTAMP_NTZ") for name, kind in _INSTANTS.items()},
}
"""By logical type. Connect's own Timestamp has one, too, and is none of an instant: its name comes first."""


def column_of(name: str, node: Node, default: object = None, aliases: tuple[str, ...] = ()) -> Column:
    """The column of a field. Raises SchemaError: no column can have its name, or its type is none."""
    kind = kind_of_node(node)
    return Column(
        name_of_column(name),
        kind,
        node.null_at >= 0,
        text_of_default(kind, _json_of(node, default)),
        tuple(map(name_of_column, aliases)),
    )


def _json_of(node: Node, default: object) -> Any:
    """A default as the JSON of a message has such a value; None where it is null, or no value of the type.

    A schema writes bytes as a text with a letter for each. A record must say all of its fields: what the defaults of those
    add would multiply.
    """
    if node.type == "union":
        inner = (_json_of(one, default) for one in node.inner)
        return next((one for one in inner if one is not None), None)
    match node.type, default:
        case "bytes" | "fixed", str():
            return base64.b64encode(default.encode("latin-1", "replace")).decode()
        case "string" | "enum", str():
            return default
        case "array", list():
            return [_json_of(node.inner[0], one) for one in default]
        case "map", dict():
            return {name: _json_of(node.inner[0], one) for name, one in default.items()}
        case "record", dict() if default.keys() >= set(node.names):
            return {name: _json_of(one, default[name]) for name, one in node.fields().items()}
        case "boolean", bool():
            return default
        case "int" | "long" | "float" | "double", int() | float():
            return default
        case _:
            return None


def kind_of_node(node: Node, depth: int = 0) -> Kind:
    """What values of a type become. What nobody planned for becomes its JSON, as text."""
    one = node.plain
    said = {**node.said, **one.said}
    name, meaning = (
        None if said.get(word) is None else str(said[word]) for word in ("connect.name", "logicalType")
    )
    if meaning == "decimal" and one.type in {"bytes", "fixed"}:
        return _decimal(said.get("scale", 0), said.get("precision", 38))
    if name == _DECIMAL:
        told = said.get("connect.parameters")
        told = told if isinstance(told, dict) else {}
        return _decimal(told.get("scale", 0), told.get("connect.decimal.precision", 38))
    if one.type == "long" and name is None and meaning in _MEANT:
        return declared(_MEANT[meaning])[0]
    if one.type == "int" and name is None and meaning == "date":
        return declared("DATE(days)")[0]
    if one.type == "array" and name is None:
        item = one.inner[0]
        if depth >= MAX_DEPTH:
            return kind_of({"type": "map"})
        return list_of(kind_of_node(item, depth + 1), tells=_tells(item))
    if one.type in {"string", "enum"}:
        return kind_of({"type": "string", "name": name})
    return kind_of({"type": _CONNECT.get(one.type, "map"), "name": name})


def _tells(item: Node) -> bool:
    """Whether Debezium has a placeholder for lists of a type, by what Connect says of it."""
    said = {**item.said, **item.plain.said}
    name = said.get("connect.name")
    kind = str(said.get("connect.type", _CONNECT.get(item.plain.type)))
    if name is None:
        return tells_items(kind, None) and "logicalType" not in said
    return tells_items(kind, str(name))


def _decimal(scale: object, precision: object) -> Kind:
    digits = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return kind_of({"type": "bytes", "name": _DECIMAL, "parameters": digits})
