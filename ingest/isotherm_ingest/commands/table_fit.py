"""What would become of a table with messages of some schemas: which columns would come, be widened, or be refused.

By the functions that the driver asks (`tables.schema_fit`, `tables.definition`), on a table as it is. Nothing is changed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from isotherm_ingest.decode.debezium_messages import CHANGELOG_COLUMNS
from isotherm_ingest.decode.debezium_schema import Column
from isotherm_ingest.failures import TableRefused
from isotherm_ingest.sql.text import quoted
from isotherm_ingest.streams import Stream
from isotherm_ingest.tables.column_names import Names, first_clash, names_of
from isotherm_ingest.tables.definition import key_of, missing_properties, of_other_sources, refuse_without
from isotherm_ingest.tables.lake import TableNow
from isotherm_ingest.tables.misfits import Columns, beside
from isotherm_ingest.tables.offset_vector import TokenError
from isotherm_ingest.tables.portion import Group
from isotherm_ingest.tables.refusals import must_be_written
from isotherm_ingest.tables.schema_fit import changes_for, taken_in
from isotherm_ingest.tables.source_names import SourceNames, names_in, to_be_renamed
from isotherm_ingest.tables.template import template_of


@dataclass(frozen=True, slots=True)
class GroupFit:
    """What messages of one schema would do to a table."""

    topic: str
    changes: tuple[str, ...] = ()
    """What of it would be altered, as SQL."""
    refused: str = ""
    """Why the messages would be dead letters."""


@dataclass(frozen=True, slots=True)
class TableFit:
    """What some messages would do to a table."""

    name: str
    mode: str
    is_there: bool
    key: tuple[str, ...] = ()
    """Of a mirror."""
    columns: Mapping[str, str] | None = None
    """Of one that would be made."""
    groups: tuple[GroupFit, ...] = ()
    refused: str = ""
    """Why it would not be written at all, until a person looks."""


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a table, as they would be by now."""

    table: Columns
    names: Names
    """What else has a name in the table."""


def table_fit(
    name: str, now: TableNow | None, stream: Stream, groups: Sequence[Group], pipeline: str
) -> TableFit:
    """What messages of these schemas would do to a table, in this order."""
    properties = {} if now is None else now.properties
    try:
        had = _had(now, pipeline)
        others = of_other_sources(name, stream, groups, properties, had)
        renamings, names = _named(now, stream)
        names = names.beside(group.schema for group in groups if group not in others)
        mine = [replace(group, schema=names.called(group.schema)) for group in groups if group not in others]
        key = key_of(name, stream, mine, properties, names)
        columns = _made_of(name, stream, mine) if now is None else _there(now, renamings)
        if now is None:
            template_of(name, stream, key, columns.table.kinds)
        else:
            if now.head is not None:
                refuse_without(name, key, columns.table.kinds)
            missing_properties(name, stream, key, properties, mine, had, names)
        _refuse_without_time(name, stream, names, columns.table.kinds)
    except (TableRefused, TokenError) as err:
        return TableFit(name, stream.mode, now is not None, refused=str(err))
    made = columns.table.kinds if now is None else None
    found = [GroupFit(group.topic, refused=why) for group, why in others.items()]
    renamed = [f"RENAME COLUMN {quoted(old)} TO {quoted(new)}" for old, new in renamings.items()]
    brought = {column.name.lower() for group in mine for column in group.columns}
    for given in mine:
        group, new = given, dict[str, str]()
        if stream.misfits == "column":
            group, new = beside(columns.table, given, key, brought)
        comments = columns.table.comments(new)
        misfit, changes = changes_for(columns.table.kinds, group, stream.mode, columns.names, comments)
        found.append(GroupFit(group.topic, (*renamed, *changes), misfit or ""))
        renamed = []  # with the first message
        if misfit is None:
            columns = _with(columns, group, new)
    return TableFit(name, stream.mode, now is not None, key, made, tuple(found))


def _named(now: TableNow | None, stream: Stream) -> tuple[dict[str, str], SourceNames]:
    """Columns that would be renamed first, and what the names of the source would mean then."""
    names = names_in(stream, now)
    renamings = to_be_renamed(names)
    return renamings, names.renamed(renamings)


def _there(now: TableNow, renamings: Mapping[str, str]) -> _Columns:
    """The columns of a table that is there, once they are renamed."""
    was = Columns.of(now)
    table = Columns(
        {renamings.get(name, name): kind for name, kind in was.kinds.items()},
        frozenset(renamings.get(name, name) for name in was.required),
        {renamings.get(name, name): number for name, number in was.ids.items()},
        {name: renamings.get(other, other) for name, other in was.beside.items()},
    )
    return _Columns(table, names_of(now.table.schema(), now.table.specs().values()))


def _refuse_without_time(name: str, stream: Stream, names: SourceNames, columns: Iterable[str]) -> None:
    if (said := stream.event_time_column) is None:
        return
    column = names.of(said)
    if column.lower() not in {one.lower() for one in columns}:
        raise TableRefused(f"event_time {column!r} is no column of {name}: {sorted(columns)}")


def _had(now: TableNow | None, pipeline: str) -> set[str]:
    """The topics of which a table has rows. Raises TableRefused, TokenError."""
    if now is None:
        return set()
    must_be_written(now)
    token = now.token(pipeline)
    return set() if token is None else set(token.source.vector)


def _made_of(name: str, stream: Stream, groups: Iterable[Group]) -> _Columns:
    """The columns of a table that is made for these schemas. Raises TableRefused."""
    found: dict[str, Column] = {}
    for group in groups:
        found = {column.name.lower(): column for column in group.columns} | found
    if clash := first_clash(found.values(), stream):
        raise TableRefused(clash)
    for field in stream.spec:
        if field.column.lower() not in found:
            raise TableRefused(f"partition_by names {field.column!r}, which {name} would not have")
    kinds = {column.name: column.kind.type for column in found.values()}
    own = {one: kind.type for one, kind in CHANGELOG_COLUMNS.items()} if stream.mode == "changelog" else {}
    return _Columns(Columns(kinds | own), Names())


def _with(columns: _Columns, group: Group, new: Mapping[str, str]) -> _Columns:
    """The columns once a schema that fits was taken in; of `new` ones, each stands beside another."""
    kinds, names = taken_in(columns.table.kinds, group, columns.names)
    table = replace(columns.table, kinds=kinds, beside={**columns.table.beside, **new})
    return _Columns(table, names)
