"""Which column of a table a column of the source is, where they have other names. Only values here.

What a stream says (`names`) comes first. Then what the table keeps of it: by name of the source, the field id of a column,
which stays the same whoever calls the column otherwise. Then the table's own names, and then the aliases of a schema. What
none of them knows is a column of its own name.

Iceberg's own name mapping (`schema.name-mapping.default`) would be no place for it: that says how files are read which have no
field ids.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from pyiceberg.schema import Schema

from isotherm_ingest.decode.debezium_messages import CHANGELOG_COLUMNS
from isotherm_ingest.decode.debezium_schema import ChangeSchema, Column
from isotherm_ingest.streams import Stream
from isotherm_ingest.tables.lake import TableNow
from isotherm_ingest.tables.misfits import base_of, free_name

COLUMNS_PROPERTY = "ingest.columns"
"""JSON: by name of the source, in lower case, the id of the column that it is."""
MAX_NAMES = 4_000
"""Names that are kept: those of as many columns as a table gets (2,000), and as many others. Aliases may be without end, and
the property is in each metadata.json."""


@dataclass(frozen=True, slots=True)
class SourceNames:
    """What the names of one source mean in one table. Names of the source are in lower case."""

    declared: Mapping[str, str] = field(default_factory=dict)
    """As the stream says."""
    known: Mapping[str, str] = field(default_factory=dict)
    """As the table says."""
    before: Mapping[str, str] = field(default_factory=dict)
    """As schemas that came together say, of what the table does not know: by alias, the column's name now."""
    kept: Mapping[str, int] = field(default_factory=dict)
    """What the table keeps of columns that it has: by name of the source, their ids."""
    ids: Mapping[str, int] = field(default_factory=dict)
    """Of the table's columns that can be one of the source, by name in lower case."""
    there: frozenset[str] = frozenset()
    """The names of all columns of the table, in lower case."""
    misfits: frozenset[str] = frozenset()
    """Of these, those that stand beside another one: no column of the source is one of them."""

    def of(self, name: str, aliases: Iterable[str] = ()) -> str:
        """The table's name for a column of the source, or its own where the table has none for it."""
        folded = name.lower()
        for names in (self.declared, self.known):
            if folded in names:
                return names[folded]
        of_aliases = (self.known[one.lower()] for one in aliases if one.lower() in self.known)
        called = next(of_aliases, self.before.get(folded, name))
        return free_name(called, self.there) if called.lower() in self.misfits else called

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

    def renamed(self, renamings: Mapping[str, str]) -> "SourceNames":
        """The same, once columns of the table have other names."""
        folded = {old.lower(): new.lower() for old, new in renamings.items()}
        return replace(
            self,
            known={source: renamings.get(column, column) for source, column in self.known.items()},
            ids={folded.get(name, name): number for name, number in self.ids.items()},
            there=frozenset(folded.get(name, name) for name in self.there),
        )


AS_THEY_ARE = SourceNames()


def with_aliases(schema: ChangeSchema) -> Iterator[tuple[Column, tuple[str, ...]]]:
    """The columns of a schema, with those aliases that are not the name of another one."""
    own = {one.name.lower() for one in schema.columns}
    for one in schema.columns:
        yield one, tuple(alias for alias in one.aliases if alias.lower() not in own)


def names_in(stream: Stream, now: TableNow | None) -> SourceNames:
    """The names in a table of a stream; of one that is not there yet, what the stream says."""
    if now is None:
        return SourceNames(stream.declared_names)
    own = CHANGELOG_COLUMNS if stream.mode == "changelog" else ()
    return source_names(stream.declared_names, now.table.schema(), now.properties, own)


def source_names(
    declared: Mapping[str, str], schema: Schema, properties: Mapping[str, str], own: Collection[str] = ()
) -> SourceNames:
    """The names in a table.

    Args:
        declared: what its stream says.
        schema: the table's.
        properties: the table's.
        own: columns that tell of the changes, and are none of the source.
    """
    misfits = frozenset(one.name.lower() for one in schema.fields if base_of(one) is not None)
    columns = {
        one.field_id: one.name
        for one in schema.fields
        if one.name not in own and one.name.lower() not in misfits
    }
    kept = {name: number for name, number in _kept(properties).items() if number in columns}
    return SourceNames(
        declared,
        {name.lower(): name for name in columns.values()}
        | {name: columns[number] for name, number in kept.items()},
        kept=kept,
        ids={name.lower(): number for number, name in columns.items()},
        there=frozenset(one.name.lower() for one in schema.fields),
        misfits=misfits,
    )


def to_be_renamed(names: SourceNames) -> dict[str, str]:
    """Columns that a table has by one of the names of the source, and should have by another: their names, and those."""
    wanted = {name.lower() for name in names.declared.values()}
    found: dict[str, str] = {}
    for source, column in names.declared.items():
        now = names.known.get(source)
        is_there = column.lower() in names.there or column in found.values()
        if now is None or now.lower() in wanted or is_there:
            continue
        found.setdefault(now, column)
    return found


def names_to_say(names: SourceNames, messages: Iterable[ChangeSchema] = ()) -> dict[str, str]:
    """The property with the names by which columns of the source are known, where the table lacks some.

    A name stays with its column for as long as that is there: only a stream's word moves it. A column that is known by a name
    keeps that alone when somebody calls it otherwise: the source may get a column of the new name.

    Args:
        names: what the stream says, and the table.
        messages: what messages look like, with what the table calls their columns by `names`. (Not what it calls those that do
            not fit: a name means the column, whatever one message has in it.)
    """
    are_known = set(names.kept.values())
    more = {
        name: number
        for name, number in names.ids.items()
        if number not in are_known and name not in names.kept
    }
    for name, column in names.declared.items():
        number = names.ids.get(column.lower())
        if number is not None and names.kept.get(name) != number:
            more[name] = number
    for schema in messages:
        for name, column in _told(names, schema):
            if column in names.ids:
                more.setdefault(name, names.ids[column])
    room = MAX_NAMES - len(names.kept)
    added = [name for name in more if name not in names.kept][: max(room, 0)]
    said = {name: more[name] for name in (*added, *(names.kept.keys() & more.keys()))}
    if not said:
        return {}
    return {COLUMNS_PROPERTY: json.dumps({**names.kept, **said}, separators=(",", ":"))}


def _told(names: SourceNames, schema: ChangeSchema) -> Iterator[tuple[str, str]]:
    """What a schema alone tells: names of the source, and the column of the table that each is, in lower case."""
    for column, aliases in with_aliases(schema):
        here = schema.in_table(column.name).lower()
        given = column.name.lower()
        if given not in names.declared and given not in names.kept:
            yield given, here
        for alias in map(str.lower, aliases):
            if alias not in names.declared and alias not in names.known:
                yield alias, here


def _kept(properties: Mapping[str, str]) -> dict[str, int]:
    """What a table keeps of its names; nothing where it keeps none, or has somebody else's idea of it."""
    try:
        said = json.loads(properties[COLUMNS_PROPERTY])
    except (KeyError, ValueError, RecursionError):
        return {}
    if not isinstance(said, dict):
        return {}
    return {name.lower(): number for name, number in said.items() if type(number) is int}
