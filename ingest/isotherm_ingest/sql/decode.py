"""The SQL that turns raw messages into rows: decode, judge, look over. Text only; nothing here runs it.

A raw view has the columns of Spark's Kafka source and `_schema`, the hash of a message's schema. A decoded view has
the table's columns and, beside them, what is said of each change: `_op`, `_ts`, `_lsn`, its Kafka position, and
`_problem`, which is null for a row that can be written.
"""

# ruff: noqa: S608 (every name in the SQL is quoted, every value a literal)
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from isotherm_ingest.sql.debezium import CODEC, ChangeSchema, Column
from isotherm_ingest.sql.text import literal, quoted
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
"""What dead letters need of the message itself; in a decoded view as `_raw_…`, for a row may have such columns."""

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
    """Columns whose value in the old row is wanted too, as `_before_<name>`."""
    from_offsets: Mapping[Position, int]
    """Rows below these offsets stand in the table already."""


def decoded_sql(raw_view: str, groups: Sequence[Group], wanted: Wanted) -> str:
    """SQL of the rows of some groups of messages."""
    return "\nUNION ALL\n".join(_group_sql(raw_view, group, wanted) for group in groups)


def _group_sql(raw_view: str, group: Group, wanted: Wanted) -> str:
    by_name = {column.name.lower(): column for column in group.schema.columns}
    values = [
        f"{_value(by_name.get(name.lower()), 'row', kind)} AS {quoted(name)}"
        for name, kind in wanted.columns.items()
    ]
    before = [
        f"{_value(by_name.get(name.lower()), 'j.payload.before', wanted.columns[name])} AS {quoted('_before_' + name)}"
        for name in wanted.before
    ]
    lsn = "j.payload.source.lsn" if group.schema.has_lsn else "CAST(NULL AS BIGINT)"
    about = [
        "j.payload.op AS _op",
        "timestamp_millis(j.payload.source.ts_ms) AS _ts",
        f"{lsn} AS _lsn",
        "topic AS _topic",
        "partition AS _topic_partition",
        "offset AS _offset",
        f"{_unavailable(group.schema.columns)} AS _unavailable",
        f"{_problem(group, wanted)} AS _problem",
        *(f"{name} AS _raw_{name}" for name in RAW_KEPT),
    ]
    return f"""
        SELECT {", ".join([*values, *before, *about])}
        FROM (
            SELECT *, IF(j.payload.op = 'd', j.payload.before, j.payload.after) AS row
            FROM (
                SELECT *, from_json(CAST(value AS STRING), {literal(group.schema.wire)}, {CODEC}) AS j
                FROM {raw_view}
                WHERE value IS NOT NULL AND topic = {literal(group.topic)} AND _schema = {group.schema_hash}L
                {_offset_filter(group.topic, wanted.from_offsets)}
            )
        )"""


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
        ("row IS NULL", "'no_row:the change has no row image'"),
        *(
            (f"{by_name[name.lower()].value('row')} IS NULL", literal(f"null_key:{name}"))
            for name in wanted.key
            if name.lower() in by_name
        ),
        *(
            (problem, literal(f"undecodable_value:{column.name}"))
            for column in schema.columns
            if (problem := column.problem("row")) is not None
        ),
    ]
    whens = " ".join(f"WHEN {condition} THEN {reason}" for condition, reason in cases)
    return f"CASE {whens} END"


def _unavailable(columns: Sequence[Column]) -> str:
    """True where any value is the placeholder of an unchanged large value."""
    checks = [
        f"coalesce({column.value('row')} = {column.kind.placeholder}, false)"
        for column in columns
        if column.kind.placeholder is not None
    ]
    return f"(j.payload.op = 'u' AND ({' OR '.join(checks)}))" if checks else "false"
