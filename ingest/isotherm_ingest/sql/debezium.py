"""Debezium's JSON with schemas: which columns a message has, and the Spark expressions that decode it.

Pure text in, text out: a schema is taken apart in Python, once; each message is then decoded by expressions in the
JVM, never by a Python function. What an expression cannot decode becomes null and is told apart from a true null
(`Column.problem`), so that the row can go to the dead letters instead of into the table.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from isotherm_ingest.sql.text import literal, quoted

UNAVAILABLE = "__debezium_unavailable_value"
"""What stands in place of a large value that an update did not change (PostgreSQL's TOAST)."""

CODEC = "map('columnNameOfCorruptRecord', '_corrupt')"

MIN_MICROS, MAX_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999
"""Years 1 to 9999. PostgreSQL's infinities lie beyond, and would overflow hour ordinals."""

_TWO_64 = "CAST(18446744073709551616 AS DECIMAL(20,0))"


class SchemaError(ValueError):
    """A message schema that is no change event's, or that names a type we do not know how to read."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How one type travels, and what it becomes."""

    type: str
    """The column's type in the table, as Spark's DDL says it."""
    wire: str
    """What `from_json` reads."""
    decode: Callable[[str], str] = str
    """The SQL of the value, from the SQL of what was read."""
    may_fail: bool = False
    """Whether decoding may give null for what is not null."""
    placeholder: str | None = None
    """SQL of the value, as decoded, that stands for an unchanged TOAST value."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a change event."""

    name: str
    kind: Kind

    def value(self, row: str) -> str:
        """SQL of the value in a row image."""
        return self.kind.decode(f"{row}.{quoted(self.name)}")

    def problem(self, row: str) -> str | None:
        """SQL that is true where the value cannot be decoded."""
        if not self.kind.may_fail:
            return None
        wire = f"{row}.{quoted(self.name)}"
        value = self.value(row)
        if self.kind.type.startswith("ARRAY"):
            # An element that could not be decoded is a null more than there were.
            return (
                f"({wire} IS NOT NULL AND size(filter({wire}, x -> x IS NOT NULL)) <> "
                f"size(filter({value}, x -> x IS NOT NULL)))"
            )
        return f"({wire} IS NOT NULL AND {value} IS NULL)"


@dataclass(frozen=True, slots=True)
class ChangeSchema:
    """What the messages of one schema look like."""

    columns: tuple[Column, ...]
    key: tuple[str, ...]
    """Fields of the message key, or empty if the messages have none."""
    source_schema: str
    source_table: str
    has_lsn: bool

    @property
    def wire(self) -> str:
        """What `from_json` is told to read: the envelope, and a place for what it cannot."""
        row = ", ".join(f"{quoted(column.name)}: {column.kind.wire}" for column in self.columns)
        lsn = ", lsn: BIGINT" if self.has_lsn else ""
        return (
            f"payload STRUCT<before: STRUCT<{row}>, after: STRUCT<{row}>, "
            f"source: STRUCT<`schema`: STRING, `db`: STRING, `table`: STRING, ts_ms: BIGINT{lsn}>, op: STRING>, "
            "_corrupt STRING"
        )


def change_schema(value: str, key: str | None) -> ChangeSchema:
    """The schema of a message and of those like it.

    Raises:
        SchemaError: it is no Debezium change event with its schema.
    """
    message = _json(value)
    try:
        fields = {field["field"]: field for field in message["schema"]["fields"]}
        source = message["payload"]["source"]
        image = fields.get("after") or fields["before"]
        columns = tuple(Column(field["field"], kind_of(field)) for field in image["fields"])
        source_fields = {field["field"] for field in fields["source"]["fields"]}
        fields["op"]  # what has none is no change event
    except (KeyError, TypeError) as err:
        raise SchemaError(f"no Debezium change event with a schema ({err} is missing)") from err
    folded = [column.name.lower() for column in columns]
    if len(set(folded)) < len(folded):
        raise SchemaError("two columns differ by upper and lower case only, which a table cannot hold")
    return ChangeSchema(
        columns,
        key_fields(key),
        str(source.get("schema") or source.get("db") or ""),
        str(source.get("table") or ""),
        "lsn" in source_fields,
    )


def key_fields(key: str | None) -> tuple[str, ...]:
    """The fields of a message key with its schema; empty where there is none."""
    if key is None:
        return ()
    schema = _json(key).get("schema")
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        return ()
    return tuple(str(field["field"]) for field in schema["fields"])


def _json(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as err:
        raise SchemaError(f"not JSON: {err}") from err
    if not isinstance(data, dict):
        raise SchemaError("not a JSON object")
    return data


def kind_of(schema: Mapping[str, Any]) -> Kind:
    """What a Connect schema becomes. A type that nobody planned for becomes its JSON text, so nothing is lost."""
    kind, name = schema.get("type"), schema.get("name") or ""
    if name == "org.apache.kafka.connect.data.Decimal":
        return _decimal(schema.get("parameters") or {})
    if name in _NAMED:
        return _NAMED[name]
    if kind == "array":
        return _array(kind_of(schema["items"]))
    return _PLAIN.get(str(kind), _JSON_TEXT)


def _timestamp(micros: str) -> Callable[[str], str]:
    def decode(wire: str) -> str:
        value = micros.format(wire)
        return f"IF({value} BETWEEN {MIN_MICROS} AND {MAX_MICROS}, CAST(timestamp_micros({value}) AS TIMESTAMP_NTZ), NULL)"

    return decode


def unscaled(wire: str) -> str:
    """SQL of the whole number in two's complement bytes, at most 16 of them; null where there are more."""
    digits = f"lpad(hex({wire}), 32, IF(substr(hex({wire}), 1, 1) >= '8', 'F', '0'))"
    high = f"CAST(conv(substr({digits}, 1, 16), 16, -10) AS DECIMAL(20,0))"
    low = f"CAST(conv(substr({digits}, 17, 16), 16, 10) AS DECIMAL(20,0))"
    return f"IF(length({wire}) <= 16, try_add(try_multiply({high}, {_TWO_64}), {low}), NULL)"


def _small_unscaled(wire: str) -> str:
    """The same, where eight bytes are enough."""
    digits = f"lpad(hex({wire}), 16, IF(substr(hex({wire}), 1, 1) >= '8', 'F', '0'))"
    return f"IF(length({wire}) <= 8, conv({digits}, 16, -10), NULL)"


def _decimal(parameters: Mapping[str, Any]) -> Kind:
    """`decimal.handling.mode=precise`: base64 of two's complement bytes, the scale in the schema."""
    try:
        scale = int(parameters.get("scale", 0))
        precision = int(parameters.get("connect.decimal.precision", 38))
    except ValueError as err:
        raise SchemaError(f"decimal with parameters {dict(parameters)}") from err
    if not 0 <= scale <= precision or precision > 38:
        return _VARIABLE_TEXT(scale)
    whole = _small_unscaled if precision <= 18 else unscaled
    exponent = literal(f"E-{scale}")
    target = f"DECIMAL({precision},{scale})"
    return Kind(
        target,
        "BINARY",
        lambda wire: f"TRY_CAST(concat(CAST({whole(wire)} AS STRING), {exponent}) AS {target})",
        may_fail=True,
    )


def _plain_number(value: str, scale: str) -> str:
    """SQL of a whole number with a decimal point put in, as people write it."""
    text = f"CAST(abs({value}) AS STRING)"
    padded = f"lpad({text}, greatest(length({text}), {scale} + 1), '0')"
    return (
        f"IF({scale} = 0, CAST({value} AS STRING), IF({scale} BETWEEN 1 AND 1000, concat(IF({value} < 0, '-', ''), "
        f"left({padded}, length({padded}) - {scale}), '.', right({padded}, {scale})), NULL))"
    )


def _VARIABLE_TEXT(scale: int) -> Kind:  # noqa: N802 (a constant with a parameter)
    """A number that no decimal type holds, as text."""
    return Kind("STRING", "BINARY", lambda wire: _plain_number(unscaled(wire), str(scale)), may_fail=True)


def _array(item: Kind) -> Kind:
    if item.placeholder is None and item.type in {"INT", "BIGINT"}:
        placeholder: str | None = f"array({', '.join(str(ord(letter)) for letter in UNAVAILABLE)})"
    else:
        placeholder = None if item.placeholder is None else f"array({item.placeholder})"
    if placeholder is not None:
        placeholder = f"CAST({placeholder} AS ARRAY<{item.type}>)"
    plain = item.decode("x") == "x"
    return Kind(
        f"ARRAY<{item.type}>",
        f"ARRAY<{item.wire}>",
        str if plain else lambda wire: f"transform({wire}, x -> {item.decode('x')})",
        may_fail=item.may_fail,
        placeholder=placeholder,
    )


_JSON_TEXT = Kind("STRING", "STRING")

_TEXT = Kind("STRING", "STRING", placeholder=literal(UNAVAILABLE))

_DATE = Kind("DATE", "INT", lambda wire: f"date_from_unix_date({wire})")

_MILLIS = Kind("TIMESTAMP_NTZ", "BIGINT", _timestamp("try_multiply({}, 1000L)"), may_fail=True)

_MICROS = Kind("TIMESTAMP_NTZ", "BIGINT", _timestamp("{}"), may_fail=True)

_NANOS = Kind("TIMESTAMP_NTZ", "BIGINT", _timestamp("({} div 1000)"), may_fail=True)

_ZONED = Kind("TIMESTAMP", "STRING", lambda wire: f"TRY_CAST({wire} AS TIMESTAMP)", may_fail=True)

_PLAIN = {
    "int8": Kind("INT", "INT"),
    "int16": Kind("INT", "INT"),
    "int32": Kind("INT", "INT"),
    "int64": Kind("BIGINT", "BIGINT"),
    "boolean": Kind("BOOLEAN", "BOOLEAN"),
    "float": Kind("FLOAT", "FLOAT"),
    "float32": Kind("FLOAT", "FLOAT"),
    "double": Kind("DOUBLE", "DOUBLE"),
    "float64": Kind("DOUBLE", "DOUBLE"),
    "string": _TEXT,
    "bytes": Kind("BINARY", "BINARY", placeholder=f"CAST({literal(UNAVAILABLE)} AS BINARY)"),
}

_NAMED = {
    "io.debezium.time.Date": _DATE,
    "org.apache.kafka.connect.data.Date": _DATE,
    "io.debezium.time.Timestamp": _MILLIS,
    "org.apache.kafka.connect.data.Timestamp": _MILLIS,
    "io.debezium.time.MicroTimestamp": _MICROS,
    "io.debezium.time.NanoTimestamp": _NANOS,
    "io.debezium.time.ZonedTimestamp": _ZONED,
    "io.debezium.data.VariableScaleDecimal": Kind(
        "STRING",
        "STRUCT<scale: INT, value: BINARY>",
        lambda wire: _plain_number(unscaled(f"{wire}.value"), f"{wire}.scale"),
        may_fail=True,
    ),
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
