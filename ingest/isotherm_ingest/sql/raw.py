"""The raw messages of a batch: their columns, and the SQL that picks those of one table.

A raw view has the columns of Spark's Kafka source and `_schema`, the hash of a message's schema.
"""

# ruff: noqa: S608 (every name in the SQL is quoted, every value a literal)
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from isotherm_ingest.decode.debezium import ChangeSchema
from isotherm_ingest.sql.text import literal
from isotherm_ingest.tables.offsets import Position


def _schema_of(text: str) -> str:
    """SQL of the schema in a message's value or key; null where there is none.

    Connect's converter writes the schema first, so the text before the payload tells schemas apart at no cost.
    """
    text = f"CAST({text} AS STRING)"
    return (
        f"""IF(startswith({text}, '{{"schema":{{') AND instr({text}, ',"payload":') > 0, """
        f"""substring_index({text}, ',"payload":', 1), get_json_object({text}, '$.schema'))"""
    )


TOMBSTONE, NO_SCHEMA = 0, 42
"""Hashes that stand for no schema: no value at all, and no schema in it."""

RAW_COLUMNS = (
    "key",
    "value",
    "headers",
    "topic",
    "partition",
    "offset",
    "timestamp",
    f"""
    CASE
        WHEN value IS NULL THEN {TOMBSTONE}L
        WHEN {_schema_of("value")} IS NULL THEN {NO_SCHEMA}L
        ELSE xxhash64({_schema_of("value")}, {_schema_of("key")})
    END AS _schema
    """,
)
"""`_schema` tells messages apart by what their values and their keys look like."""


@dataclass(frozen=True, slots=True)
class Group:
    """Messages of one topic and one schema, and how to decode them."""

    topic: str
    schema_hash: int
    schema: ChangeSchema


def messages_sql(raw_view: str, groups: Sequence[Group], from_offsets: Mapping[Position, int]) -> str:
    """SQL of the raw messages of some groups, tombstones and those below some offsets left out."""
    return f"""
        SELECT * FROM {raw_view}
        WHERE value IS NOT NULL AND ({" OR ".join(f"({group_sql(group, from_offsets)})" for group in groups)})"""


def group_sql(group: Group, from_offsets: Mapping[Position, int]) -> str:
    """SQL that is true for the messages of a group from some offsets on."""
    return (
        f"topic = {literal(group.topic)} AND _schema = {group.schema_hash}L "
        f"{_offset_filter(group.topic, from_offsets)}"
    )


def _offset_filter(topic: str, from_offsets: Mapping[Position, int]) -> str:
    below = [
        f"(partition = {partition} AND offset < {offset})"
        for (name, partition), offset in sorted(from_offsets.items())
        if name == topic
    ]
    return f"AND NOT ({' OR '.join(below)})" if below else ""
