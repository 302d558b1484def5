"""Which column of a table a column of the source is, where they have other names. Only values here.

What a stream says (`names`) comes first. Then the table's own names, and those that its columns had or were given before:
Iceberg's name mapping has them by field id, and keeps a name where a column is renamed, whoever renames it. Then the
aliases of a schema. What none of them knows is a column of its own name.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import create_mapping_from_schema

from isotherm_ingest.decode.debezium_schema import ChangeSchema, Column

MAPPING_PROPERTY = "schema.name-mapping.default"
"""Iceberg's name mapping (specification, "Column Projection"). Each change of the schema brings it up to date."""


@dataclass(frozen=True, slots=True)
class SourceNames:
    """What the names of one source mean in one table. Names of the source are in lower case."""

    declared: Mapping[str, str] = field(default_factory=dict)
    """As the stream says."""
    known: Mapping[str, str] = field(default_factory=dict)
    """As the table says."""
    before: Mapping[str, str] = field(default_factory=dict)
    """As schemas that came together say, of what the table does not know: by alias, the column's name now."""

    def of(self, name: str, aliases: Iterable[str] = ()) -> str:
        """The table's name for a column of the source, or its own where the table has none for it."""
        folded = name.lower()
        for names in (self.declared, self.known):
            if folded in names:
                return names[folded]
        of_aliases = (self.known[one.lower()] for one in aliases if one.lower() in self.known)
        return next(of_aliases, self.before.get(folded, name))

    def beside(self, schemas: Iterable[ChangeSchema]) -> "SourceNames":
        """The same, where these schemas come together: a name that one has for an alias means the same in all."""
        before = {
            alias.lower(): column.name
            for schema in schemas
            for column, aliases in with_aliases(schema)
            for alias in aliases
        }
        return replace(self, before=before)

    def called(self, schema: ChangeSchema) -> ChangeSchema:
        """The same, with what the table calls its columns."""
        pairs = {column.name: self.of(column.name, aliases) for column, aliases in with_aliases(schema)}
        pairs |= {name: self.of(name) for name in schema.key if name not in pairs}
        return replace(schema, called=tuple((one, name) for one, name in pairs.items() if one != name))


AS_THEY_ARE = SourceNames()


def with_aliases(schema: ChangeSchema) -> Iterator[tuple[Column, tuple[str, ...]]]:
    """The columns of a schema, with those aliases that are not the name of another one."""
    own = {one.name.lower() for one in schema.columns}
    for one in schema.columns:
        yield one, tuple(alias for alias in one.aliases if alias.lower() not in own)


def source_names(
    declared: Mapping[str, str], schema: Schema | None = None, properties: Mapping[str, str] | None = None
) -> SourceNames:
    """The names in a table; of one that is not there yet, what its stream says."""
    if schema is None:
        return SourceNames(declared)
    columns = {one.field_id: one.name for one in schema.fields}
    mapped = {
        str(name).lower(): columns[one["field-id"]]
        for one in _mapping(properties or {}) or ()
        for name in one["names"]
        if one.get("field-id") in columns
    }
    return SourceNames(declared, mapped | {name.lower(): name for name in columns.values()})


def to_be_renamed(names: SourceNames) -> dict[str, str]:
    """Columns that a table has by one of the names of the source, and should have by another: their names, and those."""
    there = {name.lower() for name in names.known.values()}
    wanted = {name.lower() for name in names.declared.values()}
    found: dict[str, str] = {}
    for source, column in names.declared.items():
        now = names.known.get(source)
        if now is None or now.lower() in wanted or column.lower() in there or column in found.values():
            continue
        found.setdefault(now, column)
    return found


def mapping_to_say(schema: Schema, properties: Mapping[str, str]) -> dict[str, str]:
    """The property with the name mapping, of a table that has none."""
    if MAPPING_PROPERTY in properties:
        return {}
    return {MAPPING_PROPERTY: create_mapping_from_schema(schema).model_dump_json()}


def names_to_say(
    schema: Schema, properties: Mapping[str, str], names: SourceNames, messages: Iterable[ChangeSchema]
) -> dict[str, str]:
    """The property with the name mapping, where it lacks names by which columns of the source are known.

    What was once said, by a stream or by the alias of a schema, stays so for messages that come without it.

    Args:
        schema: the table's.
        properties: the table's.
        names: what the stream says, and the table.
        messages: what messages look like.
    """
    mapping = _mapping(properties)
    if mapping is None:
        return {}
    told = _told(names, messages)
    ids = {one.name: one.field_id for one in schema.fields}
    own = {one.name.lower() for one in schema.fields}
    mapped = {str(name).lower(): one.get("field-id") for one in mapping for name in one["names"]}
    more = {
        name: ids[column]
        for name, column in told.items()
        if name not in own and column in ids and mapped.get(name) != ids[column]
    }
    if not more:
        return {}
    for one in mapping:
        one["names"] = [name for name in one["names"] if str(name).lower() not in more]
        one["names"] += [name for name, number in more.items() if number == one.get("field-id")]
    return {MAPPING_PROPERTY: json.dumps(mapping, separators=(",", ":"))}


def _told(names: SourceNames, messages: Iterable[ChangeSchema]) -> dict[str, str]:
    """By name of the source, the column of the table that it is, where only a stream or messages say so."""
    told = dict(names.declared)
    for schema in messages:
        for column, aliases in with_aliases(schema):
            given = {name.lower() for name in (column.name, *aliases)}
            told |= dict.fromkeys(given - told.keys() - names.known.keys(), schema.in_table(column.name))
    return told


def _mapping(properties: Mapping[str, str]) -> list[dict[str, Any]] | None:
    """The name mapping; None where there is none, or somebody else's idea of one."""
    try:
        said = json.loads(properties[MAPPING_PROPERTY])
    except (KeyError, ValueError, RecursionError):
        return None
    is_one = isinstance(said, list) and all(
        isinstance(one, dict) and isinstance(one.get("names"), list) for one in said
    )
    return said if is_one else None
