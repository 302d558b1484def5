"""The type table: how each type of Connect and Debezium travels in JSON, and what it becomes in a table.

Each value is read from its text in the JSON by steps of DuckDB's SQL. What cannot be read becomes null, which `check`
and the statement tell apart from a true null, so that the change goes to the dead letters instead of into the table.

A step may name what the step before gave several times, and so each is a SELECT, or a pass over a list, of its own: in
one expression they would multiply, and DuckDB's time to plan it grows with the square of what it holds.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal
from uuid import UUID

from isotherm_ingest.decode.declared_macros import DECLARED_MACROS
from isotherm_ingest.decode.numbers import MAX_PADDING, MAX_SCALE

OutOfRange = Literal["dead_letter", "null", "clamp"]
"""What becomes of a time outside of the years 1 to 9999: the whole change is a dead letter, the value is null, or it
becomes the first or the last moment of these years."""

UNAVAILABLE = "__debezium_unavailable_value"
"""What stands in place of a large value that an update did not change (PostgreSQL's TOAST)."""

MIN_MICROS, MAX_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999
"""Years 1 to 9999. PostgreSQL's infinities lie beyond, and no reader takes them."""
MIN_DAYS, MAX_DAYS = -719_162, 2_932_896

MACROS = (
    # The cast alone takes 1.5 for 2.
    "whole(x) AS CASE WHEN TRY_CAST(x AS BIGINT)::VARCHAR = x THEN TRY_CAST(x AS BIGINT) END",
    "small(x) AS TRY_CAST(whole(x) AS INTEGER)",
    # Debezium's days overflow for a date that is infinite: these numbers are what is left of it. Those of a snapshot, or
    # in an array, depend on the time zone of Debezium's machine.
    """days(n) AS CASE
        WHEN n BETWEEN -622191235 AND -622191232 OR n = -2147472692 THEN 2147483647
        WHEN n BETWEEN -625821273 AND -625821270 OR n IN (-2147472691, 622191232) THEN -2147483648
        ELSE n END""",
    # The first and the last nanosecond that a number can say are PostgreSQL's infinities.
    """nanos(n) AS CASE WHEN n IN (-9223372036854775808, 9223372036854775807) THEN n
        ELSE (n - ((n % 1000) + 1000) % 1000) // 1000 END""",
    # DuckDB reads no year that Java writes with a sign, and gives no number for an infinite time. In an array, -infinity
    # comes with the wrong year.
    """zoned(x) AS coalesce(epoch_us(TRY_CAST(CASE WHEN regexp_matches(x, '[0-9]|infinity$') THEN x END AS TIMESTAMPTZ)), CASE
        WHEN starts_with(x, '+292269055-') THEN -9223372036854775808
        WHEN regexp_matches(x, '^([+][0-9]{5,}-|infinity$)') THEN 9223372036854775807
        WHEN regexp_matches(x, '^(-[0-9]{4,}-|-infinity$)') THEN -9223372036854775808 END)""",
    # Of JSON: a number, as Connect's `decimal.format=NUMERIC` writes it, may look like base64.
    """decoded(x) AS TRY(from_base64(CASE WHEN starts_with(x::VARCHAR, '"')
        THEN substr(x::VARCHAR, 2, length(x::VARCHAR) - 2) END))""",
    "scaled(x) AS plain_number(decoded(TRY(json_extract(x, '$.value'))), small(TRY(json_extract_string(x, '$.scale'))))",
    # Of a text that is as long, none: decimals that are said are no padding. A DOUBLE, which no sum overflows.
    """decimals(x) AS greatest(
        abs(TRY_CAST(TRY(json_extract_string(x, '$.scale')) AS DOUBLE)) - strlen(x::VARCHAR), 0)""",
    "truth(x) AS CASE x WHEN 'true' THEN true WHEN 'false' THEN false END",
    "items(x) AS TRY(json_transform_strict(x, '[\"VARCHAR\"]'))",
    "json_items(x) AS TRY(json_transform_strict(x, '[\"JSON\"]'))",
    *DECLARED_MACROS,
)
"""Of DuckDB, from the text of a value, or the number `n` in it: null where it is none."""

Step = Callable[[str], str]
"""SQL of what comes next, from SQL of what was before."""


class SchemaError(ValueError):
    """A message schema that is no change event's, or that names a type we do not know how to read."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How one type travels, and what it becomes."""

    type: str
    """The column's type in the table, as Spark's DDL says it."""
    read: Step | None = None
    """SQL of what the text says, or null where it says nothing. None: the text itself, which is always right."""
    meant: Step | None = None
    """SQL of what that means: some numbers stand for infinity."""
    limits: tuple[int, int] | None = None
    """The least and the largest that it may be; beyond them is what `OutOfRange` speaks of."""
    turn: Step = str
    """SQL of the value, from SQL of what was read."""
    placeholders: tuple[str, ...] = ()
    """Texts that stand for an unchanged large value."""
    text: Literal["VARCHAR", "JSON"] = "VARCHAR"
    """What its text is in DuckDB: that of a string without its quotes, or all as it is in the JSON."""
    tells: bool = True
    """False where Debezium sends null for an unchanged large value, which is told from no true null."""
    item: "Kind | None" = None
    """Of a list."""
    most_padding: int = 0
    """Letters by which its text in the table may be longer than in the message, at most: decimals that are none."""
    pads: Callable[[str], str] | None = None
    """SQL of how many these are, from SQL of its text."""
    is_exact: bool = False
    """Whether a number is read as it is written. Of others DuckDB gives the text of a double."""

    @property
    def may_pad(self) -> int:
        """`most_padding`; of a list of such, which has any number of them, more than a message may have."""
        if self.item is not None:
            return MAX_PADDING + 1 if self.item.may_pad else 0
        return self.most_padding

    def padding(self, text: str, depth: int = 0) -> str:
        """SQL of the letters by which a value is longer than its text, from SQL of that; null where it is null."""
        if self.item is None:
            return "0" if self.pads is None else self.pads(text)
        one = f"z{depth}"
        of_items = f"list_transform({self._split(text)}, lambda {one}: {self.item.padding(one, depth + 1)})"
        return f"list_sum({of_items})"

    @property
    def cost(self) -> int:
        """What a column costs DuckDB to plan, by that of a number: each list binds what is in it twice."""
        return 1 if self.item is None else 2 * self.item.cost

    def steps(self, out_of_range: OutOfRange, depth: int = 0) -> tuple[Step, ...]:
        """From the text to the value. What cannot be read, or must not be, is null after the last step."""
        if self.item is not None:
            return (partial(self._items, out_of_range=out_of_range, depth=depth),)
        if self.read is None:
            return ()
        if self.limits is None:
            return (lambda text: self.turn(self.read(text)),)
        within = partial(self._within, out_of_range=out_of_range)
        return (self.read, within) if self.meant is None else (self.read, self.meant, within)

    def check(self, text: str, out_of_range: OutOfRange, depth: int = 0) -> str:
        """Of a list: SQL that is null where its text, which is not null, cannot be read."""
        items = self._split(text)
        if self.item is None or self.item.item is None:
            steps = () if self.item is None else self.item.steps(out_of_range)
            if not steps:
                return items
            read = steps[:1] if self.item is not None and self.item.may_be_null(out_of_range) else steps
            return (
                f"(CASE WHEN list_count({items}) = list_count({_passed(items, read, depth)}) THEN true END)"
            )
        one = f"y{depth}"
        of_item = self.item.check(one, out_of_range, depth + 1)
        bad = f"list_filter({items}, lambda {one}: {one} IS NOT NULL AND ({of_item}) IS NULL)"
        return f"(CASE WHEN len({bad}) = 0 THEN true END)"

    def may_be_null(self, out_of_range: OutOfRange) -> bool:
        """Whether what could be read may be null as a value."""
        return self.limits is not None and out_of_range == "null"

    def _within(self, read: str, out_of_range: OutOfRange) -> str:
        low, high = self.limits or (0, 0)
        if out_of_range == "clamp":
            return self.turn(
                f"(CASE WHEN {read} < {low} THEN {low} WHEN {read} > {high} THEN {high} ELSE {read} END)"
            )
        return self.turn(f"(CASE WHEN {read} BETWEEN {low} AND {high} THEN {read} END)")

    def _items(self, text: str, out_of_range: OutOfRange, depth: int) -> str:
        steps = () if self.item is None else self.item.steps(out_of_range, depth + 1)
        return _passed(self._split(text), steps, depth)

    def _split(self, text: str) -> str:
        function = "json_items" if self.item is not None and self.item.text == "JSON" else "items"
        return f"{function}({text})"


def _passed(items: str, steps: Sequence[Step], depth: int) -> str:
    """SQL of a list each of whose items has taken some steps."""
    for step in steps:
        items = f"list_transform({items}, lambda y{depth}: {step(f'y{depth}')})"
    return items


MAX_DEPTH = 6
"""Lists in lists; deeper ones become text."""


def kind_of(schema: Mapping[str, Any], depth: int = 0) -> Kind:
    """What a Connect schema becomes. A type that nobody planned for becomes its JSON text, so nothing is lost."""
    kind, name = schema.get("type"), schema.get("name") or ""
    if name == "org.apache.kafka.connect.data.Decimal":
        return _decimal(schema.get("parameters") or {})
    if name in _NAMED:
        return _NAMED[name]
    if kind == "array":
        return _array(schema["items"], depth + 1) if depth < MAX_DEPTH else _JSON_TEXT
    return _PLAIN.get(str(kind), _JSON_TEXT)


def _call(function: str) -> Callable[[str], str]:
    return partial("{}({})".format, function)


def _decimal(parameters: Mapping[str, Any]) -> Kind:
    """`decimal.handling.mode=precise`: base64 of two's complement bytes, the scale in the schema."""
    try:
        scale = int(parameters.get("scale", 0))
        precision = int(parameters.get("connect.decimal.precision", 38))
    except (ValueError, OverflowError) as err:  # JSON has numbers without end: 1e999
        raise SchemaError(f"decimal with parameters {dict(parameters)}") from err
    if abs(scale) > MAX_SCALE:
        raise SchemaError(f"decimal with {scale} decimals")
    digits = f"plain_number(decoded({{}}), {scale})"
    if not 0 <= scale <= precision or not 1 <= precision <= 38:  # PyIceberg reads no table with DECIMAL(0,0)
        pads = f"greatest({abs(scale)} - strlen({{}}::VARCHAR), 0)::DOUBLE".format
        return Kind("STRING", digits.format, text="JSON", most_padding=abs(scale), pads=pads)
    target = f"DECIMAL({precision},{scale})"
    return Kind(target, f"TRY_CAST({digits} AS {target})".format, text="JSON")


def _array(items: Mapping[str, Any], depth: int) -> Kind:
    return list_of(kind_of(items, depth), tells=tells_items(items.get("type"), items.get("name")))


def tells_items(kind: object, name: object) -> bool:
    """Whether Debezium has a placeholder for unchanged large lists of a type of Connect's."""
    return (kind, name) in _TOLD_ITEMS


def list_of(item: Kind, *, tells: bool) -> Kind:
    """A list; `tells` says whether Debezium has a placeholder for an unchanged large one."""
    return Kind(
        f"ARRAY<{item.type}>",
        placeholders=_ARRAYS_UNAVAILABLE,
        tells=tells,
        item=item,
        is_exact=item.is_exact,
    )


_TOLD_ITEMS = {
    *((kind, None) for kind in ("string", "bytes", "int32", "int64")),
    ("string", "io.debezium.data.Json"),
    ("string", "io.debezium.data.Uuid"),
    ("int32", "io.debezium.time.Date"),
}
"""Of arrays for which Debezium has a placeholder; others, such as timestamps, times and enums, are null where unchanged.
It has none for inet[], cidr[], oid[], ranges and domains either, whose items look like text and numbers."""


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _name_based_uuid(name: bytes) -> str:
    """Java's `UUID.nameUUIDFromBytes`: MD5 with the version and the variant put in."""
    return str(UUID(bytes=hashlib.md5(name, usedforsecurity=False).digest(), version=3))


_IN_BASE64 = base64.b64encode(UNAVAILABLE.encode()).decode()
_MAP_UNAVAILABLE = _compact({UNAVAILABLE: UNAVAILABLE})
_ARRAYS_UNAVAILABLE = (
    _compact([UNAVAILABLE]),
    _compact([_IN_BASE64]),
    _compact(list(UNAVAILABLE.encode())),
    _compact([_name_based_uuid(UNAVAILABLE.encode())]),
)
"""Debezium makes the placeholder of an array from its element's type: text, bytes, the numbers of its letters, a UUID."""

ANY_UNAVAILABLE = (
    UNAVAILABLE,
    _IN_BASE64,
    UNAVAILABLE.encode().hex(),
    _MAP_UNAVAILABLE,
    *_ARRAYS_UNAVAILABLE,
    _compact([str(letter) for letter in UNAVAILABLE.encode()]),
)
"""Where nobody says what a column is at its source: it may be a text, an array, bytes (as `binary.handling.mode` says) or
an hstore. The last is an array whose numbers were made texts, to be read exactly."""

_JSON_TEXT = Kind("STRING", placeholders=(UNAVAILABLE, _MAP_UNAVAILABLE))

_TEXT = Kind("STRING", placeholders=(UNAVAILABLE,))

_DATE = Kind(
    "DATE", _call("small"), _call("days"), (MIN_DAYS, MAX_DAYS), "(DATE '1970-01-01' + ({})::INTEGER)".format
)

_WHOLE = _call("whole")

_MILLIS = Kind(
    "TIMESTAMP_NTZ",
    _WHOLE,
    None,
    (MIN_MICROS // 1000, MAX_MICROS // 1000),
    "make_timestamp({} * 1000)".format,
)

_MICROS = Kind("TIMESTAMP_NTZ", _WHOLE, None, (MIN_MICROS, MAX_MICROS), "make_timestamp({})".format)

_NANOS = Kind("TIMESTAMP_NTZ", _WHOLE, _call("nanos"), (MIN_MICROS, MAX_MICROS), "make_timestamp({})".format)

_ZONED = Kind(
    "TIMESTAMP", _call("zoned"), None, (MIN_MICROS, MAX_MICROS), "make_timestamp({})::TIMESTAMPTZ".format
)

_INT = Kind("INT", _call("small"))

_FLOAT = Kind("FLOAT", "TRY_CAST({} AS FLOAT)".format)

_DOUBLE = Kind("DOUBLE", "TRY_CAST({} AS DOUBLE)".format)

_PLAIN = {
    "int8": _INT,
    "int16": _INT,
    "int32": _INT,
    "int64": Kind("BIGINT", _WHOLE),
    "boolean": Kind("BOOLEAN", _call("truth")),
    "float": _FLOAT,
    "float32": _FLOAT,
    "double": _DOUBLE,
    "float64": _DOUBLE,
    "string": _TEXT,
    "bytes": Kind("BINARY", _call("decoded"), placeholders=(f'"{_IN_BASE64}"',), text="JSON"),
}

_NAMED = {
    "io.debezium.time.Date": _DATE,
    "org.apache.kafka.connect.data.Date": _DATE,
    "io.debezium.time.Timestamp": _MILLIS,
    "org.apache.kafka.connect.data.Timestamp": _MILLIS,
    "io.debezium.time.MicroTimestamp": _MICROS,
    "io.debezium.time.NanoTimestamp": _NANOS,
    "io.debezium.time.ZonedTimestamp": _ZONED,
    "io.debezium.data.Json": _JSON_TEXT,
    "io.debezium.data.VariableScaleDecimal": Kind(
        "STRING", _call("scaled"), most_padding=MAX_SCALE, pads=_call("decimals")
    ),
    "io.debezium.data.Bits": Kind("BINARY", _call("decoded"), tells=False, text="JSON"),
}

PROMOTIONS = {("INT", "BIGINT"), ("FLOAT", "DOUBLE")}


def fits(table_type: str, message_type: str) -> bool:
    """Whether a value of the message's type fits into a column of the table's, as it is or cast up."""
    return table_type == message_type or _may_widen(message_type, table_type)


def widened(table_type: str, message_type: str) -> bool:
    """Whether Iceberg may widen the column to the message's type."""
    return _may_widen(table_type, message_type)


def _may_widen(narrow: str, wide: str) -> bool:
    if (narrow, wide) in PROMOTIONS:
        return True
    if narrow.startswith("DECIMAL(") and wide.startswith("DECIMAL("):
        narrow_precision, narrow_scale = narrow[8:-1].split(",")
        wide_precision, wide_scale = wide[8:-1].split(",")
        return narrow_scale == wide_scale and int(narrow_precision) < int(wide_precision)
    return False
