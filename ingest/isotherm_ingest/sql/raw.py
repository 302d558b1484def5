"""The raw messages of a batch: their columns, and the SQL that picks those of one table.

A raw view has the columns of Spark's Kafka source and `_schema`, the hash of a message's schema.
"""

# ruff: noqa: S608 (every name in the SQL is quoted, every value a literal)
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from isotherm_ingest.decode.debezium import PAYLOAD, SCHEMA, ChangeSchema
from isotherm_ingest.sql.text import literal
from isotherm_ingest.tables.offsets import Position

OLD_KEY = "__debezium.oldkey"
"""Header of the insert by which Debezium says that a row has got another key."""


def _before_payload(column: str) -> str:
    return f"substring_index(CAST({column} AS STRING), {literal(PAYLOAD)}, 1)"


def _schema_of(column: str) -> str:
    """SQL of the schema in a message's value or key; null where there is none.

    Connect's converter writes the schema first, so the text before the payload tells schemas apart at no cost.
    """
    text = f"CAST({column} AS STRING)"
    return (
        f"IF(startswith({text}, {literal(SCHEMA)}) AND instr({text}, {literal(PAYLOAD)}) > 0, "
        f"{_before_payload(column)}, get_json_object({text}, '$.schema'))"
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
    """SQL of what the decoder needs of the raw messages of some groups, as little as possible.

    Tombstones and what is below some offsets is left out. To hand a message to Python costs more than to decode it,
    so its schema stays behind, and its key where only a delete needs it.
    """
    cut = [f"{group.schema_hash}L" for group in groups if group.schema.schema_first]
    is_cut = f"_schema IN ({', '.join(cut)})" if cut else "false"
    return f"""
        SELECT
            CASE WHEN {is_cut} THEN concat(X'7B', substring(value, octet_length({_before_payload("value")}) + 2)) ELSE value END AS text,
            CASE WHEN {is_cut} AND instr(CAST(value AS STRING), '"op":"d"') = 0 THEN NULL ELSE key END AS key_text,
            coalesce(exists(headers, one -> one.key = {literal(OLD_KEY)}), false) AS moved,
            topic, partition, offset, _schema
        FROM {raw_view}
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


def letters_sql(raw_view: str, decoded_view: str) -> str:
    """SQL of the raw messages that could not be decoded, with the problem of each."""
    return f"""
        SELECT raw.*, bad.change.problem AS problem
        FROM {raw_view} raw JOIN {decoded_view} bad
        ON raw.topic = bad.change.topic AND raw.partition = bad.change.partition AND raw.offset = bad.change.offset
        WHERE bad.change.problem IS NOT NULL"""
