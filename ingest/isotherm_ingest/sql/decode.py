"""The SQL that turns raw messages into rows: decode, judge, look over. Text only; nothing here runs it.

A raw view has the columns of Spark's Kafka source and `_schema`, the hash of a message's schema. A decoded view has
two columns, so that no name of ours meets a name of the source: `row`, a struct of the table's columns, and `change`,
a struct of what is known of the change: `op`, `ts`, `lsn`, its Kafka position, `kept`, and `problem`, which is null
for a row that can be written. `kept` names the columns that hold the placeholder of an unchanged large value.
Where there is a problem, `change` also holds the message itself, for the dead letters.
"""

# ruff: noqa: S608 (every name in the SQL is quoted, every value a literal)
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from isotherm_ingest.sql.debezium import CODEC, ChangeSchema, Column
from isotherm_ingest.sql.text import literal
from isotherm_ingest.tables.offsets import Position

RAW_COLUMNS = (
    "key",
    "value",
    "headers",
    "topic",
    "partition",
    "offset",
    "timestamp",
    """
    CASE
        WHEN value IS NULL THEN 0L
        WHEN startswith(CAST(value AS STRING), '{"schema":{') AND instr(CAST(value AS STRING), ',"payload":') > 0
            THEN xxhash64(substring_index(CAST(value AS STRING), ',"payload":', 1))
        ELSE xxhash64(get_json_object(CAST(value AS STRING), '$.schema'))
    END AS _schema
    """,
)
"""Connect's converter writes the schema first, so the text before the payload tells schemas apart at no cost."""

RAW_KEPT = ("key", "value", "headers", "timestamp")
"""What dead letters need of the message itself."""

TOMBSTONE, NO_SCHEMA = 0, 42
"""Hashes that stand for no schema: no value at all, and (xxhash64 of null is its seed) no schema in it."""

ROW_OPS = "('r', 'c', 'u', 'd')"


@dataclass(frozen=True, slots=True)
class Group:
    """Messages of one topic and one schema, and how to decode them."""

    topic: str
    schema_hash: int
    schema: ChangeSchema


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a decoded view is asked for."""

    columns: Mapping[str, str]
    """The table's columns, with their types."""
    key: tuple[str, ...]
    """Columns that must not be null."""
    before: tuple[str, ...]
    """Columns whose value in the old row is wanted too, in a third struct, `before`."""
    from_offsets: Mapping[Position, int]
    """Rows below these offsets stand in the table already."""
    keeps: bool
    """Whether the table keeps the value that a placeholder stands for; `row` has null there."""


def decoded_sql(raw_view: str, groups: Sequence[Group], wanted: Wanted) -> str:
    """SQL of the rows of some groups of messages."""
    return "\nUNION ALL\n".join(_group_sql(raw_view, group, wanted) for group in groups)


def _group_sql(raw_view: str, group: Group, wanted: Wanted) -> str:
    by_name = {column.name.lower(): column for column in group.schema.columns}
    kept = _kept_columns(group, wanted)
    row = {
        name: _in_table(by_name.get(name.lower()), kind, gone=wanted.keeps and name in kept)
        for name, kind in wanted.columns.items()
    }
    before = {
        name: _value(by_name.get(name.lower()), "j.payload.before", wanted.columns[name])
        for name in wanted.before
    }
    old = f", {_struct(before)} AS before" if before else ""
    return f"""
        SELECT {_struct(row)} AS row, {_struct(_change(group, wanted))} AS change{old}
        FROM (
            SELECT *, IF(j.payload.op = 'd', j.payload.before, j.payload.after) AS image
            FROM (
                SELECT *, from_json(CAST(value AS STRING), {literal(group.schema.wire)}, {CODEC}) AS j
                FROM {raw_view}
                WHERE value IS NOT NULL AND topic = {literal(group.topic)} AND _schema = {group.schema_hash}L
                {_offset_filter(group.topic, wanted.from_offsets)}
            )
        )"""


def _change(group: Group, wanted: Wanted) -> dict[str, str]:
    problem = _problem(group, wanted)
    return {
        "op": "j.payload.op",
        "ts": "timestamp_millis(j.payload.source.ts_ms)",
        "lsn": "j.payload.source.lsn" if group.schema.has_lsn else "CAST(NULL AS BIGINT)",
        "topic": "topic",
        "partition": "partition",
        "offset": "offset",
        "kept": _kept(_kept_columns(group, wanted)),
        "problem": problem,
        **{name: f"IF({problem} IS NULL, NULL, {name})" for name in RAW_KEPT},
    }


def _struct(fields: Mapping[str, str]) -> str:
    return f"named_struct({', '.join(f'{literal(name)}, {value}' for name, value in fields.items())})"


def _in_table(column: Column | None, kind: str, *, gone: bool) -> str:
    value = _value(column, "image", kind)
    return f"IF({_is_kept(column)}, NULL, {value})" if gone and column is not None else value


def _value(column: Column | None, row: str, kind: str) -> str:
    return f"CAST(NULL AS {kind})" if column is None else f"CAST({column.value(row)} AS {kind})"


def _offset_filter(topic: str, from_offsets: Mapping[Position, int]) -> str:
    below = [
        f"(partition = {partition} AND offset < {offset})"
        for (name, partition), offset in sorted(from_offsets.items())
        if name == topic
    ]
    return f"AND NOT ({' OR '.join(below)})" if below else ""


def _problem(group: Group, wanted: Wanted) -> str:
    schema = group.schema
    by_name = {column.name.lower(): column for column in schema.columns}
    from_table = "coalesce(j.payload.source.`table`, '')"
    from_source = "coalesce(j.payload.source.`schema`, j.payload.source.`db`, '')"
    cases = [
        ("NOT is_valid_utf8(CAST(value AS STRING))", "'not_utf8'"),
        (
            "j._corrupt IS NOT NULL OR j.payload.op IS NULL",
            "'undecodable:the payload does not fit its schema'",
        ),
        (f"j.payload.op NOT IN {ROW_OPS}", "concat('unsupported_op:', j.payload.op)"),
        (
            f"{from_table} <> {literal(schema.source_table)} OR {from_source} <> {literal(schema.source_schema)}",
            "'other_table:the topic holds changes of two tables with one schema'",
        ),
        ("image IS NULL", "'no_row:the change has no row image'"),
        *(
            (f"{by_name[name.lower()].value('image')} IS NULL", literal(f"null_key:{name}"))
            for name in wanted.key
            if name.lower() in by_name
        ),
        *(
            (problem, literal(f"undecodable_value:{column.name}"))
            for column in schema.columns
            if (problem := column.problem("image")) is not None
        ),
    ]
    whens = " ".join(f"WHEN {condition} THEN {reason}" for condition, reason in cases)
    return f"CASE {whens} END"


def _kept_columns(group: Group, wanted: Wanted) -> dict[str, Column]:
    """Columns that may hold the placeholder of an unchanged large value, by their name in the table."""
    by_name = {column.name.lower(): column for column in group.schema.columns}
    found = {name: by_name[name.lower()] for name in wanted.columns if name.lower() in by_name}
    return {
        name: column
        for name, column in found.items()
        if column.kind.placeholder is not None and name not in wanted.key
    }


def _kept(columns: Mapping[str, Column]) -> str:
    names = [f"IF({_is_kept(column)}, {literal(name)}, NULL)" for name, column in columns.items()]
    return f"array_compact(array({', '.join(names)}))" if names else "CAST(array() AS ARRAY<STRING>)"


def _is_kept(column: Column) -> str:
    return f"(j.payload.op = 'u' AND coalesce({column.value('image')} = {column.kind.placeholder}, false))"
