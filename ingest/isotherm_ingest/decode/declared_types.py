"""Types as a stream declares them for JSON that has no schema, in the words of Spark's DDL: which texts each of them takes."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from isotherm_ingest.decode.kinds import (
    ANY_UNAVAILABLE,
    MAX_DAYS,
    MAX_DEPTH,
    MAX_MICROS,
    MIN_DAYS,
    MIN_MICROS,
    Kind,
    kind_of,
    list_of,
)

_NOT_NULL = re.compile(r"\s+NOT\s+NULL$", re.IGNORECASE)
_LIST = re.compile(r"ARRAY\s*<(.+)>", re.IGNORECASE)
_PLAIN = re.compile(r"(?P<name>[A-Z_]+)(?:\s*\(\s*(?P<inside>[^()]*?)\s*\))?", re.IGNORECASE)
_DIGITS = re.compile(r"([1-9]|[12][0-9]|3[0-8])\s*,\s*([0-9]{1,2})")
_FACTORS = {
    "s": "1000000::DECIMAL(7,0)",
    "ms": "1000::DECIMAL(7,0)",
    "us": "1::DECIMAL(7,0)",
    "ns": "0.001::DECIMAL(4,3)",
}
"""By the unit of a number since 1970, what makes microseconds of it."""
KNOWN = (
    "BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p,s), STRING, BINARY, DATE, DATE(days), TIMESTAMP and TIMESTAMP_NTZ, alone or "
    "with s, ms, us or ns in brackets, and ARRAY<…> of these"
)


def declared(text: str) -> tuple[Kind, bool]:
    """The kind of a column, from what a stream says of it, and whether the column may be null.

    Raises:
        ValueError: it is no type.
    """
    wanted = text.strip()
    bare = _NOT_NULL.sub("", wanted)
    kind = _kind(bare, 0)
    if kind is None:
        raise ValueError(f"{text!r} is no type of a column; known: {KNOWN}")
    return kind, bare == wanted


def _kind(text: str, depth: int) -> Kind | None:
    if items := _LIST.fullmatch(text.strip()):
        item = _kind(items[1], depth + 1) if depth < MAX_DEPTH else None
        if item is None:
            return None
        return replace(list_of(item, tells=item.type in _TOLD), placeholders=ANY_UNAVAILABLE)
    found = _PLAIN.fullmatch(text.strip())
    if found is None:
        return None
    name, inside = found["name"].upper(), found["inside"]
    if name == "DECIMAL":
        return _decimal(inside or "")
    if inside is None:
        return _WORDS.get(name)
    if name == "DATE":
        return _DAYS if inside.lower() == "days" else None
    if name in _MOMENTS and inside.lower() in _FACTORS:
        unit = inside.lower()
        micros = partial("epoch_micros({}, {factor})".format, factor=_FACTORS[unit])
        # Of nanoseconds every one is long, and its decimals mean nothing.
        return replace(_moment(name, "spelled({})".format), meant=micros, is_exact=unit != "ns")
    return None


def _decimal(inside: str) -> Kind | None:
    digits = _DIGITS.fullmatch(inside)
    if digits is None or int(digits[2]) > int(digits[1]):
        return None
    kind = f"DECIMAL({int(digits[1])},{int(digits[2])})"
    read = partial("TRY_CAST(with_decimals(spelled({}), {most}) AS {kind})".format, most=digits[2], kind=kind)
    return Kind(kind, read, is_exact=True)


def _moment(name: str, read: Callable[[str], str]) -> Kind:
    return Kind(name, read, None, (MIN_MICROS, MAX_MICROS), _MOMENTS[name])


_MOMENTS: dict[str, Callable[[str], str]] = {
    "TIMESTAMP": "make_timestamp({})::TIMESTAMPTZ".format,
    "TIMESTAMP_NTZ": "make_timestamp({})".format,
}
_DAYS = replace(kind_of({"type": "int32", "name": "io.debezium.time.Date"}), read="whole({})".format)
_TOLD = {"STRING", "INT", "BIGINT", "BINARY"}
_WORDS = {
    "BOOLEAN": kind_of({"type": "boolean"}),
    "INT": kind_of({"type": "int32"}),
    "BIGINT": kind_of({"type": "int64"}),
    "FLOAT": Kind("FLOAT", "floating({0}, TRY_CAST({0} AS FLOAT))".format),
    "DOUBLE": Kind("DOUBLE", "floating({0}, TRY_CAST({0} AS DOUBLE))".format),
    # Whatever it is: a text, or the JSON of anything else.
    "STRING": Kind("STRING", placeholders=ANY_UNAVAILABLE),
    "BINARY": replace(
        kind_of({"type": "bytes"}), placeholders=tuple(map('"{}"'.format, ANY_UNAVAILABLE[:2]))
    ),
    "DATE": Kind("DATE", "iso_day({})".format, None, (MIN_DAYS, MAX_DAYS), _DAYS.turn),
    "TIMESTAMP": _moment("TIMESTAMP", "iso_instant({})".format),
    "TIMESTAMP_NTZ": _moment("TIMESTAMP_NTZ", "iso_local({})".format),
}
