"""SQL of whether a message is of the source that is expected: what it says of its own."""

from collections.abc import Collection

from isotherm_ingest.decode.debezium_schema import ChangeSchema
from isotherm_ingest.decode.sql_text import literal_in_sql, name_in_sql


def other_table(schema: ChangeSchema, parts: Collection[str]) -> str:
    """SQL of whether a message names another source in some parts of its name."""
    known = {
        "table": ("coalesce(p.source.table, '')", schema.source_table),
        "schema": (
            f"coalesce({', '.join([f'p.source.{one}' for one in ('schema', 'db') if one in schema.source_fields])}, '')",
            schema.source_schema,
        ),
    }
    there = {
        "table": "table" in schema.source_fields,
        "schema": bool({"schema", "db"} & schema.source_fields),
    }
    return " OR ".join(
        f"{known[part][0]} <> {literal_in_sql(known[part][1] or '')}" for part in sorted(parts) if there[part]
    )


def elsewhere(schema: ChangeSchema, source: tuple[str, ...] | None) -> str:
    """SQL of whether a message is of another source than the table's rows, or does not say of which it is."""
    if source is None:
        return "false"
    if not source:
        return "true"
    parts = dict(zip(("name", "db", "schema", "table"), source, strict=True))
    if any(said and name not in schema.source_fields for name, said in parts.items()):
        return "true"
    differs = [
        f"coalesce(p.source.{name_in_sql(name)}, '') <> {literal_in_sql(said)}"
        for name, said in parts.items()
        if name in schema.source_fields
    ]
    return f"({' OR '.join(differs)})" if differs else "false"
