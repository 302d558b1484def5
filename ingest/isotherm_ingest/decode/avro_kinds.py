"""What each Avro type becomes in a table. Connect and Debezium say in names of their own what they mean by a type."""

import json

from isotherm_ingest.decode.avro_schema import Node
from isotherm_ingest.decode.debezium_schema import Column, name_of_column
from isotherm_ingest.decode.declared_types import declared
from isotherm_ingest.decode.kinds import MAX_DEPTH, Kind, kind_of, list_of

_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_CONNECT = {
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "bytes": "bytes",
    "fixed": "bytes",
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
_TOLD = {"string", "bytes", "int", "long"}


def column_of(name: str, node: Node, default: object = None, aliases: tuple[str, ...] = ()) -> Column:
    """The column of a field. Raises SchemaError: no column can have its name, or its type is none."""
    is_plain = isinstance(default, bool | int | float) or (
        isinstance(default, str) and node.plain.type == "string"
    )
    text = default if isinstance(default, str) else json.dumps(default)
    return Column(
        name_of_column(name),
        kind_of_node(node),
        node.null_at >= 0,
        text if is_plain else None,
        tuple(map(name_of_column, aliases)),
    )


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
        return list_of(
            kind_of_node(item, depth + 1),
            tells=item.plain.type in _TOLD and "logicalType" not in item.plain.said,
        )
    if one.type in {"string", "enum"}:
        return kind_of({"type": "string", "name": name})
    return kind_of({"type": _CONNECT.get(one.type, "map"), "name": name})


def _decimal(scale: object, precision: object) -> Kind:
    digits = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return kind_of({"type": "bytes", "name": _DECIMAL, "parameters": digits})
